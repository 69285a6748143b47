"""Several rounds (the paper's Algorithm 3): more centers are asked each time, and every round gives a selection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from coresift.arguments import Settled, settle
from coresift.checks import InputError, refuse, whole
from coresift.clustering.hierarchy import Hierarchy, check_size
from coresift.clustering.prefix import Order, Prefix, Sampling
from coresift.design import Design, Independent
from coresift.engine import Engine, Local
from coresift.oracle import Oracle, as_oracle
from coresift.pilot import Centers
from coresift.pipeline import Prepared, describe, finish
from coresift.progress import Progress, choose
from coresift.score import Distance, Score, Sensitivity
from coresift.types import Bools, Clustering, Floats, Ints, Ledger, Selection

ORDERS: dict[str, Callable[[np.random.Generator], Order]] = {
    "sampling": Sampling,
    "mettu-plaxton": lambda _: Hierarchy(),
}


def rounds(
    rows: Any,
    losses: Any = None,
    budget: int | None = None,
    clusters: int | None = None,
    rounds: int = 1,
    seed: int = 0,
    *,
    order: str = "sampling",
    z: float | None = None,
    pilot: Centers | None = None,
    score: Score | None = None,
    design: Design | None = None,
    given: Any = None,
    exclude: Any = None,
    normalize: bool = False,
    epsilon: float | None = None,
    delta: float | None = None,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
) -> Run:
    """Select in several rounds, each with more centers (Algorithm 3); iterate over the run, or call its `next`.

    Round i asks for the losses of `clusters` new centers, gives every row to the nearest of all centers so far, and
    draws a selection of `budget` rows anew: at most rounds × clusters losses in all. When every row has been a
    center, the estimated total loss is exact.

    rows, losses, budget, z, given, exclude, normalize, epsilon, delta, engine, progress: as in `select`.
    clusters: how many centers join each round, a tenth of the budget unless said.
    order: where centers come from. "sampling" draws them ∝ D^z, the power of the distance to those before;
        "mettu-plaxton" is within a constant factor of the best for any number of centers, but takes quadratic time.
    pilot, score, design: by default those of Algorithm 3, `Centers(keep=False)`, `Sensitivity` and `Independent`, with
        Λ estimated anew each round from the centers' losses (`holder="free"`; that estimate is ours, the paper leaves
        Λ to the user). `Centers(keep=True)` takes the centers into every selection; an array of Λ has one for every
        center, in their order.

    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(1000, 4))
    >>> for selection in rounds(rows, lambda ids: rows[ids, 0] ** 2, budget=50, clusters=20, rounds=3):
    ...     print(selection.ledger.asked, selection.multiplicity.sum())
    20 50
    40 50
    60 50
    """
    oracle = as_oracle(losses)
    if score is None:
        score = Distance() if oracle is None else Sensitivity(holder="free")
    if pilot is not None and not isinstance(pilot, Centers):
        refuse("pilot", "Centers(keep=False) or Centers(keep=True), whose losses the rounds ask", repr(pilot))
    settled = settle(
        rows,
        budget,
        seed,
        asking=oracle is not None,
        clusters=clusters,
        z=z,
        pilot=pilot or (Centers(keep=False) if oracle is not None and score.asks else None),
        score=score,
        design=design or Independent(),
        given=given,
        exclude=exclude,
        normalize=normalize,
        epsilon=epsilon,
        delta=delta,
    )
    if order not in ORDERS:
        refuse("order", f"one of {', '.join(repr(name) for name in ORDERS)}", repr(order))
    return Run(settled, oracle, whole("rounds", rounds), order, engine, choose(progress))


class Run:
    """The rounds that were asked for, one selection each: `for selection in run`, or `run.next()`.

    `round` is the number of the last round (0 at first) of `rounds`; `clustering` has its centers, in the order in
    which they joined; `ledger` counts the losses of all rounds so far, by round and reason.
    """

    def __init__(
        self,
        settled: Settled,
        oracle: Oracle | None,
        rounds: int,
        order: str,
        engine: Engine | None,
        progress: Progress,
    ) -> None:
        if isinstance(settled.clusters, Clustering):
            refuse("clusters", "how many centers join each round", "a Clustering")
        self.rounds, self.round, self.ledger = rounds, 0, Ledger()
        self.clustering: Clustering | None = None
        self._settled, self._step, self._oracle, self._order = settled, settled.clusters, oracle, order
        self._engine, self._progress = engine, progress
        self._losses: Floats = np.full(settled.rows.n, np.nan)
        self._known: Bools = np.zeros(settled.rows.n, np.bool_)
        allowed = np.ones(settled.rows.n, np.bool_)
        allowed[settled.frame.excluded] = False
        _check(settled, min(rounds * self._step, settled.frame.population), order)
        view = settled.rows.normalized() if settled.normalize else settled.rows
        self._prefix = Prefix(view, settled.z, ORDERS[order](np.random.default_rng([settled.seed, 1])), allowed)

    def next(self, losses: Any = None, *, keep_answers: bool = False) -> Selection:
        """Run the next round and return its selection.

        losses: from this round on, losses that have changed (a model trained on the last selection). The earlier
            centers are asked again; with `keep_answers` their old answers stay, and only new centers are asked.

        >>> import numpy as np
        >>> rows = np.random.default_rng(0).normal(size=(1000, 4))
        >>> run = rounds(rows, lambda ids: rows[ids, 0] ** 2, budget=50, clusters=20, rounds=3)
        >>> first, second = run.next(), run.next(losses=lambda ids: rows[ids, 1] ** 2)
        >>> second.ledger.entries
        ((1, 'new centers', 20), (2, 'earlier centers again', 20), (2, 'new centers', 20))
        >>> run.next(losses=lambda ids: rows[ids, 2] ** 2, keep_answers=True).ledger.entries[3:]
        ((3, '40 earlier answers kept', 0), (3, 'new centers', 20))
        """
        if self.round == self.rounds:
            raise InputError(f"All {self.rounds} rounds are done; a run with more rounds goes on.")
        if losses is not None:
            self._change(as_oracle(losses), keep_answers)
        prepared = self._prepare()
        self._ask(prepared)
        answers, probed = self._losses[prepared.pilot.ids], self._losses[prepared.probed]
        selection = finish(prepared, answers, self.ledger, probed=probed)
        self.round += 1
        self.clustering = prepared.clustering
        return selection

    def __iter__(self) -> Iterator[Selection]:
        return self

    def __next__(self) -> Selection:
        if self.round == self.rounds:
            raise StopIteration
        return self.next()

    def __repr__(self) -> str:
        return f"Run(round {self.round} of {self.rounds}, {self.ledger.asked} losses asked)"

    def _change(self, oracle: Oracle | None, keep: bool) -> None:
        if self._oracle is None:
            raise InputError("losses cannot join a run that began without; begin a run with losses.")
        self._oracle = oracle
        if keep and self._known.any():
            self._note(f"{np.count_nonzero(self._known)} earlier answers kept", 0)
        elif not keep:
            self._known[:] = False

    def _prepare(self) -> Prepared:
        settled, number = self._settled, self.round + 1
        with (self._engine or Local()).open(self._progress) as workers:
            self._prefix.grow(number * self._step, workers, self._progress)
        clustering = self._prefix.clustering(settled.seed, normalized=settled.normalize)
        prepared = describe(replace(settled, score=_score_for(settled.score, clustering.k)), clustering, self._engine)
        recipe = {**prepared.recipe, "round": f"{number} of {self.rounds}", "order": self._order}
        return replace(prepared, recipe=recipe, stream=(number,))

    def _ask(self, prepared: Prepared) -> None:
        if self._oracle is None or not prepared.pilot.ids.size:
            return
        earlier = min(self.round * self._step, prepared.clustering.k)
        groups = {
            "earlier centers again": prepared.clustering.centers[:earlier],
            "new centers": prepared.clustering.centers[earlier:],
            "holder": prepared.probed,
        }
        for reason, ids in groups.items():
            new = ids[~self._known[ids]]
            if new.size:
                self._answer(self._oracle, new, reason)

    def _answer(self, oracle: Oracle, ids: Ints, reason: str) -> None:
        rows = self._settled.rows
        with oracle.session(rows.n, self._fingerprint(), ids.size, self._progress, rows.names) as session:
            self._losses[ids] = session.ask(ids, round=self.round + 1, reason=reason)
        self._known[ids] = True
        self._note(reason, ids.size)

    def _note(self, reason: str, count: int) -> None:
        self.ledger = Ledger((*self.ledger.entries, (self.round + 1, reason, count)))

    def _fingerprint(self) -> dict[str, str]:
        settled = self._settled
        return {
            "rows": settled.rows.fingerprint(),
            "clusters": f"{self._step} a round",
            "order": self._order,
            "z": repr(settled.z),
            "normalize": repr(settled.normalize),
            "score": repr(settled.score),
            "seed": str(settled.seed),
        }


def _check(settled: Settled, most: int, order: str) -> None:
    """Refuse what some later round could not do."""
    room = settled.budget - settled.frame.given.size
    if isinstance(settled.pilot, Centers) and settled.pilot.keep and most > room:
        raise InputError(
            f"{settled.pilot!r} keeps {most} centers in the end, more than the budget of {settled.budget} leaves; "
            "take fewer clusters or rounds, or a larger budget."
        )
    holder = settled.score.holder if isinstance(settled.score, Sensitivity) else None
    if isinstance(holder, np.ndarray) and holder.size not in (1, most):
        refuse("holder", f"one number, or one for each of the {most} centers of all rounds", f"{holder.size} numbers")
    if order == "mettu-plaxton":
        check_size(settled.frame.population)


def _score_for(score: Score, k: int) -> Score:
    """Return the score for the first k centers."""
    if isinstance(score, Sensitivity) and isinstance(score.holder, np.ndarray) and score.holder.size > 1:
        return Sensitivity(holder=score.holder[:k])
    return score
