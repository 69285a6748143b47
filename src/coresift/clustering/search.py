"""Which center is nearest, for all rows: exactly, or on principal axes where that costs little and saves much.

The reduced search has three steps, each on fewer centers and in more dimensions. On a few axes all centers are
compared; on more axes the candidates of the winner's cell; in full dimension the best two. How many axes and
candidates it takes is decided on sample rows by what it does to the cost, never by a clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from coresift.clustering.candidates import Cells, best_two
from coresift.clustering.nearest import Codebook, Labels, distances_to, highest, nearest
from coresift.clustering.space import Axes, pieces_of, take
from coresift.engine import Workers
from coresift.rows import Rows
from coresift.types import Floats, Singles

# Rows on which a search is checked: a fortieth of all, within these bounds.
FEWEST_CHECKED, MOST_CHECKED = 1024, 2048
# They are a sample: on all rows the inflation may be larger by its error.
SAFETY = 0.7
# How many axes may serve for all centers: each number costs more and misses less.
FEW_AXES = (16, 24, 32, 40, 48, 64, 80, 96, 128)
# The part of the variance that the axes for the candidates capture, and how many they are.
CAPTURED = 0.9
LEAST_AXES, MOST_AXES = 64, 192
AROUND = 128
# Where axes capture less of the variance than this, centers that they find close may lie anywhere.
LEAST_CAPTURED = 0.5


class Search(Protocol):
    """Finds the nearest centers for the rows of a block; `path` says how, and why so."""

    @property
    def path(self) -> str:
        """Which search it is, and the reason."""
        ...

    def nearest(self, block: Singles, coarse: Labels | None = None) -> tuple[Labels, Singles]:
        """Return labels and distances; `coarse` are labels that are nearly right, where they are known."""
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

    def nearest(self, block: Singles, coarse: Labels | None = None) -> tuple[Labels, Singles]:
        """Return the nearest center of each row and its distance."""
        return nearest(block, self.codebook)


@dataclass(frozen=True)
class Reduced:
    """All centers on `few` axes, the candidates of the winner's cell on all axes, the best two in full dimension.

    With no axes for all centers, the labels that are given take the winner's place.
    The tables have a line a center: its coordinates, and −‖c‖²/2 from all of its dimensions.
    """

    centers: Singles
    axes: Axes
    few: int
    table: Singles
    rough: Singles
    cells: Cells
    path: str = "reduced"

    @classmethod
    def of(cls, centers: Singles, axes: Axes, few: int, block_rows: int, workers: Workers) -> Reduced:
        """Project the centers and find their cells."""
        shifted = axes.shift(centers)
        table = axes.project(shifted)
        cells = Cells.of(np.ascontiguousarray(table[:, :-1]), block_rows, AROUND, workers)
        table[:, -1] = -0.5 * np.einsum("ij,ij->i", shifted, shifted)
        return cls(centers, axes, few, table, _keep(table, few), cells)

    def nearest(self, block: Singles, coarse: Labels | None = None) -> tuple[Labels, Singles]:
        """Return a center of each row, nearest or nearly so, and its distance."""
        points = self.axes.project(self.axes.shift(block))
        with np.errstate(over="ignore", invalid="ignore"):
            if self.few or coarse is None:
                coarse = highest(_keep(points, self.few), self.rough)
            first, second = best_two(points, self.table, self.cells, coarse)
        distances, others = distances_to(block, self.centers, first), distances_to(block, self.centers, second)
        closer = others < distances
        return np.where(closer, second, first), np.where(closer, others, distances)


@dataclass(frozen=True)
class Given:
    """No search: the coarse labels are right."""

    centers: Singles
    path: str = "labels were given"

    def nearest(self, block: Singles, coarse: Labels | None = None) -> tuple[Labels, Singles]:
        """Return the labels as they came, and the distances."""
        assert coarse is not None
        return coarse, distances_to(block, self.centers, coarse)


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

    `coarse` are labels that are nearly right, one for each of the rows: they take the place of the first step, where
    that is good enough.
    """
    more = axes.first(min(max(axes.enough(CAPTURED), LEAST_AXES), MOST_AXES, len(axes)))
    fewer = [few for few in FEW_AXES if few <= min(rows.d // 3, len(axes))]
    if not fewer or axes.captured[fewer[-1] - 1] < LEAST_CAPTURED:
        fewer = []
    if coarse is not None and more.captured[-1] >= LEAST_CAPTURED:
        fewer.insert(0, 0)
    if not fewer:
        return Exact.of(centers, "the variance is spread over too many axes")
    count = min(rows.n, max(FEWEST_CHECKED, min(rows.n // 40, MOST_CHECKED)))
    ids = np.sort(rng.choice(rows.n, count, replace=False))
    checked = take(rows, ids, workers)
    known = None if coarse is None else coarse[ids]
    exact = Exact.of(centers, f"no reduced search was within {tolerance:.2%} of its cost")
    truth = _cost(exact, checked, known, z, workers)
    search = Reduced.of(centers, more, fewer[0], rows.block_rows, workers)
    for few in fewer:
        wide = min(2 * few, len(axes))
        if wide > len(search.axes):
            search = Reduced.of(centers, axes.first(wide), few, rows.block_rows, workers)
        search = replace(search, few=few, rough=_keep(search.table, few))
        cost = _cost(search, checked, known, z, workers)
        if cost <= truth * (1 + SAFETY * tolerance):
            first = f"{few} axes for all centers" if few else "nearly right labels"
            then = f"{len(search.axes)} for {search.cells.candidates.shape[1]} candidates, {rows.d} for the best two"
            inflation = cost / truth - 1 if truth else 0.0
            return replace(search, path=f"reduced: {first}, {then}; cost {inflation:+.3%} on {len(ids)} rows")
    return exact


def _keep(points: Singles, few: int) -> Singles:
    """Return the first coordinates and the last column."""
    return np.concatenate([points[:, :few], points[:, -1:]], axis=1)


def _cost(search: Search, checked: Singles, coarse: Labels | None, z: float, workers: Workers) -> float:
    """Return Σ distance^z over the checked rows, in tasks that keep all cores busy."""

    def cost(some: NDArray[np.int64]) -> float:
        near = None if coarse is None else coarse[some]
        distances: Floats = search.nearest(checked[some], near)[1].astype(np.float64)
        return float((distances**z).sum())

    return sum(workers.each(pieces_of(np.arange(len(checked)), 512), cost))
