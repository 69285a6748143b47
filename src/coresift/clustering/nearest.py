"""The hot kernel: the nearest of k centers for every row of a block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coresift.types import Singles

# One chunk's rows × centers scores stay within the second-level caches' reach; a fixed number, so that the
# arithmetic, and with it the result, is the same on every machine of one kind.
CHUNK_SCORES = 1 << 22


@dataclass(frozen=True)
class Codebook:
    """Centers made ready for the search: shifted by their mean, which takes most of the rounding error away.

    argmin ‖x − c‖² = argmax x·c′ − bias with c′ = c − μ and bias = μ·c′ + ‖c′‖²/2.
    """

    centers: Singles
    shifted: Singles
    bias: Singles

    @classmethod
    def of(cls, centers: Singles) -> Codebook:
        """Prepare centers (k×d)."""
        wide = centers.astype(np.float64)
        mean = wide.mean(axis=0)
        shifted = wide - mean
        bias = shifted @ mean + 0.5 * np.einsum("ij,ij->i", shifted, shifted)
        return cls(centers, np.ascontiguousarray(shifted, np.float32), bias.astype(np.float32))


def nearest(block: Singles, codebook: Codebook) -> tuple[NDArray[np.int32], Singles]:
    """Return each row's nearest center and its distance, the lowest center number on a tie."""
    labels = np.empty(len(block), np.int32)
    step = max(64, CHUNK_SCORES // len(codebook.centers))
    for start in range(0, len(block), step):
        scores = block[start : start + step] @ codebook.shifted.T
        scores -= codebook.bias
        labels[start : start + step] = scores.argmax(axis=1)
    return labels, distances_to(block, codebook.centers, labels)


def distances_to(block: Singles, centers: Singles, labels: NDArray[np.int32]) -> Singles:
    """Return the distance of each row to its own center, from differences: exact zero for an equal row."""
    distances = np.empty(len(block), np.float32)
    step = max(64, CHUNK_SCORES // block.shape[1])
    for start in range(0, len(block), step):
        difference = block[start : start + step] - centers[labels[start : start + step]]
        np.einsum("ij,ij->i", difference, difference, out=distances[start : start + step])
    return np.sqrt(distances, out=distances)


def squared_distances(block: Singles, centers: Singles) -> Singles:
    """Return rows × centers squared distances, exactly zero where rounding hides the difference."""
    row_norms = np.einsum("ij,ij->i", block, block)[:, None]
    center_norms = np.einsum("ij,ij->i", centers, centers)[None, :]
    scale = row_norms + center_norms
    squared = block @ centers.T
    squared *= -2
    squared += scale
    squared[squared < 1e-6 * scale] = 0
    return squared
