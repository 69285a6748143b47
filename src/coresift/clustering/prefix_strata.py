"""Rounds of clusters that never cross a class: one prefix order per class; centers are numbered as they are added."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError, refuse
from coresift.clustering.prefix import Order, Prefix
from coresift.clustering.strata import measure_spread, share_centers
from coresift.engine import Workers
from coresift.inclusion import deal
from coresift.progress import Progress
from coresift.rows import Rows
from coresift.types import Bools, Clustering, Floats, Ints


class ClassPrefixes:
    """A `Prefix` per class. Classes get centers by size and spread, at least one each."""

    def __init__(
        self, rows: Rows, z: float, make_order: Callable[[int], Order], allowed: Bools, classes: NDArray[np.int32]
    ) -> None:
        count = int(classes.max()) + 1
        self.rows, self._classes = rows, classes
        self._members: list[Ints] = [np.flatnonzero(classes == code) for code in range(count)]
        self._limits: Ints = np.array([np.count_nonzero(allowed[ids]) for ids in self._members])
        if not self._limits.all():
            raise InputError("exclude must leave at least one row of every class in strata.")
        self._prefixes = [
            Prefix(rows.subset(ids), z, make_order(code), allowed[ids]) for code, ids in enumerate(self._members)
        ]
        self._spread: Floats = np.zeros(0)
        # The class of each center, in the order in which they were added.
        self._joined: Ints = np.zeros(0, np.int64)

    def grow(self, count: int, workers: Workers, progress: Progress) -> None:
        """Add centers until there are `count`, or until all allowed rows are centers."""
        if count < len(self._members):
            refuse("clusters", f"at least {len(self._members)}, one for each class in strata", count)
        if not self._spread.size:
            self._spread = measure_spread(self.rows, self._classes, workers)
        count = min(count, int(self._limits.sum()))
        have = np.bincount(self._joined, minlength=len(self._members))
        wanted = np.maximum(share_centers(self._spread, self._limits, count) - have, 0)
        new = deal(wanted.astype(np.float64), self._limits - have, count - self._joined.size)
        for prefix, known, more in zip(self._prefixes, have, new, strict=True):
            prefix.grow(int(known + more), workers, progress)
        self._joined = np.concatenate([self._joined, np.repeat(np.arange(new.size), new)])

    def clustering(self, seed: int, *, normalized: bool) -> Clustering:
        """Return the centers so far and their clusters, in the order in which they were added."""
        k, n = self._joined.size, self.rows.n
        centers, labels = np.empty(k, np.int64), np.empty(n, np.int32)
        distances, points = np.empty(n, np.float32), np.empty((k, self.rows.d), np.float32)
        costs = 0.0
        for code, (ids, prefix) in enumerate(zip(self._members, self._prefixes, strict=True)):
            places = np.flatnonzero(self._joined == code)
            alone = prefix.clustering(seed, normalized=normalized)
            centers[places], points[places] = ids[alone.centers], alone.free_centers
            labels[ids], distances[ids] = places[alone.labels], alone.distances
            costs += alone.snapped_cost
        return Clustering(
            centers=centers,
            labels=labels,
            distances=distances,
            free_centers=points,
            z=self._prefixes[0].z,
            free_cost=costs,
            snapped_cost=costs,
            seed=seed,
            normalized=normalized,
            fingerprint=self.rows.fingerprint(),
            search="exact: prefix order within classes",
            strata=self._joined,
        )
