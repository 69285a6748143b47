"""ℓ₁ Lewis weights: the leverage scores of rows that are rescaled by these same weights."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from coresift.engine import Fold, Workers
from coresift.leverage import orthonormal
from coresift.rows import Rows, refuse_bad_row
from coresift.types import Floats, Singles

MOST_STEPS = 50
# How many blocks' triangular factors are merged into one.
STACKED = 8


def lewis_weights(rows: Rows, tolerance: float, workers: Workers) -> Floats:
    """Return the w with wᵢ² = aᵢᵀ(AᵀW⁻¹A)⁺aᵢ; their sum is the rank of A."""
    weights, factor = _step(rows, None, workers)
    for _ in range(MOST_STEPS):
        previous, (weights, factor) = weights, _step(rows, factor, workers)
        if np.all(np.abs(weights - previous) <= tolerance * weights):
            break
    return weights


def _step(rows: Rows, factor: Floats | None, workers: Workers) -> tuple[Floats, Floats]:
    """Return the weights from a factor of W^(−1/2)A (1 without a factor), and the next factor, in one pass."""
    transform = None if factor is None else orthonormal(factor, np.linalg.norm(factor, axis=0))[1]

    def weigh(_: int, block: Singles) -> tuple[Floats, Floats]:
        scaled = block.astype(np.float64)
        block_weights = np.ones(len(scaled)) if transform is None else np.linalg.norm(scaled @ transform, axis=1)
        scaled /= np.sqrt(np.where(block_weights > 0, block_weights, np.inf))[:, np.newaxis]
        return block_weights, np.asarray(np.linalg.qr(scaled, mode="r"))

    weights, factor = _join(workers.map(rows, weigh, fold=Fold(_join, STACKED), name="finding Lewis weights"))
    if not np.isfinite(factor).all():
        refuse_bad_row(rows)
    return weights, factor


def _join(blocks: Iterable[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    weights, triangles = zip(*blocks, strict=True)
    return np.concatenate(weights), np.asarray(np.linalg.qr(np.concatenate(triangles), mode="r"))
