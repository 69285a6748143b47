"""The hot kernel: the nearest of k centers for every row of a block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.types import Floats, Ints, Singles

# One chunk's rows × centers scores stay within the second-level caches' reach; a fixed number, so that the
# arithmetic, and with it the result, is the same on every machine of one kind.
CHUNK_SCORES = 1 << 22
# Squares below this have lost digits in single precision, down to all of them.
TINY = 1e-30
# Of a squared distance that is this part of the squared lengths, a product of matrices keeps three digits.
LOST = 1e-4


@dataclass(frozen=True)
class Codebook:
    """Centers made ready for the search: argmin ‖x − c‖² = argmax x′·c′ − ‖c′‖²/2 with x′ = x − μ, c′ = c − μ.

    Rows are shifted too, so that rounding is in proportion to how far apart the centers are, not to how far
    from zero they lie.
    """

    centers: Singles
    mean: Singles
    shifted: Singles
    bias: Singles

    @classmethod
    def of(cls, centers: Singles) -> Codebook:
        """Prepare centers (k×d)."""
        mean = centers.mean(axis=0, dtype=np.float64).astype(np.float32)
        shifted = centers - mean
        return cls(centers, mean, shifted, 0.5 * np.einsum("ij,ij->i", shifted, shifted))


def nearest(block: Singles, codebook: Codebook) -> tuple[NDArray[np.int32], Singles]:
    """Return each row's nearest center and its distance, the lowest center number on a tie."""
    labels = np.empty(len(block), np.int32)
    step = max(64, CHUNK_SCORES // len(codebook.centers))
    # Rows that are not finite get distances that are not finite: whoever asked knows which row to name.
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(block), step):
            scores = (block[start : start + step] - codebook.mean) @ codebook.shifted.T
            scores -= codebook.bias
            labels[start : start + step] = scores.argmax(axis=1)
    return labels, distances_to(block, codebook.centers, labels)


def distances_to(block: Singles, centers: Singles, labels: NDArray[np.int32]) -> Singles:
    """Return the distance of each row to its own center, from differences: zero for an equal row and no other."""
    squared = np.empty(len(block), np.float32)
    step = max(64, CHUNK_SCORES // block.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(block), step):
            difference = block[start : start + step] - centers[labels[start : start + step]]
            np.einsum("ij,ij->i", difference, difference, out=squared[start : start + step])
    distances = np.sqrt(squared)
    tiny = np.flatnonzero(squared < TINY)
    distances[tiny] = np.sqrt(_squared_differences(block, tiny, centers, labels[tiny]))
    return distances


def squared_distances(block: Singles, norms: Singles, centers: Singles) -> Singles:
    """Return centers × rows squared distances, zero for an equal row; `norms` are the rows' squared lengths.

    A product of matrices gives them, and differences where it would lose most digits.
    """
    scale = np.einsum("ij,ij->i", centers, centers)[:, None] + norms
    squared = centers @ block.T
    squared *= -2
    squared += scale
    scale *= LOST
    which, row = np.nonzero(squared <= scale)
    squared[which, row] = _squared_differences(block, row, centers, which)
    return squared


def _squared_differences(block: Singles, rows: Ints, centers: Singles, labels: NDArray[np.integer[Any]]) -> Floats:
    """Return ‖row − center‖² in double precision for pairs of a row and a center."""
    squared = np.empty(len(rows))
    step = max(64, CHUNK_SCORES // block.shape[1])
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        difference = block[rows[some]].astype(np.float64) - centers[labels[some]]
        np.einsum("ij,ij->i", difference, difference, out=squared[some])
    return squared
