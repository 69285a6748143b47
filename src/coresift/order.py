"""The order of rows for a sorted draw: neighbors should be similar, so that the draw is spread out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.columns import Values, counts, largest, spans
from coresift.scratch import empty
from coresift.types import Clustering, Floats, Ints, Singles


def snake(clustering: Clustering) -> Ints:
    """Return the rows cluster by cluster along a tour, alternating between outward and inward from the center.

    Alternating makes the last row of a cluster similar to the first row of the next one: both are far from their
    centers, or both are near. If clusters have classes, the tour finishes a class before it goes on to the next.
    """
    return serpentine(clustering, clustering.distances)


def serpentine(clustering: Clustering, key: Values) -> Ints:
    """Return the rows cluster by cluster along a tour, alternating between rising and falling `key` (at least 0)."""
    positions, highest = stops(clustering), max(largest(key), 1e-30)

    def away(rows: slice) -> Singles:
        stop, scaled_key = positions[clustering.labels[rows]], (key[rows] / highest).astype(np.float32)
        return np.asarray(np.where(stop % 2 == 1, 1 - scaled_key, scaled_key), np.float32)

    return _sorted(positions, clustering.labels, away)


def stops(clustering: Clustering) -> Ints:
    """Return each cluster's position on a tour of all clusters; with classes, on one tour per class in turn.

    Both draws of a selection use it, and with many clusters it takes long, so the clustering keeps it.
    """
    kept = vars(clustering)
    if "_stops" not in kept:
        kept["_stops"] = _find_stops(clustering)
    positions: Ints = kept["_stops"]
    return positions


def _find_stops(clustering: Clustering) -> Ints:
    if not clustering.strata.size:
        return tour(clustering.free_centers)
    position = np.empty(clustering.k, np.int64)
    order = np.argsort(clustering.strata, kind="stable")
    starts = np.flatnonzero(np.diff(clustering.strata[order], prepend=-1))
    for start, members in zip(starts, np.split(order, starts[1:]), strict=True):
        position[members] = start + tour(clustering.free_centers[members])
    return position


def outward(clustering: Clustering, level: Floats) -> Ints:
    """Return the rows sorted by the level of their cluster (one per cluster), then outward from its center."""
    stop = np.empty(clustering.k, np.int64)
    stop[np.argsort(level, kind="stable")] = np.arange(clustering.k)
    farthest = max(largest(clustering.distances), 1e-30)
    return _sorted(stop, clustering.labels, lambda rows: clustering.distances[rows] / farthest)


def by_cluster(labels: NDArray[np.integer[Any]], count: int) -> tuple[Ints, Ints]:
    """Return the rows cluster by cluster, and where each of `count` clusters ends.

    >>> by_cluster(np.array([1, 0, 1]), 2)
    (array([1, 0, 2]), array([1, 3]))
    """
    order = _sorted(np.arange(count), labels, lambda rows: np.zeros(rows.stop - rows.start, np.float32))
    return order, np.cumsum(counts(labels, count))


def _sorted(stop: Ints, labels: NDArray[np.integer[Any]], away: Callable[[slice], Singles]) -> Ints:
    """Return the rows sorted by the stop of their cluster, then by `away` (from 0 to 1), then by row number.

    Rows are dealt to the stops a block at a time, and then each stop is sorted in place.
    """
    order = empty(labels.size, np.int64)
    # One integer per row: the bit patterns of nonnegative floating-point numbers sort like the numbers.
    keys = order.view(np.uint64)
    at_stop = np.empty(stop.size, np.int64)
    at_stop[stop] = counts(labels, stop.size)
    bounds = np.concatenate([[0], np.cumsum(at_stop)])
    filled = bounds[:-1].copy()
    for rows in spans(labels.size):
        stops_here = stop[labels[rows]]
        # Numbers of 16 bits are sorted ten times as fast.
        by_stop = np.argsort(stops_here.astype(np.uint16) if stop.size < 2**16 else stops_here, kind="stable")
        here = np.bincount(stops_here, minlength=stop.size)
        first = np.repeat(filled - (np.cumsum(here) - here), here)
        bits = np.ascontiguousarray(away(rows), np.float32).view(np.uint32).astype(np.uint64)
        block = (bits << np.uint64(32)) | np.arange(rows.start, rows.stop, dtype=np.uint64)
        keys[first + np.arange(by_stop.size)] = block[by_stop]
        filled += here
    for start, end in pairwise(bounds.tolist()):
        keys[start:end].sort()
    np.bitwise_and(order, (1 << 32) - 1, out=order)
    order.setflags(write=False)
    return order


def tour(points: Singles) -> Ints:
    """Return each point's position on a nearest-neighbor tour: it always goes to the nearest unvisited point."""
    centered = points - points.mean(axis=0)
    norms = np.einsum("ij,ij->i", centered, centered)
    position = np.empty(len(points), np.int64)
    unvisited = np.arange(len(points))
    current = 0
    with np.errstate(invalid="ignore"):  # BLAS may raise the flag for lanes that it does not use
        for step in range(len(points)):
            position[unvisited[current]] = step
            current_point = centered[current].copy()
            # Remove the visited point from the arrays, so that later steps search fewer points.
            last = len(unvisited) - 1 - step
            for array in (centered, norms, unvisited):
                array[current] = array[last]
            if last:
                current = int((norms[:last] - 2 * (centered[:last] @ current_point)).argmin())
    return position
