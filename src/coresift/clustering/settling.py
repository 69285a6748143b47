"""Settle many centers: move them to the means of their rows, and rows to their nearest centers, until little changes.

Three things save time. The first steps use a part of the rows. A row is compared with many centers only now and then;
the nearest of them are listed, and in between it is compared only with those on its list. For z = 2, a row is not
compared at all until centers have moved so far that it may belong to another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from coresift.clustering.candidates import CUT, Cells, Stretch, best_few, runs_of
from coresift.clustering.exchange import exchange
from coresift.clustering.kernels import add_rows, follow_lists, score_listed
from coresift.clustering.nearest import Labels, with_bias
from coresift.clustering.plain import Listing
from coresift.clustering.refine import OVERSHOOT, pull
from coresift.clustering.space import pieces_of
from coresift.engine import Workers
from coresift.types import Bools, Floats, Ints, Singles

# To make its list, a row is compared with this many centers around its own. So many of them are listed.
COMPARED, LISTED = 512, 6
# If all centers together have at most this many numbers, each row is compared with all of them: a product with a matrix
# that fits into a core's cache takes hardly longer.
ALL = 2**16
# How many steps the same lists are used for, and how often they are made anew at the end.
STEPS_PER_LIST, MOST_LISTS = 12, 8
# One in this many rows shows whether new lists are worth it. The steps that follow lower the cost as well, so what new
# lists promise counts this many times.
PROBED, LATER = 16, 2
# About so many rows show whether comparing rows only with the centers around their own raises the cost by more than
# this share. If so, the round compares all of its rows with all centers.
CHECKED, MISSED = 2048, 2e-3
ROWS_PER_TASK = 8192


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

    Rows count from the first round that includes them. When a row's list was made, all candidates that are not on it
    were at least `_reach` away, and centers had moved by `_listed_at` on average.
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
        self._sums = np.zeros(self._table.shape)
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
        ids, cells = np.arange(0, len(self.labels), stride), self._cells()
        if self._missed(ids[:: -(-len(ids) // CHECKED)], cells) > MISSED:
            cells = Cells.of(self._table[:, :-1], len(self._table), self._workers)
        self._compare(ids, cells)
        self._move()
        self._follow_lists(np.inf, gain)

    def finish(self, gain: float) -> None:
        """Make lists anew and follow them, until new ones would lower the cost by less than `gain`, a share of it."""
        for _ in range(MOST_LISTS):
            due, cells = self.outdated(), self._cells()
            if LATER * self.promise(due[::PROBED], cells) * len(due) < gain * self._cost:
                break
            self._compare(due, cells)
            self._move()
            self._follow_lists(self._cost, gain)

    def promise(self, ids: Ints, cells: Cells) -> float:
        """Return by how much the mean cost of these rows would fall with new lists and the same centers."""
        lower = 0.0
        for run in runs_of(cells.cell[self.labels[ids]]):
            own = ids[run.ids]
            known = score_listed(self._sample.points, own, self._table, self.lists[own]).max(axis=1)
            best = np.maximum(best_few(self._sample.points[own], self._table, cells, run, 1)[1][:, 0], known)
            lower += float((self._powers(own, known) - self._powers(own, best)).sum())
        return lower / max(len(ids), 1)

    def _missed(self, ids: Ints, cells: Cells) -> float:
        """Return by which share the cost of these rows is higher with the candidates of their cells than with all
        centers. If clusters are far apart, a row that is in a wrong one has no center of its own among them."""
        if len(cells.candidates) == 1:
            return 0.0
        true = listed = 0.0
        for run in runs_of(cells.cell[self.labels[ids]]):
            own = ids[run.ids]
            points = self._sample.points[own]
            best = best_few(points, self._table, cells, run, 1)[1][:, 0]
            listed += float(self._powers(own, best).sum())
            for piece in pieces_of(np.arange(len(own)), CUT):
                best[piece] = (points[piece] @ self._table.T).max(axis=1)
            true += float(self._powers(own, best).sum())
        return listed / true - 1 if true else 0.0

    def outdated(self) -> Ints:
        """Return the rows that may belong to a center that is not on their list; for z ≠ 2 all, as in `_due`.

        These are the rows whose gap to the centers that are not listed is at most what centers have moved on average.
        """
        if self._z != 2:
            return np.flatnonzero(self._counted)
        gaps = self._reach - np.sqrt(np.maximum(self._norms - 2 * self._listing.scores[:, 0], 0))
        near = self._patience * gaps <= self._traveled - self._listed_at
        return np.flatnonzero(self._counted & near)

    def exchange(self) -> None:
        """Move centers that are hardly needed to clusters that are better split. A round should follow."""
        self._place(self.means)
        ids = np.flatnonzero(self._counted)
        self._compare(ids, None)
        nearest = np.stack([self.labels[ids], self._listing.second[ids]])
        scores = self._listing.scores[ids].T
        points, centers = self._sample.points[ids], np.ascontiguousarray(self._table[:, :-1])
        halves, removed, divided = exchange(points, centers, nearest, scores, self._workers)
        centers[divided], centers[removed] = halves[:, 0], halves[:, 1]
        self._place(centers)

    def _follow_lists(self, lowest: float, gain: float) -> None:
        for _ in range(STEPS_PER_LIST):
            self._compare(self._due(), None)
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

    def _compare(self, ids: Ints, cells: Cells | None) -> None:
        """Find the nearest centers of these rows, among the candidates of their cells or, without cells, among those on
        their lists; then find the means of all centers."""
        before = self.labels[ids]
        # Tasks store what they find about their own rows, so that no time goes into collecting it.
        if cells is None:
            done = self._workers.each(pieces_of(ids, ROWS_PER_TASK), self._follow, name="settling centers")
        else:
            runs = runs_of(cells.cell[before])
            done = self._workers.each(runs, partial(self._list, ids, cells), name="settling centers")
        for _ in done:
            pass
        cost = self._add(ids, before)
        self._counted[ids] = True
        self.means, explained = _means(self.means, self._sums)
        self._cost = self._squares() - explained if self._z == 2 else cost

    def _cells(self) -> Cells:
        return Cells.of(np.ascontiguousarray(self._table[:, :-1]), compared(self._table), self._workers)

    def _list(self, ids: Ints, cells: Cells, run: Stretch) -> None:
        """List the nearest candidates of the rows of a run, and follow the lists."""
        own = ids[run.ids]
        self.lists[own], scores = best_few(self._sample.points[own], self._table, cells, run, LISTED)
        self._reach[own] = np.sqrt(np.maximum(self._norms[own] - 2 * scores[:, -1], 0))
        self._listed_at[own] = self._traveled
        self._follow(own)

    def _follow(self, ids: Ints) -> None:
        """Find the two nearest centers on the lists of these rows."""
        follow_lists(self._sample.points, self._norms, ids, self._table, self._drift, self._listing)

    def _add(self, ids: Ints, before: Labels) -> float:
        """Update the sums of all centers. For z = 2 they change only by the rows that are new or have another label,
        few after the first steps; otherwise all weights change, and the cost is returned."""
        labels, points = self.labels[ids], self._sample.points
        if self._z == 2:
            added = np.flatnonzero(~self._counted[ids] | (labels != before))
            taken = added[self._counted[ids[added]]]
            add_rows(points, labels[added], np.ones(len(added)), self._sums, ids[added])
            add_rows(points, before[taken], np.full(len(taken), -1.0), self._sums, ids[taken])
            return 0.0
        powers = self._powers(ids, self._listing.scores[ids, 0])
        self._sums[:] = 0
        add_rows(points, labels, pull(powers ** (1 / self._z), self._z), self._sums, ids)
        return float(powers.sum())

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


def compared(centers: Singles) -> int:
    """Return the number of centers that rows are compared with to make their lists."""
    return len(centers) if centers.size <= ALL else COMPARED


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
