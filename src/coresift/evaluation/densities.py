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


@dataclass(frozen=True, eq=False)
class Density(Value):
    """How the next rows are drawn: a size for every row, 1 on average over those that count.

    `here` has the sizes of the asked rows as they would be had their own answers not been used, and `stakes` their
    squared residuals.
    """

    sizes: Floats
    here: Floats
    stakes: Floats


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


def next_density(sample: Sample, residuals: Floats, known: Floats, signals: Floats) -> Density:
    """Return how to draw next, from what the regression missed of the answers so far.

    Args:
        sample: The rows asked so far.
        residuals: What was missed of their answers.
        known: What is known of every row that counts, in standardized columns.
        signals: The columns of at least 0 that can be sizes as they stand.
    """
    ids, weights = sample.ids, sample.weights
    squares = residuals**2
    middle = float(weights @ squares) / float(weights.sum())
    uniform = np.ones(len(known))
    if not middle > 0:
        return Density(uniform, np.ones(len(sample)), squares)
    intercept, slopes, unseen = ridge(known[ids], np.minimum(squares, 25 * middle), weights / weights.mean())
    least = LEAST_SQUARE * middle
    learned = np.sqrt(np.maximum(intercept + known @ slopes, least))
    pairs = [(uniform, uniform[ids]), (learned, np.sqrt(np.maximum(unseen, least)))]
    for column in signals.T:
        pairs += [(column, column[ids]), (np.sqrt(column), np.sqrt(column[ids]))]
    scaled = [(everywhere / mean, here / mean) for everywhere, here in pairs if (mean := everywhere.mean()) > 0]
    parts = [PULL[0], PULL[1], *([PULL[2] / max(len(scaled) - 2, 1)] * (len(scaled) - 2))]
    pull = np.array(parts) / sum(parts)
    # A total of sizes is what is drawn by, so that a density's square root is the deviation it stands for.
    stakes = weights * np.minimum(squares, MOST_ROWS * 5 * middle)
    stakes = np.minimum(stakes, MOST_ROWS * stakes.mean())
    here = np.stack([(1 - FLOOR) * part + FLOOR for _, part in scaled], axis=1)
    theta = least_variance(here, stakes, pull, PRIOR_ROWS)
    sizes = FLOOR + (1 - FLOOR) * sum(part * everywhere for part, (everywhere, _) in zip(theta, scaled, strict=True))
    return Density(sizes, here @ theta, squares)
