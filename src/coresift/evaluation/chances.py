"""Predict the probability of the answer 1 from few answers: a logistic regression with a ridge penalty.

Unlike `coresift.heads.LogisticHead`, it weights rows, and it gives each asked row a prediction without its own answer.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from coresift.spectra import axes_of_wide, wide
from coresift.types import Floats

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

# Coefficients with the intercept first, and the log odds of the asked rows without their own answers.
LogisticFit: TypeAlias = tuple[Floats, Floats]


def predict_chances(features: Floats, asked: Floats, answers: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the probability of the answer 1: for every row, and for the asked rows without their own answers.

    Args:
        features: What is known about every row, in standardized columns.
        asked: The same about the asked rows.
        answers: Their answers, 0 or 1.
        weights: How many rows each of them represents, 1 on average.

    Examples:
        >>> features = np.linspace(-2, 2, 101)[:, None]
        >>> answers = (features[:, 0] > 0.5).astype(float)
        >>> everywhere, unseen = predict_chances(features, features, answers, np.ones(101))
        >>> everywhere[[0, 50, 100]].round(2).tolist(), bool(np.all(np.abs(unseen - everywhere) < 0.1))
        ([0.0, 0.15, 0.99], True)
    """
    # A ridge penalty does not depend on the axes, so wide features are replaced by as many axes as there are rows.
    axes = axes_of_wide(asked, len(asked))[1] if wide(asked) else np.eye(asked.shape[1])
    coefficients, unseen = fit_logistic(asked @ axes, answers, weights)
    return _chance(coefficients[0] + features @ (axes @ coefficients[1:])), _chance(unseen)


def fit_logistic(features: Floats, answers: Floats, weights: Floats) -> LogisticFit:
    """Return the logistic regression with the penalty that has the smallest leave-one-out deviance."""
    design = np.concatenate([np.ones((len(features), 1)), features], axis=1)
    mean = (float(weights @ answers) + 0.5) / (float(weights.sum()) + 1)
    coefficients = np.zeros(design.shape[1])
    coefficients[0] = math.log(mean / (1 - mean))
    best, best_fit = math.inf, (coefficients, np.zeros(len(design)))
    for penalty in PENALTIES:
        coefficients, unseen = _fit(design, answers, weights, penalty, coefficients)
        deviance = float(weights @ (np.logaddexp(0.0, unseen) - answers * unseen))
        if deviance < best:
            best, best_fit = deviance, (coefficients, unseen)
    return best_fit


def _fit(design: Floats, answers: Floats, weights: Floats, penalty: float, start: Floats) -> LogisticFit:
    """Maximize the penalized likelihood by Newton's method.

    One more Newton step without a row gives its leave-one-out log odds (Pregibon 1981).
    """
    coefficients = start
    penalties = np.full(start.size, penalty)
    penalties[0] = INTERCEPT_PENALTY
    for _ in range(STEPS):
        chances = _chance(design @ coefficients)
        information = weights * np.maximum(chances * (1 - chances), 1e-9)
        curvature = (design * information[:, None]).T @ design + np.diag(penalties)
        slope = design.T @ (weights * (answers - chances)) - penalties * coefficients
        step = np.clip(np.linalg.solve(curvature, slope), -LONGEST, LONGEST)
        coefficients = coefficients + step
        if np.abs(step).max() < SHORTEST:
            break
    influence = np.sum(design * np.linalg.solve(curvature, design.T).T, axis=1)
    expansion = np.minimum(1 / np.maximum(1 - influence * information, 1e-9), MOST_EXPANSION)
    return coefficients, design @ coefficients - influence * weights * (answers - chances) * expansion


def _chance(odds: Floats) -> Floats:
    """Return the probability with these log odds."""
    return np.asarray(1 / (1 + np.exp(-np.clip(odds, -MOST_ODDS, MOST_ODDS))))
