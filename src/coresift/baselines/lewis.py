"""ℓ₁ Lewis weights: leverage scores of the rows that these weights themselves have rescaled."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from coresift.engine import Fold, Workers
from coresift.leverage import orthonormal
from coresift.rows import Rows, refuse_bad_row
from coresift.types import Floats, Singles

MOST_STEPS = 50
# Of how many blocks the triangles are made into one.
STACKED = 8


def lewis_weights(rows: Rows, tolerance: float, workers: Workers) -> Floats:
    """Return the w with wᵢ² = aᵢᵀ(AᵀW⁻¹A)⁺aᵢ; their sum is the rank of A."""
    weights, factor = _step(rows, None, workers)
    for _ in range(MOST_STEPS):
        before, (weights, factor) = weights, _step(rows, factor, workers)
        if np.all(np.abs(weights - before) <= tolerance * weights):
            break
    return weights


def _step(rows: Rows, factor: Floats | None, workers: Workers) -> tuple[Floats, Floats]:
    """Return the weights that a factor of W^(−1/2)A gives (1 without one), and the factor that they give: one pass."""
    transform = None if factor is None else orthonormal(factor, np.linalg.norm(factor, axis=0))[1]

    def weigh(_: int, block: Singles) -> tuple[Floats, Floats]:
        wide = block.astype(np.float64)
        found = np.ones(len(wide)) if transform is None else np.linalg.norm(wide @ transform, axis=1)
        wide /= np.sqrt(np.where(found > 0, found, np.inf))[:, np.newaxis]
        return found, np.asarray(np.linalg.qr(wide, mode="r"))

    weights, factor = _join(workers.map(rows, weigh, fold=Fold(_join, STACKED), name="finding Lewis weights"))
    if not np.isfinite(factor).all():
        refuse_bad_row(rows)
    return weights, factor


def _join(found: Iterable[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    weights, triangles = zip(*found, strict=True)
    return np.concatenate(weights), np.asarray(np.linalg.qr(np.concatenate(triangles), mode="r"))
