"""The methods that the translation studies compare: every call of coresift that selects pairs is in this file.

A method is a function of `Candidates` and a seed that returns row numbers. To add one, write it and name it in
`METHODS`; `python -m repro translation` then does its runs, and the page shows them.
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
    """The pairs to select from, as far as a method may look at them; what is costly is made when it is asked for."""

    plan: Plan
    texts: list[str]
    make_rows: Callable[[], cs.rows.Rows]  # the embedded English sides
    make_domain: Callable[[], Floats]  # embedded sentences of the test domain that are not judged
    losses: Callable[[Ints], Floats]  # under the model before it is fine-tuned

    @cached_property
    def rows(self) -> cs.rows.Rows:
        """The embedded English sides."""
        return self.make_rows()

    def clusters(self, seed: int) -> cs.Clustering:
        """The clusters of the paper's algorithm."""
        return cs.cluster(self.rows, self.plan.centers, seed=seed, progress=False)


@dataclass(frozen=True)
class Method:
    """A way to select pairs: what the page calls it, whether the embedding matters to it, and how it selects."""

    title: str
    embeds: bool
    select: Callable[[Candidates, int], Ints]


def random(candidates: Candidates, seed: int) -> Ints:
    """Any pairs; no embedding is needed for that."""
    placeholder = np.zeros((len(candidates.texts), 1), np.float32)
    return cs.baselines.uniform(placeholder, candidates.plan.budget, seed=seed).ids.copy()


def deduplicated(candidates: Candidates, seed: int) -> Ints:
    """Any pairs, but of those that are nearly the same only one."""
    return cs.baselines.deduplicated(candidates.rows, candidates.plan.budget, seed=seed).ids.copy()


def length_matched(candidates: Candidates, seed: int) -> Ints:
    """Any pairs that are as long as those that sensitivity selects: what it gains by length alone."""
    like = sensitivity(candidates, seed)
    options = {"lengths": candidates.texts, "like": like}
    return cs.baselines.length_matched(candidates.rows, candidates.plan.budget, seed=seed, **options).ids.copy()


def sensitivity(candidates: Candidates, seed: int, holder: float | str | None = None) -> Ints:
    """The paper's Algorithm 1: centers are kept, and pairs drawn by ℓ(c) + λ‖e − c‖²."""
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
    """Pairs far from each other: D² draws."""
    return cs.baselines.diversity(candidates.rows, candidates.plan.budget, seed=seed).ids.copy()


def default(candidates: Candidates, seed: int) -> Ints:
    """What coresift does if nothing else is said."""
    return cs.select(candidates.rows, candidates.losses, candidates.plan.budget, seed, progress=False).ids.copy()


def cover(candidates: Candidates, seed: int) -> Ints:
    """Pairs that have every other near, the more so the larger the loss of its cluster's center."""
    clusters = candidates.clusters(seed)
    importance = candidates.losses(np.asarray(clusters.centers))[clusters.labels]
    options = {"importance": importance, "seed": seed, "progress": False}
    return cs.cover(candidates.rows, candidates.plan.budget, **options).ids.copy()


def nearness(candidates: Candidates, seed: int) -> Ints:
    """The pairs nearest to a random half of the known sentences of the test domain; each in turn takes its nearest."""
    domain, rows = candidates.make_domain(), candidates.rows
    half = np.random.default_rng([seed, 11]).permutation(len(domain))[: len(domain) // 2]
    return nearest_in_turn(rows.take(np.arange(rows.n)), domain[half], candidates.plan.budget)


def nearest_in_turn(points: Floats, domain: Floats, budget: int) -> Ints:
    """Return `budget` points: the nearest of every domain point, then the second nearest of every one, and so on.

    Example:
        >>> nearest_in_turn(np.array([[0.0], [1.0], [5.0], [9.0]]), np.array([[0.9], [8.0]]), 3)
        array([1, 3, 0])
    """
    each = 0
    found: list[int] = []
    while len(found) < budget:  # many have the same nearest, so it cannot be said beforehand how many are needed
        each = min(len(points), max(2 * each, 2 * -(-budget // len(domain))))
        ranked = np.array([nearest(points, point, each) for point in domain])
        found = list(dict.fromkeys(ranked.T.ravel().tolist()))
    return np.array(found[:budget])


def nearest(points: Floats, point: Floats, count: int) -> Ints:
    """Return the nearest points in the order of their distances."""
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
