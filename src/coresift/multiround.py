"""Several rounds (the paper's Algorithm 3): each round asks more centers and returns a selection."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from coresift.checks import InputError, named_options, refuse, whole
from coresift.clustering.hierarchy import Hierarchy, check_size
from coresift.clustering.prefix import Order, Prefix, Sampling
from coresift.clustering.prefix_strata import ClassPrefixes
from coresift.engine import Engine, Local
from coresift.oracle import LossesLike, Oracle, as_oracle
from coresift.oracle.driving import Prepared
from coresift.progress import Progress, choose
from coresift.recipes import rounds as rounds_recipe
from coresift.recipes.arguments import Job, PartOptions, check_options, checked_part, merge_recipe, settle
from coresift.rows import Rows, RowsLike
from coresift.selection import Draft, draft_of, finish
from coresift.streams import Stream, generator
from coresift.types import Bools, Clustering, Floats, Ledger, Request, Score, WeightedSelection

ORDERS: dict[str, Callable[[np.random.Generator], Order]] = {
    "sampling": Sampling,
    "mettu-plaxton": lambda _: Hierarchy(),
}


@named_options
def rounds(
    rows: RowsLike,
    losses: LossesLike | None = None,
    budget: int | None = None,
    clusters: int | None = None,
    rounds: int = 1,
    seed: int = 0,
    *,
    order: str = "sampling",
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
    **options: Unpack[PartOptions],
) -> Rounds:
    """Select in several rounds, each with more centers (Algorithm 3); iterate over the run, or call its `next`.

    Round i asks for the losses of `clusters` new centers, assigns every row to the nearest of all centers so far, and
    draws a new selection of `budget` rows: at most rounds × clusters losses in total. When every row has been a
    center, the estimated total loss is exact.

    Args:
        rows: As in `select`.
        losses: As in `select`.
        budget: As in `select`, for each round.
        clusters: How many centers join each round; by default budget/10.
        rounds: How many rounds there are.
        seed: As in `select`.
        order: How centers are chosen. "sampling" draws them ∝ D^z, the z-th power of the distance to the centers so
            far; "mettu-plaxton" is within a constant factor of the optimum for any number of centers, but takes
            quadratic time.
        engine: As in `select`.
        progress: As in `select`.
        **options: The other options of `select`. The pilot must ask the centers: `Centers(keep=False)` by default,
            and `Centers(keep=True)` puts the centers into every selection. By default the score is `Sensitivity` with Λ
            re-estimated each round from the centers' losses (`holder="free"`; that estimate is ours, the paper leaves Λ
            to the user) and the design is `Independent`. An array of Λ has one number per center, in their order. With
            `strata`, every class has its own centers, at least one per round.

    Returns:
        A run that yields one selection per round.

    Examples:
        >>> import numpy as np
        >>> rows = np.random.default_rng(0).normal(size=(1000, 4))
        >>> for selection in rounds(rows, lambda ids: rows[ids, 0] ** 2, budget=50, clusters=20, rounds=3):
        ...     print(selection.ledger.asked, selection.multiplicity.sum())
        20 50
        40 50
        60 50
    """
    oracle = as_oracle(losses)
    job = _settle(rows, budget, clusters, seed, options, asking=oracle is not None)
    if oracle is not None:
        oracle.verify(job.rows.n, names=job.rows.names, skip=job.frame.excluded)
    return Rounds(job, oracle, rounds, order, engine, choose(progress))


def begin(
    rows: RowsLike,
    budget: int | None,
    seed: int,
    *,
    clusters: int | None = None,
    rounds: int = 1,
    order: str = "sampling",
    engine: Engine | None,
    progress: Progress,
    **options: Unpack[PartOptions],
) -> Prepared[list[WeightedSelection]]:
    """Prepare all rounds up to the first question; losses come later, and the result is one selection per round."""
    job = _settle(rows, budget, clusters, seed, options, asking=True)

    def steps() -> Generator[Request, Floats, list[WeightedSelection]]:
        return Rounds(job, None, rounds, order, engine, progress).steps()

    run = Rounds(job, None, rounds, order, engine, progress)
    return Prepared(steps, job.rows, run.fingerprint, job.rows.n, never=job.frame.excluded)


def _settle(
    rows: Any, budget: int | None, clusters: int | None, seed: int, options: PartOptions, *, asking: bool
) -> Job:
    """Check the arguments; parts that are not given are those of Algorithm 3."""
    check_options("rounds", options, ARGUMENTS, PartOptions)
    arguments: dict[str, Any] = dict(options)
    recipe = merge_recipe(arguments.pop("recipe", None), {})
    default_score = rounds_recipe(asking=asking).score
    score = checked_part("score", arguments.get("score") or recipe.score or default_score, Score)
    defaults = rounds_recipe(asking=asking and score.needs.pilot)
    recipe_parts = {name: getattr(recipe, name) for name in ("clusters", "z", "normalize", "pilot", "design")}
    arguments["recipe"] = merge_recipe(defaults, {**recipe_parts, "score": score})
    job = settle(rows, budget, seed, asking=asking, clusters=clusters, **arguments)
    if job.pilot is not None and not job.pilot.asks_centers:
        refuse("pilot", "Centers(keep=False) or Centers(keep=True), since rounds ask centers", repr(job.pilot))
    return job


ARGUMENTS = ("rows", "losses", "budget", "clusters", "rounds", "seed", "order", "engine", "progress")


class Rounds:
    """A run of `rounds`, with one selection per round: `for selection in run`, or `run.next()`.

    `round` is the number of the last finished round (0 at first) of `rounds`; `clustering` has its centers, in the
    order in which they joined; `ledger` counts the losses of all rounds so far, by round and reason.
    """

    def __init__(
        self,
        job: Job,
        oracle: Oracle | None,
        rounds: int,
        order: str,
        engine: Engine | None,
        progress: Progress,
    ) -> None:
        if job.clustering is not None:
            refuse("clusters", "how many centers join each round", "a Clustering")
        if order not in ORDERS:
            refuse("order", f"one of {', '.join(repr(name) for name in ORDERS)}", repr(order))
        whole("rounds", rounds)
        self.rounds, self.round, self.ledger = rounds, 0, Ledger()
        self.clustering: Clustering | None = None
        self._job, self._step, self._oracle, self._order = job, job.clusters, oracle, order
        self._engine, self._progress = engine, progress
        self._losses: Floats = np.full(job.rows.n, np.nan)
        self._known: Bools = np.zeros(job.rows.n, np.bool_)
        allowed = np.ones(job.rows.n, np.bool_)
        allowed[job.frame.excluded] = False
        _check_last_round(job, min(rounds * self._step, job.frame.population), order)
        view = job.rows.normalized() if job.normalize else job.rows
        self._prefix = _prefix(job, view, order, allowed)

    def next(self, losses: Any = None, *, keep_answers: bool = False) -> WeightedSelection:
        """Run the next round and return its selection.

        Args:
            losses: New losses from this round on, such as those of a model trained on the last selection. Earlier
                centers are asked again.
            keep_answers: With new losses, keep the answers of earlier centers, and ask only new centers.

        Returns:
            The selection of this round.

        Examples:
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
            raise InputError(f"All {self.rounds} rounds are done; start a run with more rounds.")
        if losses is not None and (oracle := as_oracle(losses)) is not None:
            oracle.verify(self._job.rows.n, names=self._job.rows.names, skip=self._job.frame.excluded)
            self._change_losses(oracle, keep_answers)
        draft = self._prepare()
        for request in self._requests(draft) if self._oracle is not None else []:
            self._record_answers(request, self._ask(self._oracle, request))  # type: ignore[arg-type]
        return self._finish(draft)

    def steps(self) -> Generator[Request, Floats, list[WeightedSelection]]:
        """Yield the requests of each round, and return the selections of all rounds."""
        selections = []
        while self.round < self.rounds:
            draft = self._prepare()
            for request in self._requests(draft):
                self._record_answers(request, (yield request))
            selections.append(self._finish(draft))
        return selections

    def __iter__(self) -> Iterator[WeightedSelection]:
        return self

    def __next__(self) -> WeightedSelection:
        if self.round == self.rounds:
            raise StopIteration
        return self.next()

    def __repr__(self) -> str:
        return f"Rounds(round {self.round} of {self.rounds}, {self.ledger.asked} losses asked)"

    def _change_losses(self, oracle: Oracle, keep: bool) -> None:
        if self._oracle is None:
            raise InputError("This run began without losses; start a new run with losses.")
        self._oracle = oracle
        if keep and self._known.any():
            self._add_to_ledger(f"{np.count_nonzero(self._known)} earlier answers kept", 0)
        elif not keep:
            self._known[:] = False

    def _prepare(self) -> Draft:
        job, number = self._job, self.round + 1
        with (self._engine or Local()).open(self._progress) as workers:
            self._prefix.grow(number * self._step, workers, self._progress)
        clustering = self._prefix.clustering(job.seed, normalized=job.normalize)
        draft = draft_of(replace(job, score=job.score.for_centers(clustering.k)), clustering, self._engine)
        options = {"round": f"{number} of {self.rounds}", "order": self._order}
        return replace(draft, name="rounds", options=options, stream=(number,))

    def _requests(self, draft: Draft) -> list[Request]:
        """Return the requests of this round: new centers, and earlier ones whose losses have changed."""
        if not draft.pilot.ids.size:
            return []
        earlier = min(self.round * self._step, draft.clustering.k)
        groups = {
            "earlier centers again": draft.clustering.centers[:earlier],
            "new centers": draft.clustering.centers[earlier:],
            "holder": draft.probed,
        }
        requests, requested = [], self._known.copy()
        for reason, ids in groups.items():
            new = ids[~requested[ids]]
            requested[new] = True
            requests += [Request(new, reason, self.round + 1)] if new.size else []
        return requests

    def _record_answers(self, request: Request, answers: Floats) -> None:
        self._losses[request.ids] = answers
        self._known[request.ids] = True
        self._add_to_ledger(request.reason, request.ids.size)

    def _ask(self, oracle: Oracle, request: Request) -> Floats:
        rows = self._job.rows
        with oracle.session(rows.n, self.fingerprint(), request.ids.size, self._progress, rows.names) as session:
            losses: Floats = session.ask(request.ids, round=request.round, reason=request.reason)
        return losses

    def _finish(self, draft: Draft) -> WeightedSelection:
        answers, probed = self._losses[draft.pilot.ids], self._losses[draft.probed]
        selection = finish(draft, answers, self.ledger, probed=probed)
        self.round += 1
        self.clustering = draft.clustering
        return selection

    def _add_to_ledger(self, reason: str, count: int) -> None:
        self.ledger = Ledger((*self.ledger.entries, (self.round + 1, reason, count)))

    def fingerprint(self) -> dict[str, str]:
        """Return what the answers depend on, by name."""
        job = self._job
        return {
            "rows": job.rows.fingerprint(),
            "clusters": f"{self._step} per round",
            "order": self._order,
            "z": repr(job.z),
            "normalize": repr(job.normalize),
            "score": repr(job.score),
            "seed": str(job.seed),
        }


def _prefix(job: Job, view: Rows, order: str, allowed: Bools) -> Prefix | ClassPrefixes:
    if not job.frame.strata.size:
        return Prefix(view, job.z, ORDERS[order](generator(job.seed, Stream.CLUSTERING)), allowed)

    def make_order(code: int) -> Order:
        return ORDERS[order](generator(job.seed, Stream.CLUSTERING, code))

    return ClassPrefixes(view, job.z, make_order, allowed, job.frame.strata)


def _check_last_round(job: Job, most: int, order: str) -> None:
    """Refuse arguments with which a later round would fail."""
    if job.pilot is not None and job.pilot.keep and most > job.room:
        raise InputError(
            f"{job.pilot!r} keeps up to {most} centers, which is more than the budget of {job.budget} allows; "
            "use fewer clusters or rounds, or a larger budget."
        )
    job.score.check_clusters(most)
    if order == "mettu-plaxton":
        check_size(job.frame.population)
