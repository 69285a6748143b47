"""Logistic regression on embeddings, for classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coresift.checks import positive, refuse
from coresift.engine import SINGLE_THREADED
from coresift.heads.descent import minimize
from coresift.heads.scaling import Scale, as_matrix, described
from coresift.rows import RowsLike
from coresift.rows.features import Features
from coresift.types import Bools, Floats, Ints, Singles

# L2 penalties to try, strongest first, for rows whose mean squared length is 1.
PENALTIES = (1.0, 0.1, 0.01, 0.001)
# Temperatures to try.
TEMPERATURES = tuple(2.0 ** np.arange(-3.0, 3.01, 0.25))
# The number of cross-validation folds, the number with many labels, and how many labels are many.
FOLDS, FOLDS_OF_MANY, MANY = 5, 3, 500
# Optimizer steps during cross-validation, and for the final fit.
TRY_STEPS, FIT_STEPS = 15, 200
TOLERANCE = 1e-7


class LogisticHead:
    """Multinomial logistic regression whose penalty and temperature are chosen by cross-validation.

    Minimizes Σ −log p(y|x) + λ/2·‖W‖² with p = softmax(Wx + b). The penalty λ is the one with the smallest held-out log
    loss at its best temperature; ever weaker penalties are tried until that loss rises. If there is only one class so
    far, it gets probability 1. `penalty` and `temperature` set them by hand.

    With `cautious=True` the strongest penalty whose loss is within one standard error of the smallest is taken. Active
    learning does so: its labels are of rows that were chosen for being hard, and on noisy classes the smallest loss of
    such labels is often that of too weak a penalty.

    After cross-validation, `held_out_` has a number per label: 1 if it was predicted while it was held out, 0 if not,
    and NaN if it could not be (its class has no other label).

    >>> head = LogisticHead().fit([[0.0], [1.0], [2.0], [7.0], [8.0], [9.0]], ["low"] * 3 + ["high"] * 3)
    >>> head.classes_.tolist(), head.predict([[0.5], [8.5]]).tolist()
    (['high', 'low'], ['low', 'high'])
    """

    classes_: NDArray[Any]
    held_out_: Floats
    features: Features | None = None  # how tables are read, if the rows that it was fit to come from one

    def __init__(
        self, *, penalty: float | None = None, temperature: float | None = None, cautious: bool = False
    ) -> None:
        self.cautious = cautious
        self.penalty = None if penalty is None else positive("penalty", penalty)
        self.temperature = None if temperature is None else positive("temperature", temperature)

    def __repr__(self) -> str:
        classes = len(getattr(self, "classes_", ()))
        scale = getattr(self, "_scale", None)
        options = {"penalty": self.penalty, "temperature": self.temperature, "cautious": self.cautious or None}
        return described("LogisticHead", scale, classes, **options)

    def fit(self, X: RowsLike, y: ArrayLike) -> LogisticHead:
        """Learn from labeled rows; classes may be of any type that sorts."""
        rows = as_matrix(X)
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        if codes.shape != (len(rows),) or not codes.size:
            refuse("y", f"one class for each of the {len(rows)} rows, and at least one row", f"shape {np.shape(y)}")
        self._scale, self.features, classes = Scale.of(rows), None, len(self.classes_)
        self.penalty_, self.temperature_ = self.penalty or PENALTIES[0], self.temperature or 1.0
        self.held_out_ = np.full(codes.size, np.nan)
        if classes == 1:
            self._weights = np.zeros((rows.shape[1] + 1, 1), np.float32)
            return self
        with SINGLE_THREADED:  # the products are small, and threads would change their last digits
            basis, start = _Basis.of(self._scale(rows)), None
            if self.penalty is None or self.temperature is None:
                start = self._cross_validate(basis, codes)
            self._weights = basis.to_features(_fit(basis, codes, classes, self.penalty_, FIT_STEPS, start))
        return self

    def decision_function(self, X: RowsLike) -> Floats:
        """Return a score per row and class, before division by the temperature."""
        rows = self._scale(as_matrix(X, self.features))
        return np.asarray(rows @ self._weights[:-1] + self._weights[-1], np.float64)

    def predict_proba(self, X: RowsLike) -> Floats:
        """Return a probability per row and class, in the order of `classes_`."""
        return softmax(self.decision_function(X) / self.temperature_)

    def predict(self, X: RowsLike) -> NDArray[Any]:
        """Return the likeliest class of each row."""
        likeliest: NDArray[Any] = self.classes_[self.decision_function(X).argmax(axis=1)]
        return likeliest

    def _cross_validate(self, basis: _Basis, codes: Ints) -> Singles | None:
        """Choose penalty and temperature by cross-validation, from the strongest penalty on until the loss rises.

        Returns:
            The folds' mean coefficients, as a warm start for the final fit; None if no fold could be fit.
        """
        temperatures = np.array(TEMPERATURES if self.temperature is None else (self.temperature,))
        folds = [fold for fold in map(_Fold.of, *_assign_folds(basis, codes)) if fold is not None]
        if not folds:
            return None
        tries: list[_Try] = []
        for penalty in PENALTIES if self.penalty is None else (self.penalty,):
            attempt = _Try.of(penalty, temperatures, folds, codes)
            if tries and attempt.losses.sum() >= tries[-1].losses.sum():
                break
            tries.append(attempt)
        chosen = _strongest_within_error(tries) if self.cautious else tries[-1]
        self.penalty_, self.temperature_, self.held_out_ = chosen.penalty, chosen.temperature, chosen.right
        return chosen.weights


def softmax(scores: Floats) -> Floats:
    """Return the softmax of each line."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float64)


@dataclass(frozen=True)
class _Basis:
    """Rows in their singular basis: X = rows·axes, with at most as many axes as rows."""

    rows: Singles
    lengths: Singles
    axes: Singles

    @classmethod
    def of(cls, rows: Singles) -> _Basis:
        left, singular, axes = np.linalg.svd(rows, full_matrices=False)
        return cls(left * singular, singular, axes)

    def subset(self, ids: Ints) -> _Basis:
        """Return these rows on the same axes, with singular values scaled to their number."""
        return _Basis(self.rows[ids], self.lengths * np.float32(np.sqrt(ids.size / len(self.rows))), self.axes)

    def to_features(self, weights: Singles) -> Singles:
        """Return the coefficients for the original features."""
        return np.concatenate([self.axes.T @ weights[:-1], weights[-1:]])


class _Fold:
    """A held-out fold, and a model of the other labels that is warm-started from one penalty to the next."""

    def __init__(self, basis: _Basis, training_codes: Ints, known: Ints, rows: Singles, out: Ints, truth: Ints) -> None:
        self._basis, self._training_codes, self.known = basis, training_codes, known
        self._rows, self.out, self._truth = rows, out, truth
        self.weights: Singles | None = None

    @classmethod
    def of(cls, basis: _Basis, codes: Ints, out: Ints) -> _Fold | None:
        """Split the labels; None if the training labels have fewer than two classes, or none of the held-out ones."""
        training = np.setdiff1d(np.arange(codes.size), out, assume_unique=True)
        known, training_codes = np.unique(codes[training], return_inverse=True)
        out = out[np.isin(codes[out], known)]  # a class whose labels are all held out cannot be predicted
        if not out.size or known.size < 2:
            return None
        truth = np.searchsorted(known, codes[out])
        return cls(basis.subset(training), training_codes, known, basis.rows[out], out, truth)

    def try_penalty(self, penalty: float, temperatures: Floats) -> tuple[Floats, Bools]:
        """Return each held-out label's log loss at each temperature, and whether it is the likeliest."""
        self.weights = _fit(self._basis, self._training_codes, self.known.size, penalty, TRY_STEPS, self.weights)
        scores = self._rows @ self.weights[:-1] + self.weights[-1]
        return _log_losses(scores, self._truth, temperatures), scores.argmax(axis=1) == self._truth


@dataclass(frozen=True)
class _Try:
    """A penalty that was tried: its best temperature, and how well it predicts held-out labels.

    `losses` has the log loss of every label that was held out and could be predicted, in an order that is the same for
    all penalties; `right` is as `LogisticHead.held_out_`; `weights` are the folds' mean coefficients.
    """

    penalty: float
    temperature: float
    losses: Floats
    right: Floats
    weights: Singles

    @classmethod
    def of(cls, penalty: float, temperatures: Floats, folds: list[_Fold], codes: Ints) -> _Try:
        parts, right = [], np.full(codes.size, np.nan)
        for fold in folds:
            losses, right[fold.out] = fold.try_penalty(penalty, temperatures)
            parts.append(losses)
        table = np.concatenate(parts, axis=1)
        best = int(table.sum(axis=1).argmin())
        return cls(float(penalty), float(temperatures[best]), table[best], right, _mean_weights(folds, codes.max() + 1))


def _strongest_within_error(tries: list[_Try]) -> _Try:
    """Return the strongest penalty whose loss is within one standard error (of the difference) of the last, smallest.

    >>> def tried(penalty: float, losses: list[float]) -> _Try:
    ...     return _Try(penalty, 1.0, np.array(losses), np.zeros(0), np.zeros(0, np.float32))
    >>> _strongest_within_error([tried(1.0, [2, 2, 2, 2]), tried(0.1, [1, 2, 1, 3]), tried(0.01, [2, 1, 1, 2])]).penalty
    0.1
    """
    best = tries[-1].losses
    for attempt in tries:
        excess = attempt.losses - best
        if excess.sum() <= excess.std() * np.sqrt(excess.size):
            return attempt
    return tries[-1]


def _assign_folds(basis: _Basis, codes: Ints) -> tuple[list[_Basis], list[Ints], list[Ints]]:
    """Assign labels to folds round-robin, class by class, so that classes are spread evenly (stratified folds)."""
    count = min(FOLDS if codes.size < MANY else FOLDS_OF_MANY, codes.size)
    order = np.argsort(codes, kind="stable")
    return [basis] * count, [codes] * count, [np.sort(order[first::count]) for first in range(count)]


def _mean_weights(folds: list[_Fold], classes: int) -> Singles:
    """Return the folds' mean coefficients; each class is averaged over the folds that know it."""
    first = folds[0].weights
    assert first is not None
    total, count = np.zeros((len(first), classes), np.float32), np.zeros(classes, np.float32)
    for fold in folds:
        assert fold.weights is not None
        total[:, fold.known] += fold.weights
        count[fold.known] += 1
    mean: Singles = (total / np.maximum(count, 1)).astype(np.float32)
    return mean


def _fit(basis: _Basis, codes: Ints, classes: int, penalty: float, steps: int, start: Singles | None = None) -> Singles:
    """Return (rank + 1)×classes coefficients in the basis; the last line, the intercept, is not penalized.

    The curvature of the loss along an axis is about length²/classes + penalty. Dividing by its root preconditions the
    problem, so few steps suffice.
    """
    n, rank = basis.rows.shape
    share = (1 - 1 / classes) / classes
    units = np.append(1 / np.sqrt(share * basis.lengths.astype(np.float64) ** 2 + penalty), 1 / np.sqrt(share * n))
    inputs = np.empty((n, rank + 1), np.float32)
    np.multiply(basis.rows, units[:-1].astype(np.float32), out=inputs[:, :-1])
    inputs[:, -1] = units[-1]
    penalties = (penalty * np.append(units[:-1] ** 2, 0.0)).astype(np.float32)[:, None]
    indices = np.arange(n)

    def loss(flat: Singles) -> tuple[float, Singles]:
        weights = flat.reshape(rank + 1, classes)
        scores = inputs @ weights
        scores -= scores.max(axis=1, keepdims=True)
        truth = scores[indices, codes].sum(dtype=np.float64)
        np.exp(scores, out=scores)
        sums = scores.sum(axis=1, keepdims=True)
        scores /= sums
        scores[indices, codes] -= 1
        gradient = penalties * weights
        value = np.log(sums, dtype=np.float64).sum() - truth + 0.5 * float(gradient.ravel() @ flat)
        gradient += inputs.T @ scores
        return float(value), gradient.ravel()

    scales = units.astype(np.float32)[:, None]
    first = np.zeros((rank + 1, classes), np.float32) if start is None else start / scales
    return minimize(loss, first.ravel(), steps, TOLERANCE).reshape(rank + 1, classes) * scales


def _log_losses(scores: Singles, truth: Ints, temperatures: Floats) -> Floats:
    """Return the log loss of each line of scores, for each temperature."""
    logits = scores.astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    correct = logits[np.arange(truth.size), truth]
    return np.array([np.log(np.exp(logits / t).sum(axis=1)) - correct / t for t in temperatures])
