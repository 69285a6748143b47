"""The uncertainty of a weighted total, from the drawn rows alone: variance, skewness, and intervals.

The errors of the phases are uncorrelated, so their moments add up. The strategy that drew a phase computes its moments.
"""

from __future__ import annotations

import math

import numpy as np

from coresift.types import UNKNOWN, Floats, Interval, Ints, Moments, PhaseSample, WeightedSelection, shown

# The skewness correction is capped at this over the quantile: larger skewness from few rows is mostly noise, and would
# make intervals far too wide.
MOST_SKEWED = 0.8


def interval(selection: WeightedSelection, total: float, values: Floats, confidence: float) -> Interval:
    """Return the total with an interval, from the design's variance of the weighted total of `values`.

    `values` has one number per selected row, or one line of such numbers per phase.
    """
    from scipy.special import stdtrit

    # Scaling by a power of two is exact, and keeps squares and fourth powers of very large and small values finite.
    unit = unit_of(values)
    summed = moments(selection, values / unit)
    error = math.sqrt(summed.variance)
    if not 0 < error < math.inf:
        return Interval(total, total - error, total + error, error)
    # The variance is a sum of `effective` equal squares, each of which has three terms: 3·effective degrees of freedom.
    quantile = float(stdtrit(3 * summed.effective, 0.5 + confidence / 2))
    cube = error**3
    skewness = summed.third / cube if cube > 0 else 0.0  # an error so small has none that could be told
    low, high = (skewed_quantile(q, skewness) for q in (quantile, -quantile))
    error *= unit
    return Interval(total, total - error * low, total - error * high, error)


def unit_of(values: Floats) -> float:
    """Return the power of two that scales the largest value to between 1/2 and 1; 1 if all are 0.

    Examples:
        >>> unit_of(np.array([0.0, -5.0])), unit_of(np.zeros(2))
        (8.0, 1.0)
    """
    largest = float(np.abs(values).max(initial=0.0))
    # A smaller unit would be subnormal and lose precision, and 2**1024 overflows.
    return math.ldexp(1.0, min(max(math.frexp(largest)[1], -1000), 1023)) if largest > 0 else 1.0


def bernstein(selection: WeightedSelection, values: Floats, ends: tuple[float, float], doubt: float) -> float:
    """Return a bound on the error of the total of independent draws that fails with probability at most `doubt` (δ).

    This is the two-sided empirical Bernstein bound (Maurer and Pontil 2009): for s draws in an interval of length R and
    with sample variance V, s·mean is off by at most √(2sV·ln(4/δ)) + 7sR·ln(4/δ)/(3(s − 1)). All values, drawn or not,
    must lie within `ends`; a draw contributes value/inclusion, with inclusion at least `selection.least_inclusion`.
    """
    drawn = uncertain(selection, 2)
    draws = int(selection.multiplicity[drawn].sum())
    if draws < 2:
        return math.inf
    expanded = (1 - selection.share[drawn]) * values[drawn] / selection.inclusion[drawn]
    expanded = np.repeat(expanded, selection.multiplicity[drawn])
    length = (max(ends[1], 0.0) - min(ends[0], 0.0)) / selection.least_inclusion
    logarithm = math.log(4 / doubt)
    spread = math.sqrt(2 * draws * float(expanded.var(ddof=1)) * logarithm)
    return spread + 7 * draws * length * logarithm / (3 * (draws - 1))


def moments(selection: WeightedSelection, values: Floats) -> Moments:
    """Return the summed moments of all phases; infinite if a phase's strategy has no moments.

    `values` has one number per selected row, or one line of such numbers per phase.
    """
    total = Moments()
    lines = np.broadcast_to(values, (len(selection.phases), len(selection)))
    for number, strategy in enumerate(selection.phases, start=1):
        if strategy is not None:
            total += strategy.moments(phase_sample(selection, number, lines[number - 1])) or UNKNOWN
    return total


def without_moments(selection: WeightedSelection) -> list[str]:
    """Return the names of the strategies that drew a phase but have no moments."""
    zeros = np.zeros(len(selection))
    return [
        shown(strategy.record())
        for number, strategy in enumerate(selection.phases, start=1)
        if strategy is not None and strategy.moments(phase_sample(selection, number, zeros)) is None
    ]


def phase_sample(selection: WeightedSelection, number: int, values: Floats) -> PhaseSample:
    """Return the data that the variance of a phase depends on."""
    positions = np.flatnonzero(selection.phase == number)
    positions = positions[np.argsort(selection.order[positions], kind="stable")]
    carried = selection.carried(number) * values
    return PhaseSample(
        expanded=carried[positions] / selection.inclusion[positions],
        inclusion=selection.inclusion[positions],
        multiplicity=selection.multiplicity[positions],
        places=positions,
        carried=carried,
        weights=selection.weights,
        clusters=selection.clusters,
        distances=selection.distances,
    )


def uncertain(selection: WeightedSelection, phase: int) -> Ints:
    """Return the positions of a phase's uncertain rows, in draw order."""
    strategy = selection.phases[phase - 1] if phase <= len(selection.phases) else None
    # In independent draws no row is certain: an inclusion of 1 is only an expected count.
    independent = strategy is not None and strategy.independent
    positions = np.flatnonzero((selection.phase == phase) & ((selection.inclusion != 1) | independent))
    return positions[np.argsort(selection.order[positions], kind="stable")]


def skewed_quantile(quantile: float, skewness: float) -> float:
    """Return the quantile of a studentized sum: Hall's (1992) exponential transformation, inverted.

    If T has skewness s, (exp(2sT/3) − 1)/(2s/3) + s/6 is nearly normal. His cubic transformation agrees with it
    for small s, but its inverse has an infinite slope near s·q = −1. There, its intervals for a few hundred skewed
    values are twice as wide as they need to be, and cover no more often.

    Examples:
        >>> round(skewed_quantile(1.96, 0.3), 2), round(skewed_quantile(-1.96, 0.3), 2)
        (1.62, -2.57)
    """
    most = MOST_SKEWED / max(abs(quantile), 1.0)
    rate = 2 / 3 * min(max(skewness, -most), most)
    return quantile if abs(rate) < 1e-6 else math.log1p(rate * (quantile - rate / 4)) / rate
