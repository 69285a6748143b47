"""Which rows are copies of each other: exactly, by a hash of their numbers, or nearly, inside clusters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from coresift.baselines.making import BaselineTask, Some, by_block
from coresift.clustering import cluster
from coresift.clustering.nearest import squared_distances
from coresift.engine import Workers
from coresift.rows import Rows, refuse_bad_row
from coresift.types import Bools, Floats, Ints, Singles

ROWS_A_CLUSTER = 1024
# How many rows are compared at a time with each other, and with those that stand for groups.
CHUNK, TILE = 1024, 4096


def group_duplicates(task: BaselineTask, rows: Rows, near: float) -> Ints:
    """Return the number of each row's group, from 0 on, in the order of the groups' first rows."""
    with task.workers() as workers:
        first, groups = _exact(rows, task.rng, workers)
        if near == 0 or first.size == 1:
            return groups
        distinct = Some(rows, first)
        radius = near * _spread(distinct, workers)
    k = max(1, first.size // ROWS_A_CLUSTER)
    labels = cluster(distinct, k, seed=task.seed, engine=task.engine, progress=task.progress).labels
    order = np.argsort(labels, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(labels))[:-1])
    leaders = np.empty(first.size, np.int64)
    with task.workers() as workers:
        found = workers.each(members, lambda some: lead(distinct, some, radius), name="looking for duplicates")
        for some, leading in zip(members, found, strict=True):
            leaders[some] = leading
    return np.unique(leaders, return_inverse=True)[1][groups]


def lead(rows: Rows, ids: Ints, radius: float) -> Ints:
    """Return for each row the first earlier leader within the radius; a row that has none leads itself."""
    leaders = np.empty(ids.size, np.int64)
    points, leading = np.empty((0, rows.d), np.float32), np.empty(0, np.int64)
    # Rounding is in proportion to the lengths, so that rows are compared about one of them.
    origin = rows.take(ids[:1])
    for start in range(0, ids.size, CHUNK):
        here = slice(start, start + CHUNK)
        chunk = rows.take(ids[here]) - origin
        norms = np.einsum("ij,ij->i", chunk, chunk)
        found = np.full(len(chunk), -1)
        for tile in range(0, len(points), TILE):
            close = squared_distances(chunk, norms, points[tile : tile + TILE]) <= radius**2
            hit = (found < 0) & close.any(axis=0)
            found[hit] = leading[tile + close[:, hit].argmax(axis=0)]
        left = np.flatnonzero(found < 0)
        within = left[_within(chunk[left], norms[left], radius)]
        found[left] = ids[here][within]
        fresh = left[within == left]
        points, leading = np.concatenate([points, chunk[fresh]]), np.concatenate([leading, ids[here][fresh]])
        leaders[here] = found
    return leaders


def _within(points: Singles, norms: Singles, radius: float) -> Ints:
    """Return the position of each point's leader, when every point is led by the first earlier one that is close."""
    close: Bools = np.tril(squared_distances(points, norms, points) <= radius**2, -1)
    leads, follows = np.zeros(len(points), np.bool_), np.zeros(len(points), np.bool_)
    while not (leads | follows).all():
        follows |= close[:, leads].any(axis=1)
        # A row whose earlier neighbors all follow other rows can only lead.
        leads |= ~follows & ~close[:, ~follows].any(axis=1)
    leader = np.arange(len(points))
    if follows.any():
        leader[follows] = np.flatnonzero(leads)[close[np.ix_(follows, leads)].argmax(axis=1)]
    return leader


def _exact(rows: Rows, rng: np.random.Generator, workers: Workers) -> tuple[Ints, Ints]:
    """Return the first row of each group of equal rows, and every row's group.

    Two sums of products with random numbers of 64 bits tell rows apart: two rows that differ have both in common
    with a probability of at most 2⁻⁶⁶.
    """
    factors = rng.integers(2**64, size=(rows.d, 2), dtype=np.uint64)

    def hashes(_: int, block: Singles) -> Ints | None:
        if not np.isfinite(block).all():
            return None
        bits = (block + np.float32(0)).view(np.uint32)  # the sum turns −0 into 0
        return (bits.astype(np.uint64) @ factors).view(np.int64)

    keys = by_block(_all_finite(rows, workers.map(rows, hashes, name="looking for equal rows")))
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    new = np.concatenate([[True], (np.diff(keys[order], axis=0) != 0).any(axis=1)])
    # Sorting is stable, so the first of a run is the first row of its group.
    first = order[new]
    groups = np.empty(rows.n, np.int64)
    groups[order] = np.cumsum(new) - 1
    rank = np.argsort(first)
    place = np.empty(first.size, np.int64)
    place[rank] = np.arange(first.size)
    return first[rank], place[groups]


def _all_finite(rows: Rows, found: Iterator[Ints | None]) -> Iterator[Ints]:
    for keys in found:
        if keys is None:
            refuse_bad_row(rows)
        yield keys


def _spread(rows: Rows, workers: Workers) -> float:
    """Return the root of the mean squared distance from the mean."""

    def moments(_: int, block: Singles) -> tuple[Floats, float]:
        wide = block.astype(np.float64)
        return wide.sum(axis=0), float(np.einsum("ij,ij->", wide, wide))

    total, squares = np.zeros(rows.d), 0.0
    for block_total, block_squares in workers.map(rows, moments):
        total += block_total
        squares += block_squares
    mean = total / rows.n
    return float(np.sqrt(max(squares / rows.n - float(mean @ mean), 0.0)))
