"""Intervals of recall and F1, from the counts of errors.

Recall and F1 depend on two counts of errors: positives that the model missed, and predictions of "positive" that are
wrong. Missed positives are rare, and the rows among which they are have large weights. If a sample has few of them, or
none, their variance cannot be estimated from the sample, and a normal interval is too short and too high. So each count
gets the mid-p version (Fay and Kim 2017) of the interval of Fay and Feuer (1997) for weighted sums of Poisson counts.
It holds even if no error was seen, and with many errors it becomes the normal interval. Zou and Donner's method (2008)
combines the limits of both counts to those of the metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coresift.evaluation.sampling import Sample
from coresift.types import Bools, Floats, Moments, Value

# The weight of an average row in the guess of what one more error would add, in errors, counted by Kish.
PRIOR_ERRORS = 10.0
# Limits are found by halving, so often that they are exact to rounding.
HALVINGS = 60


@dataclass(frozen=True, eq=False)
class Count(Value):
    """The estimated number of rows with an error of one kind.

    Attributes:
        total: The estimate.
        moments: Variance and skewness of the estimate.
        steps: How much each error in the sample adds to the random part of the estimate.
        step: How much an error of an average row would add, whether it was drawn or not.
        ends: The smallest and largest possible number.
    """

    total: float
    moments: Moments
    steps: Floats
    step: float
    ends: tuple[float, float]

    @classmethod
    def of(cls, sample: Sample, total: float, moments: Moments, events: Bools, possible: Bools, rows: float) -> Count:
        """Count the events in a sample.

        Args:
            sample: The rows that were asked.
            total: The estimated number of events among all rows.
            moments: The moments of that estimate.
            events: Which rows of the sample have the error.
            possible: Which of them could have it.
            rows: How many of all rows could have it.
        """
        steps = np.sqrt(1 - sample.chances) / sample.chances
        here = steps[possible]
        # A row that stands for many others is drawn rarely, so the average over all rows weights it by its step.
        step = float(here @ here / here.sum()) if here.any() else 0.0
        seen = float(np.count_nonzero(events))
        most = max(rows - float(np.count_nonzero(possible & ~events)), seen)
        return cls(total, moments, steps[events], step, (seen, most))

    def limits(self, sure: float) -> tuple[float, float]:
        """Return the lower and upper limit; each one holds with probability `sure`."""
        middle = float(self.steps.sum())
        if self.step <= 0:
            return self.total, self.total
        ends = (self.total - middle + self._quantile(chance) for chance in (1 - sure, sure))
        low, high = (min(max(end, self.ends[0]), self.ends[1]) for end in ends)
        return low, high

    @property
    def _one_more(self) -> float:
        """How much one more error would add: a geometric mean of those that were seen and of one in an average row.

        An error that was not seen may be where rows are rarely drawn, but the more errors were seen, the more likely it
        is like them.
        """
        total, squares = float(self.steps.sum()), float(self.steps @ self.steps)
        if squares <= 0:
            return self.step
        weight = PRIOR_ERRORS / (PRIOR_ERRORS + total**2 / squares)
        return float(self.step**weight * (squares / total) ** (1 - weight))

    def _quantile(self, chance: float) -> float:
        """Return a quantile of the count's random part: half from the errors seen, half with one more error."""
        from scipy.special import gammainc

        seen, variance, more = float(self.steps.sum()), self.moments.variance, self._one_more
        with_more, wider = seen + more, variance + more**2

        def below(end: float) -> float:
            certain = variance <= 0 or seen <= 0
            few = float(end >= seen) if certain else float(gammainc(seen**2 / variance, end * seen / variance))
            return (few + float(gammainc(with_more**2 / wider, end * with_more / wider))) / 2

        low, high = 0.0, with_more + 40 * math.sqrt(wider)
        if below(low) >= chance:
            return low
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if below(middle) < chance else (low, middle)
        return high


def combined(value: Callable[[float, float], float], wrong: Count, missed: Count, sure: float) -> tuple[float, float]:
    """Return the limits of a metric that falls with both counts of errors (Zou and Donner 2008)."""
    middle = value(wrong.total, missed.total)
    (fewer_wrong, more_wrong), (fewer_missed, more_missed) = wrong.limits(sure), missed.limits(sure)
    low = math.hypot(middle - value(more_wrong, missed.total), middle - value(wrong.total, more_missed))
    high = math.hypot(value(fewer_wrong, missed.total) - middle, value(wrong.total, fewer_missed) - middle)
    return middle - low, middle + high
