"""Keep intervals honest: no zero width if only some rows were sampled, and no end outside of what is possible.

The design's variance comes from the differences between sampled values. If they hardly differ, or if a few of them
dominate, it is too small: 0 errors in 200 rows does not mean that there are none. Rates then get exact intervals
(`rates`); other values that are all equal may differ in unsampled rows, as far as their known range allows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from coresift.checks import refuse
from coresift.estimation.rates import clopper_pearson, constant_interval, is_binary, rate_interval, within
from coresift.types import Floats, Interval, WeightedSelection

# If the effective numbers (Kish) of positives and negatives are above this, the corrected normal interval is valid for
# a rate. It is shorter than the exact interval, whose m <= B trials lose what a good design gains.
MANY_EVENTS = 60.0
# A standard error below this fraction of Σ w·|y| is rounding.
ROUNDING = 1e-9
UNKNOWN_ENDS = (-math.inf, math.inf)


@dataclass(frozen=True)
class Values:
    """Sampled values, the range of all rows' values, and whether the user gave that range."""

    sampled: Floats
    ends: tuple[float, float]
    ends_given: bool

    @classmethod
    def of(cls, sampled: Floats, ends: tuple[float, float] | None) -> Values:
        """Check the range, or use the one that the sampled values suggest: [0, 1], [0, ∞), or no limits."""
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
        """Whether the sampled values are all 0 or 1, and the range is [0, 1]."""
        return self.ends == (0.0, 1.0) and is_binary(self.sampled)

    @property
    def equal(self) -> bool:
        """Whether all sampled values are equal."""
        return bool(self.sampled.size and self.sampled.min() == self.sampled.max())


def mean_limits(
    values: Values, weights: Floats, mean: Interval, *, counted: float, least: float, confidence: float, plain: bool
) -> Interval:
    """Return the interval of a mean, corrected so that it has positive width and stays within the range.

    Args:
        values: The sampled values.
        weights: Their weights.
        mean: The mean, with the interval from the design's variance.
        counted: How many rows the mean is over.
        least: The smallest inclusion probability of any of these rows.
        confidence: The coverage probability of the interval.
        plain: Whether the mean is the plain weighted one, without predictions.

    Returns:
        The interval, within the range of the values.
    """
    sampled = values.sampled
    if not sampled.size:
        return mean
    if sampled.size >= counted or not math.isfinite(mean.standard_error):
        return within(mean, values.ends)
    if plain and values.rate and has_few_events(sampled, weights):
        population = math.ceil(counted)
        exact = rate_interval(
            sampled,
            weights * (population / counted),
            mean.standard_error**2,
            population=population,
            least_inclusion=least,
            confidence=confidence,
        )
        return within(_around(mean, exact), values.ends)
    size = float(weights @ np.abs(sampled)) / counted
    if mean.standard_error > ROUNDING * size:
        return within(mean, values.ends)
    return _without_spread(values, mean, counted, least, confidence, plain)


def least_inclusion(selection: WeightedSelection) -> float:
    """Return the smallest inclusion probability of any row: the selection's own, or that of its heaviest row."""
    if selection.least_inclusion > 0:
        return min(selection.least_inclusion, 1.0)
    return min(1 / float(selection.weights.max(initial=1.0)), 1.0)


def has_few_events(sampled: Floats, weights: Floats) -> bool:
    """Return whether there are too few positives or negatives for a normal interval."""
    return min(_kish(weights[sampled == 1]), _kish(weights[sampled == 0])) < MANY_EVENTS


def _kish(weights: Floats) -> float:
    """Return Kish's effective sample size."""
    return float(weights.sum() ** 2 / (weights**2).sum()) if weights.size else 0.0


def _without_spread(
    values: Values, mean: Interval, counted: float, least: float, confidence: float, plain: bool
) -> Interval:
    """Return the interval of a mean if sampled values show no variance: rows that differ are rare, but may exist."""
    sampled = values.sampled
    if plain and values.equal:
        population = math.ceil(counted)
        common = {"rows": sampled.size, "population": population, "least_inclusion": least, "confidence": confidence}
        exact = constant_interval(float(sampled[0]), values.ends, **common)  # type: ignore[arg-type]
        return within(_around(mean, exact), values.ends)
    # All values were as predicted, or proportional to their probabilities; unsampled values may be anywhere in reach.
    trials = max(min(counted * least, float(sampled.size)), 1.0)
    share_of_others = min(float(clopper_pearson(0.0, trials, confidence)[1]), 1 - sampled.size / counted)
    reach = values.ends[1] - values.ends[0] if math.isfinite(values.ends[1] - values.ends[0]) else _reach(sampled)
    widened = Interval(
        mean.value, mean.value - share_of_others * reach, mean.value + share_of_others * reach, mean.standard_error
    )
    return within(widened, values.ends)


def _around(mean: Interval, exact: Interval) -> Interval:
    """Return the exact interval, widened to contain the mean, which may lie slightly outside of it."""
    return Interval(mean.value, min(exact.low, mean.value), max(exact.high, mean.value), mean.standard_error)


def _reach(sampled: Floats) -> float:
    """Return the range of the sampled values, or their size if they are all equal."""
    width = float(sampled.max() - sampled.min())
    return width if width > 0 else float(np.abs(sampled).max())
