"""Building blocks for the moments of a total, from the drawn rows alone. Designs and pilots choose among them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coresift.types import UNKNOWN, Bools, Floats, Ints, Moments, PhaseSample

# A cluster whose selected rows are worth fewer equal ones than this says nothing of its own spread.
LEAST_WORTH = 1.5


def by_neighbors(sample: PhaseSample) -> Moments:
    """Return the moments of a sorted draw: each uncertain row against the mean of its two neighbors in draw order."""
    uncertain = sample.chosen(sample.inclusion != 1)
    return local(uncertain.expanded, 1 - uncertain.inclusion)


def independent_draws(sample: PhaseSample) -> Moments:
    """Return the moments of independent draws: their sample variance. An expected count of 1 is not certainty."""
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
    """Return the moments of a stratified draw: a whole number of rows from each cluster, all with one π.

    All selected rows of a cluster tell its spread. Where rows of one cluster had different π, neighbors are compared.
    """
    sample = sample.chosen(sample.inclusion != 1)
    if not sample.inclusion.size:
        return Moments()
    clusters, inclusion = sample.clusters[sample.places], sample.inclusion
    of_cluster = np.zeros(int(sample.clusters.max()) + 1)
    of_cluster[clusters] = inclusion
    if np.any(of_cluster[clusters] != inclusion):
        return local(sample.expanded, 1 - inclusion)
    known = of_cluster[sample.clusters] > 0
    spread = _Spread.of(sample, known)
    lonely = spread.worth[clusters] < LEAST_WORTH
    counts = np.bincount(clusters, minlength=of_cluster.size) * (spread.worth >= LEAST_WORTH)
    place = sample.clusters[known]
    # What a row of the cluster stands for, of the variance of as many draws as the cluster had.
    scale = (counts / spread.weight / np.where(of_cluster > 0, of_cluster, 1.0) ** 2)[place]
    chance = 1 - of_cluster[place]
    parts = scale * chance * spread.squares[known]
    third = scale * chance * (2 * chance - 1) * spread.cubes[known] / of_cluster[place]
    return Moments.of(parts, third) + _collapsed(sample.carried[sample.places], inclusion, lonely)


def local(expanded: Floats, chance: Floats) -> Moments:
    """Return the moments from each value's difference to its two neighbors; `chance` is 1 − π."""
    if not expanded.size:
        return Moments()
    if expanded.size < 3:
        return UNKNOWN
    residual = _residual(expanded)
    # For unrelated values the residual's variance is 3/2, and its third moment 3/4, of the value's own.
    return Moments.of(chance * residual**2 / 1.5, chance * (2 * chance - 1) * residual**3 / 0.75)


def spread_terms(values: Floats, weights: Floats, strata: Ints) -> Floats:
    """Return one term per row whose sum has the expectation Σ w(g − ḡ)², for strata with two rows or more.

    ḡ² is the mean product of two different rows of the stratum, weighted by both.
    """
    moved = weights * values
    total, squares = np.bincount(strata, weights), np.bincount(strata, weights**2)
    pairs = np.maximum(total**2 - squares, 0.0)
    # Where all weight is on one row there is no pair, and the row's own square stands.
    factor = np.divide(total, pairs, out=np.zeros_like(pairs), where=pairs > 1e-12 * total**2)
    others = np.bincount(strata, moved)[strata] - moved
    terms: Floats = weights * values**2 - moved * others * factor[strata]
    return terms


@dataclass(frozen=True)
class _Spread:
    """Weighted squares and cubes of deviations from the cluster's mean, per row; weight and worth per cluster."""

    squares: Floats
    cubes: Floats
    weight: Floats
    worth: Floats

    @classmethod
    def of(cls, sample: PhaseSample, known: Bools) -> _Spread:
        clusters, weights = sample.clusters, np.where(known, sample.weights, 0.0)
        weight = np.maximum(np.bincount(clusters, weights), 1e-300)
        worth = weight**2 / np.maximum(np.bincount(clusters, weights**2), 1e-300)
        values = sample.carried
        deviation = values - (np.bincount(clusters, weights * values) / weight)[clusters]
        # As n/(n − 1) does for equal weights; for cubes the same once more is near enough.
        correction = (worth / np.maximum(worth - 1, LEAST_WORTH - 1))[clusters]
        return cls(weights * deviation**2 * correction, weights * deviation**3 * correction**2, weight, worth)


def _collapsed(carried: Floats, inclusion: Floats, lonely: Bools) -> Moments:
    """Return what rows add that stand alone in their clusters: each is held against its neighbors, at its own π."""
    if not lonely.any():
        return Moments()
    if carried.size < 3:
        return UNKNOWN
    residual = (_residual(carried) / inclusion)[lonely]
    chance = 1 - inclusion[lonely]
    return Moments.of(chance * residual**2 / 1.5, chance * (2 * chance - 1) * residual**3 / 0.75)


def _residual(values: Floats) -> Floats:
    """Return each value less the mean of its two neighbors, or of the two nearest at an end."""
    middle = np.clip(np.arange(values.size), 1, values.size - 2)
    before: Ints = middle - 1
    after: Ints = middle + 1
    before[0], before[-1], after[0], after[-1] = 1, -3, 2, -2
    residual: Floats = values - (values[before] + values[after]) / 2
    return residual
