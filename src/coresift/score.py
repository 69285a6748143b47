"""What a row is worth drawing, from all that is known before the draw. One class a rule; each is a pure function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from coresift.checks import InputError, loss_vector, positive, share
from coresift.inclusion import parts
from coresift.types import Evidence, Floats, Scores, Strategy


class Score(Protocol):
    """A rule that scores every row."""

    asks: ClassVar[bool]

    def scores(self, evidence: Evidence) -> Scores:
        """Return sizes and sorting key of all rows; `asks` says whether it needs a pilot's losses."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Strategy):
    """The paper's rule: ℓ(c) + Λ·‖e − c‖^z, with one Λ (`holder`) for all or one a cluster; no floor.

    >>> Sensitivity(holder=0.1)
    Sensitivity(holder=0.1)
    """

    holder: Any
    asks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        values = np.asarray(self.holder, np.float64)
        if values.ndim > 1 or not np.all(np.isfinite(values)) or np.any(values < 0):
            raise InputError("holder must be a finite number of at least 0, or one such number a cluster.")
        if values.ndim == 1:
            values.setflags(write=False)
            object.__setattr__(self, "holder", values)

    def scores(self, evidence: Evidence) -> Scores:
        """Return the numerators of p in Algorithm 1."""
        clustering = evidence.clustering
        holder = np.atleast_1d(np.asarray(self.holder, np.float64))
        if holder.size not in (1, clustering.k):
            raise InputError(
                f"holder must be one number or one for each of {clustering.k} clusters; got {holder.size}."
            )
        scale = np.broadcast_to(holder, clustering.k)[clustering.labels]
        predicted = cluster_losses(evidence)[clustering.labels]
        return Scores(predicted + scale * clustering.powers, key=predicted, holder=holder)


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
        predicted = cluster_losses(evidence)[clustering.labels]
        sizes = self.loss * parts(predicted) + self.distance * parts(clustering.powers)
        return Scores(sizes + (1 - self.loss - self.distance) / clustering.n, key=predicted)


@dataclass(frozen=True, eq=False, repr=False)
class Distance(Strategy):
    """Distances alone, Λ → ∞ in the paper, above a uniform floor (floor=0 is the paper's bare formula)."""

    floor: float = 0.5
    asks: ClassVar[bool] = False

    def __post_init__(self) -> None:
        share("floor", self.floor, ends=True)

    def scores(self, evidence: Evidence) -> Scores:
        """Return (1 − floor)·v/Φ + floor/n."""
        clustering = evidence.clustering
        sizes = (1 - self.floor) * parts(clustering.powers) + self.floor / clustering.n
        return Scores(sizes, key=clustering.labels.astype(np.float64))


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
        return Scores((1 - self.floor) * parts(self.losses) + self.floor / n, key=self.losses)


@dataclass(frozen=True, eq=False, repr=False)
class Learned(Strategy):
    """The size of the loss, learned from the pilot's answers by cluster and distance, above a floor (our default).

    σ² is a nonnegative least squares fit of the pilot's squared losses on three numbers: 1, the cluster's mean
    squared loss (shrunk to the overall one by `shrink` rows), and the distance's power v. `floor` of the size
    stays with half distance, half uniform, so that no row is out of reach however wrong the fit is.
    """

    floor: float = 0.4
    shrink: float = 2.0
    asks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        share("floor", self.floor)
        positive("shrink", self.shrink)

    def scores(self, evidence: Evidence) -> Scores:
        """Return (1 − floor)·σ/Σσ + floor·(v/Φ + 1/n)/2, sorted by the cluster's learned loss."""
        clustering = evidence.clustering
        learned, features = self._fit(evidence)
        spread = 0.5 * parts(clustering.powers) + 0.5 / clustering.n
        return Scores((1 - self.floor) * parts(np.sqrt(learned)) + self.floor * spread, key=features)

    def _fit(self, evidence: Evidence) -> tuple[Floats, Floats]:
        from scipy.optimize import nnls

        clustering, pilot = evidence.clustering, evidence.pilot
        squares = evidence.losses**2
        expansion = 1 / pilot.inclusion
        by_cluster = _shrunken_means(clustering.labels[pilot.ids], squares, expansion, clustering.k, self.shrink)
        columns = np.stack([np.ones(clustering.n), by_cluster[clustering.labels], clustering.powers], axis=1)
        scale = np.maximum(columns.max(axis=0), 1e-300)
        root = np.sqrt(expansion)[:, None]
        factors, _ = nnls(columns[pilot.ids] / scale * root, squares * root[:, 0])
        return (columns / scale) @ factors, np.sqrt(by_cluster)[clustering.labels]


def cluster_losses(evidence: Evidence) -> Floats:
    """Return ℓ̂ of each cluster: the mean loss of its pilot rows, and the overall mean where it has none."""
    clustering, pilot = evidence.clustering, evidence.pilot
    if not pilot.ids.size:
        raise InputError("This score needs losses of some rows; give losses and a pilot, or use Distance or Proxy.")
    labels, expansion = clustering.labels[pilot.ids], 1 / pilot.inclusion
    weights = np.bincount(labels, expansion, clustering.k)
    sums = np.bincount(labels, expansion * evidence.losses, clustering.k)
    overall = sums.sum() / weights.sum()
    return np.where(weights > 0, sums / np.where(weights > 0, weights, 1.0), overall)


def _shrunken_means(labels: Any, values: Floats, expansion: Floats, k: int, shrink: float) -> Floats:
    counts = np.bincount(labels, minlength=k)
    weights = np.bincount(labels, expansion, k)
    sums = np.bincount(labels, expansion * values, k)
    overall = sums.sum() / weights.sum()
    means = np.where(counts > 0, sums / np.where(counts > 0, weights, 1.0), overall)
    shrunken: Floats = (counts * means + shrink * overall) / (counts + shrink)
    return shrunken
