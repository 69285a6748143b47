"""What flows from step to step: small immutable values over read-only arrays, checked when made."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError
from coresift.notebook import card

Floats: TypeAlias = NDArray[np.float64]
Singles: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

ORIGINS = ("given", "center", "pilot", "drawn")


class Value:
    """Equality by content, for dataclasses that hold arrays."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        names = [f.name for f in fields(self) if f.compare]  # type: ignore[arg-type]
        return all(_same(getattr(self, name), getattr(other, name)) for name in names)


class Strategy(Value):
    """An exchangeable part of the flow: a frozen dataclass whose fields are its options.

    Its `repr` is what manifests hold and what the command line takes; an array shows as shape and digest.
    """

    def __repr__(self) -> str:
        options = [f"{f.name}={_show(getattr(self, f.name))}" for f in fields(self)]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(options)})"


@dataclass(frozen=True, eq=False, repr=False)
class Clustering(Value):
    """k rows of the data as centers, and for every row its center and the distance to it.

    `centers[j]` is the row number of the center cᵢ of cluster j, a member of that cluster; `labels[e]` is the
    cluster of row e; `distances[e]` = ‖e − c(e)‖ is measured to the snapped center. `free_centers` are the
    points in space that the rows were assigned to, and `search` names how, and why so. Costs are Φ_z: the sum of
    the z-th powers of the distances. `strata` has the class of each cluster, where none crosses a class.
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
        _freeze(self, centers=np.int64, labels=np.int32, distances=np.float32, free_centers=np.float32, strata=np.int64)
        k, n = self.centers.size, self.labels.size
        if self.labels.shape != self.distances.shape or self.labels.ndim != 1 or self.free_centers.shape[:1] != (k,):
            raise InputError("A clustering needs one label and one distance a row, and one free center a center.")
        if k == 0 or len(np.unique(self.centers)) < k or self.centers.min() < 0 or self.centers.max() >= n:
            raise InputError("A clustering's centers must be distinct rows, at least one.")
        if not np.array_equal(self.labels[self.centers], np.arange(k)):
            raise InputError("Each center of a clustering must be a row of its own cluster.")
        if self.labels.min() < 0 or self.labels.max() >= k:
            raise InputError("A clustering's labels must be numbers of its centers.")
        if not _nonnegative(self.distances):
            raise InputError("A clustering's distances must be finite and at least 0.")
        if not (np.isfinite(self.z) and self.z > 0):
            raise InputError(f"A clustering's z must be a finite number above 0; got {self.z}.")
        if self.strata.size and (self.strata.shape != (k,) or self.strata.min() < 0):
            raise InputError("A clustering's strata must be one class a cluster, or none at all.")

    @property
    def k(self) -> int:
        """How many clusters there are."""
        return self.centers.size

    @property
    def n(self) -> int:
        """How many rows were clustered."""
        return self.labels.size

    @property
    def sizes(self) -> Ints:
        """How many rows each cluster has."""
        return np.bincount(self.labels, minlength=self.k)

    @property
    def powers(self) -> Floats:
        """v(e) = ‖e − c(e)‖^z, a number a row."""
        return self.distances.astype(np.float64) ** self.z

    def classes(self) -> NDArray[np.int32]:
        """The class of every row by number; empty where rows were clustered without classes."""
        return self.strata.astype(np.int32)[self.labels] if self.strata.size else np.zeros(0, np.int32)

    def digest(self) -> str:
        """A short fingerprint of what later steps work with: centers, labels, distances and z."""
        return digest(self.centers, self.labels, self.distances, np.array([self.z]))

    def __repr__(self) -> str:
        return f"Clustering(rows={self.n}, clusters={self.k}, z={self.z:g}, cost={self.snapped_cost:.6g})"

    def _repr_html_(self) -> str:
        sizes = self.sizes
        lines = [
            ("rows in a cluster", f"{sizes.min():,} to {sizes.max():,}, median {np.median(sizes):,.0f}"),
            (f"sum of distance^{self.z:g}", f"{self.snapped_cost:,.6g}"),
            ("search", self.search),
        ]
        return card(f"{self.k:,} clusters of {self.n:,} rows", lines)


@dataclass(frozen=True, eq=False)
class Frame(Value):
    """Which of n rows may come out: `given` ones always do, with weight 1; `excluded` ones never do."""

    n: int
    given: Ints
    excluded: Ints

    def __post_init__(self) -> None:
        _freeze(self, given=np.int64, excluded=np.int64)
        for name, ids in (("given", self.given), ("excluded", self.excluded)):
            if not _distinct_below(ids, self.n):
                raise InputError(f"A frame's {name} rows must be distinct and from 0 to {self.n - 1}.")
        both = np.intersect1d(self.given, self.excluded)
        if both.size:
            raise InputError(f"Row {both[0]} is both given and excluded; it can be only one of the two.")

    @property
    def population(self) -> int:
        """How many rows the totals are about: all but the excluded ones."""
        return self.n - self.excluded.size

    def open(self) -> Bools:
        """True for the rows that are left to chance."""
        mask = np.ones(self.n, np.bool_)
        mask[self.given] = False
        mask[self.excluded] = False
        return mask


@dataclass(frozen=True, eq=False)
class PilotPlan(Value):
    """How the rows that are asked first will be drawn; all of it fixed before any loss is seen.

    For every row: `inclusion`, π₁; `share`, α, the part of each total that pilot rows carry. `order` has all row
    numbers as the draw walks them. `keep`: the pilot's rows are part of the selection, as `origin`.
    """

    inclusion: Floats
    share: Floats
    order: Ints
    keep: bool
    origin: str

    def __post_init__(self) -> None:
        _freeze(self, inclusion=np.float64, share=np.float64, order=np.int64)
        if not self.inclusion.shape == self.share.shape == self.order.shape:
            raise InputError("A pilot plan needs an inclusion probability, a share and a place for every row.")
        for part in (self.inclusion, self.share):
            if not (_nonnegative(part) and np.all(part <= 1)):
                raise InputError("A pilot plan's inclusion probabilities and shares must be from 0 to 1.")
        if not _distinct_below(self.order, self.order.size):
            raise InputError("A pilot plan's order must have every row number once.")
        if self.origin not in ORIGINS:
            raise InputError(f"A pilot's origin must be one of {', '.join(ORIGINS)}; got {self.origin}.")


@dataclass(frozen=True, eq=False)
class Pilot(Value):
    """The rows that are asked first, in the order they were drawn, and the plan that drew them."""

    ids: Ints
    plan: PilotPlan

    def __post_init__(self) -> None:
        _freeze(self, ids=np.int64)
        if not _distinct_below(self.ids, self.plan.inclusion.size):
            raise InputError("A pilot's rows must be distinct rows of its plan.")

    @property
    def inclusion(self) -> Floats:
        """π₁ of the pilot's rows."""
        return self.plan.inclusion[self.ids]


@dataclass(frozen=True, eq=False)
class Evidence(Value):
    """All that is known when the rows are scored: clusters, pilot, and the pilot's losses (empty: none asked).

    In a regression, a pilot row's loss is its squared residual, and there may be a `leverage` score for every row.
    """

    clustering: Clustering
    frame: Frame
    pilot: Pilot
    losses: Floats
    leverage: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        _freeze(self, losses=np.float64, leverage=np.float64)
        if self.leverage.size not in (0, self.clustering.n):
            raise InputError("Evidence needs one leverage score a row, or none at all.")
        if self.losses.size and self.losses.shape != self.pilot.ids.shape:
            raise InputError("Evidence needs one loss for each row of the pilot, or none at all.")


@dataclass(frozen=True, eq=False)
class Scores(Value):
    """How much each row is worth drawing, and where it stands in the sorted order of the draw.

    `sizes` are proportional to the wished inclusion probabilities; `order` has all row numbers as
    the draw walks them. `holder` is the Λ that was used, if any.
    """

    sizes: Floats
    order: Ints
    holder: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        _freeze(self, sizes=np.float64, order=np.int64, holder=np.float64)
        if self.sizes.shape != self.order.shape:
            raise InputError("Scores need one size and one place a row.")
        if not _nonnegative(self.sizes):
            raise InputError("Scores must be finite and at least 0.")
        if not _distinct_below(self.order, self.order.size):
            raise InputError("The order of scores must have every row number once.")


@dataclass(frozen=True)
class Ledger:
    """How many losses were asked: (round, reason, rows) a line, whoever answered them."""

    entries: tuple[tuple[int, str, int], ...] = ()

    @property
    def asked(self) -> int:
        """How many losses were asked in all; a row whose loss has changed counts again."""
        return sum(rows for _, _, rows in self.entries)


@dataclass(frozen=True, eq=False, repr=False)
class Selection(Value):
    """Rows that stand for all rows, and the weights that keep totals unbiased: E[Σ_S w y] = Σ y for any fixed y.

    Rows stand in the order of their numbers. For each: `inclusion`, the conditional probability with which its
    phase drew it (expected count for `Independent`); `share`, its α; the `cluster` and `distance`; `origin`
    (a code into `ORIGINS`); `phase` (0 certain, 1 pilot, 2 draw); `order`, its place in its phase's draw;
    `multiplicity`; `losses`, where its loss was asked (else NaN). `weights` is None for methods that define none.
    `least_inclusion` is the smallest `inclusion` that any row of the second draw had (0: unknown, or no bound).
    """

    ids: Ints
    weights: Floats | None
    inclusion: Floats
    share: Floats
    clusters: NDArray[np.int32]
    distances: Singles
    origin: NDArray[np.uint8]
    phase: NDArray[np.uint8]
    order: Ints
    multiplicity: Ints
    losses: Floats
    n: int
    population: int
    seed: int
    z: float
    designs: tuple[str, str]
    recipe: Mapping[str, str]
    ledger: Ledger
    holder: Floats = field(default_factory=lambda: np.zeros(0))
    names: tuple[Any, ...] | None = None
    least_inclusion: float = 0.0

    def __post_init__(self) -> None:
        _freeze(self, ids=np.int64, inclusion=np.float64, share=np.float64, clusters=np.int32)
        _freeze(self, distances=np.float32, origin=np.uint8, phase=np.uint8, order=np.int64)
        _freeze(self, multiplicity=np.int64, losses=np.float64, holder=np.float64)
        if self.weights is not None:
            _freeze(self, weights=np.float64)
            if not np.all(np.isfinite(self.weights)) or np.any(self.weights <= 0):
                raise InputError("A selection's weights must be finite and above 0.")
        if np.any(np.diff(self.ids) <= 0) or (self.ids.size and (self.ids[0] < 0 or self.ids[-1] >= self.n)):
            raise InputError(f"A selection's rows must be distinct, sorted and below {self.n}.")
        columns = [getattr(self, name) for name in self.columns()]
        columns += [column for column in (self.weights, self.names) if column is not None]
        if {len(column) for column in columns} != {self.ids.size}:
            raise InputError("A selection needs one entry a row in each of its columns.")
        if self.origin.size and self.origin.max() >= len(ORIGINS):
            raise InputError("A selection's origins must be known ones.")
        if not (np.isfinite(self.least_inclusion) and self.least_inclusion >= 0):
            raise InputError("A selection's least inclusion must be a finite number of at least 0.")
        object.__setattr__(self, "recipe", dict(self.recipe))

    @staticmethod
    def columns() -> tuple[str, ...]:
        """Names of the per-row arrays besides ids and weights."""
        return (
            "inclusion",
            "share",
            "clusters",
            "distances",
            "origin",
            "phase",
            "order",
            "multiplicity",
            "losses",
        )

    def __len__(self) -> int:
        return self.ids.size

    def __repr__(self) -> str:
        weighted = "" if self.weights is not None else ", no weights"
        return f"Selection({len(self)} of {self.n} rows, {self.ledger.asked} losses asked, seed={self.seed}{weighted})"

    def _repr_html_(self) -> str:
        lines = [("losses asked to choose them", f"{self.ledger.asked:,}")]
        if self.weights is not None and len(self):
            worth = self.weights.sum() ** 2 / (self.weights**2).sum()
            lines.append(("weights", f"{self.weights.min():,.3g} to {self.weights.max():,.3g}"))
            lines.append(("worth", f"{worth:,.0f} rows of equal weight"))
        elif self.weights is None:
            lines.append(("weights", "none: this method defines none"))
        lines.append(("seed", str(self.seed)))
        return card(f"{len(self):,} of {self.population:,} rows", lines)


@dataclass(frozen=True)
class Interval:
    """A number with its standard error and confidence interval."""

    value: float
    low: float
    high: float
    standard_error: float

    def __str__(self) -> str:
        return f"{self.value:,.6g} [{self.low:,.6g}, {self.high:,.6g}]"


@dataclass(frozen=True, repr=False)
class Estimate:
    """A total and a mean over all rows, with intervals, how they were made and what they rest on."""

    total: Interval
    mean: Interval
    confidence: float
    effective_size: float
    method: str
    assumption: str
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        told = f", {len(self.warnings)} warning{'s' if len(self.warnings) > 1 else ''}" if self.warnings else ""
        return f"Estimate(total={self.total}, mean={self.mean}, {100 * self.confidence:g}% intervals{told})"

    def _repr_html_(self) -> str:
        def shown(found: Interval) -> str:
            return f"{found.value:,.6g}, from {found.low:,.6g} to {found.high:,.6g}"

        lines = [("total", shown(self.total)), ("mean", shown(self.mean))]
        lines.append(("rests on", f"{self.effective_size:,.0f} rows of equal weight; {self.method}"))
        return card(f"Estimate with {100 * self.confidence:g}% intervals", lines, self.warnings)


def digest(*arrays: NDArray[Any]) -> str:
    """Return a short fingerprint of arrays: shape, type and bytes."""
    state = hashlib.blake2b(digest_size=12)
    for array in arrays:
        state.update(f"{array.shape}{array.dtype.str}".encode())
        state.update(np.ascontiguousarray(array).data)
    return state.hexdigest()


def _freeze(value: Any, **dtypes: Any) -> None:
    for name, dtype in dtypes.items():
        array = np.array(getattr(value, name), dtype=dtype)
        array.setflags(write=False)
        object.__setattr__(value, name, array)


def _nonnegative(values: NDArray[np.floating[Any]]) -> bool:
    return bool(np.all(np.isfinite(values) & (values >= 0)))


def _distinct_below(ids: Ints, count: int) -> bool:
    if np.any((ids < 0) | (ids >= count)):
        return False
    seen = np.zeros(count, np.bool_)
    seen[ids] = True
    return int(np.count_nonzero(seen)) == ids.size


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) != isinstance(other, np.ndarray):
        return False
    if isinstance(one, np.ndarray):
        floating = np.issubdtype(one.dtype, np.floating)
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=floating)
    return bool(one == other)


def _show(option: Any) -> str:
    if isinstance(option, np.ndarray):
        return f"array(shape={option.shape}, digest={digest(option)!r})"
    return repr(option)
