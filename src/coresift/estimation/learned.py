"""An estimate that learns: a prediction for every row, made from the pilot's answers, carries part of the total.

With a prediction m made from phase 1 alone, the second phase has to estimate only what the prediction misses:

    T̂ = Σ_{S₁} (1 − α + α/π₁)·y + Σ_rest (1 − α)·b·m + Σ_{S₂} (1 − α)·(y − b·m)/π₂,    rest: all but the pilot's rows.

Given the pilot, the last sum has the expectation Σ_rest (1 − α)·(y − b·m) whatever m is, so T̂ is exactly unbiased. The
coefficient b, from 0 to 1, comes from the pilot as well: where rows are drawn in proportion to what is predicted, y/π₂
is nearly constant already, and taking the prediction off would add noise. A prediction for the pilot's own rows would
have to come from the second draw, which depends on the pilot: that would not be exact, and is not done.

What is fixed when: clustering, signals, components, π₁ and α before the pilot; m, π₂ and the order after it and before
the second draw; nothing depends on the second draw's answers. The prediction is linear in the features, so it needs the
features of the selected rows and their totals over all rows, not the features of every row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from coresift.checks import InputError, real_vector, refuse
from coresift.prediction import Prediction, predict
from coresift.types import Floats, Ints, Singles, Value

PILOT, DRAWN = 1, 2
# With fewer pilot rows than this a prediction is noise.
FEWEST_ROWS = 10


@dataclass(frozen=True, eq=False)
class Auxiliary(Value):
    """What a selection carries so that its estimates can learn.

    `features` has one line per selected row, and `sizes` its size in the second draw (0 if unknown). `totals` are
    Σ (1 − α)·feature over all rows that count, and `cluster_totals` Σ (1 − α) over those of each cluster.
    """

    features: Floats
    sizes: Floats
    totals: Floats
    cluster_totals: Floats


@dataclass(frozen=True, eq=False)
class LearnedTotal(Value):
    """A total as `known` + Σ w·residual, and what the two phases' variances are made from.

    `residuals` are y for the pilot's rows and y − b·m for the drawn ones; with the selection's weights they sum to the
    rest of the total. The pilot's variance is that of the values y; that of the second draw is that of y − b·m.
    """

    known: float
    residuals: Floats
    prediction: Prediction | None
    coefficient: float = 0.0

    def total(self, weights: Floats) -> float:
        """Return the estimated total."""
        return self.known + float(weights @ self.residuals)


def summarize(
    features: Floats | Singles, sizes: Floats, labels: Ints, clusters: int, share: Floats, counted: Any, ids: Ints
) -> Auxiliary:
    """Return what to keep with a selection.

    Args:
        features: One line per row, as `feature_columns` makes them.
        sizes: The size of every row in the second draw.
        labels: The cluster of every row.
        clusters: How many clusters there are.
        share: α of every row.
        counted: True for the rows that are part of the total and were left to chance.
        ids: The selected rows.

    Returns:
        The features of the selected rows, and the totals.
    """
    rest = np.where(counted, 1 - share, 0.0)
    of_clusters: Floats = np.bincount(labels, rest, clusters).astype(np.float64)
    totals: Floats = np.asarray(rest @ features, np.float64)
    return Auxiliary(features[ids].astype(np.float64), sizes[ids], totals, of_clusters)


def learned_total(
    values: Any, phase: Ints, clusters: Ints, inclusion: Floats, share: Floats, auxiliary: Auxiliary
) -> LearnedTotal:
    """Return the total of values with a prediction learned from the pilot's.

    Args:
        values: y of every selected row.
        phase: 0 for a certain row, 1 for the pilot's, 2 for a drawn one.
        clusters: The cluster of every selected row.
        inclusion: The probability with which its phase drew it.
        share: Its α.
        auxiliary: The features of the selected rows, and totals.

    Returns:
        The total; without a prediction if there are fewer than ten pilot rows, or nothing is left to predict.
    """
    observed = real_vector("values", values, phase.size)
    if len(auxiliary.features) != phase.size:
        refuse("auxiliary", f"features of {phase.size} selected rows", f"{len(auxiliary.features)}")
    if clusters.size and clusters.max() >= auxiliary.cluster_totals.size:
        raise InputError("auxiliary must have totals for every cluster of the selected rows.")
    pilot, drawn = phase == PILOT, phase == DRAWN
    if np.count_nonzero(pilot) < FEWEST_ROWS or not drawn.any():
        return LearnedTotal(0.0, observed, None)
    prediction = predict(
        auxiliary.features[pilot],
        clusters[pilot],
        auxiliary.cluster_totals.size,
        observed[pilot],
        1 / inclusion[pilot],
    )
    own = 1 - share[pilot]
    slope = coefficient(observed[pilot], prediction.out_of_fold, auxiliary.sizes[pilot], own / inclusion[pilot])
    rest = auxiliary.totals - own @ auxiliary.features[pilot]
    of_clusters = auxiliary.cluster_totals - np.bincount(clusters[pilot], own, auxiliary.cluster_totals.size)
    known = prediction.intercept * of_clusters.sum() + rest @ prediction.slopes + of_clusters @ prediction.effects
    missed = observed - slope * prediction.at(auxiliary.features, clusters)
    return LearnedTotal(float(slope * known), np.where(drawn, missed, observed), prediction, slope)


def coefficient(values: Floats, predicted: Floats, sizes: Floats, expansion: Floats) -> float:
    """Return the b from 0 to 1 for which (y − b·m)/q varies least between rows that are drawn in proportion to q.

    Args:
        values: y of the pilot's rows.
        predicted: m of the same rows, each made without its own answer.
        sizes: q, their sizes in the second draw; where unknown (0), all are taken as equal.
        expansion: What each stands for in the second draw, (1 − α)/π₁.

    Returns:
        The slope of y/q on m/q, weighted by expansion·q.

    Examples:
        >>> values = np.array([1.0, 2.0, 4.0])
        >>> coefficient(values, values, np.ones(3), np.ones(3))
        1.0
    """
    likely = sizes if np.all(sizes > 0) else np.ones(values.size)
    weights = expansion * likely
    apart = predicted / likely
    apart = apart - weights @ apart / weights.sum()
    size = float(weights @ apart**2)
    return min(max(float(weights @ (apart * values / likely)) / size, 0.0), 1.0) if size > 0 else 0.0
