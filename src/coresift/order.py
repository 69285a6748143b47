"""The order in which rows stand for a sorted draw: neighbors in it should be alike, so that a draw spreads well."""

from __future__ import annotations

import numpy as np

from coresift.types import Clustering, Floats, Ints, Singles


def snake(clustering: Clustering) -> Ints:
    """Return the rows cluster by cluster along a tour, outward from the center in one and inward in the next.

    The turn keeps the last row of a cluster like the first of the next one: both are far from their centers, or
    both are near. Where clusters have classes, a class is left only when all of it has been seen.
    """
    stop = stops(clustering)[clustering.labels]
    away = clustering.distances.astype(np.float64) / max(float(clustering.distances.max()), 1e-30)
    # One number a row, so that one sort will do: the stop, and inside it the distance or what it lacks of the most.
    return stable_order(np.asarray(2 * stop + np.where(stop % 2 == 1, 1 - away, away), np.float64))


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
    """Return the rows by a level of their clusters (`level`, one a cluster), and outward from the center in each."""
    stop = np.empty(clustering.k, np.int64)
    stop[np.argsort(level, kind="stable")] = np.arange(clustering.k)
    away = clustering.distances.astype(np.float64) / max(float(clustering.distances.max()), 1e-30)
    return stable_order(2 * stop[clustering.labels] + away)


def stable_order(keys: Floats) -> Ints:
    """Return the order that sorts the keys, equal ones as they stand: a stable sort, at a faster one's speed."""
    order = np.argsort(keys)
    found = keys[order]
    pairs = np.flatnonzero(found[1:] == found[:-1])
    if pairs.size > keys.size // 16:
        return np.argsort(keys, kind="stable")
    tied = np.union1d(pairs, pairs + 1)
    order[tied] = order[tied[np.lexsort((order[tied], found[tied]))]]
    return order


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
            here = int((norms[:last] - 2 * (centered[:last] @ at)).argmin())
    return place
