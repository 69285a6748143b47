"""Ridge regression on embeddings, for numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from coresift.checks import refuse
from coresift.heads.scaling import Scale, as_matrix, described
from coresift.rows import RowsLike
from coresift.rows.features import Features
from coresift.types import Floats

# Ridge penalties to try, in units of the mean squared singular value.
RIDGES = tuple(10.0 ** np.arange(-6.0, 4.01, 0.25))


class RidgeHead:
    """Ridge regression whose penalty minimizes the leave-one-out error, with a standard deviation per prediction.

    >>> head = RidgeHead().fit([[0.0], [1.0], [2.0], [3.0]], [0.1, 1.0, 2.1, 2.9])
    >>> head.predict([[1.5]]).round(1).tolist()
    [1.5]
    >>> head
    RidgeHead(fit to 1 feature)
    >>> near, far = head.predict_spread([[1.5], [30.0]])
    >>> bool(far > near)
    True
    """

    features: Features | None = None  # how tables are read, if the rows that it was fit to come from one

    def __repr__(self) -> str:
        return described("RidgeHead", getattr(self, "_scale", None))

    def fit(self, X: RowsLike, y: ArrayLike) -> RidgeHead:
        """Learn from rows and their numbers."""
        rows, targets = as_matrix(X), np.asarray(y, np.float64)
        if targets.shape != (len(rows),) or not targets.size or not np.isfinite(targets).all():
            refuse("y", f"a finite number for each of the {len(rows)} rows", f"shape {targets.shape}")
        self._scale, self.features, self._mean = Scale.of(rows), None, float(targets.mean())
        left, singular, right = np.linalg.svd(self._scale(rows).astype(np.float64), full_matrices=False)
        centered = targets - self._mean
        unit = float((singular**2).mean()) or 1.0
        errors = [_leave_one_out_error(left, singular**2, centered, unit * ridge) for ridge in RIDGES]
        best = int(np.argmin(errors))
        self.penalty_, self._noise = unit * RIDGES[best], errors[best] or float(np.finfo(np.float64).tiny)
        shrink = singular / (singular**2 + self.penalty_)
        self._weights = right.T @ (shrink * (left.T @ centered))
        self._axes, self._variances = right, 1 / self.penalty_ - 1 / (singular**2 + self.penalty_)
        return self

    def predict(self, X: RowsLike) -> Floats:
        """Return one predicted number per row."""
        return np.asarray(self._scale(as_matrix(X, self.features)) @ self._weights + self._mean, np.float64)

    def predict_spread(self, X: RowsLike) -> Floats:
        """Return the standard deviation of each prediction: √(σ²·(1 + xᵀ(XᵀX + λ)⁻¹x))."""
        rows = self._scale(as_matrix(X, self.features)).astype(np.float64)
        explained = np.square(rows @ self._axes.T) @ self._variances
        leverage = np.maximum(np.einsum("ij,ij->i", rows, rows) / self.penalty_ - explained, 0)
        return np.asarray(np.sqrt(self._noise * (1 + leverage)), np.float64)


def _leave_one_out_error(left: Floats, squares: Floats, centered: Floats, penalty: float) -> float:
    """Return the leave-one-out mean squared error; the leverage includes that of the mean."""
    shrink = squares / (squares + penalty)
    fitted = left @ (shrink * (left.T @ centered))
    leverage = np.square(left) @ shrink + 1 / len(centered)
    return float(np.square((centered - fitted) / np.maximum(1 - leverage, 1e-6)).mean())
