"""Search among a few candidates: centers are grouped into cells, and each cell has a list of candidate centers.

All rows of a cell are compared with the same candidates, by one product of matrices, which is faster the more rows of
a cell come together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from coresift.clustering.kernels import highest_few
from coresift.clustering.nearest import Labels, highest, order_by, with_bias
from coresift.clustering.space import pieces_of
from coresift.engine import Workers
from coresift.types import Ints, Singles

# About how many centers a cell has. With very many centers there are fewer and larger cells, since a row is compared
# with all cells.
CENTERS_PER_CELL, CELLS_PER_ROOT = 4, 17
GROUPING_STEPS = 3
# The number of rows, or of cells, per task, and the most rows of a product of matrices.
ROWS_PER_TASK, CELLS_PER_TASK = 2048, 64
CUT = 512


# One line per point: numbers of centers, and their scores x·c − ‖c‖²/2.
Scored: TypeAlias = tuple[Labels, Singles]


@dataclass(frozen=True)
class Cells:
    """Centers in cells of neighbors (`cell`, one number per center), their `middles`, and the candidates of each cell.

    `candidates` has one line per cell, nearest centers first. So does `middles`: coordinates, and −‖m‖²/2.
    """

    cell: Ints
    candidates: Ints
    middles: Singles

    @classmethod
    def of(cls, points: Singles, count: int, workers: Workers) -> Cells:
        """Group centers, and list for each cell the `count` centers nearest to its middle; a single cell if those are
        all of them."""
        if count >= len(points):
            middle = points.mean(axis=0, keepdims=True, dtype=np.float64).astype(np.float32)
            return cls(np.zeros(len(points), np.int64), np.arange(len(points))[None], with_bias(middle))
        middles, cell = group(points, workers)
        return cls(cell, closest(points, cell, middles, min(count, len(points)), workers), with_bias(middles))

    def first(self, count: int) -> Cells:
        """Return the same cells with fewer candidates; a single cell stays as it is."""
        if len(self.candidates) == 1:
            return self
        return replace(self, candidates=np.ascontiguousarray(self.candidates[:, :count]))


def group(points: Singles, workers: Workers) -> tuple[Singles, Ints]:
    """Return the middles of cells of nearby points, and the cell of each point; no cell is empty."""
    count = max(1, min(len(points) // CENTERS_PER_CELL, int(CELLS_PER_ROOT * np.sqrt(len(points)))))
    middles = points[np.linspace(0, len(points) - 1, count).astype(np.int64)]
    padded = np.column_stack([points, np.ones(len(points), np.float32)])
    pieces = pieces_of(np.arange(len(points)), ROWS_PER_TASK)
    for _ in range(GROUPING_STEPS):
        table = with_bias(middles)
        labels = workers.each(pieces, lambda piece: highest(padded[piece], table))  # noqa: B023 - used within the step
        _, cell = np.unique(np.concatenate(list(labels)), return_inverse=True)
        order = order_by(cell)
        starts = np.searchsorted(cell[order], np.arange(cell.max() + 1))
        sums = np.add.reduceat(points[order], starts, axis=0)
        middles = np.asarray(sums / np.bincount(cell)[:, None], np.float32)
    return middles, cell


def closest(points: Singles, cell: Ints, middles: Singles, count: int, workers: Workers) -> Ints:
    """Return for each cell the numbers of the `count` points nearest to its middle, its own first."""
    table = with_bias(points)

    def of_some(numbers: Ints) -> Ints:
        gaps = -(middles[numbers] @ table[:, :-1].T + table[:, -1])  # half of the squared distance, up to a constant
        gaps[cell == numbers[:, None]] -= np.float32(1e30)
        best = np.argpartition(gaps, count - 1, axis=1)[:, :count]
        ranks = np.argsort(np.take_along_axis(gaps, best, axis=1), axis=1, kind="stable")
        return np.take_along_axis(best, ranks, axis=1)

    return np.concatenate(list(workers.each(pieces_of(np.arange(len(middles)), CELLS_PER_TASK), of_some)))


@dataclass(frozen=True)
class Stretch:
    """Points of a few cells: their numbers, cell by cell, and (cell, start, stop) of each among these."""

    ids: Ints
    cuts: Sequence[tuple[int, int, int]]


def runs_of(cell: Ints) -> list[Stretch]:
    """Sort points by cell, and cut them into runs of 2,048 points; each part has at most 512 points of one cell."""
    order = order_by(cell)
    placed = cell[order]
    new = np.diff(placed, prepend=-1) != 0
    new[::CUT] = True
    starts = np.flatnonzero(new)
    ends = np.append(starts, len(order))[1:]
    cuts = list(zip(placed[starts].tolist(), starts.tolist(), ends.tolist(), strict=True))
    bounds = np.searchsorted(starts, np.arange(0, len(order) + ROWS_PER_TASK, ROWS_PER_TASK)).tolist()
    runs = []
    for number, (begin, end) in enumerate(pairwise(bounds)):
        first = number * ROWS_PER_TASK
        here = [(which, start - first, stop - first) for which, start, stop in cuts[begin:end]]
        runs.append(Stretch(order[first : first + ROWS_PER_TASK], here))
    return runs


def best_few(points: Singles, table: Singles, cells: Cells, run: Stretch, count: int) -> Scored:
    """Return one line per point of a run: its best candidates, best first, and their scores."""
    labels, scores = np.empty((len(points), count), np.int32), np.empty((len(points), count), np.float32)
    room = np.empty((CUT, cells.candidates.shape[1]), np.float32)
    for cell, start, stop in run.cuts:
        candidates = cells.candidates[cell]
        own = table if len(candidates) == len(table) else table[candidates]
        products = np.matmul(points[start:stop], own.T, out=room[: stop - start])
        places, scores[start:stop] = highest_few(products, count)
        labels[start:stop] = candidates[places]
    return labels, scores
