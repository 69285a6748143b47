"""Λ, the paper's measure of how fast the loss changes: |ℓ(e) − ℓ(c)| ≤ Λᵢ‖e − c‖^z for the rows e of cluster i.

Three ways to estimate it, from dear to free. `plan` says what one will cost before anything is asked; `estimate` asks
and estimates. Rows at distance 0 from their center have no ratio and are left out of all of them.

| method | losses asked besides the centers' | Λ of a cluster |
|---|---|---|
| "estimate" | t members of each cluster | the paper's lemma: the largest of their ratios, times ln n |
| "robust" | a few members of each cluster | exceeded by rows with 1/k of the probability mass (the paper's remark) |
| "free" | none | what neighboring centers' losses differ by, over the cluster's own distances |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from coresift.checks import InputError, refuse, row_numbers, whole
from coresift.checks import share as checked_share
from coresift.clustering.nearest import with_bias
from coresift.engine import Engine, Local, Workers
from coresift.oracle import as_oracle
from coresift.progress import Progress, choose
from coresift.rows import Rows, check_clustered, open_rows
from coresift.streams import Stream, generator
from coresift.types import ESTIMATES, Clustering, Floats, Ints, Singles, Value, freeze

# Members of each cluster that "robust" asks.
MEMBERS = 5
# Centers that "free" compares each center with, and which of the ratios, sorted, is taken.
NEIGHBORS, RANK = 5, 0.8
# Farther centers, by rank of distance, that show whether differences of losses grow with the distance.
FARTHER = (8, 16)
# How many centers, evenly spread, show that; and among how many each center looks for its neighbors.
COMPARED, LOOKED_AT = 256, 1024
# For a draw that is to reach every row, no cluster gets less than this part of the mean Λ.
FLOOR = 0.1
PAIRS_AT_ONCE = 500_000


@dataclass(frozen=True, eq=False)
class HolderEstimate(Value):
    """Λ of every cluster (`values`), the `ratios` that were seen, how many losses it took, and what it rests on."""

    method: str
    values: Floats
    ratios: Floats
    queries: int
    assumption: str

    def __post_init__(self) -> None:
        freeze(self, values=np.float64, ratios=np.float64)

    def percentile(self, percent: float) -> float:
        """Return a percentile of the ratios that were seen, as in the paper's table of Hölder constants."""
        return float(np.percentile(self.ratios, percent)) if self.ratios.size else 0.0

    def for_drawing(self) -> Floats:
        """Return the values as a draw should use them.

        Where neighbors happen to agree, "free" and "robust" give a cluster Λ = 0, and with a loss of 0 its rows
        could never be drawn: no cluster gets less than a tenth of the mean. The lemma's values stay as they are.
        """
        return self.values if self.method == "estimate" else np.maximum(self.values, FLOOR * self.values.mean())

    def __str__(self) -> str:
        low, middle, high = np.percentile(self.values, [0, 50, 100])
        return f"{self.method}: median {middle:.6g}, from {low:.6g} to {high:.6g}, {self.queries} losses"


@dataclass(frozen=True, eq=False)
class Probes(Value):
    """The rows whose losses an estimate of Λ needs in addition to the centers', drawn before any loss is seen."""

    method: str
    clustering: Clustering
    ids: Ints
    assumption: str

    def __post_init__(self) -> None:
        freeze(self, ids=np.int64)

    @property
    def queries(self) -> int:
        """How many losses it takes, the centers' among them."""
        return self.clustering.k + self.ids.size

    def infer(self, levels: Floats, losses: Floats, points: Singles, engine: Engine | None = None) -> HolderEstimate:
        """Estimate Λ from the loss of every cluster's center (`levels`), the probes' losses and the centers' rows."""
        clustering = self.clustering
        if self.method == "free":
            with (engine or Local()).open(Progress()) as workers:
                values, ratios = _from_neighbors(clustering, levels, points, workers)
        else:
            labels = clustering.labels[self.ids]
            ratios = np.abs(losses - levels[labels]) / clustering.powers[self.ids]
            rule = _by_lemma if self.method == "estimate" else _but_for_outliers
            values, ratios = rule(_Seen(clustering, levels, self.ids, labels, ratios))
        return HolderEstimate(self.method, values, ratios, self.queries, self.assumption)


def plan(
    clustering: Clustering,
    method: str = "estimate",
    *,
    share: float = 0.5,
    members: int = MEMBERS,
    exclude: Any = None,
    seed: int = 0,
) -> Probes:
    """Draw the rows whose losses an estimate of Λ needs, so that you know its cost before you spend it.

    Args:
        clustering: The clusters.
        method: "estimate" (the paper's lemma), "robust" (its remark) or "free" (centers only).
        share: For "estimate", the lemma's p: the share of every cluster's members whose ratio is at least Λ/ln n. It
            is an assumption; a smaller share takes more losses: ⌈ln(100k)/ln(1/(1 − p))⌉ per cluster.
        members: For "robust", how many members of each cluster are asked.
        exclude: Rows that must not be asked.
        seed: The seed.

    Returns:
        The rows to ask (`ids`), and how many losses it takes with those of the centers (`queries`).

    Examples:
        >>> import numpy as np, coresift as cs
        >>> clusters = cs.cluster(np.random.default_rng(0).normal(size=(5000, 3)), 20)
        >>> [cs.theory.plan_holder(clusters, method).queries for method in ("estimate", "robust", "free")]
        [240, 120, 20]
    """
    if method not in ESTIMATES:
        refuse("method", f"one of {', '.join(repr(word) for word in ESTIMATES)}", repr(method))
    count, assumption = 0, "differences between neighboring centers are like those inside clusters"
    if method == "estimate":
        count = lemma_size(clustering.k, share)
        assumption = f"at least {share:g} of each cluster's rows have a ratio of Λ/ln n or more"
    elif method == "robust":
        count = whole("members", members)
        assumption = "the rows that were asked are like the others of their cluster"
    excluded, seed = row_numbers("exclude", exclude, clustering.n), whole("seed", seed, least=0)
    ids = _draw_members(clustering, excluded, seed, count) if count else np.zeros(0, np.int64)
    return Probes(method, clustering, ids, assumption)


def lemma_size(clusters: int, share: float) -> int:
    """Return the lemma's t, how many members of each cluster are asked: ⌈ln(100k)/ln(1/(1 − p))⌉.

    >>> lemma_size(50, 0.5), lemma_size(50, 0.05)
    (13, 167)
    """
    return max(1, math.ceil(math.log(100 * clusters) / -math.log1p(-checked_share("share", share))))


def most_queries(clusters: int, method: str) -> int:
    """Return how many losses a method asks at most in addition to the centers', with its usual options."""
    return clusters * {"estimate": lemma_size(clusters, 0.5), "robust": MEMBERS, "free": 0}[method]


def estimate(
    clustering: Clustering,
    losses: Any,
    rows: Any = None,
    method: str = "estimate",
    *,
    share: float = 0.5,
    members: int = MEMBERS,
    exclude: Any = None,
    seed: int = 0,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
) -> HolderEstimate:
    """Ask for the losses that a method needs, and estimate Λ for every cluster.

    Args:
        clustering: The clusters.
        losses: The losses, in any form that `select` takes.
        rows: The rows that were clustered; "free" needs them, since it compares centers.
        method: "estimate", "robust" or "free", as in `plan_holder`.
        share: As in `plan_holder`.
        members: As in `plan_holder`.
        exclude: Rows that must not be asked; no center may be among them.
        seed: The seed.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        One Λ per cluster (`values`), with the number of losses that were asked (`queries`) and the assumption.

    Examples:
        >>> import numpy as np, coresift as cs
        >>> rows = np.random.default_rng(0).normal(size=(5000, 3))
        >>> clusters = cs.cluster(rows, 20)
        >>> found = cs.theory.estimate_holder(clusters, lambda ids: rows[ids, 0] ** 2, rows, "free")
        >>> found.values.shape, found.queries
        ((20,), 20)
    """
    probes = plan(clustering, method, share=share, members=members, exclude=exclude, seed=seed)
    points = _points(clustering, rows, method)
    oracle = as_oracle(losses)
    if oracle is None:
        raise InputError("losses must be given; got None.")
    if np.isin(clustering.centers, row_numbers("exclude", exclude, clustering.n)).any():
        raise InputError("exclude must not contain centers: other rows are compared with their losses.")
    wanted = {"rows": clustering.fingerprint, "clustering": clustering.digest(), "Λ": f"{method}, {share}, {members}"}
    wanted |= {"seed": str(seed)}
    with oracle.session(clustering.n, wanted, probes.queries, choose(progress)) as session:
        levels = session.ask(clustering.centers, round=1, reason="centers")
        answers = session.ask(probes.ids, round=1, reason="holder")
    return probes.infer(levels, answers, points, engine)


def center_rows(clustering: Clustering, rows: Rows) -> Singles:
    """Return the rows that are the centers, as the clustering saw them."""
    return (rows.normalized() if clustering.normalized else rows).take(clustering.centers)


def _points(clustering: Clustering, rows: Any, method: str) -> Singles:
    if rows is None:
        if method == "free":
            raise InputError('method="free" compares centers with their neighbors; give the rows too.')
        return clustering.free_centers
    opened = open_rows(rows)
    check_clustered(clustering, opened)
    return center_rows(clustering, opened)


def _draw_members(clustering: Clustering, excluded: Ints, seed: int, count: int) -> Ints:
    """Return `count` random rows of every cluster, or all where it has fewer, none of them at distance 0."""
    possible = clustering.distances > 0
    possible[excluded] = False
    rows = np.flatnonzero(possible)
    # A number for every row of the data, so that clusters that change a little keep most of their members.
    keys = generator(seed, Stream.HOLDER).random(clustering.n)[rows]
    rows = rows[np.lexsort((keys, clustering.labels[rows]))]
    labels = clustering.labels[rows]
    place = np.arange(labels.size) - np.searchsorted(labels, labels)
    return np.sort(rows[place < count])


@dataclass(frozen=True)
class _Seen:
    """Rows that were asked, their clusters, and the ratios of their losses' differences from the centers' levels."""

    clustering: Clustering
    levels: Floats
    ids: Ints
    labels: Any
    ratios: Floats


def _by_lemma(seen: _Seen) -> tuple[Floats, Floats]:
    largest = np.zeros(seen.clustering.k)
    np.maximum.at(largest, seen.labels, seen.ratios)
    return largest * max(math.log(seen.clustering.n), 1.0), seen.ratios


def _but_for_outliers(seen: _Seen) -> tuple[Floats, Floats]:
    """Return Λᵢ = q·(scale of cluster i), q the least for which rows above it have at most 1/k of the probability mass.

    The mass is that of p ∝ ℓ̂ + Λv, of which the rows that were asked show a part; the total is known for every q.
    """
    clustering, levels, labels = seen.clustering, seen.levels, seen.labels
    if not seen.ratios.any():
        return np.zeros(clustering.k), seen.ratios
    allowed = 1 / max(clustering.k, 2)
    scales = _scales(seen, allowed)
    powers, counts = clustering.powers, np.bincount(labels, minlength=clustering.k)
    members = np.bincount(clustering.labels[clustering.distances > 0], minlength=clustering.k)
    stands_for = (members / np.maximum(counts, 1))[labels]
    factors = seen.ratios / scales[labels]
    order = np.argsort(-factors, kind="stable")
    # Above the factor at place i of this order lie the rows at earlier places.
    level_mass = _before(stands_for * levels[labels], order)
    power_mass = _before(stands_for * scales[labels] * powers[seen.ids], order)
    total_level, total_power = float(levels[clustering.labels].sum()), float(scales[clustering.labels] @ powers)
    falling = factors[order]
    above = (level_mass + falling * power_mass) / np.maximum(total_level + falling * total_power, 1e-300)
    first_over = np.flatnonzero(above > allowed)
    last = (first_over[0] if first_over.size else falling.size) - 1
    return falling[last] * scales, seen.ratios[order[last:]]


def _scales(seen: _Seen, allowed: float) -> Floats:
    """Return the mean ratio of every cluster without its outliers, with one row's worth of the overall mean."""
    cut = np.minimum(seen.ratios, np.quantile(seen.ratios, 1 - allowed))
    overall = cut.mean() or seen.ratios.mean()
    sums = np.bincount(seen.labels, cut, seen.clustering.k)
    scales: Floats = (sums + overall) / (np.bincount(seen.labels, minlength=seen.clustering.k) + 1)
    return scales


def _before(values: Floats, order: Ints) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values[order])[:-1]])


def _from_neighbors(clustering: Clustering, levels: Floats, points: Singles, workers: Workers) -> tuple[Floats, Floats]:
    """Return Λ from what the losses of neighboring centers differ by.

    Centers lie farther from each other than rows lie from their center. Where the losses of farther centers differ
    by more, by about distance^(z·slope), that law is followed down to the rows' distances; where they differ by as
    much, so do, one must fear, the rows' losses. The slope is its lower 95 % bound, so that chance does not lower Λ.
    """
    if clustering.k == 1:
        return np.zeros(1), np.zeros(0)
    found = _Near.of(points, np.arange(clustering.k), NEIGHBORS, clustering.z, workers)
    powers, inside = clustering.powers, clustering.distances > 0
    members = np.bincount(clustering.labels[inside], minlength=clustering.k)
    typical = np.bincount(clustering.labels, powers, clustering.k) / np.maximum(members, 1)
    typical = np.where(members > 0, typical, powers[inside].mean() if inside.any() else 1.0)[:, None]
    nearer = np.minimum(typical / found.apart, 1.0) ** _slope(points, levels, clustering.z, workers)
    ratios = found.differences(levels) / typical * nearer
    ratios[~np.isfinite(found.apart)] = np.nan
    seen = np.isfinite(ratios)
    counts = seen.sum(axis=1)
    place = np.maximum(np.ceil(RANK * counts).astype(np.int64) - 1, 0)
    values = np.sort(ratios, axis=1)[np.arange(clustering.k), place]  # missing ratios are sorted to the end
    return np.where(counts > 0, values, 0.0), ratios[seen]


@dataclass(frozen=True)
class _Near:
    """Some centers, and for each its nearest others, in order, and the z-th powers of the distances to them."""

    centers: Ints
    others: Ints
    apart: Floats

    @classmethod
    def of(cls, points: Singles, centers: Ints, count: int, z: float, workers: Workers) -> _Near:
        """Compare centers with others; the power is infinite for one that is equal."""
        shifted = points - points.mean(axis=0, dtype=np.float64).astype(np.float32)
        looked_at = _spread(len(points), LOOKED_AT)
        table = with_bias(shifted[looked_at])
        count = min(count, len(points) - 1)
        step = max(1, PAIRS_AT_ONCE // looked_at.size)

        def nearest(start: int) -> tuple[Ints, Floats]:
            own = centers[start : start + step]
            lines = np.arange(own.size)
            scores = np.column_stack([shifted[own], np.ones(own.size, np.float32)]) @ table.T
            scores[own[:, None] == looked_at] = -np.inf
            found = np.empty((own.size, count), np.int64)
            for place in range(count):
                best = scores.argmax(axis=1)
                scores[lines, best] = -np.inf
                found[:, place] = looked_at[best]
            differences = points[own][:, None, :].astype(np.float64) - points[found]
            return found, np.einsum("ijk,ijk->ij", differences, differences)

        found = list(workers.each(range(0, centers.size, step), nearest, name="comparing centers"))
        squared = np.concatenate([away for _, away in found])
        squared[squared == 0] = np.inf
        return cls(centers, np.concatenate([some for some, _ in found]), squared ** (z / 2))

    def differences(self, levels: Floats) -> Floats:
        """Return by how much the others' losses differ from each center's."""
        found: Floats = np.abs(levels[self.centers][:, None] - levels[self.others])
        return found


def _spread(count: int, most: int) -> Ints:
    """Return up to `most` numbers below `count`, evenly spread."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)


def _slope(points: Singles, levels: Floats, z: float, workers: Workers) -> float:
    """Return the power of D^z by which differences grow between near and farther centers, its lower 95 % bound."""
    if len(points) <= FARTHER[0] + NEIGHBORS + 1:
        return 0.0
    found = _Near.of(points, _spread(len(points), COMPARED), FARTHER[1], z, workers)
    near, far = slice(0, NEIGHBORS), slice(*FARTHER)
    differences = found.differences(levels)
    growth = np.median(differences[:, far], axis=1), np.median(differences[:, near], axis=1)
    width = np.median(found.apart[:, far], axis=1), np.median(found.apart[:, near], axis=1)
    usable = (growth[0] > 0) & (growth[1] > 0) & np.isfinite(width[0]) & (width[0] > width[1])
    if np.count_nonzero(usable) < 3:
        return 0.0
    slopes = np.log(growth[0][usable] / growth[1][usable]) / np.log(width[0][usable] / width[1][usable])
    slopes = np.clip(slopes, -5, 5)  # one center among equals must not decide
    return float(np.clip(slopes.mean() - 2 * slopes.std() / math.sqrt(slopes.size), 0.0, 1.0))
