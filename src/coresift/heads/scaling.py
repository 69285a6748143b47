"""Center and scale rows for heads, with one scale for all columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from coresift.checks import InputError, refuse
from coresift.rows import Rows
from coresift.types import Singles


@dataclass(frozen=True)
class Scale:
    """Centers rows and scales them so that their mean squared length is 1."""

    mean: Singles
    unit: np.float32

    @classmethod
    def of(cls, rows: Singles) -> Scale:
        """Measure the mean and the scale of rows."""
        mean = rows.mean(axis=0, dtype=np.float64)
        unit = np.sqrt(np.square(rows - mean).sum(axis=1).mean())
        return cls(mean.astype(np.float32), np.float32(unit or 1.0))

    def __call__(self, rows: Singles) -> Singles:
        """Return the centered and scaled rows."""
        return (rows - self.mean) / self.unit


def as_matrix(X: ArrayLike | Rows) -> Singles:
    """Return rows in single precision; refuse anything but a matrix of finite numbers."""
    try:
        rows = X.take(np.arange(X.n)) if isinstance(X, Rows) else np.asarray(X, np.float32)
    except (TypeError, ValueError):
        refuse("X", "a matrix of numbers, or the result of open_rows", type(X).__name__)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise InputError(f"X must be a matrix of finite numbers; got shape {rows.shape}.")
    return rows
