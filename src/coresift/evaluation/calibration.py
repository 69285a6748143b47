"""Totals that use what is known for every row, by a regression of the answers that minimizes the variance of the total.

A total over all rows is estimated as Σ_S w·y + (Σ_U x − Σ_S w·x)·β, where x is known for every row and includes a
constant. The slopes β minimize the estimated variance of exactly this (the optimal regression estimator of Montanari
1987), with a ridge penalty that is chosen by leave-one-out errors. The same leave-one-out errors estimate the variance,
so overfitting does not look like precision. If the regression does not help, its slopes are nearly 0. A draw is spread
over an order of the rows, so what neighbors in this order have in common adds nothing to the variance. Since β is
learned from the same answers, there is a bias of the order of (number of columns)/(number of answers) times the
standard error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from coresift.evaluation.sampling import Sample
from coresift.spectra import axes_of_wide, wide
from coresift.types import Floats, Ints, Moments, Value

# Ridge penalties per row, in units of a column's variance; the last one means no slopes at all.
PENALTIES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 1e3)
# The constant has almost no penalty.
CONSTANT = 1e6
MOST_LEVERAGE = 0.9
# There are many columns if the mean leverage, the effective number of parameters per answer, is above this.
MANY_COLUMNS = 0.1
# A stratum needs this many rows for a mean of its own.
CELL = 5
# What neighbors' errors share may be chance. It counts by the factor 1 − SURE_ALIKE/t², if it is t standard errors.
SURE_ALIKE = 2.0


@dataclass(frozen=True, eq=False)
class Fit(Value):
    """The estimated total of one column of answers over all rows.

    Attributes:
        total: The estimated total.
        moments: Variance and skewness of the total.
        penalty: The ridge penalty that left the least variance.
        errors: Each row's contribution to the error of the total, scaled so that their squares sum to the variance.
    """

    total: float
    moments: Moments
    penalty: float
    errors: Floats


class Calibration:
    """What is known for every row, prepared for regressions on the answers of a sample.

    Args:
        sample: The rows that were asked.
        known: What is known about them, one line per row of the sample, in standardized columns.
        totals: The totals of the same columns over all rows.
    """

    def __init__(self, sample: Sample, known: Floats, totals: Floats) -> None:
        self.sample = sample
        chance = 1 - sample.chances
        scale = np.sqrt(chance) / sample.chances
        self._unit = math.sqrt(float(np.mean(scale**2))) if scale.any() else 1.0
        self._scale, self._chance = scale / self._unit, chance
        constant = np.full((len(sample), 1), math.sqrt(CONSTANT))
        self._known = np.concatenate([constant, known], axis=1)
        everywhere = np.concatenate([[math.sqrt(CONSTANT) * sample.population], totals])
        self._missing = everywhere - sample.weights @ self._known
        self._cells = _cells(sample, chance)
        self._surplus = _surplus(sample, self._cells)
        self._decompose()

    def _decompose(self) -> None:
        scaled = self._known * self._scale[:, None]
        scaled = scaled - self._means(scaled)
        count = max(len(self.sample), 1)
        if wide(scaled):
            strengths, directions = axes_of_wide(scaled, count)
        else:
            strengths, directions = np.linalg.eigh(scaled.T @ scaled / count)
        self._strengths, self._directions = np.maximum(strengths, 0.0), directions
        self._turned = scaled @ directions
        self._own = _cell_leverage(self._cells, self._chance)

    def _means(self, values: Floats) -> Floats:
        """Return √(1 − π) times the mean of each row's cell, which a fixed number of rows per cell removes."""
        root = np.sqrt(self._chance)
        moved = values * (root if values.ndim == 1 else root[:, None])
        weight = np.bincount(self._cells, self._chance)
        weight = np.where(weight > 0, weight, 1.0)
        if values.ndim == 1:
            mean: Floats = (np.bincount(self._cells, moved) / weight)[self._cells] * root
            return mean
        sums = np.zeros((weight.size, values.shape[1]))
        np.add.at(sums, self._cells, moved)
        columns: Floats = (sums / weight[:, None])[self._cells] * root[:, None]
        return columns

    def fit(self, answers: Floats, penalty: float | None = None) -> Fit:
        """Return the total of a column of answers, with the penalty of least variance, or with a given one."""
        scaled = self._scale * answers
        scaled = scaled - self._means(scaled)
        count = max(len(self.sample), 1)
        moments = self._turned.T @ scaled / count
        best, chosen = math.inf, (np.zeros(self._known.shape[1]), np.zeros(answers.size), PENALTIES[-1])
        for candidate in PENALTIES if penalty is None else (penalty,):
            shrunk = 1 / (self._strengths + candidate)
            leverage = np.minimum(self._own + self._turned**2 @ shrunk / count, MOST_LEVERAGE)
            residuals = (scaled - self._turned @ (shrunk * moments)) / (1 - leverage)
            error = float(residuals @ residuals)
            if error < best:
                # Squared leave-one-out errors are too large by 1/(1 − leverage); see MacKinnon and White's HC2 and HC3.
                # With many columns, the choice of the penalty makes them too small by about as much.
                many = float(leverage.mean()) > MANY_COLUMNS
                corrected = residuals if many else residuals * np.sqrt(1 - leverage)
                best, chosen = error, (self._directions @ (shrunk * moments), corrected, candidate)
        slopes, errors, penalty = chosen
        errors = errors * math.sqrt(1 - self._alike(errors))
        total = float(self.sample.weights @ answers + self._missing @ slopes) + self._along(answers, slopes)
        return Fit(total, self._moments(errors), penalty, self._unit * errors)

    def _alike(self, errors: Floats) -> float:
        """Return the part of the errors' variance that neighbors in the order of the draw share, from 0 to 1.

        The draw takes its due number of rows from every stretch of the order, so this part does not vary. It is the
        correlation of neighbors: the sum of their products over the sum of squares. If they share nothing, the variance
        of this sum is about the sum of the squared products, so one pair of large errors alone shows nothing.
        """
        first, second = self.sample.neighbors
        relative = errors / max(float(np.abs(errors).max(initial=0.0)), 1e-300)
        products = relative[first] * relative[second]
        shared = float(products.sum())
        if not shared > 0:
            return 0.0
        evidence = max(1 - SURE_ALIKE * float(products @ products) / shared**2, 0.0)
        return evidence * shared / float(relative @ relative)

    def _along(self, answers: Floats, slopes: Floats) -> float:
        """Return the correction of residuals that are in proportion to D, since D sums only nearly to the rows drawn.

        The variance leaves these residuals out, as if a fixed number of rows per cell had their total right.
        """
        if not self._surplus.any():
            return 0.0
        root = np.sqrt(self._chance)
        residuals = self._unit * self._scale * (answers - self._known @ slopes)
        weight = np.bincount(self._cells, self._chance)
        means = np.bincount(self._cells, residuals * root) / np.where(weight > 0, weight, 1.0)
        return float(means @ self._surplus)

    def _moments(self, errors: Floats) -> Moments:
        """Return the variance of a total, and the third moment that describes how skewed the studentized total is.

        With skewness γ, and covariance c of the total and its estimated variance (in standard errors), the quantile at
        z is off by (γ(z² − 1) − 3cz²)/6. A row that is drawn with probability π has the factor 1 − 2π in γ and 1 − π in
        c, so they are equal only if few rows are drawn. At z = 2, both together act like the one factor
        (4(1 − π) − (1 − 2π))/3, which is (1 + 2(1 − π))/3.
        """
        root = np.sqrt(self._chance)
        third = np.divide(errors**3 * (1 + 2 * self._chance), 3 * root, out=np.zeros_like(root), where=root > 0)
        unit = self._unit
        moments = Moments.of(errors**2, third)
        return Moments(moments.variance * unit**2, moments.third * unit**3, moments.squares * unit**4)


def _cells(sample: Sample, chance: Floats) -> Ints:
    """Return the cell of each row, which is its stratum; cells with few rows are merged."""
    small = np.bincount(sample.strata, chance > 0)[sample.strata] < CELL
    together = np.where(small, sample.sizes.size, sample.strata)
    _, numbers = np.unique(together, return_inverse=True)
    return numbers.astype(np.int64)


def _surplus(sample: Sample, cells: Ints) -> Floats:
    """Return by how much the probabilities D of all rows of a cell sum to more than the number of its rows drawn."""
    count = int(cells.max(initial=-1)) + 1
    if not len(sample.surplus):
        return np.zeros(count)
    relative = sample.surplus[-1][sample.strata]
    return np.asarray(np.bincount(cells, relative, count), np.float64)


def _cell_leverage(cells: Ints, chance: Floats) -> Floats:
    weight = np.bincount(cells, chance)
    leverage: Floats = chance / np.where(weight > 0, weight, 1.0)[cells]
    return leverage
