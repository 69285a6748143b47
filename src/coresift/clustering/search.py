"""Choose how to find the nearest center of every row: exactly, or in a faster way if that raises the cost little.

If the centers were learned from all rows, each row has a list of the nearest ones, and only those are compared.
Otherwise rows and centers are compared as whole numbers of 8 bits, on as few principal axes as the cost of sample rows
allows, and the best four in full dimension. The choice depends on costs, never on a clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from coresift.clustering.codes import MOST_DIMENSIONS, Codes, largest_of
from coresift.clustering.kernels import COMPILED, nearest_of
from coresift.clustering.nearest import Codebook, Labels, nearest
from coresift.clustering.searches import BEST, Exact, Listed, Quantized, Search
from coresift.clustering.space import Axes, pieces_of, take
from coresift.engine import Workers
from coresift.rows import Rows
from coresift.types import Floats, Ints, Singles

# How many rows a search is checked on: a sixtieth of all, within these bounds.
FEWEST_CHECKED, MOST_CHECKED = 1024, 2048
CHECKED_AT_ONCE = 256
# Their inflation is an estimate, so this many standard errors are added: the 99th percentile of a normal variable.
SURE = 2.33
# With fewer rows or centers, checking a search takes longer than it saves.
FEWEST_ROWS, FEWEST_CENTERS = 2 * FEWEST_CHECKED, 128
# How many axes a search may have, and the share of the variance that they must capture.
AXES = (16, 24, 32, 48, 64, 96, 128, 160, 192)
LEAST_CAPTURED = 0.65
# Without compiled loops, keeping the best centers takes about as long as this many axes.
SCAN = 350
# Rows far outside the axes can have much of the added cost, but a sample has few of them. More axes take little time,
# so the added cost of a search is kept this many times below the tolerance.
STRICT = 4


def choose_search(
    rows: Rows,
    centers: Singles,
    z: float,
    axes: Axes,
    rng: np.random.Generator,
    workers: Workers,
    *,
    tolerance: float,
) -> Search:
    """Return the search on the fewest axes whose cost, on sample rows, is within `tolerance` of the exact one's."""
    if rows.n < FEWEST_ROWS or len(centers) < FEWEST_CENTERS:
        return Exact.of(centers, "few rows" if rows.n < FEWEST_ROWS else "few centers")
    spaces = _spaces(axes)
    if not spaces:
        return Exact.of(centers, "the variance is spread over too many axes" if COMPILED else "no compiled loops")
    check = _Check.of(rows, centers, z, rng, workers, tolerance / STRICT)
    for space in spaces:
        search = quantize(centers, space, check.sample)
        inflation = check.inflation(search.few(check.sample))
        if inflation is not None:
            name = f"{len(space)} axes" if space.directions is not None else "all dimensions"
            path = f"quantized: 8 bits on {name}, the best {BEST} in full; {_described(inflation, check.sample)}"
            return replace(search, path=path)
    return Exact.of(centers, f"no quantized search was within {tolerance / STRICT:.3%} of its cost")


def _spaces(axes: Axes) -> list[Axes]:
    """Return what a search may compare, the cheapest first: some of the axes, or all dimensions."""
    d = len(axes.mean)
    few = [] if axes.directions is None else [n for n in AXES if n <= len(axes)]
    spaces = [axes.first(number) for number in few if axes.captured[number - 1] >= LEAST_CAPTURED]
    spaces += [axes.whole()] if d <= MOST_DIMENSIONS else []
    return [space for space in spaces if COMPILED or len(space) + SCAN <= d]


def quantize(centers: Singles, axes: Axes, sample: Singles) -> Quantized:
    """Return the search on these axes, scaled for rows like those of the sample."""
    shifted = axes.shift(centers)
    halves = 0.5 * np.einsum("ij,ij->i", shifted, shifted).astype(np.float64)
    largest = largest_of(axes.project(axes.shift(sample))[:, :-1])
    return Quantized(centers, axes, Codes.of(axes.project(shifted)[:, :-1], halves, largest))


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
    check = _Check.of(rows, centers, z, rng, workers, tolerance)
    inflation = check.inflation(lists[check.ids])
    if inflation is None:
        return None
    path = f"lists: the {lists.shape[1]} centers on each row's list; {_described(inflation, check.sample)}"
    return Listed(centers, lists, path)


def _described(inflation: float, sample: Singles) -> str:
    return f"cost {inflation:+.3%} on {len(sample)} rows"


@dataclass(frozen=True)
class _Check:
    """Sample rows, with the powers of the distances to their nearest centers, on which searches are compared."""

    ids: Ints
    sample: Singles
    centers: Singles
    truth: Floats
    population: int
    z: float
    tolerance: float

    @classmethod
    def of(
        cls, rows: Rows, centers: Singles, z: float, rng: np.random.Generator, workers: Workers, tolerance: float
    ) -> _Check:
        """Draw the rows and find their nearest centers."""
        size = min(rows.n, max(FEWEST_CHECKED, min(rows.n // 60, MOST_CHECKED)))
        ids = np.sort(rng.choice(rows.n, size, replace=False))
        sample, codebook = take(rows, ids, workers), Codebook.of(centers)
        found = workers.each(pieces_of(np.arange(size), CHECKED_AT_ONCE), lambda ids: nearest(sample[ids], codebook)[1])
        return cls(ids, sample, centers, np.concatenate(list(found)).astype(np.float64) ** z, rows.n, z, tolerance)

    def inflation(self, options: Labels) -> float | None:
        """Return by which share the cost is higher with the nearest of a few centers per row; None if by too much."""
        excess = nearest_of(self.sample, self.centers, options)[1].astype(np.float64) ** self.z - self.truth
        error = float(excess.std()) * np.sqrt((1 - len(excess) / self.population) / len(excess))
        mean, cost = float(excess.mean()), float(self.truth.mean())
        if not mean + SURE * error <= self.tolerance * cost:
            return None
        return mean / cost if cost else 0.0
