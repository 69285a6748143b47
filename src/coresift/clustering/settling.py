"""Settle many centers: move them to the means of their rows, and rows to their nearest centers, until little changes.

Three things save time. The first steps use a part of the rows. A row is compared with many centers only now and then;
the nearest of them are listed, and in between it is compared only with those on its list. For z = 2, a row is not
compared at all until centers have moved so far that it may belong to another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from coresift.clustering.candidates import Cells, Stretch, best_few, best_two, runs_of, score_listed
from coresift.clustering.exchange import exchange
from coresift.clustering.nearest import Labels, with_bias
from coresift.clustering.refine import OVERSHOOT, pull, sum_by_label
from coresift.clustering.space import pieces_of
from coresift.engine import Workers
from coresift.types import Bools, Floats, Ints, Singles

# To make its list, a row is compared with this many centers around its own. So many of them are listed.
COMPARED, LISTED = 512, 6
# If all centers together have at most this many numbers, each row is compared with all of them: a product with a matrix
# that fits into a core's cache takes hardly longer.
ALL = 2**16
# How many steps the same lists are used for, and how often they are made anew at the end.
STEPS_PER_LIST, MOST_LISTS = 8, 8
# One in this many rows shows whether new lists are worth it. The steps that follow lower the cost as well, so what new
# lists promise counts this many times.
PROBED, LATER = 16, 6
ROWS_PER_TASK = 2048


@dataclass(frozen=True)
class Sample:
    """Rows of the data on a few axes (points with a last column of ones), and the squared length outside of them."""

    points: Singles
    rest: Singles

    @property
    def coordinates(self) -> Singles:
        """The points without the column of ones."""
        return self.points[:, :-1]


@dataclass(frozen=True)
class _Found:
    """What a comparison found for a few points: their two nearest centers, the scores of these, their lists, for new
    lists the highest score that a center may have that is not listed, the cost, and for each label that is present the
    change of its sums (or the sums)."""

    nearest: Labels
    scores: Singles
    lists: Labels
    unlisted: Singles | None
    cost: float
    present: Ints
    sums: Floats


class Settling:
    """Centers (`means`), and for each row its label and a list of its nearest centers.

    Rows count from the first round that includes them. `_margins` say by how much a row's second center is farther
    away, and `_since` how far its own center had moved when they were measured. When a row's list was made, all
    candidates that are not on it were at least `_reach` away, and centers had moved by `_listed_at` on average.
    """

    def __init__(self, sample: Sample, centers: Singles, labels: Labels, z: float, workers: Workers) -> None:
        self.means, self.labels = centers, labels.copy()
        self.lists = np.zeros((len(labels), LISTED), np.int32)
        self._sample, self._z, self._workers = sample, z, workers
        self._norms, self._patience = np.einsum("ij,ij->i", sample.coordinates, sample.coordinates), _patience(sample)
        self._table, self._drift = with_bias(centers), np.zeros(len(centers), np.float32)
        self._sums = np.zeros(self._table.shape)
        self._counted: Bools = np.zeros(len(labels), np.bool_)
        self._second, self._scores = np.zeros_like(labels), np.zeros((len(labels), 2), np.float32)
        self._margins, self._since, self._reach, self._listed_at = np.zeros((4, len(labels)), np.float32)
        self._traveled = np.float32(0)

    def round(self, stride: int, gain: float) -> None:
        """Make lists for every `stride`-th row, and follow them until a step lowers the cost by less than `gain`."""
        self._compare(np.arange(0, len(self.labels), stride), self._cells())
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
            points = self._sample.points[own]
            known = score_listed(points, self._table, self.lists[own]).max(axis=1)
            best = np.maximum(best_few(points, self._table, cells, run, 1)[1][:, 0], known)
            lower += float((self._powers(own, known) - self._powers(own, best)).sum())
        return lower / max(len(ids), 1)

    def outdated(self) -> Ints:
        """Return the rows that may belong to a center that is not on their list; for z ≠ 2 all, as in `_due`.

        These are the rows whose gap to the centers that are not listed is at most what centers have moved on average.
        """
        if self._z != 2:
            return np.flatnonzero(self._counted)
        gaps = self._reach - np.sqrt(np.maximum(self._norms - 2 * self._scores[:, 0], 0))
        near = self._patience * gaps <= self._traveled - self._listed_at
        return np.flatnonzero(self._counted & near)

    def exchange(self) -> None:
        """Move centers that are hardly needed to clusters that are better split. A round should follow."""
        self._place(self.means)
        ids = np.flatnonzero(self._counted)
        self._compare(ids, None)
        nearest, scores = np.stack([self.labels[ids], self._second[ids]]), self._scores[ids].T
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
        moved = self._drift[self.labels] - self._since
        return np.flatnonzero(self._counted & (self._patience * self._margins <= moved))

    def _compare(self, ids: Ints, cells: Cells | None) -> None:
        """Find the nearest centers of these rows, among the candidates of their cells or, without cells, among those on
        their lists; then find the means of all centers."""
        if cells is None:
            runs = [Stretch(piece, ()) for piece in pieces_of(np.arange(len(ids)), ROWS_PER_TASK)]
        else:
            runs = runs_of(cells.cell[self.labels[ids]])
        if self._z != 2:
            self._sums[:] = 0
        results, cost = self._workers.each(runs, partial(self._look, ids, cells), name="settling centers"), 0.0
        for run, result in zip(runs, results, strict=True):
            own = ids[run.ids]
            labels = result.nearest[:, 0]
            near, far = np.maximum(self._norms[own] - 2 * result.scores.T, 0)
            self.labels[own], self._second[own], self._scores[own] = labels, result.nearest[:, 1], result.scores
            self._margins[own], self._since[own] = np.sqrt(far) - np.sqrt(near), self._drift[labels]
            if result.unlisted is not None:
                self.lists[own], self._listed_at[own] = result.lists, self._traveled
                self._reach[own] = np.sqrt(np.maximum(self._norms[own] - 2 * result.unlisted, 0))
            self._sums[result.present] += result.sums
            cost += result.cost
        self._counted[ids] = True
        self.means, explained = _means(self.means, self._sums)
        self._cost = self._squares() - explained if self._z == 2 else cost

    def _cells(self) -> Cells:
        return Cells.of(np.ascontiguousarray(self._table[:, :-1]), compared(self._table), self._workers)

    def _look(self, ids: Ints, cells: Cells | None, run: Stretch) -> _Found:
        """Compare the rows of a run, in a thread; nothing is stored yet."""
        own = ids[run.ids]
        points = self._sample.points[own]
        if cells is None:
            lists, unlisted = self.lists[own], None
            nearest, scores = best_two(lists, score_listed(points, self._table, lists))
        else:
            lists, listed_scores = best_few(points, self._table, cells, run, LISTED // 2, 2)
            nearest, scores = best_two(lists, listed_scores)
            unlisted = listed_scores[:, LISTED // 2 - 1 :: LISTED // 2].max(axis=1)
        labels = nearest[:, 0]
        if self._z == 2:  # sums change only by the rows that are new or have another label, few after the first steps
            counted = self._counted[own]
            added = np.flatnonzero(~counted | (labels != self.labels[own]))
            taken = added[counted[added]]
            which, signs = np.concatenate([added, taken]), np.ones(len(added) + len(taken), np.float32)
            signs[len(added) :] = -1
            both = np.concatenate([labels[added], self.labels[own[taken]]])
            return _Found(nearest, scores, lists, unlisted, 0.0, *sum_by_label(points[which], both, signs))
        powers = self._powers(own, scores[:, 0])
        weights = pull(powers ** (1 / self._z), self._z).astype(np.float32)
        return _Found(nearest, scores, lists, unlisted, float(powers.sum()), *sum_by_label(points, labels, weights))

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
