"""Predict results from those of other models on the same item: the best linear prediction (kriging).

Two results on an item are the more alike, the more alike the answers are, the models write, and they are judged. How
much each of this matters is learned from the earlier models: their results on a part of the items are predicted from
each other, each without itself, and the squared errors are made as small as possible. The covariance then says how
much every result counts. Unlike a weighted mean, this does not count ten copies of an answer ten times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coresift.progress import Progress, stage
from coresift.types import Bools, Floats, Ints, Value

# Matrices of how alike the answers to an item are; one line and column per model, the new one last.
Kernels = Callable[[int], Floats]
# The covariance is learned from at most so many items and models, in at most so many steps.
LEARN_ITEMS, LEARN_MODELS, STEPS = 256, 128, 40
# The starting value and the lower bound of the variance that a result shares with no other. Results have variance 1.
OWN, LEAST_OWN = 0.3, 0.01
# The weight of a penalty that pulls the logarithms of coefficients toward their starting values.
PULL = 0.3
# The least variance of a prediction.
LEAST_VARIANCE = 1e-4


@dataclass(frozen=True, eq=False)
class Predictions(Value):
    """Predictions of all results, each without itself: one line per item, one column per model, the new one last.

    Attributes:
        values: What to expect.
        variances: The part of a result's variance that the other results do not explain, without what is its own.
    """

    values: Floats
    variances: Floats


@dataclass(frozen=True, eq=False)
class Covariance(Value):
    """How results on an item vary together: a coefficient for each kernel with each group, and the own part."""

    groups: Floats
    coefficients: Floats
    own: float

    @property
    def shares(self) -> Floats:
        """What each kernel is multiplied by: kernels × models × models."""
        return np.asarray(np.einsum("kg,gij->kij", self.coefficients, self.groups))


def predictions(
    results: Floats, known: Bools, kernels: Kernels | None, groups: Floats, progress: Progress
) -> Predictions:
    """Predict every result from the others on the same item.

    Args:
        results: One line per item and one column per earlier model, with mean 0 and variance 1 per model, 0 if unknown.
        known: Which results are known.
        kernels: How alike the answers to an item are; None if texts are not known.
        groups: How alike models are, one matrix each, the new one last; each is multiplied by each kernel.
        progress: Counts the steps of learning, and the items.
    """
    every = np.ones((1, *groups.shape[1:]))
    of_item = (lambda _: every) if kernels is None else kernels
    covariance = learned(results, known, of_item, groups, progress)
    shares = covariance.shares
    values, variances = (np.zeros((len(results), len(shares[0]))) for _ in range(2))
    with stage(progress, "results", len(results)):
        for items in _batches(known, one_by_one=kernels is not None):
            among = np.einsum("kij,kij->ij", of_item(int(items[0])), shares)
            values[items], variances[items] = _predict(results[items], known[items[0]], among, covariance.own)
            progress.advance(len(items))
    return Predictions(values, np.maximum(variances, LEAST_VARIANCE))


def _batches(known: Bools, one_by_one: bool) -> list[Ints]:
    """Return items that have the same covariances; without texts, those for which the same results are known."""
    if one_by_one:
        return list(np.arange(len(known))[:, None])
    _, numbers = np.unique(known, axis=0, return_inverse=True)
    order = np.argsort(numbers.ravel(), kind="stable")
    return np.split(order, np.flatnonzero(np.diff(numbers.ravel()[order])) + 1)


def _predict(results: Floats, there: Bools, covariance: Floats, own: float) -> tuple[Floats, Floats]:
    """Predict the results on a batch of items, of which those of the same models are known."""
    with_new = np.append(there, False)
    inverse = np.linalg.inv(covariance[np.ix_(with_new, with_new)] + own * np.eye(int(there.sum())))
    weights = results[:, there] @ inverse
    predicted = weights @ covariance[with_new]
    variances = covariance.diagonal() - np.sum(covariance[with_new] * (inverse @ covariance[with_new]), axis=0)
    # Leaving a result out changes its prediction by its weight over the inverse's diagonal.
    predicted[:, with_new] = results[:, there] - weights / inverse.diagonal()
    variances[with_new] = 1 / inverse.diagonal() - own
    return predicted, variances


def learned(results: Floats, known: Bools, kernels: Kernels, groups: Floats, progress: Progress) -> Covariance:
    """Learn the covariance from a part of the items and models."""
    from scipy.optimize import minimize

    models = _spread(np.arange(results.shape[1]), LEARN_MODELS)
    items = _spread(np.flatnonzero(np.count_nonzero(known[:, models], axis=1) > 1), LEARN_ITEMS)
    some = models[:, None]
    parts = [kernels(int(item))[:, some, models] for item in items]
    own_groups = groups[:, some, models]
    count = len(kernels(0)) * len(groups)
    start = np.log(np.append(np.full(count, 1 / count), OWN))
    found = start
    if items.size:
        masks = known[np.ix_(items, models)].astype(np.float64)
        pairs = np.stack(parts) * (masks[:, None, :, None] * masks[:, None, None, :])
        problem = LeftOut(results[np.ix_(items, models)], pairs, own_groups, start)
        search = {
            "method": "L-BFGS-B",
            "jac": True,
            "bounds": [(None, None)] * count + [(np.log(LEAST_OWN), None)],
            "options": {"maxiter": STEPS},
        }
        with stage(progress, "covariance", STEPS):
            found = minimize(problem, start, callback=lambda _: progress.advance(1), **search).x
    # A search magnifies the last digits, in which processors differ. Two decimals of a logarithm are precise enough.
    found = np.round(found, 2)
    return Covariance(groups, np.exp(found[:-1]).reshape(-1, len(groups)), float(np.exp(found[-1])))


@dataclass(frozen=True, eq=False)
class LeftOut(Value):
    """The squared errors of results that are predicted without themselves, and how they depend on the covariance.

    Attributes:
        results: Results, one line per item; 0 if unknown.
        pairs: Kernels of each item, 0 where a result is unknown: items × kernels × models × models.
        groups: How alike models are.
        start: Where the search starts: the logarithms of all coefficients, and of the own part.
    """

    results: Floats
    pairs: Floats
    groups: Floats
    start: Floats

    def __call__(self, logarithms: Floats) -> tuple[float, Floats]:
        """Return the sum of squared errors, with the pull to the start, and its gradient."""
        *_, models = self.results.shape
        numbers = np.exp(logarithms)
        covariance = Covariance(self.groups, numbers[:-1].reshape(-1, len(self.groups)), float(numbers[-1]))
        among = np.einsum("nkij,kij->nij", self.pairs, covariance.shares)
        inverse = np.linalg.inv(among + covariance.own * np.eye(models))
        weights = np.einsum("nij,nj->ni", inverse, self.results)
        diagonals = np.einsum("nii->ni", inverse)
        errors = weights / diagonals
        # How the sum changes with each weight, with each entry on the diagonal, and so with each covariance.
        by_weight = np.einsum("nij,nj->ni", inverse, 2 * errors / diagonals)
        by_diagonal = inverse * (-2 * errors**2 / diagonals)[:, None, :]
        by_pair = -(by_weight[:, :, None] * weights[:, None, :] + by_diagonal @ inverse)
        by_share = np.einsum("nkij,nij->kij", self.pairs, by_pair)
        by_coefficient = np.einsum("kij,gij->kg", by_share, self.groups)
        by_number = np.append(by_coefficient.ravel(), np.einsum("nii->", by_pair))
        pulled = logarithms - self.start
        total = float(np.sum(errors**2) + PULL * np.sum(pulled**2))
        return total, np.asarray(numbers * by_number + 2 * PULL * pulled)


def _spread(numbers: Ints, most: int) -> Ints:
    """Return at most so many of the numbers, evenly spread."""
    places = np.linspace(0, numbers.size - 1, min(most, numbers.size)).round().astype(np.int64)
    return numbers[places]
