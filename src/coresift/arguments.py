"""The arguments of `select`: checked, and completed where they were left to us."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from coresift.bounds import paper_size
from coresift.checks import InputError, positive, refuse, row_numbers, whole
from coresift.clustering.strata import encode
from coresift.design import Design, Independent, Pivotal, Systematic
from coresift.pilot import Centers, PilotStrategy, Representatives
from coresift.rows import Rows, open_rows
from coresift.score import Distance, Learned, Score, Sensitivity
from coresift.types import Clustering, Frame

EXAMPLES = {"pilot": Representatives(), "score": Learned(), "design": Systematic()}


class Options(TypedDict, total=False):
    """What `select` takes besides rows, losses, budget and seed; `ask` and `plan` take the same."""

    clusters: int | Clustering | None
    z: float | None
    pilot: PilotStrategy | None
    score: Score | None
    design: Design | None
    given: Any
    exclude: Any
    normalize: bool
    strata: Any
    epsilon: float | None
    delta: float | None


@dataclass(frozen=True)
class Settled:
    """The arguments, checked and completed; nothing has been computed yet."""

    rows: Rows
    frame: Frame
    clusters: int | Clustering
    z: float
    normalize: bool
    strata: NDArray[np.int32] | None
    pilot: PilotStrategy | None
    score: Score
    design: Design
    budget: int
    seed: int


def settle(
    rows: Any,
    budget: int | None,
    seed: int,
    *,
    asking: bool,
    clusters: int | Clustering | None = None,
    z: float | None = None,
    pilot: PilotStrategy | None = None,
    score: Score | None = None,
    design: Design | None = None,
    given: Any = None,
    exclude: Any = None,
    normalize: bool = False,
    strata: Any = None,
    epsilon: float | None = None,
    delta: float | None = None,
) -> Settled:
    """Check the arguments of `select` and fill in what was left to us."""
    rows, seed = open_rows(rows), whole("seed", seed, least=0)
    frame = Frame(rows.n, row_numbers("given", given, rows.n), row_numbers("exclude", exclude, rows.n))
    for name, part, method in (("pilot", pilot, "plan"), ("score", score, "scores"), ("design", design, "draw")):
        if part is not None and (isinstance(part, type) or not hasattr(part, method)):
            refuse(name, f"one of coresift's {name}s, such as {EXAMPLES[name]}", repr(part))
    score, pilot = _parts(score, pilot, asking)
    design = design or _design_for(score)
    budget = _budget(budget, epsilon, delta, (pilot, score, design), frame)
    classes = None if strata is None else encode(strata, rows)
    if isinstance(clusters, Clustering):
        _check_clustering(clusters, rows, z, normalize)
        _check_classes(clusters, classes)
        z, normalize = clusters.z, clusters.normalized
    else:
        clusters = _cluster_count(clusters, budget, rows, classes)
    if design.distinct and budget >= frame.population:
        score, pilot = Distance(floor=1.0), None  # every row comes out, so there is nothing to learn
    z = 2.0 if z is None else positive("z", z)
    return Settled(rows, frame, clusters, z, bool(normalize), classes, pilot, score, design, budget, seed)


def _parts(score: Score | None, pilot: PilotStrategy | None, asking: bool) -> tuple[Score, PilotStrategy | None]:
    if score is None:
        score = Learned() if asking else Distance()
    if not asking and (score.asks or pilot is not None):
        part = f"score={score!r}" if score.asks else f"pilot={pilot!r}"
        raise InputError(f"{part} asks for losses, and there are none; give losses, or leave it out.")
    if pilot is None and score.asks:
        pilot = Representatives()
    return score, pilot


def _design_for(score: Score) -> Design:
    """Choose between the sorted designs, which have nearly the same error.

    After a random pilot no two orders and sizes are the same, and one random start is the more even draw. Without
    one, order and sizes are fixed, and a single start could be a bad one for good: duels keep the interval honest.
    """
    return Systematic() if score.asks else Pivotal()


def _budget(
    budget: int | None, epsilon: float | None, delta: float | None, strategies: tuple[Any, Any, Any], frame: Frame
) -> int:
    if epsilon is not None:
        pilot, score, design = strategies
        paper = isinstance(pilot, Centers) and not pilot.keep and isinstance(score, Sensitivity)
        if budget is not None or not (paper and isinstance(design, Independent)):
            raise InputError(
                "epsilon stands instead of a budget in paper mode only: "
                "pilot=Centers(keep=False), score=Sensitivity(...), design=Independent()."
            )
        return paper_size(epsilon, delta)
    if delta is not None:
        raise InputError("delta goes with epsilon; give both, or a budget alone.")
    if budget is None:
        raise InputError("budget must say how many rows to select; got none.")
    whole("budget", budget)
    if frame.population == 0:
        raise InputError("exclude leaves no row to select.")
    if budget <= frame.given.size < frame.population:
        refuse("budget", f"more than the {frame.given.size} given rows, which count in it", budget)
    return int(budget)


def _cluster_count(clusters: int | None, budget: int, rows: Rows, classes: NDArray[np.int32] | None) -> int:
    least = 1 if classes is None else int(classes.max()) + 1
    if clusters is None:
        # Classes do part of what clusters are for; with fewer of these, the pilot hears more rows of each.
        return min(max(budget // (10 if classes is None else 20), least), rows.n)
    if whole("clusters", clusters) < least:
        refuse("clusters", f"at least {least}, one for each class in strata", clusters)
    return int(clusters)


def _check_classes(clustering: Clustering, classes: NDArray[np.int32] | None) -> None:
    if classes is not None and not clustering.strata.size:
        raise InputError("strata needs a clustering that was made within classes; this one was not.")
    if classes is not None and not np.array_equal(classes, clustering.classes()):
        raise InputError("strata must be the classes that the clustering was made with; these are others.")


def _check_clustering(clustering: Clustering, rows: Rows, z: float | None, normalize: bool) -> None:
    if clustering.n != rows.n or clustering.fingerprint != rows.fingerprint():
        raise InputError(
            f"The clustering is of other rows ({clustering.n} of them) than these {rows.n}; cluster these rows anew."
        )
    if z is not None and z != clustering.z:
        raise InputError(f"z must be that of the clustering, {clustering.z:g}; got {z}.")
    if normalize and not clustering.normalized:
        raise InputError("normalize=True needs a clustering of normalized rows; this one is not.")
