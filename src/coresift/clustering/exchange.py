"""Move centers from where they are hardly needed to clusters that are better split.

Lloyd steps never do this: two centers that share one cluster stay there, and so does one center of two clusters. Here,
the increase of the cost if a center is removed is compared with the decrease if a cluster is split in two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coresift.clustering.kernels import add_rows, score_listed
from coresift.clustering.nearest import Labels, order_by
from coresift.clustering.space import pieces_of
from coresift.engine import Workers
from coresift.types import Bools, Floats, Ints, Singles

# At most one center in this many moves.
MOVED = 8
ROWS_PER_TASK, COLUMNS_PER_TASK = 8192, 32


@dataclass(frozen=True)
class Moves:
    """Centers to remove, the clusters to split instead, the means of the halves of each (m×2×d), and by how much all of
    this lowers Σ ‖x − c‖²."""

    removed: Ints
    divided: Ints
    halves: Singles
    gain: float


def exchange(
    points: Singles, centers: Singles, nearest: Labels, scores: Singles, norms: Singles, workers: Workers
) -> Moves:
    """Return which centers to move into other clusters.

    `points` end with a column of ones, and `norms` are their squared lengths without it; `nearest` and `scores` are the
    two nearest centers of each point and x·c − ‖c‖²/2. The gain is right if no center that moves is near another one
    that does.
    """
    k = len(centers)
    halves, gains = split(points, centers, nearest[0], norms - 2 * scores[0], workers)
    heirs = heirs_of(nearest, k)
    losses = np.bincount(nearest[0], 2 * (scores[0] - scores[1]), k) - relief(points, centers, nearest, heirs, workers)
    removed = least_needed(losses, heirs, k // MOVED)
    gains[removed] = -np.inf
    divided = np.argsort(-gains, kind="stable")[: removed.size]
    worth = np.count_nonzero(gains[divided] > losses[removed])  # gains fall, and losses rise
    removed, divided = removed[:worth], divided[:worth]
    return Moves(removed, divided, halves[divided], float((gains[divided] - losses[removed]).sum()))


def heirs_of(nearest: Labels, k: int) -> Ints:
    """Return for each center its heir, the second nearest center of most of its rows, or −1 if it has no rows."""
    pairs, counts = np.unique(nearest[0].astype(np.int64) * k + nearest[1], return_counts=True)
    pairs = pairs[np.argsort(counts, kind="stable")]
    heirs = np.full(k, -1)
    heirs[pairs // k] = pairs % k  # of several heirs, the last one stays, which has the most rows
    return heirs


def relief(points: Singles, centers: Singles, nearest: Labels, heirs: Ints, workers: Workers) -> Floats:
    """Return for each center, if it is removed, by how much its heir lowers the cost when it moves to the mean of all
    its rows, old and new."""
    first, second = nearest
    passed = np.flatnonzero(heirs[first] == second)
    sums = np.zeros((len(centers), points.shape[1]))
    add_by_columns(points, first[passed], np.ones(len(passed)), sums, passed, workers)
    new = sums[:, -1:]
    away = sums[:, :-1] / np.maximum(new, 1) - centers[heirs]
    old = np.bincount(first, minlength=len(centers))[heirs]
    return np.asarray(new[:, 0] ** 2 / np.maximum(old + new[:, 0], 1) * (away**2).sum(axis=1))


def least_needed(losses: Floats, heirs: Ints, most: int) -> Ints:
    """Return centers in ascending order of `losses`, the increase of the cost if one is removed.

    An heir must stay, and no two centers have the same one.
    """
    removed: dict[int, None] = {}
    kept: set[int] = set()
    for center in np.argsort(losses, kind="stable").tolist():
        heir = int(heirs[center])
        if len(removed) < most and center not in kept and heir not in removed and heir not in kept:
            removed[center] = None
            if heir >= 0:
                kept.add(heir)
    return np.array(list(removed), np.int64)


def split(
    points: Singles, centers: Singles, labels: Labels, squares: Singles, workers: Workers
) -> tuple[Singles, Floats]:
    """Return the means of both halves of every cluster, k×2×d, and by how much the split lowers the sum of squares.

    A cluster is split by the plane through its center, across the direction of its farthest row; `squares` are the
    squared distances.
    """
    k, order = len(centers), order_by(labels)
    placed, away = labels[order], squares[order]
    starts = np.flatnonzero(np.diff(placed, prepend=-1))
    most = np.repeat(np.maximum.reduceat(away, starts), np.diff(starts, append=len(order)))
    last = np.flatnonzero(away == most)
    farthest = np.zeros(k, np.int64)
    farthest[placed[last]] = order[last]  # of a center's farthest rows, the last one stays
    across = points[farthest, :-1] - centers
    across = np.column_stack([across, -np.einsum("ij,ij->i", across, centers)])

    def beyond(piece: Ints) -> Bools:
        return score_listed(points, piece, across, labels[piece, None])[:, 0] > 0

    pieces = pieces_of(np.arange(len(points)), ROWS_PER_TASK)
    halves = 2 * labels + np.concatenate(list(workers.each(pieces, beyond)))
    sums = np.zeros((2 * k, points.shape[1]))
    add_by_columns(points, halves, np.ones(len(points)), sums, None, workers)
    sizes = sums[:, -1].reshape(k, 2)
    means = (sums[:, :-1] / np.maximum(sums[:, -1:], 1)).reshape(k, 2, -1)
    gains = sizes.prod(axis=1) / np.maximum(sizes.sum(axis=1), 1) * ((means[:, 1] - means[:, 0]) ** 2).sum(axis=1)
    return means.astype(np.float32), gains


def add_by_columns(
    points: Singles, labels: Labels, weights: Floats, sums: Floats, ids: Ints | None, workers: Workers
) -> None:
    """Add points times their weights to the sums of their labels, many points in several tasks."""
    width = points.shape[1]
    step = COLUMNS_PER_TASK if len(labels) > ROWS_PER_TASK else width

    def add(start: int) -> None:
        here = slice(start, start + step)
        add_rows(points[:, here], labels, weights, sums[:, here], ids)

    for _ in workers.each(range(0, width, step), add):
        pass
