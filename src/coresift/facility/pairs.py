"""The exact greedy choice from a list of pairs: only pairs whose κ exceeds the row's coverage can change the sum.

Once a few rows are chosen, such pairs are few. They are found by one pass over all pairs, and then every candidate's
gain is known, and stays known: a choice changes the gains of those candidates only that share a row with it.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from coresift.engine import Workers
from coresift.facility.greedy import ROUNDING, Greedy
from coresift.facility.kernel import Computed
from coresift.progress import Progress
from coresift.types import Bools, Floats, Ints, Singles

# The most pairs that are listed, with 16 bytes each.
MOST_PAIRS = 1 << 24
# How many rows their number is estimated from.
SAMPLED = 256
# κ is the same both ways, so one tile of so many rows and columns is used for both.
SIDE = 256
# Gains are updated by subtraction, which loses digits; they are measured again once the largest falls to this fraction.
RECOMPUTE_BELOW = 1e-6

Tile: TypeAlias = tuple[slice, slice]


def choose_exactly(
    kernel: Computed,
    importance: Singles,
    free: Bools,
    covered: Singles,
    count: int,
    workers: Workers,
    progress: Progress,
) -> tuple[Ints, Floats]:
    """Return up to `count` greedy choices and the gain of each; `covered`, each row's coverage so far, is modified.

    As long as there are too many pairs to list, all gains are measured, and those of the best candidates are kept up to
    date until another one's earlier gain, which is an upper bound, is larger.
    """
    chosen, added = np.zeros(0, np.int64), np.zeros(0)
    while chosen.size < count:
        left, room = free.copy(), count - chosen.size
        left[chosen] = False
        if count_pairs(kernel, covered) <= MOST_PAIRS:
            ids, gains = Pairs(kernel, importance, left, covered, workers).choose(room, progress)
            return np.concatenate([chosen, ids]), np.concatenate([added, gains])
        gains = np.where(left, measure_gains(kernel, importance, covered, workers), -np.inf)
        ids, gains = Greedy(kernel, importance, covered, workers).choose_among_largest(gains, room, progress)
        if not ids.size:
            break
        chosen, added = np.concatenate([chosen, ids]), np.concatenate([added, gains])
    return chosen, added


def measure_gains(kernel: Computed, importance: Singles, covered: Singles, workers: Workers) -> Floats:
    """Return what each candidate adds to the sum now."""
    floor, nothing = covered + ROUNDING, not covered.any()

    def sums(tile: Tile) -> tuple[Singles, Singles]:
        rows, columns = tile
        values = kernel.exponents(rows, columns)
        np.exp(values, out=values)
        more = values - floor[rows, None]
        np.maximum(more, 0, out=more)
        if not nothing:
            values -= floor[columns]
            np.maximum(values, 0, out=values)
        return importance[rows] @ more, (more if nothing else values) @ importance[columns]

    gains, tiles = np.zeros(kernel.n), _tiles(kernel.n)
    for (rows, columns), (across, down) in zip(tiles, workers.each(tiles, sums), strict=True):
        gains[columns] += across
        if rows != columns:
            gains[rows] += down
    return gains


def count_pairs(kernel: Computed, covered: Singles) -> float:
    """Return about how many pairs of a row and a candidate have κ above the row's coverage, from a few rows."""
    some = np.unique(np.linspace(0, kernel.n - 1, SAMPLED).astype(np.int64))
    above = kernel.exponents(some, slice(None)) > np.log(covered[some] + ROUNDING)[:, None]
    return float(above.mean()) * kernel.n**2


class Pairs:
    """Pairs of a row and a candidate with κ above the row's coverage, and each candidate's gain.

    `importance` (u) and `covered` have an entry per row; `covered` is modified by each choice.
    """

    def __init__(self, kernel: Computed, importance: Singles, free: Bools, covered: Singles, workers: Workers) -> None:
        from scipy.sparse import coo_array

        self._importance, self._covered, self._free = importance, covered, free.copy()
        floor = np.where(importance > 0, np.log(covered + ROUNDING), np.float32(np.inf))

        def find(tile: Tile) -> list[tuple[Singles, Ints, Ints]]:
            rows, columns = tile
            exponents = kernel.exponents(rows, columns)
            found = [_find(exponents, exponents > floor[rows, None], rows, columns)]
            if rows != columns:
                values, candidate, row = _find(exponents, exponents > floor[columns], rows, columns)
                found.append((values, row, candidate))
            return found

        found = [some for both in workers.each(_tiles(kernel.n), find) for some in both]
        values, rows, candidates = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        listed = coo_array((values, (rows, candidates)), shape=(kernel.n, kernel.n))
        listed.has_canonical_format = True  # no pair is listed twice
        self._by_row = listed.tocsr()
        self._by_candidate = self._by_row.tocsc()
        self._gains = self._measure()

    def choose(self, count: int, progress: Progress) -> tuple[Ints, Floats]:
        """Return up to `count` choices in order, and the gain of each; fewer if nothing is left to gain."""
        chosen, added = np.empty(count, np.int64), np.empty(count)
        reference = self._gains.max()
        for number in range(count):
            if self._gains.max() < RECOMPUTE_BELOW * reference:
                self._gains = self._measure()
                reference = self._gains.max()
            best = int(self._gains.argmax())
            if self._gains[best] <= 0:
                return chosen[:number], added[:number]
            chosen[number], added[number] = best, self._gains[best]
            self._cover(best)
            self._gains[best], self._free[best] = -np.inf, False
            progress.advance(1)
        return chosen, added

    def _measure(self) -> Floats:
        """Return the current gain of each candidate, −∞ if it must not be chosen."""
        rows = np.repeat(np.arange(self._free.size, dtype=np.int32), np.diff(self._by_row.indptr))
        more = np.maximum(self._by_row.data - (self._covered + ROUNDING)[rows], 0) * self._importance[rows]
        return np.where(self._free, np.bincount(self._by_row.indices, more, self._free.size), -np.inf)

    def _cover(self, choice: int) -> None:
        """Update the rows' coverage with one more choice, and subtract what the candidates can no longer gain."""
        here = slice(*self._by_candidate.indptr[choice : choice + 2])
        rows, values = self._by_candidate.indices[here], self._by_candidate.data[here]
        improved = values > self._covered[rows] + ROUNDING
        rows, values = rows[improved], values[improved]
        before = self._covered[rows]
        self._covered[rows] = values
        starts = self._by_row.indptr[rows]
        lengths = self._by_row.indptr[rows + 1] - starts
        ends = np.cumsum(lengths, dtype=np.int32)
        places = np.repeat(starts - ends + lengths, lengths)
        places += np.arange(places.size, dtype=np.int32)
        # What lies between the old coverage and the new one, up to κ.
        less = np.minimum(self._by_row.data[places], np.repeat(values + ROUNDING, lengths))
        less -= np.repeat(before + ROUNDING, lengths)
        np.maximum(less, 0, out=less)
        less *= np.repeat(self._importance[rows], lengths)
        self._gains -= np.bincount(self._by_row.indices[places], less, self._gains.size)


def _find(exponents: Singles, wanted: Bools, rows: slice, columns: slice) -> tuple[Singles, Ints, Ints]:
    """Return κ, the row and the column of the wanted pairs of a tile."""
    places = np.flatnonzero(wanted)
    row, column = np.divmod(places.astype(np.int32), np.int32(exponents.shape[1]))
    values = np.exp(np.minimum(exponents.ravel()[places], 0))
    return values, row + np.int32(rows.start), column + np.int32(columns.start)


def _tiles(n: int) -> list[Tile]:
    """Return pairs of ranges of rows, so that every pair of rows is in one of them, either way round."""
    ranges = [slice(start, min(start + SIDE, n)) for start in range(0, n, SIDE)]
    return [(rows, columns) for place, rows in enumerate(ranges) for columns in ranges[place:]]
