"""Find the nearest member (given or chosen row) of every row."""

from __future__ import annotations

import numpy as np

from coresift.clustering.nearest import Labels
from coresift.clustering.search import choose_search
from coresift.clustering.searches import Exact, Search
from coresift.clustering.snapping import assign_rows
from coresift.clustering.space import principal_axes, take
from coresift.engine import Workers
from coresift.rows import Rows
from coresift.types import Ints, Singles

# Up to this many multiplications, all rows are compared with all members; it takes about a second.
FEW_PRODUCTS = 10**11
# By what fraction an approximate search may increase the sum of squared distances.
TOLERANCE = 0.005


def nearest_members(rows: Rows, members: Ints, rng: np.random.Generator, workers: Workers) -> tuple[Labels, Singles]:
    """Return the index in `members` of each row's nearest member, and the distance; a member is nearest to itself.

    With many members and rows the search is approximate: it rounds rows to 8 bits, if that increases the sum of
    squared distances by at most half a percent.
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
    """Each row's distance to its nearest member, updated incrementally as members are added."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._members = np.zeros(0, np.int64)
        self._distances = np.full(rows.n, np.inf, np.float32)

    def distances(self, members: Ints, rng: np.random.Generator, workers: Workers) -> Singles | None:
        """Return each row's distance to its nearest member; None if there are no members."""
        if np.setdiff1d(self._members, members).size:  # a member was removed, so start over
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
