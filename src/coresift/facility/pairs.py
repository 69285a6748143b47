"""The greedy choice from a list of pairs: only pairs whose κ exceeds the row's coverage can change the sum.

While nothing is covered, that is every pair. So the first choices, one in 16, are those for a sample of the rows. Then
few pairs are left. One pass over all pairs lists them, so every candidate's gain is known, and it stays known: a choice
changes the gains of only those candidates that share a row with it.

For all rows, some of the first choices are not the best ones. So as many extra rows are chosen, and then the choices
that add the least are dropped. The sum is about that of the greedy choice, and often a little larger.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from coresift.clustering.nearest import Labels
from coresift.clustering.space import pieces_of
from coresift.engine import Workers
from coresift.facility.greedy import ROUNDING, Greedy
from coresift.facility.kernel import Computed, Stored
from coresift.facility.weakest import find_weakest
from coresift.progress import Progress
from coresift.types import Bools, Floats, Ints, Singles

# The most pairs that are listed, with 16 bytes each, and up to 60 while the list is made.
MOST_PAIRS = 12_000_000
# How many rows their number is estimated from.
ESTIMATED_FROM = 256
# One of so many choices is made for a sample; the most of these choices; sampled rows per choice, and the fewest.
SHARE, MOST_FIRST, SAMPLED_PER_CHOICE, SMALLEST_SAMPLE = 16, 128, 48, 2048
# Tiles of so many rows and columns fit into a core's cache.
SIDE = 512
# For how many rows gains are measured at a time.
MEASURED_ROWS = 1024
# Gains are updated by subtraction, which loses digits; they are measured again once the largest falls to this fraction.
RECOMPUTE_BELOW = 1e-6

# κ, row and later row of each pair, and κ of each row with itself.
Found: TypeAlias = tuple[Singles, Labels, Labels, Singles]


def choose_from_pairs(
    kernel: Computed,
    importance: Singles,
    free: Bools,
    covered: Singles,
    count: int,
    rng: np.random.Generator,
    workers: Workers,
    progress: Progress,
    *,
    most_pairs: float = MOST_PAIRS,
) -> tuple[Ints, Floats] | None:
    """Return up to `count` choices in order, and what each added when it was chosen; None if there are too many pairs.

    `importance` (u) and `covered`, the coverage so far, have an entry per row.
    """
    first, first_gains, after = choose_first(kernel, importance, free, covered, count, rng, workers)
    floor = np.where(importance > 0, np.log(after + ROUNDING), np.float32(np.inf))
    if count_pairs(kernel, floor) > most_pairs:
        return None
    left = free.copy()
    left[first] = False
    others, gains = Pairs(kernel, importance, left, after, floor, workers).choose(count, progress)
    chosen, gains = np.concatenate([first, others]), np.concatenate([first_gains, gains])
    weakest = find_weakest(kernel, importance, covered, chosen, chosen.size - count, workers)
    return np.delete(chosen, weakest), np.delete(gains, weakest)


def choose_first(
    kernel: Computed,
    importance: Singles,
    free: Bools,
    covered: Singles,
    count: int,
    rng: np.random.Generator,
    workers: Workers,
) -> tuple[Ints, Floats, Singles]:
    """Return greedy choices for a sample and from it, what each adds for all rows, and each row's coverage with them.

    Rows are drawn in proportion to what is left to cover.
    """
    most = min(count // SHARE, MOST_FIRST)
    size = max(SMALLEST_SAMPLE, SAMPLED_PER_CHOICE * most)
    sums = np.cumsum(importance * (1 - covered), dtype=np.float64)
    places = np.searchsorted(sums, (np.arange(size) + rng.random(size)) * (sums[-1] / size), side="right")
    sample, times = np.unique(np.minimum(places, kernel.n - 1), return_counts=True)
    weights = (times / np.maximum(1 - covered[sample], ROUNDING)).astype(np.float32)
    stored = Stored(kernel.values(sample, sample))
    chosen = sample[Greedy(stored, weights, covered[sample], workers.here).choose(free[sample], most)[0]]
    levels = np.concatenate([covered[:, None], kernel.values(slice(None), chosen)], axis=1)
    np.maximum.accumulate(levels, axis=1, out=levels)
    return chosen, np.asarray(importance @ np.diff(levels), np.float64), levels[:, -1].copy()


def count_pairs(kernel: Computed, floor: Singles) -> float:
    """Return about how many pairs have an exponent above the lower of their two floors."""
    order = np.argsort(floor, kind="stable")
    some = np.unique(np.linspace(0, kernel.n - 1, ESTIMATED_FROM).astype(np.int64))
    above = kernel.exponents(order[some], slice(None)) > floor[order[some], None]
    later = np.argsort(order)[None, :] > some[:, None]
    return float(np.count_nonzero(above & later) / some.size) * kernel.n


class Pairs:
    """The pairs of a row and a candidate that can change the sum, and each candidate's gain.

    They are all pairs whose exponent is above the lower of their two floors, so a row's list also serves as the list of
    the rows that it can cover. Rows are numbered by ascending floor, so the lower floor is the first one's.
    """

    def __init__(
        self,
        kernel: Computed,
        importance: Singles,
        free: Bools,
        covered: Singles,
        floor: Singles,
        workers: Workers,
    ) -> None:
        self._order = np.argsort(floor, kind="stable")
        self._importance, self._covered = importance[self._order], covered[self._order]
        self._free = free[self._order]
        sorted_kernel, sorted_floor = kernel.take(self._order), floor[self._order]
        starts = [start for start in range(0, kernel.n, SIDE) if start == 0 or sorted_floor[start] < 0]
        found = workers.here.each(starts, lambda start: _above(sorted_kernel, sorted_floor, start))
        self._values, self._others, self._starts = _both_ways(found, kernel.n)
        self._gains = self._measure()

    def choose(self, count: int, progress: Progress) -> tuple[Ints, Floats]:
        """Return up to `count` choices in order, and the gain of each; fewer if nothing is left to gain."""
        chosen, added = np.empty(count, np.int64), np.empty(count)
        reference, number = self._gains.max(), 0
        while number < count:
            best = int(self._gains.argmax())
            if self._gains[best] < RECOMPUTE_BELOW * reference:
                self._gains = self._measure()
                best = int(self._gains.argmax())
                reference = self._gains[best]
            if self._gains[best] <= 0:
                break
            chosen[number], added[number] = self._order[best], self._gains[best]
            self._cover(best)
            self._gains[best], self._free[best] = -np.inf, False
            number += 1
            progress.advance(1)
        return chosen[:number], added[:number]

    def _measure(self) -> Floats:
        """Return the current gain of each candidate, −∞ if it must not be chosen."""
        gains = np.zeros(self._free.size)
        for rows in pieces_of(
            np.arange(self._free.size), MEASURED_ROWS
        ):  # all at once would take more memory than the list
            gains += self._between(rows, self._covered[rows], np.ones(rows.size, np.float32))
        return np.where(self._free, gains, -np.inf)

    def _cover(self, choice: int) -> None:
        """Update the rows' coverage with one more choice, and subtract what the candidates can no longer gain."""
        places = slice(self._starts[choice], self._starts[choice + 1])
        rows, values = self._others[places], self._values[places]
        improved = values > self._covered[rows] + ROUNDING
        rows, values = rows[improved], values[improved]
        self._gains -= self._between(rows, self._covered[rows], values)
        self._covered[rows] = values

    def _between(self, rows: Labels | Ints, low: Singles, high: Singles) -> Floats:
        """Return for each candidate Σ over rows of u·κ between these bounds."""
        lengths = self._starts[rows + 1] - self._starts[rows]
        places = np.repeat(self._starts[rows] - np.cumsum(lengths) + lengths, lengths)
        places += np.arange(places.size)
        values = np.minimum(self._values[places], np.repeat(high + ROUNDING, lengths))
        values -= np.repeat(low + ROUNDING, lengths)
        np.maximum(values, 0, out=values)
        values *= np.repeat(self._importance[rows], lengths)
        return np.asarray(np.bincount(self._others[places], values, self._free.size), np.float64)


def _above(kernel: Computed, floor: Singles, start: int) -> Found:
    """Return the pairs of some rows and later ones with exponents above the row's floor: κ, row, later row; and each
    row's κ with itself, which rounding may change as it changes that of copies."""
    rows, tiles, own = slice(start, start + SIDE), [], np.zeros(0, np.float32)
    for first in range(start, kernel.n, SIDE):
        exponents = kernel.exponents(rows, slice(first, first + SIDE))
        above = exponents > floor[rows, None]
        if first == start:
            above, own = np.triu(above, 1), exponents.diagonal()
        places = np.flatnonzero(above)
        row, column = np.divmod(places.astype(np.int32), np.int32(exponents.shape[1]))
        tiles.append((exponents.ravel()[places], row + np.int32(start), column + np.int32(first)))
    values, row, column = (np.concatenate(arrays) for arrays in zip(*tiles, strict=True))
    return np.exp(np.minimum(values, 0)), row, column, np.exp(np.minimum(own, 0))


def _both_ways(found: Iterable[Found], n: int) -> tuple[Singles, Labels, Ints]:
    """Return the pairs as a symmetric sparse matrix: values, columns, and where each row starts."""
    from scipy.sparse import coo_array

    values, rows, columns, own = zip(*found, strict=True)
    same = np.arange(sum(map(len, own)), dtype=np.int32)
    data = np.concatenate([*values, *own, *values])
    numbers = np.concatenate([*columns, same, *rows]), np.concatenate([*rows, same, *columns])
    del values, rows, columns  # half as large as what was made of them
    matrix = coo_array((data, numbers), (n, n)).tocsr()
    return matrix.data, matrix.indices, matrix.indptr.astype(np.int64)
