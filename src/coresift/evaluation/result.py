"""The result of an evaluation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from coresift.checks import positive
from coresift.notebook import card, counted
from coresift.types import Floats, Interval

# How many groups a remark names.
MOST_NAMED = 6


@dataclass(frozen=True, repr=False)
class Figure:
    """One number with its interval.

    Attributes:
        value: The estimate.
        low: The lower end of its interval.
        high: The upper end of its interval.
        standard_error: The standard error of the value.
        confidence: The probability that the interval contains the true value.
        rows: How many rows could be asked.
        asked: How many of them were asked.
        effective_sample_size: How many uniform rows, drawn with replacement, would be as precise.
    """

    value: float
    low: float
    high: float
    standard_error: float
    confidence: float
    rows: int
    asked: int
    effective_sample_size: float

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2

    def answers_for(self, within: float) -> int:
        """Return about how many answers in total would give an interval of ± `within`, drawn in the same way."""
        ratio = (positive("within", within) / max(self.half_width, 1e-300)) ** 2
        left = 1 / max(self.asked, 1) - 1 / self.rows
        return min(math.ceil(1 / (ratio * left + 1 / self.rows)), self.rows) if left > 0 else self.rows

    def __str__(self) -> str:
        return f"{shown(self.value)} [{shown(self.low)}, {shown(self.high)}]"

    def __repr__(self) -> str:
        return f"Figure({self}, {self.asked:,} of {self.rows:,} rows asked)"


@dataclass(frozen=True)
class Missing:
    """Rows whose answer nobody could tell.

    Attributes:
        rows: The number of these rows.
        worst: The estimate if all of them had the worst possible answer.
        best: The estimate if all of them had the best possible answer.
    """

    rows: int
    worst: float
    best: float


@dataclass(frozen=True, repr=False)
class Evaluation(Figure):
    """A number about all rows, from answers for a few of them.

    Attributes:
        metric: The name of the metric.
        n: The number of all rows; `rows` is the number of relevant rows.
        stages: How many answers each stage asked.
        figures: Every number that was estimated, by name: one per model, and differences such as "A − B".
        groups: The number in each group, by its name.
        missing: How much rows without an answer could change the estimate, if there are any.
        verdicts: What the differences say, in full sentences.
        remarks: What to know about the numbers, in full sentences.
    """

    metric: str = ""
    n: int = 0
    stages: tuple[int, ...] = ()
    figures: dict[str, Figure] = field(default_factory=dict)
    groups: dict[Any, Figure] = field(default_factory=dict)
    missing: Missing | None = None
    verdicts: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def to_pandas(self) -> Any:
        """Return all figures as a table: one line per number and per group."""
        import pyarrow as pa

        named = [("", name or self.metric, figure) for name, figure in self.figures.items()]
        named += [(str(group), self.metric, figure) for group, figure in self.groups.items()]
        lines = [{"group": group, "name": name, **vars(figure)} for group, name, figure in named]
        return pa.Table.from_pylist(lines).to_pandas()

    def __repr__(self) -> str:
        asked = f"{self.asked:,} of {self.n:,} rows asked"
        return f"Evaluation({self.metric} {self}, {asked}, effective sample size {self.effective_sample_size:,.0f})"

    def _repr_html_(self) -> str:
        lines = [(self.metric, str(self)), ("asked", f"{self.asked:,} of {self.n:,} rows")]
        lines.append(("effective sample size", f"{self.effective_sample_size:,.0f}"))
        lines += [(name, str(figure)) for name, figure in self.figures.items() if name]
        lines += [(str(name), str(figure)) for name, figure in self.groups.items()]
        if self.missing is not None:
            span = f"between {self.missing.worst:.4g} and {self.missing.best:.4g}, whatever their answers are"
            lines.append(("no answer", f"{counted(self.missing.rows, 'row')}; the estimate is {span}"))
        if self.half_width > 0 and math.isfinite(self.half_width):
            half = halved(self.half_width)
            lines.append((f"for ± {half:g}", f"about {self.answers_for(half):,} answers"))
        return card(f"Evaluation with {100 * self.confidence:g}% intervals", lines, (*self.verdicts, *self.remarks))


def figure_of(interval: Interval, confidence: float, rows: int, asked: int, spread: float, n: int) -> Figure:
    """Return a figure; `spread` is the variance of one row's linearized answer, on the scale of the value.

    The effective sample size is m = S²/(V + S²/n).
    """
    variance = interval.standard_error**2
    worth = spread / (variance + spread / n) if spread > 0 and math.isfinite(variance) else float(asked)
    parts = interval.value, interval.low, interval.high, interval.standard_error
    return Figure(*parts, confidence, rows, asked, worth)


def missed_width(result: Evaluation, within: float, budget: int | None) -> str:
    """Return a sentence if an interval is wider than wanted; otherwise nothing."""
    name, worst = max(result.figures.items(), key=lambda item: item[1].half_width)
    if worst.half_width <= within:
        return ""
    needed = f"± {within:g} takes about {worst.answers_for(within):,} answers in total"
    of = f" of {name}" if name and len(result.figures) > 1 else ""
    if budget is not None and result.asked >= 0.98 * budget:
        return f"A budget of {budget:,} answers gives ± {worst.half_width:.3g}{of}; {needed}."
    return f"The interval{of} is ± {worst.half_width:.3g}, wider than ± {within:g}; {needed}."


def missed_groups(groups: dict[Any, Figure], within: Floats) -> str:
    """Return a sentence if the interval of a group is wider than wanted; otherwise nothing."""
    wide = [
        f"{name} ± {part.half_width:.3g} (± {wanted:g} takes about {part.answers_for(wanted):,} answers)"
        for (name, part), wanted in zip(groups.items(), within.tolist(), strict=False)
        if math.isfinite(part.half_width) and part.half_width > wanted
    ]
    more = f", and {len(wide) - MOST_NAMED} more" if len(wide) > MOST_NAMED else ""
    listed = "; ".join(wide[:MOST_NAMED])
    return f"The interval is wider than wanted in {counted(len(wide), 'group')}: {listed}{more}." if wide else ""


def halved(half_width: float) -> float:
    """Return half of a half-width, rounded: results say everywhere how many answers this one takes.

    >>> halved(0.0297)
    0.015
    """
    return float(f"{half_width / 2:.2g}")


def shown(value: float) -> str:
    """Return a number for people, with four significant digits and never in exponential form if it is large.

    Examples:
        >>> shown(0.12345), shown(12251.4)
        ('0.1235', '12,251')
    """
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def verdict(name: str, figure: Figure, *, points: bool) -> str:
    """Return one sentence about the difference of two models.

    Args:
        name: The two models, such as "A − B".
        figure: The difference.
        points: Whether it is a difference of shares, which is shown in percentage points, and more is better.

    Examples:
        >>> verdict("A − B", Figure(0.012, 0.005, 0.019, 0.0035, 0.95, 1000, 500, 500.0), points=True)
        'A is better than B by 1.2 ± 0.7 points.'
    """
    first, _, second = name.partition(" − ")
    scale, unit, more = (100, " points", "better") if points else (1, "", "higher")
    low, high = scale * figure.low, scale * figure.high
    if figure.low <= 0 <= figure.high:
        return f"No difference is shown: {name} is between {low:.3g} and {high:.3g}{unit}."
    winner, loser = (first, second) if figure.value > 0 else (second, first)
    value, half = abs(scale * figure.value), scale * figure.half_width
    # The half-width has one significant digit, or two if the first is 1, and the value has as many decimals.
    digits = max((-math.floor(math.log10(half)) + (f"{half:e}"[0] == "1")) if half > 0 else 3, 0)
    return f"{winner} is {more} than {loser} by {value:.{digits}f} ± {half:.{digits}f}{unit}."
