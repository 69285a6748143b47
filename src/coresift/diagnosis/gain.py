"""The error that a selection would have, relative to a uniform sample's, predicted from probes.

A draw without replacement along a sorted order has about the variance Σ π(1−π)(g − ḡ)², where g is a row's value over
its π and ḡ is the mean of g among its neighbors. Probes drawn with equal probability estimate that sum. The sizes
are learned from one half of the probes and the sum is taken over the other: on the same half, noise would look like
signal. ḡ² is estimated by products of two different probes of one stratum, which is unbiased with as few as two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coresift.inclusion import fixed_size_inclusion, parts
from coresift.progress import Progress, stage
from coresift.score import Proxy, Score
from coresift.types import Bools, Clustering, Evidence, Floats, Frame, Interval, Ints, Pilot, PilotPlan

# How often the probes are halved; each time both halves are fitted once and scored once.
HALVINGS = 10
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
    pretended = PilotPlan(np.full(n, size / 2 / n), plan.share, plan.order, keep=True, origin="pilot")
    second = budget - round(float(plan.inclusion.sum()))
    terms = np.zeros(size)
    with stage(progress, "predicting the gain", 2 * HALVINGS):
        for _ in range(HALVINGS):
            half = _half(size, rng)
            for fit in (half, ~half):
                inclusion = _learn(clustering, pretended, score, asked, fit, second)
                terms[~fit] += _two_phases(clustering, plan, inclusion, asked.probes[~fit], asked.losses[~fit])
                progress.advance(1)
    return _ratio(terms / HALVINGS, asked.losses, budget / n)


def proxied_ratio(clustering: Clustering, proxy: Proxy, budget: int, asked: Asked) -> Interval:
    """Predict RMSE(selection by a proxy) / RMSE(uniform); nothing is learned, so all probes score it."""
    frame = _everyone(clustering.n)
    nobody = PilotPlan(np.zeros(frame.n), np.zeros(frame.n), np.arange(frame.n), keep=False, origin="pilot")
    sizes = proxy.scores(Evidence(clustering, frame, Pilot(np.zeros(0, np.int64), nobody), np.zeros(0))).sizes
    inclusion = fixed_size_inclusion(sizes, budget)[asked.probes]
    order = np.argsort(proxy.losses[asked.probes], kind="stable")
    # The last few join the stratum before them, so that none is alone.
    strata = np.minimum(np.arange(order.size) // NEIGHBORS, order.size // NEIGHBORS - 1)
    terms = np.empty(order.size)
    terms[order] = spread_terms((asked.losses / inclusion)[order], (inclusion * (1 - inclusion))[order], strata)
    return _ratio(terms, asked.losses, budget / clustering.n)


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


def _half(size: int, rng: np.random.Generator) -> Bools:
    """Return one of every two neighbors, by coin."""
    coins = np.repeat(rng.random((size + 1) // 2) < 0.5, 2)[:size]
    half: Bools = coins ^ (np.arange(size) % 2 == 1)
    return half


def _learn(clustering: Clustering, plan: PilotPlan, score: Score, asked: Asked, fit: Bools, count: int) -> Floats:
    """Return the inclusion probabilities of a second draw after this half of the probes, and the centers."""
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


def _ratio(terms: Floats, losses: Floats, fraction: float) -> Interval:
    """Return the root of the ratio of variances, and its interval by linearization on the scale of logarithms."""
    size = losses.size
    uniform = (1 / fraction - 1) * (losses - losses.mean()) ** 2 * size / (size - 1)
    if not uniform.any():
        return Interval(1.0, 0.0, np.inf, np.inf)
    ratio = max(float(terms.sum() / uniform.sum()), LEAST)
    error = float(np.sqrt(size / (size - 1) * ((terms - ratio * uniform) ** 2).sum()) / uniform.sum()) / (2 * ratio)
    root = float(np.sqrt(ratio))
    return Interval(root, root * float(np.exp(-Z95 * error)), root * float(np.exp(Z95 * error)), root * error)


def _everyone(n: int) -> Frame:
    nothing = np.zeros(0, np.int64)
    return Frame(n, nothing, nothing)
