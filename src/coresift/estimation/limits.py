"""What an interval may say at most: no width of zero where rows were sampled, and no end outside what is possible.

The design's variance comes from how sampled values differ. Where they hardly do, or few of them carry all, it says too
little: 0 of 200 wrong is no certainty. Rates have exact intervals then (`rates`); other values that are all equal can
differ in rows that were not sampled, as far as the range that is known for them reaches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from coresift.checks import refuse
from coresift.estimation.rates import clopper_pearson, constant_interval, is_binary, rate_interval, within
from coresift.types import Floats, Interval, WeightedSelection

# With more positives and negatives than this, counted by Kish, the corrected normal interval holds for a rate, and it
# keeps what a good design has gained, which the exact interval at m <= B trials does not.
MANY_EVENTS = 60.0
# A standard error below this part of Σ w·|y| is rounding.
ROUNDING = 1e-9
UNKNOWN_ENDS = (-math.inf, math.inf)


@dataclass(frozen=True)
class Values:
    """Sampled values, the range that all rows' values are in, and what of it was told (else it is taken from them)."""

    sampled: Floats
    ends: tuple[float, float]
    told: bool

    @classmethod
    def of(cls, sampled: Floats, ends: tuple[float, float] | None) -> Values:
        """Check the range, or take the one that the sampled values suggest: [0, 1], [0, ∞), or no end at all."""
        if ends is not None:
            least, most = (float(end) for end in ends)
            if not least < most or (sampled.size and not least <= sampled.min() <= sampled.max() <= most):
                refuse("ends", "the smallest and largest value that a row can have", f"{least:g} to {most:g}")
            return cls(sampled, (least, most), True)
        if is_binary(sampled):
            return cls(sampled, (0.0, 1.0), False)
        return cls(sampled, (0.0, math.inf) if sampled.min() >= 0 else UNKNOWN_ENDS, False)

    @property
    def rate(self) -> bool:
        """The values are 0 and 1, as far as they were sampled and as the range allows."""
        return self.ends == (0.0, 1.0) and is_binary(self.sampled)

    @property
    def equal(self) -> bool:
        """All sampled values are the same."""
        return bool(self.sampled.size and self.sampled.min() == self.sampled.max())


def mean_limits(
    values: Values, weights: Floats, mean: Interval, *, counted: float, least: float, confidence: float, plain: bool
) -> Interval:
    """Return the interval of a mean as it may be said.

    Args:
        values: The sampled values.
        weights: Their weights.
        mean: The mean, with the interval from the design's variance.
        counted: How many rows the mean is over.
        least: The smallest probability that any of these rows had to be sampled.
        confidence: The probability that the interval should cover.
        plain: The mean is the weighted one, without predictions.

    Returns:
        The interval, within the range of the values.
    """
    sampled = values.sampled
    if not sampled.size:
        return mean
    if sampled.size >= counted or not math.isfinite(mean.standard_error):
        return within(mean, values.ends)
    if plain and values.rate and _few_events(sampled, weights):
        population = math.ceil(counted)
        found = rate_interval(
            sampled,
            weights * (population / counted),
            mean.standard_error**2,
            population=population,
            least_inclusion=least,
            confidence=confidence,
        )
        return within(_around(mean, found), values.ends)
    size = float(weights @ np.abs(sampled)) / counted
    if mean.standard_error > ROUNDING * size:
        return within(mean, values.ends)
    return _without_spread(values, mean, counted, least, confidence, plain)


def least_inclusion(selection: WeightedSelection) -> float:
    """Return the smallest probability that a row had: as the selection says, else that of its heaviest row."""
    if selection.least_inclusion > 0:
        return min(selection.least_inclusion, 1.0)
    return min(1 / float(selection.weights.max(initial=1.0)), 1.0)


def _few_events(sampled: Floats, weights: Floats) -> bool:
    """Are there so few positives, or negatives, that a normal interval is no good?"""
    return min(_kish(weights[sampled == 1]), _kish(weights[sampled == 0])) < MANY_EVENTS


def _kish(weights: Floats) -> float:
    return float(weights.sum() ** 2 / (weights**2).sum()) if weights.size else 0.0


def _without_spread(
    values: Values, mean: Interval, counted: float, least: float, confidence: float, plain: bool
) -> Interval:
    """Return the interval of a mean whose design saw no difference: rows that differ are rare, but may exist."""
    sampled = values.sampled
    if plain and values.equal:
        population = math.ceil(counted)
        common = {"rows": sampled.size, "population": population, "least_inclusion": least, "confidence": confidence}
        found = constant_interval(float(sampled[0]), values.ends, **common)  # type: ignore[arg-type]
        return within(_around(mean, found), values.ends)
    # All values were as predicted, or in proportion to their probabilities; others may be off as far as values differ.
    trials = max(min(counted * least, float(sampled.size)), 1.0)
    others = min(float(clopper_pearson(0.0, trials, confidence)[1]), 1 - sampled.size / counted)
    reach = values.ends[1] - values.ends[0] if math.isfinite(values.ends[1] - values.ends[0]) else _reach(sampled)
    around = Interval(mean.value, mean.value - others * reach, mean.value + others * reach, mean.standard_error)
    return within(around, values.ends)


def _around(mean: Interval, found: Interval) -> Interval:
    """Return the found ends around the mean itself, which may lie a little outside of them."""
    return Interval(mean.value, min(found.low, mean.value), max(found.high, mean.value), mean.standard_error)


def _reach(sampled: Floats) -> float:
    """Return how far sampled values differ, or how large they are where they do not."""
    apart = float(sampled.max() - sampled.min())
    return apart if apart > 0 else float(np.abs(sampled).max())
