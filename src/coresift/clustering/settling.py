"""Settle many centers: move them to the means of their rows, and rows to their nearest centers, until little changes.

Three things save time. The first steps use a part of the rows. A row is compared with all centers only now and then, as
whole numbers; the nearest of them are listed, and in between it is compared only with those on its list. For z = 2, a
row is not compared at all until centers have moved so far that it may belong to another one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coresift.clustering.codes import Codes, Products, largest_of
from coresift.clustering.exchange import add_by_columns, exchange
from coresift.clustering.kernels import follow_lists, score_listed
from coresift.clustering.nearest import Labels, with_bias
from coresift.clustering.plain import Listing
from coresift.clustering.refine import OVERSHOOT, pull
from coresift.clustering.space import pieces_of
from coresift.engine import Workers
from coresift.types import Bools, Floats, Ints, Singles

# How many centers are on a row's list.
LISTED = 6
# How many steps the same lists are used for, and how often they are made anew at the end.
STEPS_PER_LIST, MOST_LISTS = 12, 8
# One in this many rows shows whether new lists are worth it. The steps that follow lower the cost as well, so what new
# lists promise counts this many times.
PROBED, LATER = 16, 2
# The number of rows per task: all those that follow their lists, and those that are compared with all centers.
ROWS_PER_TASK, LISTED_PER_TASK = 8192, 2048
# About how many rows say how large coordinates are.
SCALED_BY = 4096
# About how many rows say whether whole numbers of 8 bits are enough: not if the best center on their lists raises the
# cost by more than this share.
CHECKED, CHECKED_AT_ONCE, MISSED = 1024, 256, 1e-3


@dataclass(frozen=True)
class Sample:
    """Rows of the data on a few axes (points with a last column of ones), and the squared length outside of them."""

    points: Singles
    rest: Singles

    @property
    def coordinates(self) -> Singles:
        """The points without the column of ones."""
        return self.points[:, :-1]


class Settling:
    """Centers (`means`), and for each row its label and a list of its nearest centers.

    Rows count from the first round that includes them, one in `_stride`. When a row's list was made, the farthest
    center on it was `_reach` away, and centers had moved by `_listed_at` on average.
    """

    def __init__(self, sample: Sample, centers: Singles, labels: Labels, z: float, workers: Workers) -> None:
        n = len(labels)
        self.means = centers
        self._listing = Listing(
            np.zeros((n, LISTED), np.int32),
            labels.copy(),
            np.zeros_like(labels),
            np.zeros((n, 2), np.float32),
            np.zeros(n, np.float32),
            np.zeros(n, np.float32),
        )
        self._sample, self._z, self._workers = sample, z, workers
        self._norms, self._patience = np.einsum("ij,ij->i", sample.coordinates, sample.coordinates), _patience(sample)
        self._table, self._drift = with_bias(centers), np.zeros(len(centers), np.float32)
        self._sums, self._stride = np.zeros(self._table.shape), 1
        self._rounded, self._longest = True, float(np.sqrt(self._norms.max()))
        self._largest = largest_of(sample.coordinates[:: max(1, n // SCALED_BY)])
        self._counted: Bools = np.zeros(n, np.bool_)
        self._reach, self._listed_at = np.zeros((2, n), np.float32)
        self._traveled = np.float32(0)

    @property
    def labels(self) -> Labels:
        """The center of each row."""
        return self._listing.labels

    @property
    def lists(self) -> Labels:
        """The centers nearest to each row, when its list was made."""
        return self._listing.lists

    def round(self, stride: int, gain: float) -> None:
        """Make lists for every `stride`-th row, and follow them until a step lowers the cost by less than `gain`."""
        self._stride, self._rounded = stride, self._rounded and not self._missing()
        self._list(np.arange(0, len(self.labels), stride))
        self._move()
        self._follow_lists(np.inf, gain)

    def finish(self, gain: float) -> None:
        """Make lists anew and follow them, until new ones would lower the cost by less than `gain`, a share of it."""
        for _ in range(MOST_LISTS):
            due = self.outdated()
            if LATER * self.promise(due[::PROBED]) * len(due) < gain * self._cost:
                break
            self._list(due)
            self._move()
            self._follow_lists(self._cost, gain)

    def promise(self, ids: Ints) -> float:
        """Return by how much the mean cost of these rows would fall with new lists and the same centers."""
        codes, lower = self._codes(), 0.0
        for own in pieces_of(ids, LISTED_PER_TASK):
            best = codes.best(self._sample.points[own, :-1], 1)
            old, new = (self._score(own, lists).max(axis=1) for lists in (self.lists[own], best))
            lower += float((self._powers(own, old) - self._powers(own, np.maximum(old, new))).sum())
        return lower / max(len(ids), 1)

    def outdated(self) -> Ints:
        """Return the rows that may belong to a center that is not on their list; for z ≠ 2 all, as in `_due`.

        These are the rows whose gap to the centers that are not listed is at most what centers have moved on average.
        """
        if self._z != 2:
            return np.flatnonzero(self._counted)
        gaps = self._reach - np.sqrt(np.maximum(self._norms - 2 * self._listing.scores[:, 0], 0))
        near = self._patience * gaps <= self._traveled - self._listed_at
        return np.flatnonzero(self._counted & near)

    def exchange(self) -> float:
        """Move centers that are hardly needed to clusters that are better split. A round should follow.

        Returns by which share the moves were expected to lower the cost.
        """
        self._place(self.means)
        self._compare(np.flatnonzero(self._counted))
        some, centers = slice(None, None, self._stride), np.ascontiguousarray(self._table[:, :-1])
        nearest, scores = np.stack([self.labels[some], self._listing.second[some]]), self._listing.scores[some].T
        moves = exchange(self._sample.points[some], centers, nearest, scores, self._norms[some], self._workers)
        centers[moves.divided], centers[moves.removed] = moves.halves[:, 0], moves.halves[:, 1]
        self._place(centers)
        return moves.gain / self._cost if self._cost > 0 else 0.0

    def _follow_lists(self, lowest: float, gain: float) -> None:
        for _ in range(STEPS_PER_LIST):
            self._compare(self._due())
            self._move()
            if self._cost >= lowest * (1 - gain):
                break
            lowest = self._cost

    def _due(self) -> Ints:
        """Return the rows that may belong to another center by now; for z ≠ 2 all, since all their weights change."""
        if self._z != 2:
            return np.flatnonzero(self._counted)
        moved = self._drift[self.labels] - self._listing.since
        return np.flatnonzero(self._counted & (self._patience * self._listing.margins <= moved))

    def _list(self, ids: Ints) -> None:
        """List the centers nearest to these rows, and follow the lists."""
        codes = self._codes()

        def make(own: Ints) -> None:
            self.lists[own] = codes.best(self._sample.points[own, :-1], LISTED)
            farthest = self._score(own, self.lists[own, -1:])[:, 0]
            self._reach[own] = np.sqrt(np.maximum(self._norms[own] - 2 * farthest, 0))
            self._listed_at[own] = self._traveled

        for _ in self._workers.each(pieces_of(ids, LISTED_PER_TASK), make, name="settling centers"):
            pass
        self._compare(ids)

    def _codes(self) -> Codes | Products:
        centers, halves = self._table[:, :-1], -self._table[:, -1].astype(np.float64)
        if self._rounded:
            return Codes.of(centers, halves, self._largest)
        return Products.of(centers, halves, self._longest)

    def _missing(self) -> bool:
        """Return whether lists miss the nearest centers of some rows, since 8 bits cannot tell centers apart."""
        codes, n = self._codes(), len(self.labels)

        def costs(own: Ints) -> tuple[float, float]:
            points = self._sample.points[own]
            listed = self._score(own, codes.best(points[:, :-1], LISTED)).max(axis=1)
            nearest = np.maximum(listed, (points @ self._table.T).max(axis=1))
            return float(self._powers(own, listed).sum()), float(self._powers(own, nearest).sum())

        some = np.arange(0, n, max(1, n // CHECKED))
        listed, true = np.sum(list(self._workers.each(pieces_of(some, CHECKED_AT_ONCE), costs)), axis=0)
        return bool(listed > (1 + MISSED) * true)

    def _compare(self, ids: Ints) -> None:
        """Find the nearest centers of these rows among those on their lists; then find the means of all centers."""
        before = self.labels[ids]
        # Tasks store what they find about their own rows, so that no time goes into collecting it.
        for _ in self._workers.each(pieces_of(ids, ROWS_PER_TASK), self._follow, name="settling centers"):
            pass
        cost = self._add(ids, before)
        self._counted[ids] = True
        self.means, explained = _means(self.means, self._sums)
        self._cost = self._squares() - explained if self._z == 2 else cost

    def _follow(self, ids: Ints) -> None:
        """Find the two nearest centers on the lists of these rows."""
        follow_lists(self._sample.points, self._norms, ids, self._table, self._drift, self._listing)

    def _score(self, ids: Ints, lists: Labels) -> Singles:
        """Return the scores of the centers on these lists, one line per row."""
        return score_listed(self._sample.points, ids, self._table, lists)

    def _add(self, ids: Ints, before: Labels) -> float:
        """Update the sums of all centers. For z = 2 they change only by the rows that are new or have another label,
        few after the first steps; otherwise all weights change, and the cost is returned."""
        labels = self.labels[ids]
        if self._z == 2:
            added = np.flatnonzero(~self._counted[ids] | (labels != before))
            taken = added[self._counted[ids[added]]]
            self._add_some(ids[added], labels[added], np.ones(len(added)))
            self._add_some(ids[taken], before[taken], np.full(len(taken), -1.0))
            return 0.0
        powers = self._powers(ids, self._listing.scores[ids, 0])
        self._sums[:] = 0
        self._add_some(ids, labels, pull(powers ** (1 / self._z), self._z))
        return float(powers.sum())

    def _add_some(self, ids: Ints, labels: Labels, weights: Floats) -> None:
        add_by_columns(self._sample.points, labels, weights, self._sums, ids, self._workers)

    def _powers(self, ids: Ints, scores: Singles) -> Floats:
        """Return the z-th powers of the distances of rows to the centers that have these scores."""
        squares = np.maximum(self._norms[ids] - 2 * scores, 0) + self._sample.rest[ids]
        return np.asarray(squares.astype(np.float64) ** (self._z / 2))

    def _squares(self) -> float:
        """Return the sum of the squared lengths of all rows that count."""
        return float((self._norms + self._sample.rest)[self._counted].sum(dtype=np.float64))

    def _move(self) -> None:
        """Move each center beyond the mean of its rows; for z > 2, a part of the way towards it."""
        length, centers = 1 / (self._z - 1) if self._z > 2 else OVERSHOOT, self._table[:, :-1]
        self._place((centers + np.float32(length) * (self.means - centers)).astype(np.float32))

    def _place(self, centers: Singles) -> None:
        shift = np.linalg.norm(centers - self._table[:, :-1], axis=1)
        self._traveled += shift.mean()
        self._drift, self._table = self._drift + shift + shift.mean(), with_bias(centers)


def _patience(sample: Sample) -> np.float32:
    """Return how many times its margin centers may move before a row is compared again: the root of the number of
    dimensions that the rows really have, since a move in any direction has only such a part of its length towards a
    row. The number is (Σλ)²/Σλ² of the variances λ, the participation ratio."""
    spread = np.einsum("ij,ij->j", sample.coordinates, sample.coordinates)
    return np.float32(spread.sum() / (np.sqrt(spread @ spread) or 1.0))


def _means(means: Singles, sums: Floats) -> tuple[Singles, float]:
    """Return the mean of each center's rows, as before where it has none, and the part of the rows' squares that the
    means explain; the column of ones has summed up the weights."""
    filled = sums[:, -1] > 0
    totals, weights = sums[filled, :-1], sums[filled, -1:]
    moved = means.copy()
    moved[filled] = totals / weights
    return moved, float((totals**2 / weights).sum())
