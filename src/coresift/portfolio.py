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

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coresift.checks import InputError, refuse
from coresift.inclusion import FLAT, spread
from coresift.mixtures import least_variance
from coresift.order import serpentine
from coresift.prediction import feature_columns, predict
from coresift.signal_table import signal_table
from coresift.types import Bools, Clustering, Evidence, Floats, Ints, SignalTable, Singles, Value

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
    "fit": 0.6,
    "spread": 0.3,
}
# What all signals together have in it: little, so that many useless ones cost little; a good one rises all the same.
SIGNALS = 0.1
# How many pilot rows' worth of the overall mean a cluster's level starts with.
LEVEL_ROWS = 0.5
# No pilot row counts more than this many average ones in the choice of θ: one large answer must not decide it alone.
MOST_ROWS = 10.0
# Added to values before their logarithm, and to predictions before they become sizes, as parts of the mean.
LOG_OFFSET, SIZE_OFFSET = 0.1, 0.05


@dataclass(frozen=True, eq=False)
class Density(Value):
    """One candidate: its value for every row, with mean 1 over the open ones, and for the pilot's rows out of fold."""

    everywhere: Floats
    at_pilot: Floats


@dataclass(frozen=True, eq=False)
class Mixed(Value):
    """The outcome: a size for every row, the densities' names and parts θ, the order of the draw, and predictions.

    `predictions` has one per row, and `unseen` one per pilot row that was made without its answer.
    """

    sizes: Floats
    names: tuple[str, ...]
    theta: Floats
    order: Ints
    predictions: Floats
    unseen: Floats


@dataclass(frozen=True, eq=False)
class Known(Value):
    """What is known when the second draw is planned, as arrays.

    For every row: `share`, α; `open_rows`, whether it is left to chance; `features`, for predictions; `fixed`, by name,
    the densities that no answer changes, with mean 1 over the open rows. For the pilot's rows: `ids`, `inclusion` (π₁)
    and `losses`.
    """

    clustering: Clustering
    open_rows: Bools
    share: Floats
    features: Singles
    fixed: dict[str, Floats]
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
    open_rows = evidence.frame.open()
    return Known(
        clustering=clustering,
        open_rows=open_rows,
        share=pilot.plan.share,
        features=feature_columns(clustering, components, table.columns if table.names else None),
        fixed=fixed_densities(clustering, open_rows, table),
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
        nothing = np.zeros(clustering.n), np.zeros(facts.ids.size)
        return Mixed(sizes, (), np.zeros(0), serpentine(clustering, clustering.powers), *nothing)
    # A power of two changes no digit, and keeps squares of very large and small losses finite.
    unit = math.ldexp(1.0, min(max(math.frexp(float(facts.losses.max()))[1], -1000), 1023))
    facts = replace(facts, losses=facts.losses / unit)
    expansion = 1 / facts.inclusion
    labels = clustering.labels[facts.ids].astype(np.int64)
    prediction = predict(facts.features[facts.ids], labels, clustering.k, facts.losses, expansion)
    predictions = prediction.at(facts.features, clustering.labels.astype(np.int64))
    densities = candidates(facts, predictions, prediction.out_of_fold)
    residuals = facts.losses - prediction.out_of_fold
    stakes = (1 - facts.share[facts.ids]) * expansion * residuals**2
    stakes = np.minimum(stakes, MOST_ROWS * stakes.mean())
    at_pilot = np.stack([(1 - floor) * density.at_pilot + floor for density in densities.values()], axis=1)
    theta = least_variance(at_pilot, stakes, _pull(tuple(densities)), prior)
    sizes = np.full(clustering.n, floor)
    for part, density in zip(theta, densities.values(), strict=True):
        sizes += (1 - floor) * part * density.everywhere
    order = serpentine(clustering, sizes)
    return Mixed(sizes, tuple(densities), theta, order, predictions * unit, prediction.out_of_fold * unit)


def fixed_densities(clustering: Clustering, open_rows: Bools, table: SignalTable) -> dict[str, Floats]:
    """Return the densities that are known before any answer: uniform, distances, signals and their roots."""
    powers = clustering.powers
    found = {
        "uniform": np.ones(clustering.n),
        "distance": powers,
        "squared distance": powers**2,
        "root of distance": np.sqrt(powers),
    }
    for name, column, size in zip(table.names, table.columns.T, table.sizes, strict=True):
        if size:
            found[f"signal {name}"] = column
            found[f"root of signal {name}"] = np.sqrt(column)
    means = {name: _mean(values, open_rows) for name, values in found.items()}
    return {name: found[name] / mean for name, mean in means.items() if np.isfinite(mean) and mean > 0}


def candidates(facts: Known, predictions: Floats, out_of_fold: Floats) -> dict[str, Density]:
    """Return the densities by name: the fixed ones, and those that the answers make of clusters and features."""
    clustering, ids = facts.clustering, facts.ids
    powers = clustering.powers
    level, others = _levels(facts)
    value, unseen = np.maximum(predictions, 0.0), np.maximum(out_of_fold, 0.0)
    offset = SIZE_OFFSET * _mean(value, facts.open_rows)
    pairs = {
        "level": (level, others),
        "level × distance": (level * powers, others * powers[ids]),
        "prediction": (value + offset, unseen + offset),
        "root of prediction": (np.sqrt(value + offset), np.sqrt(unseen + offset)),
        "exponential": _exponential(facts),
        "fit": _fit(facts, level, others),
    }
    if any(name not in PRIOR for name in facts.fixed):
        pairs["spread"] = _spread(facts, out_of_fold)
    densities = {name: Density(everywhere, everywhere[ids]) for name, everywhere in facts.fixed.items()}
    for name, (everywhere, at_pilot) in pairs.items():
        mean = _mean(everywhere, facts.open_rows)
        if np.isfinite(mean) and mean > 0:
            densities[name] = Density(everywhere / mean, at_pilot / mean)
    return densities


def _levels(facts: Known) -> tuple[Floats, Floats]:
    """Return the mean answer of every row's cluster, and for the pilot's rows that of the others in theirs."""
    labels, expansion = facts.clustering.labels[facts.ids], 1 / facts.inclusion
    overall = float(expansion @ facts.losses / expansion.sum())
    sums = np.bincount(labels, facts.losses, facts.clustering.k) + LEVEL_ROWS * overall
    counts = np.bincount(labels, minlength=facts.clustering.k) + LEVEL_ROWS
    others = (sums[labels] - facts.losses) / (counts[labels] - 1)
    return (sums / counts)[facts.clustering.labels], others


def _fit(facts: Known, level: Floats, others: Floats) -> tuple[Floats, Floats]:
    """Return a nonnegative least squares fit of the answers by a constant, the cluster's level and the distance."""
    from scipy.optimize import nnls

    expansion, powers = 1 / facts.inclusion, facts.clustering.powers
    overall = float(expansion @ facts.losses / expansion.sum())
    far = powers * (overall / max(_mean(powers, facts.open_rows), 1e-300))
    columns = np.stack([np.full(facts.ids.size, overall), others, far[facts.ids]], axis=1)
    root = np.sqrt(expansion)
    parts, _ = nnls(columns * root[:, None], facts.losses * root)
    everywhere: Floats = parts[0] * overall + parts[1] * level + parts[2] * far
    return everywhere, columns @ parts


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


def _spread(facts: Known, out_of_fold: Floats) -> tuple[Floats, Floats]:
    """Return the root of a prediction of squared residuals: where answers differ most from what is predicted.

    The best density is √E[r²|x]. Signals often say more about that than about the answers themselves: an overconfident
    model is not often wrong where it is sure, but then very wrong. Without signals it gains nothing.
    """
    expansion = 1 / facts.inclusion
    squares = (facts.losses - out_of_fold) ** 2
    squares = np.minimum(squares, MOST_ROWS * float(expansion @ squares / expansion.sum()))
    labels = facts.clustering.labels.astype(np.int64)
    fit = predict(facts.features[facts.ids], labels[facts.ids], facts.clustering.k, squares, expansion)
    everywhere = np.maximum(fit.at(facts.features, labels), 0.0)
    offset = SIZE_OFFSET * _mean(everywhere, facts.open_rows)
    return np.sqrt(everywhere + offset), np.sqrt(np.maximum(fit.out_of_fold, 0.0) + offset)


def _mean(values: Floats, open_rows: Bools) -> float:
    return float(values @ open_rows) / max(int(np.count_nonzero(open_rows)), 1)


def _pull(names: tuple[str, ...]) -> Floats:
    signals = sum(name not in PRIOR for name in names)
    parts: Floats = np.array([PRIOR.get(name, SIGNALS / max(signals, 1)) for name in names])
    return np.asarray(parts / parts.sum())
