"""The exact greedy choice from a list of pairs: only pairs whose κ exceeds the row's coverage can change the sum.

Once a few rows are chosen, such pairs are few. They are found by one pass over all pairs, and then every candidate's
gain is known, and stays known: a choice changes the gains of those candidates only that share a row with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from coresift.clustering.nearest import Labels, order_by
from coresift.engine import Workers
from coresift.facility.greedy import ROUNDING, Greedy
from coresift.facility.kernel import Computed
from coresift.progress import Progress
from coresift.types import Bools, Floats, Ints, Singles

# The most pairs that are listed, with 8 bytes each.
MOST_PAIRS = 1 << 24
# How many rows their number is estimated from, and the first choice is guessed from, and how many candidates are tried.
SAMPLED, GUESSED = 256, 64
# Tiles of so many rows and columns fit into a core's cache. Where κ is needed both ways, they are square.
SIDE, WIDTH = 256, 1024
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
    chosen, added, ahead = np.zeros(0, np.int64), np.zeros(0), None
    guess = guess_first(kernel, importance, free) if not covered.any() else -1
    while chosen.size < count:
        left, room = free.copy(), count - chosen.size
        left[chosen] = False
        if count_pairs(kernel, covered) <= MOST_PAIRS:
            ids, gains = Pairs(kernel, importance, left, covered, workers).choose(room, progress)
            return np.concatenate([chosen, ids]), np.concatenate([added, gains])
        if not chosen.size and guess >= 0:
            both = [covered, kernel.columns(None)(np.array([guess]))[0]]
            gains, ahead = measure_gains(kernel, importance, both, workers)
        elif ahead is None or chosen.tolist() != [guess]:
            (gains,) = measure_gains(kernel, importance, [covered], workers)
        else:
            gains = ahead
        gains = np.where(left, gains, -np.inf)
        ids, gains = Greedy(kernel, importance, covered, workers).choose_among_largest(gains, room, progress)
        if not ids.size:
            break
        chosen, added = np.concatenate([chosen, ids]), np.concatenate([added, gains])
    return chosen, added


def guess_first(kernel: Computed, importance: Singles, free: Bools) -> int:
    """Return the candidate that probably adds the most if nothing is covered: the best of those that add the most to a
    few rows."""
    some = np.unique(np.linspace(0, kernel.n - 1, SAMPLED).astype(np.int64))
    sums = np.where(free, importance[some] @ np.exp(kernel.exponents(some, slice(None))), -np.inf)
    best = np.argsort(-sums, kind="stable")[:GUESSED]
    best = best[free[best]]
    return int(best[(importance @ kernel.columns(best)(slice(None))).argmax()])


def measure_gains(
    kernel: Computed, importance: Singles, coverages: Sequence[Singles], workers: Workers
) -> list[Floats]:
    """Return what each candidate adds to the sum, given how well each row is covered: for each of several coverages."""
    floors = [(coverage + ROUNDING, coverage.any()) for coverage in coverages]

    def sums(tile: Tile) -> list[tuple[Singles, Singles]]:
        rows, columns = tile
        values = kernel.exponents(rows, columns)
        np.exp(values, out=values)
        found = []
        for floor, varies in floors:
            across = values - floor[rows, None]
            np.maximum(across, 0, out=across)
            down = across
            if varies:
                down = values - floor[columns]
                np.maximum(down, 0, out=down)
            found.append((importance[rows] @ across, down @ importance[columns]))
        return found

    tiles, gains = _tiles(kernel.n), [np.zeros(kernel.n) for _ in coverages]
    for (rows, columns), found in zip(tiles, workers.each(tiles, sums), strict=True):
        for own, (across, down) in zip(gains, found, strict=True):
            own[columns] += across
            if rows != columns:
                own[rows] += down
    return gains


def count_pairs(kernel: Computed, covered: Singles) -> float:
    """Return about how many pairs of a row and a candidate have κ above the row's coverage, from a few rows."""
    some = np.unique(np.linspace(0, kernel.n - 1, SAMPLED).astype(np.int64))
    above = kernel.exponents(some, slice(None)) > np.log(covered[some] + ROUNDING)[:, None]
    return float(above.mean()) * kernel.n**2


class Pairs:
    """For each row, the candidates with κ above its coverage; and each candidate's gain.

    `importance` (u) and `covered` have an entry per row; `covered` is modified by each choice.
    """

    def __init__(self, kernel: Computed, importance: Singles, free: Bools, covered: Singles, workers: Workers) -> None:
        self._importance, self._covered, self._free = importance, covered, free.copy()
        floor = np.where(importance > 0, np.log(covered + ROUNDING), np.float32(np.inf))

        def find(rows: slice) -> tuple[Singles, Labels, Ints]:
            tiles = [_above(kernel, rows, columns, floor) for columns in _ranges(kernel.n, WIDTH)]
            values, row, candidates = (np.concatenate(arrays) for arrays in zip(*tiles, strict=True))
            order = order_by(row)
            return values[order], candidates[order], np.bincount(row, minlength=len(floor[rows]))

        found = workers.each(_ranges(kernel.n, SIDE), find)
        self._values, self._candidates, lengths = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        self._starts = np.concatenate([[0], np.cumsum(lengths)])
        self._by_candidate = order_by(self._candidates)
        self._ends = np.cumsum(np.bincount(self._candidates, minlength=kernel.n))
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
        lengths = np.diff(self._starts)
        more = np.maximum(self._values - np.repeat(self._covered + ROUNDING, lengths), 0)
        more *= np.repeat(self._importance, lengths)
        return np.where(self._free, np.bincount(self._candidates, more, self._free.size), -np.inf)

    def _cover(self, choice: int) -> None:
        """Update the rows' coverage with one more choice, and subtract what the candidates can no longer gain."""
        places = self._by_candidate[self._ends[choice - 1] if choice else 0 : self._ends[choice]]
        rows, values = np.searchsorted(self._starts, places, side="right") - 1, self._values[places]
        improved = values > self._covered[rows] + ROUNDING
        rows, values = rows[improved], values[improved]
        self._gains -= self._between(rows, self._covered[rows], values)
        self._covered[rows] = values

    def _between(self, rows: Ints, low: Singles, high: Singles) -> Floats:
        """Return for each candidate Σ over rows of u·κ between these bounds."""
        lengths = self._starts[rows + 1] - self._starts[rows]
        places = np.repeat(self._starts[rows] - np.cumsum(lengths) + lengths, lengths)
        places += np.arange(places.size)
        values = np.minimum(self._values[places], np.repeat(high + ROUNDING, lengths))
        values -= np.repeat(low + ROUNDING, lengths)
        np.maximum(values, 0, out=values)
        values *= np.repeat(self._importance[rows], lengths)
        return np.asarray(np.bincount(self._candidates[places], values, self._free.size), np.float64)


def _above(kernel: Computed, rows: slice, columns: slice, floor: Singles) -> tuple[Singles, Labels, Labels]:
    """Return the pairs of a tile whose exponent is above the row's floor: κ, the row in the tile, and the candidate."""
    exponents = kernel.exponents(rows, columns)
    places = np.flatnonzero(exponents > floor[rows, None])
    row: Labels = places.astype(np.int32) // np.int32(exponents.shape[1])
    column = places.astype(np.int32) - row * np.int32(exponents.shape[1])
    return np.exp(np.minimum(exponents.ravel()[places], 0)), row, column + np.int32(columns.start)


def _tiles(n: int) -> list[Tile]:
    """Return pairs of ranges of rows, so that every pair of rows is in one of them, either way round."""
    ranges = _ranges(n, SIDE)
    return [(rows, columns) for place, rows in enumerate(ranges) for columns in ranges[place:]]


def _ranges(n: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]
