"""The types that flow from step to step: small immutable values over read-only arrays, checked when created."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError
from coresift.columns import Column, counts, every, stored
from coresift.notebook import card
from coresift.scratch import empty
from coresift.types.signals import SignalTable
from coresift.types.strategies import Design, Opaque, Pilot, Score
from coresift.types.values import (
    Bools,
    Floats,
    Ints,
    Singles,
    Value,
    digest,
    distinct_below,
    freeze,
    nonnegative,
)

# How a selected row got into the selection; the codes are stored in files.
ORIGINS = ("given", "center", "pilot", "drawn")


@dataclass(frozen=True, eq=False)
class Recipe(Value):
    """How a selection is made. None means that coresift chooses.

    Attributes:
        clusters: The number of clusters.
        z: The power of the distances.
        normalize: Whether rows are scaled to length 1 first.
        pilot: Which rows are asked first.
        score: How much each row is worth drawing.
        design: How rows are drawn.
    """

    clusters: int | None = None
    z: float | None = None
    normalize: bool | None = None
    pilot: Pilot | Opaque | None = None
    score: Score | Opaque | None = None
    design: Design | Opaque | None = None


@dataclass(frozen=True)
class Request:
    """Rows whose answers a job needs to continue: their numbers, the reason, and the round."""

    ids: Ints
    reason: str
    round: int = 1


@dataclass(frozen=True, eq=False, repr=False)
class Clustering(Value):
    """k rows of the data as centers, and each row's center and the distance to it.

    Attributes:
        centers: The row number of each cluster's center, which is a member of its cluster.
        labels: The cluster of each row.
        distances: ‖e − c(e)‖, the distance of each row to the center of its cluster.
        free_centers: The points in space that the rows were assigned to, one per cluster.
        z: The power of the distances.
        free_cost: Φ_z, the sum of the z-th powers of the distances, to the free centers.
        snapped_cost: The same sum for the distances to the centers, which are rows.
        seed: The seed.
        normalized: Whether rows were scaled to length 1 first.
        fingerprint: A digest of the rows.
        search: How rows were assigned, and why.
        strata: The class of each cluster if each has rows of one class only; otherwise empty.
    """

    centers: Ints
    labels: NDArray[np.int32]
    distances: Singles
    free_centers: Singles
    z: float
    free_cost: float
    snapped_cost: float
    seed: int
    normalized: bool
    fingerprint: str
    search: str = "exact"
    strata: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        freeze(self, centers=np.int64, labels=np.int32, distances=np.float32, free_centers=np.float32, strata=np.int64)
        k, n = self.centers.size, self.labels.size
        if self.labels.shape != self.distances.shape or self.labels.ndim != 1 or self.free_centers.shape[:1] != (k,):
            raise InputError("A clustering needs one label and one distance per row, and one free center per center.")
        if k == 0 or len(np.unique(self.centers)) < k or self.centers.min() < 0 or self.centers.max() >= n:
            raise InputError("A clustering's centers must be distinct rows, at least one.")
        if not np.array_equal(self.labels[self.centers], np.arange(k)):
            raise InputError("Each center of a clustering must be a row of its own cluster.")
        if self.labels.min() < 0 or self.labels.max() >= k:
            raise InputError("A clustering's labels must be numbers of its centers.")
        if not nonnegative(self.distances):
            raise InputError("A clustering's distances must be finite and at least 0.")
        if not (np.isfinite(self.z) and self.z > 0):
            raise InputError(f"A clustering's z must be a finite number above 0; got {self.z}.")
        if self.strata.size and (self.strata.shape != (k,) or self.strata.min() < 0):
            raise InputError("A clustering's strata must be one class per cluster, or none at all.")

    @property
    def k(self) -> int:
        """The number of clusters."""
        return self.centers.size

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.labels.size

    @property
    def sizes(self) -> Ints:
        """The number of rows in each cluster."""
        return counts(self.labels, self.k)

    @property
    def powers(self) -> Floats:
        """v(e) = ‖e − c(e)‖^z for each row."""
        return self.power_column[:]

    @property
    def power_column(self) -> Column[np.float64]:
        """The same powers, computed for a few rows at a time."""
        return Column(self.n, lambda rows: self.distances[rows].astype(np.float64) ** self.z)

    def classes(self) -> NDArray[np.int32]:
        """Return the class number of each row; empty if rows were clustered without classes."""
        strata = self.strata.astype(np.int32)
        return stored(self.n, lambda rows: strata[self.labels[rows]], np.int32) if strata.size else strata

    def digest(self) -> str:
        """Return a digest of what later steps use: centers, labels, distances and z."""
        return digest(self.centers, self.labels, self.distances, np.array([self.z]))

    def __repr__(self) -> str:
        return f"Clustering(rows={self.n}, clusters={self.k}, z={self.z:g}, cost={self.snapped_cost:.6g})"

    def _repr_html_(self) -> str:
        sizes = self.sizes
        lines = [
            ("rows per cluster", f"{sizes.min():,} to {sizes.max():,}, median {np.median(sizes):,.0f}"),
            (f"sum of distance^{self.z:g}", f"{self.snapped_cost:,.6g}"),
            ("search", self.search),
        ]
        return card(f"{self.k:,} clusters of {self.n:,} rows", lines)


@dataclass(frozen=True, eq=False)
class Frame(Value):
    """The rows that a selection is made from.

    Attributes:
        n: The number of rows.
        given: Rows that are always selected, with weight 1.
        excluded: Rows that are never selected and never asked.
        strata: The class number of each row; empty if there are no classes.
        signals: Values that are known for every row at no cost, or None.
    """

    n: int
    given: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    excluded: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    strata: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    signals: SignalTable | None = None

    def __post_init__(self) -> None:
        freeze(self, given=np.int64, excluded=np.int64, strata=np.int32)
        for name, ids in (("given", self.given), ("excluded", self.excluded)):
            if not distinct_below(ids, self.n):
                raise InputError(f"A frame's {name} rows must be distinct and from 0 to {self.n - 1}.")
        overlap = np.intersect1d(self.given, self.excluded)
        if overlap.size:
            raise InputError(f"Row {overlap[0]} is both given and excluded; it can be only one of the two.")
        if self.strata.size not in (0, self.n):
            raise InputError("A frame needs one class per row, or none at all.")
        if self.signals is not None and len(self.signals) != self.n:
            raise InputError("A frame needs one line of signals per row, or none at all.")

    @property
    def population(self) -> int:
        """The number of rows that totals are over: all but the excluded ones."""
        return self.n - self.excluded.size

    def open(self) -> Bools:
        """Return a mask of the rows that are drawn at random: neither given nor excluded."""
        mask = empty(self.n, np.bool_)
        mask[:] = True
        mask[self.given] = False
        mask[self.excluded] = False
        return mask

    def record(self) -> dict[str, Any]:
        """Return a JSON record that identifies the frame: counts and digests, no rows."""
        parts: dict[str, NDArray[Any]] = {"given": self.given, "exclude": self.excluded, "strata": self.strata}
        record: dict[str, Any] = {
            name: {"count": int(part.size), "digest": digest(part)} for name, part in parts.items() if part.size
        }
        if self.strata.size:
            record["strata"]["classes"] = int(np.count_nonzero(counts(self.strata, int(self.strata.max()) + 1)))
        if self.signals is not None:
            record["signals"] = {"names": list(self.signals.names), "digest": self.signals.digest()}
        return {"rows": self.n, **record}


@dataclass(frozen=True, eq=False)
class PilotPlan(Value):
    """How the rows that are asked first will be drawn; everything is fixed before any loss is seen.

    Each row has an `inclusion`, π₁, and a `share`, α, which is the part of its total that pilot rows carry. `order` has
    all row numbers in the order of the draw; `tour` says whether it is the tour of the clusters that later draws follow
    too. If `keep`, the pilot's rows are part of the selection, with origin `origin`.
    """

    inclusion: Floats
    share: Floats
    order: Ints
    keep: bool
    origin: str
    tour: bool = False

    @classmethod
    def of_none(cls, n: int) -> PilotPlan:
        """Return a plan that asks none of n rows."""
        zeros = stored(n, lambda rows: 0.0)
        order = stored(n, lambda rows: np.arange(rows.start, rows.stop), np.int64)
        return cls(zeros, zeros, order, keep=False, origin="pilot")

    def __post_init__(self) -> None:
        freeze(self, inclusion=np.float64, share=np.float64, order=np.int64)
        if not self.inclusion.shape == self.share.shape == self.order.shape:
            raise InputError("A pilot plan needs an inclusion probability, a share and a position for every row.")
        for part in (self.inclusion, self.share):
            if not (nonnegative(part) and part.max(initial=0.0) <= 1):
                raise InputError("A pilot plan's inclusion probabilities and shares must be from 0 to 1.")
        if not distinct_below(self.order, self.order.size):
            raise InputError("A pilot plan's order must have every row number once.")
        if self.origin not in ORIGINS:
            raise InputError(f"A pilot's origin must be one of {', '.join(ORIGINS)}; got {self.origin}.")


@dataclass(frozen=True, eq=False)
class PilotSample(Value):
    """The rows that are asked first, in the order of the draw, and the plan by which they were drawn."""

    ids: Ints
    plan: PilotPlan

    def __post_init__(self) -> None:
        freeze(self, ids=np.int64)
        if not distinct_below(self.ids, self.plan.inclusion.size):
            raise InputError("A pilot's rows must be distinct rows of its plan.")

    @property
    def inclusion(self) -> Floats:
        """π₁ of the pilot's rows."""
        return self.plan.inclusion[self.ids]


@dataclass(frozen=True, eq=False)
class Evidence(Value):
    """Everything that is known when rows are scored: clusters, pilot, and pilot losses (empty if none were asked).

    In a regression, a pilot row's loss is its squared residual, and there may be a `leverage` score per row. If the
    score needs them, `holder` is the estimate of Λ, one number per cluster, and `components` are the leading components
    of each row.
    """

    clustering: Clustering
    frame: Frame
    pilot: PilotSample
    losses: Floats
    leverage: Floats = field(default_factory=lambda: np.zeros(0))
    holder: Floats = field(default_factory=lambda: np.zeros(0))
    components: Singles = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    def __post_init__(self) -> None:
        freeze(self, losses=np.float64, leverage=np.float64, holder=np.float64, components=np.float32)
        if self.leverage.size not in (0, self.clustering.n):
            raise InputError("Evidence needs one leverage score per row, or none at all.")
        if self.losses.size and self.losses.shape != self.pilot.ids.shape:
            raise InputError("Evidence needs one loss per pilot row, or none at all.")

    def cluster_losses(self) -> Floats:
        """Return ℓ̂ of each cluster: the mean loss of its pilot rows, or the overall mean if it has none."""
        clustering, pilot = self.clustering, self.pilot
        if not pilot.ids.size:
            return np.zeros(clustering.k)
        labels, expansion = clustering.labels[pilot.ids], 1 / pilot.inclusion
        weights = np.bincount(labels, expansion, clustering.k)
        sums = np.bincount(labels, expansion * self.losses, clustering.k)
        overall = sums.sum() / weights.sum()
        return np.where(weights > 0, sums / np.where(weights > 0, weights, 1.0), overall)


@dataclass(frozen=True, eq=False)
class LeftOut(Value):
    """What a score would say without one pilot row's answer.

    `sizes` has the size of each pilot row without its own answer. `others` is a function of row numbers and, for each
    of them, the position of a pilot row of the same cluster; it returns the rows' sizes and predictions without that
    pilot row's answer.
    """

    sizes: Floats
    others: Callable[[Ints, Ints], tuple[Floats, Floats]]


@dataclass(frozen=True, eq=False)
class Scores(Value):
    """How much each row is worth drawing, and the order of the draw.

    `sizes` are proportional to the target inclusion probabilities; `order` has all row numbers in the order of the
    draw. `holder` is the Λ that was used, if any. A score that predicts losses may pass on its predictions for use in
    estimates: one per row in `predictions`, and one per pilot row in `unseen`, made without that row's answer. If it
    also passes on `left_out`, estimates divide totals between the pilot and the draw by what the pilot learned.
    """

    sizes: Floats
    order: Ints
    holder: Floats = field(default_factory=lambda: np.zeros(0))
    predictions: Floats = field(default_factory=lambda: np.zeros(0))
    unseen: Floats = field(default_factory=lambda: np.zeros(0))
    left_out: LeftOut | None = None

    def __post_init__(self) -> None:
        freeze(self, sizes=np.float64, order=np.int64, holder=np.float64, predictions=np.float64, unseen=np.float64)
        if self.sizes.shape != self.order.shape:
            raise InputError("Scores need one size and one position per row.")
        if not nonnegative(self.sizes):
            raise InputError("Scores must be finite and at least 0.")
        if not distinct_below(self.order, self.order.size):
            raise InputError("The order of scores must have every row number once.")
        if self.predictions.size not in (0, self.sizes.size) or not every(
            self.predictions.size, lambda rows: np.isfinite(self.predictions[rows])
        ):
            raise InputError("Scores need one finite prediction per row, or none at all.")
