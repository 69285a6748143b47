"""Ridge regression on embeddings, for numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from coresift.checks import refuse
from coresift.heads.scaling import Scale, as_matrix
from coresift.types import Floats

# A ridge penalty is one of these, times the mean squared singular value.
RIDGES = tuple(10.0 ** np.arange(-6.0, 4.01, 0.25))


class RidgeHead:
    """Ridge regression whose penalty has the least leave-one-out error, and how sure it is of each prediction.

    >>> head = RidgeHead().fit([[0.0], [1.0], [2.0], [3.0]], [0.1, 1.0, 2.1, 2.9])
    >>> head.predict([[1.5]]).round(1).tolist()
    [1.5]
    >>> near, far = head.predict_spread([[1.5], [30.0]])
    >>> bool(far > near)
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> RidgeHead:
        """Learn from rows with numbers."""
        rows, targets = as_matrix(X), np.asarray(y, np.float64)
        if targets.shape != (len(rows),) or not targets.size or not np.isfinite(targets).all():
            refuse("y", f"a finite number for each of the {len(rows)} rows", f"shape {targets.shape}")
        self._scale, self._mean = Scale.of(rows), float(targets.mean())
        left, singular, right = np.linalg.svd(self._scale(rows).astype(np.float64), full_matrices=False)
        centered = targets - self._mean
        unit = float((singular**2).mean()) or 1.0
        errors = [_left_out(left, singular**2, centered, unit * ridge) for ridge in RIDGES]
        best = int(np.argmin(errors))
        self.penalty_, self._noise = unit * RIDGES[best], errors[best] or float(np.finfo(np.float64).tiny)
        shrink = singular / (singular**2 + self.penalty_)
        self._weights = right.T @ (shrink * (left.T @ centered))
        self._axes, self._variances = right, 1 / self.penalty_ - 1 / (singular**2 + self.penalty_)
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Return a number per row."""
        return np.asarray(self._scale(as_matrix(X)) @ self._weights + self._mean, np.float64)

    def predict_spread(self, X: ArrayLike) -> Floats:
        """Return the standard deviation of each prediction: √(σ²·(1 + xᵀ(XᵀX + λ)⁻¹x))."""
        rows = self._scale(as_matrix(X)).astype(np.float64)
        along = np.square(rows @ self._axes.T) @ self._variances
        reach = np.maximum(np.einsum("ij,ij->i", rows, rows) / self.penalty_ - along, 0)
        return np.asarray(np.sqrt(self._noise * (1 + reach)), np.float64)


def _left_out(left: Floats, squares: Floats, centered: Floats, penalty: float) -> float:
    """Return the mean squared error of predictions for rows that were left out, the mean's own share included."""
    shrink = squares / (squares + penalty)
    fitted = left @ (shrink * (left.T @ centered))
    leverage = np.square(left) @ shrink + 1 / len(centered)
    return float(np.square((centered - fitted) / np.maximum(1 - leverage, 1e-6)).mean())
