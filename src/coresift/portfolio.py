"""A portfolio of densities, mixed by the pilot: what a row is worth drawing, learned from everything known about it.

No single rule for the sizes of the second draw is good everywhere: distances help where outlying rows have large
values, cluster levels where values are alike within clusters, a cheap model's loss where that model is right about what
is hard. The pilot's answers tell which. The size of a row is q = Σⱼ θⱼ·qⱼ, a mixture of densities, and θ minimizes what
the pilot says the variance of the second draw will be,

    Σ_{S₁} (1 − α)·r²/(π₁·q),

r being the residual of an out-of-fold prediction. This is convex in θ (He and Owen 2014). A weak prior keeps θ near a
mixture that does well without any evidence, and a uniform floor keeps every row within reach.

What is fixed when: clustering, signals, components, π₁ and α before the pilot; predictions, θ, sizes and the order from
the pilot's answers, before the second draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from coresift.checks import InputError, refuse
from coresift.inclusion import FLAT, spread
from coresift.mixtures import least_variance
from coresift.order import serpentine
from coresift.prediction import Prediction, feature_columns, predict
from coresift.signal_table import signal_table
from coresift.types import Bools, Clustering, Evidence, Floats, Ints, Singles, Value

# The mixture that the prior pulls to, before it is scaled to sum 1.
PRIOR = {
    "uniform": 0.27,
    "distance": 0.27,
    "squared distance": 0.02,
    "root of distance": 0.02,
    "level": 0.17,
    "level × distance": 0.02,
    "prediction": 0.27,
    "root of prediction": 0.02,
    "exponential": 0.12,
}
# What all signals together have in it: little, so that many useless ones cost little; a good one rises all the same.
SIGNALS = 0.02
# How many pilot rows' worth of the overall mean a cluster's level starts with.
LEVEL_ROWS = 0.5
# No pilot row counts more than this many average ones in the choice of θ: one large answer must not decide it alone.
MOST_ROWS = 5.0
# Added to values before their logarithm, and to predictions before they become sizes, as parts of the mean.
LOG_OFFSET, SIZE_OFFSET = 0.1, 0.05


@dataclass(frozen=True, eq=False)
class Density(Value):
    """One candidate: its value for every row, with mean 1 over the open ones, and for the pilot's rows out of fold."""

    everywhere: Floats
    at_pilot: Floats


@dataclass(frozen=True, eq=False)
class Mixed(Value):
    """The outcome: a size for every row, the densities' names and parts θ, the order of the draw, the prediction."""

    sizes: Floats
    names: tuple[str, ...]
    theta: Floats
    order: Ints
    prediction: Prediction | None


@dataclass(frozen=True, eq=False)
class Known(Value):
    """What is known when the second draw is planned, as arrays.

    For every row: `share`, α; `open_rows`, whether it is left to chance; `features`, for predictions; `signals`,
    columns of at least 0 that can be sizes. For the pilot's rows: `ids`, `inclusion` (π₁) and `losses`.
    """

    clustering: Clustering
    open_rows: Bools
    share: Floats
    features: Singles
    signals: Floats
    signal_names: tuple[str, ...]
    ids: Ints
    inclusion: Floats
    losses: Floats


def known(evidence: Evidence, signals: Any = None, components: Singles | None = None) -> Known:
    """Return what the evidence, the signals and the rows' components say, as arrays."""
    clustering, pilot = evidence.clustering, evidence.pilot
    if evidence.losses.size != pilot.ids.size or not pilot.ids.size:
        raise InputError("A portfolio needs the losses of a pilot; give losses, or take another score.")
    table = signal_table(signals, clustering.n)
    if components is not None and len(components) != clustering.n:
        refuse("components", f"one line for each of {clustering.n} rows", f"{len(components)} lines")
    return Known(
        clustering=clustering,
        open_rows=evidence.frame.open(),
        share=pilot.plan.share,
        features=feature_columns(clustering, components, table.columns if table.names else None),
        signals=table.columns[:, table.sizes],
        signal_names=tuple(name for name, size in zip(table.names, table.sizes, strict=True) if size),
        ids=pilot.ids,
        inclusion=pilot.inclusion,
        losses=evidence.losses,
    )


def mix(facts: Known, *, floor: float = 0.1, prior: float = 4.0) -> Mixed:
    """Return the sizes that the pilot's answers ask for.

    Args:
        facts: What is known.
        floor: The part of the sizes that is uniform in any case.
        prior: How many pilot rows the prior on θ is worth.

    Returns:
        The mixture. If no answer differs from 0, distances above a uniform floor.
    """
    clustering = facts.clustering
    if not facts.losses.any():
        sizes = spread(clustering.powers, facts.open_rows, FLAT)
        return Mixed(sizes, (), np.zeros(0), serpentine(clustering, clustering.powers), None)
    expansion = 1 / facts.inclusion
    labels = clustering.labels[facts.ids].astype(np.int64)
    prediction = predict(facts.features[facts.ids], labels, clustering.k, facts.losses, expansion)
    densities = candidates(facts, prediction)
    residuals = facts.losses - prediction.out_of_fold
    stakes = (1 - facts.share[facts.ids]) * expansion * residuals**2
    stakes = np.minimum(stakes, MOST_ROWS * stakes.mean())
    at_pilot = np.stack([(1 - floor) * density.at_pilot + floor for density in densities.values()], axis=1)
    theta = least_variance(at_pilot, stakes, _pull(tuple(densities)), prior)
    sizes = np.full(clustering.n, floor)
    for part, density in zip(theta, densities.values(), strict=True):
        sizes += (1 - floor) * part * density.everywhere
    return Mixed(sizes, tuple(densities), theta, serpentine(clustering, sizes), prediction)


def candidates(facts: Known, prediction: Prediction) -> dict[str, Density]:
    """Return the densities by name: uniform, distances, cluster levels, predictions and signals."""
    clustering, ids = facts.clustering, facts.ids
    powers = clustering.powers
    level, others = _levels(facts)
    value = np.maximum(prediction.at(facts.features, clustering.labels.astype(np.int64)), 0.0)
    unseen = np.maximum(prediction.out_of_fold, 0.0)
    offset = SIZE_OFFSET * float(value[facts.open_rows].mean())
    growth, own_growth = _exponential(facts)
    pairs = {
        "uniform": (np.ones(clustering.n), np.ones(ids.size)),
        "distance": (powers, powers[ids]),
        "squared distance": (powers**2, powers[ids] ** 2),
        "root of distance": (np.sqrt(powers), np.sqrt(powers[ids])),
        "level": (level, others),
        "level × distance": (level * powers, others * powers[ids]),
        "prediction": (value + offset, unseen + offset),
        "root of prediction": (np.sqrt(value + offset), np.sqrt(unseen + offset)),
        "exponential": (growth, own_growth),
    }
    for name, column in zip(facts.signal_names, facts.signals.T, strict=True):
        pairs[f"signal {name}"] = (column, column[ids])
        pairs[f"root of signal {name}"] = (np.sqrt(column), np.sqrt(column[ids]))
    scaled = {name: _scaled(*pair, facts.open_rows) for name, pair in pairs.items()}
    return {name: density for name, density in scaled.items() if density is not None}


def _levels(facts: Known) -> tuple[Floats, Floats]:
    """Return the mean answer of every row's cluster, and for the pilot's rows that of the others in theirs."""
    labels, expansion = facts.clustering.labels[facts.ids], 1 / facts.inclusion
    overall = float(expansion @ facts.losses / expansion.sum())
    sums = np.bincount(labels, facts.losses, facts.clustering.k) + LEVEL_ROWS * overall
    counts = np.bincount(labels, minlength=facts.clustering.k) + LEVEL_ROWS
    others = (sums[labels] - facts.losses) / (counts[labels] - 1)
    return (sums / counts)[facts.clustering.labels], others


def _exponential(facts: Known) -> tuple[Floats, Floats]:
    """Return exp of a ridge regression of the answers' logarithms: for values that features multiply."""
    expansion = 1 / facts.inclusion
    weights = expansion / expansion.mean()
    mean = float(weights @ facts.losses / weights.sum())
    logarithms = np.log(facts.losses + LOG_OFFSET * mean)
    own = facts.features[facts.ids]
    single = np.zeros(facts.ids.size, np.int64)
    fit = predict(own, single, 1, logarithms, expansion)
    middle = float(weights @ logarithms / weights.sum())
    everywhere = fit.at(facts.features, np.zeros(len(facts.features), np.int64))
    growth, own_growth = (np.exp(np.clip(part - middle, -4.0, 4.0)) for part in (everywhere, fit.out_of_fold))
    return growth, own_growth


def _scaled(everywhere: Floats, at_pilot: Floats, open_rows: Bools) -> Density | None:
    """Return the density with mean 1 over the open rows, or None if it is 0 there."""
    mean = float(everywhere @ open_rows) / max(int(np.count_nonzero(open_rows)), 1)
    return Density(everywhere / mean, at_pilot / mean) if np.isfinite(mean) and mean > 0 else None


def _pull(names: tuple[str, ...]) -> Floats:
    signals = sum(name not in PRIOR for name in names)
    parts: Floats = np.array([PRIOR.get(name, SIGNALS / max(signals, 1)) for name in names])
    return np.asarray(parts / parts.sum())
