"""A selection that grows: more rows are drawn from those that are left, and all weights stay unbiased.

The law is that of `coresift.phases`. A phase that is added takes the part 1 − kept of every total, with kept = planned
size before / planned size after, and every earlier share shrinks to kept times what it was. A row that was there
before counts as itself in the new phase, so its weight becomes kept·w + 1 − kept; a new row weighs (1 − kept)/π.

What is fixed when: kept follows from planned sizes alone. The sizes of the new draw come from the answers of all rows
drawn before it. If answers decide how far a selection grows, kept depends on the draws, and there is a bias.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from coresift.assembly import PhaseDraw, PhasePredictions, warn_unreachable
from coresift.checks import InputError, named_options, refuse, whole
from coresift.components import leading_components
from coresift.engine import Engine
from coresift.estimation.methods import check_clustering
from coresift.inclusion import parts
from coresift.oracle import LossesLike, as_oracle
from coresift.oracle.driving import Prepared
from coresift.order import snake
from coresift.progress import Progress, choose
from coresift.recipes.arguments import Job, settle
from coresift.rows import ClassesLike, NumbersLike, RowsLike, SignalsLike, open_rows
from coresift.selection import Steps, make_clustering
from coresift.streams import Stream, generator
from coresift.types import (
    ORIGINS,
    Clustering,
    Evidence,
    Floats,
    Ledger,
    PilotPlan,
    PilotSample,
    Request,
    Selection,
    WeightedSelection,
)


@named_options
def grow(
    selection: WeightedSelection,
    losses: LossesLike | None = None,
    budget: int | None = None,
    *,
    rows: RowsLike | None = None,
    clusters: Clustering | None = None,
    exclude: NumbersLike | None = None,
    strata: ClassesLike | None = None,
    signals: SignalsLike | None = None,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
) -> WeightedSelection:
    """Grow a selection of `select` to a larger budget: its rows stay, and their answers say where to draw more.

    The intervals of a grown selection are nearly those of one that was made at the full size. The split between old
    and new rows depends on the two budgets alone. To look at an interval and to grow until it is narrow enough makes
    a small bias, since then answers decide about the size.

    Args:
        selection: What `select` or `grow` returned.
        losses: As in `select`. The losses of those selected rows are asked that are not known yet.
        budget: How many rows to have in all.
        rows: The same rows as before; may be left out if they were made of signals.
        clusters: The same clustering as before; by default it is made again.
        exclude: What was excluded before.
        strata: The classes as before.
        signals: The signals as before.
        engine: As in `select`.
        progress: As in `select`.

    Returns:
        The selection with the new rows, as one phase more.

    Examples:
        >>> import coresift as cs
        >>> data = np.random.default_rng(0).normal(size=(1000, 4))
        >>> first = cs.select(data, losses=data[:, 0] ** 2, budget=50)
        >>> grow(first, data[:, 0] ** 2, 200, rows=data)
        WeightedSelection(200 of 1000 rows, 50 losses asked, seed=0)
    """
    _check(selection)
    oracle, shown = as_oracle(losses), choose(progress)
    options = {"exclude": exclude, "strata": strata, "signals": signals, "clusters": clusters}
    job = _job(selection, budget, rows, asking=oracle is not None, **options)
    if oracle is not None:
        oracle.verify(job.rows.n, names=job.rows.names, skip=job.frame.excluded)
    clustering = job.clustering or make_clustering(job, engine, shown)
    check_clustering(selection, clustering)

    def fingerprint() -> dict[str, str]:
        known = {"rows": job.rows.fingerprint(), "clustering": clustering.digest(), "seed": str(job.seed)}
        return known | selection.provenance.lines() | {"grown to": str(job.budget)}

    prepared = Prepared(lambda: _steps(selection, job, clustering, engine), job.rows, fingerprint, len(selection))
    return prepared.complete(oracle, shown)


def _steps(selection: WeightedSelection, job: Job, clustering: Clustering, engine: Engine | None) -> Steps:
    """Ask for the selected rows' losses that are not known yet, then draw, and bring both together."""
    known, entries = selection.losses.copy(), selection.ledger.entries
    unknown = np.flatnonzero(np.isnan(known))
    if job.score.needs.answers and unknown.size:
        asked = Request(selection.ids[unknown], "growing", len(selection.phases))
        known[unknown] = yield asked
        entries += Ledger.of([asked]).entries
    drawn, least, predicted = _draw(selection, job, clustering, known, engine)
    grown = _joined(replace(selection, losses=known, ledger=Ledger(entries)), job, clustering, drawn, least)
    return _with_predictions(selection, grown, predicted)


def _check(selection: Any) -> None:
    if not isinstance(selection, WeightedSelection):
        told = "a WeightedSelection, such as select returns"
        refuse("selection", told, "one without weights" if isinstance(selection, Selection) else repr(selection))
    if selection.recipe is None or selection.provenance.job != "select":
        raise InputError(f"Only what select returned can grow; this was made by {selection.provenance.job}.")


def _job(selection: WeightedSelection, budget: Any, rows: Any, *, asking: bool, clusters: Any, **options: Any) -> Job:
    """Return the job that made the selection, at the new budget; refuse other rows than it was made from."""
    made, recipe = selection.provenance, selection.recipe
    assert recipe is not None
    if whole("budget", budget) <= made.budget or budget >= selection.population:
        allowed = f"more than the {made.budget} rows there are, and fewer than all {selection.population}"
        refuse("budget", allowed, budget)
    if clusters is None and made.clustering_seed != selection.seed:
        raise InputError("clusters must be the clustering that the selection was made with: it had a seed of its own.")
    if not asking and recipe.score is not None and recipe.score.needs.answers:  # type: ignore[union-attr]
        raise InputError("losses must be given, since the selection was made with some.")
    given = selection.ids[selection.origin == ORIGINS.index("given")]
    opened = None if rows is None else open_rows(rows)
    if clusters is not None:
        recipe = replace(recipe, clusters=None, z=None, normalize=None)
    job = settle(
        opened, budget, selection.seed, asking=asking, recipe=recipe, clusters=clusters, given=given, **options
    )
    if job.frame.record() != dict(made.frame):
        raise InputError("rows, exclude, strata and signals must be those that the selection was made with.")
    if not (job.design.distinct and job.design.fixed_size):
        raise InputError(f"{job.design!r} cannot draw among the rows that are left; only sorted designs can.")
    return job


def _draw(
    selection: WeightedSelection, job: Job, clustering: Clustering, known: Floats, engine: Engine | None
) -> tuple[PhaseDraw, float, PhasePredictions | None]:
    """Draw the new phase from the rows that are left, by what all answers so far say."""
    evidence = _evidence(selection, job, clustering, known, engine)
    scores = job.score.scores(evidence)
    left = job.frame.open()
    left[selection.ids] = False
    order = scores.order[left[scores.order]]
    sizes = parts(scores.sizes[order])
    warn_unreachable(sizes, repr(job.score), stacklevel=4)
    inclusion = job.design.inclusion(sizes, job.budget - selection.provenance.budget)
    drawn, multiplicity = job.design.draw(inclusion, generator(job.seed, Stream.GROWTH, len(selection.phases)))
    # Predictions are from the answers of the phases before, so they were fixed before this draw.
    predicted = PhasePredictions.of(scores, evidence.pilot.ids, left.astype(np.float64))
    return PhaseDraw(order[drawn], inclusion[drawn], multiplicity, job.design), float(inclusion.min()), predicted


def _evidence(
    selection: WeightedSelection, job: Job, clustering: Clustering, known: Floats, engine: Engine | None
) -> Evidence:
    """Return the evidence as if all rows so far were a pilot, each standing for as many rows as it weighs."""
    n = clustering.n
    answered = np.flatnonzero(np.isfinite(known) & (selection.phase > 0))
    inclusion = np.zeros(n)
    inclusion[selection.ids] = np.minimum(1 / selection.weights, 1.0)
    # Of what a row weighs, it is one itself: with the share 1/w it has w − 1 left at stake in the draw to come.
    plan = PilotPlan(inclusion, inclusion, snake(clustering), keep=True, origin="pilot", tour=True)
    count, rows = job.score.needs.components, job.rows.normalized() if job.normalize else job.rows
    nothing = np.zeros((0, 0), np.float32)
    found = leading_components(rows, min(count, rows.d), seed=job.seed, engine=engine) if count else nothing
    pilot = PilotSample(selection.ids[answered], plan)
    holder = np.broadcast_to(selection.holder, clustering.k) if selection.holder.size else np.zeros(0)
    return Evidence(clustering, job.frame, pilot, known[answered], holder=holder, components=found)


def _with_predictions(
    before: WeightedSelection, grown: WeightedSelection, predicted: PhasePredictions | None
) -> WeightedSelection:
    """Return the grown selection with the new rows' predictions; the others keep those that they were drawn with."""
    if predicted is None or not before.predicted.size:
        return grown
    new, fields = grown.phase == len(grown.phases), predicted.fields(grown.ids)
    columns: dict[str, Any] = {}
    for name in ("predictions", "sizes"):
        columns[name] = fields[name].copy()
        columns[name][~new] = getattr(before, name)
    return replace(grown, predicted=np.append(before.predicted, predicted.total), **columns)


def _joined(
    selection: WeightedSelection, job: Job, clustering: Clustering, drawn: PhaseDraw, least: float
) -> WeightedSelection:
    before = selection.provenance.budget
    kept = (before - job.frame.given.size) / job.room
    growth = selection.growth if selection.growth.size else np.ones(1)
    ids = np.concatenate([selection.ids, drawn.ids])
    sort, count = np.argsort(ids, kind="stable"), drawn.ids.size
    columns: dict[str, Any] = {
        "weights": (kept * selection.weights + (1 - kept), (1 - kept) / drawn.inclusion),
        "inclusion": (selection.inclusion, drawn.inclusion),
        "share": (selection.share, np.zeros(count)),
        "clusters": (selection.clusters, clustering.labels[drawn.ids]),
        "distances": (selection.distances, clustering.distances[drawn.ids]),
        "origin": (selection.origin, np.full(count, ORIGINS.index("drawn"))),
        "phase": (selection.phase, np.full(count, len(selection.phases) + 1)),
        "order": (selection.order, np.arange(count)),
        "multiplicity": (selection.multiplicity, drawn.multiplicity),
        "losses": (selection.losses, np.full(count, np.nan)),
    }
    joined: dict[str, Any] = {name: np.concatenate(pair)[sort] for name, pair in columns.items()}
    names = job.rows.names(ids[sort])
    steps = f"{selection.provenance.options.get('budgets', str(before))}, {job.budget}"
    options = {**selection.provenance.options, "budgets": steps}
    content = job.rows.content(ids[sort])
    made = replace(selection.provenance, budget=job.budget, options=options, content=content)
    return replace(
        selection,
        predictions=np.zeros(0),
        sizes=np.zeros(0),
        predicted=np.zeros(0),
        ids=ids[sort],
        names=None if names is None else tuple(names),
        phases=(*selection.phases, drawn.strategy),
        growth=np.append(kept * growth, 1 - kept),
        # A row that was never drawn escaped every phase.
        least_inclusion=1 - (1 - selection.least_inclusion) * (1 - least),
        provenance=made,
        **joined,
    )
