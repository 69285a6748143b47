"""What a row is worth drawing, from all that is known before the draw. One class a rule; each is a pure function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from coresift.checks import InputError, loss_vector, positive, refuse, share
from coresift.inclusion import FLAT, parts, spread
from coresift.order import outward, snake
from coresift.types import Evidence, Floats, Scores, Strategy

# How many rows' worth of the overall mean a cluster's mean has from the start.
PRIOR = 0.5
# Ways to estimate Λ that `holder` can name; select and rounds put the estimate in the word's place.
ESTIMATES = ("estimate", "free", "robust")


class Score(Protocol):
    """A rule that scores every row."""

    asks: ClassVar[bool]

    def scores(self, evidence: Evidence) -> Scores:
        """Return sizes of all rows and the order of the draw; `asks` says whether it needs a pilot's losses."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Strategy):
    """The paper's rule: ℓ(c) + Λ·‖e − c‖^z, with one Λ (`holder`) for all or one a cluster; no floor.

    A word has Λ estimated first, as `coresift.holder` does it: "free" from the losses that are asked anyway, "robust"
    and "estimate" (the paper's lemma) from more losses, which `plan` counts. holder=inf is the limit Λ → ∞: distances
    alone, and probability 0 for the centers.

    >>> Sensitivity(holder=0.1), Sensitivity(holder="free")
    (Sensitivity(holder=0.1), Sensitivity(holder='free'))
    """

    holder: Any
    asks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.holder, str):
            if self.holder not in ESTIMATES:
                words = ", ".join(repr(word) for word in ESTIMATES)
                refuse("holder", f"a number, one a cluster, or one of {words}", repr(self.holder))
            return
        values = np.asarray(self.holder, np.float64)
        if values.ndim == 0 and values == np.inf:
            return
        if values.ndim > 1 or not np.all(np.isfinite(values)) or np.any(values < 0):
            raise InputError("holder must be a number of at least 0, or one finite such number a cluster.")
        if values.ndim == 1:
            values.setflags(write=False)
            object.__setattr__(self, "holder", values)

    def scores(self, evidence: Evidence) -> Scores:
        """Return the numerators of p in Algorithm 1."""
        clustering = evidence.clustering
        if isinstance(self.holder, str):
            raise InputError(f"holder={self.holder!r} must be estimated before rows are scored; select does that.")
        holder = np.atleast_1d(np.asarray(self.holder, np.float64))
        if holder.size not in (1, clustering.k):
            raise InputError(
                f"holder must be one number or one for each of {clustering.k} clusters; got {holder.size}."
            )
        if np.isinf(holder[0]):
            return Scores(clustering.powers, snake(clustering))
        levels = cluster_losses(evidence)
        scale = np.broadcast_to(holder, clustering.k)[clustering.labels]
        sizes = levels[clustering.labels] + scale * clustering.powers
        return Scores(sizes, outward(clustering, levels), holder)


@dataclass(frozen=True, eq=False, repr=False)
class Mixture(Strategy):
    """Loss of the cluster, distance and a uniform floor in fixed parts; needs no Λ."""

    loss: float = 0.25
    distance: float = 0.25
    asks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if share("loss", self.loss, ends=True) + share("distance", self.distance, ends=True) >= 1:
            raise InputError("loss and distance must leave something for the uniform floor: their sum is at least 1.")

    def scores(self, evidence: Evidence) -> Scores:
        """Return loss·ℓ̂/Σℓ̂ + distance·v/Φ + the rest/n."""
        clustering = evidence.clustering
        levels = cluster_losses(evidence)
        sizes = self.loss * parts(levels[clustering.labels]) + self.distance * parts(clustering.powers)
        return Scores(sizes + (1 - self.loss - self.distance) / clustering.n, outward(clustering, levels))


@dataclass(frozen=True, eq=False, repr=False)
class Distance(Strategy):
    """Distances alone, Λ → ∞ in the paper, above a uniform floor (floor=0 is the paper's bare formula).

    With `holder`, one Λ a cluster, distances count as Λv: what the difference estimator's bound asks for.
    `power` is put on v once more: 2 makes the squares of the distances of a clustering with z=1.
    """

    floor: float = 0.5
    power: float = 1.0
    holder: Any = None
    asks: ClassVar[bool] = False

    def __post_init__(self) -> None:
        share("floor", self.floor, ends=True)
        positive("power", self.power)
        if self.holder is None:
            return
        values = np.array(self.holder, np.float64)
        if values.ndim != 1 or not np.all(np.isfinite(values)) or np.any(values < 0):
            raise InputError("holder must be finite numbers of at least 0, one a cluster, or None.")
        values.setflags(write=False)
        object.__setattr__(self, "holder", values)

    def scores(self, evidence: Evidence) -> Scores:
        """Return (1 − floor)·Λv^power/ΣΛv^power + floor/n."""
        clustering = evidence.clustering
        holder = np.zeros(0) if self.holder is None else self.holder
        if holder.size not in (0, clustering.k):
            raise InputError(f"holder must be one number for each of {clustering.k} clusters; got {holder.size}.")
        powers = clustering.powers**self.power
        powers = powers * holder[clustering.labels] if holder.size else powers
        sizes = (1 - self.floor) * parts(powers) + self.floor / clustering.n
        return Scores(sizes, snake(clustering), holder)


@dataclass(frozen=True, eq=False, repr=False)
class LeverageMixture(Strategy):
    """Leverage scores, distances and a uniform floor in fixed parts, for `select_regression`.

    `leverage` and `floor` are parts of the whole, the rest goes by distance; `ridge` is that of the leverage
    scores. A row far from its medoid or with a say of its own in the fit is likelier to come out.
    """

    leverage: float = 0.7
    floor: float = 0.15
    ridge: float = 0.0
    asks: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if share("leverage", self.leverage, ends=True) + share("floor", self.floor) > 1:
            raise InputError(f"leverage and floor must sum to at most 1; got {self.leverage} and {self.floor}.")
        positive("ridge", self.ridge, zero=True)

    def scores(self, evidence: Evidence) -> Scores:
        """Return leverage·h/Σh + (1 − leverage − floor)·v/Φ + floor/n."""
        clustering = evidence.clustering
        if not evidence.leverage.size:
            raise InputError(f"score={self!r} is for select_regression, which has leverage scores; take another here.")
        distance = max(1 - self.leverage - self.floor, 0.0)
        sizes = self.leverage * parts(evidence.leverage) + distance * parts(clustering.powers)
        return Scores(sizes + self.floor / clustering.n, snake(clustering))


@dataclass(frozen=True, eq=False, repr=False)
class Proxy(Strategy):
    """A cheap model's loss for every row (`losses`), above a uniform floor."""

    losses: Any
    floor: float = 0.2
    asks: ClassVar[bool] = False

    def __post_init__(self) -> None:
        share("floor", self.floor)
        values = np.array(self.losses, dtype=np.float64)
        values = loss_vector(values, np.arange(values.size), source="Proxy losses")
        values.setflags(write=False)
        object.__setattr__(self, "losses", values)

    def scores(self, evidence: Evidence) -> Scores:
        """Return (1 − floor)·q/Σq + floor/n, sorted by q."""
        n = evidence.clustering.n
        if self.losses.size != n:
            raise InputError(f"Proxy losses must be one number for each of {n} rows; got {self.losses.size}.")
        order = np.argsort(self.losses, kind="stable")
        return Scores((1 - self.floor) * parts(self.losses) + self.floor / n, order)


@dataclass(frozen=True, eq=False, repr=False)
class Learned(Strategy):
    """The loss of every row, learned from the pilot's by cluster and distance, above a floor (our default).

    The prediction is a nonnegative least squares fit of the pilot's losses, weighted 1/π₁, on three numbers: 1,
    the mean loss of the row's cluster (without the row itself, and with half a row's worth of the overall mean),
    and the distance's power v. `floor` of the size does not depend on the fit, four tenths of it by distance and
    six uniform, so that no row is out of reach however wrong the fit is.
    """

    floor: float = 0.5
    asks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        share("floor", self.floor)

    def scores(self, evidence: Evidence) -> Scores:
        """Return (1 − floor)·prediction + floor·(0.4·v/Φ + 0.6/n), the prediction as parts of its total."""
        clustering, plan = evidence.clustering, evidence.pilot.plan
        everywhere = spread(clustering.powers, np.ones(clustering.n, np.bool_), FLAT)
        sizes = (1 - self.floor) * parts(_predict(evidence)) + self.floor * everywhere
        return Scores(sizes, plan.order if plan.keep and plan.origin == "pilot" else snake(clustering))


def _predict(evidence: Evidence) -> Floats:
    """Return the predicted loss of every row, or zeros where nothing was learned."""
    from scipy.optimize import nnls

    clustering, pilot, losses = evidence.clustering, evidence.pilot, evidence.losses
    if not losses.any():
        return np.zeros(clustering.n)
    labels, expansion = clustering.labels[pilot.ids], 1 / pilot.inclusion
    overall = float(expansion @ losses / expansion.sum())
    sums = np.bincount(labels, losses, clustering.k) + PRIOR * overall
    counts = np.bincount(labels, minlength=clustering.k) + PRIOR
    # A row's own loss in its cluster's mean would make noise look like signal.
    others = (sums[labels] - losses) / (counts[labels] - 1)
    far = overall * clustering.n * parts(clustering.powers)
    columns = np.stack([np.full(losses.size, overall), others, far[pilot.ids]], axis=1)
    root = np.sqrt(expansion)
    (level, cluster, distance), _ = nnls(columns * root[:, None], losses * root)
    predicted: Floats = level * overall + cluster * (sums / counts)[clustering.labels] + distance * far
    return predicted


def cluster_losses(evidence: Evidence) -> Floats:
    """Return ℓ̂ of each cluster: the mean loss of its pilot rows, and the overall mean where it has none."""
    clustering, pilot = evidence.clustering, evidence.pilot
    if not pilot.ids.size:
        return np.zeros(clustering.k)
    labels, expansion = clustering.labels[pilot.ids], 1 / pilot.inclusion
    weights = np.bincount(labels, expansion, clustering.k)
    sums = np.bincount(labels, expansion * evidence.losses, clustering.k)
    overall = sums.sum() / weights.sum()
    return np.where(weights > 0, sums / np.where(weights > 0, weights, 1.0), overall)
