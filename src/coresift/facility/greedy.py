"""Greedily choose the candidates that add the most to Σᵢ uᵢ·max over chosen j of κ(xᵢ, xⱼ)."""

from __future__ import annotations

import numpy as np

from coresift.clustering.space import pieces_of
from coresift.engine import Workers
from coresift.facility.kernel import Stored
from coresift.progress import Progress
from coresift.types import Bools, Floats, Ints, Singles

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

    def __init__(self, kernel: Stored, importance: Singles, covered: Singles, workers: Workers) -> None:
        self._kernel, self._importance, self._covered, self._workers = kernel, importance, covered, workers
        self._rows = np.flatnonzero(importance > 0)

    def choose(self, free: Bools, count: int, progress: Progress | None = None) -> tuple[Ints, Floats]:
        """Return up to `count` choices in order, and the gain of each; fewer if nothing is left to gain."""
        chosen, added, open_ones = np.zeros(0, np.int64), np.zeros(0), free.copy()
        while chosen.size < count:
            gains = np.where(open_ones, self._measure(), -np.inf)
            ids, more = self._choose(gains, count - chosen.size, progress)
            chosen, added = np.concatenate([chosen, ids]), np.concatenate([added, more])
            open_ones[ids] = False
            if not ids.size:
                break
        return chosen, added

    def _choose(self, gains: Floats, count: int, progress: Progress | None) -> tuple[Ints, Floats]:
        """Choose until the largest gain is too imprecise."""
        chosen, added = np.empty(count, np.int64), np.empty(count)
        least = RECOMPUTE_BELOW * gains.max()
        for number in range(count):
            best = int(gains.argmax())
            if gains[best] < least or gains[best] <= 0:
                return chosen[:number], added[:number]
            chosen[number], added[number] = best, gains[best]
            gains[best] = -np.inf
            self._cover(best, gains)
            if progress is not None:
                progress.advance(1)
        return chosen, added

    def _measure(self) -> Floats:
        """Return the current gain of each candidate."""
        return self._total(self._rows, self._covered[self._rows] + ROUNDING, None)

    def _cover(self, choice: int, gains: Floats) -> None:
        """Update the rows' coverage with one more choice, and subtract what the candidates can no longer gain."""
        values = self._kernel.values[choice]
        improved = self._rows[values[self._rows] > self._covered[self._rows] + ROUNDING]
        before = self._covered[improved]
        self._covered[improved] = values[improved]
        gains -= self._total(improved, before + ROUNDING, values[improved] - before)

    def _total(self, rows: Ints, floor: Singles, caps: Singles | None) -> Floats:
        """Return for each candidate Σ over rows of u·(κ − floor), each difference clipped to between 0 and its cap."""
        importance, width = self._importance[rows], len(self._kernel.values)

        def piece_sums(piece: Ints) -> Singles:
            values = self._kernel.values.take(rows[piece], axis=0)
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
