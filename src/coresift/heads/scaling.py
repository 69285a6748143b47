"""Center and scale rows for heads, with one scale for all columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coresift.checks import InputError, refuse
from coresift.notebook import counted
from coresift.rows import Rows, RowsLike
from coresift.rows.features import Features
from coresift.tables import is_tabular
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
        if rows.shape[1] != self.mean.size:
            refuse("X", f"a matrix with {self.mean.size} columns", f"shape {rows.shape}")
        return (rows - self.mean) / self.unit


def as_matrix(X: RowsLike, features: Features | None = None) -> Singles:
    """Return rows in single precision, read as the features of a model; refuse anything but finite numbers."""
    if features is not None or isinstance(X, Rows):
        rows = (features or Features()).read("X", X).astype(np.float32)
    else:
        try:
            rows = np.asarray(X, np.float32)
        except (TypeError, ValueError):
            table = "a table with other columns than numbers; choose its columns with open_rows"
            got = table if is_tabular(X) else type(X).__name__
            refuse("X", "a matrix of numbers, or the result of open_rows", got)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise InputError(f"X must be a matrix of finite numbers; got shape {rows.shape}.")
    return rows


def described(name: str, scale: Scale | None, classes: int = 0, **options: object) -> str:
    """Return the repr of a head: its options, and what it was fit to, if it was.

    >>> described("Head", None, penalty=0.1, temperature=None)
    'Head(penalty=0.1)'
    """
    parts = [f"{option}={value!r}" for option, value in options.items() if value is not None]
    if scale is not None:
        labels = f" and {counted(classes, 'class', 'classes')}" if classes else ""
        parts.append(f"fit to {counted(scale.mean.size, 'feature')}{labels}")
    return f"{name}({', '.join(parts)})"
