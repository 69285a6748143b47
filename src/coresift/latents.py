"""Predict wins and losses from those of other models on the same item: a Gaussian process with a probit link.

A model wins on an item if a latent number is above 0. The latent numbers of an item are normal, and the more alike
answers are, the models write, and they are judged, the more they correlate. Results near 0 and 1 are saturated; the
linear prediction in `kriging` does not know that. Expectation propagation (Minka 2001) finds the latent numbers, and
what it takes out to revise a result's share, the cavity, is the prediction of this result without itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from coresift.kriging import Kernels
from coresift.types import Bools, Floats, Ints, Value

# The variance of a latent number at the start, and that of its own part; the noise of the link has variance 1.
VARIANCE, OWN = 30.0, 0.3
# Coefficients of the covariance are learned from so many items, in so many rounds of a few sweeps each.
LEARN_ITEMS, ROUNDS, SWEEPS_PER_ROUND = 256, 12, 2
# Sweeps take this part of each step, and end when no precision changes by more than this.
STEP, MOST_SWEEPS, SETTLED = 0.9, 30, 1e-3
# So many items are swept together.
BATCH = 32
LEAST_PRECISION = 1e-10


@dataclass(frozen=True, eq=False)
class Latent(Value):
    """What is known about each latent number without the result itself: one line per item, one column per model.

    Attributes:
        mean: Its expected value.
        variance: Its variance.
    """

    mean: Floats
    variance: Floats

    @property
    def odds(self) -> Floats:
        """The probits of the chances to win."""
        return np.asarray(self.mean / np.sqrt(1 + self.variance))

    @property
    def chances(self) -> Floats:
        """The chances to win."""
        from scipy.special import ndtr

        return np.asarray(ndtr(self.odds))


@dataclass(frozen=True, eq=False)
class Covariance(Value):
    """The covariance of latent numbers: a coefficient per kernel and group, and the variance of their own parts."""

    groups: Floats
    coefficients: Floats
    own: float

    @classmethod
    def start(cls, kernels: int, groups: Floats) -> Covariance:
        """Return the covariance in which every kernel and group counts the same."""
        count = kernels * len(groups)
        return cls(groups, np.full((kernels, len(groups)), VARIANCE / count), OWN)

    def of(self, kernels: Floats) -> Floats:
        """Return the covariances of several items, whose kernels are given: items × kernels × models × models."""
        shares = np.einsum("kg,gij->kij", self.coefficients, self.groups)
        own = self.own * np.eye(shares.shape[-1])
        return np.asarray(np.einsum("nkij,kij->nij", kernels, shares) + own)

    def revised(self, kernels: Floats, pulls: Floats, precisions: Floats) -> Covariance:
        """Return the covariance after a step toward the largest marginal likelihood.

        A coefficient grows if latent numbers vary along its kernel by more than it says, and else it shrinks.
        """
        varied = np.einsum("nkij,ni,nj->kij", kernels, pulls, pulls, optimize=True)
        expected = np.einsum("nkij,nij->kij", kernels, precisions, optimize=True)
        up, down = (np.einsum("kij,gij->kg", sums, self.groups) for sums in (varied, expected))
        own = float(np.sum(pulls**2)) / max(float(np.einsum("nii->", precisions)), LEAST_PRECISION)
        steps = np.sqrt(np.maximum(up, 0.0) / np.maximum(down, LEAST_PRECISION))
        return replace(self, coefficients=self.coefficients * steps, own=self.own * np.sqrt(own))


class Sweeps:
    """Expectation propagation on a batch of items.

    Each known result is replaced by a normal likelihood of the latent number, with a precision and a shift (precision
    times mean). A sweep revises all of them.

    Args:
        wins: 1 for a win, 0 for a loss.
        known: Which results are known.
        thresholds: The probit of each model's rate of wins.
    """

    def __init__(self, wins: Floats, known: Bools, thresholds: Floats) -> None:
        self._signs, self._known, self._thresholds = 2 * wins - 1, known, thresholds
        self._precision, self._shift = np.zeros(wins.shape), np.zeros(wins.shape)
        self.latent = Latent(self._shift, self._shift)

    def sweep(self, covariance: Floats) -> tuple[float, Floats, Floats]:
        """Revise all likelihoods.

        Returns:
            The largest change of a precision, K⁻¹(mean − prior mean), and the inverse covariance of what was observed.
        """
        from scipy.special import log_ndtr

        variances = np.einsum("nii->ni", covariance)
        prior = self._thresholds * np.sqrt(1 + variances)
        root = np.sqrt(self._precision)
        inverse = np.linalg.inv(np.eye(root.shape[1]) + root[:, :, None] * covariance * root[:, None, :])
        observed = root[:, :, None] * inverse * root[:, None, :]
        surprise = self._shift - self._precision * prior
        pulls = surprise - _times(observed, _times(covariance, surprise))
        mean = prior + _times(covariance, pulls)
        variance = variances - np.sum((covariance @ observed) * covariance, axis=2)
        # The cavity: the latent number without this result.
        precision = np.maximum(1 / variance - self._precision, LEAST_PRECISION)
        without = Latent((mean / variance - self._shift) / precision, 1 / precision)
        # The mean and variance of the latent number with the cavity as prior and the probit likelihood.
        odds = self._signs * without.odds
        slope = np.exp(-(odds**2) / 2 - np.log(2 * np.pi) / 2 - log_ndtr(odds)) / np.sqrt(1 + without.variance)
        tilted_mean = without.mean + self._signs * without.variance * slope
        bend = slope * (odds / np.sqrt(1 + without.variance) + slope)
        tilted_variance = without.variance * (1 - without.variance * bend)
        wanted = np.where(self._known, np.maximum(1 / tilted_variance - precision, 0.0), 0.0)
        shift = np.where(self._known, tilted_mean / tilted_variance - without.mean * precision, 0.0)
        change = STEP * (wanted - self._precision)
        self._precision = self._precision + change
        self._shift = self._shift + STEP * (shift - self._shift)
        self.latent = without
        return float(np.abs(change).max(initial=0.0)), pulls, observed


def latents(wins: Floats, known: Bools, kernels: Kernels | None, groups: Floats, like_new: Bools) -> Latent:
    """Return what the other results on an item say about each latent number; the new model's is the last column.

    Args:
        wins: One line per item and one column per earlier model: 1 for a win, 0 for a loss or if unknown.
        known: Which results are known.
        kernels: How alike the answers to an item are; None if texts are not known.
        groups: How alike models are, one matrix each, the new one last; each is multiplied by each kernel.
        like_new: Which earlier models were judged like the new one; its level is theirs.
    """
    every = np.ones((1, *groups.shape[1:]))
    of_item = (lambda _: every) if kernels is None else kernels
    thresholds = _thresholds(wins, known, like_new)
    padded = [np.pad(array, ((0, 0), (0, 1))) for array in (wins, known)]
    covariance = _learned(*padded, of_item, groups, thresholds)
    means, variances = [], []
    for start in range(0, len(wins), BATCH):
        items = np.arange(start, min(start + BATCH, len(wins)))
        batch = covariance.of(_stacked(of_item, items))
        sweeps = Sweeps(*(array[items] for array in padded), thresholds)
        for _ in range(MOST_SWEEPS):
            if sweeps.sweep(batch)[0] < SETTLED:
                break
        means.append(sweeps.latent.mean)
        variances.append(sweeps.latent.variance)
    return Latent(np.concatenate(means), np.concatenate(variances))


def _learned(wins: Floats, known: Bools, kernels: Kernels, groups: Floats, thresholds: Floats) -> Covariance:
    """Learn the coefficients of the covariance from a part of the items."""
    items = np.unique(np.linspace(0, len(wins) - 1, min(LEARN_ITEMS, len(wins))).round().astype(np.int64))
    stacked = _stacked(kernels, items)
    sweeps = Sweeps(wins[items], known[items], thresholds)
    covariance = Covariance.start(stacked.shape[1], groups)
    for _ in range(ROUNDS):
        current = covariance.of(stacked)
        for _ in range(SWEEPS_PER_ROUND):
            _, pulls, observed = sweeps.sweep(current)
        covariance = covariance.revised(stacked, pulls, observed)
    return covariance


def _thresholds(wins: Floats, known: Bools, like_new: Bools) -> Floats:
    """Return the probit of each model's rate of wins; the new model, last, gets that of the models of its kind."""
    from scipy.special import ndtri

    rates = (wins.sum(axis=0) + 0.5) / (known.sum(axis=0) + 1)
    typical = rates[like_new] if like_new.any() else rates
    return np.asarray(ndtri(np.append(rates, typical.mean())))


def _stacked(kernels: Kernels, items: Ints) -> Floats:
    return np.stack([kernels(int(item)) for item in items])


def _times(matrices: Floats, vectors: Floats) -> Floats:
    return np.asarray(np.einsum("nij,nj->ni", matrices, vectors))
