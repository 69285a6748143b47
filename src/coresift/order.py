"""The order in which rows stand for a sorted draw: neighbors in it should be alike, so that a draw spreads well."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.types import Clustering, Floats, Ints, Singles


def snake(clustering: Clustering) -> Floats:
    """Return each row's place when clusters follow a tour and rows lie outward in one cluster, inward in the next.

    The turn keeps the last row of a cluster near the first of the next one: both are far from, or both near to,
    their centers.
    """
    stop = tour(clustering.free_centers)[clustering.labels]
    return places(stop, np.where(stop % 2 == 1, -clustering.distances, clustering.distances))


def places(*keys: NDArray[Any]) -> Floats:
    """Return each row's place in the order of the first key, then the second, and so on.

    >>> places(np.array([1, 0, 1]), np.array([5.0, 7.0, 4.0]))
    array([2., 0., 1.])
    """
    found = np.empty(keys[0].size)
    found[np.lexsort(keys[::-1])] = np.arange(found.size)
    return found


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
