"""How many answers it takes, and in which stages they are asked.

An evaluation of a given budget asks a first part, learns from it where answers differ most, and asks the rest there.
One that is to reach a half-width has three stages: a pilot of at least 200 answers, 70 % of what it predicts to be
needed, and the rest; there is no other look. If you look after every answer and stop as soon as the interval is short
enough, you stop too early too often.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from coresift.evaluation.densities import Density
from coresift.evaluation.sampling import Sample, shares

PILOT = 200
SECOND = 0.7
# The first part of a fixed budget.
FIRST = 0.3
# Where more than this part of all rows is needed, all are asked.
NEARLY_ALL = 0.95


@dataclass(frozen=True)
class Forecast:
    """What variance more answers will leave.

    Attributes:
        sample: The rows asked so far.
        variance: The variance of the estimate that they give.
        density: How further rows would be drawn.
    """

    sample: Sample
    variance: float
    density: Density

    def variance_at(self, total: int) -> float:
        """Return the predicted variance of the estimate from `total` answers in all."""
        asked, population = len(self.sample), self.sample.population
        more = min(total, population) - asked
        if more <= 0:
            return self.variance
        left = population - asked
        if more >= left:
            return 0.0
        stands_for = self.sample.weights * (left / self.sample.weights.sum())
        sizes = self.density.here / (stands_for @ self.density.here / left)
        inclusion = np.minimum(more / left * sizes, 1.0)
        new = float(stands_for @ (self.density.stakes * (1 / inclusion - 1)))
        counts = np.append(self.sample.counts.sum(axis=1), more)[:, None]
        last = float(shares(counts, np.array([population]))[-1, 0])
        return (1 - last) ** 2 * self.variance + last**2 * new

    def answers_for(self, variance: float) -> int:
        """Return how many answers in all leave this variance, at most all rows."""
        low, high = len(self.sample), self.sample.population
        if self.variance_at(low) <= variance:
            return low
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.variance_at(middle) <= variance else (middle, high)
        return high


def first_stage(population: int, budget: int | None, within: float | None) -> int:
    """Return the size of the first stage."""
    if within is None:
        assert budget is not None
        return min(population, budget if budget < 2 / FIRST else max(round(FIRST * budget), 2))
    return min(population, PILOT if budget is None else min(PILOT, budget))


def normal_quantile(confidence: float) -> float:
    """Return the quantile of the normal distribution for a two-sided interval.

    Examples:
        >>> round(normal_quantile(0.95), 3)
        1.96
    """
    from scipy.special import ndtri

    return float(ndtri(0.5 + confidence / 2))


def half_width(value: float, variance: float, confidence: float, event: float, population: int) -> float:
    """Return the half-width that an estimate of this variance will have."""
    quantile = normal_quantile(confidence)
    return quantile * math.sqrt(max(variance, 0.0))
