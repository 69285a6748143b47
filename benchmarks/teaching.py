"""Ways to choose rows to label, for the active learning benchmark. Each is a function of (x, answer, budget, seed).

`answer` returns the classes of rows. Every method asks for at most `budget` of them and returns the rows it asked for.
Methods with a model use the same head and the same number of rounds. They begin with uniform rows, a fifth of the
budget.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import coresift as cs
from benchmarks import herding
from coresift.covering import cover
from coresift.heads import LogisticHead
from coresift.learning import ROUNDS, Learned, complete, steps
from coresift.learning.plan import Plan

Matrix = NDArray[np.float32]
Ints = NDArray[np.int64]
Answer = Callable[[Ints], Ints]
Method = Callable[[Matrix, Answer, int, int], Ints]

# The benchmark measures CPU time, and a single thread never waits for others.
ONE_THREAD = cs.engines.Local(threads=1)
# scikit-activeml compares all pairs of rows, so it gets at most this many uniform rows, others for each seed.
MOST_ROWS = 10_000


def active_learning(x: Matrix, answer: Answer, budget: int, seed: int) -> Ints:
    """Run our method with its defaults: eight rounds, and audits if a tenth of the budget is at least 50 rows."""
    return learn(x, answer, budget, seed).ids


def learn(x: Matrix, answer: Answer, budget: int, seed: int) -> Learned:
    """Do all rounds of a run."""
    return complete(steps(x, budget, seed=seed, engine=ONE_THREAD, progress=False), answer)


def uniform(x: Matrix, answer: Answer, budget: int, seed: int) -> Ints:
    """Return the first rows of one random permutation per seed, so that larger budgets include smaller ones."""
    return np.random.default_rng([seed, 7]).permutation(len(x))[:budget]


def coverage(x: Matrix, answer: Answer, budget: int, seed: int) -> Ints:
    """Run `cover`, which needs no model."""
    return cover(x, budget, seed=seed, engine=ONE_THREAD, progress=False).ids


def medoids(x: Matrix, answer: Answer, budget: int, seed: int) -> Ints:
    """Return one row per cluster, with as many clusters as the budget."""
    return cs.baselines.diversity(x, budget, seed=seed, engine=ONE_THREAD, progress=False).ids


def k_center(x: Matrix, answer: Answer, budget: int, seed: int) -> Ints:
    """Choose each row as far as possible from the earlier ones."""
    return cs.baselines.k_center(x, budget, seed=seed, engine=ONE_THREAD, progress=False).ids


def paper(x: Matrix, answer: Answer, budget: int, seed: int) -> Ints:
    """Train a head on a uniform fifth of the budget, ask for losses of centers, and draw the rest by sensitivity."""
    first = np.sort(uniform(x, answer, budget // 5, seed))
    head = LogisticHead().fit(x[first], answer(first))

    def losses(ids: Ints) -> NDArray[np.float64]:
        columns = np.searchsorted(head.classes_, answer(ids)).clip(max=len(head.classes_) - 1)
        known = head.classes_[columns] == answer(ids)
        chances = head.predict_proba(x[ids])[np.arange(len(ids)), columns]
        return -np.log(np.maximum(np.where(known, chances, 0), 1e-6))

    clustering = cs.cluster(x, budget // 5, seed=seed, engine=ONE_THREAD, progress=False)
    options: Any = {
        "clusters": clustering,
        "pilot": cs.pilots.Centers(),
        "score": cs.scores.Sensitivity(holder="free"),
        "given": first,
    }
    return cs.select(x, losses, budget, seed, engine=ONE_THREAD, progress=False, **options).ids


def in_rounds(choose: Callable[[Matrix, LogisticHead, Ints, int, int], Ints]) -> Method:
    """Return a method that chooses rows in rounds, by a function of the current head and the rows so far."""

    def method(x: Matrix, answer: Answer, budget: int, seed: int) -> Ints:
        first, *later = Plan.of(budget, ROUNDS, None, len(x)).batches
        ids = uniform(x, answer, first, seed)
        for number, count in enumerate(later):
            head = LogisticHead().fit(x[ids], answer(ids))
            ids = np.concatenate([ids, choose(x, head, ids, count, 1000 * seed + number)])
        return ids

    return method


def _margin(x: Matrix, head: LogisticHead, ids: Ints, count: int, seed: int) -> Ints:
    if len(head.classes_) == 1:
        return np.setdiff1d(np.random.default_rng(seed).permutation(len(x)), ids)[:count]
    top = np.sort(head.predict_proba(x), axis=1)[:, -2:]
    margins = top[:, 1] - top[:, 0]
    margins[ids] = np.inf
    return np.argsort(margins, kind="stable")[:count]


def _badge(x: Matrix, head: LogisticHead, ids: Ints, count: int, seed: int) -> Ints:
    chances = head.predict_proba(x)
    return cs.baselines.badge(
        x, count, exclude=np.sort(ids), probabilities=chances, seed=seed, engine=ONE_THREAD, progress=False
    ).ids


def max_herding(x: Matrix, answer: Answer, budget: int, seed: int) -> Ints:
    """Run MaxHerding with the kernel width of its paper, on as many rows as scikit-activeml gets."""
    subset = np.sort(uniform(x, answer, min(len(x), MOST_ROWS), seed))
    return subset[herding.max_herding(x[subset], budget, gamma=1.0)]


def prob_cover(x: Matrix, answer: Answer, budget: int, seed: int) -> Ints:
    """Run ProbCover with scikit-activeml's settings, on as many rows as scikit-activeml gets."""
    subset = np.sort(uniform(x, answer, min(len(x), MOST_ROWS), seed))
    return subset[herding.prob_cover(x[subset], budget, seed)]


def activeml(name: str, x: Matrix, answer: Answer, budget: int, seed: int) -> Ints:
    """Run a strategy of scikit-activeml: with a model in as many rounds as ours, without one in a single round."""
    from skactiveml import pool  # noqa: PLC0415
    from skactiveml.classifier import SklearnClassifier  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    subset = np.sort(uniform(x, answer, min(len(x), MOST_ROWS), seed))
    points, truth = x[subset], answer(subset)
    y = np.full(len(subset), np.nan)
    strategy = getattr(pool, name)(random_state=seed)
    if name == "TypiClust":
        return subset[strategy.query(points, y, batch_size=budget)]
    first, *later = Plan.of(budget, ROUNDS, None, len(subset)).batches
    start = np.random.default_rng([seed, 8]).permutation(len(subset))[:first]
    y[start] = truth[start]
    scale = float(np.sqrt(np.square(points - points.mean(axis=0)).sum(axis=1).mean()))
    model = LogisticRegression(C=10.0, max_iter=200)
    for count in later:
        classifier = SklearnClassifier(model, classes=np.unique(truth), random_state=seed)
        learner = {"estimator" if name == "Clue" else "clf": classifier}
        chosen = strategy.query((points - points.mean(axis=0)) / scale, y, batch_size=count, **learner)
        y[chosen] = truth[chosen]
    return subset[np.flatnonzero(~np.isnan(y))]


ACTIVEML = ("Falcun", "TypiClust", "DropQuery", "Clue")
# The cheapest methods come first, so that an unfinished benchmark has most of them.
METHODS: dict[str, Method] = {
    "uniform": uniform,
    "active learning": active_learning,
    "margin": in_rounds(_margin),
    "coverage alone": coverage,
    "medoids": medoids,
    "k-center": k_center,
    "paper": paper,
    "BADGE": in_rounds(_badge),
    "ProbCover": prob_cover,
    "MaxHerding": max_herding,
    **{name: partial(activeml, name) for name in ACTIVEML},
}
