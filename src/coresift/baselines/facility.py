"""Facility location: rows such that every row has one of them near."""

from __future__ import annotations

from typing import Any

import numpy as np

from coresift.baselines.geometric import squared_lengths
from coresift.baselines.making import Watch, begin, flag
from coresift.baselines.pairs import Pairs, few_enough
from coresift.engine import Engine, Workers
from coresift.progress import stage
from coresift.rows import refuse_bad_row
from coresift.types import Bools, Floats, Ints, Selection, Singles

# How many candidates are kept exact between two looks at the others, how many are measured at a time once pairs are
# listed, and how many meet how many rows at a time.
AT_HAND, MEASURED = 1024, 16
# With pairs listed, all candidates are measured whenever so many times more rows are chosen.
FARTHER = 4
TILE, TILE_ROWS = 128, 1024
# Fewer pairs than this are not worth other threads.
ALONE = 1 << 20
# Less than this is nothing to be gained; gains of nothing at all are 0 up to rounding.
TINY = np.finfo(np.float32).tiny


def facility_location(
    rows: Any,
    budget: int,
    *,
    seed: int = 0,
    given: Any = None,
    exclude: Any = None,
    normalize: bool = False,
    engine: Engine | None = None,
    progress: Watch = None,
) -> Selection:
    """Choose greedily the row that lowers Σ over all rows of ‖x − nearest chosen row‖² the most.

    This maximizes facility location with the similarity constant − ‖x − y‖², within a factor 1 − 1/e of the best
    choice. `cs.cover` is the version to use for a selection; this one is the exact greedy choice, to compare with.

    Gains only fall as rows are chosen, so old ones bound the new: the next choice comes from the candidates with the
    largest gains, made exact, as long as none of the others' old gains is larger. A candidate gains only from rows
    that are closer to it than to any choice; once such pairs are few (1,500 per row, often from the start), they are
    listed, and no other distance is computed any more.

    Cost: no model call; n² distances once, and a few times that if it takes long for pairs to become few. Memory:
    three times the rows as float32, and up to 24 kB per row, 540 MB in all; no n×n matrix.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows to select, including the given ones.
        seed: The seed.
        given: Rows that are selected in any case.
        exclude: Rows that are never selected, and that the selection does not stand for.
        normalize: Whether to give every row length 1 first.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        The chosen rows, without weights. `order` is the order of choice; its first m rows are the choice for budget m.

    Examples:
        >>> facility_location(np.array([[0.0], [1.0], [2.0], [9.0], [10.0], [11.0], [12.0]]), 2).ids
        array([1, 3])
    """
    normalize = flag("normalize", normalize)
    task = begin("facility-location", rows, budget, seed, given, exclude, engine, progress, normalize=normalize)
    ids = task.counted
    view = task.view(ids, normalize=normalize)
    points = view.take(np.arange(ids.size))
    with np.errstate(over="ignore", invalid="ignore"):
        points -= points.mean(axis=0, dtype=np.float64).astype(np.float32)
    if not np.isfinite(squared_lengths(points)).all():
        refuse_bad_row(view)
    chosen: list[int] = []
    with task.workers() as workers, stage(task.progress, "choosing rows", task.room):
        search = _Search(points, task.frame.open()[ids], workers)
        chosen += search.begin(np.searchsorted(ids, task.frame.given))
        while len(chosen) < task.room:
            further = search.choose(task.room - len(chosen))
            if not further:
                break
            chosen += further
            task.progress.advance(len(further))
    return task.choose(ids[np.array(chosen, np.int64)])


class _Search:
    """Every row's squared distance to the nearest choice, and for every candidate a bound on what it would gain."""

    def __init__(self, points: Singles, free: Bools, workers: Workers) -> None:
        self._points, self._free, self._workers = points, free.copy(), workers
        self._norms = squared_lengths(points)
        # A product of a line of the second with one of the first is how much closer a candidate is to a row, once
        # the row's distance is added to its column before the last.
        norms = self._norms[:, np.newaxis]
        self._lines = np.concatenate([points, -norms, np.ones_like(norms)], axis=1)
        self._candidates = np.concatenate([2 * points, np.ones_like(norms), -norms], axis=1)
        self._away = np.full(len(points), np.inf, np.float32)
        self._gains = np.zeros(len(points))
        self._pairs: Pairs | None = None
        self._count, self._look = 0, 1
        # Candidates whose bounds are above those of all others, and the largest of the others' when that was so.
        self._ahead, self._behind = np.zeros(0, np.int64), -np.inf

    def begin(self, given: Ints) -> list[int]:
        """Take the given rows as chosen, or else the one nearest to all; return what was chosen."""
        first: list[int] = []
        if not given.size:
            norms, wide = self._norms.astype(np.float64), self._points.astype(np.float64)
            cost = len(wide) * norms - 2 * (wide @ wide.sum(axis=0))
            first = [int(np.where(self._free, cost, np.inf).argmin())]
            self._free[first] = False
        for one in (*given.tolist(), *first):
            self._approach(one)
        if not self._listed():
            self._measure(np.flatnonzero(self._free))
        return first

    def choose(self, most: int) -> list[int]:
        """Return the next choices, at most so many; none where nothing is to be gained."""
        if self._listed():
            return self._choose_one()
        while True:
            ids, bound = self._largest(AT_HAND)
            self._measure(ids)
            chosen: list[int] = []
            while len(chosen) < most and ids.size and self._gains[ids].max() >= max(bound, TINY):
                chosen.append(int(ids[self._gains[ids].argmax()]))
                self._free[chosen[-1]] = False
                ids = ids[ids != chosen[-1]]
                self._lower(ids, *self._approach(chosen[-1]))
            if chosen or bound < TINY:
                return chosen

    def _choose_one(self) -> list[int]:
        """Return the next choice from listed pairs, with which measuring anew costs little."""
        assert self._pairs is not None
        if self._count >= self._look:
            self._look = FARTHER * self._count
            self._gains = self._pairs.measure_all()
            self._ahead = np.zeros(0, np.int64)
        while True:
            if not self._ahead.size or self._gains[self._ahead].max() < self._behind:
                self._ahead, self._behind = self._largest(AT_HAND)
            ids, bound = self._largest(MEASURED, self._ahead)
            gains = self._gains[ids] = self._pairs.measure(ids) if ids.size else np.zeros(0)
            bound = max(bound, self._behind)
            if ids.size and gains.max() >= max(bound, TINY):
                best = int(ids[gains.argmax()])
                self._free[best] = False
                self._ahead = self._ahead[self._ahead != best]
                self._pairs.choose(best)
                self._count += 1
                return [best]
            if bound < TINY:
                return []

    def _listed(self) -> bool:
        """Say whether all pairs that matter are listed; look if they are few whenever twice as many are chosen."""
        if self._pairs is None and self._count >= self._look:
            self._look = 2 * self._count
            lines = self._from(np.arange(len(self._away)), self._away)
            if few_enough(self._candidates, lines):
                self._pairs = Pairs(self._candidates, lines, self._away, self._workers)
                self._gains, self._look = self._pairs.measure_all(), FARTHER * max(self._count, FARTHER)
        return self._pairs is not None

    def _largest(self, count: int, ids: Ints | None = None) -> tuple[Ints, float]:
        """Return the `count` candidates (of these, all free) with the largest bounds, and the others' largest bound."""
        ids = np.flatnonzero(self._free) if ids is None else ids
        others = ids.size - count - 1
        if others < 0:
            return ids, -np.inf
        gains = self._gains[ids]
        best = np.argpartition(gains, others)[others:]
        return np.sort(ids[best[1:]]), float(gains[best[0]])

    def _approach(self, one: int) -> tuple[Ints, Singles]:
        """Let one more row be chosen; return the rows that came closer, and how far away they were."""
        self._count += 1
        squared = self._points @ (-2 * self._points[one])
        squared += self._norms + self._norms[one]
        squared[one] = 0
        moved = np.flatnonzero(squared < self._away)
        before = self._away[moved]
        self._away[moved] = np.maximum(squared[moved], 0)
        return moved, before

    def _measure(self, ids: Ints) -> None:
        """Make the gains of these candidates exact."""
        everyone = np.arange(len(self._away))
        self._gains[ids] = self._closer(ids, self._from(everyone, self._away), None)

    def _lower(self, ids: Ints, moved: Ints, before: Singles) -> None:
        """Take off what candidates can no longer gain since these rows came closer.

        It is taken off from `ids`, whose gains stay exact, and from the rows that moved: they have most to lose, and
        every part that is taken off leaves a bound.
        """
        inside = np.zeros(len(self._away), np.bool_)
        inside[ids] = True
        inside[moved] = self._free[moved]
        concerned = np.flatnonzero(inside)
        # What a row's coming closer leaves less to gain is at most by how much it came closer.
        caps = before - self._away[moved]
        self._gains[concerned] -= self._closer(concerned, self._from(moved, before), caps)

    def _from(self, ids: Ints, away: Singles) -> Singles:
        """Return the lines of these rows, so far away."""
        lines = self._lines.take(ids, axis=0, mode="clip")
        lines[:, -2] += away
        return lines

    def _closer(self, ids: Ints, lines: Singles, caps: Singles | None) -> Floats:
        if ids.size * len(lines) < ALONE:
            return _closer(self._candidates[ids], lines, caps)
        pieces = [ids[start : start + TILE] for start in range(0, ids.size, TILE)]
        found = self._workers.each(pieces, lambda some: _closer(self._candidates[some], lines, caps))
        return np.concatenate(list(found))


def _closer(candidates: Singles, lines: Singles, caps: Singles | None) -> Floats:
    """Return for each candidate the sum over rows of how much closer it is, at least 0 and at most their caps."""
    total = np.zeros(len(candidates))
    for start in range(0, len(lines), TILE_ROWS):
        closer = candidates @ lines[start : start + TILE_ROWS].T
        np.maximum(closer, 0, out=closer)
        if caps is not None:
            np.minimum(closer, caps[start : start + TILE_ROWS], out=closer)
        total += closer.sum(axis=1)
    return total
