"""What each row is worth asking: in proportion to how far its answer is likely to be off what is predicted.

The variance of a total is least where rows are drawn in proportion to √E[r²], r being what the regression misses of the
answer. Nobody knows that before answers are there. The first draw trusts the signals a little. Later ones mix densities
(uniform, the signals and their roots, and a regression of r² on what is known) so that the rows asked so far would have
had the least variance, with a weak prior and a uniform floor: signals that say nothing cost little.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coresift.evaluation.sampling import Sample
from coresift.mixtures import least_variance
from coresift.prediction import ridge
from coresift.types import Floats, Value

# How far the first draw trusts signals that nothing has confirmed.
TRUST = 0.3
# The part of later draws that is uniform in any case.
FLOOR = 0.1
# What the prior on the mixture is worth, in answers, and the mixture it pulls to: uniform, learned, all signals.
PRIOR_ROWS = 10.0
PULL = (0.4, 0.4, 0.2)
# No answer counts more than this many average ones in the choice of the mixture.
MOST_ROWS = 5.0
# Below this part of the mean squared error a predicted one is not believed.
LEAST_SQUARE = 0.05
# No squared residual counts more than this many average ones.
MOST_SQUARE = 25.0
# A predicted probability is never believed to be nearer to 0 or 1 than this.
LEAST_CHANCE = 0.02


@dataclass(frozen=True, eq=False)
class Expectation(Value):
    """What answers are expected to be: `everywhere`, for every row; and for asked rows without their own answers.

    This is a regression that predicts. The one that calibrates totals does not: along the direction in which rows were
    drawn it needs no slope, since a fixed number of rows has that total right already.
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
    """How the next rows are drawn: a size for every row, 1 on average over those that count.

    `here` has the sizes of the asked rows as they would be had their own answers not been used.
    """

    sizes: Floats
    here: Floats


def first_density(signals: Floats, trust: float = TRUST) -> Floats:
    """Return the sizes of the first draw: uniform, and a little by the mean signal.

    Args:
        signals: Columns of at least 0, one line per row that counts.
        trust: How far they count, from 0 to 1.

    Examples:
        >>> first_density(np.array([[0.0], [2.0]])).round(3).tolist()
        [0.7, 1.3]
    """
    means = signals.mean(axis=0)
    usable = means > 0
    if not usable.any():
        return np.ones(len(signals))
    sizes: Floats = 1 - trust + trust * (signals[:, usable] / means[usable]).mean(axis=1)
    return sizes


def next_density(
    sample: Sample,
    residuals: Floats,
    known: Floats,
    signals: Floats,
    chances: tuple[Floats, Floats] | None = None,
) -> Density:
    """Return how to draw next, from what the regression missed of the answers so far.

    Args:
        sample: The rows asked so far.
        residuals: What was missed of their answers.
        known: What is known of every row that counts, in standardized columns.
        signals: The columns of at least 0 that can be sizes as they stand.
        chances: Where answers are 0 or 1, the predicted probability of 1: for every row, and for the asked ones without
            their own answers.
    """
    ids, weights = sample.ids, sample.weights
    squares = residuals**2
    middle = float(weights @ squares) / float(weights.sum())
    uniform = np.ones(len(known))
    if not middle > 0:
        return Density(uniform, np.ones(len(sample)))
    intercept, slopes, unseen = ridge(known[ids], np.minimum(squares, MOST_SQUARE * middle), weights / weights.mean())
    least = LEAST_SQUARE * middle
    learned = [(_root(intercept + known @ slopes, least), _root(unseen, least))]
    if chances is not None:
        learned.append((_binary(chances[0]), _binary(chances[1])))
    given = [pair for column in signals.T for pair in ((column, column[ids]), (np.sqrt(column), np.sqrt(column[ids])))]
    parts = [PULL[0], *_even(PULL[1], len(learned)), *_even(PULL[2], len(given))]
    pairs = [(uniform, uniform[ids]), *learned, *given]
    means = np.array([float(everywhere.mean()) for everywhere, _ in pairs])
    usable = [place for place, mean in enumerate(means) if mean > 0]
    here = np.stack([(1 - FLOOR) * pairs[place][1] / means[place] + FLOOR for place in usable], axis=1)
    pull = np.array([parts[place] for place in usable])
    stakes = weights * np.minimum(squares, MOST_SQUARE * middle)
    stakes = np.minimum(stakes, MOST_ROWS * stakes.mean())
    theta = least_variance(here, stakes, pull / pull.sum(), PRIOR_ROWS)
    sizes = np.full(len(known), FLOOR)
    for part, place in zip(theta, usable, strict=True):
        sizes += (1 - FLOOR) * part * pairs[place][0] / means[place]
    return Density(sizes, here @ theta)


def _root(squares: Floats, least: float) -> Floats:
    return np.asarray(np.sqrt(np.maximum(squares, least)))


def _binary(chances: Floats) -> Floats:
    """Return the deviation of answers that are 1 with these probabilities."""
    likely = np.clip(chances, LEAST_CHANCE, 1 - LEAST_CHANCE)
    return np.asarray(np.sqrt(likely * (1 - likely)))


def _even(total: float, count: int) -> list[float]:
    return [total / max(count, 1)] * count
