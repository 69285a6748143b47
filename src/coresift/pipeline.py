"""The whole flow: rows → clustering → pilot → scores → design → selection. Only this module knows every step."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from coresift.arguments import Options, Settled, settle
from coresift.checks import CoresiftWarning, InputError
from coresift.clustering import cluster
from coresift.design import Design, Systematic
from coresift.engine import Engine
from coresift.holder import Probes, center_rows
from coresift.holder import plan as plan_probes
from coresift.inclusion import parts
from coresift.oracle import as_oracle
from coresift.pilot import nobody
from coresift.progress import Progress, choose
from coresift.score import Score, Sensitivity, cluster_losses
from coresift.storage import load, save
from coresift.types import ORIGINS, Bools, Clustering, Evidence, Floats, Ints, Ledger, Pilot, Scores, Selection, digest
from coresift.version import __version__

# Whatever draws the rows that follow, the pilot is a fixed number of distinct rows spread along their order.
PILOT_DESIGN = Systematic()


def select(
    rows: Any,
    losses: Any = None,
    budget: int | None = None,
    seed: int = 0,
    *,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
    **options: Unpack[Options],
) -> Selection:
    """Select `budget` weighted rows that stand for all rows.

    rows: a matrix of embeddings: array, `.npy`, folder of shards, Parquet/Arrow, `datasets.Dataset`, or `Rows`.
    losses: a callable of row numbers, an array of n, a file of (id, loss), an `Oracle` for more options, or None:
        then nobody is asked and distances decide. Only the pilot's losses are asked, never more than `budget`.
    budget: rows out (`Poisson`: on average; `Independent`: draws).
    clusters: how many (by default a tenth of the budget, with `strata` a twentieth and at least one a class), or a
        `Clustering` made before.
    z: the power of the distances, 2 (k-means) unless said or unless the `Clustering` has another.
    pilot, score, design: the parts of the flow; by default `Representatives`, `Learned` and `Systematic`;
        without losses nobody, `Distance` and `Pivotal`.
    given: rows that come out in any case, with weight 1, counted in the budget.
    exclude: rows that never come out and are never asked; totals are then about the other rows.
    normalize: give rows length 1 first, for embeddings that are compared by cosine.
    strata: a class for every row, or the name of a column of the rows' table that has it: no cluster crosses a
        class. Where the loss depends on the class, as a classifier's does, this helps much.
    epsilon, delta: in paper mode, instead of a budget: as many draws as the theorem takes for an error of at most
        ε(Σℓ + 2Φ^Λ); with `delta`, as many as make that fail with at most that probability.
    engine, progress: who runs the row blocks, and whether a bar shows (by default on a terminal).

    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(1000, 4))
    >>> select(rows, losses=lambda ids: rows[ids, 0] ** 2, budget=50, seed=0)
    Selection(50 of 1000 rows, 10 losses asked, seed=0)
    """
    oracle = as_oracle(losses)
    settled = settle(rows, budget, seed, asking=oracle is not None, **options)
    progress = choose(progress)
    prepared = prepare(settled, engine, progress)
    if oracle is None or not prepared.pilot.ids.size:
        return finish(prepared, np.zeros(0), Ledger())
    rows, limit = settled.rows, settled.budget + prepared.probed.size
    with oracle.session(rows.n, prepared.fingerprint(), limit, progress, rows.names) as session:
        answers = session.ask(prepared.pilot.ids, round=1, reason="pilot")
        probed = session.ask(prepared.probed, round=1, reason="holder")
    return finish(prepared, answers, session.ledger, probed=probed)


def ask(
    rows: Any,
    budget: int | None = None,
    seed: int = 0,
    *,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
    **options: Unpack[Options],
) -> Ints:
    """Return the numbers of the rows whose losses `select` with the same arguments will need.

    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(1000, 4))
    >>> ask(rows, budget=50).size
    10
    """
    prepared = prepare(settle(rows, budget, seed, asking=True, **options), engine, choose(progress))
    return np.concatenate([prepared.pilot.ids, np.setdiff1d(prepared.probed, prepared.pilot.ids)])


@dataclass(frozen=True)
class Prepared:
    """Everything up to the first loss: the clusters, and which rows will be asked.

    `probes` are the rows that an estimate of Λ needs, where the score names one; `stream` tells the draw from others
    with the same seed.
    """

    settled: Settled
    clustering: Clustering
    pilot: Pilot
    recipe: dict[str, str]
    probes: Probes | None = None
    engine: Engine | None = None
    stream: tuple[int, ...] = ()

    @property
    def probed(self) -> Ints:
        """The rows that are asked for the sake of Λ."""
        return self.pilot.ids[:0] if self.probes is None else self.probes.ids

    def fingerprint(self) -> dict[str, str]:
        """Return what a journal of this run's losses is good for, by part."""
        rows, clusters = self.settled.rows.fingerprint(), self.clustering.digest()
        return {"rows": rows, "clustering": clusters, **self.recipe, "seed": str(self.settled.seed)}


def prepare(settled: Settled, engine: Engine | None, progress: Progress, *, most: int | None = None) -> Prepared:
    """Cluster, unless that was done before, and draw the pilot; it asks at most the budget, unless `most` is given."""
    clustering = settled.clusters
    if not isinstance(clustering, Clustering):
        clustering = _cluster(settled, clustering, engine, progress)
    prepared = describe(settled, clustering, engine)
    _check_room(settled, prepared.pilot, settled.budget if most is None else most)
    return prepared


def _cluster(settled: Settled, k: int, engine: Engine | None, progress: Progress) -> Clustering:
    """Cluster, or take what an earlier call with the same rows and arguments has left in the engine's folder."""
    folder = None if engine is None else engine.keep
    path = None if folder is None else Path(folder) / f"clustering-{_key(settled, k)}.npz"
    if path is not None and path.exists():
        kept: Clustering = load(path)
        return kept
    found = cluster(
        settled.rows,
        k,
        z=settled.z,
        seed=settled.seed,
        normalize=settled.normalize,
        strata=settled.strata,
        engine=engine,
        progress=progress,
    )
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(found, path)
    return found


def _key(settled: Settled, k: int) -> str:
    """Return a digest of all that a clustering depends on."""
    parts = (settled.rows.fingerprint(), k, settled.z, settled.seed, settled.normalize, __version__)
    strata = np.zeros(0, np.int32) if settled.strata is None else settled.strata
    return digest(np.frombuffer(repr(parts).encode(), np.uint8), strata)


def describe(settled: Settled, clustering: Clustering, engine: Engine | None) -> Prepared:
    """Draw the pilot and the rows that an estimate of Λ needs, and note down the recipe."""
    recipe = {
        "budget": str(settled.budget),
        "clusters": f"{clustering.k}, seed {clustering.seed}",
        "z": repr(clustering.z),
        "normalize": repr(clustering.normalized),
        "pilot": repr(settled.pilot),
        "score": repr(settled.score),
        "design": repr(settled.design),
        "given": _shown(settled.frame.given),
        "exclude": _shown(settled.frame.excluded),
    }
    if clustering.strata.size:
        recipe["strata"] = f"{np.unique(clustering.strata).size} classes, digest {digest(clustering.classes())}"
    probes = None
    if settled.pilot is not None and isinstance(settled.score, Sensitivity) and isinstance(settled.score.holder, str):
        probes = plan_probes(clustering, settled.score.holder, exclude=settled.frame.excluded, seed=settled.seed)
    return Prepared(settled, clustering, _draw_pilot(settled, clustering), recipe, probes, engine)


def _shown(ids: Ints) -> str:
    return f"{ids.size} rows, digest {digest(ids)}" if ids.size else "no rows"


def _draw_pilot(settled: Settled, clustering: Clustering) -> Pilot:
    pilot, frame = settled.pilot, settled.frame
    if pilot is None:
        return Pilot(np.zeros(0, np.int64), nobody(frame))
    room = settled.budget - frame.given.size
    plan = pilot.plan(clustering, frame, room)
    order = plan.order[plan.inclusion[plan.order] > 0]
    drawn, _ = PILOT_DESIGN.draw(plan.inclusion[order], np.random.default_rng([settled.seed, 2]))
    return Pilot(order[drawn], plan)


def _check_room(settled: Settled, pilot: Pilot, most: int) -> None:
    ids, given = pilot.ids, settled.frame.given
    kept = np.setdiff1d(ids, given).size if pilot.plan.keep else 0
    if ids.size > most or kept > settled.budget - given.size:
        raise InputError(
            f"{settled.pilot!r} asks {ids.size} rows, more than the budget of {settled.budget} leaves; "
            "take fewer clusters or a larger budget."
        )


def finish(
    prepared: Prepared,
    answers: Floats,
    ledger: Ledger,
    *,
    probed: Floats | None = None,
    leverage: Floats | None = None,
) -> Selection:
    """Score the rows by the losses of the pilot (and of the probes, and leverage scores), draw, and weigh."""
    clustering, frame, pilot = prepared.clustering, prepared.settled.frame, prepared.pilot
    evidence = Evidence(clustering, frame, pilot, answers, np.zeros(0) if leverage is None else leverage)
    if prepared.probes is not None:
        prepared = _with_holder(prepared, prepared.probes, evidence, np.zeros(0) if probed is None else probed)
    scores = prepared.settled.score.scores(evidence)
    kept = np.setdiff1d(pilot.ids, frame.given, assume_unique=True) if pilot.plan.keep else pilot.ids[:0]
    left = frame.open()
    left[kept] = False
    count = prepared.settled.budget - frame.given.size - kept.size
    drawn = _draw(prepared, scores, left, count)
    losses = np.full(frame.n, np.nan)
    if answers.size:
        losses[pilot.ids] = answers
    return _assemble(prepared, kept, drawn, losses, ledger, scores.holder)


def _with_holder(prepared: Prepared, probes: Probes, evidence: Evidence, probed: Floats) -> Prepared:
    """Put the estimate of Λ in the place of the word that asked for it."""
    points = center_rows(prepared.clustering, prepared.settled.rows)
    found = probes.infer(cluster_losses(evidence), probed, points, prepared.engine)
    score: Score = Sensitivity(holder=found.for_drawing())
    settled = replace(prepared.settled, score=score)
    return replace(prepared, settled=settled, recipe={**prepared.recipe, "holder": str(found)})


@dataclass(frozen=True)
class _Drawn:
    """Rows in draw order, with the probability that each had and how often it came; and the least of all rows'."""

    ids: Ints
    inclusion: Floats
    multiplicity: Ints
    least: float = 0.0


def _draw(prepared: Prepared, scores: Scores, left: Bools, count: int) -> _Drawn:
    order = scores.order[left[scores.order]]
    if count == 0 or order.size == 0:
        return _Drawn(order[:0], np.zeros(0), np.zeros(0, np.int64))
    # The second draw is to estimate what the pilot leaves of each total.
    sizes = parts(scores.sizes[order] * (1 - prepared.pilot.plan.share[order]))
    unreachable = np.count_nonzero(sizes == 0)
    if unreachable:
        rule = prepared.settled.score
        message = (
            f"{unreachable} of {order.size} rows have probability 0 under {rule!r} and can never come out: "
            "totals are unbiased only for values that are 0 there."
        )
        warnings.warn(message, CoresiftWarning, stacklevel=4)
    inclusion = prepared.settled.design.inclusion(sizes, count)
    drawn, multiplicity = prepared.settled.design.draw(inclusion, _draws(prepared))
    return _Drawn(order[drawn], inclusion[drawn], multiplicity, float(inclusion.min()))


def _draws(prepared: Prepared) -> np.random.Generator:
    return np.random.default_rng([prepared.settled.seed, 3, *prepared.stream])


def _assemble(
    prepared: Prepared, kept: Ints, drawn: _Drawn, losses: Floats, ledger: Ledger, holder: Floats
) -> Selection:
    clustering, frame, plan = prepared.clustering, prepared.settled.frame, prepared.pilot.plan
    sources = (frame.given, kept, drawn.ids)
    ids = np.concatenate(sources)
    phase = np.repeat([0, 1, 2], [part.size for part in sources])
    inclusion = np.concatenate([np.ones(frame.given.size), plan.inclusion[kept], drawn.inclusion])
    multiplicity = np.concatenate([np.ones(frame.given.size + kept.size, np.int64), drawn.multiplicity])
    place = np.concatenate([np.arange(part.size) for part in sources])
    origins = np.array([ORIGINS.index(name) for name in ("given", plan.origin, "drawn")])
    sort = np.argsort(ids, kind="stable")
    ids, phase, inclusion, multiplicity = ids[sort], phase[sort], inclusion[sort], multiplicity[sort]
    names = prepared.settled.rows.names(ids)
    return Selection(
        ids=ids,
        weights=weigh(phase, inclusion, plan.share[ids], multiplicity),
        inclusion=inclusion,
        share=plan.share[ids],
        clusters=clustering.labels[ids],
        distances=clustering.distances[ids],
        origin=origins[phase],
        phase=phase,
        order=place[sort],
        multiplicity=multiplicity,
        losses=losses[ids],
        n=frame.n,
        population=frame.population,
        seed=prepared.settled.seed,
        z=clustering.z,
        designs=(_name(PILOT_DESIGN, kept), _name(prepared.settled.design, drawn.ids)),
        recipe=prepared.recipe,
        ledger=ledger,
        holder=holder,
        names=None if names is None else tuple(names),
        least_inclusion=drawn.least,
    )


def _name(design: Design, ids: Ints) -> str:
    return type(design).__name__ if ids.size else ""


def weigh(phase: Ints, inclusion: Floats, share: Floats, multiplicity: Ints) -> Floats:
    """Return the one law of weights: 1 for given rows, 1 − α + α/π₁ in the pilot, count·(1 − α)/π₂ in the draw."""
    pilot = 1 - share + share / inclusion
    drawn = multiplicity * (1 - share) / inclusion
    return np.select([phase == 0, phase == 1], [np.ones(phase.size), pilot], drawn)
