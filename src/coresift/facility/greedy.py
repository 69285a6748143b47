"""Greedily choose the candidates that add the most to Σᵢ uᵢ·max over chosen j of κ(xᵢ, xⱼ)."""

from __future__ import annotations

import numpy as np

from coresift.clustering.space import pieces_of
from coresift.engine import Workers
from coresift.facility.kernel import Kernel, Tiles
from coresift.progress import Progress
from coresift.types import Bools, Floats, Ints, Singles

# How many candidates have exact gains between two passes over the others, if κ is computed and not stored.
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
    """Lazy greedy selection: every row's coverage so far, and an upper bound on each candidate's gain.

    A candidate's gain only falls as others are chosen, so old gains are upper bounds: the next choice comes from the
    candidates with the largest gains, which stay exact, unless another candidate's old gain is larger. `importance`
    (u) and `covered` have an entry per row; `covered` starts as the coverage by earlier choices, and is modified.
    """

    def __init__(
        self, kernel: Kernel, importance: Singles, free: Bools, covered: Singles, workers: Workers, *, at_hand: int
    ) -> None:
        self._kernel, self._importance, self._workers = kernel, importance, workers
        self._rows = np.flatnonzero(importance > 0)
        self._all_columns, self._covered, self._at_hand = kernel.columns(None), covered, at_hand
        self._gains = np.where(free, np.inf, -np.inf)

    def choose(self, count: int, progress: Progress | None = None) -> tuple[Ints, Floats]:
        """Return up to `count` further choices in order, and the gain of each; fewer if nothing is left to gain."""
        progress = progress or Progress()
        chosen: list[int] = []
        added: list[float] = []
        if self._gains.size > self._at_hand:
            self._measure_all()
        while len(chosen) < count:
            ids, bound = self._largest()
            tiles = self._kernel.columns(None if ids.size == self._gains.size else ids)
            gains = np.where(np.isneginf(self._gains[ids]), -np.inf, self._measure(tiles, ids.size))
            recompute_below = RECOMPUTE_BELOW * gains.max()
            chosen_before = len(chosen)
            while len(chosen) < count:
                best = int(gains.argmax())
                if gains[best] < max(bound, recompute_below) or gains[best] <= 0:
                    break
                chosen.append(int(ids[best]))
                added.append(float(gains[best]))
                gains[best] = -np.inf
                self._cover(int(ids[best]), tiles, gains)
                progress.advance(1)
            self._gains[ids] = gains
            if len(chosen) == chosen_before and bound <= 0:
                break
        return np.array(chosen, np.int64), np.array(added)

    def _largest(self) -> tuple[Ints, float]:
        """Return the candidates with the largest bounds, and the largest bound of the others."""
        others = self._gains.size - self._at_hand - 1
        if others < 0:
            return np.arange(self._gains.size), -np.inf
        order = np.argpartition(self._gains, others)[others:]
        return np.sort(order[1:]), float(self._gains[order[0]])

    def _measure_all(self) -> None:
        """Set every candidate's bound to its current gain."""
        for ids in pieces_of(np.flatnonzero(self._gains > -np.inf), AT_HAND):
            self._gains[ids] = self._measure(self._kernel.columns(ids), ids.size)

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
