"""Search among a few candidates: centers in cells, and for each cell the centers that its rows may belong to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.clustering.nearest import Labels, with_bias
from coresift.engine import Workers
from coresift.types import Ints, Singles

# A cell is to have about this many rows of a block: enough for a product of matrices to pay.
ROWS_A_CELL = 256
LARGEST_CELL = 64
# Candidates of a cell for each center in it, beside those that all cells have.
A_CENTER = 4
# Numbers of center pairs that a task compares, to bound its memory.
PAIRS_A_TASK = 1 << 23


@dataclass(frozen=True)
class Cells:
    """Centers in cells of neighbors (`cell`, one number a center), and the candidates of each cell, a line each."""

    cell: Ints
    candidates: Ints

    @classmethod
    def of(cls, points: Singles, block_rows: int, around: int, workers: Workers) -> Cells:
        """Group centers, and list for each cell the centers nearest to any of its own: `around`, and 4 for each."""
        size = int(np.clip(ROWS_A_CELL * len(points) // block_rows, 1, LARGEST_CELL))
        cell = halve(points, size)
        return cls(cell, closest(points, cell, min(around + A_CENTER * size, len(points)), workers))


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


def closest(points: Singles, cell: Ints, count: int, workers: Workers) -> Ints:
    """Return for each cell the numbers of the `count` points nearest to any point of it, its own among them."""
    order = np.argsort(cell, kind="stable")
    starts = np.searchsorted(cell[order], np.arange(cell.max() + 2))
    table = with_bias(points)
    largest = int(np.diff(starts).max())
    together = max(1, PAIRS_A_TASK // (len(points) * largest))

    def of_some(first: int) -> Ints:
        last = min(first + together, len(starts) - 1)
        members = order[starts[first] : starts[last]]
        gaps = points[members] @ table[:, :-1].T
        gaps += table[:, -1] + table[members, -1:]  # minus half of the squared distance, zero to itself
        gaps[np.arange(len(members)), members] = np.inf
        nearness = np.maximum.reduceat(gaps, starts[first:last] - starts[first], axis=0)
        if count == len(points):
            return np.tile(np.arange(count), (len(nearness), 1))
        return np.sort(np.argpartition(-nearness, count - 1, axis=1)[:, :count], axis=1)

    return np.concatenate(list(workers.each(range(0, len(starts) - 1, together), of_some)))


def best(points: Singles, table: Singles, cells: Cells, coarse: Labels) -> tuple[Labels, Singles]:
    """Return the best candidate of each point and its score; candidates are those of the cell of its coarse label."""
    order, cuts = _by_cell(cells, coarse)
    labels, scores = np.empty(len(points), np.int32), np.empty(len(points), np.float32)
    for here, candidates, products in _products(points[order], table, cells.candidates, cuts):
        found = products.argmax(axis=1)
        labels[here] = candidates[found]
        scores[here] = products[np.arange(len(found)), found]
    return _back(order, labels), _back(order, scores)


def best_two(points: Singles, table: Singles, cells: Cells, coarse: Labels) -> tuple[Labels, Labels]:
    """Return the best and the second best candidate of each point."""
    order, cuts = _by_cell(cells, coarse)
    first, second = np.empty(len(points), np.int32), np.empty(len(points), np.int32)
    for here, candidates, products in _products(points[order], table, cells.candidates, cuts):
        found = products.argmax(axis=1)
        first[here] = candidates[found]
        products[np.arange(len(found)), found] = -np.inf
        second[here] = candidates[products.argmax(axis=1)]
    return _back(order, first), _back(order, second)


def _by_cell(cells: Cells, coarse: Labels) -> tuple[Ints, list[tuple[int, int, int]]]:
    """Return the order of points by the cell of their coarse label, and (cell, start, stop) of each in that order."""
    cell = cells.cell[coarse]
    order = np.argsort(cell, kind="stable")
    starts = np.flatnonzero(np.diff(cell[order], prepend=-1))
    stops = np.append(starts[1:], len(order))
    return order, list(zip(cell[order[starts]].tolist(), starts.tolist(), stops.tolist(), strict=True))


def _products(
    points: Singles, table: Singles, candidates: Ints, cuts: list[tuple[int, int, int]]
) -> Iterator[tuple[slice, Ints, Singles]]:
    """Yield, cell by cell, where its points are, its candidates, and the points × candidates products."""
    for cell, start, stop in cuts:
        some = candidates[cell]
        yield slice(start, stop), some, points[start:stop] @ table[some].T


def _back(order: Ints, values: NDArray[Any]) -> NDArray[Any]:
    """Return values to the order that the points came in."""
    placed = np.empty_like(values)
    placed[order] = values
    return placed
