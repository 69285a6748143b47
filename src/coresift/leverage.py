"""Leverage scores: how much influence each row has on a least squares fit, computed block by block."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np

from coresift.checks import positive
from coresift.engine import Engine, Fold, Local, Workers
from coresift.progress import Progress, choose
from coresift.rows import Rows, open_rows, refuse_bad_row
from coresift.types import Floats, Singles

# Rows are float32, so a singular value below this fraction of the largest one is rounding noise.
ROUNDING = 1e-6
# A column with less than this fraction of its length left after centering is constant.
CONSTANT = 1e-10
# How many blocks' factors are merged into one before they leave the machine that read them.
FOLDED = 8


def leverage_scores(
    A: Any,
    ridge: float = 0.0,
    *,
    intercept: bool = False,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
) -> Floats:
    """Return the leverage of every row of A: hᵢ = aᵢᵀ(AᵀA + ridge·I)⁺aᵢ.

    A is read twice: once for the triangular factor of its QR decomposition, block by block, and once for each row's
    squared length in the basis where the columns are orthonormal. Linearly dependent columns (a constant next to the
    intercept, a copy, a sum of others) count once.

    Args:
        A: Anything that `open_rows` takes.
        ridge: A number of at least 0.
        intercept: Whether to add a column of ones, which the ridge does not penalize.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        One number per row, from 0 to 1; their sum is at most the rank.

    Examples:
        >>> leverage_scores(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 3.0]])).round(6)
        array([0.5, 0.5, 1. ])
        >>> leverage_scores(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 3.0]]), ridge=2.0).round(6)
        array([0.25    , 0.25    , 0.818182])
    """
    rows, ridge = open_rows(A), positive("ridge", ridge, zero=True)
    with (engine or Local()).open(choose(progress)) as workers:
        factor = _factor(rows, intercept, workers)
        column_lengths = np.linalg.norm(factor, axis=0)
        mean, base = np.zeros(rows.d), 0.0
        if intercept:
            # After the column of ones, the rest of the factor is that of the centered columns.
            mean, base = factor[0, 1:] / factor[0, 0], 1.0 / rows.n
            factor, column_lengths = factor[1:, 1:], column_lengths[1:]
        if ridge > 0:
            factor = _triangle(np.concatenate([factor, np.sqrt(ridge) * np.eye(rows.d)]))
        _, transform = orthonormal(factor, column_lengths)

        def lengths(start: int, block: Singles) -> Floats:
            transformed = (block - mean) @ transform
            squares: Floats = base + np.einsum("ij,ij->i", transformed, transformed)
            return np.minimum(squares, 1.0)

        leverage: Floats = np.concatenate(list(workers.map(rows, lengths, name="measuring leverage")))
        return leverage


def orthonormal(matrix: Floats, before: Floats) -> tuple[Floats, Floats]:
    """Return an orthonormal basis of the matrix's column space, and T with matrix·T = basis.

    `before` has the column lengths before centering; a column that is tiny compared with it is only rounding.
    """
    scale = np.linalg.norm(matrix, axis=0)
    used = scale > CONSTANT * before
    basis, strength, directions = np.linalg.svd(matrix[:, used] / scale[used], full_matrices=False)
    significant = strength > ROUNDING * strength.max(initial=0.0)
    transform = np.zeros((matrix.shape[1], int(np.count_nonzero(significant))))
    transform[used] = (directions[significant] / strength[significant, np.newaxis]).T / scale[used, np.newaxis]
    return basis[:, significant], transform


def _factor(rows: Rows, intercept: bool, workers: Workers) -> Floats:
    """Return the triangular factor of A, with a column of ones first if there is an intercept."""

    def triangle(start: int, block: Singles) -> Floats:
        ones = np.ones((len(block), int(intercept)))
        return _triangle(np.concatenate([ones, block.astype(np.float64)], axis=1))

    factor = _stack(workers.map(rows, triangle, fold=Fold(_stack, FOLDED), name="factoring columns"))
    if not np.isfinite(factor).all():
        refuse_bad_row(rows)
    return factor


def _stack(triangles: Iterable[Floats]) -> Floats:
    """Return the triangular factor of the stacked matrices behind several triangular factors."""
    return reduce(lambda factor, triangle: _triangle(np.concatenate([factor, triangle])), triangles)


def _triangle(matrix: Floats) -> Floats:
    return np.asarray(np.linalg.qr(matrix, mode="r"), np.float64)
