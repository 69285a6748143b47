"""Logistic regression on embeddings, for classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coresift.checks import refuse
from coresift.engine import SINGLE_THREADED
from coresift.heads.descent import minimize
from coresift.heads.scaling import Scale, as_matrix
from coresift.types import Floats, Ints, Singles

# Penalties on squared coefficients that are tried, for rows whose squared length is 1 on average.
PENALTIES = (1.0, 0.1, 0.01, 0.001)
# Divisors of the scores that are tried.
TEMPERATURES = tuple(2.0 ** np.arange(-3.0, 3.01, 0.25))
# So many parts of the labels are held out in turn, and fewer where labels are many.
FOLDS, FOLDS_OF_MANY, MANY = 5, 3, 500
# Steps of the optimizer for a penalty that is only tried, and for the one that is kept.
TRY_STEPS, FIT_STEPS = 15, 200
TOLERANCE = 1e-7


class LogisticHead:
    """Multinomial logistic regression whose penalty and temperature are chosen by cross-validation.

    Minimizes Σ −log p(y|x) + λ/2·‖W‖² with p = softmax(Wx + b). The penalty λ is the one whose scores, divided by their
    best temperature, have the least log loss on labels that were held out; weaker ones are tried until that rises. With
    a single class so far, that class has probability 1. `penalty` and `temperature` set them by hand.

    >>> head = LogisticHead().fit([[0.0], [1.0], [2.0], [7.0], [8.0], [9.0]], ["low"] * 3 + ["high"] * 3)
    >>> head.classes_.tolist(), head.predict([[0.5], [8.5]]).tolist()
    (['high', 'low'], ['low', 'high'])
    """

    classes_: NDArray[Any]

    def __init__(self, *, penalty: float | None = None, temperature: float | None = None) -> None:
        self.penalty, self.temperature = penalty, temperature

    def fit(self, X: ArrayLike, y: ArrayLike) -> LogisticHead:
        """Learn from labeled rows; classes may be of any type that sorts."""
        rows = as_matrix(X)
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        if codes.shape != (len(rows),) or not codes.size:
            refuse("y", f"one class for each of the {len(rows)} rows, and at least one row", f"shape {np.shape(y)}")
        self._scale, classes = Scale.of(rows), len(self.classes_)
        self.penalty_, self.temperature_ = self.penalty or PENALTIES[0], self.temperature or 1.0
        if classes == 1:
            self._weights = np.zeros((rows.shape[1] + 1, 1), np.float32)
            return self
        with SINGLE_THREADED:  # the products are small, and threads would change their last digits
            basis, start = _Basis.of(self._scale(rows)), None
            if self.penalty is None or self.temperature is None:
                start = self._choose(basis, codes)
            self._weights = basis.turn_back(_fit(basis, codes, classes, self.penalty_, FIT_STEPS, start))
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return a score per row and class, before the temperature."""
        rows = self._scale(as_matrix(X))
        return np.asarray(rows @ self._weights[:-1] + self._weights[-1], np.float64)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return a probability per row and class, in the order of `classes_`."""
        return softmax(self.decision_function(X) / self.temperature_)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the likeliest class of each row."""
        likeliest: NDArray[Any] = self.classes_[self.decision_function(X).argmax(axis=1)]
        return likeliest

    def _choose(self, basis: _Basis, codes: Ints) -> Singles | None:
        """Hold out each part of the labels in turn, for all penalties from the strongest on until the loss rises.

        Returns:
            The mean of what the parts' models have as coefficients, for a start; None where no part had two classes.
        """
        temperatures = np.array(TEMPERATURES if self.temperature is None else (self.temperature,))
        parts = [part for part in map(_Part.of, *_cut(basis, codes)) if part is not None]
        least, start = np.inf, None
        for penalty in PENALTIES if self.penalty is None else (self.penalty,):
            losses = np.zeros(temperatures.size)
            for part in parts:
                losses += part.try_penalty(penalty, temperatures)
            if not parts or losses.min() >= least:
                break
            least = float(losses.min())
            self.penalty_, self.temperature_ = float(penalty), float(temperatures[losses.argmin()])
            start = _mean_weights(parts, int(codes.max()) + 1)
        return start


def softmax(scores: Floats) -> Floats:
    """Return probabilities per line."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float64)


@dataclass(frozen=True)
class _Basis:
    """Rows on their own principal axes: X = rows·axes, with as many axes as there are rows at most."""

    rows: Singles
    lengths: Singles
    axes: Singles

    @classmethod
    def of(cls, rows: Singles) -> _Basis:
        left, singular, axes = np.linalg.svd(rows, full_matrices=False)
        return cls(left * singular, singular, axes)

    def part(self, ids: Ints) -> _Basis:
        """Return some of the rows, on the same axes."""
        return _Basis(self.rows[ids], self.lengths * np.float32(np.sqrt(ids.size / len(self.rows))), self.axes)

    def turn_back(self, weights: Singles) -> Singles:
        """Return coefficients for the rows as they were."""
        return np.concatenate([self.axes.T @ weights[:-1], weights[-1:]])


class _Part:
    """Labels that are held out, and a model of the others that goes on from one penalty to the next."""

    def __init__(self, basis: _Basis, learned: Ints, known: Ints, out: Singles, truth: Ints) -> None:
        self._basis, self._learned, self.known = basis, learned, known
        self._out, self._truth = out, truth
        self.weights: Singles | None = None

    @classmethod
    def of(cls, basis: _Basis, codes: Ints, out: Ints) -> _Part | None:
        """Split; None where the others have one class, or none of those held out."""
        kept = np.setdiff1d(np.arange(codes.size), out, assume_unique=True)
        known, learned = np.unique(codes[kept], return_inverse=True)
        out = out[np.isin(codes[out], known)]  # a class whose only label is held out cannot be told
        if not out.size or known.size < 2:
            return None
        return cls(basis.part(kept), learned, known, basis.rows[out], np.searchsorted(known, codes[out]))

    def try_penalty(self, penalty: float, temperatures: Floats) -> Floats:
        """Return the summed log loss of the labels held out at each temperature."""
        self.weights = _fit(self._basis, self._learned, self.known.size, penalty, TRY_STEPS, self.weights)
        return _log_losses(self._out @ self.weights[:-1] + self.weights[-1], self._truth, temperatures)


def _cut(basis: _Basis, codes: Ints) -> tuple[list[_Basis], list[Ints], list[Ints]]:
    """Deal the labels of each class to the parts in turn, going on where the class before it ended."""
    count = min(FOLDS if codes.size < MANY else FOLDS_OF_MANY, codes.size)
    order = np.argsort(codes, kind="stable")
    return [basis] * count, [codes] * count, [np.sort(order[first::count]) for first in range(count)]


def _mean_weights(parts: list[_Part], classes: int) -> Singles:
    """Return the parts' mean coefficients; a class that a part does not know has the mean of the others' there."""
    lines = parts[0].weights
    assert lines is not None
    total, count = np.zeros((len(lines), classes), np.float32), np.zeros(classes, np.float32)
    for part in parts:
        assert part.weights is not None
        total[:, part.known] += part.weights
        count[part.known] += 1
    mean: Singles = (total / np.maximum(count, 1)).astype(np.float32)
    return mean


def _fit(basis: _Basis, codes: Ints, classes: int, penalty: float, steps: int, start: Singles | None = None) -> Singles:
    """Return (rank + 1)×classes coefficients on the basis, the last line without a penalty.

    The curvature of the loss along an axis is about length²/classes + penalty. In units of its root all axes are
    alike, and few steps suffice.
    """
    n, rank = basis.rows.shape
    share = (1 - 1 / classes) / classes
    units = np.append(1 / np.sqrt(share * basis.lengths.astype(np.float64) ** 2 + penalty), 1 / np.sqrt(share * n))
    inputs = np.empty((n, rank + 1), np.float32)
    np.multiply(basis.rows, units[:-1].astype(np.float32), out=inputs[:, :-1])
    inputs[:, -1] = units[-1]
    penalties = (penalty * np.append(units[:-1] ** 2, 0.0)).astype(np.float32)[:, None]
    places = np.arange(n)

    def loss(flat: Singles) -> tuple[float, Singles]:
        weights = flat.reshape(rank + 1, classes)
        scores = inputs @ weights
        scores -= scores.max(axis=1, keepdims=True)
        truth = scores[places, codes].sum(dtype=np.float64)
        np.exp(scores, out=scores)
        sums = scores.sum(axis=1, keepdims=True)
        scores /= sums
        scores[places, codes] -= 1
        pull = penalties * weights
        value = np.log(sums, dtype=np.float64).sum() - truth + 0.5 * float(pull.ravel() @ flat)
        pull += inputs.T @ scores
        return float(value), pull.ravel()

    scales = units.astype(np.float32)[:, None]
    first = np.zeros((rank + 1, classes), np.float32) if start is None else start / scales
    return minimize(loss, first.ravel(), steps, TOLERANCE).reshape(rank + 1, classes) * scales


def _log_losses(scores: Singles, truth: Ints, temperatures: Floats) -> Floats:
    """Return the summed log loss of scores at each temperature."""
    wide = scores.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    own = wide[np.arange(truth.size), truth]
    return np.array([(np.log(np.exp(wide / t).sum(axis=1)) - own / t).sum() for t in temperatures])
