"""The inner loop of clustering: the nearest of k centers for every row of a block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coresift.clustering import plain
from coresift.clustering.kernels import nearest_of
from coresift.types import Floats, Ints, Singles

Labels: TypeAlias = plain.Labels

# A tile of rows × centers scores stays in a core's second-level cache between the product that writes it and the
# search that reads it. Fixed numbers, so that the arithmetic, and with it the result, is the same for any machine.
TILE_ROWS = 512
TILE_CENTERS = 1152
# If a squared distance is this share of the squared lengths, a product of matrices keeps three of its digits.
LOST = 1e-4


@dataclass(frozen=True)
class Codebook:
    """Centers made ready for the search: argmin ‖x − c‖² = argmax x′·c′ − ‖c′‖²/2 with x′ = x − μ, c′ = c − μ.

    Rows are shifted too, so that rounding errors are in proportion to the distances between centers, not to their
    distance from zero. The last column of the table is −‖c′‖²/2, and each row ends with a 1, so one product of matrices
    gives the scores.
    """

    centers: Singles
    mean: Singles
    table: Singles

    @classmethod
    def of(cls, centers: Singles) -> Codebook:
        """Prepare centers (k×d)."""
        mean = centers.mean(axis=0, dtype=np.float64).astype(np.float32)
        return cls(centers, mean, with_bias(centers - mean))


def with_bias(points: Singles) -> Singles:
    """Return the points with −‖c‖²/2 as a last column."""
    return np.column_stack([points, -0.5 * np.einsum("ij,ij->i", points, points)])


def nearest(block: Singles, codebook: Codebook) -> tuple[Labels, Singles]:
    """Return each row's nearest center and its distance, the lowest center number on a tie."""
    # Rows that are not finite get distances that are not finite: the caller knows which row to name.
    with np.errstate(over="ignore", invalid="ignore"):
        labels, _ = highest_scores(block, codebook.mean, codebook.table)
    return labels, distances_to(block, codebook.centers, labels)


def highest_scores(block: Singles, mean: Singles, table: Singles) -> tuple[Labels, Singles]:
    """Return for each row, less the mean, the line of the table with the highest product, and that product.

    Rows are shifted one tile at a time, which avoids a copy of the block.
    """
    labels, best = np.empty(len(block), np.int32), np.empty(len(block), np.float32)
    step = max(1, min(_tile_rows(table), len(block)))
    tile = np.ones((step, block.shape[1] + 1), np.float32)
    for start in range(0, len(block), step):
        here = slice(start, start + step)
        points = tile[: len(block[here])]
        np.subtract(block[here], mean, out=points[:, :-1])
        labels[here], best[here] = _highest(points, table)
    return labels, best


def _tile_rows(table: Singles) -> int:
    """Return how many rows a tile has: more if the table is short."""
    fitting = TILE_ROWS * TILE_CENTERS // (len(table) + table.shape[1])
    return int(max(fitting // TILE_ROWS, 1) * TILE_ROWS)


def _highest(points: Singles, table: Singles) -> tuple[Ints, Singles]:
    if len(table) <= TILE_CENTERS:
        scores = points @ table.T
        labels = scores.argmax(axis=1)
        return labels, scores[np.arange(len(points)), labels]
    labels = np.zeros(len(points), np.int64)
    best = np.full(len(points), -np.inf, np.float32)
    for start in range(0, len(table), TILE_CENTERS):
        scores = points @ table[start : start + TILE_CENTERS].T
        places = scores.argmax(axis=1)
        values = scores[np.arange(len(points)), places]
        better = values > best
        np.copyto(labels, places + start, where=better)
        np.copyto(best, values, where=better)
    return labels, best


def order_by(numbers: NDArray[np.integer[Any]]) -> Ints:
    """Return the stable order of labels; numbers of 16 bits are sorted ten times as fast."""
    short = numbers.astype(np.uint16) if numbers.size and numbers.max() < 2**16 else numbers
    return np.argsort(short, kind="stable")


def distances_to(block: Singles, centers: Singles, labels: Labels) -> Singles:
    """Return the distance of each row to its own center, by differences: zero only for an equal row."""
    return nearest_of(block, centers, labels[:, None])[1]


def squared_distances(block: Singles, norms: Singles, centers: Singles) -> Singles:
    """Return centers × rows squared distances, zero for an equal row; `norms` are the rows' squared lengths.

    They come from a product of matrices, or from differences if it would lose most digits.
    """
    scale = np.einsum("ij,ij->i", centers, centers)[:, None] + norms
    # For few centers this is twice as fast as the other way round. A factor of 2 changes no digit.
    squared = np.ascontiguousarray((block @ (-2 * centers).T).T)
    squared += scale
    scale *= LOST
    which, row = np.divmod(np.flatnonzero(squared <= scale), len(block))
    squared[which, row] = _squared_differences(block, row, centers, which)
    return squared


def _squared_differences(block: Singles, rows: Ints, centers: Singles, labels: NDArray[np.integer[Any]]) -> Floats:
    """Return ‖row − center‖² in double precision for pairs of a row and a center."""
    squared = np.empty(len(rows))
    step = max(64, plain.COMPARED // block.shape[1])
    for start in range(0, len(rows), step):
        here = slice(start, start + step)
        difference = block[rows[here]].astype(np.float64) - centers[labels[here]]
        np.einsum("ij,ij->i", difference, difference, out=squared[here])
    return squared
