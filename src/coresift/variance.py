"""Building blocks for the moments of a total, from the drawn rows alone; designs and pilots use them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coresift.types import UNKNOWN, Bools, Floats, Ints, Moments, PhaseSample

# A cluster with a smaller effective sample size than this cannot estimate its own spread.
LEAST_WORTH = 1.5


def by_neighbors(sample: PhaseSample) -> Moments:
    """Return the moments of a sorted draw, from each uncertain row's difference to its neighbors in draw order."""
    uncertain = sample.chosen(sample.inclusion != 1)
    return local(uncertain.expanded, 1 - uncertain.inclusion)


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

    All selected rows of a cluster estimate its spread. If rows of a cluster had different π, neighbors are compared.
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
    spread = _Spread.of(sample, usable)
    isolated = spread.worth[clusters] < LEAST_WORTH
    counts = np.bincount(clusters, minlength=cluster_inclusion.size) * (spread.worth >= LEAST_WORTH)
    labels = sample.clusters[usable]
    # Each row's share of the variance of the draws from its cluster.
    scale = (counts / spread.weight / np.where(cluster_inclusion > 0, cluster_inclusion, 1.0) ** 2)[labels]
    chance = 1 - cluster_inclusion[labels]
    squared_terms = scale * chance * spread.squares[usable]
    cubed_terms = scale * chance * (2 * chance - 1) * spread.cubes[usable] / cluster_inclusion[labels]
    return Moments.of(squared_terms, cubed_terms) + _collapsed(sample.carried[sample.places], inclusion, isolated)


def local(expanded: Floats, chance: Floats) -> Moments:
    """Return the moments from each value's difference to the mean of its two neighbors; `chance` is 1 − π."""
    if not expanded.size:
        return Moments()
    if expanded.size < 3:
        return UNKNOWN
    residual = _residual(expanded)
    # For independent values, the residual's variance is 3/2 of the value's variance, and its third moment is 3/4.
    return Moments.of(chance * residual**2 / 1.5, chance * (2 * chance - 1) * residual**3 / 0.75)


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
    """Weighted squares and cubes of deviations from the cluster mean; weight and effective size of each cluster."""

    squares: Floats
    cubes: Floats
    weight: Floats
    worth: Floats

    @classmethod
    def of(cls, sample: PhaseSample, usable: Bools) -> _Spread:
        clusters, weights = sample.clusters, np.where(usable, sample.weights, 0.0)
        weight = np.maximum(np.bincount(clusters, weights), 1e-300)
        worth = weight**2 / np.maximum(np.bincount(clusters, weights**2), 1e-300)
        values = sample.carried
        deviation = values - (np.bincount(clusters, weights * values) / weight)[clusters]
        # This is n/(n − 1) for equal weights; applying it twice is accurate enough for cubes.
        correction = (worth / np.maximum(worth - 1, LEAST_WORTH - 1))[clusters]
        return cls(weights * deviation**2 * correction, weights * deviation**3 * correction**2, weight, worth)


def _collapsed(carried: Floats, inclusion: Floats, isolated: Bools) -> Moments:
    """Return the moments of rows that are alone in their clusters: each is compared with its neighbors."""
    if not isolated.any():
        return Moments()
    if carried.size < 3:
        return UNKNOWN
    residual = (_residual(carried) / inclusion)[isolated]
    chance = 1 - inclusion[isolated]
    return Moments.of(chance * residual**2 / 1.5, chance * (2 * chance - 1) * residual**3 / 0.75)


def _residual(values: Floats) -> Floats:
    """Return each value minus the mean of its two neighbors; at an end, of the two nearest values."""
    middle = np.clip(np.arange(values.size), 1, values.size - 2)
    before: Ints = middle - 1
    after: Ints = middle + 1
    before[0], before[-1], after[0], after[-1] = 1, -3, 2, -2
    residual: Floats = values - (values[before] + values[after]) / 2
    return residual
