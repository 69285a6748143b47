"""Everything that a report says, as plain values, without markup or computation."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from coresift.types import Estimate, Interval

PERCENTILES = (20, 40, 60, 80, 99)


@dataclass(frozen=True)
class Row:
    """One row as the page shows it: its `distance` to the center, and its `loss` if known.

    `represents` is the number of rows it stands for, if it was chosen to cover them.
    """

    row: int
    name: str | None
    weight: float | None
    inclusion: float
    cluster: int | None
    distance: float
    origin: str
    loss: float | None
    represents: int | None = None


@dataclass(frozen=True)
class Histogram:
    """How many values are between one edge and the next."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Weights:
    """A summary of the weights; `effective` is (Σw)²/Σw², `half` the fewest rows with half of all weight."""

    least: float
    median: float
    largest: float
    total: float
    effective: float
    half: int
    histogram: Histogram
    inclusion: Histogram


@dataclass(frozen=True)
class Smoothness:
    """How a loss changes with distance: percentiles of |ℓ(e) − ℓ(r)| / ‖e − r‖^z, where r represents the cluster.

    `compared` is the number of rows that are not their own representative. Percentiles are weighted, so they are about
    all rows. `exact` says that the representatives are the centers.
    """

    z: float
    percentiles: tuple[float, ...]
    compared: int
    exact: bool


@dataclass(frozen=True)
class LossByDistance:
    """The loss against the distance to the center: single rows, and the weighted mean at each distance."""

    distance: tuple[float, ...]
    loss: tuple[float, ...]
    middles: tuple[float, ...]
    means: tuple[float, ...]


@dataclass(frozen=True)
class Clusters:
    """One entry per cluster. Sizes and costs are exact if there is a clustering, and estimates otherwise.

    `share` is the share of the selected rows, `loss` the mean loss and `total` the share of the total loss, if losses
    are known. `representative` is a row number. With `cover`, a cluster is the rows that a selected row covers.
    """

    exact: bool
    number: tuple[int, ...]
    size: tuple[float, ...]
    cost: tuple[float, ...]
    selected: tuple[int, ...]
    share: tuple[float, ...]
    loss: tuple[float, ...] | None
    total: tuple[float, ...] | None
    representative: tuple[int, ...]
    examples: tuple[tuple[int, ...], ...]
    cover: bool = False


@dataclass(frozen=True)
class ClassCoverage:
    """Which classes the selection covers, one entry per class, and how many a uniform sample covers on average.

    `by_uniform` is how many rows of a class a uniform sample of that size has on average. `losses` are the mean losses
    of the largest classes: name, number of selected rows, and mean with interval.
    """

    column: str
    names: tuple[str, ...]
    rows: tuple[int, ...]
    selected: tuple[int, ...]
    estimated: tuple[float, ...] | None
    by_uniform: tuple[float, ...]
    covered: int
    uniform_covers: float
    losses: tuple[tuple[str, int, Interval], ...] = ()


@dataclass(frozen=True)
class Facts:
    """What a report says. Rows with the largest weights come first; `left_out` says what is missing, and why."""

    title: str
    version: str
    rows: int
    population: int
    selected: int
    asked: int
    seed: int
    estimate: Estimate | None
    truth: float | None
    verdict: str | None
    reason: str | None
    weights: Weights | None
    listed: tuple[Row, ...]
    map: dict[str, Any] | None
    clusters: Clusters | None
    smoothness: Smoothness | None
    loss_by_distance: LossByDistance | None
    coverage: ClassCoverage | None
    texts: dict[int, str]
    images: dict[int, str]
    origins: dict[str, int]
    ledger: tuple[tuple[int, str, int], ...]
    recipe: dict[str, str]
    code: str | None
    growth: str | None
    command: str | None
    left_out: tuple[tuple[str, str], ...]


def plain(value: Any) -> Any:
    """Return facts as dictionaries, lists, texts and numbers, for JSON; NaN and infinity become None."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
