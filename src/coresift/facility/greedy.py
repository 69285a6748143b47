"""Greedy choice of the candidate that adds most to Σᵢ uᵢ·max over chosen j of κ(xᵢ, xⱼ)."""

from __future__ import annotations

import numpy as np

from coresift.clustering.space import pieces_of
from coresift.engine import Workers
from coresift.facility.kernel import Kernel, Tiles
from coresift.progress import Progress
from coresift.types import Bools, Floats, Ints, Singles

# How many candidates are kept exact between two looks at the others, where κ is computed and not stored.
AT_HAND = 1024
# About how many values a tile has, so that it stays in a core's second-level cache.
TILE = 1 << 18
# Fewer values than this are not worth other threads.
ALONE = 1 << 20
# What a row's coverage rises by less than this, and this much of every rise, does not count: it is within rounding.
LEAST = np.float32(2e-6)
# Gains are kept by subtraction, which loses digits; once the largest is this part of what it was, they are measured.
WORN = 1 / 16


class Greedy:
    """Every row's coverage so far, and for every candidate a bound on what it would add.

    What a candidate adds only falls as others are chosen, so old gains bound new ones: the next choice comes from the
    candidates with the largest gains, kept exact, as long as none of the others' old gains is larger. `importance` (u)
    and `covered` have an entry per row; `covered` is what earlier choices give, and is changed.
    """

    def __init__(
        self, kernel: Kernel, importance: Singles, free: Bools, covered: Singles, workers: Workers, *, at_hand: int
    ) -> None:
        self._kernel, self._importance, self._workers = kernel, importance, workers
        self._rows = np.flatnonzero(importance > 0)
        self._everyone, self._covered, self._at_hand = kernel.columns(None), covered, at_hand
        self._gains = np.where(free, np.inf, -np.inf)

    def choose(self, count: int, progress: Progress | None = None) -> tuple[Ints, Floats]:
        """Return at most `count` further choices in order, and what each added; fewer where nothing is left to add."""
        progress = progress or Progress()
        chosen: list[int] = []
        added: list[float] = []
        if self._gains.size > self._at_hand:
            self._measure_all()
        while len(chosen) < count:
            ids, bound = self._largest()
            tiles = self._kernel.columns(None if ids.size == self._gains.size else ids)
            gains = np.where(np.isneginf(self._gains[ids]), -np.inf, self._measure(tiles, ids.size))
            worn = WORN * gains.max()
            before = len(chosen)
            while len(chosen) < count:
                at = int(gains.argmax())
                if gains[at] < max(bound, worn) or gains[at] <= 0:
                    break
                chosen.append(int(ids[at]))
                added.append(float(gains[at]))
                gains[at] = -np.inf
                self._cover(int(ids[at]), tiles, gains)
                progress.advance(1)
            self._gains[ids] = gains
            if len(chosen) == before and bound <= 0:
                break
        return np.array(chosen, np.int64), np.array(added)

    def _largest(self) -> tuple[Ints, float]:
        """Return the candidates with the largest bounds, and the others' largest bound."""
        others = self._gains.size - self._at_hand - 1
        if others < 0:
            return np.arange(self._gains.size), -np.inf
        order = np.argpartition(self._gains, others)[others:]
        return np.sort(order[1:]), float(self._gains[order[0]])

    def _measure_all(self) -> None:
        """Bound every candidate's gain by what it is now."""
        for ids in pieces_of(np.flatnonzero(self._gains > -np.inf), AT_HAND):
            self._gains[ids] = self._measure(self._kernel.columns(ids), ids.size)

    def _measure(self, tiles: Tiles, width: int) -> Floats:
        """Return what each of `width` columns would add now."""
        return self._total(tiles, width, self._rows, self._covered[self._rows] + LEAST, None)

    def _cover(self, choice: int, tiles: Tiles, gains: Floats) -> None:
        """Let the rows have one more choice, and take off what the columns can no longer add."""
        values = self._everyone(np.array([choice]))[0]
        moved = self._rows[values[self._rows] > self._covered[self._rows] + LEAST]
        before = self._covered[moved]
        self._covered[moved] = values[moved]
        gains -= self._total(tiles, gains.size, moved, before + LEAST, values[moved] - before)

    def _total(self, tiles: Tiles, width: int, rows: Ints, floor: Singles, caps: Singles | None) -> Floats:
        """Return for each column Σ over rows of u·(κ − floor), each at least 0 and at most its cap."""
        importance = self._importance[rows]

        def part(some: Ints) -> Singles:
            values = tiles(rows[some])
            values -= floor[some, None]
            np.maximum(values, 0, out=values)
            if caps is not None:
                np.minimum(values, caps[some, None], out=values)
            return importance[some] @ values

        pieces = pieces_of(np.arange(rows.size), max(16, TILE // width))
        alone = rows.size * width < ALONE
        total = np.zeros(width)
        for sums in map(part, pieces) if alone else self._workers.each(pieces, part):
            total += sums
        return total
