"""The losses of the centers as predictions of all rows, and the clustering that a selection was made with."""

from __future__ import annotations

from typing import Any

import numpy as np

from coresift.checks import InputError, refuse, row_numbers
from coresift.estimation.inputs import array_of_numbers
from coresift.estimation.intervals import uncertain
from coresift.types import Clustering, Floats, Ints, WeightedSelection


def center_predictions(clustering: Clustering, losses: Any, exclude: Any = None) -> Floats:
    """Return ŷ(e), the loss of e's center, for every row e.

    Args:
        clustering: The clustering.
        losses: One loss per center.
        exclude: Rows that were excluded.

    Returns:
        One number per row, NaN for excluded rows.

    Examples:
        >>> import numpy as np, coresift as cs
        >>> rows = np.array([[0.0], [0.1], [5.0], [5.1]])
        >>> clustering = cs.cluster(rows, 2, seed=0)
        >>> losses = rows[clustering.centers, 0].round()
        >>> center_predictions(clustering, losses)
        array([0., 0., 5., 5.])
    """
    levels = array_of_numbers("losses", losses, (1,))
    if levels.size != clustering.k or not np.all(np.isfinite(levels)):
        refuse("losses", f"one finite number for each of {clustering.k} centers", f"{levels.size} numbers")
    predictions: Floats = levels[clustering.labels]
    predictions[row_numbers("exclude", exclude, clustering.n)] = np.nan
    return predictions


def difference_weights(
    selection: WeightedSelection, clustering: Clustering, exclude: Any = None
) -> tuple[Ints, Floats]:
    """Return the rows and weights whose weighted total is `Difference` with `center_predictions`, for any values.

    The selected rows keep their weights, and center i gets n_i − Σ w over the selected rows of its cluster in addition,
    which may be negative.

    Args:
        selection: The selection.
        clustering: The clustering that it was made with.
        exclude: The rows that were excluded in `select`.

    Returns:
        The row numbers, and one weight per row.

    Examples:
        >>> import numpy as np, coresift as cs
        >>> rows = np.random.default_rng(0).normal(size=(100, 2))
        >>> clustering = cs.cluster(rows, 5, seed=0)
        >>> ids, weights = difference_weights(cs.select(rows, budget=20, clusters=clustering), clustering)
        >>> round(float(weights.sum()), 9)
        100.0
    """
    check_clustering(selection, clustering)
    excluded = row_numbers("exclude", exclude, clustering.n)
    if clustering.n - excluded.size != selection.population:
        refuse("exclude", f"the {clustering.n - selection.population} rows that were excluded", f"{excluded.size} rows")
    if np.isin(clustering.centers, excluded).any():
        raise InputError(
            "A center is among the excluded rows, so it cannot have a weight; cluster only the other rows."
        )
    counted = clustering.sizes - np.bincount(clustering.labels[excluded], minlength=clustering.k)
    center_weights = counted - np.bincount(selection.clusters, selection.weights, clustering.k)
    weights = np.zeros(clustering.n)
    weights[selection.ids] = selection.weights
    weights[clustering.centers] += center_weights
    ids = np.union1d(selection.ids, clustering.centers)
    return ids, weights[ids]


def check_clustering(selection: WeightedSelection, clustering: Clustering, *, given: bool = True) -> None:
    """Refuse a clustering that the selection was not made with; it was given, or made from given rows."""
    same = clustering.n == selection.n and clustering.z == selection.z
    if same:
        same = np.array_equal(clustering.labels[selection.ids], selection.clusters)
        same = same and np.array_equal(clustering.distances[selection.ids], selection.distances)
    if not same and not given:
        raise InputError(
            "rows must be those that the selection was made from; these give other clusters, "
            "because of other numbers, columns or scaling (standardize=True)."
        )
    if not same:
        raise InputError("The clustering is not the one that the selection was made with.")


def drawn_by_distance(selection: WeightedSelection, clustering: Clustering, scale: Floats) -> bool:
    """Return whether each draw's probability is proportional to Λv and at least Λv/Φ^Λ, as the bound assumes."""
    drawn = uncertain(selection, 2)
    scaled_powers = np.broadcast_to(scale, clustering.k)[clustering.labels] * clustering.powers
    draws = int(selection.multiplicity[drawn].sum())
    required = (
        draws * scaled_powers[selection.ids[drawn]] / scaled_powers.sum()
        if scaled_powers.sum() > 0
        else np.full(drawn.size, np.inf)
    )
    inclusion = selection.inclusion[drawn]
    ratio = inclusion / np.where(required > 0, required, np.inf)
    return bool(np.all(inclusion >= required * (1 - 1e-6)) and np.allclose(ratio, ratio[0]))


def predicted_by_centers(
    selection: WeightedSelection, values: Floats, clustering: Clustering, predictions: Floats
) -> bool:
    """Return whether every prediction is the loss of the row's center, as far as the selected rows show."""
    if predictions.size != clustering.n:
        return False
    centers = np.isin(selection.ids, clustering.centers)
    counted = np.isfinite(predictions)
    constant = np.array_equal(predictions[counted], predictions[clustering.centers][clustering.labels][counted])
    predicted = predictions[selection.ids[centers]]
    return bool(constant and centers.sum() == clustering.k and np.allclose(values[centers], predicted))
