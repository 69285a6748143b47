"""Search among a few candidates: centers in cells, and for each cell the centers that its rows may belong to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from coresift.clustering.nearest import Labels, with_bias
from coresift.types import Ints, Singles

# A cell is to have about this many rows of a block: enough for a product of matrices to pay.
ROWS_A_CELL = 32
LARGEST_CELL = 16


@dataclass(frozen=True)
class Cells:
    """Centers in cells of neighbors (`cell`, one number a center), and the candidates of each cell, a line each."""

    cell: Ints
    candidates: Ints

    @classmethod
    def of(cls, points: Singles, block_rows: int, around: int) -> Cells:
        """Group centers, and list for each cell the `around` + 4·(its size) centers nearest to its middle."""
        size = int(np.clip(ROWS_A_CELL * len(points) // block_rows, 1, LARGEST_CELL))
        cell = halve(points, size)
        count = int(cell.max()) + 1
        middles = np.zeros((count, points.shape[1]), np.float32)
        np.add.at(middles, cell, points)
        middles /= np.bincount(cell)[:, None]
        return cls(cell, closest(middles, points, around + 4 * size))


def halve(points: Singles, size: int) -> Ints:
    """Return cells of at most `size` points: each set is cut at the median of its widest coordinate until it fits."""
    if size == 1:
        return np.arange(len(points))
    cell = np.empty(len(points), np.int64)
    open_sets, count = [np.arange(len(points))], 0
    while open_sets:
        some = open_sets.pop()
        if len(some) <= size:
            cell[some], count = count, count + 1
            continue
        widest = points[some].var(axis=0).argmax()
        order = some[np.argsort(points[some, widest], kind="stable")]
        open_sets += [order[: len(some) // 2], order[len(some) // 2 :]]
    return cell


def closest(middles: Singles, points: Singles, count: int) -> Ints:
    """Return for each middle the numbers of the `count` points nearest to it, in the order of their numbers."""
    if count >= len(points):
        return np.tile(np.arange(len(points)), (len(middles), 1))
    table = with_bias(points)
    found = np.empty((len(middles), count), np.int64)
    for start in range(0, len(middles), 256):
        some = middles[start : start + 256]
        scores = -(some @ table[:, :-1].T + table[:, -1])
        found[start : start + 256] = np.sort(np.argpartition(scores, count - 1, axis=1)[:, :count], axis=1)
    return found


def best(points: Singles, table: Singles, cells: Cells, coarse: Labels) -> tuple[Labels, Singles]:
    """Return the best candidate of each point and its score; candidates are those of the cell of its coarse label."""
    labels, scores = np.empty(len(points), np.int32), np.empty(len(points), np.float32)
    for rows, candidates, products in _products(points, table, cells, coarse):
        found = products.argmax(axis=1)
        labels[rows] = candidates[found]
        scores[rows] = products[np.arange(len(rows)), found]
    return labels, scores


def best_two(points: Singles, table: Singles, cells: Cells, coarse: Labels) -> tuple[Labels, Labels]:
    """Return the best and the second best candidate of each point."""
    first, second = np.empty(len(points), np.int32), np.empty(len(points), np.int32)
    for rows, candidates, products in _products(points, table, cells, coarse):
        found = products.argmax(axis=1)
        first[rows] = candidates[found]
        products[np.arange(len(rows)), found] = -np.inf
        second[rows] = candidates[products.argmax(axis=1)]
    return first, second


def _products(points: Singles, table: Singles, cells: Cells, coarse: Labels) -> Iterator[tuple[Ints, Ints, Singles]]:
    """Yield, cell by cell, the rows that are in it, its candidates, and the rows × candidates products."""
    cell = cells.cell[coarse]
    order = np.argsort(cell, kind="stable")
    sorted_points = points[order]
    cuts = np.flatnonzero(np.diff(cell[order], prepend=-1)).tolist()
    for start, stop in pairwise([*cuts, len(order)]):
        candidates = cells.candidates[cell[order[start]]]
        yield order[start:stop], candidates, sorted_points[start:stop] @ table[candidates].T
