"""Grow a selection: draw more of the remaining rows, with weights that stay unbiased.

Weights follow `coresift.phases`. The new phase takes a share of 1 − kept of every total, where kept depends on the
numbers of rows before and after, and every earlier share is multiplied by kept. An earlier row represents only itself
in the new phase, so its weight becomes kept·w + 1 − kept; a new row has weight (1 − kept)/π.

What is fixed when: kept depends only on planned sizes. The sizes of the new draw come from the answers of all rows
drawn before it. If answers decide how far a selection grows, then kept depends on the draws, and totals are biased.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from coresift.assembly import PhaseDraw, PhasePredictions, warn_unreachable
from coresift.checks import InputError, named_options, refuse, whole
from coresift.columns import Column, kept, stored
from coresift.components import leading_components
from coresift.engine import SINGLE_THREADED, Engine
from coresift.estimation.centers import check_clustering
from coresift.inclusion import parts
from coresift.oracle import LossesLike, as_oracle
from coresift.oracle.driving import Prepared
from coresift.order import snake
from coresift.phases import kept_part
from coresift.progress import Progress, choose
from coresift.recipes.arguments import Job, settle
from coresift.rows import ClassesLike, NumbersLike, RowsLike, SignalsLike, open_rows
from coresift.rows.checking import as_selected
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
    """Grow a selection to a larger budget: its rows stay, and their answers say where to draw more.

    Over 39 problems, the intervals of a grown selection were 2 % wider on average than those of a new one of the same
    size, and up to half again as wide where few rows have most of the total (`benchmarks/results/growing.md`). How old
    and new rows share the total depends only on the two budgets. If you grow until an interval is narrow enough, there
    is a small bias, because answers then decide the size.

    Args:
        selection: What `select` or `grow` returned.
        losses: As in `select`. Asked for the selected rows whose loss is not known yet.
        budget: How many rows to select in total.
        rows: The same rows as before; of a table, the columns that were used are read, and they are standardized if
            they were before. Leave them out if the selection was made from signals alone.
        clusters: The same clustering as before; by default it is computed again.
        exclude: The same excluded rows as before.
        strata: The same classes as before.
        signals: The same signals as before.
        engine: As in `select`.
        progress: As in `select`.

    Returns:
        The selection with the new rows, as one more phase.

    Examples:
        >>> import coresift as cs
        >>> data = np.random.default_rng(0).normal(size=(1000, 4))
        >>> first = cs.select(data, losses=data[:, 0] ** 2, budget=50)
        >>> grow(first, data[:, 0] ** 2, 200, rows=data)
        WeightedSelection(200 of 1000 rows, 50 losses asked, seed=0)
    """
    _check(selection)
    oracle, progress_display = as_oracle(losses), choose(progress)
    options = {"exclude": exclude, "strata": strata, "signals": signals, "clusters": clusters}
    job = _job(selection, budget, rows, asking=oracle is not None, **options)
    if oracle is not None:
        oracle.verify(job.rows.n, names=job.rows.names, skip=job.frame.excluded)
    clustering = job.clustering or make_clustering(job, engine, progress_display)
    check_clustering(selection, clustering, given=clusters is not None)

    def fingerprint() -> dict[str, str]:
        data = {"rows": job.rows.fingerprint(), "clustering": clustering.digest(), "seed": str(job.seed)}
        return data | selection.provenance.lines() | {"grown to": str(job.budget)}

    prepared = Prepared(lambda: _steps(selection, job, clustering, engine), job.rows, fingerprint, len(selection))
    return prepared.complete(oracle, progress_display)


def _steps(selection: WeightedSelection, job: Job, clustering: Clustering, engine: Engine | None) -> Steps:
    """Ask for the selected rows' unknown losses, then draw, and combine old and new rows."""
    losses, entries = selection.losses.copy(), selection.ledger.entries
    unknown = np.flatnonzero(np.isnan(losses))
    if job.score.needs.answers and unknown.size:
        request = Request(selection.ids[unknown], "growing", len(selection.phases))
        losses[unknown] = yield request
        entries += Ledger.of([request]).entries
    drawn, least, predicted = _draw(selection, job, clustering, losses, engine)
    grown = _combine(replace(selection, losses=losses, ledger=Ledger(entries)), job, clustering, drawn, least)
    return _with_predictions(selection, grown, predicted)


def _check(selection: Any) -> None:
    if not isinstance(selection, WeightedSelection):
        got = "one without weights" if isinstance(selection, Selection) else repr(selection)
        refuse("selection", "a WeightedSelection, such as select returns", got)
    if selection.recipe is None or selection.provenance.job != "select":
        raise InputError(f"Only a selection from select can grow; this one was made by {selection.provenance.job}.")


def _job(selection: WeightedSelection, budget: Any, rows: Any, *, asking: bool, clusters: Any, **options: Any) -> Job:
    """Return the job that made the selection, at the new budget; refuse rows other than those it was made from."""
    provenance, recipe = selection.provenance, selection.recipe
    assert recipe is not None
    if whole("budget", budget) <= provenance.budget or budget >= selection.population:
        allowed = f"more than the {provenance.budget} rows there are, and fewer than all {selection.population}"
        refuse("budget", allowed, budget)
    if clusters is None and provenance.clustering_seed != selection.seed:
        raise InputError("clusters must be the clustering that the selection was made with: it had its own seed.")
    missing = [
        *(["losses"] if not asking and recipe.score is not None and recipe.score.needs.answers else []),  # type: ignore[union-attr]
        *(["rows"] if rows is None and options.get("signals") is None else []),
    ]
    if missing:
        raise InputError(f"{' and '.join(missing)} must be given, as they were for the selection.")
    given = selection.ids[selection.origin == ORIGINS.index("given")]
    opened = None if rows is None else as_selected(open_rows(rows), selection)
    if clusters is not None:
        recipe = replace(recipe, clusters=None, z=None, normalize=None)
    job = settle(
        opened, budget, selection.seed, asking=asking, recipe=recipe, clusters=clusters, given=given, **options
    )
    now, before = job.frame.record(), dict(provenance.frame)
    if different := [name for name in (now | before) if now.get(name) != before.get(name)]:
        raise InputError(f"{' and '.join(different)} must be what the selection was made with.")
    if not (job.design.distinct and job.design.fixed_size):
        raise InputError(f"A selection drawn with {job.design!r} cannot grow; use Systematic() or Pivotal().")
    return job


def _draw(
    selection: WeightedSelection, job: Job, clustering: Clustering, losses: Floats, engine: Engine | None
) -> tuple[PhaseDraw, float, PhasePredictions | None]:
    """Draw the new phase from the remaining rows, with scores from all answers so far."""
    evidence = _evidence(selection, job, clustering, losses, engine)
    with SINGLE_THREADED:
        scores = job.score.scores(evidence)
    undrawn = job.frame.open()
    undrawn[selection.ids] = False
    order = kept(scores.order, lambda ids: undrawn[ids])
    sizes = parts(stored(order.size, lambda rows: scores.sizes[order[rows]]))
    warn_unreachable(sizes, repr(job.score), stacklevel=4)
    inclusion = job.design.inclusion(sizes, job.budget - selection.provenance.budget)
    drawn, multiplicity = job.design.draw(inclusion, generator(job.seed, Stream.GROWTH, len(selection.phases)))
    # Predictions use only the answers of earlier phases, so they are fixed before this draw.
    carried = Column(undrawn.size, lambda rows: undrawn[rows].astype(np.float64))
    nothing = Column(undrawn.size, lambda rows: np.zeros(rows.size))  # the first phases carry nothing of new rows
    with SINGLE_THREADED:
        predicted = PhasePredictions.of(scores, evidence.pilot.ids, carried, nothing)
    return PhaseDraw(order[drawn], inclusion[drawn], multiplicity, job.design), float(inclusion.min()), predicted


def _evidence(
    selection: WeightedSelection, job: Job, clustering: Clustering, losses: Floats, engine: Engine | None
) -> Evidence:
    """Return the evidence as if all rows so far were a pilot with inclusion 1/weight."""
    n = clustering.n
    answered = np.flatnonzero(np.isfinite(losses) & (selection.phase > 0))
    inclusion = np.zeros(n)
    inclusion[selection.ids] = np.minimum(1 / selection.weights, 1.0)
    # A row of weight w represents itself and w − 1 others; a share of 1/w leaves those to the new draw.
    plan = PilotPlan(inclusion, inclusion, snake(clustering), keep=True, origin="pilot", tour=True)
    count, rows = job.score.needs.components, job.rows.normalized() if job.normalize else job.rows
    no_components = np.zeros((0, 0), np.float32)
    components = leading_components(rows, min(count, rows.d), seed=job.seed, engine=engine) if count else no_components
    pilot = PilotSample(selection.ids[answered], plan)
    holder = np.broadcast_to(selection.holder, clustering.k) if selection.holder.size else np.zeros(0)
    return Evidence(clustering, job.frame, pilot, losses[answered], holder=holder, components=components)


def _with_predictions(
    before: WeightedSelection, grown: WeightedSelection, predicted: PhasePredictions | None
) -> WeightedSelection:
    """Return the grown selection with predictions for the new rows; earlier rows keep those of their own draw."""
    if predicted is None or not before.predicted.size:
        return grown
    new, fields = grown.phase == len(grown.phases), predicted.fields(grown.ids)
    columns: dict[str, Any] = {}
    for name in ("predictions", "sizes", "learned_share", "unseen"):
        columns[name] = fields[name].copy()
        columns[name][~new] = getattr(before, name)
    return replace(grown, predicted=np.append(before.predicted, predicted.total), **columns)


def _combine(
    selection: WeightedSelection, job: Job, clustering: Clustering, drawn: PhaseDraw, least: float
) -> WeightedSelection:
    before = selection.provenance.budget
    kept = kept_part(before - job.frame.given.size, job.budget - before)
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
    sorted_columns: dict[str, Any] = {name: np.concatenate(pair)[sort] for name, pair in columns.items()}
    names = job.rows.names(ids[sort])
    steps = f"{selection.provenance.options.get('budgets', str(before))}, {job.budget}"
    options = {**selection.provenance.options, "budgets": steps}
    content = job.rows.content(ids[sort])
    provenance = replace(selection.provenance, budget=job.budget, options=options, content=content)
    return replace(
        selection,
        predictions=np.zeros(0),
        sizes=np.zeros(0),
        learned_share=np.zeros(0),
        unseen=np.zeros(0),
        predicted=np.zeros(0),
        ids=ids[sort],
        names=None if names is None else tuple(names),
        phases=(*selection.phases, drawn.strategy),
        growth=np.append(kept * growth, 1 - kept),
        # To stay out of the selection, a row must be missed by every phase.
        least_inclusion=1 - (1 - selection.least_inclusion) * (1 - least),
        provenance=provenance,
        **sorted_columns,
    )
