"""The whole flow: rows → clustering → pilot → scores → design → selection."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from coresift.assembly import PhaseDraw, PhasePredictions, assemble, warn_unreachable
from coresift.cache import cached
from coresift.checks import InputError, named_options
from coresift.clustering import cluster
from coresift.columns import Column, kept, scattered, stored
from coresift.components import leading_components
from coresift.engine import SINGLE_THREADED, Engine
from coresift.holder import HolderEstimate, Probes, center_rows
from coresift.holder import plan as plan_probes
from coresift.inclusion import parts
from coresift.oracle import LossesLike, as_oracle
from coresift.oracle.driving import Prepared
from coresift.progress import Progress, choose
from coresift.recipes import EVEN_DRAW
from coresift.recipes.arguments import Job, Options, check_options, settle
from coresift.rows import ClassesLike, NumbersLike, RowsLike, SignalsLike
from coresift.shares import learn
from coresift.streams import Stream, generator
from coresift.types import (
    Bools,
    Clustering,
    Design,
    Evidence,
    Floats,
    Ints,
    Ledger,
    Pilot,
    PilotPlan,
    PilotSample,
    Provenance,
    Recipe,
    Request,
    Score,
    Scores,
    Singles,
    WeightedSelection,
)

Steps = Generator[Request, Floats, WeightedSelection]
NO_ROWS = np.zeros(0, np.int64)


@named_options
def select(
    rows: RowsLike | None = None,
    losses: LossesLike | None = None,
    budget: int | None = None,
    seed: int = 0,
    *,
    recipe: Recipe | None = None,
    clusters: int | Clustering | None = None,
    z: float | None = None,
    normalize: bool | None = None,
    pilot: Pilot | None = None,
    score: Score | None = None,
    design: Design | None = None,
    given: NumbersLike | None = None,
    exclude: NumbersLike | None = None,
    strata: ClassesLike | None = None,
    signals: SignalsLike | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
) -> WeightedSelection:
    """Select `budget` weighted rows that stand for all rows.

    Args:
        rows: One row of numbers per item, such as its embedding: anything that `open_rows` takes (arrays, tensors,
            frames, sparse matrices, files). You can leave it out if you give `signals`.
        losses: A callable of row numbers, an array of n losses, a file with columns id and loss, an `Oracle` for more
            options, or None: then nothing is asked, and distances decide. Only the pilot's losses are asked, never more
            than `budget`.
        budget: How many rows to select (`Poisson`: on average; `Independent`: draws).
        seed: The same seed gives the same bytes.
        recipe: How to select, such as `cs.recipes.paper(holder=0.1)`; the options below override its parts.
        clusters: How many clusters (by default budget/10; with `strata`, budget/20 and at least one per class), or an
            existing `Clustering`.
        z: The power of the distances: 2 (k-means) by default, or that of the `Clustering`.
        normalize: Scale rows to length 1 first, for embeddings that are compared by cosine.
        pilot, score, design: The parts of the flow; by default `Representatives` (with `signals`, `Informed`),
            `Portfolio` and `Systematic`; without losses no pilot, `Distance` and `Pivotal`.
        given: Rows that are always selected, with weight 1; they count toward the budget. Row numbers, or ids as text.
        exclude: Rows that are never selected or asked, in the same form; totals then cover only the other rows.
        strata: A class for every row, or the name of a column of the rows' table; clusters never mix classes. This
            helps a lot if the loss depends on the class, as a classifier's does.
        signals: Anything known for every row at no cost, such as a cheap model's loss, a model's own confidence
            (`cs.signals.from_probabilities`), a length or a class: an array, a mapping of names to arrays, names of
            columns of the rows' table, or a file. Numbers and text both work; missing values are allowed. The pilot's
            answers decide how much each signal counts, so useless ones cost little.
        epsilon: In paper mode, instead of a budget: the number of draws is what the theorem requires for an error of at
            most ε(Σℓ + 2Φ^Λ).
        delta: With `epsilon`: the probability with which the error may be larger.
        engine: What runs the row blocks: `cs.engines.Local()` or `cs.engines.Ray()`.
        progress: Whether to show a progress bar; by default on a terminal.

    Returns:
        The rows, with weights that keep every total unbiased.

    Examples:
        >>> import numpy as np
        >>> rows = np.random.default_rng(0).normal(size=(1000, 4))
        >>> select(rows, losses=lambda ids: rows[ids, 0] ** 2, budget=50, seed=0)
        WeightedSelection(50 of 1000 rows, 10 losses asked, seed=0)
    """
    oracle = as_oracle(losses)
    job = settle(
        rows,
        budget,
        seed,
        asking=oracle is not None,
        recipe=recipe,
        clusters=clusters,
        z=z,
        normalize=normalize,
        pilot=pilot,
        score=score,
        design=design,
        given=given,
        exclude=exclude,
        strata=strata,
        signals=signals,
        epsilon=epsilon,
        delta=delta,
    )
    if oracle is not None:
        oracle.verify(job.rows.n, names=job.rows.names, skip=job.frame.excluded)
    progress = choose(progress)
    return _prepare_run(job, engine, progress).complete(oracle, progress)


def begin(
    rows: Any, budget: int | None, seed: int, *, engine: Engine | None, progress: Progress, **options: Any
) -> Prepared[WeightedSelection]:
    """Prepare `select` up to its first question; losses come later."""
    check_options("select", options, ("rows", "budget", "seed", "engine", "progress"), Options)
    return _prepare_run(settle(rows, budget, seed, asking=True, **options), engine, progress)


def _prepare_run(job: Job, engine: Engine | None, progress: Progress) -> Prepared[WeightedSelection]:
    draft = prepare(job, engine, progress)
    limit = job.budget + draft.probed.size
    return Prepared(lambda: steps(draft), job.rows, draft.fingerprint, limit, never=job.frame.excluded)


@dataclass(frozen=True)
class Draft:
    """Everything before the first loss: the clusters, and the rows to ask.

    `probes` are the rows that an estimate of Λ needs, if the score uses one; `stream` distinguishes the draw from
    others with the same seed; `name` and `options` describe the job.
    """

    job: Job
    clustering: Clustering
    pilot: PilotSample
    probes: Probes | None = None
    engine: Engine | None = None
    components: Singles = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    stream: tuple[int, ...] = ()
    name: str = "select"
    options: dict[str, str] = field(default_factory=dict)

    @property
    def probed(self) -> Ints:
        """The rows that are asked to estimate Λ."""
        return NO_ROWS if self.probes is None else self.probes.ids

    def provenance(self) -> Provenance:
        """Return the provenance of the selection to come."""
        return self.job.provenance(self.name, self.clustering, self.options)

    def fingerprint(self) -> dict[str, str]:
        """Return what this run's answers depend on, by name."""
        data = {"rows": self.job.rows.fingerprint(), "clustering": self.clustering.digest()}
        return data | self.provenance().lines() | {"seed": str(self.job.seed)}


def prepare(job: Job, engine: Engine | None, progress: Progress, *, most: int | None = None) -> Draft:
    """Cluster, unless the job has a clustering, and draw the pilot; it may ask `most` rows (default: the budget)."""
    draft = draft_of(job, job.clustering or make_clustering(job, engine, progress), engine)
    _check_room(job, draft.pilot, job.budget if most is None else most)
    return draft


def make_clustering(job: Job, engine: Engine | None, progress: Progress, folder: Any = None) -> Clustering:
    """Cluster as the job says, or reuse the cached clustering of the same rows and arguments in the folder."""
    strata = job.frame.strata if job.frame.strata.size else None
    options: dict[str, Any] = {"z": job.z, "seed": job.seed, "normalize": job.normalize, "strata": strata}
    folder = folder or (None if engine is None else engine.keep)

    def make() -> Clustering:
        return cluster(job.rows, job.clusters, engine=engine, progress=progress, **options)

    return make() if folder is None else cached(folder, job.rows, job.clusters, options, make)


def draft_of(job: Job, clustering: Clustering, engine: Engine | None) -> Draft:
    """Draw the pilot and the rows that an estimate of Λ needs."""
    probes = None
    if job.pilot is not None and job.score.needs.probes:
        probes = plan_probes(clustering, job.score.needs.probes, exclude=job.frame.excluded, seed=job.seed)
    return Draft(job, clustering, _draw_pilot(job, clustering), probes, engine, _components(job, engine))


def _components(job: Job, engine: Engine | None) -> Singles:
    count = job.score.needs.components
    if not count:
        return np.zeros((0, 0), np.float32)
    rows = job.rows.normalized() if job.normalize else job.rows
    components = leading_components(rows, min(count, rows.d), seed=job.seed, engine=engine, progress=False)
    components.setflags(write=False)  # read-only arrays are passed on without a copy
    return components


def _draw_pilot(job: Job, clustering: Clustering) -> PilotSample:
    pilot, frame = job.pilot, job.frame
    if pilot is None:
        return PilotSample(NO_ROWS, PilotPlan.of_none(frame.n))
    with SINGLE_THREADED:  # several threads would add in another order, so bytes would depend on the number of cores
        plan = pilot.plan(clustering, frame, job.room)
    order = kept(plan.order, lambda ids: plan.inclusion[ids] > 0)
    inclusion = stored(order.size, lambda rows: plan.inclusion[order[rows]])
    drawn, _ = EVEN_DRAW.draw(inclusion, generator(job.seed, Stream.PILOT))
    return PilotSample(order[drawn], plan)


def _check_room(job: Job, pilot: PilotSample, most: int) -> None:
    ids, given = pilot.ids, job.frame.given
    kept_rows = np.setdiff1d(ids, given).size if pilot.plan.keep else 0
    if ids.size > most or kept_rows > job.room:
        raise InputError(
            f"{job.pilot!r} asks {ids.size} rows, which is more than the budget of {job.budget} allows; "
            "use fewer clusters or a larger budget."
        )


def steps(draft: Draft) -> Steps:
    """Ask for the losses that the draft needs, then score, draw and weight."""
    answers, probed, requests = np.zeros(0), np.zeros(0), []
    if draft.pilot.ids.size:
        requests.append(Request(draft.pilot.ids, "pilot"))
        answers = yield requests[-1]
    if draft.probed.size:
        requests.append(Request(draft.probed, "holder"))
        probed = yield requests[-1]
    return finish(draft, answers, Ledger.of(requests), probed=probed)


def finish(
    draft: Draft,
    answers: Floats,
    ledger: Ledger,
    *,
    probed: Floats | None = None,
    leverage: Floats | None = None,
) -> WeightedSelection:
    """Score the rows from the losses of the pilot and of the probes and from leverage scores, draw, and weight."""
    job, frame, pilot = draft.job, draft.job.frame, draft.pilot
    evidence = Evidence(draft.clustering, frame, pilot, answers, np.zeros(0) if leverage is None else leverage)
    evidence = replace(evidence, components=draft.components)
    if draft.probes is not None and pilot.ids.size:
        holder_estimate = _estimate_holder(draft, draft.probes, evidence, np.zeros(0) if probed is None else probed)
        evidence = replace(evidence, holder=holder_estimate.for_drawing())
        draft = replace(draft, options={**draft.options, "holder": str(holder_estimate)})
    with SINGLE_THREADED:
        scores = job.score.scores(evidence)
    kept_ids = np.setdiff1d(pilot.ids, frame.given, assume_unique=True) if pilot.plan.keep else NO_ROWS
    undrawn = frame.open()
    undrawn[kept_ids] = False
    first = PhaseDraw(
        kept_ids, pilot.plan.inclusion[kept_ids], np.ones(kept_ids.size, np.int64), job.pilot, pilot.plan.origin
    )
    second, least = _draw(draft, scores, undrawn, job.room - kept_ids.size)
    # Predictions use only the pilot's answers, so they are fixed before the second draw.
    share = pilot.plan.share
    remaining_shares = Column(frame.n, lambda rows: np.where(undrawn[rows], 1 - share[rows], 0.0))
    with SINGLE_THREADED:
        predicted = PhasePredictions.of(scores, pilot.ids, remaining_shares, share) if pilot.plan.keep else None
        if predicted is not None and scores.left_out is not None:
            learned = learn(draft.clustering, pilot, scores, second.ids, second.inclusion)
            predicted = predicted.with_learned(learned)
    return assemble(
        job.rows,
        frame,
        (first, second),
        provenance=draft.provenance(),
        seed=job.seed,
        ledger=ledger,
        clustering=draft.clustering,
        share=share,
        losses=scattered(frame.n, pilot.ids, answers, np.nan) if answers.size else None,
        holder=scores.holder,
        least_inclusion=least,
        predicted=predicted,
    )


def _estimate_holder(draft: Draft, probes: Probes, evidence: Evidence, probed: Floats) -> HolderEstimate:
    points = center_rows(draft.clustering, draft.job.rows)
    return probes.infer(evidence.cluster_losses(), probed, points, draft.engine)


def _draw(draft: Draft, scores: Scores, undrawn: Bools, count: int) -> tuple[PhaseDraw, float]:
    """Draw the second phase; return it and the smallest inclusion probability of any row in it."""
    order = kept(scores.order, lambda ids: undrawn[ids])
    if count == 0 or order.size == 0:
        return PhaseDraw(NO_ROWS, np.zeros(0), NO_ROWS, draft.job.design), 0.0
    # The second draw estimates the share 1 − α of each total, which the pilot does not cover.
    share = draft.pilot.plan.share
    sizes = parts(stored(order.size, lambda rows: scores.sizes[order[rows]] * (1 - share[order[rows]])))
    warn_unreachable(sizes, repr(draft.job.score), stacklevel=6)
    inclusion = draft.job.design.inclusion(sizes, count)
    rng = generator(draft.job.seed, Stream.DRAW, *draft.stream)
    drawn, multiplicity = draft.job.design.draw(inclusion, rng)
    return PhaseDraw(order[drawn], inclusion[drawn], multiplicity, draft.job.design), float(inclusion.min())
