"""The Gaussian kernel κ(x, y) = exp(−‖x − y‖²/2h²): its bandwidth h from the data, and its values in tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from coresift.clustering.nearest import squared_distances
from coresift.clustering.space import pieces_of
from coresift.engine import Workers
from coresift.types import Ints, Singles

# κ of these rows (by number or as a slice) with all of the columns, a line per row.
Tiles: TypeAlias = Callable[[Ints | slice], Singles]

# How many anchors have their nearest neighbor measured; the median of so many is known within two percent.
MEASURED = 2048
AT_ONCE = 64
# How many rows of a stored kernel are computed at a time.
STORED_ROWS = 256


class Computing(Protocol):
    """Tiles that are computed, perhaps into an array that is there."""

    def __call__(self, rows: Ints | slice, out: Singles | None = None) -> Singles:
        """Return κ of these rows with all of the columns."""
        ...


class Kernel(Protocol):
    """Values of κ between points, all of them in one space."""

    @property
    def n(self) -> int:
        """How many points there are."""
        ...

    def columns(self, ids: Ints | None) -> Tiles:
        """Return what computes tiles with these points as columns (None: all of them)."""
        ...


@dataclass(frozen=True)
class Computed:
    """κ computed anew for every tile: two copies of the points, and no n×n matrix.

    A line of `left` times a line of `right` is −‖x − y‖²/2h².
    """

    left: Singles
    right: Singles

    @classmethod
    def of(cls, points: Singles, bandwidth: float) -> Computed:
        """Prepare points; they are best near the origin, which costs the fewest digits."""
        scaled = points * np.float32(1 / bandwidth)
        halves = -0.5 * np.einsum("ij,ij->i", scaled, scaled)[:, None]
        ones = np.ones_like(halves)
        return cls(np.concatenate([scaled, halves, ones], axis=1), np.concatenate([scaled, ones, halves], axis=1))

    @property
    def n(self) -> int:
        """How many points there are."""
        return len(self.left)

    def columns(self, ids: Ints | None) -> Computing:
        """Return what computes tiles with these points as columns (None: all of them)."""
        others = (self.right if ids is None else self.right[ids]).T

        def tile(rows: Ints | slice, out: Singles | None = None) -> Singles:
            values: Singles = np.matmul(self.left[rows], others, out=out)
            np.minimum(values, 0, out=values)
            np.exp(values, out=values)
            return values

        return tile


@dataclass(frozen=True)
class Stored:
    """All n² values, for points so few that they fit."""

    values: Singles

    @classmethod
    def of(cls, points: Singles, bandwidth: float, workers: Workers) -> Stored:
        """Compute all values."""
        tile = Computed.of(points, bandwidth).columns(None)
        values = np.empty((len(points), len(points)), np.float32)
        pieces = [slice(start, start + STORED_ROWS) for start in range(0, len(points), STORED_ROWS)]
        for _ in workers.each(pieces, lambda piece: tile(piece, values[piece])):
            pass
        return cls(values)

    @property
    def n(self) -> int:
        """How many points there are."""
        return len(self.values)

    def columns(self, ids: Ints | None) -> Tiles:
        """Return what copies tiles with these points as columns (None: all of them)."""
        values = self.values if ids is None else self.values[:, ids]
        return lambda rows: values[rows].copy() if isinstance(rows, slice) else values.take(rows, axis=0)


def neighbor_distance(anchors: Singles, rng: np.random.Generator, workers: Workers) -> float:
    """Return the median distance of an anchor to the nearest other one; 1 where all anchors are equal.

    The median does not mind a few near-duplicates, as the minimum would. Where most anchors have an equal one, it is
    that of distinct anchors.
    """
    if len(anchors) < 2:
        return 1.0
    ids = np.arange(len(anchors))
    if ids.size > MEASURED:
        ids = np.sort(rng.choice(ids, MEASURED, replace=False))
    shifted = anchors - anchors.mean(axis=0, dtype=np.float64).astype(np.float32)
    norms = np.einsum("ij,ij->i", shifted, shifted)

    def nearest_other(some: Ints) -> Singles:
        squared = squared_distances(shifted, norms, shifted[some])
        squared[np.arange(len(some)), some] = np.inf
        nearest: Singles = np.sqrt(np.maximum(squared.min(axis=1), 0))
        return nearest

    distances = np.concatenate(list(workers.each(pieces_of(ids, AT_ONCE), nearest_other)))
    median = float(np.median(distances))
    if median > 0:
        return median
    distinct = np.unique(anchors, axis=0)
    return 1.0 if len(distinct) == len(anchors) else neighbor_distance(distinct, rng, workers)
