"""Move centers from where they are hardly needed to clusters that are better split.

Lloyd steps never do this: two centers that share one cluster stay there, and so does one center of two clusters. Here,
the increase of the cost if a center is removed is compared with the decrease if a cluster is split in two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coresift.clustering.kernels import add_rows, score_listed
from coresift.clustering.nearest import Labels
from coresift.clustering.space import pieces_of
from coresift.engine import Workers
from coresift.types import Bools, Floats, Ints, Singles

# At most one center in this many moves.
MOVED = 8
ROWS_PER_TASK = 8192


@dataclass(frozen=True)
class Moves:
    """Which centers to remove, which clusters to split instead, the means of the halves of these (m×2×d), and by how
    much the cost is expected to fall."""

    removed: Ints
    divided: Ints
    halves: Singles
    gain: float


def exchange(points: Singles, centers: Singles, nearest: Labels, scores: Singles, workers: Workers) -> Moves:
    """Return the moves that lower the cost.

    `points` end with a column of ones; `nearest` and `scores` are the two nearest centers of each point and
    x·c − ‖c‖²/2. Each move lowers Σ ‖x − c‖² if no other center nearby moves, so Lloyd steps should follow.
    """
    k = len(centers)
    squares = np.einsum("ij,ij->i", points[:, :-1], points[:, :-1]) - 2 * scores[0]
    losses = np.bincount(nearest[0], 2 * (scores[0] - scores[1]), k).astype(np.float64)
    halves, gains = split(points, centers, nearest[0], squares, workers)
    removed = least_needed(losses, nearest[0], nearest[1], k // MOVED)
    gains[removed] = -np.inf
    divided = np.argsort(-gains, kind="stable")[: removed.size]
    worth = np.count_nonzero(gains[divided] > losses[removed])  # gains fall, and losses rise
    removed, divided = removed[:worth], divided[:worth]
    return Moves(removed, divided, halves[divided], float((gains[divided] - losses[removed]).sum()))


def least_needed(losses: Floats, first: Labels, second: Labels, most: int) -> Ints:
    """Return centers in ascending order of `losses`, the increase of the cost if one is removed, but not its heir.

    The heir is the second nearest center of most of the rows whose first is removed. It must stay.
    """
    k = len(losses)
    pairs, counts = np.unique(first.astype(np.int64) * k + second, return_counts=True)
    pairs = pairs[np.argsort(counts, kind="stable")]
    heirs = np.full(k, -1)
    heirs[pairs // k] = pairs % k  # of several heirs, the last one stays, which has the most rows
    removed: dict[int, None] = {}
    kept: set[int] = set()
    for center in np.argsort(losses, kind="stable").tolist():
        heir = int(heirs[center])
        if len(removed) < most and center not in kept and heir not in removed:
            removed[center] = None
            kept.add(heir)
    return np.array(list(removed), np.int64)


def split(
    points: Singles, centers: Singles, labels: Labels, squares: Singles, workers: Workers
) -> tuple[Singles, Floats]:
    """Return the means of both halves of every cluster, k×2×d, and by how much the split lowers the sum of squares.

    A cluster is split by the plane through its center, across the direction of its farthest row; `squares` are the
    squared distances.
    """
    k, order = len(centers), np.argsort(squares, kind="stable")
    farthest = np.zeros(k, np.int64)
    farthest[labels[order]] = order  # of a center's rows, the last one stays
    across = points[farthest, :-1] - centers
    across = np.column_stack([across, -np.einsum("ij,ij->i", across, centers)])

    def beyond(piece: Ints) -> Bools:
        return score_listed(points, piece, across, labels[piece, None])[:, 0] > 0

    pieces = pieces_of(np.arange(len(points)), ROWS_PER_TASK)
    halves = 2 * labels + np.concatenate(list(workers.each(pieces, beyond)))
    sums = np.zeros((2 * k, points.shape[1]))
    add_rows(points, halves, np.ones(len(points)), sums)
    sizes = sums[:, -1].reshape(k, 2)
    means = (sums[:, :-1] / np.maximum(sums[:, -1:], 1)).reshape(k, 2, -1)
    gains = sizes.prod(axis=1) / np.maximum(sizes.sum(axis=1), 1) * ((means[:, 1] - means[:, 0]) ** 2).sum(axis=1)
    return means.astype(np.float32), gains
