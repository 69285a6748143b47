"""Leverage scores: how much say each row has in a least squares fit, read block by block."""

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

# Rows are float32: a direction with less than this part of the largest one's strength is rounding noise.
ROUNDING = 1e-6
# What is left of a constant column when its mean is taken off.
CONSTANT = 1e-10
# Of how many blocks the factors are made into one before they leave the machine that has read them.
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

    A is read twice: for its triangular factor by QR, block by block, and for each row's length in the space where the
    columns are orthonormal. Directions that columns share (a constant beside the intercept, a copy, a sum of others)
    count once.

    Args:
        A: Anything that `open_rows` takes.
        ridge: A number of at least 0.
        intercept: Whether A has a column of ones as well, which the ridge leaves alone.
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
        before = np.linalg.norm(factor, axis=0)
        middle, base = np.zeros(rows.d), 0.0
        if intercept:
            # Beside a column of ones, the rest of the factor is that of the columns less their means.
            middle, base = factor[0, 1:] / factor[0, 0], 1.0 / rows.n
            factor, before = factor[1:, 1:], before[1:]
        if ridge > 0:
            factor = _triangle(np.concatenate([factor, np.sqrt(ridge) * np.eye(rows.d)]))
        _, transform = orthonormal(factor, before)

        def lengths(start: int, block: Singles) -> Floats:
            moved = (block - middle) @ transform
            squares: Floats = base + np.einsum("ij,ij->i", moved, moved)
            return np.minimum(squares, 1.0)

        found: Floats = np.concatenate(list(workers.map(rows, lengths, name="measuring leverage")))
        return found


def orthonormal(matrix: Floats, before: Floats) -> tuple[Floats, Floats]:
    """Return a basis of the matrix's columns, and T with matrix·T = basis; as many columns as its rank.

    before: the lengths of the columns before anything was taken off, beside which one may be nothing but rounding.
    """
    scale = np.linalg.norm(matrix, axis=0)
    used = scale > CONSTANT * before
    basis, strength, directions = np.linalg.svd(matrix[:, used] / scale[used], full_matrices=False)
    kept = strength > ROUNDING * strength.max(initial=0.0)
    transform = np.zeros((matrix.shape[1], int(np.count_nonzero(kept))))
    transform[used] = (directions[kept] / strength[kept, np.newaxis]).T / scale[used, np.newaxis]
    return basis[:, kept], transform


def _factor(rows: Rows, intercept: bool, workers: Workers) -> Floats:
    """Return the triangular factor of A, after a column of ones if there is an intercept."""

    def triangle(start: int, block: Singles) -> Floats:
        ones = np.ones((len(block), int(intercept)))
        return _triangle(np.concatenate([ones, block.astype(np.float64)], axis=1))

    factor = _stack(workers.map(rows, triangle, fold=Fold(_stack, FOLDED), name="factoring columns"))
    if not np.isfinite(factor).all():
        refuse_bad_row(rows)
    return factor


def _stack(triangles: Iterable[Floats]) -> Floats:
    """Return the factor of what several factors stand for, one below the other."""
    return reduce(lambda factor, part: _triangle(np.concatenate([factor, part])), triangles)


def _triangle(matrix: Floats) -> Floats:
    return np.asarray(np.linalg.qr(matrix, mode="r"), np.float64)
