"""The error that a selection would have, relative to a uniform sample's, predicted from probes.

A draw without replacement along a sorted order has a variance of about Σ π(1−π)(g − ḡ)², where g is a row's value
divided by π and ḡ is the mean of g among its neighbors. Probes, weighted by 1/probability, estimate that sum and the
variance of a uniform sample. The sizes are learned from some of the probes, and the sum is taken over the others; on
the same probes, noise would look like signal. ḡ² is estimated by products of two different probes of a stratum, which
is unbiased even with two probes. The further gain from the learned estimate is ignored: it is small if rows are drawn
in proportion to their predictions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from coresift.checks import refuse
from coresift.estimation.intervals import unit_of
from coresift.holder import center_rows
from coresift.holder import plan as plan_probes
from coresift.inclusion import fixed_size_inclusion, parts
from coresift.progress import Progress, stage
from coresift.recipes.arguments import Job
from coresift.types import (
    Bools,
    Clustering,
    Evidence,
    Floats,
    Frame,
    Interval,
    Ints,
    PilotPlan,
    PilotSample,
    Score,
    Singles,
)
from coresift.variance import spread_terms

# The probes are split into thirds, this many times. A third and the centers are about as many rows as a pilot has, and
# the other two thirds have two probes or more in most clusters.
FOLDS, ROUNDS = 3, 5
# A row with a smaller chance than this is never drawn, and squares of what it would stand for are no numbers.
NEVER = 1e-100
# The number of groups of the jackknife.
GROUPS = 10
# How many neighbors along a proxy's order make a stratum.
NEIGHBORS = 4
# The smallest predicted ratio of variances.
LEAST = 1e-4
Z95 = 1.959964


@dataclass(frozen=True)
class Asked:
    """The losses that were asked: of the centers, and of the probes along the order.

    `chance` is the probability of being a probe, for each of all n rows.
    """

    centers: Ints
    center_losses: Floats
    probes: Ints
    losses: Floats
    chance: Floats

    @property
    def weights(self) -> Floats:
        """The number of rows that each probe stands for."""
        standing: Floats = 1 / self.chance[self.probes]
        return standing

    def scaled(self) -> Asked:
        """Divide the losses by a power of two, so that their sums and squares do not overflow."""
        return replace(self, losses=self.losses / unit_of(self.losses))


def selected_ratio(
    clustering: Clustering,
    plan: PilotPlan,
    job: Job,
    asked: Asked,
    rng: np.random.Generator,
    progress: Progress,
    components: Singles,
) -> Interval:
    """Predict RMSE(selection) / RMSE(uniform) of the estimated total loss, for two phases of the job's budget."""
    size, weights = asked.probes.size, asked.weights
    folds = np.stack([_folds(size, rng) for _ in range(ROUNDS)])
    pilot_plan = PilotPlan(asked.chance / FOLDS, plan.share, plan.order, keep=True, origin="pilot", tour=True)
    first = round(float(plan.inclusion.sum())) if plan.keep else 0
    learner = _Learner(clustering, pilot_plan, job, asked, job.room - first, components)
    fraction = job.room / max(int(np.count_nonzero(job.frame.open())), 1)
    scaled = asked.scaled()

    def ratio(kept: Bools, folds: Ints) -> float:
        per_row = []
        for line in folds:
            for fold in range(FOLDS):
                test = kept & (line != fold)
                inclusion = learner.inclusion(kept & (line == fold), test)
                terms = _two_phases(clustering, plan, job, inclusion, scaled, test)
                per_row.append(float(terms.sum() / weights[test].sum()))
                progress.advance(1)
        return variance_ratio(float(np.mean(per_row)), scaled.losses[kept], weights[kept], fraction)

    with stage(progress, "predicting the gain", FOLDS * (ROUNDS + GROUPS)):
        # The groups of the jackknife share one split, so its randomness cancels.
        return _interval(ratio(np.ones(size, np.bool_), folds), lambda kept: ratio(kept, folds[:1]), size)


def proxied_ratio(frame: Frame, clustering: Clustering, proxy: Score, budget: int, asked: Asked) -> Interval:
    """Predict RMSE(selection by a proxy) / RMSE(uniform); nothing is learned, so all probes are used to measure it."""
    size = asked.probes.size
    evidence = Evidence(clustering, frame, PilotSample(np.zeros(0, np.int64), PilotPlan.of_none(frame.n)), np.zeros(0))
    scores, left = proxy.scores(evidence), frame.open()
    room, fraction = budget - frame.given.size, (budget - frame.given.size) / max(int(np.count_nonzero(left)), 1)
    inclusion = fixed_size_inclusion(np.where(left, scores.sizes, 0.0), room)[asked.probes]
    place = np.empty(frame.n, np.int64)
    place[scores.order] = np.arange(frame.n)
    order = np.argsort(place[asked.probes], kind="stable")
    scaled = asked.scaled()

    def ratio(kept: Bools) -> float:
        walk = order[kept[order]]
        losses, chance, weights = scaled.losses[walk], inclusion[walk], asked.weights[walk]
        # The last few rows join the stratum before them, so that none is alone.
        strata = np.minimum(np.arange(walk.size) // NEIGHBORS, walk.size // NEIGHBORS - 1)
        terms = spread_terms(losses / chance, weights * chance * (1 - chance), strata)
        return variance_ratio(float(terms.sum() / weights.sum()), losses, weights, fraction)

    return _interval(ratio(np.ones(size, np.bool_)), ratio, size)


def variance_ratio(per_row: float, losses: Floats, weights: Floats, fraction: float) -> float:
    """Return a draw's variance per row divided by that of a uniform sample of this fraction of the rows.

    The latter is (1/fraction − 1)·S², where S² is the weighted variance of the losses. If all losses are equal, it is
    1.

    Examples:
        >>> variance_ratio(1.5, np.array([1.0, 3.0]), np.ones(2), fraction=0.25)
        0.25
    """
    if losses.min() == losses.max():
        return 1.0
    total = weights.sum()
    worth = total**2 / (weights @ weights)
    variance = float(weights @ (losses - weights @ losses / total) ** 2 / total * worth / (worth - 1))
    return max(per_row / ((1 / fraction - 1) * variance), LEAST)


def _interval(whole: float, ratio: Callable[[Bools], float], size: int) -> Interval:
    """Return the root of a ratio of variances, with an interval from a jackknife of its logarithm."""
    group = np.arange(size) % GROUPS
    logarithms = np.log([ratio(group != number) for number in range(GROUPS)])
    error = float(np.sqrt((GROUPS - 1) / GROUPS * ((logarithms - logarithms.mean()) ** 2).sum())) / 2
    root, factor = float(np.sqrt(whole)), float(np.exp(Z95 * error))
    return Interval(root, root / factor, root * factor, root * error)


def join_lone(labels: Ints) -> Ints:
    """Return strata of ordered rows: runs of one label, with lone rows joined to the run that follows.

    >>> join_lone(np.array([4, 4, 7, 2, 9, 5, 5]))
    array([0, 0, 1, 1, 2, 2, 2])
    """
    starts = np.flatnonzero(np.diff(labels, prepend=labels[0] - 1))
    lone = np.diff(starts, append=labels.size) == 1
    place = np.arange(lone.size)
    # Several lone rows in a row are joined in pairs.
    since = place - np.maximum.accumulate(np.where(lone, -1, place)) - 1
    joins = lone & (since % 2 == 0)
    first = np.zeros(labels.size, np.bool_)
    first[starts] = True
    first[starts[1:][joins[:-1]]] = False
    first[starts[-1]] &= not joins[-1]
    first[0] = True
    return np.cumsum(first) - 1


def _folds(size: int, rng: np.random.Generator) -> Ints:
    """Return a fold for every probe; three neighbors are in three different folds."""
    keys = rng.random((-(-size // FOLDS), FOLDS))
    return np.argsort(keys, axis=1).ravel()[:size]


@dataclass(frozen=True)
class _Learner:
    """The second draw that would follow if some of the probes and the centers were the pilot."""

    clustering: Clustering
    plan: PilotPlan
    job: Job
    asked: Asked
    count: int
    components: Singles

    def inclusion(self, fit: Bools, test: Bools) -> Floats:
        """Return the inclusion probabilities of a second draw after these probes and the other centers."""
        frame, asked = self.job.frame, self.asked
        centers = ~np.isin(asked.centers, asked.probes[fit | test])
        ids = np.concatenate([asked.probes[fit], asked.centers[centers]])
        losses = np.concatenate([asked.losses[fit], asked.center_losses[centers]])
        possible = self.plan.inclusion[ids] > 0  # a given row is never in the pilot
        ids, losses = ids[possible], losses[possible]
        evidence = Evidence(self.clustering, frame, PilotSample(ids, self.plan), losses, components=self.components)
        if self.job.score.needs.probes:
            evidence = replace(evidence, holder=self._holder(evidence))
        sizes = self.job.score.scores(evidence).sizes * (1 - self.plan.share)
        return self.job.design.inclusion(parts(np.where(frame.open(), sizes, 0.0)), self.count)

    def _holder(self, evidence: Evidence) -> Floats:
        method = self.job.score.needs.probes
        if method != "free":
            refuse("holder", 'a number or "free" in diagnose, which asks for no further losses', repr(method))
        points = center_rows(self.clustering, self.job.rows)
        return plan_probes(self.clustering, method).infer(evidence.cluster_losses(), np.zeros(0), points).for_drawing()


def _two_phases(clustering: Clustering, plan: PilotPlan, job: Job, second: Floats, asked: Asked, test: Bools) -> Floats:
    """Return one term per test probe; their sum estimates the variance of both phases."""
    ids, losses, weights = asked.probes[test], asked.losses[test], asked.weights[test]
    strata = join_lone(clustering.labels[ids].astype(np.int64))
    first, later, share = plan.inclusion[ids], second[ids], plan.share[ids]
    carried = np.divide(share * losses, first, out=np.zeros(ids.size), where=first > 0)
    pilot = spread_terms(carried, weights * first * (1 - first), strata)
    # The second draw is from the rows that the pilot did not take.
    expanded = np.divide((1 - share) * losses, later, out=np.zeros(ids.size), where=later > NEVER)
    left = weights * (1 - first) if plan.keep else weights
    return pilot + job.design.expected_terms(expanded, later, left, strata)
