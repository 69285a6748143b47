"""Find the nearest center of every row: exactly, or in a faster way if that raises the cost little.

If the centers were learned from all rows, each row has a list of the nearest ones, and only those are compared.
The reduced search groups centers into cells of neighbors. A row finds its cell by the middles of the cells, or from an
approximate label. It is compared with the candidates of that cell on principal axes, and with the best three in full
dimension. The numbers of axes and candidates are chosen by the cost of sample rows, never by a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from coresift.clustering.candidates import Cells, best_few, runs_of
from coresift.clustering.kernels import highest_few, nearest_of
from coresift.clustering.nearest import Codebook, Labels, distances_to, highest, nearest
from coresift.clustering.space import Axes, pieces_of, take
from coresift.engine import Fold, Workers
from coresift.rows import Block, Rows
from coresift.rows.base import LONGEST_BLOCK
from coresift.types import Floats, Ints, Singles

T = TypeVar("T")
# A function that is applied to a block with its centers: start, rows, labels, distances.
Then = Callable[[int, Singles, Labels, Singles], T]

# How many rows a search is checked on: a sixtieth of all, within these bounds.
FEWEST_CHECKED, MOST_CHECKED = 1024, 2048
CHECKED_AT_ONCE = 256
# Their inflation is an estimate, so this many standard errors are added: the 99th percentile of a normal variable.
SURE = 2.33
# How many axes and candidates a search may have.
AXES = (16, 24, 32, 48, 64, 96, 128, 160, 192)
CANDIDATES = (64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072)
# Listing and checking many candidates takes time itself, so more than this are tried only if these do not suffice.
# The second number counts if the variance is spread over more than this many axes, where the first rarely suffices.
CANDIDATES_FIRST, MORE_FIRST, MANY_AXES = 512, 1024, 128
# How many of them are compared in full dimension.
BEST = 3
# How many of the possible numbers of axes are tried, the largest ones.
TRIED = 3
# Finding the best product takes about as long as this many axes.
SCAN = 16
# The share of the variance beyond which more axes are not worth it.
CAPTURED = 0.9
# If the axes capture less of the variance than this, centers that are close on them may be far apart.
LEAST_CAPTURED = 0.65
# How many blocks are searched together, so that a cell has many rows.
TOGETHER = 32


class Search(Protocol):
    """Finds the nearest centers of rows; `path` says how, and why."""

    @property
    def path(self) -> str:
        """Which search it is, and the reason."""
        ...

    def assign(
        self,
        rows: Rows,
        then: Then[T],
        workers: Workers,
        coarse: Labels | None,
        name: str,
        fold: Fold[T] | None = None,
    ) -> Iterator[T]:
        """Yield then(start, block, labels, distances) for every block; `coarse` are approximate labels."""
        ...


@dataclass(frozen=True)
class Exact:
    """Every center is compared with every row in full dimension."""

    codebook: Codebook
    path: str

    @classmethod
    def of(cls, centers: Singles, reason: str = "asked for") -> Exact:
        """Prepare the search."""
        return cls(Codebook.of(centers), f"exact: {reason}")

    def assign(
        self,
        rows: Rows,
        then: Then[T],
        workers: Workers,
        coarse: Labels | None,
        name: str,
        fold: Fold[T] | None = None,
    ) -> Iterator[T]:
        """Compare every block with all centers."""
        codebook = self.codebook

        def near(start: int, block: Singles) -> T:
            return then(start, block, *nearest(block, codebook))

        return workers.map(rows, near, fold=fold, name=name)


@dataclass(frozen=True)
class KnownLabels:
    """No search: the coarse labels are right."""

    centers: Singles
    path: str = "labels were given"

    def assign(
        self,
        rows: Rows,
        then: Then[T],
        workers: Workers,
        coarse: Labels | None,
        name: str,
        fold: Fold[T] | None = None,
    ) -> Iterator[T]:
        """Compute only the distances."""
        assert coarse is not None
        centers = self.centers

        def measure(start: int, block: Singles, labels: Labels) -> T:
            return then(start, block, labels, distances_to(block, centers, labels))

        return workers.map(rows, measure, beside=[coarse], fold=fold, name=name)


@dataclass(frozen=True)
class Listed:
    """Compares each row with the few centers on its own list, in full dimension."""

    centers: Singles
    lists: Labels
    path: str = "reduced"

    def assign(
        self,
        rows: Rows,
        then: Then[T],
        workers: Workers,
        coarse: Labels | None,
        name: str,
        fold: Fold[T] | None = None,
    ) -> Iterator[T]:
        """Compare every row with the centers on its list."""
        centers = self.centers

        def near(start: int, block: Singles, lists: Labels) -> T:
            return then(start, block, *nearest_of(block, centers, lists))

        return workers.map(rows, near, beside=[self.lists], fold=fold, name=name)


@dataclass(frozen=True)
class Reduced:
    """Compares a row with the candidates of its cell on principal axes, and with the best three in full dimension.

    The table has one line per center: its coordinates, and −‖c‖²/2 from all dimensions.
    """

    centers: Singles
    axes: Axes
    table: Singles
    cells: Cells
    path: str = "reduced"

    @classmethod
    def of(cls, centers: Singles, axes: Axes, count: int, workers: Workers) -> Reduced:
        """Project the centers and find their cells, with `count` candidates each."""
        shifted = axes.shift(centers)
        table = axes.project(shifted)
        cells = Cells.of(np.ascontiguousarray(table[:, :-1]), count, workers)
        table[:, -1] = -0.5 * np.einsum("ij,ij->i", shifted, shifted)
        return cls(centers, axes, table, cells)

    def on(self, axes: int, count: int, path: str) -> Reduced:
        """Return the search with only the leading axes and with fewer candidates."""
        cells = Cells(self.cells.cell, self.cells.first(count).candidates, _keep(self.cells.middles, axes))
        return Reduced(self.centers, self.axes.first(axes), _keep(self.table, axes), cells, path)

    def cells_of(self, points: Singles, coarse: Labels | None) -> Ints:
        """Return the cell of each point: that of its coarse label, or the nearest."""
        if coarse is not None:
            return self.cells.cell[coarse]
        with np.errstate(over="ignore", invalid="ignore"):
            return highest(points, self.cells.middles).astype(np.int64)

    def assign(
        self,
        rows: Rows,
        then: Then[T],
        workers: Workers,
        coarse: Labels | None,
        name: str,
        fold: Fold[T] | None = None,
    ) -> Iterator[T]:
        """Search for many blocks at a time, so that each cell has many rows."""
        beside = () if coarse is None else (coarse,)
        if fold is not None:  # whole groups are folded
            fold = replace(fold, size=max(fold.size, TOGETHER))
        return workers.groups(rows, TOGETHER, partial(self._assign, then), beside=beside, fold=fold, name=name)

    def _assign(
        self, then: Then[T], workers: Workers, blocks: Sequence[Block], coarse: Labels | None = None
    ) -> list[T]:
        offset = blocks[0][0]
        # Room for all points, of which only what is written takes memory; all blocks but the last have the same length.
        length = blocks[1][0] - offset if len(blocks) > 1 else LONGEST_BLOCK
        points = np.empty((len(blocks) * length, len(self.axes) + 1), np.float32)

        def locate(item: Block) -> tuple[int, Singles, Ints]:
            start, read = item
            block = read()
            own = points[start - offset :][: len(block)]
            own[:] = self.axes.project(self.axes.shift(block))
            known = None if coarse is None else coarse[start - offset :][: len(block)]
            return start, block, self.cells_of(own, known)

        located = list(workers.each(blocks, locate))
        best = self._best(workers, points, np.concatenate([item[2] for item in located]))

        def finish(item: tuple[int, Singles, Ints]) -> T:
            start, block = item[:2]
            return then(start, block, *nearest_of(block, self.centers, best[start - offset :][: len(block)]))

        return list(workers.each(located, finish))

    def _best(self, workers: Workers, points: Singles, cells: Ints) -> Labels:
        best, runs = np.empty((len(cells), BEST), np.int32), runs_of(cells)
        with np.errstate(over="ignore", invalid="ignore"):
            results = workers.each(runs, lambda run: best_few(points[run.ids], self.table, self.cells, run, BEST))
            for run, (labels, _) in zip(runs, results, strict=True):
                best[run.ids] = labels
        return best


def choose_search(
    rows: Rows,
    centers: Singles,
    z: float,
    axes: Axes,
    rng: np.random.Generator,
    workers: Workers,
    *,
    coarse: Labels | None = None,
    tolerance: float,
) -> Search:
    """Return the cheapest search whose cost, on sample rows, is within `tolerance` of the exact one's.

    `coarse` are approximate labels, one per row: with them, no search for a row's cell is needed.
    """
    most = min(axes.enough(CAPTURED), len(axes))
    counts = [count for count in CANDIDATES if count <= len(centers) // 2]
    numbers = [number for number in AXES if number <= most and axes.captured[number - 1] >= LEAST_CAPTURED][-TRIED:]
    if not counts or not numbers:
        return Exact.of(centers, "the variance is spread over too many axes" if counts else "few centers")
    ids = _checked(rows, rng)
    check = _Check(take(rows, ids, workers), None if coarse is None else coarse[ids], rows.n, z, tolerance)
    bound = MORE_FIRST if numbers[-1] > MANY_AXES else CANDIDATES_FIRST
    first = [count for count in counts if count <= bound]
    for tried in [first, counts] if len(first) < len(counts) else [counts]:
        search = check.cheapest(centers, axes.first(numbers[-1]), numbers, tried, workers)
        if search is not None:
            return search
    return Exact.of(centers, f"no reduced search was within {tolerance:.2%} of its cost")


def trust_lists(
    rows: Rows,
    centers: Singles,
    z: float,
    rng: np.random.Generator,
    workers: Workers,
    *,
    lists: Labels,
    tolerance: float,
) -> Listed | None:
    """Return the search among the centers on each row's list, or None if it raises the cost of sample rows by more than
    `tolerance`."""
    ids = _checked(rows, rng)
    sample = take(rows, ids, workers)
    truth = nearest(sample, Codebook.of(centers))[1].astype(np.float64) ** z
    excess = nearest_of(sample, centers, lists[ids])[1].astype(np.float64) ** z - truth
    error = float(excess.std()) * np.sqrt((1 - len(ids) / rows.n) / len(ids))
    if not excess.mean() + SURE * error <= tolerance * truth.mean():
        return None
    inflation = excess.mean() / truth.mean() if truth.any() else 0.0
    path = f"reduced: the {lists.shape[1]} centers on each row's list; cost {inflation:+.3%} on {len(ids)} rows"
    return Listed(centers, lists, path)


def _checked(rows: Rows, rng: np.random.Generator) -> Ints:
    """Draw the rows on which searches are checked."""
    checked = min(rows.n, max(FEWEST_CHECKED, min(rows.n // 60, MOST_CHECKED)))
    return np.sort(rng.choice(rows.n, checked, replace=False))


@dataclass(frozen=True)
class _Check:
    """Sample rows, with approximate labels or None, on which searches are compared with the exact one."""

    sample: Singles
    coarse: Labels | None
    population: int
    z: float
    tolerance: float

    def cheapest(
        self, centers: Singles, axes: Axes, numbers: Sequence[int], counts: Sequence[int], workers: Workers
    ) -> Reduced | None:
        """Return the search of least work that is within the tolerance, if there is one."""
        size, d = self.sample.shape
        search = Reduced.of(centers, axes, counts[-1], workers)
        searches = [search.on(number, counts[-1], "") for number in numbers]
        codebook, pieces = Codebook.of(centers), pieces_of(np.arange(size), CHECKED_AT_ONCE)

        def excess_of(piece: Ints) -> tuple[float, Floats, Floats]:
            known = None if self.coarse is None else self.coarse[piece]
            return _excess(searches, codebook, self.sample[piece], known, counts, self.z)

        truth, excess, squares = (sum(parts) for parts in zip(*workers.each(pieces, excess_of), strict=True))
        error = np.sqrt(np.maximum(squares - excess**2 / size, 0) * (1 - size / self.population))
        cells = len(search.cells.middles)
        work = _work(numbers, counts, 0 if self.coarse is not None else cells, d)
        if self.coarse is not None:  # a little more work is well spent on the last search: half the tolerance is double
            work *= 1 + excess / (self.tolerance / 2 * truth or 1.0)
        work = np.where(excess + SURE * error <= self.tolerance * truth, work, np.inf)
        at, which = divmod(int(work.argmin()), len(counts))
        if work[at, which] >= len(centers) * (d + SCAN):
            return None
        inflation = excess[at, which] / truth if truth else 0.0
        start = f"{cells} cells" if self.coarse is None else "nearly right labels"
        path = f"reduced: {start}, {counts[which]} candidates on {numbers[at]} axes, the best {BEST} on {d}"
        return search.on(numbers[at], counts[which], f"{path}; cost {inflation:+.3%} on {size} rows")


def _work(numbers: Sequence[int], counts: Sequence[int], cells: int, d: int) -> Floats:
    """Return the approximate number of products per row, for each number of axes and of candidates."""
    axes, candidates = np.array(numbers, np.float64)[:, None], np.array(counts, np.float64)
    return d * (axes + SCAN) + cells * (axes + SCAN) + candidates * (axes + 2 * SCAN)


def _excess(
    searches: Sequence[Reduced],
    codebook: Codebook,
    block: Singles,
    coarse: Labels | None,
    counts: Sequence[int],
    z: float,
) -> tuple[float, Floats, Floats]:
    """Return the cost of these rows with their nearest centers, and for each search and number of candidates, how much
    higher it is with the centers that the search finds: the sum over the rows, and the sum of squares."""
    shifted = block - codebook.mean
    scores = shifted @ codebook.table[:, :-1].T
    scores += codebook.table[:, -1]
    squares, line = np.einsum("ij,ij->i", shifted, shifted), np.arange(len(block))[:, None]

    def cost(best: Singles) -> Floats:
        gaps: Floats = np.maximum(squares - 2 * best, 0).astype(np.float64)
        return np.asarray(gaps ** (z / 2))

    widest = searches[-1].axes
    truth, points = cost(scores.max(axis=1)), widest.project(widest.shift(block))
    more = np.empty((len(searches), len(counts), len(block)))
    for at, search in enumerate(searches):
        here = _keep(points, len(search.axes))
        candidates = search.cells.candidates[search.cells_of(here, coarse)]
        products = np.take_along_axis(here @ search.table.T, candidates, axis=1)
        for which, count in enumerate(counts):
            places, _ = highest_few(products[:, :count], BEST)
            more[at, which] = cost(scores[line, candidates[line, places]].max(axis=1)) - truth
    return float(truth.sum()), more.sum(axis=2), (more**2).sum(axis=2)


def _keep(points: Singles, axes: int) -> Singles:
    """Return the leading coordinates and the last column."""
    return np.column_stack([points[:, :axes], points[:, -1]])
