"""Intervals of what was estimated: normal with corrections where there is enough, exact where events are rare."""

from __future__ import annotations

import math

import numpy as np

from coresift.estimation.intervals import unskew
from coresift.estimation.rates import rate_interval
from coresift.evaluation.metrics import Target
from coresift.evaluation.sampling import Sample
from coresift.types import Floats, Interval

# With fewer positives or negatives than this, counted by Kish, a rate gets the exact interval.
FEW_EVENTS = 30.0


def interval_of(target: Target, sample: Sample, confidence: float, extra: float = 0.0) -> Interval:
    """Return an estimate with its interval.

    Args:
        target: The estimate.
        sample: The rows that were asked.
        confidence: The probability that the interval should cover.
        extra: Variance besides that of the draw.
    """
    from scipy.special import stdtrit

    moments = target.fit.moments
    variance = moments.variance + extra
    error = math.sqrt(variance)
    if target.event and not sample.complete and is_rare(target.linear, sample.weights):
        return _rare(target, sample, variance, confidence)
    if not 0 < error < math.inf:
        return Interval(target.value, target.value - error, target.value + error, error)
    # The variance is itself estimated, from as many answers as three times its equal parts.
    freedom = 3 * moments.effective * (variance / moments.variance) ** 2 if moments.variance > 0 else math.inf
    quantile = float(stdtrit(max(freedom, 1.0), 0.5 + confidence / 2))
    low, high = (unskew(q, moments.third / error**3) for q in (quantile, -quantile))
    return Interval(target.value, target.value - error * low, target.value - error * high, error)


def is_rare(linear: Floats, weights: Floats) -> bool:
    """Are there so few positives, or negatives, that a normal interval does not hold?"""
    positive = linear != 0
    return min(kish(weights[positive]), kish(weights[~positive])) < FEW_EVENTS


def kish(weights: Floats) -> float:
    """Return how many equal weights are worth as much."""
    return float(weights.sum() ** 2 / (weights**2).sum()) if weights.size else 0.0


def _rare(target: Target, sample: Sample, variance: float, confidence: float) -> Interval:
    """Return the exact interval of a rate, on the scale of the target."""
    unit = target.event * sample.population
    found = rate_interval(
        (target.linear != 0).astype(np.float64),
        sample.weights,
        variance / unit**2,
        population=sample.population,
        least_inclusion=min(1 / float(sample.weights.max()), 1.0),
        confidence=confidence,
    )
    low, high = found.low * unit, found.high * unit
    return Interval(min(max(target.value, low), high), low, high, found.standard_error * unit)
