"""Centers in an order of which every beginning is a good clustering, and for every row the nearest center so far.

More centers can join at any time. Only the new ones are then compared with the rows, block by block; what was known
of the earlier ones stays.
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

# How many candidates are drawn at once: some more than are wanted, as not all are taken, but not so many times the
# centers so far that most would come too close to each other.
SURPLUS, TIMES_AS_MANY = 1.3, 4
FEWEST_AT_ONCE, MOST_AT_ONCE = 16, 640
# What a product of matrices may be off by, as a part of the squared lengths; within it differences decide.
SLACK = 1e-4
# Rows from which the point is taken that all rows are shifted by.
SHIFTED_BY = 1024


class Order(Protocol):
    """Where the next centers come from."""

    def more(self, prefix: Prefix, wanted: int) -> Ints:
        """Return the next centers, from one to as many as are wanted, given all that came before; first of all, one."""
        ...


class Prefix:
    """The first centers of an order, each row's nearest of them (`labels`, the earliest on a tie) and `distances`.

    A row that is a center belongs to itself, also where an earlier center equals it. Rows that are not `allowed`
    get labels too, but never become centers.
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
        """Let centers join until there are `count`, or as many as there are rows that may be one."""
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
        """Give rows to the nearest of the new centers where it is nearer than their own."""
        shift = self._shift
        table = with_bias(points - shift)
        reach = float(-2 * table[:, -1].min())

        def closer(start: int, block: Singles, distances: Singles, lengths: Singles) -> tuple[Ints, Labels, Singles]:
            labels, scores = highest_scores(block, shift, table)
            # A product of matrices says which rows may be nearer to a new center; differences say which are.
            gain = 2 * scores - lengths + distances**2
            some = np.flatnonzero(gain > -SLACK * (lengths + reach))
            away = distances_to(block[some], points, labels[some])
            nearer = away < distances[some]
            some = some[nearer]
            return start + some, labels[some], away[nearer]

        known = np.int32(self.centers.size)
        for rows, labels, away in workers.map(self.rows, closer, beside=[self.distances, self._lengths]):
            self.labels[rows], self.distances[rows] = labels + known, away


class Sampling:
    """D^z sampling: the next center is a row drawn with probability ∝ D^z, its distance from the centers so far.

    Several are drawn at once without a change to that law: candidates come from D^z as it was, and each is taken
    with probability (D now / D then)^z, where only those taken before it can have made D smaller. What is taken
    then has the probability ∝ D^z of now, as if every row had been compared with each center at once. Rows that
    equal a center come last, in random order.
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
        usable = then[candidates] > 0  # all, but for what rounding does at the very end
        candidates, tosses = candidates[usable], tosses[usable]
        taken = take_in_turn(prefix.rows.take(candidates), then[candidates], prefix.z, tosses)
        return candidates[taken[:wanted]]


def take_in_turn(points: Singles, then: Singles, z: float, tosses: Floats) -> Ints:
    """Return which candidates are taken: each with probability (D now / D then)^z, now being after those before it.

    `then` are the distances from which the candidates were drawn; the first is always taken.
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
    """Return a point amid the rows, so that rounding is in proportion to how far apart they are."""
    some = np.linspace(0, rows.n - 1, min(rows.n, SHIFTED_BY)).round().astype(np.int64)
    with np.errstate(invalid="ignore"):
        return np.asarray(rows.take(some).mean(axis=0, dtype=np.float64), np.float32)
