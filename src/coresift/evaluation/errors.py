"""Intervals of recall and F1 if few errors were seen.

Recall and F1 depend on two counts of errors: positives that the model missed, and predictions of "positive" that are
wrong. Missed positives are rare, and the rows among which they are have large weights. If a sample has few of them, or
none, their variance cannot be estimated from the sample, and a normal interval is too short and too high. So each rare
count gets the interval of Fay and Feuer (1997) for weighted sums of Poisson counts, which holds even if none was seen.
Zou and Donner's method (2008) combines the limits of both counts to those of the metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coresift.evaluation.sampling import Sample
from coresift.types import Bools, Floats, Moments, Value

# With fewer errors than this, counted by Kish, their number gets the interval of Fay and Feuer.
FEW_ERRORS = 10.0


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
        steps = sample.own_shares / sample.chances * np.sqrt(1 - sample.chances)
        here = steps[possible]
        # A row that stands for many others is drawn rarely, so the average over all rows weights it by its step.
        step = float(here @ here / here.sum()) if here.any() else 0.0
        seen = float(np.count_nonzero(events))
        most = max(rows - float(np.count_nonzero(possible & ~events)), seen)
        return cls(total, moments, steps[events], step, (seen, most))

    @property
    def rare(self) -> bool:
        """Whether there are too few errors for a normal interval."""
        squares = float(self.steps @ self.steps)
        return self.step > 0 and (squares == 0 or float(self.steps.sum()) ** 2 / squares < FEW_ERRORS)

    def limits(self, sure: float) -> tuple[float, float]:
        """Return the lower and upper limit; each one holds with probability `sure`."""
        from scipy.special import gammaincinv, stdtrit

        if self.rare:
            middle, squares = float(self.steps.sum()), float(self.steps @ self.steps)
            low = float(gammaincinv(middle**2 / squares, 1 - sure)) * squares / middle if squares > 0 else 0.0
            above, wide = middle + self.step, squares + self.step**2
            high = float(gammaincinv(above**2 / wide, sure)) * wide / above
            ends = self.total - (middle - low), self.total + (high - middle)
        else:
            reach = float(stdtrit(max(3 * self.moments.effective, 1.0), sure)) * math.sqrt(self.moments.variance)
            ends = self.total - reach, self.total + reach
        low, high = (min(max(end, self.ends[0]), self.ends[1]) for end in ends)
        return low, high


def combined(value: Callable[[float, float], float], wrong: Count, missed: Count, sure: float) -> tuple[float, float]:
    """Return the limits of a metric that falls with both counts of errors (Zou and Donner 2008)."""
    middle = value(wrong.total, missed.total)
    (fewer_wrong, more_wrong), (fewer_missed, more_missed) = wrong.limits(sure), missed.limits(sure)
    low = math.hypot(middle - value(more_wrong, missed.total), middle - value(wrong.total, more_missed))
    high = math.hypot(value(fewer_wrong, missed.total) - middle, value(wrong.total, fewer_missed) - middle)
    return middle - low, middle + high
