"""Building blocks for the moments of a total, from the drawn rows alone; designs and pilots use them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.types import UNKNOWN, Bools, Floats, Ints, Moments, PhaseSample

# A cluster with a smaller effective sample size than this cannot estimate its own spread.
LEAST_WORTH = 1.5
# With fewer rows along an order, none of them can be told to be far off.
FEWEST_NEIGHBORS = 5
# The squared standard error of `smoothness` for n unrelated values is this over n, whatever their distribution.
CHANCE = 2.6


def by_neighbors(sample: PhaseSample) -> Moments:
    """Return the moments of a sorted draw, from each uncertain row's difference to its neighbors in draw order.

    A row that differs from its neighbors more than any other counts in part as if it were the second largest. Rows like
    it may be next to it in the order, and together have an inclusion λ below 1. An even draw takes one of them at most,
    and the number of hits has the variance λ(1 − λ) instead of λ. That is likely as far as values change smoothly along
    the order, so the part is `smoothness`; if it is 0, every row counts in full.
    """
    uncertain = sample.chosen(sample.inclusion != 1)
    expanded, chance = uncertain.expanded, 1 - uncertain.inclusion
    if expanded.size < FEWEST_NEIGHBORS:
        return local(expanded, chance)
    residual = _residual(expanded)
    terms = chance * residual**2
    lone = int(terms.argmax())
    beside = slice(max(lone - 1, 0), lone + 2)
    second = float(np.delete(terms, beside).max())
    if terms[lone] > second:
        # The row is in its neighbors' differences too.
        residual[beside] *= math.sqrt(1 - smoothness(expanded) * (1 - second / terms[lone]))
    return _of_residuals(residual, chance)


def independent_draws(sample: PhaseSample) -> Moments:
    """Return the moments of independent draws: their sample variance. An expected count of 1 is not a certainty."""
    draws = int(sample.multiplicity.sum())
    if draws == 0:
        return Moments()
    if draws < 2:
        return UNKNOWN
    mean = (sample.multiplicity @ sample.expanded) / draws
    residual = np.repeat(sample.expanded - mean, sample.multiplicity)
    return Moments.of(draws / (draws - 1) * residual**2, residual**3)


def independent_rows(sample: PhaseSample) -> Moments:
    """Return the moments of a draw in which every row is included independently of the others."""
    chance = 1 - sample.inclusion
    return Moments.of(chance * sample.expanded**2, chance * (2 * chance - 1) * sample.expanded**3)


def within_clusters(sample: PhaseSample) -> Moments:
    """Return the moments of a stratified draw: a whole number of rows from each cluster, all with the same π.

    An even draw of m rows takes one from each of m equal bands of distance from the center, so its variance is the
    spread inside the bands, which all selected rows of the cluster show (see `_bands`). If rows of a cluster had
    different π, neighbors are compared.
    """
    sample = sample.chosen(sample.inclusion != 1)
    if not sample.inclusion.size:
        return Moments()
    clusters, inclusion = sample.clusters[sample.places], sample.inclusion
    cluster_inclusion = np.zeros(int(sample.clusters.max()) + 1)
    cluster_inclusion[clusters] = inclusion
    if np.any(cluster_inclusion[clusters] != inclusion):
        return local(sample.expanded, 1 - inclusion)
    usable = cluster_inclusion[sample.clusters] > 0
    spread = _Spread.of(sample, sample.clusters, usable)
    isolated = spread.worth[clusters] < LEAST_WORTH
    drawn = np.bincount(clusters, minlength=cluster_inclusion.size)
    counts = drawn * (spread.worth >= LEAST_WORTH)
    bands = _bands(sample, drawn)
    inside = _Spread.of(sample, bands, usable)
    # A band with too few rows has the spread of its cluster.
    known = (inside.worth[bands] >= LEAST_WORTH)[usable]
    squares, cubes = (
        np.where(known, fine[usable], coarse[usable])
        for fine, coarse in ((inside.squares, spread.squares), (inside.cubes, spread.cubes))
    )
    labels = sample.clusters[usable]
    # Each row's share of the variance of the draws from its cluster.
    scale = (counts / spread.weight / np.where(cluster_inclusion > 0, cluster_inclusion, 1.0) ** 2)[labels]
    chance = 1 - cluster_inclusion[labels]
    squared_terms = scale * chance * squares
    cubed_terms = scale * chance * (2 * chance - 1) * cubes / cluster_inclusion[labels]
    return Moments.of(squared_terms, cubed_terms) + _collapsed(sample.carried[sample.places], inclusion, isolated)


def local(expanded: Floats, chance: Floats) -> Moments:
    """Return the moments from each value's difference to the mean of its two neighbors; `chance` is 1 − π."""
    if not expanded.size:
        return Moments()
    if expanded.size < 3:
        return UNKNOWN
    return _of_residuals(_residual(expanded), chance)


def smoothness(values: Floats) -> float:
    """Return the part of neighbors' squared differences that comes from values changing along the order, from 0 to 1.

    If differences at two steps are larger than at one step, the straight line through both, extended to a distance
    of 0, says how much is noise; the rest is this part, s. Differences are measured by their mean absolute size, which
    a few far-off values do not decide. As s may be chance, it is shrunk by max(0, 1 − squared standard error/s²).

    Examples:
        >>> smoothness(np.arange(100.0)), smoothness(np.array([0.0, 1.0, 0.0, 1.0]))
        (0.974, 0.0)
    """
    near, far = (float(np.abs(values[step:] - values[:-step]).mean()) for step in (1, 2))
    part = min(max((far / near) ** 2 - 1, 0.0), 1.0) if near > 0 else 0.0
    return max(part - CHANCE / (values.size * part), 0.0) if part > 0 else 0.0


def spread_terms(values: Floats, weights: Floats, strata: Ints) -> Floats:
    """Return one term per row; their sum has expectation Σ w(g − ḡ)², for strata with two or more rows.

    ḡ² is the weighted mean product of two different rows of the stratum.
    """
    weighted = weights * values
    total, squares = np.bincount(strata, weights), np.bincount(strata, weights**2)
    pairs = np.maximum(total**2 - squares, 0.0)
    # If one row has all the weight, there are no pairs, and only the row's own square is left.
    factor = np.divide(total, pairs, out=np.zeros_like(pairs), where=pairs > 1e-12 * total**2)
    others = np.bincount(strata, weighted)[strata] - weighted
    terms: Floats = weights * values**2 - weighted * others * factor[strata]
    return terms


@dataclass(frozen=True)
class _Spread:
    """Weighted squares and cubes of deviations from a group's mean; weight and effective size of each group."""

    squares: Floats
    cubes: Floats
    weight: Floats
    worth: Floats

    @classmethod
    def of(cls, sample: PhaseSample, groups: NDArray[np.integer[Any]], usable: Bools) -> _Spread:
        weights = np.where(usable, sample.weights, 0.0)
        weight = np.maximum(np.bincount(groups, weights), 1e-300)
        worth = weight**2 / np.maximum(np.bincount(groups, weights**2), 1e-300)
        values = sample.carried
        deviation = values - (np.bincount(groups, weights * values) / weight)[groups]
        # This is n/(n − 1) for equal weights; applying it twice is accurate enough for cubes.
        correction = (worth / np.maximum(worth - 1, LEAST_WORTH - 1))[groups]
        return cls(weights * deviation**2 * correction, weights * deviation**3 * correction**2, weight, worth)


def _bands(sample: PhaseSample, drawn: Ints) -> Ints:
    """Return the band of each selected row: its cluster is cut into as many bands of equal weight as it had draws.

    Rows are sorted by their distance from the center, as they are in the draw.
    """
    clusters = sample.clusters.astype(np.int64)
    order = np.lexsort((sample.distances, clusters))
    weights = sample.weights[order]
    total = np.bincount(clusters, sample.weights, drawn.size)
    before = np.cumsum(total) - total
    counts = np.maximum(drawn, 1)
    own = clusters[order]
    # The middle of each row's weight, as a fraction of its cluster's.
    middle = (np.cumsum(weights) - weights / 2 - before[own]) / np.maximum(total[own], 1e-300)
    nth = np.clip((middle * counts[own]).astype(np.int64), 0, counts[own] - 1)
    bands = np.empty(clusters.size, np.int64)
    bands[order] = (np.cumsum(counts) - counts)[own] + nth
    return bands


def _of_residuals(residual: Floats, chance: Floats) -> Moments:
    # For independent values, the residual's variance is 3/2 of the value's variance, and its third moment is 3/4.
    return Moments.of(chance * residual**2 / 1.5, chance * (2 * chance - 1) * residual**3 / 0.75)


def _collapsed(carried: Floats, inclusion: Floats, isolated: Bools) -> Moments:
    """Return the moments of rows that are alone in their clusters: each is compared with its neighbors."""
    if not isolated.any():
        return Moments()
    if carried.size < 3:
        return UNKNOWN
    return _of_residuals((_residual(carried) / inclusion)[isolated], 1 - inclusion[isolated])


def _residual(values: Floats) -> Floats:
    """Return each value minus the mean of its two neighbors; at an end, of the two nearest values."""
    middle = np.clip(np.arange(values.size), 1, values.size - 2)
    before: Ints = middle - 1
    after: Ints = middle + 1
    before[0], before[-1], after[0], after[-1] = 1, -3, 2, -2
    residual: Floats = values - (values[before] + values[after]) / 2
    return residual
