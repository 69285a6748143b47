"""The pairs that matter to facility location, once they are few: candidates closer than a row's nearest choice."""

from __future__ import annotations

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
TILE_CANDIDATES, TILE = 64, 1024


class Pairs:
    """For every candidate the rows that are closer to it than to any choice, and by how much, when this is made.

    Rows only come closer to their nearest choice, so no pair that is not here can matter later. `gains` is what each
    candidate would gain at first.
    """

    def __init__(self, candidates: Singles, lines: Singles, away: Singles, workers: Workers) -> None:
        """Find all pairs: one product of all candidates with all rows."""
        pieces = [slice(start, start + TILE_CANDIDATES) for start in range(0, len(candidates), TILE_CANDIDATES)]
        found = list(workers.each(pieces, lambda piece: _positive(candidates[piece], lines)))
        ends = np.cumsum(np.concatenate([counts for counts, _, _ in found]))
        self._bounds = np.concatenate([[0], ends])
        self._rows: Numbers = np.concatenate([rows for _, rows, _ in found])
        self._closer: Singles = np.concatenate([closer for _, _, closer in found])
        self._away = away.copy()
        self.gains = _sums(self._closer, np.diff(self._bounds))

    def measure(self, ids: Ints, away: Singles) -> Floats:
        """Return what these candidates would gain, now that rows are so far away from their nearest choice."""
        pieces = [slice(start, end) for start, end in zip(self._bounds[ids], self._bounds[ids + 1], strict=True)]
        rows = np.concatenate([self._rows[piece] for piece in pieces])
        closer = np.concatenate([self._closer[piece] for piece in pieces])
        closer -= (self._away - away).take(rows)
        np.maximum(closer, 0, out=closer)
        return _sums(closer, self._bounds[ids + 1] - self._bounds[ids])


def few_enough(candidates: Singles, lines: Singles) -> bool:
    """Say from some evenly spread candidates whether all pairs can be listed."""
    spread = np.linspace(0, len(candidates) - 1, min(LOOKED_AT, len(candidates))).round().astype(np.int64)
    pieces = np.array_split(candidates[spread], max(1, spread.size // TILE_CANDIDATES))
    seen = sum(float(_positive(piece, lines)[0].sum()) for piece in pieces)
    return seen / spread.size <= min(PAIRS_A_CANDIDATE, MOST_PAIRS / len(candidates))


def _positive(candidates: Singles, lines: Singles) -> tuple[Ints, Numbers, Singles]:
    """Return how many rows are closer to each candidate, which they are, and by how much, one candidate's by one."""
    closer = np.empty((len(candidates), len(lines)), np.float32)
    for start in range(0, len(lines), TILE):
        np.matmul(candidates, lines[start : start + TILE].T, out=closer[:, start : start + TILE])
    place = np.flatnonzero(closer > 0)
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
