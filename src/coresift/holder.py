"""Λ, the paper's measure of how fast the loss changes: |ℓ(e) − ℓ(c)| ≤ Λᵢ‖e − c‖^z for the rows e of cluster i.

There are three ways to estimate it, from expensive to free. `plan` says what an estimate will cost before anything is
asked; `estimate` asks for the losses and estimates Λ. Rows at distance 0 from their center have no ratio and are left
out.

| method | losses asked besides the centers' | Λ of a cluster |
|---|---|---|
| "estimate" | t members of each cluster | the paper's lemma: the largest of their ratios, times ln n |
| "robust" | a few members of each cluster | exceeded by rows with 1/k of the probability mass (the paper's remark) |
| "free" | none | the difference of neighboring centers' losses, over the distances within the cluster |
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

# How many members of each cluster "robust" asks.
MEMBERS = 5
# How many centers "free" compares each center with, and which quantile of the ratios it uses.
NEIGHBORS, RANK = 5, 0.8
# The ranks, by distance, of the farther centers that show whether loss differences grow with distance.
FARTHER = (8, 16)
# How many centers are compared with farther ones, and how many centers are searched for neighbors.
COMPARED, SEARCHED = 256, 1024
# In a draw, no cluster gets less than this fraction of the mean Λ, so that every row can be drawn.
FLOOR = 0.1
PAIRS_AT_ONCE = 500_000


@dataclass(frozen=True, eq=False)
class HolderEstimate(Value):
    """Λ of every cluster (`values`), the observed `ratios`, how many losses were asked, and the assumption."""

    method: str
    values: Floats
    ratios: Floats
    queries: int
    assumption: str

    def __post_init__(self) -> None:
        freeze(self, values=np.float64, ratios=np.float64)

    def percentile(self, percent: float) -> float:
        """Return a percentile of the observed ratios, as in the paper's table of Hölder constants."""
        return float(np.percentile(self.ratios, percent)) if self.ratios.size else 0.0

    def for_drawing(self) -> Floats:
        """Return the values to use in a draw.

        If neighbors happen to agree, "free" and "robust" give a cluster Λ = 0. If its loss is 0 too, its rows could
        never be drawn, so no cluster gets less than a tenth of the mean. The lemma's values do not change.
        """
        return self.values if self.method == "estimate" else np.maximum(self.values, FLOOR * self.values.mean())

    def __str__(self) -> str:
        low, median, high = np.percentile(self.values, [0, 50, 100])
        return f"{self.method}: median {median:.6g}, from {low:.6g} to {high:.6g}, {self.queries} losses"


@dataclass(frozen=True, eq=False)
class Probes(Value):
    """The rows besides the centers whose losses an estimate of Λ needs, drawn before any loss is known."""

    method: str
    clustering: Clustering
    ids: Ints
    assumption: str

    def __post_init__(self) -> None:
        freeze(self, ids=np.int64)

    @property
    def queries(self) -> int:
        """How many losses the estimate needs, including those of the centers."""
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
            rule = _by_lemma if self.method == "estimate" else _without_outliers
            values, ratios = rule(_ProbeRatios(clustering, levels, self.ids, labels, ratios))
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
    """Draw the rows whose losses an estimate of Λ needs, so that you know its cost in advance.

    Args:
        clustering: The clusters.
        method: "estimate" (the paper's lemma), "robust" (its remark) or "free" (centers only).
        share: For "estimate", the lemma's p: the share of every cluster's members whose ratio is at least Λ/ln n. It
            is an assumption; a smaller share takes more losses: ⌈ln(100k)/ln(1/(1 − p))⌉ per cluster.
        members: For "robust", how many members of each cluster to ask.
        exclude: Rows that must not be asked.
        seed: The seed.

    Returns:
        The rows to ask (`ids`), and the number of losses including those of the centers (`queries`).

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
    """Return the lemma's t, the number of members to ask in each cluster: ⌈ln(100k)/ln(1/(1 − p))⌉.

    >>> lemma_size(50, 0.5), lemma_size(50, 0.05)
    (13, 167)
    """
    return max(1, math.ceil(math.log(100 * clusters) / -math.log1p(-checked_share("share", share))))


def most_queries(clusters: int, method: str) -> int:
    """Return the most losses that a method asks in addition to the centers', with default options."""
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
        >>> holder = cs.theory.estimate_holder(clusters, lambda ids: rows[ids, 0] ** 2, rows, "free")
        >>> holder.values.shape, holder.queries
        ((20,), 20)
    """
    probes = plan(clustering, method, share=share, members=members, exclude=exclude, seed=seed)
    points = _points(clustering, rows, method)
    oracle = as_oracle(losses)
    if oracle is None:
        raise InputError("losses must be given; got None.")
    if np.isin(clustering.centers, row_numbers("exclude", exclude, clustering.n)).any():
        raise InputError("exclude must not contain centers: Λ compares other rows' losses with those of the centers.")
    fingerprint = {
        "rows": clustering.fingerprint,
        "clustering": clustering.digest(),
        "Λ": f"{method}, {share}, {members}",
    }
    fingerprint |= {"seed": str(seed)}
    with oracle.session(clustering.n, fingerprint, probes.queries, choose(progress)) as session:
        levels = session.ask(clustering.centers, round=1, reason="centers")
        answers = session.ask(probes.ids, round=1, reason="holder")
    return probes.infer(levels, answers, points, engine)


def center_rows(clustering: Clustering, rows: Rows) -> Singles:
    """Return the rows of the centers, normalized if the clustering was."""
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
    """Return `count` random rows of every cluster (all if it has fewer), none of them at distance 0."""
    possible = clustering.distances > 0
    possible[excluded] = False
    rows = np.flatnonzero(possible)
    # Random keys for all rows, so that a cluster that changes slightly keeps most of its drawn members.
    keys = generator(seed, Stream.HOLDER).random(clustering.n)[rows]
    rows = rows[np.lexsort((keys, clustering.labels[rows]))]
    labels = clustering.labels[rows]
    rank = np.arange(labels.size) - np.searchsorted(labels, labels)
    return np.sort(rows[rank < count])


@dataclass(frozen=True)
class _ProbeRatios:
    """The probes, their clusters, and the ratios |ℓ(e) − ℓ(c)|/‖e − c‖^z."""

    clustering: Clustering
    levels: Floats
    ids: Ints
    labels: Any
    ratios: Floats


def _by_lemma(probes: _ProbeRatios) -> tuple[Floats, Floats]:
    largest = np.zeros(probes.clustering.k)
    np.maximum.at(largest, probes.labels, probes.ratios)
    return largest * max(math.log(probes.clustering.n), 1.0), probes.ratios


def _without_outliers(probes: _ProbeRatios) -> tuple[Floats, Floats]:
    """Return Λᵢ = q·(scale of cluster i), with the smallest q that rows with at most 1/k of the mass exceed.

    The mass is that of p ∝ ℓ̂ + Λv. The probes estimate the mass above q; the total is known for every q.
    """
    clustering, levels, labels = probes.clustering, probes.levels, probes.labels
    if not probes.ratios.any():
        return np.zeros(clustering.k), probes.ratios
    allowed = 1 / max(clustering.k, 2)
    scales = _scales(probes, allowed)
    powers, counts = clustering.powers, np.bincount(labels, minlength=clustering.k)
    members = np.bincount(clustering.labels[clustering.distances > 0], minlength=clustering.k)
    represents = (members / np.maximum(counts, 1))[labels]
    factors = probes.ratios / scales[labels]
    order = np.argsort(-factors, kind="stable")
    # The rows before position i in this order are those with a larger factor.
    level_mass = _cumulative_before(represents * levels[labels], order)
    power_mass = _cumulative_before(represents * scales[labels] * powers[probes.ids], order)
    total_level, total_power = float(levels[clustering.labels].sum()), float(scales[clustering.labels] @ powers)
    descending = factors[order]
    above = (level_mass + descending * power_mass) / np.maximum(total_level + descending * total_power, 1e-300)
    over = np.flatnonzero(above > allowed)
    last = (over[0] if over.size else descending.size) - 1
    return descending[last] * scales, probes.ratios[order[last:]]


def _scales(probes: _ProbeRatios, allowed: float) -> Floats:
    """Return every cluster's mean ratio with outliers clipped, shrunk toward the overall mean by one row."""
    clipped = np.minimum(probes.ratios, np.quantile(probes.ratios, 1 - allowed))
    overall = clipped.mean() or probes.ratios.mean()
    sums = np.bincount(probes.labels, clipped, probes.clustering.k)
    scales: Floats = (sums + overall) / (np.bincount(probes.labels, minlength=probes.clustering.k) + 1)
    return scales


def _cumulative_before(values: Floats, order: Ints) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values[order])[:-1]])


def _from_neighbors(clustering: Clustering, levels: Floats, points: Singles, workers: Workers) -> tuple[Floats, Floats]:
    """Return Λ from the differences between the losses of neighboring centers.

    Centers are farther from each other than rows are from their center. If loss differences grow with distance, about
    like distance^(z·slope), that law is extrapolated down to the rows' distances; if they do not grow, the rows' losses
    must be assumed to differ just as much. The slope is its lower 95 % bound, so that chance does not lower Λ.
    """
    if clustering.k == 1:
        return np.zeros(1), np.zeros(0)
    neighbors = _Neighbors.of(points, np.arange(clustering.k), NEIGHBORS, clustering.z, workers)
    powers, inside = clustering.powers, clustering.distances > 0
    members = np.bincount(clustering.labels[inside], minlength=clustering.k)
    typical = np.bincount(clustering.labels, powers, clustering.k) / np.maximum(members, 1)
    typical = np.where(members > 0, typical, powers[inside].mean() if inside.any() else 1.0)[:, None]
    shrinkage = np.minimum(typical / neighbors.apart, 1.0) ** _slope(points, levels, clustering.z, workers)
    ratios = neighbors.differences(levels) / typical * shrinkage
    ratios[~np.isfinite(neighbors.apart)] = np.nan
    finite = np.isfinite(ratios)
    counts = finite.sum(axis=1)
    rank = np.maximum(np.ceil(RANK * counts).astype(np.int64) - 1, 0)
    values = np.sort(ratios, axis=1)[np.arange(clustering.k), rank]  # missing ratios are sorted to the end
    return np.where(counts > 0, values, 0.0), ratios[finite]


@dataclass(frozen=True)
class _Neighbors:
    """The nearest other centers of some centers, in order, and the z-th powers of the distances to them."""

    centers: Ints
    others: Ints
    apart: Floats

    @classmethod
    def of(cls, points: Singles, centers: Ints, count: int, z: float, workers: Workers) -> _Neighbors:
        """Find the nearest other centers; the power is infinite for an identical one."""
        shifted = points - points.mean(axis=0, dtype=np.float64).astype(np.float32)
        searched = _spread(len(points), SEARCHED)
        table = with_bias(shifted[searched])
        count = min(count, len(points) - 1)
        step = max(1, PAIRS_AT_ONCE // searched.size)

        def nearest(start: int) -> tuple[Ints, Floats]:
            batch = centers[start : start + step]
            lines = np.arange(batch.size)
            scores = np.column_stack([shifted[batch], np.ones(batch.size, np.float32)]) @ table.T
            scores[batch[:, None] == searched] = -np.inf
            others = np.empty((batch.size, count), np.int64)
            for rank in range(count):
                best = scores.argmax(axis=1)
                scores[lines, best] = -np.inf
                others[:, rank] = searched[best]
            differences = points[batch][:, None, :].astype(np.float64) - points[others]
            return others, np.einsum("ijk,ijk->ij", differences, differences)

        batches = list(workers.each(range(0, centers.size, step), nearest, name="comparing centers"))
        squared = np.concatenate([distances for _, distances in batches])
        squared[squared == 0] = np.inf
        return cls(centers, np.concatenate([others for others, _ in batches]), squared ** (z / 2))

    def differences(self, levels: Floats) -> Floats:
        """Return the absolute difference between each center's loss and its neighbors' losses."""
        differences: Floats = np.abs(levels[self.centers][:, None] - levels[self.others])
        return differences


def _spread(count: int, most: int) -> Ints:
    """Return up to `most` evenly spaced numbers below `count`."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)


def _slope(points: Singles, levels: Floats, z: float, workers: Workers) -> float:
    """Return the lower 95 % bound of the power of D^z with which loss differences grow from near to farther centers."""
    if len(points) <= FARTHER[0] + NEIGHBORS + 1:
        return 0.0
    neighbors = _Neighbors.of(points, _spread(len(points), COMPARED), FARTHER[1], z, workers)
    near, far = slice(0, NEIGHBORS), slice(*FARTHER)
    differences = neighbors.differences(levels)
    growth = np.median(differences[:, far], axis=1), np.median(differences[:, near], axis=1)
    width = np.median(neighbors.apart[:, far], axis=1), np.median(neighbors.apart[:, near], axis=1)
    usable = (growth[0] > 0) & (growth[1] > 0) & np.isfinite(width[0]) & (width[0] > width[1])
    if np.count_nonzero(usable) < 3:
        return 0.0
    slopes = np.log(growth[0][usable] / growth[1][usable]) / np.log(width[0][usable] / width[1][usable])
    slopes = np.clip(slopes, -5, 5)  # a single center must not decide the mean
    return float(np.clip(slopes.mean() - 2 * slopes.std() / math.sqrt(slopes.size), 0.0, 1.0))
