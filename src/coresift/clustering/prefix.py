"""Centers in an order whose every prefix is a good clustering, and for every row the nearest center so far.

Centers can be added at any time. Only the new ones are then compared with the rows, block by block.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from coresift.clustering.nearest import Labels, distances_to, highest_scores, squared_distances, with_bias
from coresift.clustering.refine import cost_of, refuse_infinite
from coresift.clustering.seeding import powers
from coresift.engine import Workers
from coresift.progress import Progress, stage
from coresift.rows import Rows, refuse_bad_row
from coresift.types import Bools, Clustering, Floats, Ints, Singles

# How many candidates are drawn at once: a few more than wanted, since some are rejected, but limited by the number of
# centers so far, since most of very many candidates would be too close to each other.
SURPLUS, TIMES_AS_MANY = 1.3, 4
FEWEST_AT_ONCE, MOST_AT_ONCE = 16, 640
# The error of a product of matrices, as a share of the squared lengths; closer calls are decided by differences.
SLACK = 1e-4
# The number of rows whose mean is subtracted from all rows.
SHIFTED_BY = 1024


class Order(Protocol):
    """A way to choose the next centers."""

    def more(self, prefix: Prefix, wanted: int) -> Ints:
        """Return at least one and at most `wanted` next centers, given the earlier ones; the first call returns one."""
        ...


class Prefix:
    """The first centers of an order, each row's nearest of them (`labels`, the earliest on a tie) and `distances`.

    A center belongs to itself, even if an earlier center equals it. Rows that are not `allowed` get labels too, but
    never become centers.
    """

    def __init__(self, rows: Rows, z: float, order: Order, allowed: Bools) -> None:
        self.rows, self.z, self.allowed = rows, z, allowed
        self.centers: Ints = np.zeros(0, np.int64)
        self.points: Singles = np.zeros((0, rows.d), np.float32)
        self.labels: Labels = np.zeros(rows.n, np.int32)
        self.distances: Singles = np.full(rows.n, np.inf, np.float32)
        self._order = order
        self._most = int(np.count_nonzero(allowed))
        self._shift = _middle(rows)
        self._lengths: Singles = np.zeros(rows.n, np.float32)

    def grow(self, count: int, workers: Workers, progress: Progress) -> None:
        """Add centers until there are `count`, or until all allowed rows are centers."""
        count = min(count, self._most)
        with stage(progress, "drawing centers", count - self.centers.size):
            while (missing := count - self.centers.size) > 0:
                new = self._order.more(self, missing)
                self._join(new, workers)
                progress.advance(new.size)

    def clustering(self, seed: int, *, normalized: bool) -> Clustering:
        """Return the centers so far and their clusters."""
        cost = cost_of(self.distances, self.z)
        if not np.isfinite(cost):
            refuse_infinite(self.rows, self.z)
        return Clustering(
            centers=self.centers,
            labels=self.labels,
            distances=self.distances,
            free_centers=self.points,
            z=self.z,
            free_cost=cost,
            snapped_cost=cost,
            seed=seed,
            normalized=normalized,
            fingerprint=self.rows.fingerprint(),
            search="exact: prefix order",
        )

    def _join(self, new: Ints, workers: Workers) -> None:
        known, points = self.centers.size, self.rows.take(new)
        if known == 0:
            self._measure(points, workers)
        if self.distances[new].any():  # a center that equals an earlier one is nearer to no row
            self._compare(points, workers)
        self.centers = np.concatenate([self.centers, new])
        self.points = np.concatenate([self.points, points])
        self.labels[new] = np.arange(known, known + new.size)
        self.distances[new] = 0

    def _measure(self, points: Singles, workers: Workers) -> None:
        """Read every row once: its distance to the first center, and its squared length from the shifted origin."""
        shift = self._shift

        def measure(_: int, block: Singles) -> tuple[Singles, Singles]:
            with np.errstate(over="ignore", invalid="ignore"):
                shifted = block - shift
                lengths = np.einsum("ij,ij->i", shifted, shifted)
            return distances_to(block, points, np.zeros(len(block), np.int32)), lengths

        start = 0
        for distances, lengths in workers.map(self.rows, measure):
            if not (np.isfinite(distances).all() and np.isfinite(lengths).all()):
                refuse_bad_row(self.rows)
            here = slice(start, start + len(distances))
            self.distances[here], self._lengths[here] = distances, lengths
            start += len(distances)

    def _compare(self, points: Singles, workers: Workers) -> None:
        """Assign rows to the nearest new center if it is nearer than their own."""
        shift = self._shift
        table = with_bias(points - shift)
        reach = float(-2 * table[:, -1].min())

        def closer(start: int, block: Singles, distances: Singles, lengths: Singles) -> tuple[Ints, Labels, Singles]:
            labels, scores = highest_scores(block, shift, table)
            # A product of matrices shows which rows may be nearer to a new center; differences decide.
            gain = 2 * scores - lengths + distances**2
            close = np.flatnonzero(gain > -SLACK * (lengths + reach))
            away = distances_to(block[close], points, labels[close])
            nearer = away < distances[close]
            close = close[nearer]
            return start + close, labels[close], away[nearer]

        known = np.int32(self.centers.size)
        for rows, labels, away in workers.map(self.rows, closer, beside=[self.distances, self._lengths]):
            self.labels[rows], self.distances[rows] = labels + known, away


class Sampling:
    """D^z sampling: the next center is a row drawn with probability ∝ D^z, its distance from the centers so far.

    Several are drawn at once by rejection sampling, which keeps the same distribution: candidates are drawn by the old
    D^z, and each is accepted with probability (D now / D then)^z, where D now includes the candidates accepted before
    it. Rows that equal a center come last, in random order.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def more(self, prefix: Prefix, wanted: int) -> Ints:
        """Draw the next centers."""
        if not prefix.centers.size:
            allowed = np.flatnonzero(prefix.allowed)
            return allowed[self._rng.integers(allowed.size, size=1)]
        then = prefix.distances * prefix.allowed
        largest = then.max()
        if largest == 0:
            left = prefix.allowed.copy()
            left[prefix.centers] = False
            return np.asarray(self._rng.permutation(np.flatnonzero(left))[:wanted], np.int64)
        cumulative = np.cumsum(powers((then / largest) ** 2, prefix.z))
        count = max(FEWEST_AT_ONCE, min(TIMES_AS_MANY * prefix.centers.size, int(SURPLUS * wanted), MOST_AT_ONCE))
        spots = self._rng.random(count) * cumulative[-1]
        candidates: Ints = np.minimum(np.searchsorted(cumulative, spots, side="right"), then.size - 1)
        tosses = self._rng.random(count)
        usable = then[candidates] > 0  # all of them, except for rounding at the very end
        candidates, tosses = candidates[usable], tosses[usable]
        taken = take_in_turn(prefix.rows.take(candidates), then[candidates], prefix.z, tosses)
        return candidates[taken[:wanted]]


def take_in_turn(points: Singles, then: Singles, z: float, tosses: Floats) -> Ints:
    """Return which candidates are accepted: each with probability (D now / D then)^z, after the ones before it.

    `then` are the distances by which the candidates were drawn; the first is always accepted.
    """
    middle = points.mean(axis=0, dtype=np.float64).astype(np.float32)
    shifted = points - middle
    between = squared_distances(shifted, np.einsum("ij,ij->i", shifted, shifted), shifted)
    np.fill_diagonal(between, 0)
    squared = then.astype(np.float64) ** 2
    now, taken = squared.copy(), []
    for turn in range(len(points)):
        if tosses[turn] < (now[turn] / squared[turn]) ** (z / 2):
            taken.append(turn)
            np.minimum(now, between[turn], out=now)
    return np.array(taken, np.int64)


def _middle(rows: Rows) -> Singles:
    """Return a point amid the rows, so that rounding errors are in proportion to the distances between rows."""
    sample = np.linspace(0, rows.n - 1, min(rows.n, SHIFTED_BY)).round().astype(np.int64)
    with np.errstate(invalid="ignore"):
        return np.asarray(rows.take(sample).mean(axis=0, dtype=np.float64), np.float32)
