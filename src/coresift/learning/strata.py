"""Random rows that make up for the choice of the other rows, so that all of them are a proportional sample.

Coverage prefers typical rows, which are near the middle of their neighbors: of photos, the smooth ones. Where rows say
much about their labels, such rows teach the most. Where they say little, the labeled rows should be like all rows. So
random rows come from the strata that have too few rows so far.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coresift.clustering.nearest import Codebook, nearest
from coresift.clustering.refine import refine
from coresift.clustering.seeding import seed_centers
from coresift.clustering.space import take
from coresift.engine import Workers
from coresift.progress import Progress
from coresift.rows import Rows, open_rows
from coresift.types import Bools, Floats, Ints, Singles

# How many parts there are, by the distance to a row's center.
PARTS = 5
# How many labels there are per cluster, so that few strata have more than their share, and the most clusters.
LABELS_PER_CLUSTER, MOST_CLUSTERS = 100, 20
# k-means: the number of rows it learns from, and of its steps.
SAMPLE, STEPS = 4096, 5


@dataclass(frozen=True)
class Strata:
    """The stratum of each row: its part, from typical to outlying, and its cluster.

    Attributes:
        numbers: part · clusters + cluster, for each row.
        clusters: How many clusters there are.
    """

    numbers: Ints
    clusters: int

    @classmethod
    def of(cls, rows: Rows, budget: int, rng: np.random.Generator, workers: Workers, progress: Progress) -> Strata:
        """Cluster the rows, and divide them into equal parts by the distance to their center.

        Every column counts the same: rows differ from typical ones in all columns, and those of large variance are
        covered best.
        """
        sample = take(rows, np.sort(rng.choice(rows.n, min(rows.n, SAMPLE), replace=False)), workers)
        mean, deviation = sample.mean(axis=0, dtype=np.float64), sample.std(axis=0, dtype=np.float64)
        deviation[deviation == 0] = np.inf

        def scale(block: Singles) -> Singles:
            return np.asarray((block - mean) / deviation, np.float32)

        points = scale(sample)
        count = int(np.clip(budget // LABELS_PER_CLUSTER, 1, MOST_CLUSTERS))
        seeds = points[seed_centers(points, count, 2.0, rng, workers.here, progress)]
        codebook = Codebook.of(refine(open_rows(points), seeds, 2.0, workers.here, steps=STEPS)[0])

        def assign(_: int, block: Singles) -> tuple[Ints, Singles]:
            labels, distances = nearest(scale(block), codebook)
            return labels.astype(np.int64), distances

        labels, distances = (
            np.concatenate(arrays) for arrays in zip(*workers.map(rows, assign, name="forming strata"), strict=True)
        )
        borders = np.quantile(distances, np.arange(1, PARTS) / PARTS)
        return cls(np.searchsorted(borders, distances) * len(seeds) + labels, len(seeds))

    def draw(self, count: int, counted: Bools, free: Ints, share: float, rng: np.random.Generator) -> Ints:
        """Draw random rows.

        Args:
            count: How many rows to draw.
            counted: Which rows count, labeled or not.
            free: The rows to draw from, ascending; the other rows that count are taken.
            share: How much of the lack of rows in some strata is made up for: from 0, a simple random sample, to 1.
            rng: The source of randomness.
        """
        sizes, left = self._count(np.flatnonzero(counted)), self._count(free)
        expected = share * self.missing(sizes, sizes - left, count) + (1 - share) * count * left / max(free.size, 1)
        quotas = np.diff(np.floor(np.cumsum(expected) + rng.random()), prepend=0.0)
        shuffled = rng.permutation(free)
        ordered = shuffled[np.argsort(self.numbers[shuffled], kind="stable")]
        own = self.numbers[ordered]
        ranks = np.arange(ordered.size) - (np.cumsum(left) - left)[own]
        # Rounding can make the sum of the quotas wrong by one; there are always `count` rows.
        return ordered[np.argsort(ranks >= quotas[own], kind="stable")[:count]]

    def missing(self, sizes: Ints, taken: Ints, count: int) -> Floats:
        """Return how many of the next rows should come from each stratum, so that all are a proportional sample.

        Parts come first, and clusters second: a stratum that has too many rows already is made up for in the other
        strata of its part. No stratum is asked for more rows than it has left.

        Args:
            sizes: The number of rows in each stratum.
            taken: How many of them are taken.
            count: How many rows are next.
        """
        lacking = (sizes * ((taken.sum() + count) / sizes.sum()) - taken).reshape(PARTS, -1)
        wanted = np.maximum(lacking, 0)
        by_part = np.maximum(lacking.sum(axis=1, keepdims=True), 0)
        wanted *= by_part / np.maximum(wanted.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        return np.asarray(count * wanted.ravel() / (wanted.sum() or 1.0))

    def _count(self, ids: Ints) -> Ints:
        return np.bincount(self.numbers[ids], minlength=PARTS * self.clusters)
