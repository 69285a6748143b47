"""Intervals of recall and F1, and of differences of models that rarely differ, from the counts of errors.

Recall and F1 depend on two counts of errors: positives that the model missed, and predictions of "positive" that are
wrong. Missed positives are rare, and the rows among which they are have large weights. If a sample has few of them, or
none, their variance cannot be estimated from the sample, and a normal interval is too short and too high. So each count
gets the mid-p version (Fay and Kim 2017) of the interval of Fay and Feuer (1997) for weighted sums of Poisson counts.
It holds even if no error was seen, and with many errors it becomes the normal interval. Zou and Donner's method (2008)
combines the limits of both counts to those of the metric.

A difference of two models has two counts, too: rows that only the first one has right, and rows that only the second
one has right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from coresift.evaluation.calibration import Calibration
from coresift.evaluation.sampling import Sample
from coresift.types import Bools, Floats, Moments, Value

# With fewer events than this, counted by Kish, a normal interval is not to be trusted.
FEW_EVENTS = 30.0
# The weight of an average row in the guess of what one more error would add, in errors, counted by Kish.
PRIOR_ERRORS = 10.0
# Limits are found by halving, so often that they are exact to rounding.
HALVINGS = 60
# The lower and the upper limit, each of which holds with the given probability.
Limits: TypeAlias = Callable[[float], tuple[float, float]]


def kish(weights: Floats) -> float:
    """Return Kish's effective sample size, (Σw)²/Σw²."""
    return float(weights.sum() ** 2 / (weights**2).sum()) if weights.size else 0.0


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
        step = average_step(steps[possible])
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

    def _quantile(self, chance: float) -> float:
        """Return a quantile of the count's random part: half from the errors seen, half with one more error."""
        from scipy.special import gammainc

        seen, variance, more = float(self.steps.sum()), self.moments.variance, one_more(self.steps, self.step)
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


def average_step(steps: Floats) -> float:
    """Return how much an error of an average row would add, from the steps of the rows in the sample.

    A row that stands for many others is drawn rarely, so the average over all rows weights it by its step.
    """
    return float(steps @ steps / steps.sum()) if steps.any() else 0.0


def one_more(seen: Floats, average: float) -> float:
    """Return how much one more error would add: a geometric mean of those that were seen and of one in an average row.

    An error that was not seen may be where rows are rarely drawn, but the more errors were seen, the more likely it is
    like them.
    """
    total, squares = float(seen.sum()), float(seen @ seen)
    if squares <= 0:
        return average
    weight = PRIOR_ERRORS / (PRIOR_ERRORS + total**2 / squares)
    return float(average**weight * (squares / total) ** (1 - weight))


def combined(value: Callable[[float, float], float], wrong: Count, missed: Count, sure: float) -> tuple[float, float]:
    """Return the limits of a metric that falls with both counts of errors (Zou and Donner 2008)."""
    middle = value(wrong.total, missed.total)
    (fewer_wrong, more_wrong), (fewer_missed, more_missed) = wrong.limits(sure), missed.limits(sure)
    low = math.hypot(middle - value(more_wrong, missed.total), middle - value(wrong.total, more_missed))
    high = math.hypot(value(fewer_wrong, missed.total) - middle, value(wrong.total, fewer_missed) - middle)
    return middle - low, middle + high


def difference_limits(calibration: Calibration, signs: Floats, penalty: float, rows: int) -> Limits | None:
    """Return the limits of Σ signs over all rows; None if so many rows differ that a normal interval is better.

    If it is known where models differ, rows that only one has right are rows that the other has wrong, so the counts
    are correlated, and the limits are wider by as much as the difference has more variance than both counts.

    Args:
        calibration: The sample, and what is known about its rows.
        signs: 1 for a row that only the first model has right, −1 if only the second one has, and else 0.
        penalty: The penalty of the regression.
        rows: How many rows can differ.
    """
    differs = signs != 0
    if not rows or kish(calibration.sample.weights[differs]) >= FEW_EVENTS:
        return None
    more, fewer = (_one_sided(calibration, signs == sign, differs, penalty, rows) for sign in (1, -1))
    middle = more.total - fewer.total
    apart, together = more.moments.variance + fewer.moments.variance, calibration.fit(signs, penalty).moments.variance
    wider = math.sqrt(max(together / apart, 1.0)) if apart > 0 else 1.0

    def limits(sure: float) -> tuple[float, float]:
        (least_more, most_more), (least_fewer, most_fewer) = more.limits(sure), fewer.limits(sure)
        low = math.hypot(max(more.total - least_more, 0.0), max(most_fewer - fewer.total, 0.0))
        high = math.hypot(max(most_more - more.total, 0.0), max(fewer.total - least_fewer, 0.0))
        return middle - wider * low, middle + wider * high

    return limits


def _one_sided(calibration: Calibration, events: Bools, differs: Bools, penalty: float, rows: int) -> Count:
    """Count the rows that only one of two models has right.

    The fewer there are, the less their estimated variance is trusted: it is too small if a regression fits the few by
    chance. Then it is at least the variance without a regression.
    """
    sample = calibration.sample
    fit = calibration.fit(events.astype(np.float64), penalty)
    steps = np.sqrt(1 - sample.chances) / sample.chances
    least = max(1 - kish(sample.weights[events]) / FEW_EVENTS, 0.0) * float(steps[events] @ steps[events])
    moments = replace(fit.moments, variance=max(fit.moments.variance, least))
    seen, others = float(np.count_nonzero(events)), float(np.count_nonzero(differs & ~events))
    return Count(fit.total, moments, steps[events], average_step(steps), (seen, max(rows - others, seen)))
