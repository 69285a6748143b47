"""Axes of a drawing: the position of a value, round numbers to mark, and the name of the axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coresift.reporting.markup import text

# The size of every drawing, narrow enough that its text is readable on a phone.
WIDTH, HEIGHT = 440, 250
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 28, 44


@dataclass(frozen=True)
class Axis:
    """A range of values and its name; `log` makes the scale logarithmic, `percent` shows shares as percentages.

    `at` are the values to mark, by default round ones.
    """

    name: str
    low: float
    high: float
    percent: bool = False
    log: bool = False
    at: tuple[float, ...] = ()

    @classmethod
    def around(
        cls,
        name: str,
        values: Iterable[float],
        *,
        zero: bool = False,
        percent: bool = False,
        log: bool = False,
        at: Sequence[float] = (),
    ) -> Axis:
        """Return an axis from a round number to a round number that includes all values.

        >>> Axis.around("accuracy", [0.71, 0.88], percent=True).marks()
        [(0.7, '70%'), (0.75, '75%'), (0.8, '80%'), (0.85, '85%'), (0.9, '90%')]
        """
        finite = [value for value in values if math.isfinite(value) and not (log and value <= 0)]
        low, high = min(finite, default=0.0), max(finite, default=1.0)
        if zero:
            low, high = min(low, 0.0), max(high, 0.0)
        if log and finite:
            return cls(name, low / 1.08, high * 1.08, percent, True, tuple(at))
        if low == high:
            low, high = (low - 1, high + 1) if not zero else (min(low, 0.0), max(high, low + 1))
        step = round_step((high - low) / 4)
        return cls(name, math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, percent)

    def place(self, value: float) -> float:
        """Return the position of a value, from 0 at the low end to 1 at the high end; values beyond are clipped."""
        if self.log:
            span = math.log(self.high / self.low) or 1.0
            return min(max(math.log(max(value, 1e-300) / self.low) / span, 0.0), 1.0)
        return min(max((value - self.low) / ((self.high - self.low) or 1.0), 0.0), 1.0)

    def marks(self) -> list[tuple[float, str]]:
        """Return the values to mark, with their labels."""
        if self.at:
            values = list(self.at)
        elif self.log:
            values = self._powers((1, 2, 5))
            values = values if len(values) > 2 else self._powers((1, 1.5, 2, 3, 4, 5, 7)) or [self.low, self.high]
        else:
            step = round_step((self.high - self.low) / 4)
            first = math.ceil(self.low / step - 1e-9)
            values = [round(turn * step, 12) for turn in range(first, math.floor(self.high / step + 1e-9) + 1)]
        return [(value, percentage(value) if self.percent else short(value)) for value in values]

    def _powers(self, factors: Sequence[float]) -> list[float]:
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        values = [factor * 10.0**power for power in powers for factor in factors]
        return [value for value in values if self.low <= value <= self.high]


def frame(across: Axis, up: Axis, shapes: Sequence[str], said: str, *, classes: str = "") -> str:
    """Return a drawing with both axes marked and named; `said` is its description for screen readers."""
    lines = [
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{vertical(up, value):.1f}" y2="{vertical(up, value):.1f}"/>'
        f'<text x="{LEFT - 7}" y="{vertical(up, value) + 4:.1f}" text-anchor="end">{label}</text>'
        for value, label in up.marks()
    ]
    base = HEIGHT - BOTTOM
    marks = _apart([(horizontal(across, value), label) for value, label in across.marks()])
    lines += [f'<text x="{x:.1f}" y="{base + 17}" text-anchor="middle">{label}</text>' for x, label in marks]
    lines.append(f'<text class="axis" x="0" y="13">{text(up.name)}</text>')
    lines.append(
        f'<text class="axis" x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{text(across.name)}</text>'
    )
    return drawing([*lines, *shapes], said, WIDTH, HEIGHT, classes)


def drawing(shapes: Sequence[str], said: str, width: float, height: float, classes: str = "") -> str:
    """Return shapes as an image with a description."""
    kind = f' class="{classes}"' if classes else ""
    return f'<svg{kind} viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{text(said)}">{"".join(shapes)}</svg>'


def horizontal(axis: Axis, value: float) -> float:
    """Return the horizontal position of a value."""
    return LEFT + (WIDTH - LEFT - RIGHT) * axis.place(value)


def vertical(axis: Axis, value: float) -> float:
    """Return the vertical position of a value, from the top."""
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - axis.place(value))


def _apart(marks: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Leave out labels that would overlap the one before."""
    kept: list[tuple[float, str]] = []
    for x, label in marks:
        room = 3.6 * (len(label) + len(kept[-1][1])) + 6 if kept else 0
        if not kept or x - kept[-1][0] >= room:
            kept.append((x, label))
    return kept


def round_step(about: float) -> float:
    """Return the next round number: 1, 2, 2.5 or 5 times a power of ten.

    >>> round_step(0.0425), round_step(7), round_step(0)
    (0.05, 10.0, 1.0)
    """
    if not about > 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(about))
    return next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= about * 0.999)


def percentage(value: float) -> str:
    """Return a share as a percentage.

    >>> percentage(0.125), percentage(0.9), percentage(-0.002)
    ('12.5%', '90%', '−0.2%')
    """
    return f"{100 * value:.3g}%".replace("-", "−")


def short(value: float) -> str:
    """Return a number with few digits.

    >>> short(0), short(1234.5), short(0.12345), short(1e7)
    ('0', '1,234', '0.123', '1e7')
    """
    if value == 0:
        return "0"
    if abs(value) >= 1e6 or abs(value) < 0.001:
        return f"{value:.2g}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e").replace("-", "−")
    digits = f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return digits.replace("-", "−")
