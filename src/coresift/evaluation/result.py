"""What an evaluation returns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from coresift.checks import positive
from coresift.notebook import card
from coresift.types import Interval


@dataclass(frozen=True, repr=False)
class Figure:
    """One number with its interval.

    Attributes:
        value: The estimate.
        low: Where its interval begins.
        high: Where its interval ends.
        standard_error: The standard error of the value.
        confidence: How probable it is that the interval has the true value in it.
        rows: How many rows it is about.
        asked: How many of them were asked.
        effective_sample_size: How many uniform rows, drawn with replacement, would have told as much.
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

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"

    def __repr__(self) -> str:
        return f"Figure({self}, {self.asked:,} of {self.rows:,} rows asked)"


@dataclass(frozen=True, repr=False)
class Evaluation(Figure):
    """A number about all rows, from answers for few of them.

    Attributes:
        metric: What was evaluated.
        n: How many rows there are in all.
        stages: How many answers each stage asked.
        figures: Every number that was estimated, by name; for a metric of one number only that.
        groups: The number in each group, by its name.
        remarks: What to know about the numbers, in full sentences.
    """

    metric: str = ""
    n: int = 0
    stages: tuple[int, ...] = ()
    figures: dict[str, Figure] = field(default_factory=dict)
    groups: dict[Any, Figure] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def answers_for(self, within: float) -> int:
        """Return about how many answers in all would give an interval of ± `within`, drawn as these were."""
        wanted = (positive("within", within) / max(self.half_width, 1e-300)) ** 2
        left = 1 / max(self.asked, 1) - 1 / self.rows
        return min(math.ceil(1 / (wanted * left + 1 / self.rows)), self.rows) if left > 0 else self.rows

    def __repr__(self) -> str:
        asked = f"{self.asked:,} of {self.n:,} rows asked"
        return f"Evaluation({self.metric} {self}, {asked}, effective sample size {self.effective_sample_size:,.0f})"

    def _repr_html_(self) -> str:
        lines = [(self.metric, str(self)), ("asked", f"{self.asked:,} of {self.n:,} rows")]
        lines.append(("effective sample size", f"{self.effective_sample_size:,.0f}"))
        lines += [(name, str(figure)) for name, figure in self.figures.items() if name]
        lines += [(str(name), str(figure)) for name, figure in self.groups.items()]
        if self.half_width > 0:
            half = self.half_width / 2
            lines.append((f"for ± {half:.3g}", f"about {self.answers_for(half):,} answers"))
        return card(f"Evaluation with {100 * self.confidence:g}% intervals", lines, self.remarks)


def figure_of(interval: Interval, confidence: float, rows: int, asked: int, spread: float) -> Figure:
    """Return a figure; `spread` is the variance of one row's linearized answer, on the scale of the value.

    The effective sample size is m = S²/(V + S²/n).
    """
    variance = interval.standard_error**2
    worth = spread / (variance + spread / rows) if spread > 0 else float(asked)
    parts = interval.value, interval.low, interval.high, interval.standard_error
    return Figure(*parts, confidence, rows, asked, worth)
