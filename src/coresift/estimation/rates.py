"""Exact intervals for rates, for samples whose values are all equal, and for values in a known range.

A normal interval fails if few sampled values differ from the others: with 0 errors in 200 rows its width is zero. The
interval of Clopper and Pearson (1934) does not fail, and Korn and Graubard (1998) extend it to unequal probabilities:
it uses m trials instead of B, where m is the effective sample size, the number of equally likely rows that would be
just as uncertain.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from coresift.checks import positive, real_vector, refuse, share
from coresift.types import Floats, Interval


def clopper_pearson(positives: Any, trials: Any, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Return the ends of the exact interval of a rate; counts may be fractions, such as effective sample sizes.

    Args:
        positives: How many trials were positive, one number or several.
        trials: How many trials there were.
        confidence: The least coverage probability of the interval.

    Returns:
        The lower and upper ends.

    Examples:
        >>> low, high = clopper_pearson(0, 200)
        >>> float(low), round(float(high), 4)
        (0.0, 0.0183)
    """
    from scipy.special import betaincinv

    share("confidence", confidence)
    successes, total = np.broadcast_arrays(np.asarray(positives, np.float64), np.asarray(trials, np.float64))
    if not np.all((successes >= 0) & (successes <= total) & (total > 0)):
        refuse("positives", "from 0 to the number of trials, which is above 0", f"{positives} of {trials}")
    tail = (1 - confidence) / 2
    all_negative, all_positive = successes == 0, successes == total
    low = betaincinv(np.where(all_negative, 1.0, successes), total - successes + 1, tail)
    high = betaincinv(successes + 1, np.where(all_positive, 1.0, total - successes), 1 - tail)
    return np.where(all_negative, 0.0, low), np.where(all_positive, 1.0, high)


def effective_trials(rate: float, variance: float, rows: int, effective_size: float) -> float:
    """Return m = min(B, Kish's effective size, p̂(1 − p̂)/v̂), the effective sample size of a rate.

    Each of the three can be too large by chance (with few positives, v̂ is usually too small), so the smallest is safe.

    Args:
        rate: p̂, between 0 and 1.
        variance: v̂, the estimated variance of the rate.
        rows: B, how many rows were sampled.
        effective_size: (Σw)²/Σw².

    Returns:
        The number of trials for the exact interval, at least 1.
    """
    spread = rate * (1 - rate)
    from_variance = spread / variance if variance > 0 else math.inf
    return max(min(float(rows), effective_size, from_variance), 1.0)


def rate_interval(
    values: Any,
    weights: Any,
    variance: float,
    *,
    population: int,
    least_inclusion: float,
    confidence: float = 0.95,
) -> Interval:
    """Return the share of positives among all rows, with an interval of positive width within [0, 1].

    If the sampled values are all 0 or all 1, rows that differ may have been missed, possibly the least likely ones, so
    m = n·min π. Sampled rows are known: k sampled positives mean a rate of at least k/n.

    Args:
        values: 0 or 1 for each sampled row.
        weights: Their weights; Σ w·value estimates how many rows are positive.
        variance: The estimated variance of the rate Σ w·value/n, from the design.
        population: n, how many rows there are.
        least_inclusion: The smallest inclusion probability of any row.
        confidence: The coverage probability of the interval.

    Returns:
        The rate with its interval and standard error.

    Examples:
        >>> import numpy as np
        >>> print(rate_interval(np.zeros(200), np.full(200, 50.0), 0.0, population=10_000, least_inclusion=0.02))
        0.0000 [0.0000, 0.0183]
    """
    sampled = real_vector("values", values, len(values))
    weighted = real_vector("weights", weights, sampled.size)
    if not is_binary(sampled):
        refuse("values", "0 or 1 for each sampled row", "other numbers")
    positive("least_inclusion", least_inclusion)
    if not sampled.size:
        return Interval(math.nan, 0.0, 1.0, math.inf)
    sampled_positives = int(np.count_nonzero(sampled))
    possible = (sampled_positives / population, 1 - (sampled.size - sampled_positives) / population)
    if sampled.size >= population:
        return Interval(sampled_positives / population, *possible, 0.0)
    rate = float(np.clip(weighted @ sampled / population, *possible))
    error = math.sqrt(max(variance, 0.0))
    if sampled_positives in (0, sampled.size):
        rate = float(sampled_positives > 0)
        trials = max(min(population * least_inclusion, float(sampled.size)), 1.0)
    else:
        trials = effective_trials(rate, variance, sampled.size, float(weighted.sum() ** 2 / (weighted**2).sum()))
    low, high = clopper_pearson(rate * trials, trials, confidence)
    low, high = np.clip((float(low), float(high)), *possible)
    # The exact interval is for m trials, so widen it if the rate itself is outside.
    return Interval(rate, min(float(low), rate), max(float(high), rate), error)


def constant_interval(
    value: float,
    ends: tuple[float, float],
    *,
    rows: int,
    population: int,
    least_inclusion: float,
    confidence: float = 0.95,
) -> Interval:
    """Return the mean if all sampled values are equal: rows with other values may exist, but they are rare.

    The share of such rows is at most the upper end of the exact interval for 0 positives in m = n·min π trials, and
    their values lie within the range. If an end of the range is unknown (infinite), so is that end of the interval.

    Args:
        value: The value of every sampled row.
        ends: The smallest and largest value that a row can have; infinite if unknown.
        rows: How many rows were sampled.
        population: How many rows there are.
        least_inclusion: The smallest inclusion probability of any row.
        confidence: The coverage probability of the interval.

    Returns:
        The value as the mean, with its interval.

    Examples:
        >>> print(constant_interval(0.0, (0.0, 5.0), rows=200, population=10_000, least_inclusion=0.02))
        0.0000 [0.0000, 0.0914]
    """
    least, most = ends
    if not least <= value <= most:
        refuse("ends", f"a range that contains {value:g}", f"{least:g} to {most:g}")
    positive("least_inclusion", least_inclusion)
    if rows >= population:
        return Interval(value, value, value, 0.0)
    trials = max(min(population * least_inclusion, float(rows)), 1.0)
    _, share_of_others = clopper_pearson(0.0, trials, confidence)
    others = min(float(share_of_others), 1 - rows / population)
    # Avoid 0·∞, which is NaN, if the value is at an end of its range.
    down, up = (others * reach if reach > 0 else 0.0 for reach in (value - least, most - value))
    return Interval(value, value - down, value + up, 0.0)


def within(interval: Interval, ends: tuple[float, float]) -> Interval:
    """Return the interval clipped to what is possible: a rate to [0, 1], a total of nonnegative values to [0, ∞).

    Examples:
        >>> print(within(Interval(0.2, -0.1, 0.5, 0.15), (0.0, 1.0)))
        0.200 [0.000, 0.500]
    """
    value, low, high = (min(max(number, ends[0]), ends[1]) for number in (interval.value, interval.low, interval.high))
    return Interval(value, low, high, interval.standard_error)


def is_binary(values: Floats) -> bool:
    """Return whether every value is 0 or 1.

    Examples:
        >>> is_binary(np.array([0.0, 1.0, 1.0])), is_binary(np.array([0.0, 0.5]))
        (True, False)
    """
    return bool(np.all((values == 0) | (values == 1)))
