"""Predict the probability of the answer 1 from few answers: a logistic regression with a ridge penalty.

Unlike `coresift.heads.LogisticHead`, it weights rows, and it gives each asked row a prediction without its own answer.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from coresift.spectra import axes_of_wide, wide
from coresift.types import Floats, Ints

# Precisions of the normal prior on each slope, from strong to weak; leave-one-out errors choose one.
PENALTIES = (1000.0, 100.0, 30.0, 10.0, 3.0, 1.0)
# The precision of the prior on the intercept, which keeps it finite.
INTERCEPT_PENALTY = 1e-3
# Newton steps are at most this long in each coefficient, at most so many, and end when they are this short. The last
# one leaves an error of about its square.
LONGEST, STEPS, SHORTEST = 2.0, 30, 1e-4
# The most log odds; beyond this, a probability is 0 or 1 but for rounding.
MOST_ODDS = 30.0
# Leaving a row out multiplies its residual by at most this.
MOST_EXPANSION = 20.0

# Coefficients with the intercept first, the log odds of the asked rows without their own answers, and their deviance.
LogisticFit: TypeAlias = tuple[Floats, Floats, float]


def predict_chances(
    features: Floats, ids: Ints, answers: Floats, weights: Floats, odds: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return the probability of the answer 1: for every row, and for the asked rows without their own answers.

    Args:
        features: What is known about every row, in standardized columns.
        ids: The rows that were asked.
        answers: Their answers, 0 or 1.
        weights: How many rows each of them represents, 1 on average.
        odds: Columns of log odds for every row, from calibrated probabilities. The regression starts from one of them,
            so it has to learn only how it is off, or from 0 if leave-one-out errors are smaller then.

    Examples:
        >>> features = np.linspace(-2, 2, 101)[:, None]
        >>> answers = (features[:, 0] > 0.5).astype(float)
        >>> everywhere, unseen = predict_chances(features, np.arange(101), answers, np.ones(101))
        >>> everywhere[[0, 50, 100]].round(2).tolist(), bool(np.all(np.abs(unseen - everywhere) < 0.1))
        ([0.0, 0.15, 0.99], True)
    """
    asked = features[ids]
    # A ridge penalty does not depend on the axes, so wide features are replaced by as many axes as there are rows.
    axes = axes_of_wide(asked, len(asked))[1] if wide(asked) else np.eye(asked.shape[1])
    turned, nothing = asked @ axes, np.zeros(len(features))
    offsets = [nothing] if odds is None else [*odds.T, nothing]
    fits = [(fit_logistic(turned, answers, weights, offset[ids]), offset) for offset in offsets]
    (coefficients, unseen, _), offset = min(fits, key=lambda pair: pair[0][2])
    return _chance(offset + coefficients[0] + features @ (axes @ coefficients[1:])), _chance(unseen)


def fit_logistic(features: Floats, answers: Floats, weights: Floats, offset: Floats) -> LogisticFit:
    """Return the logistic regression with the penalty that has the smallest leave-one-out deviance.

    What it learns is added to `offset`, the log odds that are assumed for each row.
    """
    design = np.concatenate([np.ones((len(features), 1)), features], axis=1)
    mean = (float(weights @ answers) + 0.5) / (float(weights.sum()) + 1)
    coefficients = np.zeros(design.shape[1])
    coefficients[0] = math.log(mean / (1 - mean)) - float(weights @ offset) / float(weights.sum())
    best, best_fit = math.inf, (coefficients, offset)
    for penalty in PENALTIES:
        coefficients, unseen = _fit(design, answers, weights, penalty, coefficients, offset)
        deviance = float(weights @ (np.logaddexp(0.0, unseen) - answers * unseen))
        if deviance < best:
            best, best_fit = deviance, (coefficients, unseen)
    return *best_fit, best


def _fit(
    design: Floats, answers: Floats, weights: Floats, penalty: float, coefficients: Floats, offset: Floats
) -> tuple[Floats, Floats]:
    """Maximize the penalized likelihood by Newton's method.

    One more Newton step without a row gives its leave-one-out log odds (Pregibon 1981).
    """
    penalties = np.full(coefficients.size, penalty)
    penalties[0] = INTERCEPT_PENALTY
    for _ in range(STEPS):
        chances = _chance(offset + design @ coefficients)
        information = weights * np.maximum(chances * (1 - chances), 1e-9)
        curvature = (design * information[:, None]).T @ design + np.diag(penalties)
        slope = design.T @ (weights * (answers - chances)) - penalties * coefficients
        step = np.clip(np.linalg.solve(curvature, slope), -LONGEST, LONGEST)
        coefficients = coefficients + step
        if np.abs(step).max() < SHORTEST:
            break
    influence = np.sum(design * np.linalg.solve(curvature, design.T).T, axis=1)
    expansion = np.minimum(1 / np.maximum(1 - influence * information, 1e-9), MOST_EXPANSION)
    return coefficients, offset + design @ coefficients - influence * weights * (answers - chances) * expansion


def _chance(odds: Floats) -> Floats:
    """Return the probability with these log odds."""
    return np.asarray(1 / (1 + np.exp(-np.clip(odds, -MOST_ODDS, MOST_ODDS))))
