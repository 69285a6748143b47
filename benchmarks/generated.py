"""Rows that are generated when they are read, so that there can be more of them than a disk holds.

A row is the mean of one of 3,000 clusters plus a slice of a long table of normal numbers, on axes of decaying variance.
A hash of the row's number chooses the cluster and the slice, so every row is the same each time it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import coresift as cs
from coresift.rows.arrays import rows_of_arrays

CLUSTERS, NUMBERS = 3000, 2**22
SHARD_ROWS = 1_000_000
# The number of rows that are generated together, so that intermediate arrays stay in a core's cache.
TOGETHER = 512


@dataclass(frozen=True)
class Source:
    """The cluster means and the table of normal numbers."""

    dimension: int
    seed: int = 0

    @cached_property
    def tables(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """The cluster means, all slices of the normal numbers, and the standard deviation of each axis."""
        rng = np.random.default_rng(self.seed)
        decay = (1 + np.arange(self.dimension, dtype=np.float32)) ** -0.5
        means = rng.standard_normal((CLUSTERS, self.dimension), np.float32) * decay
        numbers = rng.standard_normal(NUMBERS, np.float32)
        slices = np.lib.stride_tricks.sliding_window_view(numbers, self.dimension)
        return means, slices, np.float32(0.7) * decay

    def rows(self, ids: NDArray[np.int64]) -> NDArray[np.float16]:
        """Return the rows with these numbers."""
        means, slices, deviation = self.tables
        generated = np.empty((ids.size, self.dimension), np.float16)
        for start in range(0, ids.size, TOGETHER):
            codes = hashes(ids[start : start + TOGETHER])
            rows = slices[codes % len(slices)] * deviation
            rows += means[(codes >> np.uint64(40)) % np.uint64(CLUSTERS)]
            generated[start : start + TOGETHER] = rows
        return generated

    def __reduce__(self) -> tuple[type[Source], tuple[int, int]]:
        return Source, (self.dimension, self.seed)


def hashes(ids: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a pseudorandom number per row number (the finalizer of splitmix64)."""
    codes = (ids.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        codes = (codes ^ (codes >> np.uint64(shift))) * np.uint64(factor)
    return codes ^ (codes >> np.uint64(31))


@dataclass(frozen=True)
class Shard:
    """The rows of one shard: a matrix of float16 that can be cut by a slice or by row numbers."""

    source: Source
    start: int
    count: int
    dtype = np.dtype(np.float16)
    ndim = 2

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and numbers per row."""
        return self.count, self.source.dimension

    def __call__(self) -> Shard:
        """Open the shard, as a file would be."""
        return self

    def __getitem__(self, rows: Any) -> NDArray[np.float16]:
        numbers = np.arange(*rows.indices(self.count)) if isinstance(rows, slice) else np.asarray(rows)
        return self.source.rows(self.start + numbers)


def generated_rows(n: int, dimension: int, seed: int = 0) -> cs.rows.Rows:
    """Return generated rows in shards of a million."""
    source = Source(dimension, seed)
    shards = [Shard(source, start, min(SHARD_ROWS, n - start)) for start in range(0, n, SHARD_ROWS)]
    return rows_of_arrays(shards, [f"shard {number}" for number in range(len(shards))])
