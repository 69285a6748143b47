"""Weighted least squares, and predictions from the fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coresift.checks import refuse
from coresift.engine import SINGLE_THREADED
from coresift.leverage import orthonormal
from coresift.notebook import card, counted
from coresift.rows import RowsLike
from coresift.rows.features import Features
from coresift.types import Floats, Value, freeze

MOST_SHOWN = 20  # coefficients on a card


@dataclass(frozen=True, eq=False, repr=False)
class Fit(Value):
    """A linear prediction ⟨a, x⟩ + c.

    Attributes:
        coefficients: x, one number per column.
        intercept: c.
        rank: The rank of the matrix that was fit.
        columns: The names of the columns, if they come from a table.
        scaling: If the columns were standardized: the mean of each column, and its divisor.

    Examples:
        >>> Fit(coefficients=np.array([2.0, 0.0]), intercept=1.0, rank=1).predict(np.array([[3.0, 5.0]]))
        array([7.])
    """

    coefficients: Floats
    intercept: float
    rank: int
    columns: tuple[str, ...] | None = field(default=None, compare=False, repr=False)
    scaling: tuple[Floats, Floats] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        freeze(self, coefficients=np.float64)

    def __repr__(self) -> str:
        return (
            f"Fit({counted(self.coefficients.size, 'coefficient')} of rank {self.rank}, intercept={self.intercept:.6g})"
        )

    def _repr_html_(self) -> str:
        names = self.columns or tuple(f"coefficient {number}" for number in range(self.coefficients.size))
        lines = [("intercept", f"{self.intercept:,.6g}")]
        pairs = zip(names[:MOST_SHOWN], self.coefficients[:MOST_SHOWN], strict=True)
        lines += [(name, f"{coefficient:,.6g}") for name, coefficient in pairs]
        more = len(names) - MOST_SHOWN
        remarks = [f"{more:,} more coefficients are not shown."] if more > 0 else []
        if self.scaling is not None:
            remarks.append(
                "Each coefficient is per standard deviation of its column; divide by scaling[1] for its units."
            )
        return card(f"Linear fit of rank {self.rank}", lines, remarks)

    def predict(self, A: RowsLike) -> Floats:
        """Return the prediction for every row of A.

        Args:
            A: Anything that `open_rows` takes. If the fit used columns of a table and A is a table, columns are matched
                by name, in any order. Tables and opened rows are standardized if the rows were for the fit. Arrays are
                used unchanged.

        Returns:
            One number per row.
        """
        rows = Features(self.columns, self.scaling).read("A", A)
        if rows.ndim != 2 or rows.shape[1] != self.coefficients.size:
            refuse("A", f"a matrix with {self.coefficients.size} columns", f"shape {rows.shape}")
        predicted: Floats = rows @ self.coefficients + self.intercept
        return predicted


def least_squares(features: Any, labels: Floats, weights: Any, ridge: float, intercept: bool) -> Fit:
    """Return the x and c that minimize Σ w(⟨a,x⟩ + c − b)² + ridge·‖x‖²; c = 0 without an intercept."""
    A, total = np.asarray(features, np.float64), float(np.sum(weights))
    root = np.sqrt(weights)[:, np.newaxis]
    with SINGLE_THREADED:
        column_lengths = np.linalg.norm(root * A, axis=0)
        mean = weights @ A / total if intercept else np.zeros(A.shape[1])
        label_mean = float(weights @ labels / total) if intercept else 0.0
        A, targets = root * (A - mean), root[:, 0] * (labels - label_mean)
        if ridge > 0:
            A = np.concatenate([A, np.sqrt(ridge) * np.eye(A.shape[1])])
            targets = np.concatenate([targets, np.zeros(A.shape[1])])
        basis, transform = orthonormal(A, column_lengths)
        coefficients = transform @ (basis.T @ targets)
    return Fit(coefficients, label_mean - float(mean @ coefficients), transform.shape[1])
