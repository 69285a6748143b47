"""The prefix order of Mettu and Plaxton (The online median problem, SIAM J. Comput. 2003), for a few thousand rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coresift.checks import InputError
from coresift.clustering.nearest import squared_distances
from coresift.types import Bools, Floats, Ints, Singles

if TYPE_CHECKING:
    from coresift.clustering.prefix import Prefix

# All pairs of rows are kept: 20 bytes each.
MOST_ROWS = 4_096
# How many times smaller the radii of a ball's children are, and within how many radii of it their middles lie.
SHRINK, WITHIN = 2 + 3**0.5, 3.2
# How many times smaller than its distance to the centers so far the first ball of a search is.
APART = SHRINK**2


class Hierarchy:
    """Each center is found by going down from the ball of highest value among those apart from all centers so far.

    A ball's value is Σ (r^z − d(x, y)^z) over the rows y in it: high where many rows are close together and far from
    every center. The search then goes to the child of highest value, a nearby ball with a smaller radius, until no
    other row is near. Every prefix of the order costs at most a constant times the optimum; the proof is for z = 1, and
    for other z the constant is larger. Rows that equal a center come last. Time and memory are
    quadratic.
    """

    def __init__(self) -> None:
        self._pairs: _Pairs | None = None

    def more(self, prefix: Prefix, wanted: int) -> Ints:
        """Find the next centers."""
        if self._pairs is None:
            self._numbers = np.flatnonzero(prefix.allowed)
            check_size(self._numbers.size)
            self._pairs = _Pairs(prefix.rows.take(self._numbers), prefix.z)
            self._away = np.full(self._numbers.size, np.inf)
            # Radii are kept as z-th powers, and so are the factors between them.
            self._shrink, self._within, self._apart = (factor**prefix.z for factor in (SHRINK, WITHIN, APART))
            self._taken: Bools = np.zeros(self._numbers.size, np.bool_)
        centers = [self._next(self._pairs) for _ in range(wanted if prefix.centers.size else 1)]
        return self._numbers[centers]

    def _next(self, pairs: _Pairs) -> int:
        first = not self._taken.any()
        radii = pairs.farthest if first else self._away / self._apart
        values = np.where(self._taken, -np.inf, pairs.values(np.arange(radii.size), radii))
        center = int(values.argmax())
        radius = float(radii[center])
        while True:
            around = np.flatnonzero(pairs.between[center] <= self._within * radius)
            if not pairs.between[center, around].any() or radius == 0:
                break
            radius /= self._shrink
            center = int(around[pairs.values(around, np.full(around.size, radius)).argmax()])
        if self._taken[center]:  # only among rows that equal each other
            center = int(np.flatnonzero(~self._taken & (pairs.between[center] == 0))[0])
        self._taken[center] = True
        np.minimum(self._away, pairs.between[center], out=self._away)
        return center


def check_size(count: int) -> None:
    """Refuse more rows than quadratic time and memory allow."""
    if count > MOST_ROWS:
        raise InputError(
            f'order="mettu-plaxton" compares all pairs of rows and takes at most {MOST_ROWS} of them; '
            f'got {count}. Use order="sampling".'
        )


class _Pairs:
    """d^z between all rows, sorted for every row, with sums so that a ball's value takes one search."""

    def __init__(self, points: Singles, z: float) -> None:
        shifted = points - points.mean(axis=0, dtype=np.float64).astype(np.float32)
        squared = squared_distances(shifted, np.einsum("ij,ij->i", shifted, shifted), shifted)
        np.fill_diagonal(squared, 0)
        self.between: Floats = np.maximum(squared, squared.T).astype(np.float64) ** (z / 2)
        self._sorted = np.sort(self.between, axis=1).astype(np.float32)
        self._sums = np.cumsum(self._sorted, axis=1, dtype=np.float64)
        self.farthest: Floats = self.between.max(axis=1)

    def values(self, rows: Ints, radii: Floats) -> Floats:
        """Return Σ (r^z − d^z) over the rows within r of each of these rows; `radii` are z-th powers."""
        low, high = np.zeros(rows.size, np.int64), np.full(rows.size, len(self._sorted))
        while np.any(low < high):  # binary search for all rows at once
            middle = (low + high) // 2
            inside = self._sorted[rows, np.minimum(middle, len(self._sorted) - 1)] <= radii
            low, high = np.where(inside & (low < high), middle + 1, low), np.where(inside, high, middle)
        values: Floats = low * radii - self._sums[rows, np.maximum(low - 1, 0)]
        return values
