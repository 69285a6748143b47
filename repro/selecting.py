"""The methods that the translation studies compare, with all calls of coresift that select pairs.

A method is a function of `Candidates` and a seed that returns row numbers. To add one, write it and add it to
`METHODS`; `python -m repro translation` then does its runs and adds them to the page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import coresift as cs
from repro.plans import Ints, Plan
from repro.results import Floats


@dataclass
class Candidates:
    """What a method may know about the pairs to select from; the expensive parts are computed on demand."""

    plan: Plan
    texts: list[str]
    make_rows: Callable[[], cs.rows.Rows]  # the embedded English sides
    make_domain: Callable[[], Floats]  # embedded sentences of the test domain that are not in the test set
    losses: Callable[[Ints], Floats]  # under the model before fine-tuning

    @cached_property
    def rows(self) -> cs.rows.Rows:
        """The embedded English sides."""
        return self.make_rows()

    def clusters(self, seed: int) -> cs.Clustering:
        """Return the clusters of the paper's algorithm."""
        return cs.cluster(self.rows, self.plan.centers, seed=seed, progress=False)


@dataclass(frozen=True)
class Method:
    """A way to select pairs: its title on the page, whether it depends on the embedding, and its function."""

    title: str
    embeds: bool
    select: Callable[[Candidates, int], Ints]


def random(candidates: Candidates, seed: int) -> Ints:
    """Select random pairs; this needs no embedding."""
    placeholder = np.zeros((len(candidates.texts), 1), np.float32)
    return cs.baselines.uniform(placeholder, candidates.plan.budget, seed=seed).ids.copy()


def deduplicated(candidates: Candidates, seed: int) -> Ints:
    """Select random pairs, but only one of those that are nearly the same."""
    return cs.baselines.deduplicated(candidates.rows, candidates.plan.budget, seed=seed).ids.copy()


def length_matched(candidates: Candidates, seed: int) -> Ints:
    """Select random pairs with the lengths of those that sensitivity selects, to see what length alone gains."""
    like = sensitivity(candidates, seed)
    options = {"lengths": candidates.texts, "like": like}
    return cs.baselines.length_matched(candidates.rows, candidates.plan.budget, seed=seed, **options).ids.copy()


def sensitivity(candidates: Candidates, seed: int, holder: float | str | None = None) -> Ints:
    """Run the paper's Algorithm 1: centers are kept, and pairs are drawn ∝ ℓ(c) + λ‖e − c‖²."""
    plan = candidates.plan
    selection = cs.select(
        candidates.rows,
        candidates.losses,
        plan.budget,
        seed,
        clusters=candidates.clusters(seed),
        pilot=cs.pilots.Centers(keep=True),
        score=cs.scores.Sensitivity(holder=plan.holder if holder is None else holder),
        design=cs.designs.Pivotal(),
        progress=False,
    )
    return selection.ids.copy()


def diversity(candidates: Candidates, seed: int) -> Ints:
    """Select pairs far from each other, by D² sampling."""
    return cs.baselines.diversity(candidates.rows, candidates.plan.budget, seed=seed).ids.copy()


def default(candidates: Candidates, seed: int) -> Ints:
    """Select with coresift's default options."""
    return cs.select(candidates.rows, candidates.losses, candidates.plan.budget, seed, progress=False).ids.copy()


def cover(candidates: Candidates, seed: int) -> Ints:
    """Select pairs that cover the pool; a pair's importance is the loss of its cluster's center."""
    clusters = candidates.clusters(seed)
    importance = candidates.losses(np.asarray(clusters.centers))[clusters.labels]
    options = {"importance": importance, "seed": seed, "progress": False}
    return cs.cover(candidates.rows, candidates.plan.budget, **options).ids.copy()


def nearness(candidates: Candidates, seed: int) -> Ints:
    """Select the pairs nearest to a random half of the known sentences of the test domain, which take turns."""
    domain, rows = candidates.make_domain(), candidates.rows
    half = np.random.default_rng([seed, 11]).permutation(len(domain))[: len(domain) // 2]
    return nearest_in_turn(rows.take(np.arange(rows.n)), domain[half], candidates.plan.budget)


def nearest_in_turn(points: Floats, domain: Floats, budget: int) -> Ints:
    """Return `budget` points: the nearest to each domain point, then the second nearest to each, and so on.

    Example:
        >>> nearest_in_turn(np.array([[0.0], [1.0], [5.0], [9.0]]), np.array([[0.9], [8.0]]), 3)
        array([1, 3, 0])
    """
    neighbors = 0
    chosen: list[int] = []
    while len(chosen) < budget:  # domain points may share neighbors, so the number of neighbors needed is unknown
        neighbors = min(len(points), max(2 * neighbors, 2 * -(-budget // len(domain))))
        ranked = np.array([nearest(points, point, neighbors) for point in domain])
        chosen = list(dict.fromkeys(ranked.T.ravel().tolist()))
    return np.array(chosen[:budget])


def nearest(points: Floats, point: Floats, count: int) -> Ints:
    """Return the nearest points, sorted by distance."""
    distances = ((points - point) ** 2).sum(1)
    near = np.argpartition(distances, count - 1)[:count]
    return near[np.lexsort((near, distances[near]))]


METHODS = {
    "random": Method("random", False, random),
    "sensitivity": Method("sensitivity (λ = 0.1)", True, sensitivity),
    "diversity": Method("diversity", True, diversity),
    "ours": Method("coresift's default", True, default),
    "sensitivity-lemma": Method(
        "sensitivity (Λ from the lemma)", True, lambda candidates, seed: sensitivity(candidates, seed, "estimate")
    ),
    "cover": Method("cover, by the center's loss", True, cover),
    "nearness": Method("nearest to other sentences of newstest2014", True, nearness),
    "random-deduplicated": Method("random, deduplicated", True, deduplicated),
    "length-matched": Method("random, lengths as sensitivity's", True, length_matched),
}
