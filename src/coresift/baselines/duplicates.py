"""Find duplicate rows: exact ones by a hash of their numbers, and near ones within clusters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from coresift.baselines.making import BaselineTask, RowSubset, by_block
from coresift.clustering import cluster
from coresift.clustering.nearest import squared_distances
from coresift.engine import Workers
from coresift.rows import Rows, refuse_bad_row
from coresift.types import Bools, Floats, Ints, Singles

ROWS_PER_CLUSTER = 1024
# How many rows are compared with each other at a time, and with how many leaders of groups.
CHUNK, TILE = 1024, 4096


def group_duplicates(task: BaselineTask, rows: Rows, near: float) -> Ints:
    """Return the number of each row's group, starting at 0, in the order of the groups' first rows."""
    with task.workers() as workers:
        first, groups = _exact(rows, task.rng, workers)
        if near == 0 or first.size == 1:
            return groups
        distinct = RowSubset(rows, first)
        radius = near * _spread(distinct, workers)
    k = max(1, first.size // ROWS_PER_CLUSTER)
    labels = cluster(distinct, k, seed=task.seed, engine=task.engine, progress=task.progress).labels
    order = np.argsort(labels, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(labels))[:-1])
    leaders = np.empty(first.size, np.int64)
    with task.workers() as workers:
        results = workers.each(members, lambda ids: lead(distinct, ids, radius), name="looking for duplicates")
        for ids, cluster_leaders in zip(members, results, strict=True):
            leaders[ids] = cluster_leaders
    return np.unique(leaders, return_inverse=True)[1][groups]


def lead(rows: Rows, ids: Ints, radius: float) -> Ints:
    """Return each row's leader: the first earlier leader within the radius, or else the row itself."""
    leaders = np.empty(ids.size, np.int64)
    points, leading = np.empty((0, rows.d), np.float32), np.empty(0, np.int64)
    # Rounding errors grow with the lengths of rows, so shift the origin to one of them.
    origin = rows.take(ids[:1])
    for start in range(0, ids.size, CHUNK):
        chunk_slice = slice(start, start + CHUNK)
        chunk = rows.take(ids[chunk_slice]) - origin
        norms = np.einsum("ij,ij->i", chunk, chunk)
        chunk_leaders = np.full(len(chunk), -1)
        for tile in range(0, len(points), TILE):
            close = squared_distances(chunk, norms, points[tile : tile + TILE]) <= radius**2
            near = (chunk_leaders < 0) & close.any(axis=0)
            chunk_leaders[near] = leading[tile + close[:, near].argmax(axis=0)]
        unled = np.flatnonzero(chunk_leaders < 0)
        within = unled[_within(chunk[unled], norms[unled], radius)]
        chunk_leaders[unled] = ids[chunk_slice][within]
        new_leaders = unled[within == unled]
        points, leading = (
            np.concatenate([points, chunk[new_leaders]]),
            np.concatenate([leading, ids[chunk_slice][new_leaders]]),
        )
        leaders[chunk_slice] = chunk_leaders
    return leaders


def _within(points: Singles, norms: Singles, radius: float) -> Ints:
    """Return the position of each point's leader: the first earlier leader that is close, or else the point itself."""
    close: Bools = np.tril(squared_distances(points, norms, points) <= radius**2, -1)
    leads, follows = np.zeros(len(points), np.bool_), np.zeros(len(points), np.bool_)
    while not (leads | follows).all():
        follows |= close[:, leads].any(axis=1)
        # A row whose close earlier rows all follow others must be a leader.
        leads |= ~follows & ~close[:, ~follows].any(axis=1)
    leader = np.arange(len(points))
    if follows.any():
        leader[follows] = np.flatnonzero(leads)[close[np.ix_(follows, leads)].argmax(axis=1)]
    return leader


def _exact(rows: Rows, rng: np.random.Generator, workers: Workers) -> tuple[Ints, Ints]:
    """Return the first row of each group of equal rows, and every row's group.

    Rows are compared by two hashes, which are sums of products with random 64-bit numbers. Two different rows have the
    same hashes with probability at most 2⁻⁶⁶.
    """
    factors = rng.integers(2**64, size=(rows.d, 2), dtype=np.uint64)

    def hashes(_: int, block: Singles) -> Ints | None:
        if not np.isfinite(block).all():
            return None
        bits = (block + np.float32(0)).view(np.uint32)  # adding 0 turns −0 into 0
        return (bits.astype(np.uint64) @ factors).view(np.int64)

    keys = by_block(_all_finite(rows, workers.map(rows, hashes, name="looking for equal rows")))
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    new = np.concatenate([[True], (np.diff(keys[order], axis=0) != 0).any(axis=1)])
    # The sort is stable, so the first row of a run is the first row of its group.
    first = order[new]
    groups = np.empty(rows.n, np.int64)
    groups[order] = np.cumsum(new) - 1
    rank = np.argsort(first)
    position = np.empty(first.size, np.int64)
    position[rank] = np.arange(first.size)
    return first[rank], position[groups]


def _all_finite(rows: Rows, hashes: Iterator[Ints | None]) -> Iterator[Ints]:
    for keys in hashes:
        if keys is None:
            refuse_bad_row(rows)
        yield keys


def _spread(rows: Rows, workers: Workers) -> float:
    """Return the root mean squared distance from the mean."""

    def moments(_: int, block: Singles) -> tuple[Floats, float]:
        values = block.astype(np.float64)
        return values.sum(axis=0), float(np.einsum("ij,ij->", values, values))

    total, squares = np.zeros(rows.d), 0.0
    for block_total, block_squares in workers.map(rows, moments):
        total += block_total
        squares += block_squares
    mean = total / rows.n
    return float(np.sqrt(max(squares / rows.n - float(mean @ mean), 0.0)))
