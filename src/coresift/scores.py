"""Scores: how much a row is worth drawing, given what is known before the draw. One class per rule; all are pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from coresift.checks import InputError, loss_vector, positive, refuse, share, whole
from coresift.columns import Column, stored
from coresift.inclusion import FLAT, part_column, parts, spread
from coresift.order import outward, snake
from coresift.portfolio import mix, pilot_facts
from coresift.types import ESTIMATES, Evidence, Floats, Ints, Needs, Score, Scores, freeze

__all__ = ["Distance", "Learned", "LeverageMixture", "Mixture", "Portfolio", "Proxy", "Score", "Sensitivity"]

# A cluster's mean is shrunk toward the overall mean, with a prior worth this many rows.
PRIOR = 0.5
# Losses above this are scaled before they are squared.
LARGEST = 1e100
NO_PILOT = Needs(pilot=False, answers=False)


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Score):
    """The paper's rule: ℓ(c) + Λ·‖e − c‖^z, with one Λ for all rows or one per cluster, and no floor.

    holder=inf is the limit Λ → ∞: distances alone, and probability 0 for the centers.

    Args:
        holder: Λ: a number, one number per cluster, or the name of an estimate: "free" uses the losses that are asked
            anyway; "robust" and "estimate" (the paper's lemma) ask for more, which `plan` counts.

    Examples:
        >>> Sensitivity(holder=0.1), Sensitivity(holder="free")
        (Sensitivity(holder=0.1), Sensitivity(holder='free'))
    """

    holder: Any
    theorem: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.holder, str):
            if self.holder not in ESTIMATES:
                words = ", ".join(repr(word) for word in ESTIMATES)
                refuse("holder", f"a number, one per cluster, or one of {words}", repr(self.holder))
            return
        values = np.array(self.holder, np.float64)
        if values.ndim == 0 and values == np.inf:
            return
        if values.ndim > 1 or not np.all(np.isfinite(values)) or np.any(values < 0):
            raise InputError("holder must be a number of at least 0, or one finite such number per cluster.")
        if values.ndim == 1:
            freeze(self, holder=np.float64)

    @property
    def needs(self) -> Needs:
        """A pilot, and probes if Λ is estimated; in the limit Λ → ∞ the answers do not matter."""
        if isinstance(self.holder, str):
            return Needs(probes=self.holder)
        return Needs(answers=not np.isinf(self.holder).all())

    def check_clusters(self, count: int) -> None:
        """Refuse an array of Λ that does not have one number per cluster."""
        size = np.size(self.holder)
        if not isinstance(self.holder, str) and size not in (1, count):
            refuse("holder", f"one number, or one for each of {count} clusters", f"{size} numbers")

    def for_centers(self, count: int) -> Sensitivity:
        """Return this score with the Λ of the first `count` centers."""
        return self if np.size(self.holder) == 1 else Sensitivity(holder=self.holder[:count])

    def scores(self, evidence: Evidence) -> Scores:
        """Return the numerators of p in Algorithm 1."""
        clustering = evidence.clustering
        if isinstance(self.holder, str) and not evidence.holder.size:
            raise InputError(
                f"score={self!r} estimates Λ from a pilot, and there is none; use a larger budget, or a number for Λ."
            )
        self.check_clusters(clustering.k)
        holder = evidence.holder if isinstance(self.holder, str) else np.atleast_1d(np.asarray(self.holder, float))
        if np.isinf(holder[0]):
            return Scores(stored(clustering.n, clustering.power_column.__getitem__), snake(clustering))
        levels = evidence.cluster_losses()
        labels, powers, scale = clustering.labels, clustering.power_column, np.broadcast_to(holder, clustering.k)
        sizes = stored(clustering.n, lambda rows: levels[labels[rows]] + scale[labels[rows]] * powers[rows])
        return Scores(sizes, outward(clustering, levels), holder)


@dataclass(frozen=True, eq=False, repr=False)
class Mixture(Score):
    """A fixed mixture of the cluster's loss, the distance and a uniform floor; needs no Λ.

    Args:
        loss: The share that is proportional to the loss of the row's cluster.
        distance: The share that is proportional to the distance from the center. The rest, which must be above 0, is
            uniform.

    Examples:
        >>> Mixture()
        Mixture(loss=0.25, distance=0.25)
    """

    loss: float = 0.25
    distance: float = 0.25

    def __post_init__(self) -> None:
        if share("loss", self.loss, ends=True) + share("distance", self.distance, ends=True) >= 1:
            raise InputError("loss and distance must sum to less than 1, to leave room for the uniform floor.")

    def scores(self, evidence: Evidence) -> Scores:
        """Return loss·ℓ̂/Σℓ̂ + distance·v/Φ + the rest/n."""
        clustering = evidence.clustering
        levels = evidence.cluster_losses()
        level = part_column(Column(clustering.n, lambda rows: levels[clustering.labels[rows]]))
        away, rest = part_column(clustering.power_column), (1 - self.loss - self.distance) / clustering.n
        sizes = stored(clustering.n, lambda rows: self.loss * level[rows] + self.distance * away[rows] + rest)
        return Scores(sizes, outward(clustering, levels))


@dataclass(frozen=True, eq=False, repr=False)
class Distance(Score):
    """Distances alone (Λ → ∞ in the paper), above a uniform floor; asks for no losses.

    Args:
        floor: The uniform share, from 0 to 1; 0 is the paper's formula.
        power: An exponent for v = distance^z: 2 gives squared distances on a clustering with z=1.
        holder: One Λ per cluster, or None. With Λ, distances count as Λv, as the difference estimator's bound requires.

    Examples:
        >>> Distance(floor=0.3, power=2.0).floor
        0.3
    """

    floor: float = 0.5
    power: float = 1.0
    holder: Any = None

    def __post_init__(self) -> None:
        share("floor", self.floor, ends=True)
        positive("power", self.power)
        if self.holder is None:
            return
        freeze(self, holder=np.float64)
        values = self.holder
        if values.ndim != 1 or not np.all(np.isfinite(values)) or np.any(values < 0):
            raise InputError("holder must be finite numbers of at least 0, one per cluster, or None.")

    @property
    def needs(self) -> Needs:
        """Nothing besides the clusters."""
        return NO_PILOT

    def scores(self, evidence: Evidence) -> Scores:
        """Return (1 − floor)·Λv^power/ΣΛv^power + floor/n."""
        clustering = evidence.clustering
        holder = np.zeros(0) if self.holder is None else self.holder
        if holder.size not in (0, clustering.k):
            raise InputError(f"holder must be one number for each of {clustering.k} clusters; got {holder.size}.")
        powers = clustering.power_column.then(lambda some: some**self.power)
        if holder.size:
            powers = powers.then(lambda some, labels: some * holder[labels], clustering.labels)
        away = part_column(powers)
        sizes = stored(clustering.n, lambda rows: (1 - self.floor) * away[rows] + self.floor / clustering.n)
        return Scores(sizes, snake(clustering), holder)


@dataclass(frozen=True, eq=False, repr=False)
class LeverageMixture(Score):
    """A fixed mixture of leverage scores, distances and a uniform floor, for regressions.

    A row that is far from its medoid or has high leverage is more likely to be drawn.

    Args:
        leverage: The share that is proportional to the leverage scores.
        floor: The uniform share. The rest is proportional to the distance.
        ridge: The ridge of the leverage scores.

    Examples:
        >>> LeverageMixture()
        LeverageMixture(leverage=0.7, floor=0.15, ridge=0.0)
    """

    leverage: float = 0.7
    floor: float = 0.15
    ridge: float = 0.0

    def __post_init__(self) -> None:
        if share("leverage", self.leverage, ends=True) + share("floor", self.floor) > 1:
            raise InputError(f"leverage and floor must sum to at most 1; got {self.leverage} and {self.floor}.")
        positive("ridge", self.ridge, zero=True)

    @property
    def needs(self) -> Needs:
        """Leverage scores, and no pilot."""
        return Needs(pilot=False, answers=False, leverage=self.ridge)

    def scores(self, evidence: Evidence) -> Scores:
        """Return leverage·h/Σh + (1 − leverage − floor)·v/Φ + floor/n."""
        clustering = evidence.clustering
        if not evidence.leverage.size:
            raise InputError(f"score={self!r} needs leverage scores, which only a regression has; use another score.")
        distance, uniform = max(1 - self.leverage - self.floor, 0.0), self.floor / clustering.n
        leverage, away = part_column(evidence.leverage), part_column(clustering.power_column)
        sizes = stored(clustering.n, lambda rows: self.leverage * leverage[rows] + distance * away[rows] + uniform)
        return Scores(sizes, snake(clustering))


@dataclass(frozen=True, eq=False, repr=False)
class Proxy(Score):
    """A cheap model's loss for every row, above a uniform floor; asks for no losses.

    Args:
        losses: One cheap loss per row, at least 0.
        floor: The uniform share.

    Examples:
        >>> Proxy([1.0, 2.0, 3.0]).floor
        0.2
    """

    losses: Any
    floor: float = 0.2

    def __post_init__(self) -> None:
        share("floor", self.floor)
        values = np.array(self.losses, dtype=np.float64)
        values = loss_vector(values, np.arange(values.size), source="Proxy losses")
        freeze(self, losses=np.float64)

    @property
    def needs(self) -> Needs:
        """Nothing besides its own losses."""
        return NO_PILOT

    def scores(self, evidence: Evidence) -> Scores:
        """Return (1 − floor)·q/Σq + floor/n, sorted by q."""
        n = evidence.clustering.n
        if self.losses.size != n:
            raise InputError(f"Proxy losses must be one number for each of {n} rows; got {self.losses.size}.")
        order = np.argsort(self.losses, kind="stable")
        return Scores((1 - self.floor) * parts(self.losses) + self.floor / n, order)


@dataclass(frozen=True, eq=False, repr=False)
class Learned(Score):
    """Each row's loss, predicted from its cluster and distance by a fit to the pilot, above a floor.

    The prediction is a nonnegative least squares fit of the pilot's losses, weighted by 1/π₁, on three features: 1, the
    mean loss of the row's cluster (leave-one-out, and shrunk toward the overall mean with a prior of half a row), and
    v = distance^z.

    Args:
        floor: The share of the size that does not depend on the fit, 40% of it by distance and 60% uniform, so that
            every row can be drawn no matter how wrong the fit is.

    Examples:
        >>> Learned()
        Learned(floor=0.5)
    """

    floor: float = 0.5

    def __post_init__(self) -> None:
        share("floor", self.floor)

    def scores(self, evidence: Evidence) -> Scores:
        """Return (1 − floor)·prediction/Σprediction + floor·(0.4·v/Φ + 0.6/n)."""
        clustering, plan = evidence.clustering, evidence.pilot.plan
        floor_sizes = spread(clustering.power_column, stored(clustering.n, lambda rows: True, np.bool_), FLAT)
        predicted = part_column(_predict(evidence))
        sizes = stored(clustering.n, lambda rows: (1 - self.floor) * predicted[rows] + self.floor * floor_sizes[rows])
        return Scores(sizes, plan.order if plan.tour else snake(clustering))


@dataclass(frozen=True, eq=False, repr=False)
class Portfolio(Score):
    """A portfolio of densities that the pilot mixes: uniform, distances, cluster levels, predictions and signals.

    The mixture minimizes the variance of the second draw as predicted from the pilot's answers; see
    `coresift.portfolio`. This is the default with losses. It passes on its predictions, and `estimate` uses them.

    Attributes:
        floor: The uniform share of the sizes.
        prior: How many pilot rows the prior on the mixture is worth.
        components: How many leading components of the rows the predictions use.
    """

    floor: float = 0.1
    prior: float = 4.0
    components: int = 16

    def __post_init__(self) -> None:
        share("floor", self.floor)
        positive("prior", self.prior)
        whole("components", self.components, least=0)

    @property
    def needs(self) -> Needs:
        """A pilot with its answers, and components of the rows; signals are used if there are any."""
        return Needs(components=self.components, signals=True)

    def scores(self, evidence: Evidence) -> Scores:
        """Return the mixture's sizes, and the order by cluster and size."""
        if not evidence.pilot.ids.size:
            sizes = spread(evidence.clustering.power_column, evidence.frame.open(), FLAT)
            return Scores(sizes, snake(evidence.clustering))
        components = evidence.components if evidence.components.size else None
        mixture = mix(pilot_facts(evidence, evidence.frame.signals, components), floor=self.floor, prior=self.prior)
        return Scores(
            mixture.sizes,
            mixture.order,
            predictions=mixture.predictions,
            unseen=mixture.unseen,
            left_out=mixture.left_out,
        )


def _predict(evidence: Evidence) -> Column[np.float64]:
    """Return the predicted loss of every row, or zeros if all answers are 0."""
    from scipy.optimize import nnls

    clustering, pilot, losses = evidence.clustering, evidence.pilot, evidence.losses
    if not losses.any():
        return Column(clustering.n, lambda rows: np.zeros(clustering.labels[rows].size))
    if losses.max() > LARGEST:
        losses = losses / losses.max()  # only ratios matter, and squares must stay finite
    labels, expansion = clustering.labels[pilot.ids], 1 / pilot.inclusion
    overall = float(expansion @ losses / expansion.sum())
    sums = np.bincount(labels, losses, clustering.k) + PRIOR * overall
    counts = np.bincount(labels, minlength=clustering.k) + PRIOR
    # Leave each row out of its cluster's mean, because its own loss would make noise look like signal.
    leave_one_out = (sums[labels] - losses) / (counts[labels] - 1)
    scaled_powers = part_column(clustering.power_column).then(lambda some: overall * clustering.n * some)
    columns = np.stack([np.full(losses.size, overall), leave_one_out, scaled_powers[pilot.ids]], axis=1)
    root = np.sqrt(expansion)
    (level, cluster, distance), _ = nnls(columns * root[:, None], losses * root)
    levels = sums / counts

    def predicted(scaled: Floats, labels: Ints) -> Floats:
        values: Floats = level * overall + cluster * levels[labels] + distance * scaled
        return values

    return scaled_powers.then(predicted, clustering.labels)
