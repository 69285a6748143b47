"""Snap free centers to rows: each center becomes the nearest row of its own cluster, and all are distinct."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from coresift.clustering.nearest import Codebook, Labels, distances_to, nearest
from coresift.clustering.refine import snap
from coresift.clustering.searches import Search
from coresift.clustering.space import take
from coresift.columns import fill, spans
from coresift.engine import Workers
from coresift.rows import Rows, refuse_bad_row
from coresift.scratch import copied, empty
from coresift.types import Ints, Singles

# A little less than a half, so that rounding cannot hide a row that is closer to an added center.
ALMOST_HALF = 0.499


@dataclass(frozen=True)
class Assignment:
    """Free centers, the rows chosen for them, and for every row its center and its distances to both."""

    free: Singles
    chosen: Ints
    labels: Labels
    free_distances: Singles
    distances: Singles
    path: str


Chooser = Callable[[Singles], Search]


def snap_all(rows: Rows, free: Singles, choose: Chooser, workers: Workers) -> Assignment:
    """Assign every row by the search that `choose` returns, and snap each center to a row."""
    search = choose(free)
    labels, free_distances = assign_rows(rows, search, workers)
    chosen = snap(labels, free_distances, len(free))
    filled = np.flatnonzero(chosen >= 0)
    twins = _first_equal(_take(rows, chosen[filled], workers))
    distinct = filled[twins == np.arange(len(twins))]
    if len(distinct) < len(filled):  # rounding gave two equal rows to different centers
        return snap_all(rows, free[distinct], choose, workers)
    numbers = np.full(len(free), -1, np.int32)
    numbers[filled] = np.arange(len(filled))
    labels = _renumber(labels, numbers)
    distances = _measure(rows, chosen[filled], labels, workers)
    return Assignment(free[filled], chosen[filled], labels, free_distances, distances, search.path)


def _renumber(labels: Labels, numbers: Labels) -> Labels:
    """Replace each label by its number, in place."""
    return fill(labels, lambda rows: numbers[labels[rows]])


def assign_rows(rows: Rows, search: Search, workers: Workers) -> tuple[Labels, Singles]:
    """Return the center of every row, by this search, and its distance."""

    def keep(start: int, block: Singles, labels: Labels, distances: Singles) -> tuple[Labels, Singles]:
        return labels, distances

    labels, distances = empty(rows.n, np.int32), empty(rows.n, np.float32)
    start = 0
    for block_labels, away in search.assign(rows, keep, workers, "assigning rows"):
        if not np.isfinite(away).all():
            refuse_bad_row(rows)
        labels[start : start + len(away)] = block_labels
        distances[start : start + len(away)] = away
        start += len(away)
    return labels, distances


def _measure(rows: Rows, chosen: Ints, labels: Labels, workers: Workers) -> Singles:
    centers = _take(rows, chosen, workers)

    def away(_: int, block: Singles, own: Labels) -> Singles:
        return distances_to(block, centers, own)

    distances, start = empty(rows.n, np.float32), 0
    for piece in workers.map(rows, away, beside=[labels], name="measuring distances"):
        distances[start : start + len(piece)] = piece
        start += len(piece)
    return distances


def _take(rows: Rows, ids: Ints, workers: Workers) -> Singles:
    """Return rows in the order of `ids`."""
    order = np.argsort(ids)
    points = np.empty((len(ids), rows.d), np.float32)
    points[order] = take(rows, ids[order], workers)
    return points


def fill_up(rows: Rows, k: int, assignment: Assignment, workers: Workers) -> Assignment:
    """Replace empty clusters: the rows farthest from their centers become centers, as long as any row differs."""
    while len(assignment.chosen) < k and assignment.distances.max() > 0:
        known, missing = len(assignment.chosen), k - len(assignment.chosen)
        far = farthest(assignment.distances, 2 * missing)
        far = far[assignment.distances[far] > 0]
        points, centers = rows.take(far), rows.take(assignment.chosen)
        twins = _first_equal(np.concatenate([centers, points]))[known:]
        added = np.flatnonzero(twins == known + np.arange(len(far)))[:missing]
        if not added.size:
            assignment = _join(assignment, far, points, twins.astype(np.int32))
            continue
        _move_closer(rows, centers, points[added], assignment, workers)
        # Rounding may assign a new center to one very close to it, but it belongs to itself.
        assignment.labels[far[added]] = known + np.arange(len(added))
        for away in (assignment.free_distances, assignment.distances):
            away[far[added]] = 0
        assignment = replace(
            assignment,
            free=np.concatenate([assignment.free, points[added]]),
            chosen=np.concatenate([assignment.chosen, far[added]]),
        )
    return assignment


def _move_closer(rows: Rows, centers: Singles, added: Singles, assignment: Assignment, workers: Workers) -> None:
    """Assign rows that are closer to an added center to it, in place.

    By the triangle inequality, these are at least half as far from their center as the nearest added center is.
    """
    codebook = Codebook.of(added)
    least = nearest(centers, codebook)[1] * np.float32(ALMOST_HALF)

    def near(start: int, block: Singles, labels: Labels, distances: Singles) -> tuple[Ints, Labels, Singles]:
        far_enough = np.flatnonzero(distances >= least[labels])
        return start + far_enough, *nearest(block[far_enough], codebook)

    beside = [assignment.labels, assignment.distances]
    for ids, labels, distances in workers.map(rows, near, beside=beside, name="assigning rows"):
        closer = distances < assignment.distances[ids]
        moved, from_added = ids[closer], distances[closer]
        assignment.labels[moved] = labels[closer] + np.int32(len(centers))
        assignment.distances[moved] = from_added
        assignment.free_distances[moved] = from_added


def farthest(distances: Singles, count: int) -> Ints:
    """Return the rows of the largest distances, largest first; of equal ones, those of lower numbers.

    >>> farthest(np.array([1, 3, 2, 3], np.float32), 3)
    array([1, 3, 2])
    """
    best = np.zeros(0, np.int64)
    for rows in spans(distances.size):
        ids = np.concatenate([best, np.arange(rows.start, rows.stop)])
        best = ids[np.argsort(-distances[ids], kind="stable")[:count]]
    return best


def _join(assignment: Assignment, rows: Ints, points: Singles, labels: Labels) -> Assignment:
    """Assign rows to the centers that they equal, which rounding had prevented."""
    joined = replace(
        assignment,
        labels=copied(assignment.labels, np.int32),
        free_distances=copied(assignment.free_distances, np.float32),
        distances=copied(assignment.distances, np.float32),
    )
    joined.labels[rows], joined.distances[rows] = labels, 0
    joined.free_distances[rows] = distances_to(points, assignment.free, labels)
    return joined


def _first_equal(points: Singles) -> Ints:
    """Return for each row the position of the first row that equals it."""
    plain = np.ascontiguousarray(points + np.float32(0))  # −0 becomes 0
    _, first, inverse = np.unique(plain.view(f"V{plain[0].nbytes}").ravel(), return_index=True, return_inverse=True)
    return first[inverse]
