"""Principal axes of the rows, learned from a few thousand of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coresift.engine import Workers
from coresift.rows import Rows, refuse_bad_row
from coresift.types import Floats, Ints, Singles

MOST_AXES = 192
# So many rows are used, fewer if they have many numbers, but at least two per dimension.
LEARNED_FROM, LEARNED_NUMBERS = 4096, 2**21
SWEEPS = 3
# Rows by number are read in about this many pieces, of at least this many rows.
READERS, FEWEST_READ = 64, 256


@dataclass(frozen=True)
class Axes:
    """Coordinates of rows on p directions about their mean, in units of `scale`.

    `directions` is d×p with orthonormal columns, or None if rows keep all their own coordinates;
    `captured[i]` is the share of the variance that the first i + 1 directions capture. The scale is a power of two,
    which changes no digit, and keeps squares away from both ends of float32.
    """

    mean: Singles
    scale: np.float32
    directions: Singles | None
    captured: Floats

    def __len__(self) -> int:
        return len(self.mean) if self.directions is None else self.directions.shape[1]

    def first(self, count: int) -> Axes:
        """Return only the first `count` directions."""
        if self.directions is None or count == len(self):
            return self
        kept = np.ascontiguousarray(self.directions[:, :count])
        return Axes(self.mean, self.scale, kept, self.captured[:count])

    def whole(self) -> Axes:
        """Return axes with the same origin and scale that keep all coordinates of the rows."""
        return Axes(self.mean, self.scale, None, np.ones(len(self.mean)))

    def shift(self, block: Singles) -> Singles:
        """Return rows minus the mean, in units of the scale."""
        with np.errstate(over="ignore", invalid="ignore"):
            shifted = block - self.mean
            shifted /= self.scale
        return shifted

    def whole_points(self, block: Singles) -> Singles:
        """Return rows minus the mean with all their coordinates, in units of the scale, and a last column of ones."""
        points = np.empty((len(block), len(self.mean) + 1), np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            np.subtract(block, self.mean, out=points[:, :-1])
            points[:, :-1] /= self.scale
        points[:, -1] = 1
        return points

    def project(self, shifted: Singles) -> Singles:
        """Return the coordinates of shifted rows, and a last column of ones."""
        points = np.empty((len(shifted), len(self) + 1), np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            if self.directions is None:
                points[:, :-1] = shifted
            else:
                np.matmul(shifted, self.directions, out=points[:, :-1])
        points[:, -1] = 1
        return points

    def lift(self, points: Singles) -> Singles:
        """Return the rows that have these coordinates and lie in the space of the directions."""
        wide = points if self.directions is None else points @ self.directions.T
        return np.asarray(wide * self.scale + self.mean, np.float32)

    def enough(self, part: float) -> int:
        """Return how many directions capture this share of the variance, in steps of 16; all if they capture less."""
        return min(len(self), 16 * (int(np.searchsorted(self.captured, part)) // 16 + 1))


def principal_axes(rows: Rows, rng: np.random.Generator, workers: Workers) -> Axes:
    """Return up to 192 axes, at most half of the dimensions, by subspace iteration on a sample's covariance."""
    size = min(rows.n, max(2 * rows.d, min(LEARNED_FROM, LEARNED_NUMBERS // rows.d)))
    sample = take(rows, np.sort(rng.choice(rows.n, size, replace=False)), workers)
    mean = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
    sample -= mean
    scale = np.float32(2.0 ** np.frexp(float(max(sample.max(), -sample.min())))[1])
    sample /= scale
    covariance = np.zeros((rows.d, rows.d), np.float32)
    for piece in workers.each(np.array_split(sample, max(1, size // 512)), lambda part: part.T @ part):
        covariance += piece
    count = max(1, min(MOST_AXES, rows.d // 2))
    basis = rng.standard_normal((rows.d, min(rows.d, count + 16)), np.float32)
    for _ in range(SWEEPS):
        basis = np.linalg.qr(covariance @ basis)[0]
    variance, turn = np.linalg.eigh((basis.T @ covariance @ basis).astype(np.float64))
    directions = (basis @ turn[:, ::-1].astype(np.float32))[:, :count]
    total = float(np.trace(covariance.astype(np.float64)))
    captured = np.cumsum(np.maximum(variance[::-1][:count], 0.0)) / (total or 1.0)
    return Axes(mean, scale, np.ascontiguousarray(directions), captured)


def take(rows: Rows, ids: Ints, workers: Workers) -> Singles:
    """Return rows by ascending number, refusing those that are not finite; pieces are read in parallel."""
    sample = np.empty((len(ids), rows.d), np.float32)
    done = 0
    # A few rows may be spread over much data that must be read for them, and each piece of data should be read once.
    readers = max(1, min(READERS, rows.n // rows.read_at_once, rows.n // rows.block_rows))
    size = min(rows.block_rows, max(FEWEST_READ, -(-len(ids) // readers)))
    for piece in workers.pick(rows, pieces_of(ids, size), _as_they_are):
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.isfinite(np.einsum("ij,ij->i", piece, piece)).all():
                refuse_bad_row(rows)
        sample[done : done + len(piece)] = piece
        done += len(piece)
    return sample


def _as_they_are(block: Singles) -> Singles:
    return block


def pieces_of(ids: Ints, size: int) -> list[Ints]:
    """Cut row numbers into runs of at most `size`."""
    return [ids[start : start + size] for start in range(0, len(ids), size)]
