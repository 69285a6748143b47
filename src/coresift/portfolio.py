"""A portfolio of densities, mixed by the pilot's answers, that says how much each row is worth drawing.

No single rule for the sizes of the second draw is good everywhere. Distances help if outlying rows have large values,
cluster levels if values are similar within clusters, and a cheap model's loss if that model knows what is hard. The
pilot's answers show which of them helps. The size of a row is q = Σⱼ θⱼ·qⱼ, a mixture of densities, and θ minimizes the
pilot's estimate of the variance of the second draw,

    Σ_{S₁} (1 − α)·r²/(π₁·q),

where r is the residual of an out-of-fold prediction. This is convex in θ (He and Owen 2014). A weak prior keeps θ near
a mixture that does well without any evidence, and a uniform floor keeps every row's probability above 0. A hundred
answers are too few to find θ by themselves, so the prior favors a signal if it is correlated with the answers.

What is fixed when: clustering, signals, components, π₁ and α are fixed before the pilot; predictions, θ, sizes and the
order come from the pilot's answers, and are fixed before the second draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from coresift.checks import InputError, refuse
from coresift.columns import Column, product, stored
from coresift.inclusion import FLAT, spread
from coresift.mixtures import least_variance
from coresift.order import serpentine
from coresift.prediction import Labels, Prediction, feature_columns, predict
from coresift.signal_table import signal_table
from coresift.types import Bools, Clustering, Evidence, Floats, Ints, LeftOut, SignalTable, Singles, Value

# The mixture that the prior favors, before it is scaled to sum to 1.
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
# The prior share of all signals together: small, so that many useless ones cost little. A signal that explains the
# part r² of the pilot's answers gets `CONFIRMED` · r² more, divided by the number of signals.
SIGNALS, CONFIRMED = 0.1, 10.0
# A cluster's level is shrunk toward the overall mean, with a prior worth this many pilot rows.
LEVEL_ROWS = 0.5
# A pilot row counts at most as much as this many average ones in the choice of θ, so that one large answer cannot
# decide it alone.
MOST_ROWS = 10.0
# Added to values before their logarithm, and to predictions before they become sizes, as fractions of the mean.
LOG_OFFSET, SIZE_OFFSET = 0.1, 0.05


# A function of row numbers and positions of pilot rows; see `LeftOut`.
Without: TypeAlias = Callable[[Ints, Ints], Floats]


@dataclass(frozen=True, eq=False)
class Density(Value):
    """One candidate: its values for all rows, out-of-fold values for pilot rows, and values without a pilot row.

    `without` ignores what a row tells about other clusters than its own, which is little.
    """

    everywhere: Column[np.float64]
    at_pilot: Floats
    without: Without

    @classmethod
    def fixed(cls, everywhere: Column[np.float64], ids: Ints) -> Density:
        """Return a density that does not depend on answers."""
        return cls(everywhere, everywhere[ids], lambda rows, _: everywhere[rows])

    def divided(self, mean: float) -> Density:
        """Return the density divided by a number."""
        at_pilot, without = self.at_pilot / mean, self.without
        return Density(self.everywhere.divided(mean), at_pilot, lambda rows, left_out: without(rows, left_out) / mean)

    def root(self) -> Density:
        """Return the root of the density."""
        without = self.without
        return Density(
            self.everywhere.then(np.sqrt), np.sqrt(self.at_pilot), lambda rows, out: np.sqrt(without(rows, out))
        )


@dataclass(frozen=True, eq=False)
class MixedSizes(Value):
    """The mixture: a size for every row, the densities' names and shares θ, the order of the draw, and predictions.

    `predictions` has one number per row; `unseen` has the out-of-fold prediction of each pilot row. `left_out` is
    None if no answer was used.
    """

    sizes: Floats
    names: tuple[str, ...]
    theta: Floats
    order: Ints
    predictions: Floats
    unseen: Floats
    left_out: LeftOut | None = None


@dataclass(frozen=True, eq=False)
class PilotFacts(Value):
    """What is known when the second draw is planned.

    For every row: `share` is α; `open_rows` says whether it can be drawn; `features` are for predictions; `fixed` has
    the densities that do not depend on answers, by name, with mean 1 over the open rows. For the pilot's rows: `ids`,
    `inclusion` (π₁) and `losses`.
    """

    clustering: Clustering
    open_rows: Bools
    share: Floats
    features: Column[np.float32]
    fixed: dict[str, Column[np.float64]]
    ids: Ints
    inclusion: Floats
    losses: Floats


def pilot_facts(evidence: Evidence, signals: Any = None, components: Singles | None = None) -> PilotFacts:
    """Collect what the evidence, the signals and the rows' components say."""
    clustering, pilot = evidence.clustering, evidence.pilot
    if evidence.losses.size != pilot.ids.size or not pilot.ids.size:
        raise InputError("A portfolio needs the losses of a pilot; give losses, or use another score.")
    table = signal_table(signals, clustering.n)
    if components is not None and len(components) != clustering.n:
        refuse("components", f"one line for each of {clustering.n} rows", f"{len(components)} lines")
    open_rows = evidence.frame.open()
    return PilotFacts(
        clustering=clustering,
        open_rows=open_rows,
        share=pilot.plan.share,
        features=feature_columns(clustering, components, table.columns if table.names else None),
        fixed=fixed_densities(clustering, open_rows, table),
        ids=pilot.ids,
        inclusion=pilot.inclusion,
        losses=evidence.losses,
    )


def mix(facts: PilotFacts, *, floor: float = 0.1, prior: float = 4.0) -> MixedSizes:
    """Return the sizes that minimize the variance, as estimated from the pilot's answers.

    Args:
        facts: What is known.
        floor: The uniform share of the sizes.
        prior: How many pilot rows the prior on θ is worth.

    Returns:
        The mixture. If all answers are 0, it is distances above a uniform floor.
    """
    clustering = facts.clustering
    if not facts.losses.any():
        sizes = spread(clustering.power_column, facts.open_rows, FLAT)
        no_predictions = stored(clustering.n, lambda rows: 0.0), np.zeros(facts.ids.size)
        return MixedSizes(sizes, (), np.zeros(0), serpentine(clustering, clustering.power_column), *no_predictions)
    # Scaling by a power of two is exact, and keeps the squares of very large and very small losses finite.
    unit = math.ldexp(1.0, min(max(math.frexp(float(facts.losses.max()))[1], -1000), 1023))
    facts = replace(facts, losses=facts.losses / unit)
    expansion = 1 / facts.inclusion
    labels = clustering.labels[facts.ids].astype(np.int64)
    prediction = predict(facts.features[facts.ids], labels, clustering.k, facts.losses, expansion)
    predictions = stored(clustering.n, lambda rows: prediction.at(facts.features[rows], clustering.labels[rows]))
    densities = candidates(facts, predictions, prediction)
    residuals = facts.losses - prediction.out_of_fold
    stakes = (1 - facts.share[facts.ids]) * expansion * residuals**2
    stakes = np.minimum(stakes, MOST_ROWS * stakes.mean())
    at_pilot = np.stack([(1 - floor) * density.at_pilot + floor for density in densities.values()], axis=1)
    theta = least_variance(at_pilot, stakes, _prior_mixture(facts, tuple(densities)), prior)

    def size(rows: slice) -> Floats:
        sizes = np.full(rows.stop - rows.start, floor)
        for share, density in zip(theta, densities.values(), strict=True):
            sizes += (1 - floor) * share * density.everywhere[rows]
        return sizes

    sizes = stored(clustering.n, size)
    order = serpentine(clustering, sizes)
    scaled = stored(clustering.n, lambda rows: predictions[rows] * unit)

    def others(rows: Ints, left_out: Ints) -> tuple[Floats, Floats]:
        sizes = np.full(rows.size, floor)
        for share, density in zip(theta, densities.values(), strict=True):
            sizes += (1 - floor) * share * density.without(rows, left_out)
        return sizes, scaled[rows] + unit * _change(prediction, clustering.labels[rows], left_out)

    left_out = LeftOut(at_pilot @ theta, others)
    return MixedSizes(sizes, tuple(densities), theta, order, scaled, prediction.out_of_fold * unit, left_out)


def fixed_densities(clustering: Clustering, open_rows: Bools, table: SignalTable) -> dict[str, Column[np.float64]]:
    """Return the densities that do not depend on answers: uniform, distances, signals and their roots."""
    n, powers = clustering.n, clustering.power_column
    densities = {
        "uniform": Column(n, lambda rows: np.ones(clustering.labels[rows].size)),
        "distance": powers,
        "squared distance": powers.then(np.square),
        "root of distance": powers.then(np.sqrt),
    }
    for name, signal, size in zip(table.names, table.columns.T, table.sizes, strict=True):
        if size:
            column = Column(n, signal.__getitem__)
            densities |= {f"signal {name}": column, f"root of signal {name}": column.then(np.sqrt)}
    means = {name: _mean(values, open_rows) for name, values in densities.items()}
    return {name: densities[name].divided(mean) for name, mean in means.items() if np.isfinite(mean) and mean > 0}


def candidates(facts: PilotFacts, predictions: Floats, prediction: Prediction) -> dict[str, Density]:
    """Return the densities by name: the fixed ones, and those learned from answers, clusters and features."""
    powers = facts.clustering.power_column
    level = _levels(facts)
    raised = _raised(facts, predictions, prediction)
    learned = {
        "level": level,
        "level × distance": Density(
            level.everywhere.then(np.multiply, powers),
            level.at_pilot * powers[facts.ids],
            lambda rows, left_out: level.without(rows, left_out) * powers[rows],
        ),
        "prediction": raised,
        "root of prediction": raised.root(),
        "exponential": _exponential(facts),
        "fit": _fit(facts, level),
    }
    if any(name not in PRIOR for name in facts.fixed):
        learned["spread"] = _spread(facts, prediction.out_of_fold)
    densities = {name: Density.fixed(everywhere, facts.ids) for name, everywhere in facts.fixed.items()}
    for name, density in learned.items():
        mean = _mean(density.everywhere, facts.open_rows)
        if np.isfinite(mean) and mean > 0:
            densities[name] = density.divided(mean)
    return densities


def _levels(facts: PilotFacts) -> Density:
    """Return the mean answer of every row's cluster."""
    labels, expansion = facts.clustering.labels[facts.ids], 1 / facts.inclusion
    overall = float(expansion @ facts.losses / expansion.sum())
    sums = np.bincount(labels, facts.losses, facts.clustering.k) + LEVEL_ROWS * overall
    counts = np.bincount(labels, minlength=facts.clustering.k) + LEVEL_ROWS
    leave_one_out = (sums[labels] - facts.losses) / (counts[labels] - 1)
    levels, all_labels = sums / counts, facts.clustering.labels
    everywhere = Column(facts.clustering.n, lambda rows: levels[all_labels[rows]])
    return Density(everywhere, leave_one_out, lambda _, left_out: leave_one_out[left_out])


def _raised(facts: PilotFacts, predictions: Floats, prediction: Prediction) -> Density:
    """Return the positive parts of predictions, raised by an offset."""
    labels = facts.clustering.labels
    value = Column(facts.clustering.n, lambda rows: np.maximum(predictions[rows], 0.0))
    offset = SIZE_OFFSET * _mean(value, facts.open_rows)

    def without(rows: Ints, left_out: Ints) -> Floats:
        return np.maximum(predictions[rows] + _change(prediction, labels[rows], left_out), 0.0) + offset

    return Density(value.then(lambda some: some + offset), np.maximum(prediction.out_of_fold, 0.0) + offset, without)


def _fit(facts: PilotFacts, level: Density) -> Density:
    """Return a nonnegative least squares fit of the answers to a constant, the cluster's level and the distance."""
    from scipy.optimize import nnls

    expansion, powers = 1 / facts.inclusion, facts.clustering.power_column
    overall = float(expansion @ facts.losses / expansion.sum())
    unit = overall / max(_mean(powers, facts.open_rows), 1e-300)
    scaled_powers = powers.then(lambda some: some * unit)
    columns = np.stack([np.full(facts.ids.size, overall), level.at_pilot, scaled_powers[facts.ids]], axis=1)
    root = np.sqrt(expansion)
    coefficients, _ = nnls(columns * root[:, None], facts.losses * root)

    def fitted(level: Floats, scaled_powers: Floats) -> Floats:
        everywhere: Floats = coefficients[0] * overall + coefficients[1] * level + coefficients[2] * scaled_powers
        return everywhere

    def without(rows: Ints, left_out: Ints) -> Floats:
        return fitted(level.without(rows, left_out), scaled_powers[rows])

    return Density(level.everywhere.then(fitted, scaled_powers), columns @ coefficients, without)


def _exponential(facts: PilotFacts) -> Density:
    """Return exp of a ridge regression of log answers, for answers that depend multiplicatively on features."""
    expansion = 1 / facts.inclusion
    weights = expansion / expansion.mean()
    mean = float(weights @ facts.losses / weights.sum())
    logarithms = np.log(facts.losses + LOG_OFFSET * mean)
    pilot_features = facts.features[facts.ids]
    one_cluster = np.zeros(facts.ids.size, np.int64)
    fit = predict(pilot_features, one_cluster, 1, logarithms, expansion)
    log_mean = float(weights @ logarithms / weights.sum())

    def growth(log_values: Floats) -> Floats:
        return np.exp(np.clip(log_values - log_mean, -4.0, 4.0))

    everywhere = facts.features.then(lambda features: growth(fit.at(features, np.zeros(len(features), np.int64))))
    return Density(everywhere, growth(fit.out_of_fold), lambda rows, _: everywhere[rows])


def _spread(facts: PilotFacts, out_of_fold: Floats) -> Density:
    """Return the root of predicted squared residuals, which is large where predictions are likely to be off.

    The best density is √E[r²|x]. Signals often say more about that than about the answers themselves: an overconfident
    model is rarely wrong where it is sure, but when it is, it is very wrong. Without signals this gains nothing.
    """
    expansion = 1 / facts.inclusion
    squares = (facts.losses - out_of_fold) ** 2
    squares = np.minimum(squares, MOST_ROWS * float(expansion @ squares / expansion.sum()))
    labels = facts.clustering.labels
    fit = predict(facts.features[facts.ids], labels[facts.ids], facts.clustering.k, squares, expansion)
    everywhere = facts.features.then(lambda features, own: np.maximum(fit.at(features, own), 0.0), labels)
    offset = SIZE_OFFSET * _mean(everywhere, facts.open_rows)

    def without(rows: Ints, left_out: Ints) -> Floats:
        own = labels[rows]
        predicted = fit.at(facts.features[rows], own) + _change(fit, own, left_out)
        return np.sqrt(np.maximum(predicted, 0.0) + offset)

    root = everywhere.then(lambda some: np.sqrt(some + offset))
    return Density(root, np.sqrt(np.maximum(fit.out_of_fold, 0.0) + offset), without)


def _change(prediction: Prediction, labels: Labels, left_out: Ints) -> Floats:
    """Return how predictions of rows change if a pilot row of their cluster does not count for its cluster's effect."""
    return prediction.effects_without[left_out] - prediction.effects[labels]


def _mean(values: Column[np.float64], open_rows: Bools) -> float:
    return float(product(values, open_rows)) / max(int(np.count_nonzero(open_rows)), 1)


def _prior_mixture(facts: PilotFacts, names: tuple[str, ...]) -> Floats:
    """Return the prior's share of each density."""
    signals = sum(name not in PRIOR for name in names)

    def prior_share(name: str) -> float:
        if name in PRIOR:
            return PRIOR[name]
        explained = explained_part(facts.fixed[name][facts.ids], facts.losses, 1 / facts.inclusion)
        return (SIGNALS + CONFIRMED * explained) / signals

    shares: Floats = np.array([prior_share(name) for name in names])
    return np.asarray(shares / shares.sum())


def explained_part(signal: Floats, values: Floats, expansion: Floats) -> float:
    """Return how much of the values' variance a signal explains: r², adjusted for chance; 0 if it falls as they rise.

    Examples:
        >>> explained_part(np.array([1.0, 2.0, 4.0]), np.array([3.0, 6.0, 12.0]), np.ones(3))
        1.0
    """
    weights = expansion / expansion.sum()
    x, y = signal - weights @ signal, values - weights @ values
    together, size = float(weights @ (x * y)), float(weights @ x**2) * float(weights @ y**2)
    if together <= 0 or size <= 0:
        return 0.0
    # With unequal weights, the answers are worth as much as this many with equal weights.
    count = 1 / float(weights @ weights)
    chance = 1 / max(count - 1, 1.0)
    return max(min(together**2 / size, 1.0) - chance, 0.0) / max(1 - chance, 1e-9)
