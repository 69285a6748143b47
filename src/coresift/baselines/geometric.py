"""Choose rows that cover the space: each as far as possible from the previous ones, or one per cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

from coresift.baselines.making import ProgressLike, begin, by_block, flag
from coresift.checks import named_options
from coresift.clustering import cluster
from coresift.clustering.nearest import squared_distances
from coresift.engine import Engine, Workers
from coresift.progress import stage
from coresift.rows import Rows, RowsLike, refuse_bad_row
from coresift.types import Ints, Selection, Singles

# How many of the farthest rows are kept between two passes, and with how many centers a block is compared at a time.
AT_HAND = 1024
TILE = 64


@named_options
def k_center(
    rows: RowsLike,
    budget: int,
    *,
    seed: int = 0,
    given: Any = None,
    exclude: Any = None,
    normalize: bool = False,
    engine: Engine | None = None,
    progress: ProgressLike = None,
) -> Selection:
    """Greedily choose the row that is farthest from all rows chosen so far (Sener and Savarese 2018).

    It starts with the given rows, or with a random row.

    Distances only fall as rows are chosen, so earlier distances are upper bounds. Between two passes the next rows come
    from the thousand farthest rows, as long as these stay farther away than the bounds of all others. The result is the
    same as comparing every row with every choice, in far fewer passes.

    Cost: no model call; n × budget distances. Memory: 30 bytes per row, and a thousand rows.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows to select, including the given ones.
        seed: The seed.
        given: Rows that are always selected.
        exclude: Rows that are never selected, and that the selection does not represent.
        normalize: Whether to scale every row to length 1 first.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        The chosen rows, without weights. `order` is the order of choice; its first m rows are the choice for budget m.

    Examples:
        >>> k_center(np.array([[0.0], [1.0], [5.0], [9.0]]), 3, given=[0]).ids
        array([0, 2, 3])
    """
    normalize = flag("normalize", normalize)
    task = begin("k-center", rows, budget, seed, given, exclude, engine, progress, normalize=normalize)
    ids = task.open
    if not ids.size:
        return task.choose(ids)
    view = task.view(ids, normalize=normalize)
    with task.workers() as workers, stage(task.progress, "choosing rows", task.room):
        cover = _Cover(view, workers)
        if task.frame.given.size:
            cover.add(task.view(task.frame.given, normalize=normalize).take(np.arange(task.frame.given.size)))
            chosen: list[int] = []
        else:
            chosen = [int(task.rng.integers(ids.size))]
            cover.add(view.take(chosen))
        while len(chosen) < task.room and cover.radius > 0:
            new_choices = cover.choose(task.room - len(chosen))
            chosen += new_choices
            task.progress.advance(len(new_choices))
    return task.choose(ids[np.array(chosen, np.int64)])


@named_options
def diversity(
    rows: RowsLike,
    budget: int,
    *,
    seed: int = 0,
    given: Any = None,
    exclude: Any = None,
    normalize: bool = False,
    engine: Engine | None = None,
    progress: ProgressLike = None,
) -> Selection:
    """Make as many clusters as the budget has rows, and choose the row nearest to each center.

    Given rows count toward the budget, and the others are clustered without them.

    Cost: no model call; one clustering with k = budget. Memory: that of the clustering.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows to select, including the given ones.
        seed: The seed.
        given: Rows that are always selected.
        exclude: Rows that are never selected, and that the selection does not represent.
        normalize: Whether to scale every row to length 1 first.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        The chosen rows, without weights.

    Examples:
        >>> diversity(np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2]]), 2).ids
        array([1, 4])
    """
    normalize = flag("normalize", normalize)
    task = begin("diversity", rows, budget, seed, given, exclude, engine, progress, normalize=normalize)
    ids = task.open
    if not ids.size:
        return task.choose(ids)
    view = task.view(ids, normalize=normalize)
    return task.choose(ids[cluster(view, task.room, seed=task.seed, engine=engine, progress=task.progress).centers])


class _Cover:
    """The squared distance of every row to its nearest center, and the farthest rows."""

    def __init__(self, rows: Rows, workers: Workers) -> None:
        self._rows, self._workers = rows, workers
        # Rounding errors grow with the lengths of rows, so shift the origin to the mean.
        self._mean = mean_of(rows, workers)
        self._norms = lengths_about(rows, self._mean, workers)
        self._closest = np.full(rows.n, np.inf, np.float32)

    @property
    def radius(self) -> float:
        """The largest squared distance."""
        return float(self._closest.max())

    def add(self, centers: Singles) -> None:
        """Add centers, in one pass."""
        mean = self._mean
        centers = centers - mean

        def lower(_: int, block: Singles, norms: Singles, closest: Singles) -> Singles:
            shifted = block - mean
            for tile in range(0, len(centers), TILE):
                with np.errstate(over="ignore", invalid="ignore"):
                    squared = squared_distances(shifted, norms, centers[tile : tile + TILE])
                closest = np.minimum(closest, squared.min(axis=0))
            return closest

        start = 0
        for closest in self._workers.map(self._rows, lower, beside=[self._norms, self._closest]):
            self._closest[start : start + len(closest)] = closest
            start += len(closest)
        if not np.isfinite(self._closest).all():
            refuse_bad_row(self._rows)

    def choose(self, most: int) -> list[int]:
        """Return the farthest row and all following choices that are certain, and add them as centers."""
        at_hand, limit = self._farthest()
        points = self._rows.take(at_hand)
        shifted, closest = points - self._mean, self._closest[at_hand]
        norms, chosen = self._norms[at_hand], []
        farthest = int(closest.argmax())
        while True:
            chosen.append(farthest)
            np.minimum(closest, squared_distances(shifted, norms, shifted[farthest : farthest + 1])[0], out=closest)
            farthest = int(closest.argmax())
            # A row outside of the kept ones may be as far away as the limit, and could be next.
            if len(chosen) == most or closest[farthest] <= limit:
                break
        self.add(points[chosen])
        return [int(row) for row in at_hand[chosen]]

    def _farthest(self) -> tuple[Ints, float]:
        """Return the farthest rows (on a tie, the first ones), and the largest distance that the others can have."""
        others = self._closest.size - AT_HAND
        if others <= 0:
            return np.arange(self._closest.size), 0.0
        limit = np.partition(self._closest, others)[others]
        beyond = np.flatnonzero(self._closest > limit)
        at_limit = np.flatnonzero(self._closest == limit)[: AT_HAND - beyond.size]
        return np.sort(np.concatenate([beyond, at_limit])), float(limit)


def mean_of(rows: Rows, workers: Workers) -> Singles:
    """Return the mean row, or refuse rows that are not finite."""
    total = np.zeros(rows.d)
    for block_sum in workers.map(rows, lambda _, block: block.sum(axis=0, dtype=np.float64)):
        total += block_sum
    if not np.isfinite(total).all():
        refuse_bad_row(rows)
    return (total / rows.n).astype(np.float32)


def lengths_about(rows: Rows, point: Singles, workers: Workers) -> Singles:
    """Return every row's squared distance to a point, or refuse a row whose distance overflows."""
    squared: Singles = by_block(workers.map(rows, lambda _, block: squared_lengths(block - point)))
    if not np.isfinite(squared).all():
        refuse_bad_row(rows)
    return squared


def squared_lengths(points: Singles) -> Singles:
    """Return ‖x‖² of every row."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.einsum("ij,ij->i", points, points))
