"""Principal directions of rows that have many more columns than there are rows."""

from __future__ import annotations

import numpy as np

from coresift.types import Floats

# With more columns than this, and twice as many as rows, it is the rows that are compared with each other.
WIDE = 256
# A direction with a smaller part of the largest variance than this has none but for rounding.
LEAST_VARIANCE = 1e-12


def wide(rows: Floats) -> bool:
    """Say whether there are so many more columns than rows that `axes_of_wide` is worth it."""
    count, columns = rows.shape
    return bool(columns > max(2 * count, WIDE))


def axes_of_wide(rows: Floats, count: int) -> tuple[Floats, Floats]:
    """Return the eigenvalues of XᵀX/count that are not 0, and their directions, from the smaller product XXᵀ.

    Args:
        rows: X, one line per row; its columns have mean 0.
        count: What the products are divided by.

    Returns:
        The eigenvalues, ascending, at most as many as rows; and a direction of length 1 in each column.

    Examples:
        >>> variances, directions = axes_of_wide(np.array([[3.0, 4.0, 0.0], [-3.0, -4.0, 0.0]]), 2)
        >>> variances.round(6).tolist(), np.abs(directions).round(6).tolist()
        ([25.0], [[0.6], [0.8], [0.0]])
    """
    variances, sides = np.linalg.eigh(rows @ rows.T / count)
    kept = variances > LEAST_VARIANCE * max(float(variances.max(initial=0.0)), 1e-300)
    return variances[kept], rows.T @ (sides[:, kept] / np.sqrt(count * variances[kept]))
