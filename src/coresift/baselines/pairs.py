"""The pairs that matter to facility location, once they are few: candidates closer than a row's nearest choice."""

from __future__ import annotations

import threading
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from coresift.engine import Workers
from coresift.types import Floats, Ints, Singles

Numbers: TypeAlias = NDArray[np.int32]

# How many pairs are listed at most, a candidate and in all: 8 bytes each.
PAIRS_A_CANDIDATE, MOST_PAIRS = 1536, 1 << 25
# How many candidates show whether pairs will be few enough, and how many candidates meet how many rows at a time.
LOOKED_AT = 256
TILE_CANDIDATES, TILE = 128, 1024


class Pairs:
    """For every candidate the rows that are closer to it than to any choice, and by how much they were at first.

    Rows only come closer to their nearest choice, so a pair that is not here will never matter. `gains` is what each
    candidate would gain at first, `away` how far each row is from its nearest choice.
    """

    def __init__(self, candidates: Singles, lines: Singles, away: Singles, workers: Workers) -> None:
        """Find all pairs: one product of all candidates with all rows."""
        pieces = [slice(start, start + TILE_CANDIDATES) for start in range(0, len(candidates), TILE_CANDIDATES)]
        buffers = threading.local()
        found = list(workers.each(pieces, lambda piece: _positive(candidates[piece], lines, buffers)))
        # Every piece keeps its own arrays: to join them would take as much memory again.
        self._rows, self._closer = [rows for _, rows, _ in found], [closer for _, _, closer in found]
        self._starts = np.concatenate([np.cumsum(counts) - counts for counts, _, _ in found])
        self._ends = self._starts + np.concatenate([counts for counts, _, _ in found])
        self.gains = np.concatenate([_sums(closer, counts) for counts, _, closer in found])
        self._first, self.away = away.copy(), away.copy()

    def measure(self, ids: Ints) -> Floats:
        """Return what these candidates would gain."""
        found = [self._of(one) for one in ids.tolist()]
        rows, closer = (np.concatenate([part[side] for part in found]) for side in (0, 1))
        closer -= (self._first - self.away).take(rows)
        np.maximum(closer, 0, out=closer)
        return _sums(closer, self._ends[ids] - self._starts[ids])

    def choose(self, one: int) -> None:
        """Let the rows that are closer to this candidate have it as their nearest choice."""
        rows, closer = self._of(one)
        self.away[rows] = np.minimum(self.away[rows], np.maximum(self._first[rows] - closer, 0))

    def _of(self, one: int) -> tuple[Numbers, Singles]:
        piece, here = one // TILE_CANDIDATES, slice(self._starts[one], self._ends[one])
        return self._rows[piece][here], self._closer[piece][here]


def few_enough(candidates: Singles, lines: Singles) -> bool:
    """Say from some evenly spread candidates whether all pairs can be listed."""
    spread = np.linspace(0, len(candidates) - 1, min(LOOKED_AT, len(candidates))).round().astype(np.int64)
    pieces = [spread[start : start + TILE_CANDIDATES] for start in range(0, spread.size, TILE_CANDIDATES)]
    buffers = threading.local()
    seen = sum(float(_positive(candidates[piece], lines, buffers)[0].sum()) for piece in pieces)
    return seen / spread.size <= min(PAIRS_A_CANDIDATE, MOST_PAIRS / len(candidates))


def _positive(candidates: Singles, lines: Singles, buffers: threading.local) -> tuple[Ints, Numbers, Singles]:
    """Return how many rows are closer to each candidate, which they are, and by how much, one candidate's by one."""
    if not hasattr(buffers, "closer"):
        buffers.closer = np.empty((TILE_CANDIDATES, len(lines)), np.float32)
        buffers.positive = np.empty((TILE_CANDIDATES, len(lines)), np.bool_)
    closer, positive = buffers.closer[: len(candidates)], buffers.positive[: len(candidates)]
    for start in range(0, len(lines), TILE):
        np.matmul(candidates, lines[start : start + TILE].T, out=closer[:, start : start + TILE])
    place = np.flatnonzero(np.greater(closer, 0, out=positive))
    borders = np.arange(len(candidates) + 1) * len(lines)
    counts = np.diff(np.searchsorted(place, borders))
    values = closer.ravel().take(place)
    place -= np.repeat(borders[:-1], counts)
    return counts, place.astype(np.int32), values


def _sums(values: Singles, counts: Ints) -> Floats:
    """Return the sums of runs of values, so long each."""
    some = np.flatnonzero(counts)
    sums = np.zeros(counts.size)
    if some.size:
        sums[some] = np.add.reduceat(values, (np.cumsum(counts) - counts)[some])
    return sums
