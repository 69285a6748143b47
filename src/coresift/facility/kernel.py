"""The Gaussian kernel κ(x, y) = exp(−‖x − y‖²/2h²), in tiles, and a bandwidth h from the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coresift.clustering.nearest import squared_distances
from coresift.clustering.space import pieces_of
from coresift.engine import Workers
from coresift.types import Ints, Singles

# How many anchors to measure the nearest-neighbor distance of; this determines the median to within two percent.
MEASURED = 2048
AT_ONCE = 64
# How many rows of a stored kernel are computed at a time.
STORED_ROWS = 256


@dataclass(frozen=True)
class Computed:
    """A kernel that computes every tile when it is needed: it stores two copies of the points, and no n×n matrix.

    The dot product of a line of `left` and a line of `right` is −‖x − y‖²/2h².
    """

    left: Singles
    right: Singles

    @classmethod
    def of(cls, points: Singles, bandwidth: float) -> Computed:
        """Prepare points; center them first, since points far from the origin lose digits."""
        scaled = points * np.float32(1 / bandwidth)
        halves = -0.5 * np.einsum("ij,ij->i", scaled, scaled)[:, None]
        ones = np.ones_like(halves)
        return cls(np.concatenate([scaled, halves, ones], axis=1), np.concatenate([scaled, ones, halves], axis=1))

    @property
    def n(self) -> int:
        """How many points there are."""
        return len(self.left)

    def take(self, ids: Ints) -> Computed:
        """Return the kernel of these points."""
        return Computed(self.left[ids], self.right[ids])

    def exponents(self, rows: Ints | slice, columns: Ints | slice, out: Singles | None = None) -> Singles:
        """Return −‖x − y‖²/2h² between some points; rounding may raise it above 0."""
        exponents: Singles = np.matmul(self.left[rows], self.right[columns].T, out=out)
        return exponents

    def values(self, rows: Ints | slice, columns: Ints | slice, out: Singles | None = None) -> Singles:
        """Return κ between some points, one line per row."""
        values = self.exponents(rows, columns, out)
        np.minimum(values, 0, out=values)
        np.exp(values, out=values)
        return values


@dataclass(frozen=True)
class Stored:
    """A kernel that stores all n² values, for few enough points to fit in memory."""

    values: Singles

    @classmethod
    def of(cls, points: Singles, bandwidth: float, workers: Workers) -> Stored:
        """Compute all values."""
        kernel = Computed.of(points, bandwidth)
        values = np.empty((len(points), len(points)), np.float32)
        pieces = [slice(start, start + STORED_ROWS) for start in range(0, len(points), STORED_ROWS)]
        for _ in workers.each(pieces, lambda piece: kernel.values(piece, slice(None), values[piece])):
            pass
        return cls(values)


def neighbor_distance(anchors: Singles, rng: np.random.Generator, workers: Workers) -> float:
    """Return the median nearest-neighbor distance of anchors; 1 if all anchors are equal.

    Unlike the minimum, the median is robust to a few near-duplicates. If most anchors are duplicates, only distinct
    anchors count.
    """
    if len(anchors) < 2:
        return 1.0
    ids = np.arange(len(anchors))
    if ids.size > MEASURED:
        ids = np.sort(rng.choice(ids, MEASURED, replace=False))
    shifted = anchors - anchors.mean(axis=0, dtype=np.float64).astype(np.float32)
    norms = np.einsum("ij,ij->i", shifted, shifted)

    def nearest_other(piece: Ints) -> Singles:
        squared = squared_distances(shifted, norms, shifted[piece])
        squared[np.arange(len(piece)), piece] = np.inf
        nearest: Singles = np.sqrt(np.maximum(squared.min(axis=1), 0))
        return nearest

    distances = np.concatenate(list(workers.each(pieces_of(ids, AT_ONCE), nearest_other)))
    median = float(np.median(distances))
    if median > 0:
        return median
    distinct = np.unique(anchors, axis=0)
    return 1.0 if len(distinct) == len(anchors) else neighbor_distance(distinct, rng, workers)
