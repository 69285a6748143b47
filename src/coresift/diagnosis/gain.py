"""The error that a selection would have, relative to a uniform sample's, predicted from probes.

A draw without replacement along a sorted order has about the variance Σ π(1−π)(g − ḡ)², where g is a row's value over
its π and ḡ is the mean of g among its neighbors. Probes drawn with equal probability estimate that sum. The sizes
are learned from some of the probes and the sum is taken over the others: on the same ones, noise would look like
signal. ḡ² is estimated by products of two different probes of one stratum, which is unbiased with as few as two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coresift.inclusion import fixed_size_inclusion, parts
from coresift.progress import Progress, stage
from coresift.score import Proxy, Score
from coresift.types import Bools, Clustering, Evidence, Floats, Frame, Interval, Ints, Pilot, PilotPlan

# The probes are split into thirds, this many times. A third and the centers are about as many as a pilot has; the
# sum over the other two thirds finds two probes or more in most clusters.
FOLDS, ROUNDS = 3, 5
# In how many parts the jackknife leaves out the probes.
GROUPS = 10
# Losses above the mean of the largest tenth count as that mean: else a handful of probes would decide alone.
LARGEST = 0.1
# How many neighbors along a proxy's order make a stratum.
NEIGHBORS = 4
# No ratio of variances below this is ever claimed.
LEAST = 1e-4
Z95 = 1.959964


@dataclass(frozen=True)
class Asked:
    """The losses that were asked: of the centers, and of probes drawn with equal probability along the order."""

    centers: Ints
    center_losses: Floats
    probes: Ints
    losses: Floats


def selected_ratio(
    clustering: Clustering,
    plan: PilotPlan,
    score: Score,
    budget: int,
    asked: Asked,
    rng: np.random.Generator,
    progress: Progress,
) -> Interval:
    """Predict RMSE(selection) / RMSE(uniform) of the estimated total loss, for two phases of `budget` rows."""
    size, n = asked.probes.size, clustering.n
    folds = np.stack([_folds(size, rng) for _ in range(ROUNDS)])
    pretended = PilotPlan(np.full(n, size / FOLDS / n), plan.share, plan.order, keep=True, origin="pilot")
    second = budget - round(float(plan.inclusion.sum()))

    def ratio(kept: Bools, folds: Ints) -> float:
        losses, terms, times = cap(asked.losses[kept]), np.zeros(size), np.zeros(size)
        capped = np.zeros(size)
        capped[kept] = losses
        for line in folds:
            for fold in range(FOLDS):
                fit, test = kept & (line == fold), kept & (line != fold)
                inclusion = _learn(clustering, pretended, score, asked, fit, second)
                terms[test] += _two_phases(clustering, plan, inclusion, asked.probes[test], capped[test])
                times[test] += 1
                progress.advance(1)
        return variance_ratio(terms[kept] / times[kept], losses, budget / n)

    with stage(progress, "predicting the gain", FOLDS * (ROUNDS + GROUPS)):
        # The parts of the jackknife share one split with each other, whose luck they have in common.
        return _interval(ratio(np.ones(size, np.bool_), folds), lambda kept: ratio(kept, folds[:1]), size)


def proxied_ratio(clustering: Clustering, proxy: Proxy, budget: int, asked: Asked) -> Interval:
    """Predict RMSE(selection by a proxy) / RMSE(uniform); nothing is learned, so all probes score it."""
    n, size = clustering.n, asked.probes.size
    nobody = PilotPlan(np.zeros(n), np.zeros(n), np.arange(n), keep=False, origin="pilot")
    evidence = Evidence(clustering, _everyone(n), Pilot(np.zeros(0, np.int64), nobody), np.zeros(0))
    inclusion = fixed_size_inclusion(proxy.scores(evidence).sizes, budget)[asked.probes]
    order = np.argsort(proxy.losses[asked.probes], kind="stable")

    def ratio(kept: Bools) -> float:
        walk = order[kept[order]]
        losses, chance = cap(asked.losses[walk]), inclusion[walk]
        # The last few join the stratum before them, so that none is alone.
        strata = np.minimum(np.arange(walk.size) // NEIGHBORS, walk.size // NEIGHBORS - 1)
        return variance_ratio(spread_terms(losses / chance, chance * (1 - chance), strata), losses, budget / n)

    return _interval(ratio(np.ones(size, np.bool_)), ratio, size)


def cap(losses: Floats) -> Floats:
    """Return the losses, those above the mean of the largest tenth as that mean.

    >>> cap(np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 30, 40]))[-3:]
    array([18., 30., 35.])
    """
    count = max(1, round(LARGEST * losses.size))
    capped: Floats = np.minimum(losses, np.sort(losses)[-count:].mean())
    return capped


def variance_ratio(terms: Floats, losses: Floats, fraction: float) -> float:
    """Return Σ terms over what a uniform sample of this fraction of the rows would have; 1 if the losses are equal."""
    uniform = (1 / fraction - 1) * losses.size * float(losses.var(ddof=1))
    return max(float(terms.sum()) / uniform, LEAST) if uniform > 0 else 1.0


def _interval(whole: float, ratio: Callable[[Bools], float], size: int) -> Interval:
    """Return the root of a ratio of variances with its interval, by a jackknife of its logarithm."""
    group = np.arange(size) % GROUPS
    logarithms = np.log([ratio(group != number) for number in range(GROUPS)])
    error = float(np.sqrt((GROUPS - 1) / GROUPS * ((logarithms - logarithms.mean()) ** 2).sum())) / 2
    root, factor = float(np.sqrt(whole)), float(np.exp(Z95 * error))
    return Interval(root, root / factor, root * factor, root * error)


def spread_terms(values: Floats, weights: Floats, strata: Ints) -> Floats:
    """Return a term a row whose sum has the expectation Σ w(g − ḡ)², for strata with two rows or more.

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


def join_lone(labels: Ints) -> Ints:
    """Return strata of rows that stand in order: runs of one label, lone rows joined with the run that follows.

    >>> join_lone(np.array([4, 4, 7, 2, 9, 5, 5]))
    array([0, 0, 1, 1, 2, 2, 2])
    """
    starts = np.flatnonzero(np.diff(labels, prepend=labels[0] - 1))
    lone = np.diff(starts, append=labels.size) == 1
    place = np.arange(lone.size)
    # Of several lone rows in line, two and two go together.
    since = place - np.maximum.accumulate(np.where(lone, -1, place)) - 1
    joins = lone & (since % 2 == 0)
    first = np.zeros(labels.size, np.bool_)
    first[starts] = True
    first[starts[1:][joins[:-1]]] = False
    first[starts[-1]] &= not joins[-1]
    first[0] = True
    return np.cumsum(first) - 1


def _folds(size: int, rng: np.random.Generator) -> Ints:
    """Return a fold for every probe; of three neighbors each has another."""
    keys = rng.random((-(-size // FOLDS), FOLDS))
    return np.argsort(keys, axis=1).ravel()[:size]


def _learn(clustering: Clustering, plan: PilotPlan, score: Score, asked: Asked, fit: Bools, count: int) -> Floats:
    """Return the inclusion probabilities of a second draw after these probes and the centers."""
    ids = np.concatenate([asked.probes[fit], asked.centers])
    losses = np.concatenate([asked.losses[fit], asked.center_losses])
    scores = score.scores(Evidence(clustering, _everyone(clustering.n), Pilot(ids, plan), losses))
    return fixed_size_inclusion(parts(scores.sizes * (1 - plan.share)), count)


def _two_phases(clustering: Clustering, plan: PilotPlan, second: Floats, ids: Ints, losses: Floats) -> Floats:
    strata = join_lone(clustering.labels[ids].astype(np.int64))
    first, later, share = plan.inclusion[ids], second[ids], plan.share[ids]
    pilot = spread_terms(share * losses / first, first * (1 - first), strata)
    # The second draw is among the rows that the pilot has left.
    drawn = spread_terms((1 - share) * losses / later, (1 - first) * later * (1 - later), strata)
    return pilot + drawn


def _everyone(n: int) -> Frame:
    nothing = np.zeros(0, np.int64)
    return Frame(n, nothing, nothing)
