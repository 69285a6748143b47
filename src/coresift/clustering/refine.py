"""Better centers: a few Lloyd-like steps on a sample, one over all rows; then snapping to rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from coresift.clustering.nearest import Codebook, nearest
from coresift.engine import Workers
from coresift.rows import Rows
from coresift.types import Floats, Ints, Singles

Step = tuple[float, Ints, Floats, Floats]


def refine(rows: Rows, centers: Singles, z: float, workers: Workers, *, steps: int, name: str = "") -> Singles:
    """Return centers after up to `steps` steps, each one pass; stop when the cost falls by under 0.1 %.

    One rule for every z: a center moves to the mean of its rows weighted by distance^(z−2), which is the mean
    for z = 2 and a Weiszfeld step towards the median for z = 1; beyond 2 the step is damped by z − 1, without
    which it overshoots.
    """
    best, lowest = centers, np.inf
    for _ in range(steps):
        cost, moved = _step(rows, centers, z, workers, name)
        if cost < lowest:
            best = centers
        if cost >= lowest * (1 - 1e-3):
            return best
        lowest, centers = cost, moved
    # The last move was not measured; a weighted mean does not raise the cost of its cluster.
    return centers


def snap(labels: NDArray[np.int32], distances: Singles, k: int) -> Ints:
    """Return for each cluster the row nearest to its center, the first such row, or −1 for an empty cluster."""
    closest = np.full(k, np.inf, np.float32)
    np.minimum.at(closest, labels, distances)
    at_closest = np.flatnonzero(distances == closest[labels])
    present, first = np.unique(labels[at_closest], return_index=True)
    snapped = np.full(k, -1, np.int64)
    snapped[present] = at_closest[first]
    return snapped


def _step(rows: Rows, centers: Singles, z: float, workers: Workers, name: str) -> tuple[float, Singles]:
    k = len(centers)
    sums, weights, cost = np.zeros(centers.shape), np.zeros(k), 0.0
    for block_cost, present, block_weights, block_sums in workers.map(rows, _summing(centers, z), name=name):
        cost += block_cost
        weights[present] += block_weights
        sums[present] += block_sums
    filled = weights > 0
    target = centers.astype(np.float64)
    target[filled] = sums[filled] / weights[filled, None]
    moved = centers + (target - centers) / max(1.0, z - 1.0)
    return cost, moved.astype(np.float32)


def _summing(centers: Singles, z: float) -> Callable[[int, Singles], Step]:
    codebook = Codebook.of(centers)

    def block_sums(_: int, block: Singles) -> Step:
        labels, distances = nearest(block, codebook)
        wide = distances.astype(np.float64)
        weights = np.ones(len(block)) if z == 2 else _pull(wide, z)
        present, sums = _sum_by_label(block, labels, weights)
        totals = np.bincount(labels, weights)[present].astype(np.float64)
        return float((wide**z).sum()), present, totals, sums

    return block_sums


def _pull(distances: Floats, z: float) -> Floats:
    """distance^(z−2), bounded where a row sits on its center, so that the row does not hold it fast."""
    if z > 2:
        return distances ** (z - 2) + 1e-12
    typical = distances.mean()
    return np.maximum(distances, max(1e-3 * typical, 1e-12)) ** (z - 2)


def _sum_by_label(block: Singles, labels: NDArray[np.int32], weights: Floats) -> tuple[Ints, Floats]:
    from scipy.sparse import csr_array

    order = np.argsort(labels, kind="stable")
    present, counts = np.unique(labels, return_counts=True)
    ends = np.concatenate([[0], np.cumsum(counts)])
    gather = csr_array((weights[order], order, ends), shape=(len(present), len(block)))
    return present.astype(np.int64), np.asarray(gather @ block, np.float64)
