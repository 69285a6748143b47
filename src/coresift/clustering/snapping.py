"""From points in space to rows: each center becomes the nearest row of its own cluster, all of them distinct."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from coresift.clustering.nearest import Labels, distances_to
from coresift.clustering.refine import snap
from coresift.clustering.search import Exact, Search
from coresift.clustering.space import take
from coresift.engine import Workers
from coresift.rows import Rows, refuse_bad_row
from coresift.types import Ints, Singles


@dataclass(frozen=True)
class Found:
    """Centers in space and as rows, and for every row its center and the distances to both."""

    free: Singles
    chosen: Ints
    labels: Labels
    free_distances: Singles
    distances: Singles
    path: str


Chooser = Callable[[Singles, Labels | None], Search]


def snap_all(rows: Rows, free: Singles, choose: Chooser, workers: Workers, coarse: Labels | None = None) -> Found:
    """Assign every row, by the search that `choose` gives for the centers, and snap each center to a row."""
    search = choose(free, coarse)
    labels, free_distances = assign_rows(rows, search, workers, coarse)
    chosen = snap(labels, free_distances, len(free))
    filled = np.flatnonzero(chosen >= 0)
    twins = _first_equal(_take(rows, chosen[filled], workers))
    distinct = filled[twins == np.arange(len(twins))]
    numbers = np.full(len(free), -1, np.int32)
    if len(distinct) < len(filled):  # rounding gave two equal rows to different centers
        numbers[distinct] = np.arange(len(distinct))
        numbers[filled] = numbers[filled[twins]]
        return snap_all(rows, free[distinct], choose, workers, None if coarse is None else numbers[labels])
    numbers[filled] = np.arange(len(filled))
    labels = numbers[labels]
    distances = _measure(rows, chosen[filled], labels, workers)
    return Found(free[filled], chosen[filled], labels, free_distances, distances, search.path)


def assign_rows(rows: Rows, search: Search, workers: Workers, coarse: Labels | None = None) -> tuple[Labels, Singles]:
    """Return the center of every row, as the search finds it, and its distance."""

    def keep(start: int, block: Singles, labels: Labels, distances: Singles) -> tuple[Labels, Singles]:
        return labels, distances

    labels, distances = np.empty(rows.n, np.int32), np.empty(rows.n, np.float32)
    start = 0
    for found, away in search.assign(rows, keep, workers, coarse, "assigning rows"):
        if not np.isfinite(away).all():
            refuse_bad_row(rows)
        labels[start : start + len(found)] = found
        distances[start : start + len(found)] = away
        start += len(found)
    return labels, distances


def _measure(rows: Rows, chosen: Ints, labels: Labels, workers: Workers) -> Singles:
    centers = _take(rows, chosen, workers)

    def away(_: int, block: Singles, own: Labels) -> Singles:
        return distances_to(block, centers, own)

    distances, start = np.empty(rows.n, np.float32), 0
    for some in workers.map(rows, away, beside=[labels], name="measuring distances"):
        distances[start : start + len(some)] = some
        start += len(some)
    return distances


def _take(rows: Rows, ids: Ints, workers: Workers) -> Singles:
    """Return rows in the order asked."""
    order = np.argsort(ids)
    found = np.empty((len(ids), rows.d), np.float32)
    found[order] = take(rows, ids[order], workers)
    return found


def fill_up(rows: Rows, k: int, found: Found, workers: Workers) -> Found:
    """Make up for empty clusters: the rows farthest from their centers become centers, as long as any differs."""
    while len(found.chosen) < k and found.distances.max() > 0:
        known, missing = len(found.chosen), k - len(found.chosen)
        far = np.argsort(-found.distances, kind="stable")[: 2 * missing]
        far = far[found.distances[far] > 0]
        points = rows.take(far)
        twins = _first_equal(np.concatenate([rows.take(found.chosen), points]))[known:]
        added = np.flatnonzero(twins == known + np.arange(len(far)))[:missing]
        if not added.size:
            found = _join(found, far, points, twins.astype(np.int32))
            continue
        labels, distances = assign_rows(rows, Exact.of(points[added]), workers)
        # Rounding may send a new center to its near twin; it belongs to itself.
        labels[far[added]], distances[far[added]] = np.arange(len(added)), 0
        closer = distances < found.distances
        found = Found(
            free=np.concatenate([found.free, points[added]]),
            chosen=np.concatenate([found.chosen, far[added]]),
            labels=np.where(closer, labels + np.int32(known), found.labels),
            free_distances=np.where(closer, distances, found.free_distances),
            distances=np.where(closer, distances, found.distances),
            path=found.path,
        )
    return found


def _join(found: Found, rows: Ints, points: Singles, labels: Labels) -> Found:
    """Give rows to the centers that they equal, which rounding had kept from them."""
    joined = replace(
        found,
        labels=found.labels.copy(),
        free_distances=found.free_distances.copy(),
        distances=found.distances.copy(),
    )
    joined.labels[rows], joined.distances[rows] = labels, 0
    joined.free_distances[rows] = distances_to(points, found.free, labels)
    return joined


def _first_equal(points: Singles) -> Ints:
    """Return for each row the position of the first row that equals it."""
    plain = np.ascontiguousarray(points + np.float32(0))  # −0 becomes 0
    _, first, inverse = np.unique(plain.view(f"V{plain[0].nbytes}").ravel(), return_index=True, return_inverse=True)
    return first[inverse]
