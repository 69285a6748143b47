"""Improve centers by a few Lloyd-like steps on a sample and one over all rows, then snap them to rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import NoReturn

import numpy as np

from coresift.checks import refuse
from coresift.clustering.kernels import add_rows
from coresift.clustering.nearest import Labels
from coresift.clustering.searches import Exact, Search
from coresift.columns import add_up, spans
from coresift.engine import Fold, Workers
from coresift.rows import Rows, first_bad_row, refuse_bad_row
from coresift.scratch import empty
from coresift.types import Floats, Ints, Singles

Step = tuple[float, Labels, Ints, Floats, Floats]
# Sums are combined over at least this many rows per center, so that they stay small compared with the rows.
FOLDED, FEWEST_FOLDED = 8, 8
# Centers move beyond the means of their rows, since rows that change clusters mostly pull them further in the same
# direction. This takes fewer steps and ends at a lower cost.
OVERSHOOT = 1.8
# Steps end when one lowers the cost by less than this share.
LEAST_GAIN = 2e-3


def refine(
    rows: Rows, centers: Singles, z: float, workers: Workers, *, steps: int, gain: float = LEAST_GAIN
) -> tuple[Singles, float]:
    """Return centers after up to `steps` steps, each one pass, and the lowest cost that was measured.

    It stops when a step lowers the cost by a smaller share than `gain`.

    The rule is the same for every z: a center moves to the mean of its rows weighted by distance^(z−2), which is the
    mean for z = 2 and a Weiszfeld step towards the median for z = 1. For z > 2, the step is divided by z − 1, or it
    would overshoot.
    """
    best, lowest = centers, np.inf
    for count in range(steps):
        cost, means, _ = step(rows, Exact.of(centers), centers, z, workers)
        if cost < lowest:
            best = means  # a weighted mean does not raise the cost of its cluster
        if cost >= lowest * (1 - gain):
            break
        lowest, centers = cost, go_beyond(centers, means, z) if count else means
    return best, min(cost, lowest)


def go_beyond(centers: Singles, means: Singles, z: float) -> Singles:
    """Return centers moved beyond the means of their rows; for z > 2, return the means."""
    if z > 2:
        return means
    return np.asarray(centers + np.float32(OVERSHOOT) * (means - centers), np.float32)


def snap(labels: Labels, distances: Singles, k: int) -> Ints:
    """Return for each cluster the row nearest to its center, the first such row, or −1 for an empty cluster."""
    closest, snapped = np.full(k, np.inf, np.float32), np.full(k, -1, np.int64)
    for rows in spans(labels.size):
        np.minimum.at(closest, labels[rows], distances[rows])
    for rows in spans(labels.size):
        at_closest = np.flatnonzero(distances[rows] == closest[labels[rows]])
        present, first = np.unique(labels[rows][at_closest], return_index=True)
        new = snapped[present] < 0
        snapped[present[new]] = rows.start + at_closest[first[new]]
    return snapped


def cost_of(distances: Singles, z: float) -> float:
    """Return Φ_z, the sum of the z-th powers of the distances."""
    with np.errstate(over="ignore"):
        return float(add_up(distances.size, lambda rows: (distances[rows].astype(np.float64) ** z).sum()))


def refuse_infinite(rows: Rows, z: float) -> NoReturn:
    """Raise an error that says why the cost is not finite: a bad row, or else z."""
    if first_bad_row(rows) is None:
        refuse("z", "small enough for distances to the power z to be finite numbers", z)
    refuse_bad_row(rows)


def step(rows: Rows, search: Search, centers: Singles, z: float, workers: Workers) -> tuple[float, Singles, Labels]:
    """Return the cost of the centers, the centers after one step, and the labels of all rows, in one pass."""
    join = partial(_join, centers.shape)
    fold = Fold(join, fold_size(len(centers), rows.block_rows))
    blocks = search.assign(rows, partial(_block_sums, z), workers, "refining centers", fold)
    labels = empty(rows.n, np.int32)
    cost, _, present, weights, sums = join(_store_labels(blocks, labels))
    if not np.isfinite(cost):
        refuse_infinite(rows, z)
    filled = weights > 0
    target = centers.astype(np.float64)
    target[present[filled]] = sums[filled] / weights[filled, None]
    moved = centers + (target - centers) / max(1.0, z - 1.0)
    return cost, moved.astype(np.float32), labels


def _store_labels(results: Iterable[Step], labels: Labels) -> Iterator[Step]:
    """Move the labels of results, which are in row order, to one array for all rows."""
    none, done = np.zeros(0, np.int32), 0
    for cost, some, present, weights, sums in results:
        labels[done : done + len(some)] = some
        done += len(some)
        yield cost, none, present, weights, sums  # an empty part of `some` would keep all of it


def _block_sums(z: float, start: int, block: Singles, labels: Labels, distances: Singles) -> Step:
    cost = cost_of(distances, z)
    if not np.isfinite(cost):
        return cost, labels, np.zeros(0, np.int64), np.zeros(0), np.zeros((0, block.shape[1]))
    weights = np.ones(len(block)) if z == 2 else pull(distances.astype(np.float64), z)
    present, sums = sum_by_label(block, labels, weights)
    return cost, labels, present, np.bincount(labels, weights)[present].astype(np.float64), sums


def fold_size(k: int, block_rows: int) -> int:
    """Return over how many blocks, a power of two, sums for k centers are combined.

    >>> fold_size(100, 2048), fold_size(10_000, 2048)
    (8, 64)
    """
    wanted = -(-FOLDED * k // block_rows)
    return max(FEWEST_FOLDED, 1 << (wanted - 1).bit_length())


def _join(shape: tuple[int, int], results: Iterable[Step]) -> Step:
    """Add up the results of blocks in their order; a single one stays as it is."""
    steps = iter(results)
    first = next(steps)
    second = next(steps, None)
    if second is None:
        return first
    sums, weights, seen = np.zeros(shape), np.zeros(shape[0]), np.zeros(shape[0], np.bool_)
    cost, labels = 0.0, []
    for block_cost, block_labels, present, block_weights, block_sums in chain((first, second), steps):
        cost += block_cost
        labels.append(block_labels)
        weights[present] += block_weights
        sums[present] += block_sums
        seen[present] = True
    everywhere = np.flatnonzero(seen)
    return cost, np.concatenate(labels), everywhere, weights[everywhere], sums[everywhere]


def pull(distances: Floats, z: float) -> Floats:
    """Return distance^(z−2), bounded for rows at their center, so that they do not keep it from moving."""
    typical = distances.mean()
    if typical == 0:
        return np.ones(len(distances))
    bounded = distances if z > 2 else np.maximum(distances, 1e-3 * typical)
    return np.asarray(bounded ** (z - 2))


def sum_by_label(block: Singles, labels: Labels, weights: Floats) -> tuple[Ints, Floats]:
    """Return the labels that are present, and the weighted sum of the rows of each."""
    counts = np.bincount(labels)
    present = np.flatnonzero(counts)
    numbers = np.zeros(len(counts), np.int32)
    numbers[present] = np.arange(len(present))
    sums = np.zeros((len(present), block.shape[1]))
    add_rows(block, numbers[labels], weights, sums)
    return present, sums
