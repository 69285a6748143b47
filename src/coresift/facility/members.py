"""Which chosen row is nearest, for every row."""

from __future__ import annotations

import numpy as np

from coresift.clustering.nearest import Labels
from coresift.clustering.search import Exact, Search, choose_search
from coresift.clustering.snapping import assign_rows
from coresift.clustering.space import principal_axes, take
from coresift.engine import Workers
from coresift.rows import Rows
from coresift.types import Ints, Singles

# Up to so many products of numbers all rows meet all members; they take about a second.
FEW_PRODUCTS = 10**11
# What a search among candidates may add to the sum of squared distances.
TOLERANCE = 0.005


def nearest_members(rows: Rows, members: Ints, rng: np.random.Generator, workers: Workers) -> tuple[Labels, Singles]:
    """Return the place of each row's nearest member among `members`, and the distance; a member has itself.

    With many members and rows the search goes by cells of neighbors, where that adds at most half a percent to the sum
    of squared distances.
    """
    order = np.argsort(members, kind="stable")
    centers = np.empty((members.size, rows.d), np.float32)
    centers[order] = take(rows, members[order], workers)
    search: Search = Exact.of(centers, "few members")
    if members.size * rows.n * rows.d > FEW_PRODUCTS:
        axes = principal_axes(rows, rng, workers)
        search = choose_search(rows, centers, 2.0, axes, rng, workers, tolerance=TOLERANCE)
    labels, distances = assign_rows(rows, search, workers)
    labels[members], distances[members] = np.arange(members.size), 0
    return labels, distances


class Nearest:
    """How far the nearest of ever more members is from each row: only the new ones are looked at."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._members = np.zeros(0, np.int64)
        self._distances = np.full(rows.n, np.inf, np.float32)

    def distances(self, members: Ints, rng: np.random.Generator, workers: Workers) -> Singles | None:
        """Return the distance of each row to its nearest member; None where there are none."""
        if np.setdiff1d(self._members, members).size:  # one of them is no member any longer
            self._members = np.zeros(0, np.int64)
            self._distances = np.full(self._rows.n, np.inf, np.float32)
        new = np.setdiff1d(members, self._members)
        if new.size:
            np.minimum(self._distances, nearest_members(self._rows, new, rng, workers)[1], out=self._distances)
            self._members = np.sort(members)
        return self._distances if self._members.size else None


def gaussian(distances: Singles, bandwidth: float) -> Singles:
    """Return κ at these distances."""
    values: Singles = np.exp(-0.5 * np.square(distances / np.float32(bandwidth)))
    return values
