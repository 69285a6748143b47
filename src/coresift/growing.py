"""Grow a selection: draw more of the remaining rows, with weights that stay unbiased.

Weights follow `coresift.phases`. The new phase takes a share of 1 − kept of every total, where kept depends on the
numbers of rows before and after, and every earlier share is multiplied by kept. An earlier row represents only itself
in the new phase, so its weight becomes kept·w + 1 − kept; a new row has weight (1 − kept)/π.

Each step draws with smaller clusters: it knows more answers, and a new selection of its size would have more clusters.

What is fixed when: kept depends only on planned sizes. The sizes and inclusion probabilities of the new draw come from
the answers of all rows drawn before it (`coresift.aiming`). If answers decide how far a selection grows, then kept
depends on the draws, and totals are biased. Estimates use another kept for each row, which those answers decide.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coresift.aiming import Aim
from coresift.assembly import PhaseDraw, PhasePredictions, warn_unreachable
from coresift.checks import InputError, named_options, refuse, whole
from coresift.columns import Column, Values, kept, scattered, stored, total
from coresift.components import leading_components
from coresift.engine import SINGLE_THREADED, Engine
from coresift.estimation.centers import check_clustering
from coresift.inclusion import parts
from coresift.oracle import LossesLike, as_oracle
from coresift.oracle.driving import Prepared
from coresift.order import snake, stops
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
    Frame,
    Ledger,
    PilotPlan,
    PilotSample,
    Request,
    Selection,
    WeightedSelection,
)

# Clusters are split only while they have at least this many rows on average.
LEAST_ROWS = 10


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

    The draw aims at the larger selection as a whole (`coresift.aiming`), and the rows' clusters are split into smaller
    ones, since more answers can tell more of them apart. Over 39 problems, the intervals of selections that grew in
    three steps were as wide as those of new ones of the same size on average, and at most a tenth wider
    (`benchmarks/results/growing.md`). How old and new rows share the total in the weights depends only on the two
    budgets. If you grow until an interval is narrow enough, there is a small bias, because answers then decide the
    size.

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
    step = _draw(selection, job, clustering, losses, engine)
    grown = _combine(replace(selection, losses=losses, ledger=Ledger(entries)), job, clustering, step)
    return _with_predictions(selection, grown, step)


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


@dataclass(frozen=True)
class _Step:
    """A growth step: the new draw, its smallest inclusion probability, and what an estimate needs.

    For every row, `share` is the pilot's α, and `kept` is the part of its total that is left to earlier phases; None if
    the score does not say what a row's size is without its own answer.
    """

    drawn: PhaseDraw
    least: float
    share: Values
    predicted: PhasePredictions | None
    kept: Values | None


def _draw(
    selection: WeightedSelection, job: Job, clustering: Clustering, losses: Floats, engine: Engine | None
) -> _Step:
    """Draw the new phase from the remaining rows, with scores from all answers so far."""
    evidence = _evidence(selection, job, _split(selection, job, clustering, engine), losses, engine)
    with SINGLE_THREADED:
        scores = job.score.scores(evidence)
    open_rows, undrawn = job.frame.open(), job.frame.open()
    undrawn[selection.ids] = False
    order = kept(scores.order, lambda ids: undrawn[ids])
    everywhere = parts(stored(open_rows.size, lambda rows: np.where(open_rows[rows], scores.sizes[rows], 0.0)))
    sizes = stored(order.size, lambda rows: everywhere[order[rows]])
    warn_unreachable(sizes, repr(job.score), stacklevel=4)
    before, added = selection.provenance.budget, job.budget - selection.provenance.budget
    # Everything here depends only on planned sizes and on earlier answers, so it is fixed before this draw.
    aim = Aim.at(everywhere, sizes, before - job.frame.given.size, added)
    aim, inclusion = aim.drawn_by(job.design, sizes, added)
    drawn, multiplicity = job.design.draw(inclusion, generator(job.seed, Stream.GROWTH, len(selection.phases)))
    share = _pilot_share(selection, job, clustering)
    carried = Column(undrawn.size, lambda rows: undrawn[rows].astype(np.float64))
    with SINGLE_THREADED:
        predicted = PhasePredictions.of(scores, evidence.pilot.ids, carried, share)
    left_to_earlier = None
    if scores.left_out is not None:
        unit = float(total(Column(open_rows.size, lambda rows: np.where(open_rows[rows], scores.sizes[rows], 0.0))))
        own = scattered(open_rows.size, evidence.pilot.ids, scores.left_out.sizes / unit, everywhere)
        fixed = kept_part(before - job.frame.given.size, added)
        left_to_earlier = own.then(lambda sizes: aim.kept(sizes, fixed))
    phase = PhaseDraw(order[drawn], inclusion[drawn], multiplicity, job.design)
    return _Step(phase, float(inclusion.min()), share, predicted, left_to_earlier)


def _pilot_share(selection: WeightedSelection, job: Job, clustering: Clustering) -> Values:
    """Return α of every row, as it was planned for the first selection."""
    if job.pilot is None:
        return Column(clustering.n, lambda rows: np.zeros(np.arange(clustering.n)[rows].size))
    with SINGLE_THREADED:
        return job.pilot.plan(clustering, job.frame, _first_budget(selection) - job.frame.given.size).share


def _first_budget(selection: WeightedSelection) -> int:
    """Return the budget of the selection before it grew for the first time."""
    return int(selection.provenance.options.get("budgets", str(selection.provenance.budget)).split(",")[0])


def _split(selection: WeightedSelection, job: Job, clustering: Clustering, engine: Engine | None) -> Clustering:
    """Return the clusters split into smaller ones, as many per selected row as the first selection had.

    More answers can tell more clusters apart. A row keeps its cluster, so that a rare one that few rows are known of is
    not mixed with others; clusters are split in the order of their tour, so that neighbors stay neighbors. A score
    without predictions may have one number per cluster, so it keeps them as they are.
    """
    count = round(clustering.k * job.budget / _first_budget(selection))
    count = min(count, clustering.n // LEAST_ROWS)
    if count <= clustering.k or not selection.predicted.size:
        return clustering
    positions = stops(clustering)
    classes = stored(clustering.n, lambda rows: positions[clustering.labels[rows]], np.int32)
    frame = Frame(clustering.n, strata=classes)
    # The clustering's own seed, so that all selections with one clustering share its splits (and an engine's cache).
    like_it: dict[str, Any] = {"z": clustering.z, "normalize": clustering.normalized, "seed": clustering.seed}
    return make_clustering(replace(job, frame=frame, clusters=count, **like_it), engine, choose(False))


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


def _with_predictions(before: WeightedSelection, grown: WeightedSelection, step: _Step) -> WeightedSelection:
    """Return the grown selection with predictions for the new rows; earlier rows keep those of their own draw.

    `unseen` is of this step in all rows, since it goes with the parts that this step learned.
    """
    if step.predicted is None or not before.predicted.size:
        return grown
    new, fields = grown.phase == len(grown.phases), step.predicted.fields(grown.ids)
    columns: dict[str, Any] = {"unseen": fields["unseen"]}
    for name in ("predictions", "sizes", "learned_share"):
        columns[name] = fields[name].copy()
        columns[name][~new] = getattr(before, name)
    if step.kept is not None:
        columns["learned_kept"] = step.kept[grown.ids]
    return replace(grown, predicted=np.append(before.predicted, step.predicted.total), **columns)


def _combine(selection: WeightedSelection, job: Job, clustering: Clustering, step: _Step) -> WeightedSelection:
    before = selection.provenance.budget
    kept = kept_part(before - job.frame.given.size, job.budget - before)
    growth, drawn = selection.growth if selection.growth.size else np.ones(1), step.drawn
    ids = np.concatenate([selection.ids, drawn.ids])
    sort, count = np.argsort(ids, kind="stable"), drawn.ids.size
    columns: dict[str, Any] = {
        "weights": (kept * selection.weights + (1 - kept), (1 - kept) / drawn.inclusion),
        "inclusion": (selection.inclusion, drawn.inclusion),
        "share": (selection.share, step.share[drawn.ids]),
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
        learned_kept=np.zeros(0),
        ids=ids[sort],
        names=None if names is None else tuple(names),
        phases=(*selection.phases, drawn.strategy),
        growth=np.append(kept * growth, 1 - kept),
        # To stay out of the selection, a row must be missed by every phase.
        least_inclusion=1 - (1 - selection.least_inclusion) * (1 - step.least),
        provenance=provenance,
        **sorted_columns,
    )
