"""The pairs that matter to facility location, once they are few: candidates closer than a row's nearest choice."""

from __future__ import annotations

import threading
from dataclasses import dataclass
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
TILE_CANDIDATES, TILE = 256, 1024


class Pairs:
    """For every candidate the rows that are closer to it than to any choice, and by how much they were at first.

    Rows only come closer to their nearest choice, so a pair that is not here will never matter. `away` is how far each
    row is from its nearest choice. Candidates are in pieces with arrays of their own: to join them would take as much
    memory again.
    """

    def __init__(self, candidates: Singles, lines: Singles, away: Singles, workers: Workers) -> None:
        """Find all pairs: one product of all candidates with all rows."""
        self._workers, buffers = workers, threading.local()
        pieces = [slice(start, start + TILE_CANDIDATES) for start in range(0, len(candidates), TILE_CANDIDATES)]
        found = workers.each(pieces, lambda piece: _positive(candidates[piece], lines, buffers))
        self._pieces = list(found)
        self._first, self.away = away.copy(), away.copy()

    def measure(self, ids: Ints) -> Floats:
        """Return what these candidates would gain."""
        found = [self._pieces[one // TILE_CANDIDATES].of(one % TILE_CANDIDATES) for one in ids.tolist()]
        rows, closer = (np.concatenate([part[side] for part in found]) for side in (0, 1))
        closer -= (self._first - self.away).take(rows)
        np.maximum(closer, 0, out=closer)
        return _sums(closer, np.array([part[0].size for part in found]))

    def measure_all(self) -> Floats:
        """Return what all candidates would gain, and forget the pairs that no longer matter."""
        came = self._first - self.away
        if came.any():
            self._pieces = list(self._workers.each(self._pieces, lambda piece: piece.without(came)))
        return np.concatenate(list(self._workers.each(self._pieces, lambda piece: piece.sums(came))))

    def choose(self, one: int) -> None:
        """Let the rows that are closer to this candidate have it as their nearest choice."""
        rows, closer = self._pieces[one // TILE_CANDIDATES].of(one % TILE_CANDIDATES)
        self.away[rows] = np.minimum(self.away[rows], np.maximum(self._first[rows] - closer, 0))


@dataclass(frozen=True)
class Piece:
    """The pairs of a few candidates, one candidate's by one; the i-th has those from `bounds[i]` to `bounds[i + 1]`."""

    bounds: Ints
    rows: Numbers
    closer: Singles

    @property
    def counts(self) -> Ints:
        """How many pairs each candidate has."""
        return np.diff(self.bounds)

    def of(self, one: int) -> tuple[Numbers, Singles]:
        """Return one candidate's rows, and how much closer they were."""
        here = slice(self.bounds[one], self.bounds[one + 1])
        return self.rows[here], self.closer[here]

    def without(self, came: Singles) -> Piece:
        """Return the pairs of rows that have come closer to their nearest choice by less than that."""
        alive = np.flatnonzero(self.closer > came.take(self.rows))
        return Piece(np.searchsorted(alive, self.bounds), self.rows.take(alive), self.closer.take(alive))

    def sums(self, came: Singles) -> Floats:
        """Return by how much closer rows would come in all, one sum a candidate, if all are closer than they came."""
        return _sums(self.closer - came.take(self.rows), self.counts)


def few_enough(candidates: Singles, lines: Singles) -> bool:
    """Say from some evenly spread candidates whether all pairs can be listed."""
    spread = np.linspace(0, len(candidates) - 1, min(LOOKED_AT, len(candidates))).round().astype(np.int64)
    pieces = [spread[start : start + TILE_CANDIDATES] for start in range(0, spread.size, TILE_CANDIDATES)]
    buffers = threading.local()
    seen = sum(float(_positive(candidates[piece], lines, buffers).rows.size) for piece in pieces)
    return seen / spread.size <= min(PAIRS_A_CANDIDATE, MOST_PAIRS / len(candidates))


def _positive(candidates: Singles, lines: Singles, buffers: threading.local) -> Piece:
    """Return the pairs of some candidates."""
    if not hasattr(buffers, "closer"):
        buffers.closer = np.empty((TILE_CANDIDATES, len(lines)), np.float32)
        buffers.positive = np.empty((TILE_CANDIDATES, len(lines)), np.bool_)
    closer, positive = buffers.closer[: len(candidates)], buffers.positive[: len(candidates)]
    for start in range(0, len(lines), TILE):
        here = slice(start, start + TILE)
        np.matmul(candidates, lines[here].T, out=closer[:, here])
        np.greater(closer[:, here], 0, out=positive[:, here])
    place = np.flatnonzero(positive)
    borders = np.arange(len(candidates) + 1) * len(lines)
    bounds = np.searchsorted(place, borders)
    values = closer.ravel().take(place)
    place -= np.repeat(borders[:-1], np.diff(bounds))
    return Piece(bounds, place.astype(np.int32), values)


def _sums(values: Singles, counts: Ints) -> Floats:
    """Return the sums of runs of values, so long each."""
    some = np.flatnonzero(counts)
    sums = np.zeros(counts.size)
    if some.size:
        sums[some] = np.add.reduceat(values, (np.cumsum(counts) - counts)[some])
    return sums
