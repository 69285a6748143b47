"""Predict a value for every row from few answers: ridge regression on features, then cluster means of its residuals.

Everything is linear in the features, so a prediction's total over all rows needs only the features' totals. How much to
trust a prediction is decided out of fold: leave-one-out errors choose the shrinkage of slopes and of cluster means, and
one coefficient between 0 and 1 scales the whole, so that a useless prediction becomes a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coresift.columns import Column, add_up, total
from coresift.spectra import axes_of_wide, wide
from coresift.types import Clustering, Floats, Singles, Value

Labels: TypeAlias = NDArray[np.integer[Any]]

# Ridge penalties per row, in units of a feature's variance; leave-one-out errors choose one.
PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
# Cluster means are shrunk toward 0 with a prior worth this many rows; the last one means no cluster effects.
CLUSTER_PENALTIES = (0.5, 2.0, 8.0, 1e9)
# Features are clipped at this many standard deviations from the mean.
FARTHEST = 4.0
# Leverages are capped, because a row that determines its own fit says nothing about the fit of others.
MOST_LEVERAGE = 0.95
# How many principal directions of the cluster centers to use if the rows' own leading components are not available.
CENTER_DIRECTIONS = 8


@dataclass(frozen=True, eq=False)
class Prediction(Value):
    """intercept + features·slopes + the cluster's effect.

    For the answered rows, `out_of_fold` has predictions without the row's own answer, and `effects_without` has the
    effect of the row's cluster without it.
    """

    intercept: float
    slopes: Floats
    effects: Floats
    out_of_fold: Floats
    effects_without: Floats

    def at(self, features: Floats | Singles, labels: Labels) -> Floats:
        """Return the prediction for rows with these features and clusters."""
        # The features are float32; float64 slopes would make numpy copy them.
        predicted: Floats = self.intercept + features @ self.slopes.astype(features.dtype) + self.effects[labels]
        return predicted


def feature_columns(
    clustering: Clustering, components: Floats | Singles | None = None, signals: Floats | None = None
) -> Column[np.float32]:
    """Return the features of every row: its distance, its position, and its signals with their roots.

    Args:
        clustering: The clusters of the rows.
        components: The rows' leading components, each with mean 0 and standard deviation 1, as `leading_components`
            returns them; without them, those of the cluster centers are used.
        signals: Further columns of numbers, without missing values.

    Returns:
        One line per row and one column per feature, with mean 0 and standard deviation 1, clipped at four standard
        deviations.
    """
    n, powers = clustering.n, clustering.power_column
    mean = max(float(total(powers) / n), 1e-300)
    columns = [_standardized(Column(n, lambda rows: np.log(powers[rows] / mean + 0.05)[:, None]))]
    columns.append(_center_directions(clustering) if components is None else Column(n, lambda rows: components[rows]))
    if signals is not None:
        columns.append(_standardized(Column(n, lambda rows: _with_roots(signals[rows]))))

    def features(rows: Any) -> Singles:
        blocks = [column[rows] for column in columns]
        clipped = np.empty((len(blocks[0]), sum(block.shape[1] for block in blocks)), np.float32)
        start = 0
        for block in blocks:
            end = start + block.shape[1]
            np.clip(block, -FARTHEST, FARTHEST, out=clipped[:, start:end], casting="same_kind")
            start = end
        return clipped

    return Column(n, features)


def _with_roots(signals: Floats) -> Floats:
    return np.concatenate([signals, np.sign(signals) * np.sqrt(np.abs(signals))], axis=1)


def standardized(columns: Floats) -> Floats:
    """Return columns with mean 0 and standard deviation 1, clipped at four; a constant column becomes 0.

    Examples:
        >>> standardized(np.array([[1.0, 5.0], [3.0, 5.0]])).tolist()
        [[-1.0, 0.0], [1.0, 0.0]]
    """
    return _standardized(Column(len(columns), lambda rows: columns[rows]))[:]


def _standardized(columns: Column[np.float64]) -> Column[np.float64]:
    n = len(columns)
    mean = add_up(n, lambda rows: columns[rows].sum(axis=0)) / n
    deviation = np.sqrt(add_up(n, lambda rows: ((columns[rows] - mean) ** 2).sum(axis=0)) / n)
    varies = deviation > 1e-9 * np.maximum(np.abs(mean), 1e-300)

    def scaled(rows: Any) -> Floats:
        units = (columns[rows] - mean) / np.where(varies, deviation, 1.0)
        return np.where(varies, np.clip(units, -FARTHEST, FARTHEST), 0.0)

    return Column(n, scaled)


def predict(features: Floats | Singles, labels: Labels, clusters: int, values: Floats, expansion: Floats) -> Prediction:
    """Learn a prediction from the rows that were asked.

    Args:
        features: The features of those rows.
        labels: Their clusters.
        clusters: How many clusters there are.
        values: Their answers.
        expansion: How many rows each of them represents, 1/π.

    Returns:
        The prediction, usable for any row.
    """
    weights = expansion / expansion.mean()
    intercept, slopes, fitted = ridge(features.astype(np.float64), values, weights)
    effects, corrections = shrunken_means(labels, clusters, values - fitted, weights)
    combined = fitted + corrections
    trust = _slope(values, combined, weights)
    value_mean, prediction_mean = (float(weights @ numbers / weights.sum()) for numbers in (values, combined))
    return Prediction(
        value_mean + trust * (intercept - prediction_mean),
        trust * slopes,
        trust * effects,
        value_mean + trust * (combined - prediction_mean),
        trust * corrections,
    )


def ridge(features: Floats, values: Floats, weights: Floats) -> tuple[float, Floats, Floats]:
    """Return intercept and slopes of a weighted ridge regression, and its leave-one-out predictions.

    The penalty is λ·rows, with the λ from `PENALTIES` that has the smallest leave-one-out error. One eigendecomposition
    serves all of them: leaving row i out multiplies its residual by 1/(1 − hᵢ), where hᵢ is its leverage.
    """
    count = values.size
    center, value_mean = weights @ features / count, float(weights @ values / count)
    centered = features - center
    if wide(centered):
        strengths, directions = axes_of_wide(centered * np.sqrt(weights)[:, None], count)
    else:
        strengths, directions = np.linalg.eigh((centered * weights[:, None]).T @ centered / count)
    strengths = np.maximum(strengths, 0.0)
    rotated = centered @ directions
    moments = rotated.T @ (weights * (values - value_mean)) / count
    best, best_fit = np.inf, (np.zeros(features.shape[1]), values)
    for penalty in PENALTIES:
        shrinkage = 1 / (strengths + penalty)
        leverage = np.minimum(weights / count * (1 + rotated**2 @ shrinkage), MOST_LEVERAGE)
        residuals = (values - value_mean - rotated @ (shrinkage * moments)) / (1 - leverage)
        error = float(weights @ residuals**2)
        if error < best:
            best, best_fit = error, (directions @ (shrinkage * moments), values - residuals)
    slopes, out_of_fold = best_fit
    return value_mean - float(center @ slopes), slopes, out_of_fold


def shrunken_means(labels: Labels, clusters: int, residuals: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return each cluster's mean residual, shrunk toward 0 by leave-one-out, and each row's leave-one-out mean."""
    sums, counts = np.bincount(labels, residuals, clusters), np.bincount(labels, minlength=clusters)
    best, best_means = np.inf, (np.zeros(clusters), np.zeros(residuals.size))
    for penalty in CLUSTER_PENALTIES:
        leave_one_out = (sums[labels] - residuals) / (counts[labels] - 1 + penalty)
        error = float(weights @ (residuals - leave_one_out) ** 2)
        if error < best:
            best, best_means = error, (sums / (counts + penalty), leave_one_out)
    return best_means


def _slope(values: Floats, predicted: Floats, weights: Floats) -> float:
    """Return the regression coefficient of the values on their predictions, clipped to between 0 and 1."""
    total = weights.sum()
    spread = predicted - weights @ predicted / total
    size = float(weights @ spread**2)
    return min(max(float(weights @ (spread * values)) / size, 0.0), 1.0) if size > 0 else 0.0


def _center_directions(clustering: Clustering) -> Column[np.float64]:
    """Return the leading principal components of every row's cluster center."""
    sizes = clustering.sizes.astype(np.float64)
    centers = clustering.free_centers.astype(np.float64)
    centers = centers - sizes @ centers / sizes.sum()
    _, _, directions = np.linalg.svd(centers * np.sqrt(sizes)[:, None], full_matrices=False)
    projected = centers @ directions[:CENTER_DIRECTIONS].T
    deviation = np.sqrt(sizes @ projected**2 / sizes.sum())
    scaled: Floats = projected / np.where(deviation > 0, deviation, 1.0)
    return Column(clustering.n, lambda rows: scaled[clustering.labels[rows]])
