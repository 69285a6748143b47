"""Predict results from those of other models on the same item: the best linear prediction (kriging).

Two results on an item are the more alike, the more alike the answers are, the models write, and they are judged. How
much each of this matters is learned from all pairs of earlier models: the covariance of their results is regressed on
kernels, with coefficients of at least 0. The covariance then says how much every result counts. Unlike a weighted mean,
this does not count ten copies of an answer ten times.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coresift.types import Bools, Floats, Ints

# Matrices of how alike the answers to an item are; one line and column per model, the new one last.
Kernels = Callable[[int], Floats]
# A pair of models that were both judged like the new one counts as much as this many other pairs.
SAME_PAIRS = 4.0
# A result has a part of its own, which is at least this part of what it shares with others.
LEAST_OWN = 0.05
# A ridge penalty that only decides between kernels that are the same.
TINY = 1e-6


def predictions(results: Floats, known: Bools, kernels: Kernels | None, groups: Floats, like_new: Bools) -> Floats:
    """Return predictions of all results, each without itself: one line per item, one column per model, new one last.

    Args:
        results: One line per item and one column per earlier model, with mean 0 and variance 1 per model, 0 if unknown.
        known: Which results are known.
        kernels: How alike the answers to an item are; None if texts are not known.
        groups: How alike models are, one matrix each, the new one last; each is multiplied by each kernel.
        like_new: Which earlier models were judged like the new one.
    """
    every = np.ones((1, *groups.shape[1:]))
    of_item = (lambda _: every) if kernels is None else kernels
    coefficients = _coefficients(results, known, of_item, groups[:, :-1, :-1], like_new)
    shares = np.einsum("kg,gij->kij", coefficients, groups)
    predicted = np.zeros((len(results), len(shares[0])))
    for items in _batches(known, one_by_one=kernels is not None):
        covariance = np.einsum("kij,kij->ij", of_item(int(items[0])), shares)
        predicted[items] = _predict(results[items], known[items[0]], covariance)
    return predicted


def _batches(known: Bools, one_by_one: bool) -> list[Ints]:
    """Return items that have the same covariances; without texts, those for which the same results are known."""
    if one_by_one:
        return list(np.arange(len(known))[:, None])
    _, numbers = np.unique(known, axis=0, return_inverse=True)
    order = np.argsort(numbers.ravel(), kind="stable")
    return np.split(order, np.flatnonzero(np.diff(numbers.ravel()[order])) + 1)


def _predict(own: Floats, there: Bools, covariance: Floats) -> Floats:
    """Predict the results on a batch of items, of which those of the same models are known."""
    with_new = np.append(there, False)
    among = covariance[np.ix_(with_new, with_new)]
    diagonal = among.diagonal()
    inverse = np.linalg.inv(among + np.diag(np.maximum(1.0, (1 + LEAST_OWN) * diagonal) - diagonal))
    weights = own[:, there] @ inverse
    predicted = weights @ covariance[with_new]
    # Leaving a result out changes its prediction by its weight over the inverse's diagonal.
    predicted[:, with_new] = own[:, there] - weights / inverse.diagonal()
    return np.asarray(predicted)


def _coefficients(results: Floats, known: Bools, kernels: Kernels, groups: Floats, like_new: Bools) -> Floats:
    """Return the coefficient of each kernel with each group, by nonnegative least squares over all pairs of results."""
    from scipy.optimize import nnls

    models, count = results.shape[1], len(kernels(0))
    squares, products = np.zeros((count, count, models, models)), np.zeros((count, models, models))
    for item, (own, there) in enumerate(zip(results, known, strict=True)):
        both = kernels(item)[:, :-1, :-1] * np.outer(there, there)
        products += both * np.outer(own, own)
        for number in range(count):
            squares[number] += both[number] * both
    weights = np.where(np.outer(like_new, like_new), SAME_PAIRS, 1.0) * (1 - np.eye(models))
    pairs = (groups[:, None] * groups * weights).reshape(len(groups), len(groups), -1)
    size = count * len(groups)
    normal = np.einsum("klp,ghp->kglh", squares.reshape(count, count, -1), pairs, optimize=True).reshape(size, size)
    right = np.einsum("kp,gp->kg", products.reshape(count, -1), (groups * weights).reshape(len(groups), -1)).ravel()
    if not normal.any():
        return np.zeros((count, len(groups)))
    root = np.linalg.cholesky(normal + TINY * np.trace(normal) / size * np.eye(size))
    coefficients, _ = nnls(root.T, np.linalg.solve(root, right))
    return np.asarray(coefficients.reshape(count, len(groups)))
