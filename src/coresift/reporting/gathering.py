"""The first half of a report: turn the inputs into facts. There is no markup here, and nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.estimation import estimate
from coresift.reporting.classes import coverage, weights_of
from coresift.reporting.facts import (
    PERCENTILES,
    Clusters,
    Facts,
    Histogram,
    LossByDistance,
    Row,
    Smoothness,
    Weights,
)
from coresift.reporting.mapping import Map, shades
from coresift.reporting.reproducing import as_code, as_command, as_growth
from coresift.types import ORIGINS, Clustering, CoverSelection, Floats, Ints, Selection, WeightedSelection
from coresift.version import __version__

# A page lists at most this many rows, those with the largest weights.
MOST_LISTED = 50_000
BINS = 32
# How many rows of a cluster are shown that were not selected.
EXAMPLES = 3
MOST_EXAMPLES = 30_000


@dataclass(frozen=True)
class ReportInputs:
    """The inputs of a report besides the selection, in the order of the selected rows.

    `losses` are those of the selected rows; `every_loss` those of all rows, if they are known. `points` are the
    selected rows themselves.
    """

    clustering: Clustering | None = None
    losses: Floats | None = None
    every_loss: Floats | None = None
    points: NDArray[np.float32] | None = None
    center_losses: Floats | None = None
    classes: tuple[str, list[str], Ints] | None = None
    verdict: tuple[str, str] | None = None


@dataclass(frozen=True)
class Shown:
    """The rows that are shown: listed `places` in the selection, and the row numbers of `others`."""

    places: Ints
    others: Ints


def gather(
    selection: Selection,
    inputs: ReportInputs,
    shown: Shown,
    *,
    title: str,
    picture: Map | None = None,
    texts: dict[int, str] | None = None,
    images: dict[int, str] | None = None,
    left_out: Sequence[tuple[str, str]] = (),
    sources: tuple[str, str] = ("rows", "losses"),
    command_sources: tuple[str, str, str] = ("ROWS", "LOSSES", "picked.parquet"),
    exclude_columns: Sequence[str] | None = (),
) -> Facts:
    """Put together what the page says; a pure function of its inputs."""
    estimated = (
        estimate(selection, inputs.losses)
        if inputs.losses is not None and isinstance(selection, WeightedSelection)
        else None
    )
    smoothness, scatter = _smoothness(selection, inputs), _loss_by_distance(selection, inputs)
    return Facts(
        title=title,
        version=__version__,
        rows=selection.n,
        population=selection.population,
        selected=len(selection),
        asked=selection.ledger.asked,
        seed=selection.seed,
        estimate=estimated,
        truth=None
        if inputs.every_loss is None or selection.population < selection.n
        else float(inputs.every_loss.sum()),
        verdict=inputs.verdict[0] if inputs.verdict else None,
        reason=inputs.verdict[1] if inputs.verdict else None,
        weights=_weights(selection),
        listed=_rows(selection, inputs, shown.places),
        map=None if picture is None else _picture(picture, shown),
        clusters=_clusters(selection, inputs, shown),
        smoothness=smoothness,
        loss_by_distance=scatter,
        coverage=None if inputs.classes is None else coverage(selection, inputs.classes, inputs.losses),
        texts=texts or {},
        images=images or {},
        origins={name: int((selection.origin == code).sum()) for code, name in enumerate(ORIGINS)},
        ledger=selection.ledger.entries,
        recipe=selection.provenance.lines(),
        code=as_code(selection, *sources),
        growth=as_growth(selection, *sources),
        command=as_command(selection, *command_sources, exclude_columns),
        left_out=tuple(left_out),
    )


def choose_shown(selection: Selection, clustering: Clustering | None) -> Shown:
    """Return which rows a page lists: the largest weights, the centers, and a few others of each cluster."""
    if not isinstance(selection, WeightedSelection):
        places = np.argsort(selection.order, kind="stable")
    else:
        places = np.lexsort([selection.ids, -selection.weights])
    if isinstance(selection, CoverSelection):
        places = np.lexsort([selection.ids, -selection.represents])
    places = places[:MOST_LISTED]
    if clustering is None and isinstance(selection, CoverSelection):
        others = covered_examples(selection).ravel()
        return Shown(places, np.setdiff1d(others[others >= 0], selection.ids[places]))
    if clustering is None:
        return Shown(places, np.zeros(0, np.int64))
    others = np.concatenate([clustering.centers, examples_of(clustering, selection.ids).ravel()])
    return Shown(places, np.setdiff1d(others[others >= 0], selection.ids[places]))


def examples_of(clustering: Clustering, selected: Ints) -> Ints:
    """Return a few rows of each cluster that were not selected, spread over their distances; −1 if there are none.

    If there are too many clusters to look at, no cluster has examples.
    """
    k = clustering.k
    if k * EXAMPLES > MOST_EXAMPLES:
        return np.full((k, 0), -1)
    free = np.ones(clustering.n, np.bool_)
    free[selected] = free[clustering.centers] = False
    ids = np.flatnonzero(free)
    ids = ids[np.lexsort([clustering.distances[ids], clustering.labels[ids]])]
    return _spread_out(ids, np.bincount(clustering.labels[ids], minlength=k))


def _spread_out(ids: Ints, counts: Ints) -> Ints:
    """Return a few ids of each group, evenly spaced; groups are contiguous, with `counts` ids each."""
    starts = np.cumsum(counts) - counts
    wanted = np.minimum(counts, EXAMPLES)[:, None]
    turn = np.arange(EXAMPLES)
    within = ((turn + 0.5) * counts[:, None] / np.maximum(wanted, 1)).astype(np.int64)
    picked = np.where(turn < wanted, starts[:, None] + within, -1)
    return np.where(picked >= 0, np.append(ids, -1)[picked], -1)


def covered_examples(selection: CoverSelection) -> Ints:
    """Return a few of the rows that each selected row stands for; −1 if there are none."""
    count = len(selection)
    if count * EXAMPLES > MOST_EXAMPLES or not selection.representative.size:
        return np.full((count, 0), -1)
    others = np.flatnonzero(selection.representative >= 0)
    others = others[selection.representative[others] != others]
    place = np.searchsorted(selection.ids, selection.representative[others])
    order = np.argsort(place, kind="stable")
    return _spread_out(others[order], np.bincount(place, minlength=count))


def _rows(selection: Selection, inputs: ReportInputs, places: Ints) -> tuple[Row, ...]:
    known = weights_of(selection)
    weights = [None] * places.size if known is None else known[places].tolist()
    losses = selection.losses if inputs.losses is None else inputs.losses
    inclusion = selection.inclusion if isinstance(selection, WeightedSelection) else np.ones(len(selection))
    names: list[str | None] = [None] * places.size
    if selection.names is not None:
        names = [_name(selection.names[place]) for place in places.tolist()]
    represents: list[int | None] = [None] * places.size
    if isinstance(selection, CoverSelection):
        represents = selection.represents[places].tolist()
    columns = zip(
        selection.ids[places].tolist(),
        names,
        weights,
        inclusion[places].tolist(),
        [None if number < 0 else number for number in _cluster_numbers(selection)[places].tolist()],
        selection.distances[places].astype(np.float64).tolist(),
        [ORIGINS[code] for code in selection.origin[places].tolist()],
        [loss if np.isfinite(loss) else None for loss in losses[places].tolist()],
        represents,
        strict=True,
    )
    return tuple(Row(*cells) for cells in columns)


def _cluster_numbers(selection: Selection) -> Ints:
    """Return each row's cluster; in a cover, every selected row has its own."""
    if isinstance(selection, CoverSelection):
        return np.arange(len(selection))
    return selection.clusters.astype(np.int64)


def _name(value: Any) -> str | None:
    return None if value is None else str(value)


def _weights(selection: Selection) -> Weights | None:
    if not isinstance(selection, WeightedSelection) or not len(selection):
        return None
    weights = selection.weights
    carried = np.cumsum(np.sort(weights)[::-1])
    return Weights(
        least=float(weights.min()),
        median=float(np.median(weights)),
        largest=float(weights.max()),
        total=float(weights.sum()),
        effective=selection.effective_size,
        half=int(np.searchsorted(carried, carried[-1] / 2)) + 1,
        histogram=histogram(weights),
        inclusion=histogram(selection.inclusion),
    )


def histogram(values: Floats) -> Histogram:
    """Count values in bins, on a logarithmic scale if they are positive and span a factor of 20."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        return Histogram((low, high), (values.size,))
    if low > 0 and high / low > 20:
        edges = np.geomspace(low, high, BINS + 1)
        edges[0], edges[-1] = low, high
    else:
        edges = np.linspace(low, high, BINS + 1)
    counts, _ = np.histogram(values, edges)
    return Histogram(tuple(edges.tolist()), tuple(counts.tolist()))


def _picture(picture: Map, shown: Shown) -> dict[str, Any]:
    count = shown.places.size
    return {
        "captured": picture.captured,
        "counts": picture.counts,
        "shades": shades(picture.counts),
        "x": picture.x[:count],
        "y": picture.y[:count],
        "other_rows": shown.others,
        "other_x": picture.x[count:],
        "other_y": picture.y[count:],
    }


def _clusters(selection: Selection, inputs: ReportInputs, shown: Shown) -> Clusters | None:
    if isinstance(selection, CoverSelection):
        return _covered(selection)
    labels, clustering = selection.clusters.astype(np.int64), inputs.clustering
    weighted = selection if isinstance(selection, WeightedSelection) else None
    if not labels.size or labels.min() < 0 or (clustering is None and weighted is None):
        return None
    k = labels.max() + 1 if clustering is None else clustering.k
    counts = np.bincount(labels, minlength=k)
    if clustering is not None:
        size = clustering.sizes.astype(np.float64)
        cost = np.bincount(clustering.labels, clustering.powers, k).astype(np.float64)
        representative, examples = clustering.centers, examples_of(clustering, selection.ids)
    else:
        assert weighted is not None
        size = np.bincount(labels, weighted.weights, k).astype(np.float64)
        powers = weighted.distances.astype(np.float64) ** weighted.z
        cost = np.bincount(labels, weighted.weights * powers, k).astype(np.float64)
        representative, examples = nearest_selected(selection, k), np.full((k, 0), -1)
    loss = total = None
    if inputs.losses is not None and weighted is not None:
        by_cluster = np.bincount(labels, weighted.weights * inputs.losses, k)
        weight = np.bincount(labels, weighted.weights, k)
        loss = np.divide(by_cluster, weight, out=np.full(k, np.nan), where=weight > 0)
        total = by_cluster / (float(by_cluster.sum()) or 1.0)
    there = np.flatnonzero((counts > 0) | (size > 0))
    return Clusters(
        exact=clustering is not None,
        number=tuple(there.tolist()),
        size=tuple(size[there].tolist()),
        cost=tuple(cost[there].tolist()),
        selected=tuple(counts[there].tolist()),
        share=tuple((counts[there] / len(selection)).tolist()),
        loss=None if loss is None else tuple(loss[there].tolist()),
        total=None if total is None else tuple(total[there].tolist()),
        representative=tuple(representative[there].tolist()),
        examples=tuple(tuple(row for row in line if row >= 0) for line in examples[there].tolist()),
    )


def _covered(selection: CoverSelection) -> Clusters | None:
    """Return the rows that each row of a cover stands for, as one cluster each."""
    if not len(selection):
        return None
    zeros = (0.0,) * len(selection)
    return Clusters(
        exact=True,
        number=tuple(range(len(selection))),
        size=tuple(selection.represents.astype(np.float64).tolist()),
        cost=zeros,
        selected=(1,) * len(selection),
        share=tuple((selection.represents / max(selection.represents.sum(), 1)).tolist()),
        loss=None,
        total=None,
        representative=tuple(selection.ids.tolist()),
        examples=tuple(tuple(row for row in line if row >= 0) for line in covered_examples(selection).tolist()),
        cover=True,
    )


def nearest_selected(selection: Selection, k: int) -> Ints:
    """Return the selected row nearest to the center of each cluster, −1 if none was selected."""
    order = np.lexsort([selection.distances, selection.clusters])
    present, first = np.unique(selection.clusters[order], return_index=True)
    nearest = np.full(k, -1, np.int64)
    nearest[present] = selection.ids[order[first]]
    return nearest


def _smoothness(selection: Selection, inputs: ReportInputs) -> Smoothness | None:
    if inputs.losses is None or not isinstance(selection, WeightedSelection):
        return None
    if not len(selection) or selection.clusters.min() < 0:
        return None
    weights = selection.weights
    if inputs.center_losses is not None:
        reference, away = inputs.center_losses[selection.clusters], selection.distances.astype(np.float64)
    elif inputs.points is not None:
        nearest = nearest_selected(selection, int(selection.clusters.max()) + 1)
        place = np.searchsorted(selection.ids, nearest[selection.clusters])
        reference = inputs.losses[place]
        away = np.sqrt(((inputs.points - inputs.points[place]).astype(np.float64) ** 2).sum(axis=1))
    else:
        return None
    apart = away > 0
    if not apart.any():
        return None
    ratios = np.abs(inputs.losses - reference)[apart] / away[apart] ** selection.z
    percentiles = weighted_percentiles(ratios, weights[apart], PERCENTILES)
    return Smoothness(selection.z, percentiles, int(apart.sum()), inputs.center_losses is not None)


def weighted_percentiles(values: Floats, weights: Floats, percentiles: Sequence[float]) -> tuple[float, ...]:
    """Return the smallest value that is not exceeded by this percentage of all weight, for each percentage."""
    order = np.argsort(values, kind="stable")
    carried = np.cumsum(weights[order])
    wanted = np.array(percentiles) / 100 * carried[-1] * (1 - 1e-12)
    return tuple(values[order][np.minimum(np.searchsorted(carried, wanted), values.size - 1)].tolist())


def _loss_by_distance(selection: Selection, inputs: ReportInputs) -> LossByDistance | None:
    weights = weights_of(selection)
    if inputs.losses is None or weights is None or not selection.distances.any():
        return None
    distance = selection.distances.astype(np.float64)
    order = np.argsort(distance, kind="stable")
    groups = np.array_split(order, min(12, max(1, order.size // 10)))
    middles = [float(np.average(distance[group], weights=weights[group])) for group in groups]
    means = [float(np.average(inputs.losses[group], weights=weights[group])) for group in groups]
    drawn = order[np.unique(np.linspace(0, order.size - 1, min(order.size, 1500)).astype(np.int64))]
    return LossByDistance(
        tuple(distance[drawn].tolist()), tuple(inputs.losses[drawn].tolist()), tuple(middles), tuple(means)
    )
