"""A value for every row, learned from few answers: ridge regression on features, then cluster means of what it missed.

Everything here is linear in the features, so that a prediction's total over all rows needs their totals only. How much
to trust a prediction is decided out of fold: the shrinkage of slopes and of cluster means by leave-one-out errors, and
one coefficient between 0 and 1 for the whole, so that a useless prediction becomes a constant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coresift.types import Clustering, Floats, Ints, Singles, Value

# Penalties per row, in units of a feature's variance, of which leave-one-out picks one.
PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
# How many rows' worth of "no difference" a cluster's mean starts with; the last one means no cluster effects.
CLUSTER_PENALTIES = (0.5, 2.0, 8.0, 1e9)
# Features further from the mean than this many standard deviations say no more than that they are far.
FARTHEST = 4.0
# A row that would fit itself alone says nothing about how well others are fitted.
MOST_LEVERAGE = 0.95
# How many directions of the cluster centers stand in where the rows' own leading components are not at hand.
CENTER_DIRECTIONS = 8


@dataclass(frozen=True, eq=False)
class Prediction(Value):
    """intercept + features·slopes + effect of the cluster; `out_of_fold` has each answer's own, made without it."""

    intercept: float
    slopes: Floats
    effects: Floats
    out_of_fold: Floats

    def at(self, features: Floats | Singles, labels: Ints) -> Floats:
        """Return the prediction for rows with these features and clusters."""
        # Features of all rows are float32: with float64 slopes they would be copied first.
        predicted: Floats = self.intercept + features @ self.slopes.astype(features.dtype) + self.effects[labels]
        return predicted


def feature_columns(
    clustering: Clustering, components: Floats | Singles | None = None, signals: Floats | None = None
) -> Singles:
    """Return what every row is predicted from: its distance, where it lies, and its signals with their roots.

    Args:
        clustering: The clusters of the rows.
        components: The rows' leading components, each with mean 0 and deviation 1, as `leading_components` returns
            them; without them, those of the cluster centers are used.
        signals: Further columns of numbers, without missing values.

    Returns:
        One column per feature with mean 0 and deviation 1, cut at four deviations.
    """
    powers = clustering.powers
    distances = np.log(powers / max(float(powers.mean()), 1e-300) + 0.05)[:, None]
    places = _center_directions(clustering) if components is None else components
    columns = [standardized(distances), places]
    if signals is not None:
        columns.append(standardized(np.concatenate([signals, np.sign(signals) * np.sqrt(np.abs(signals))], axis=1)))
    features = np.empty((clustering.n, sum(part.shape[1] for part in columns)), np.float32)
    start = 0
    for part in columns:
        end = start + part.shape[1]
        np.clip(part, -FARTHEST, FARTHEST, out=features[:, start:end], casting="same_kind")
        start = end
    return features


def standardized(columns: Floats) -> Floats:
    """Return columns with mean 0 and deviation 1, cut at four deviations; a constant column becomes 0.

    Examples:
        >>> standardized(np.array([[1.0, 5.0], [3.0, 5.0]])).tolist()
        [[-1.0, 0.0], [1.0, 0.0]]
    """
    middle, deviation = columns.mean(axis=0), columns.std(axis=0)
    varies = deviation > 1e-9 * np.maximum(np.abs(middle), 1e-300)
    scaled = (columns - middle) / np.where(varies, deviation, 1.0)
    return np.where(varies, np.clip(scaled, -FARTHEST, FARTHEST), 0.0)


def predict(features: Floats | Singles, labels: Ints, clusters: int, values: Floats, expansion: Floats) -> Prediction:
    """Learn a prediction from the rows that were asked.

    Args:
        features: The features of those rows.
        labels: Their clusters.
        clusters: How many clusters there are.
        values: Their answers.
        expansion: How many rows each stands for, 1/π.

    Returns:
        The prediction, usable for any row.
    """
    weights = expansion / expansion.mean()
    intercept, slopes, fitted = ridge(features.astype(np.float64), values, weights)
    effects, corrections = shrunken_means(labels, clusters, values - fitted, weights)
    together = fitted + corrections
    trust = _slope(values, together, weights)
    middle, center = (float(weights @ numbers / weights.sum()) for numbers in (values, together))
    return Prediction(
        middle + trust * (intercept - center), trust * slopes, trust * effects, middle + trust * (together - center)
    )


def ridge(features: Floats, values: Floats, weights: Floats) -> tuple[float, Floats, Floats]:
    """Return intercept and slopes of a weighted ridge regression, and each value's prediction without itself.

    The penalty is λ·rows, with the λ of `PENALTIES` whose leave-one-out predictions are best. All of them come from one
    eigendecomposition: leaving row i out changes its residual by 1/(1 − hᵢ), hᵢ its leverage.
    """
    count = values.size
    center, middle = weights @ features / count, float(weights @ values / count)
    apart = features - center
    strengths, directions = np.linalg.eigh((apart * weights[:, None]).T @ apart / count)
    strengths = np.maximum(strengths, 0.0)
    turned = apart @ directions
    moments = turned.T @ (weights * (values - middle)) / count
    best, chosen = np.inf, (np.zeros(features.shape[1]), values)
    for penalty in PENALTIES:
        shrunk = 1 / (strengths + penalty)
        leverage = np.minimum(weights / count * (1 + turned**2 @ shrunk), MOST_LEVERAGE)
        missed = (values - middle - turned @ (shrunk * moments)) / (1 - leverage)
        error = float(weights @ missed**2)
        if error < best:
            best, chosen = error, (directions @ (shrunk * moments), values - missed)
    slopes, out_of_fold = chosen
    return middle - float(center @ slopes), slopes, out_of_fold


def shrunken_means(labels: Ints, clusters: int, residuals: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return each cluster's mean residual, shrunk to 0 as much as leave-one-out asks, and each row's without itself."""
    sums, counts = np.bincount(labels, residuals, clusters), np.bincount(labels, minlength=clusters)
    best, chosen = np.inf, (np.zeros(clusters), np.zeros(residuals.size))
    for penalty in CLUSTER_PENALTIES:
        others = (sums[labels] - residuals) / (counts[labels] - 1 + penalty)
        error = float(weights @ (residuals - others) ** 2)
        if error < best:
            best, chosen = error, (sums / (counts + penalty), others)
    return chosen


def _slope(values: Floats, predicted: Floats, weights: Floats) -> float:
    """Return the coefficient of the values on their predictions, from 0 to 1."""
    total = weights.sum()
    spread = predicted - weights @ predicted / total
    size = float(weights @ spread**2)
    return min(max(float(weights @ (spread * values)) / size, 0.0), 1.0) if size > 0 else 0.0


def _center_directions(clustering: Clustering) -> Floats:
    """Return, for every row, where its cluster's center lies along the leading directions of all centers."""
    sizes = clustering.sizes.astype(np.float64)
    centers = clustering.free_centers.astype(np.float64)
    centers = centers - sizes @ centers / sizes.sum()
    _, _, directions = np.linalg.svd(centers * np.sqrt(sizes)[:, None], full_matrices=False)
    along = centers @ directions[:CENTER_DIRECTIONS].T
    deviation = np.sqrt(sizes @ along**2 / sizes.sum())
    scaled: Floats = (along / np.where(deviation > 0, deviation, 1.0))[clustering.labels]
    return scaled
