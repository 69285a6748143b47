"""Estimates: numbers with intervals, and what they are based on."""

from __future__ import annotations

from dataclasses import dataclass

from coresift.notebook import card, interval_texts


@dataclass(frozen=True, repr=False)
class Interval:
    """A number with its standard error and confidence interval."""

    value: float
    low: float
    high: float
    standard_error: float

    def __repr__(self) -> str:
        value, low, high = interval_texts(self.value, self.low, self.high)
        return f"{value} [{low}, {high}]"


@dataclass(frozen=True, repr=False)
class Estimate:
    """A total and a mean over all rows, with intervals, the method, and what they are based on."""

    total: Interval
    mean: Interval
    confidence: float
    effective_size: float
    method: str
    assumption: str
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        warnings = f"; warning: {' '.join(self.warnings)}" if self.warnings else ""
        return f"Estimate(total={self.total}, mean={self.mean}, {100 * self.confidence:g}% intervals{warnings})"

    def _repr_html_(self) -> str:
        def text(interval: Interval) -> str:
            value, low, high = interval_texts(interval.value, interval.low, interval.high)
            return f"{value}, from {low} to {high}"

        lines = [("total", text(self.total)), ("mean", text(self.mean))]
        lines.append(("based on", f"{self.effective_size:,.0f} rows of equal weight; {self.method}"))
        return card(f"Estimate with {100 * self.confidence:g}% intervals", lines, self.warnings)
