"""The rows in memory to cover and choose from: all of them, or a sample if there are too many."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from coresift.clustering.space import Axes, pieces_of
from coresift.engine import Workers
from coresift.inclusion import fixed_size_inclusion
from coresift.rows import Rows, refuse_bad_row
from coresift.types import Bools, Floats, Ints, Singles

# The most numbers held in single precision, and in half precision; with more than that, rows are sampled.
MOST_SINGLE, MOST_HALF = 10**8, 4 * 10**8
# A sample has at least this many rows per row to choose.
ROWS_PER_CHOICE = 16
# How many rows the mean of the points is measured on.
MEAN_SAMPLE = 4096
# Half precision overflows at 65,504; in units of the bandwidth, larger numbers are clipped.
LARGEST = np.float32(60_000)


@dataclass(frozen=True)
class Pool:
    """Rows in ascending order, as centered points in units of the bandwidth; arrays have one entry per row.

    `importance` is u divided by the row's probability of being in the pool; `covered` is κ with the nearest given row;
    `given` is the number of given rows.
    """

    ids: Ints
    points: NDArray[np.floating]
    importance: Floats
    free: Bools
    covered: Singles
    population: int
    given: int

    @classmethod
    def of(
        cls,
        rows: Rows,
        count: int,
        importance: Floats,
        free: Bools,
        covered: Singles,
        given: int,
        bandwidth: float,
        rng: np.random.Generator,
        workers: Workers,
    ) -> Pool:
        """Read the rows once; if there are too many, sample them, favoring important rows that are not yet covered."""
        ids, inclusion = _sample(rows, count, importance * (1 - covered.astype(np.float64)), rng)
        points = _read(rows, ids, bandwidth, workers)
        return cls(ids, points, importance[ids] / inclusion, free[ids], covered[ids], rows.n, given)

    @property
    def n(self) -> int:
        """How many rows are in the pool."""
        return self.ids.size


def _sample(rows: Rows, count: int, sizes: Floats, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Return all rows, or a systematic sample of them, and their inclusion probabilities."""
    size = max(MOST_HALF // rows.d, ROWS_PER_CHOICE * count)
    if rows.n <= size:
        return np.arange(rows.n), np.ones(rows.n)
    inclusion = fixed_size_inclusion(sizes, size)
    positions = np.floor(np.cumsum(inclusion) + rng.random())
    ids = np.flatnonzero(np.diff(positions, prepend=0.0) > 0)
    return ids, inclusion[ids]


def _read(rows: Rows, ids: Ints, bandwidth: float, workers: Workers) -> NDArray[np.floating]:
    mean_rows = np.linspace(0, rows.n - 1, min(rows.n, MEAN_SAMPLE)).round().astype(np.int64)
    mean = rows.take(mean_rows).mean(axis=0, dtype=np.float64).astype(np.float32)
    axes = Axes(mean, np.float32(bandwidth), None, np.ones(rows.d))
    half = ids.size * rows.d > MOST_SINGLE
    points = np.empty((ids.size, rows.d), np.float16 if half else np.float32)
    filled = 0
    for piece in workers.pick(rows, pieces_of(ids, rows.block_rows), partial(_shift, axes, half), name="reading rows"):
        if not np.isfinite(piece).all():
            refuse_bad_row(rows)
        points[filled : filled + len(piece)] = piece
        filled += len(piece)
    return points


def _shift(axes: Axes, half: bool, block: Singles) -> NDArray[np.floating]:
    shifted = axes.shift(block)
    return np.clip(shifted, -LARGEST, LARGEST).astype(np.float16) if half else shifted
