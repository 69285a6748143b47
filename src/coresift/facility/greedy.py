"""Greedily choose the candidates that add the most to Σᵢ uᵢ·max over chosen j of κ(xᵢ, xⱼ)."""

from __future__ import annotations

import numpy as np

from coresift.clustering.space import pieces_of
from coresift.engine import Workers
from coresift.facility.kernel import Kernel, Tiles
from coresift.progress import Progress
from coresift.types import Bools, Floats, Ints, Singles

# How many candidates are kept up to date between two passes over all, if κ is computed and not stored.
AT_HAND = 1024
# About how many values a tile has, so that it fits in a core's L2 cache.
TILE = 1 << 18
# Work on fewer values than this stays in one thread.
SINGLE_THREAD = 1 << 20
# Every increase of a row's coverage counts minus this, since smaller increases are rounding errors.
ROUNDING = np.float32(2e-6)
# Gains are updated by subtraction, which loses digits; they are recomputed once the largest falls to this fraction.
RECOMPUTE_BELOW = 1 / 16


class Greedy:
    """Greedy selection that knows every row's coverage so far.

    `importance` (u) and `covered` have an entry per row. `covered` starts as the coverage by earlier choices, and is
    modified.
    """

    def __init__(self, kernel: Kernel, importance: Singles, covered: Singles, workers: Workers) -> None:
        self._kernel, self._importance, self._workers = kernel, importance, workers
        self._rows = np.flatnonzero(importance > 0)
        self._all_columns, self._covered = kernel.columns(None), covered

    def choose(self, free: Bools, count: int, progress: Progress | None = None) -> tuple[Ints, Floats]:
        """Return up to `count` choices in order, and the gain of each; fewer if nothing is left to gain."""
        chosen, added, open_ones = np.zeros(0, np.int64), np.zeros(0), free.copy()
        while chosen.size < count:
            gains = np.where(open_ones, self._measure(self._all_columns, free.size), -np.inf)
            ids, more = self._choose(np.arange(free.size), gains, self._all_columns, 0.0, count - chosen.size, progress)
            chosen, added = np.concatenate([chosen, ids]), np.concatenate([added, more])
            open_ones[ids] = False
            if not ids.size:
                break
        return chosen, added

    def choose_among_largest(self, gains: Floats, count: int, progress: Progress | None = None) -> tuple[Ints, Floats]:
        """Return as many choices as are certain, given each candidate's gain now (−∞ if it must not be chosen).

        A candidate's gain only falls as others are chosen, so old gains are upper bounds. Only those of the candidates
        with the largest gains are kept up to date.
        """
        others = gains.size - AT_HAND - 1
        order = np.argpartition(gains, others)[others:] if others >= 0 else np.arange(-1, gains.size)
        ids, bound = np.sort(order[1:]), float(gains[order[0]]) if others >= 0 else 0.0
        return self._choose(ids, gains[ids], self._kernel.columns(ids), bound, count, progress)

    def _choose(
        self, ids: Ints, gains: Floats, tiles: Tiles, bound: float, count: int, progress: Progress | None
    ) -> tuple[Ints, Floats]:
        """Choose among candidates until the largest gain falls below the bound, or is too imprecise."""
        chosen, added = np.empty(count, np.int64), np.empty(count)
        least = max(bound, RECOMPUTE_BELOW * gains.max())
        for number in range(count):
            best = int(gains.argmax())
            if gains[best] < least or gains[best] <= 0:
                return chosen[:number], added[:number]
            chosen[number], added[number] = ids[best], gains[best]
            gains[best] = -np.inf
            self._cover(int(ids[best]), tiles, gains)
            if progress is not None:
                progress.advance(1)
        return chosen, added

    def _measure(self, tiles: Tiles, width: int) -> Floats:
        """Return the current gain of each of `width` columns."""
        return self._total(tiles, width, self._rows, self._covered[self._rows] + ROUNDING, None)

    def _cover(self, choice: int, tiles: Tiles, gains: Floats) -> None:
        """Update the rows' coverage with one more choice, and subtract what the columns can no longer gain."""
        values = self._all_columns(np.array([choice]))[0]
        improved = self._rows[values[self._rows] > self._covered[self._rows] + ROUNDING]
        before = self._covered[improved]
        self._covered[improved] = values[improved]
        gains -= self._total(tiles, gains.size, improved, before + ROUNDING, values[improved] - before)

    def _total(self, tiles: Tiles, width: int, rows: Ints, floor: Singles, caps: Singles | None) -> Floats:
        """Return for each column Σ over rows of u·(κ − floor), each difference clipped to between 0 and its cap."""
        importance = self._importance[rows]

        def piece_sums(piece: Ints) -> Singles:
            values = tiles(rows[piece])
            values -= floor[piece, None]
            np.maximum(values, 0, out=values)
            if caps is not None:
                np.minimum(values, caps[piece, None], out=values)
            return importance[piece] @ values

        pieces = pieces_of(np.arange(rows.size), max(16, TILE // width))
        single_thread = rows.size * width < SINGLE_THREAD
        total = np.zeros(width)
        for sums in map(piece_sums, pieces) if single_thread else self._workers.each(pieces, piece_sums):
            total += sums
        return total
