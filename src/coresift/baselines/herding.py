"""Kernel herding: choose rows whose mean is close to that of all rows in a kernel's feature space."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from coresift.baselines.geometric import lengths_about, mean_of, squared_lengths
from coresift.baselines.making import ProgressLike, begin, by_block, flag
from coresift.checks import named_options, positive, whole
from coresift.clustering.nearest import squared_distances
from coresift.engine import Engine, Workers
from coresift.progress import stage
from coresift.rows import Rows, RowsLike
from coresift.types import Bools, Floats, Ints, Selection, Singles

# How many rows the median distance is measured on, and with how many rows a block is compared at a time.
TYPICAL_FROM = 1000
TILE = 64


@named_options
def kernel_herding(
    rows: RowsLike,
    budget: int,
    *,
    seed: int = 0,
    given: Any = None,
    exclude: Any = None,
    bandwidth: float | None = None,
    reference: int = 10_000,
    normalize: bool = False,
    engine: Engine | None = None,
    progress: ProgressLike = None,
) -> Selection:
    """Greedily choose the row that brings the mean of the chosen rows closest to that of all rows (Chen et al. 2010).

    After t choices the next one has the largest μ(x) − Σ k(x, chosen)/(t + 1), where μ(x) is the mean of k(x, ·)
    over all rows and k(x, y) = exp(−‖x − y‖²/2σ²). Given rows are the first choices.

    Cost: no model call; n × reference kernel values, and one pass per chosen row. Memory: 30 bytes per row, and the
    reference rows.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows to select, including the given ones.
        seed: The seed.
        given: Rows that are always selected.
        exclude: Rows that are never selected, and that the selection does not represent.
        bandwidth: σ, by default the median distance between a thousand random rows.
        reference: If there are more rows than this, μ is estimated from this many random ones.
        normalize: Whether to scale every row to length 1 first.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        The chosen rows, without weights; all count the same.

    Examples:
        >>> kernel_herding(np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]), 2, bandwidth=1.0).ids
        array([1, 4])
    """
    bandwidth = None if bandwidth is None else positive("bandwidth", bandwidth)
    reference, normalize = whole("reference", reference), flag("normalize", normalize)
    options = {"bandwidth": bandwidth, "reference": reference, "normalize": normalize}
    task = begin("kernel-herding", rows, budget, seed, given, exclude, engine, progress, **options)
    ids = task.counted
    typical, references = (np.sort(task.rng.permutation(ids.size)[:size]) for size in (TYPICAL_FROM, reference))
    first, chosen = np.searchsorted(ids, task.frame.given), []
    with task.workers() as workers:
        kernel = _Kernel(task.view(ids, normalize=normalize), workers)
        kernel.width = bandwidth or kernel.typical_distance(typical)
        mean = kernel.mean(references)
        with stage(task.progress, "choosing rows", task.room):
            for row in _herd(kernel, mean, first, task.frame.open()[ids], task.room):
                chosen.append(row)
                task.progress.advance(1)
    return task.choose(ids[np.array(chosen, np.int64)])


def _herd(kernel: _Kernel, mean: Floats, first: Ints, free: Bools, room: int) -> Iterator[int]:
    """Yield the choices one by one."""
    free, sums = free.copy(), np.zeros(mean.size)
    for row in first:
        sums += kernel.to(int(row))
    for count in range(first.size, first.size + room):
        row = int(np.where(free, mean - sums / (count + 1), -np.inf).argmax())
        yield row
        free[row] = False
        if count + 1 < first.size + room:
            sums += kernel.to(row)


class _Kernel:
    """The Gaussian kernel between rows; `width` is its σ."""

    width = 1.0

    def __init__(self, rows: Rows, workers: Workers) -> None:
        self._rows, self._workers = rows, workers
        self._origin = mean_of(rows, workers)
        self._norms = lengths_about(rows, self._origin, workers)

    def typical_distance(self, ids: Ints) -> float:
        """Return the median distance between these rows; 1 if that is 0."""
        points = self._rows.take(ids) - self._origin
        squared = squared_distances(points, squared_lengths(points), points)[np.triu_indices(ids.size, 1)]
        return float(np.sqrt(np.median(squared))) if squared.size and np.median(squared) > 0 else 1.0

    def mean(self, ids: Ints) -> Floats:
        """Return every row's mean kernel value with these rows."""
        points = self._rows.take(ids) - self._origin
        return self._sums(points, "comparing rows") / ids.size

    def to(self, row: int) -> Floats:
        """Return every row's kernel value with one row."""
        return self._sums(self._rows.take([row]) - self._origin, "")

    def _sums(self, points: Singles, name: str) -> Floats:
        origin, factor = self._origin, -0.5 / self.width**2

        def sums(_: int, block: Singles, norms: Singles) -> Floats:
            shifted, total = block - origin, np.zeros(len(block))
            for tile in range(0, len(points), TILE):
                squared = squared_distances(shifted, norms, points[tile : tile + TILE])
                squared *= factor
                total += np.exp(squared, out=squared).sum(axis=0, dtype=np.float64)
            return total

        return np.asarray(by_block(self._workers.map(self._rows, sums, beside=[self._norms], name=name)))
