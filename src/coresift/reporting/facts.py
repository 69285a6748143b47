"""All that a report says, as plain values: no markup here, and nothing is computed."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from coresift.types import Estimate, Interval

PERCENTILES = (20, 40, 60, 80, 99)


@dataclass(frozen=True)
class Row:
    """One row as the page shows it: `distance` to its center, `loss` where it is known.

    `represents` is how many rows it stands for, where it was chosen to cover them.
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
    """How many values lie between one edge and the next."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Weights:
    """What the weights are like; `effective` is (Σw)²/Σw², `half` the fewest rows that carry half of all weight."""

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
    """How a loss changes with distance: percentiles of |ℓ(e) − ℓ(r)| / ‖e − r‖^z, r being the cluster's representative.

    `compared` rows have a representative that is not themselves; percentiles are of all rows, by the weights. `exact`
    says that the representatives are the centers.
    """

    z: float
    percentiles: tuple[float, ...]
    compared: int
    exact: bool


@dataclass(frozen=True)
class LossByDistance:
    """The loss against the distance to the center: points of single rows, and the weighted mean along the distance."""

    distance: tuple[float, ...]
    loss: tuple[float, ...]
    middles: tuple[float, ...]
    means: tuple[float, ...]


@dataclass(frozen=True)
class Clusters:
    """A line per cluster, by its `number`. Sizes and costs are exact where the clustering was given, else estimates.

    `share` is the part of the selected rows; `loss` the mean loss and `total` the part of the total loss, where losses
    are known. `representative` is a row number. `cover`: each selected row stands for the rows that it covers, and
    these are the clusters.
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
    """Which classes the selection reaches, a line per class, and how many a uniform sample would reach on average.

    `by_uniform` is how many rows of a class a uniform sample of that size has on average. `losses` are the mean losses
    of the largest classes: name, rows selected, and the mean with its interval.
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
    """What a report says. Rows with the largest weights come first; `left_out` says what is missing and why."""

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
    command: str | None
    left_out: tuple[tuple[str, str], ...]


def plain(value: Any) -> Any:
    """Return facts as what JSON takes: dictionaries, lists, texts and numbers; NaN and infinity become null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
