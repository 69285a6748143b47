"""Densities of the draw: a row's size follows how far its answer is likely to be from its prediction.

The variance of a total is smallest if rows are drawn in proportion to √E[r²], where r is the residual of the
regression. That is unknown before there are answers. The first draw mixes the signals' own densities with a uniform
one. If answers are right or wrong, later draws follow √(p(1 − p)), with p from a logistic regression of the answers so
far. Otherwise they mix densities (uniform, the signals', and a regression of r² on what is known) such that the rows
asked so far would have had the least variance, with a weak prior. Both have a uniform floor, and useless signals cost
little.

How the first draw reads a signal depends on the answers. If they are right or wrong, a signal from 0 to 1 is read as a
probability p, and answers deviate by √(p(1 − p)). If they are numbers, a signal is a size, and it is trusted only a
little: an overconfident model has its largest losses where the signal is smallest. Calibrated probabilities, which were
learned from results, are trusted more: they are not shrunk, and the logistic regression may start from them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from coresift.evaluation.chances import predict_chances
from coresift.evaluation.sampling import Sample
from coresift.mixtures import least_variance
from coresift.prediction import ridge, standardized
from coresift.types import Bools, Floats, Value

# The weight of the prior on the mixture, in answers.
PRIOR_ROWS = 10.0
# No answer counts more than this many average ones in the choice of the mixture.
MOST_ROWS = 15.0
# A signal that is read as a probability is assumed to explain at most this part of the answers' variance.
MOST_EXPLAINED = 0.25
# A predicted squared error is at least this part of the mean squared error.
LEAST_SQUARE = 0.05
# No squared residual counts more than this many average ones.
MOST_SQUARE = 25.0
# A predicted probability is kept at least this far from 0 and 1.
LEAST_CHANCE = 0.005


@dataclass(frozen=True)
class Belief:
    """What is assumed about signals before there are answers.

    Attributes:
        trust: How far the first draw trusts signals that nothing has confirmed, from 0 to 1.
        floor: The part of later draws that is always uniform.
        pull: The mixture that the prior favors: uniform, learned, all signals.
        first_per_root: The largest size of the first part of a budget, relative to the root of the budget.
        probabilities: Whether signals from 0 to 1 are read as probabilities of the answer 1.
    """

    trust: float
    floor: float
    pull: tuple[float, float, float]
    first_per_root: float = math.inf
    probabilities: bool = False


RIGHT_OR_WRONG = Belief(0.8, 0.05, (0.2, 0.6, 0.2), first_per_root=5.0, probabilities=True)
NUMBERS = Belief(0.15, 0.1, (0.5, 0.45, 0.05), first_per_root=5.0)
# Answers that count in several ways, such as true and missed positives; it takes many to see the rare ones.
COUNTS = Belief(0.3, 0.1, (0.4, 0.4, 0.2))
# The same for recall and F1: a positive that the model misses confidently is where signals do not expect it.
MISSES = Belief(0.3, 0.25, (0.4, 0.4, 0.2))


@dataclass(frozen=True, eq=False)
class Expectation(Value):
    """Expected answers: `everywhere` for every row, and `unseen` for asked rows without their own answers.

    This regression predicts. The one that calibrates totals does not: it needs no slope along the direction in which
    rows were drawn, since a fixed number of rows has that total right already.
    """

    everywhere: Floats
    unseen: Floats
    residuals: Floats

    @classmethod
    def of(cls, sample: Sample, answers: Floats, known: Floats) -> Expectation:
        """Learn from the answers of a sample."""
        weights = sample.weights / sample.weights.mean()
        intercept, slopes, unseen = ridge(known[sample.ids], answers, weights)
        return cls(intercept + known @ slopes, unseen, answers - unseen)


@dataclass(frozen=True, eq=False)
class Density(Value):
    """How the next rows are drawn: a size for every relevant row, 1 on average.

    `here` has the sizes that the asked rows would have without their own answers. `order` is what the draw is spread
    over: the expected answers.
    """

    sizes: Floats
    here: Floats
    order: Floats


def first_density(signals: Floats, belief: Belief, calibrated: Bools | None = None) -> Floats:
    """Return the sizes of the first draw: a mixture of uniform sizes and the signals.

    Args:
        signals: Columns of at least 0, one line per relevant row.
        belief: How far signals are trusted, and how they are read.
        calibrated: Which of them are calibrated probabilities; none by default.

    Examples:
        >>> first_density(np.array([[0.0], [2.0]]), NUMBERS).round(3).tolist()
        [0.85, 1.15]
    """
    densities = _signal_densities(signals, belief, calibrated)
    return 1 - belief.trust + belief.trust * np.mean(densities, axis=0) if densities else np.ones(len(signals))


def first_order(signals: Floats, sizes: Floats, belief: Belief) -> Floats:
    """Return the values by which rows are sorted before the first draw, so that it is spread over them.

    If signals are read as probabilities, these are their sum. Rows with the probabilities p and 1 − p have the same
    size, so sizes do not tell them apart. A signal that falls where the first one rises is turned around.

    Examples:
        >>> chances = np.array([[0.1], [0.9], [0.5]])
        >>> first_order(chances, first_density(chances, RIGHT_OR_WRONG), RIGHT_OR_WRONG).round(2).tolist()
        [-1.22, 1.22, 0.0]
    """
    columns = standardized(signals[:, _are_chances(signals)])
    if not belief.probabilities or not columns.any():
        return sizes
    first = columns[:, int(columns.any(axis=0).argmax())]
    return np.asarray(columns @ np.where(first @ columns < 0, -1.0, 1.0))


def _are_chances(signals: Floats) -> Bools:
    """Return which columns can be read as probabilities."""
    return np.asarray(signals.max(axis=0, initial=0.0) <= 1)


def _signal_densities(signals: Floats, belief: Belief, calibrated: Bools | None = None) -> list[Floats]:
    """Return the sizes by each signal, and their roots, each 1 on average."""
    trusted = np.zeros(signals.shape[1], np.bool_) if calibrated is None else calibrated
    densities = []
    for column, is_chance, is_trusted in zip(signals.T, _are_chances(signals), trusted, strict=True):
        worth = column
        if belief.probabilities and is_chance:
            likely = column if is_trusted else _plausible(column)
            worth = likely * (1 - likely)
        densities += [density / density.mean() for density in (worth, np.sqrt(worth)) if density.any()]
    return densities


def _plausible(chances: Floats) -> Floats:
    """Return probabilities, shrunk to their mean if they would explain more of the variance than is plausible."""
    mean = float(chances.mean())
    claimed = float(chances.var()) / max(mean * (1 - mean), 1e-300)
    return np.asarray(mean + math.sqrt(min(MOST_EXPLAINED / max(claimed, 1e-300), 1.0)) * (chances - mean))


def next_density(
    sample: Sample,
    residuals: Floats,
    expected: Floats,
    known: Floats,
    signals: Floats,
    belief: Belief,
    calibrated: Bools | None = None,
) -> Density:
    """Return how to draw next, from the residuals of the answers so far.

    Args:
        sample: The rows asked so far.
        residuals: The residuals of their answers.
        expected: The expected answer of every relevant row.
        known: What is known about every relevant row, in standardized columns.
        signals: Columns of at least 0, which can be used as sizes.
        belief: What is assumed about signals before there are answers.
        calibrated: Which signals are calibrated probabilities; none by default.
    """
    ids, weights = sample.ids, sample.weights
    squares = residuals**2
    middle = float(weights @ squares) / float(weights.sum())
    uniform = np.ones(len(known))
    if not middle > 0:
        return Density(uniform, np.ones(len(sample)), expected)
    intercept, slopes, unseen = ridge(known[ids], np.minimum(squares, MOST_SQUARE * middle), weights / weights.mean())
    least = LEAST_SQUARE * middle
    learned, learned_here = _root(intercept + known @ slopes, least), _root(unseen, least)
    by_signal = [(density, density[ids]) for density in _signal_densities(signals, belief, calibrated)]
    pull = np.array([*belief.pull[:2], *_even(belief.pull[2], len(by_signal))])
    pairs = [(uniform, uniform[ids]), (learned / learned.mean(), learned_here / learned.mean()), *by_signal]
    here = (1 - belief.floor) * np.stack([asked for _, asked in pairs], axis=1) + belief.floor
    stakes = weights * np.minimum(squares, MOST_SQUARE * middle)
    theta = _mixture(here, np.minimum(stakes, MOST_ROWS * stakes.mean()), pull / pull.sum())
    sizes = np.full(len(known), belief.floor)
    for part, (everywhere, _) in zip(theta, pairs, strict=True):
        sizes += (1 - belief.floor) * part * everywhere
    return Density(sizes, here @ theta, expected)


def next_binary_density(sample: Sample, answers: Floats, known: Floats, chances: Floats | None = None) -> Density:
    """Return how to draw next if answers are 0 or 1: in proportion to √(p(1 − p)), with a uniform floor.

    The probabilities p of the answer 1 come from a logistic regression, so signals need not be calibrated. If some are,
    it may start from them. If nothing that is known predicts the answers, p is nearly constant.

    Args:
        sample: The rows asked so far.
        answers: Their answers, 0 or 1.
        known: What is known about every relevant row, in standardized columns.
        chances: Columns of calibrated probabilities of every relevant row, if there are any.
    """
    if np.all(answers == answers[0]):
        return Density(np.ones(len(known)), np.ones(len(sample)), np.full(len(known), answers[0]))
    weights, floor = sample.weights / sample.weights.mean(), RIGHT_OR_WRONG.floor
    odds = None if chances is None else _odds(chances)
    predicted, unseen = predict_chances(known, sample.ids, answers, weights, odds)
    sizes = _binary(predicted)
    scale = (1 - floor) / sizes.mean()
    return Density(floor + scale * sizes, floor + scale * _binary(unseen), predicted)


def _mixture(densities: Floats, stakes: Floats, pull: Floats) -> Floats:
    """Return the mixture of least variance; its prior is counted in rows of the resulting draw."""
    theta = least_variance(densities, stakes, pull, PRIOR_ROWS)
    # If signals help a lot, rows of a uniform draw have more variance, and the prior would dominate.
    left = float(np.sum(stakes / (densities @ theta)) / max(stakes.sum(), 1e-300))
    return least_variance(densities, stakes, pull, PRIOR_ROWS * min(left, 1.0))


def _root(squares: Floats, least: float) -> Floats:
    return np.asarray(np.sqrt(np.maximum(squares, least)))


def _binary(chances: Floats) -> Floats:
    """Return the deviation of answers that are 1 with these probabilities."""
    likely = np.clip(chances, LEAST_CHANCE, 1 - LEAST_CHANCE)
    return np.asarray(np.sqrt(likely * (1 - likely)))


def _odds(chances: Floats) -> Floats:
    """Return the log odds of these probabilities."""
    likely = np.clip(chances, LEAST_CHANCE, 1 - LEAST_CHANCE)
    return np.asarray(np.log(likely / (1 - likely)))


def _even(total: float, count: int) -> list[float]:
    return [total / max(count, 1)] * count
