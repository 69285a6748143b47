"""The uncertainty of a weighted total, from the drawn rows alone: variance, skewness, and intervals from them.

The errors of the two phases are uncorrelated, so their moments add up. The pilot is dealt to clusters in whole numbers
with equal chances inside, so its error is that of a stratified draw; all selected rows of a cluster tell its spread.
Of the second draw, `Independent` has the sample variance, `Poisson` its own formula, and in a sorted draw each
row is compared with its two neighbors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from coresift.types import Bools, Floats, Interval, Ints, Selection

MOST_SKEWNESS = 2.0
# A cluster whose selected rows are worth fewer equal ones than this says nothing of its own spread.
LEAST_WORTH = 1.5


@dataclass(frozen=True)
class Moments:
    """Estimated variance and third moment of a total, and the sum of squares of the variance's parts."""

    variance: float = 0.0
    third: float = 0.0
    squares: float = 0.0

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.variance + other.variance, self.third + other.third, self.squares + other.squares)

    @property
    def effective(self) -> float:
        """How many equal parts would give a variance that is as certain as this one."""
        return self.variance**2 / self.squares if self.squares > 0 else np.inf

    @classmethod
    def of(cls, parts: Floats, third: Floats) -> Moments:
        """Sum up what each row, or each draw, adds."""
        return cls(float(parts.sum()), float(third.sum()), float((parts**2).sum()))


UNKNOWN = Moments(np.inf, 0.0, 0.0)


def interval(selection: Selection, total: float, values: Floats, confidence: float) -> Interval:
    """Return the total with an interval, from the design's variance of the weighted total of `values`."""
    from scipy.special import stdtrit

    found = moments(selection, values)
    error = math.sqrt(found.variance)
    if not 0 < error < math.inf:
        return Interval(total, total - error, total + error, error)
    # The variance is itself a sum of squares, of as many as `effective` equal ones with three terms each.
    quantile = float(stdtrit(3 * found.effective, 0.5 + confidence / 2))
    low, high = (unskew(q, found.third / error**3) for q in (quantile, -quantile))
    return Interval(total, total - error * low, total - error * high, error)


def bernstein(selection: Selection, values: Floats, ends: tuple[float, float], doubt: float) -> float:
    """Return how far the total of independent draws can be off, but for a probability of at most `doubt`.

    Empirical Bernstein (Maurer and Pontil 2009), both sides: for s draws in an interval of length R and with
    sample variance V, s·mean is off by at most √(2sV·ln(4/δ)) + 7sR·ln(4/δ)/(3(s − 1)). All values, drawn or not, must
    lie within `ends`, and what a draw brings is a value over at least `selection.least_inclusion`.
    """
    drawn = chancy(selection, 2)
    draws = int(selection.multiplicity[drawn].sum())
    if draws < 2:
        return math.inf
    expanded = (1 - selection.share[drawn]) * values[drawn] / selection.inclusion[drawn]
    expanded = np.repeat(expanded, selection.multiplicity[drawn])
    length = (max(ends[1], 0.0) - min(ends[0], 0.0)) / selection.least_inclusion
    logarithm = math.log(4 / doubt)
    spread = math.sqrt(2 * draws * float(expanded.var(ddof=1)) * logarithm)
    return spread + 7 * draws * length * logarithm / (3 * (draws - 1))


def moments(selection: Selection, values: Floats) -> Moments:
    """Return both phases' moments, added up."""
    return _pilot(selection, values) + _drawn(selection, values)


def chancy(selection: Selection, phase: int) -> Ints:
    """Return the places of a phase's rows that need not have come out, in the order of the draw."""
    # Among independent draws nothing is certain: 1 is just an expected count.
    left_to_chance = (selection.inclusion != 1) | (selection.designs[phase - 1] == "Independent")
    member = np.flatnonzero((selection.phase == phase) & left_to_chance)
    return member[np.argsort(selection.order[member], kind="stable")]


def _drawn(selection: Selection, values: Floats) -> Moments:
    member = chancy(selection, 2)
    inclusion = selection.inclusion[member]
    expanded = (1 - selection.share[member]) * values[member] / inclusion
    if selection.designs[1] == "Independent":
        return _independent(expanded, selection.multiplicity[member])
    if selection.designs[1] == "Poisson":
        chance = 1 - inclusion
        return Moments.of(chance * expanded**2, chance * (2 * chance - 1) * expanded**3)
    return local(expanded, 1 - inclusion)


def _pilot(selection: Selection, values: Floats) -> Moments:
    """Return the moments of Σ αy/π₁ over the pilot: a whole number of rows from each cluster, all with one π₁."""
    member = chancy(selection, 1)
    if not member.size:
        return Moments()
    clusters, inclusion = selection.clusters[member], selection.inclusion[member]
    carried = selection.share * values
    of_cluster = np.zeros(int(selection.clusters.max()) + 1)
    of_cluster[clusters] = inclusion
    if np.any(of_cluster[clusters] != inclusion):
        return local(carried[member] / inclusion, 1 - inclusion)
    known = of_cluster[selection.clusters] > 0
    spread = _spread(selection, carried, known)
    lonely = spread.worth[clusters] < LEAST_WORTH
    counts = np.bincount(clusters, minlength=of_cluster.size) * (spread.worth >= LEAST_WORTH)
    place = selection.clusters[known]
    # What a row of the cluster stands for, of the variance of as many draws as the cluster had.
    scale = (counts / spread.weight / np.where(of_cluster > 0, of_cluster, 1.0) ** 2)[place]
    chance = 1 - of_cluster[place]
    parts = scale * chance * spread.squares[known]
    third = scale * chance * (2 * chance - 1) * spread.cubes[known] / of_cluster[place]
    return Moments.of(parts, third) + _collapsed(carried[member], inclusion, lonely)


@dataclass(frozen=True)
class _Spread:
    """Weighted squares and cubes of deviations from the cluster's mean, a number a row; weight and worth a cluster."""

    squares: Floats
    cubes: Floats
    weight: Floats
    worth: Floats


def _spread(selection: Selection, values: Floats, known: Bools) -> _Spread:
    assert selection.weights is not None
    clusters, weights = selection.clusters, np.where(known, selection.weights, 0.0)
    weight = np.maximum(np.bincount(clusters, weights), 1e-300)
    worth = weight**2 / np.maximum(np.bincount(clusters, weights**2), 1e-300)
    deviation = values - (np.bincount(clusters, weights * values) / weight)[clusters]
    # As n/(n − 1) does for equal weights; for cubes the same once more is near enough.
    correction = (worth / np.maximum(worth - 1, LEAST_WORTH - 1))[clusters]
    return _Spread(weights * deviation**2 * correction, weights * deviation**3 * correction**2, weight, worth)


def _collapsed(carried: Floats, inclusion: Floats, lonely: Bools) -> Moments:
    """Return what rows add that stand alone in their clusters: each is held against its neighbors, at its own π₁."""
    if not lonely.any():
        return Moments()
    if carried.size < 3:
        return UNKNOWN
    residual = (_residual(carried) / inclusion)[lonely]
    chance = 1 - inclusion[lonely]
    return Moments.of(chance * residual**2 / 1.5, chance * (2 * chance - 1) * residual**3 / 0.75)


def _independent(expanded: Floats, multiplicity: Ints) -> Moments:
    draws = int(multiplicity.sum())
    if draws == 0:
        return Moments()
    if draws < 2:
        return UNKNOWN
    residual = np.repeat(expanded - (multiplicity @ expanded) / draws, multiplicity)
    return Moments.of(draws / (draws - 1) * residual**2, residual**3)


def local(expanded: Floats, chance: Floats) -> Moments:
    """Return the moments of a sorted draw: each value against the mean of its two neighbors in draw order."""
    if not expanded.size:
        return Moments()
    if expanded.size < 3:
        return UNKNOWN
    residual = _residual(expanded)
    # For unrelated values the residual's variance is 3/2, and its third moment 3/4, of the value's own.
    return Moments.of(chance * residual**2 / 1.5, chance * (2 * chance - 1) * residual**3 / 0.75)


def _residual(values: Floats) -> Floats:
    """Return each value less the mean of its two neighbors, or of the two nearest at an end."""
    middle = np.clip(np.arange(values.size), 1, values.size - 2)
    before, after = middle - 1, middle + 1
    before[0], before[-1], after[0], after[-1] = 1, -3, 2, -2
    residual: Floats = values - (values[before] + values[after]) / 2
    return residual


def unskew(quantile: float, skewness: float) -> float:
    """Hall's cubic transformation, inverted: the quantile of a studentized sum with this skewness."""
    skewness = min(max(skewness, -MOST_SKEWNESS), MOST_SKEWNESS)
    if abs(skewness) < 1e-6:
        return quantile
    return float(3 / skewness * (np.cbrt(1 + skewness * (quantile - skewness / 6)) - 1))
