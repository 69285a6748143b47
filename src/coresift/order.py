"""The order in which rows stand for a sorted draw: neighbors in it should be alike, so that a draw spreads well."""

from __future__ import annotations

import numpy as np

from coresift.types import Clustering, Floats, Ints, Singles


def snake(clustering: Clustering) -> Ints:
    """Return the rows cluster by cluster along a tour, outward from the center in one and inward in the next.

    The turn keeps the last row of a cluster like the first of the next one: both are far from their centers, or
    both are near. Where clusters have classes, a class is left only when all of it has been seen.
    """
    return serpentine(clustering, clustering.distances)


def serpentine(clustering: Clustering, key: Singles | Floats) -> Ints:
    """Return the rows cluster by cluster along a tour, by rising `key` (at least 0) in one and falling in the next."""
    stop = stops(clustering)[clustering.labels]
    away = (key / max(float(key.max()), 1e-30)).astype(np.float32)
    return _sorted(stop, np.where(stop % 2 == 1, 1 - away, away))


def stops(clustering: Clustering) -> Ints:
    """Return each cluster's place on a tour of all, or on one tour a class, the classes in turn."""
    if not clustering.strata.size:
        return tour(clustering.free_centers)
    place = np.empty(clustering.k, np.int64)
    order = np.argsort(clustering.strata, kind="stable")
    begins = np.flatnonzero(np.diff(clustering.strata[order], prepend=-1))
    for begin, members in zip(begins, np.split(order, begins[1:]), strict=True):
        place[members] = begin + tour(clustering.free_centers[members])
    return place


def outward(clustering: Clustering, level: Floats) -> Ints:
    """Return the rows by a level of their clusters (`level`, one per cluster), and outward from the center in each."""
    stop = np.empty(clustering.k, np.int64)
    stop[np.argsort(level, kind="stable")] = np.arange(clustering.k)
    away = clustering.distances / max(float(clustering.distances.max()), 1e-30)
    return _sorted(stop[clustering.labels], away)


def _sorted(stop: Ints, away: Singles) -> Ints:
    """Return the rows by stop, then by the number away ≥ 0, then as they stand.

    Where all three fit one whole number of 64 bits, sorting those numbers takes a quarter of the time. `away` is at
    most 1.
    """
    place_bits = stop.size.bit_length()
    if int(stop.max()).bit_length() + 32 + place_bits > 64:
        return np.argsort(2 * stop + away.astype(np.float64), kind="stable")
    # The bits of floating-point numbers that are not negative stand in the order of the numbers.
    keys = (stop.astype(np.uint64) << np.uint64(32)) | np.ascontiguousarray(away, np.float32).view(np.uint32)
    keys = (keys << np.uint64(place_bits)) | np.arange(stop.size, dtype=np.uint64)
    keys.sort()
    return (keys & np.uint64((1 << place_bits) - 1)).astype(np.int64)


def tour(points: Singles) -> Ints:
    """Return each point's place on a walk that always goes to the nearest point not yet seen."""
    centered = points - points.mean(axis=0)
    norms = np.einsum("ij,ij->i", centered, centered)
    place = np.empty(len(points), np.int64)
    left = np.arange(len(points))
    here = 0
    for step in range(len(points)):
        place[left[here]] = step
        at = centered[here].copy()
        # The seen point goes out of the arrays, so that later steps have less to search.
        last = len(left) - 1 - step
        for array in (centered, norms, left):
            array[here] = array[last]
        if last:
            with np.errstate(invalid="ignore"):  # BLAS may raise the flag for lanes that it does not use
                here = int((norms[:last] - 2 * (centered[:last] @ at)).argmin())
    return place
