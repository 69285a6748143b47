"""The order of rows for a sorted draw: neighbors should be similar, so that the draw is spread out."""

from __future__ import annotations

import numpy as np

from coresift.types import Clustering, Floats, Ints, Singles


def snake(clustering: Clustering) -> Ints:
    """Return the rows cluster by cluster along a tour, alternating between outward and inward from the center.

    Alternating makes the last row of a cluster similar to the first row of the next one: both are far from their
    centers, or both are near. If clusters have classes, the tour finishes a class before it goes on to the next.
    """
    return serpentine(clustering, clustering.distances)


def serpentine(clustering: Clustering, key: Singles | Floats) -> Ints:
    """Return the rows cluster by cluster along a tour, alternating between rising and falling `key` (at least 0)."""
    stop = stops(clustering)[clustering.labels]
    scaled_key = (key / max(float(key.max()), 1e-30)).astype(np.float32)
    return _sorted(stop, np.where(stop % 2 == 1, 1 - scaled_key, scaled_key))


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
    scaled_distance = clustering.distances / max(float(clustering.distances.max()), 1e-30)
    return _sorted(stop[clustering.labels], scaled_distance)


def _sorted(stop: Ints, away: Singles) -> Ints:
    """Return the rows sorted by stop, then by `away` (from 0 to 1), then by row number.

    If all three fit into a 64-bit integer, sorting those integers takes a quarter of the time.
    """
    row_bits = stop.size.bit_length()
    if int(stop.max()).bit_length() + 32 + row_bits > 64:
        return np.argsort(2 * stop + away.astype(np.float64), kind="stable")
    # The bit patterns of nonnegative floating-point numbers sort like the numbers.
    keys = (stop.astype(np.uint64) << np.uint64(32)) | np.ascontiguousarray(away, np.float32).view(np.uint32)
    keys = (keys << np.uint64(row_bits)) | np.arange(stop.size, dtype=np.uint64)
    keys.sort()
    return (keys & np.uint64((1 << row_bits) - 1)).astype(np.int64)


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
