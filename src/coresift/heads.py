"""Small models on top of embeddings: logistic regression for classes, ridge regression for numbers.

Both choose their own regularization on the labels that they get, so that few labels and many work alike. Rows are moved
to their mean and divided by one number for all columns: distances keep their meaning, and nothing depends on the unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coresift.checks import InputError, refuse
from coresift.engine import SINGLE_THREADED
from coresift.types import Floats, Ints, Singles

# Penalties on squared coefficients that are tried, for rows whose squared length is 1 on average.
PENALTIES = (1.0, 0.1, 0.01, 0.001)
# Divisors of the scores that are tried.
TEMPERATURES = tuple(2.0 ** np.arange(-3.0, 3.01, 0.25))
# So many parts of the labels are held out in turn, and fewer where labels are many.
FOLDS, FOLDS_OF_MANY, MANY = 5, 3, 500
# Steps of the optimizer for a penalty that is only tried, and for the one that is kept.
TRY_STEPS, FIT_STEPS = 15, 200
# A ridge penalty is one of these, times the mean squared singular value.
RIDGES = tuple(10.0 ** np.arange(-6.0, 4.01, 0.25))


class LogisticHead:
    """Multinomial logistic regression whose penalty and temperature are chosen by cross-validation.

    Minimizes Σ −log p(y|x) + λ/2·‖W‖² with p = softmax(Wx + b). The penalty λ is the one whose scores, divided by their
    best temperature, have the least log loss on labels that were held out. With a single class so far, that class has
    probability 1. `penalty` and `temperature` set them by hand.

    >>> head = LogisticHead().fit([[0.0], [1.0], [2.0], [7.0], [8.0], [9.0]], ["low"] * 3 + ["high"] * 3)
    >>> head.classes_.tolist(), head.predict([[0.5], [8.5]]).tolist()
    (['high', 'low'], ['low', 'high'])
    """

    classes_: NDArray[Any]

    def __init__(self, *, penalty: float | None = None, temperature: float | None = None) -> None:
        self.penalty, self.temperature = penalty, temperature

    def fit(self, X: ArrayLike, y: ArrayLike) -> LogisticHead:
        """Learn from labeled rows; classes may be of any type that sorts."""
        rows = _matrix(X)
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        if codes.shape != (len(rows),) or not codes.size:
            refuse("y", f"one class for each of the {len(rows)} rows, and at least one row", f"shape {np.shape(y)}")
        self._scale = _Scale.of(rows)
        self.penalty_, self.temperature_ = self.penalty or PENALTIES[0], self.temperature or 1.0
        with SINGLE_THREADED:  # the products are small, and threads would change their last digits
            if len(self.classes_) > 1 and (self.penalty is None or self.temperature is None):
                self._choose(self._scale(rows), codes)
            basis = _Basis.of(self._scale(rows))
            self._weights = _fit(basis, codes, len(self.classes_), self.penalty_, FIT_STEPS)
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return a score per row and class, before the temperature."""
        rows = self._scale(_matrix(X))
        return np.asarray(rows @ self._weights[:-1] + self._weights[-1], np.float64)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return a probability per row and class, in the order of `classes_`."""
        return softmax(self.decision_function(X) / self.temperature_)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the likeliest class of each row."""
        likeliest: NDArray[Any] = self.classes_[self.decision_function(X).argmax(axis=1)]
        return likeliest

    def _choose(self, rows: Singles, codes: Ints) -> None:
        """Hold out each part of the labels in turn, for all penalties from the strongest on."""
        penalties = PENALTIES if self.penalty is None else (self.penalty,)
        temperatures = np.array(TEMPERATURES if self.temperature is None else (self.temperature,))
        losses = np.zeros((len(penalties), temperatures.size))
        parts = _parts(codes)
        for part in range(parts.max() + 1):
            out, kept = np.flatnonzero(parts == part), np.flatnonzero(parts != part)
            known, learned = np.unique(codes[kept], return_inverse=True)
            out = out[np.isin(codes[out], known)]  # a class whose only label is held out cannot be told
            if not out.size or known.size < 2:
                continue
            truth, basis, weights = np.searchsorted(known, codes[out]), _Basis.of(rows[kept]), None
            for place, penalty in enumerate(penalties):
                weights = _fit(basis, learned, known.size, penalty, TRY_STEPS, weights)
                losses[place] += _log_losses(rows[out] @ weights[:-1] + weights[-1], truth, temperatures)
        best, at = divmod(int(losses.argmin()), temperatures.size)
        if losses.any():
            self.penalty_, self.temperature_ = float(penalties[best]), float(temperatures[at])


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
        rows, targets = _matrix(X), np.asarray(y, np.float64)
        if targets.shape != (len(rows),) or not targets.size or not np.isfinite(targets).all():
            refuse("y", f"a finite number for each of the {len(rows)} rows", f"shape {targets.shape}")
        self._scale, self._mean = _Scale.of(rows), float(targets.mean())
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
        return np.asarray(self._scale(_matrix(X)) @ self._weights + self._mean, np.float64)

    def predict_spread(self, X: ArrayLike) -> Floats:
        """Return the standard deviation of each prediction: √(σ²·(1 + xᵀ(XᵀX + λ)⁻¹x))."""
        rows = self._scale(_matrix(X)).astype(np.float64)
        along = np.square(rows @ self._axes.T) @ self._variances
        reach = np.maximum(np.einsum("ij,ij->i", rows, rows) / self.penalty_ - along, 0)
        return np.asarray(np.sqrt(self._noise * (1 + reach)), np.float64)


def softmax(scores: Floats) -> Floats:
    """Return probabilities per line."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float64)


@dataclass(frozen=True)
class _Scale:
    """Moves rows to their mean, and divides by what makes their squared length 1 on average."""

    mean: Singles
    unit: np.float32

    @classmethod
    def of(cls, rows: Singles) -> _Scale:
        mean = rows.mean(axis=0, dtype=np.float64)
        unit = np.sqrt(np.square(rows - mean).sum(axis=1).mean())
        return cls(mean.astype(np.float32), np.float32(unit or 1.0))

    def __call__(self, rows: Singles) -> Singles:
        return (rows - self.mean) / self.unit


@dataclass(frozen=True)
class _Basis:
    """Rows on their own principal axes: X = left·diag(singular)·right, with as many axes as there are rows at most."""

    left: Singles
    singular: Singles
    right: Singles

    @classmethod
    def of(cls, rows: Singles) -> _Basis:
        return cls(*np.linalg.svd(rows, full_matrices=False))


def _fit(basis: _Basis, codes: Ints, classes: int, penalty: float, steps: int, start: Singles | None = None) -> Singles:
    """Return (d + 1)×classes coefficients, the last line without a penalty.

    The curvature of the loss along an axis is about singular²/classes + penalty. In units of its root all axes are
    alike, and few steps suffice.
    """
    from scipy.optimize import minimize  # it takes long to import

    n, rank = basis.left.shape[0], basis.singular.size
    if classes == 1:
        return np.zeros((basis.right.shape[1] + 1, 1), np.float32)
    share = (1 - 1 / classes) / classes
    units = np.append(1 / np.sqrt(share * basis.singular.astype(np.float64) ** 2 + penalty), 1 / np.sqrt(share * n))
    inputs = np.empty((n, rank + 1), np.float32)
    inputs[:, :-1] = basis.left * (basis.singular * units[:-1]).astype(np.float32)
    inputs[:, -1] = units[-1]
    penalties = penalty * np.append(units[:-1] ** 2, 0.0)[:, None]
    hits = np.zeros((n, classes), np.float32)
    hits[np.arange(n), codes] = 1

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(rank + 1, classes)
        scores = inputs @ weights.astype(np.float32)
        scores -= scores.max(axis=1, keepdims=True)
        truth = np.einsum("ij,ij->", scores, hits, dtype=np.float64)
        np.exp(scores, out=scores)
        sums = scores.sum(axis=1, keepdims=True)
        scores /= sums
        scores -= hits
        pull = penalties * weights
        value = np.log(sums, dtype=np.float64).sum() - truth + 0.5 * float((pull * weights).sum())
        return float(value), (inputs.T @ scores + pull).ravel()

    first = np.zeros((rank + 1, classes))
    if start is not None:
        first[:-1], first[-1] = (basis.right @ start[:-1]) / units[:-1, None], start[-1] / units[-1]
    found = minimize(loss, first.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": steps, "ftol": 1e-7})
    weights = found.x.reshape(rank + 1, classes) * units[:, None]
    return np.concatenate([basis.right.T @ weights[:-1], weights[-1:]]).astype(np.float32)


def _parts(codes: Ints) -> Ints:
    """Deal the labels of each class to the parts in turn, going on where the class before it ended."""
    count = min(FOLDS if codes.size < MANY else FOLDS_OF_MANY, codes.size)
    parts = np.empty(codes.size, np.int64)
    parts[np.argsort(codes, kind="stable")] = np.arange(codes.size) % count
    return parts


def _log_losses(scores: Singles, truth: Ints, temperatures: Floats) -> Floats:
    """Return the summed log loss of scores at each temperature."""
    wide = scores.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    own = wide[np.arange(truth.size), truth]
    return np.array([(np.log(np.exp(wide / t).sum(axis=1)) - own / t).sum() for t in temperatures])


def _left_out(left: Floats, squares: Floats, centered: Floats, penalty: float) -> float:
    """Return the mean squared error of predictions for rows that were left out, the mean's own share included."""
    shrink = squares / (squares + penalty)
    fitted = left @ (shrink * (left.T @ centered))
    leverage = np.square(left) @ shrink + 1 / len(centered)
    return float(np.square((centered - fitted) / np.maximum(1 - leverage, 1e-6)).mean())


def _matrix(X: ArrayLike) -> Singles:
    try:
        rows = np.asarray(X, np.float32)
    except (TypeError, ValueError):
        refuse("X", "a matrix of numbers", type(X).__name__)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise InputError(f"X must be a matrix of finite numbers; got shape {rows.shape}.")
    return rows
