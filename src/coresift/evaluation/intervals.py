"""Intervals of estimates: normal with corrections if there are enough answers, exact if events are rare."""

from __future__ import annotations

import math

import numpy as np

from coresift.estimation.intervals import skewed_quantile
from coresift.estimation.rates import clopper_pearson
from coresift.evaluation.errors import FEW_EVENTS, kish
from coresift.evaluation.metrics import Target
from coresift.evaluation.rates import rate_limits
from coresift.evaluation.sampling import Sample
from coresift.types import Bools, Floats, Interval, Moments

# A forecast counts on this part of the events that it expects.
SURE = 0.8
# The quantile of the largest |t| is estimated from this many random draws.
TRIALS = 20_000


def interval_of(
    target: Target,
    sample: Sample,
    confidence: float,
    *,
    extra: float = 0.0,
    critical: float | None = None,
    ends: tuple[float, float] = (-math.inf, math.inf),
    decided: float | None = None,
) -> Interval:
    """Return an estimate with its interval.

    Args:
        target: The estimate.
        sample: The rows that were asked.
        confidence: The probability that the interval should cover.
        extra: Variance in addition to that of the draw.
        critical: How many standard errors the interval extends on each side, by default the normal quantile.
        ends: The smallest and largest possible value.
        decided: If the variance decided how many answers were asked, the part of them that it was estimated from.
    """
    from scipy.special import ndtr, stdtrit

    moments, freedom = corrected(target.fit.moments, decided)
    variance = moments.variance + extra
    error = math.sqrt(variance)
    sure = 0.5 + confidence / 2 if critical is None else float(ndtr(critical))
    if target.event and not sample.complete and is_rare(target.linear, sample.weights):
        return _rare(target, sample, variance, freedom, 2 * sure - 1)
    if target.limits is not None and not sample.complete:
        return _by_limits(target, target.limits(sure), variance, stdtrit(math.inf, sure) * math.sqrt(extra), ends)
    if not 0 < error < math.inf:
        return Interval(target.value, target.value - error, target.value + error, error)
    freedom = freedom * (variance / moments.variance) ** 2 if moments.variance > 0 else math.inf
    quantile = float(stdtrit(max(freedom, 1.0), sure))
    skewness = moments.third / error**3
    low, high = (target.value - error * skewed_quantile(q, skewness) for q in (quantile, -quantile))
    if target.read is not None:
        low, high = target.read(low), target.read(high)
    value = min(max(target.value, ends[0]), ends[1])
    return Interval(value, max(low, ends[0]), min(high, ends[1]), error)


def corrected(moments: Moments, decided: float | None) -> tuple[Moments, float]:
    """Return the moments of an estimate, and the degrees of freedom of its variance, which is itself an estimate.

    With a fixed number of answers, there are three degrees of freedom per effective term of the variance. If the
    variance decides how many answers are asked, a variance that is too small by chance ends the run early. At the end,
    it is then too small on average, by at most its relative variance when the number was decided, which is one over
    the effective number of terms at that time (triple sampling, Hall 1981). There are two degrees of freedom per term.

    Args:
        moments: The moments from all answers.
        decided: The part of the answers that decided how many were asked; None if their number was fixed.

    Examples:
        >>> equal = Moments.of(np.full(100, 0.01), np.zeros(100))
        >>> [round(number, 4) for number in (corrected(equal, 0.5)[0].variance, corrected(equal, 0.5)[1])]
        [1.02, 100.0]
    """
    if decided is None or moments.variance <= 0:
        return moments, 3 * moments.effective
    terms = decided * moments.effective
    factor = 1 + 1 / max(terms, 1.0)
    return Moments(moments.variance * factor, moments.third, moments.squares * factor**2), 2 * terms


def _by_limits(
    target: Target, limits: tuple[float, float], variance: float, extra: float, ends: tuple[float, float]
) -> Interval:
    """Return the interval with these limits, and with `extra` more on both sides."""
    value = min(max(target.value, ends[0]), ends[1])
    low, high = (value - math.hypot(value - limits[0], extra), value + math.hypot(limits[1] - value, extra))
    return Interval(value, max(low, ends[0]), min(high, ends[1]), math.sqrt(variance))


def max_t(targets: list[Target], confidence: float) -> float:
    """Return the critical value with which all intervals hold simultaneously: the quantile of the largest |t|.

    The errors of the estimates are correlated, since they come from the same rows. The correlation is that of each
    row's contributions to them.
    """
    errors = np.stack([target.fit.errors for target in targets])
    sizes = np.sqrt(np.sum(errors**2, axis=1))
    # If no row differs so far, nothing is known about the correlation, and the estimate counts as independent.
    counts = (sizes > 0) | np.array([target.limits is not None for target in targets])
    if not counts.any():
        return 0.0
    unit = errors[counts] / np.where(sizes > 0, sizes, 1.0)[counts][:, None]
    correlation = unit @ unit.T
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    normal = np.random.default_rng(18).standard_normal((TRIALS, values.size))
    largest = np.abs(normal * np.sqrt(np.maximum(values, 0.0)) @ vectors.T).max(axis=1)
    return float(np.quantile(largest, confidence))


def is_rare(linear: Floats, weights: Floats) -> bool:
    """Return whether there are too few positives, or negatives, for a normal interval."""
    return rarest(linear != 0, weights) < FEW_EVENTS


def rarest(events: Bools, weights: Floats) -> float:
    """Return the number of positives or negatives, whichever is smaller, counted by Kish."""
    return min(kish(weights[events]), kish(weights[~events]))


def most_trials(size: float, asked: int, population: int, events: float) -> float:
    """Return the largest number of trials that a forecast of an exact interval counts on.

    Without events, it is the effective sample size of the weights: the draw and the regression may make the estimate
    more precise than that, but nothing shows it. The more events there are, the higher the limit, up to 30 times as
    many trials.

    Args:
        size: Kish's effective sample size of the answers.
        asked: The number of answers.
        population: The number of rows.
        events: How many positives or negatives there are, whichever are fewer, counted by Kish.

    Examples:
        >>> most_trials(90.0, 100, 200, 15.0), most_trials(90.0, 100, 200, 30.0)
        (360.0, 5400.0)
    """
    trusted = max(1 - events / FEW_EVENTS, 1 / FEW_EVENTS)
    return min(size, float(asked)) / (1 - min(asked / population, 0.99)) / trusted


def _rare(target: Target, sample: Sample, variance: float, freedom: float, confidence: float) -> Interval:
    """Return the interval of a rate with few events, on the scale of the target.

    Rows that were seen are certain. If all answers are equal, the interval is exact.
    """
    from scipy.special import stdtrit

    population, events = sample.population, target.linear != 0
    unit, seen, sure = target.event * population, int(np.count_nonzero(events)), 0.5 + confidence / 2
    certain = (seen / population, 1 - (len(sample) - seen) / population)
    rate = float(np.clip(target.value / unit, *certain))
    if seen in (0, len(sample)):
        # If a row that differs was missed, it may be one of the least probable rows.
        rate, trials = float(seen > 0), max(population / float(sample.weights.max()), 1.0)
        low, high = (float(end) for end in clopper_pearson(rate * trials, trials, confidence))
    else:
        # The variance is itself an estimate, so it counts as larger than it is, up to that by the weights alone.
        wider = (stdtrit(max(freedom, 1.0), sure) / stdtrit(math.inf, sure)) ** 2
        by_weights = rate * (1 - rate) / most_trials(kish(sample.weights), len(sample), population, 0.0)
        own = variance / unit**2
        low, high = rate_limits(sample, events, rate, max(own, min(own * wider, by_weights)), sure)
    low, high = sorted(unit * float(end) for end in np.clip((low, high), *certain))
    value = unit * rate if seen in (0, len(sample)) else min(max(target.value, low), high)
    return Interval(value, low, high, math.sqrt(variance))


def forecast_half_width(target: Target, sample: Sample, variance: float, total: int, confidence: float) -> float:
    """Return the half-width of an estimate from `total` answers with this variance."""
    from scipy.special import ndtri

    normal = float(ndtri(0.5 + confidence / 2)) * math.sqrt(max(variance, 0.0))
    if not target.event or variance <= 0:
        return normal
    events = target.linear != 0
    expected = rarest(events, sample.weights) * total / len(sample)
    if expected >= FEW_EVENTS / SURE:
        return normal
    unit = abs(target.event) * sample.population
    rate = min(max(float(sample.weights @ events / sample.weights.sum()), 0.5 / len(sample)), 1 - 0.5 / len(sample))
    limit = most_trials(total * kish(sample.weights) / len(sample), total, sample.population, SURE * expected)
    trials = min(rate * (1 - rate) * unit**2 / variance, limit)
    # The first answers may have too few events by chance; one more of either kind guards against too small a plan.
    likely = (rate * len(sample) + 1) / (len(sample) + 2)
    low, high = clopper_pearson(likely * trials, trials, confidence)
    return unit * float(high - low) / 2
