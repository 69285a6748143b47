"""Clusters that never cross a class: each class gets a number of centers and is clustered alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError, refuse
from coresift.clustering.nearest import Labels, distances_to
from coresift.clustering.refine import sum_by_label
from coresift.clustering.snapping import Assignment
from coresift.columns import counts, spans
from coresift.engine import SerialWorkers, Workers
from coresift.inclusion import deal, parts
from coresift.order import by_cluster
from coresift.progress import Progress
from coresift.rows import Rows, first_bad_row, open_rows, refuse_bad_row
from coresift.scratch import empty
from coresift.types import Floats, Ints, Singles

# Classes are read into memory together up to this many numbers; a larger class is read block by block.
HELD = 2**25

Finder = Callable[[Rows, int, Workers, Progress], Assignment]


def encode(strata: Any, rows: Rows) -> Labels:
    """Return the class of every row as a number; classes are numbered in the order of their first rows.

    `strata` is one label per row, of any hashable kind, or the name of a column of the table that
    the rows come from.

    >>> encode(["b", "a", "b"], open_rows(np.eye(3)))
    array([0, 1, 0], dtype=int32)
    """
    labels = _as_labels(rows.labels(strata) if isinstance(strata, str) else strata)
    if labels.shape != (rows.n,):
        refuse("strata", f"one label for each of {rows.n} rows", f"shape {labels.shape}")
    distinct, codes = _by_sorting(labels) if labels.dtype.kind in "iubfUS" else _by_hashing(labels)
    missing = [code for code, label in enumerate(distinct) if _is_missing(label)]
    if missing:
        raise InputError(
            f"strata must have a label for every row; row {int(np.isin(codes, missing).argmax())} has none "
            f"({np.count_nonzero(np.isin(codes, missing))} of {rows.n} rows)."
        )
    return codes


def find_within(
    rows: Rows, classes: Labels, k: int, find: Finder, workers: Workers, progress: Progress
) -> tuple[Assignment, Ints]:
    """Cluster each class with `find`; return one result for all rows, and the class of each cluster."""
    order, ends = by_cluster(classes, int(classes.max()) + 1)
    members = np.split(order, ends[:-1])
    if k < len(members):
        refuse("k", f"at least {len(members)}, one cluster for each class in strata", k)
    try:
        assignments = _find_each(rows, members, measure_spread(rows, classes, workers), k, find, workers, progress)
    except InputError:
        # A class has its own row numbers, but the message must have the user's.
        if first_bad_row(rows) is not None:
            refuse_bad_row(rows)
        raise
    return _combine(members, assignments), np.repeat(
        np.arange(len(members)), [len(part.chosen) for part in assignments]
    )


def share_centers(spread: Floats, limits: Ints, k: int) -> Ints:
    """Return how many of k centers each class gets: in proportion to its spread, at least 1, at most its limit.

    >>> share_centers(np.array([6.0, 3.0, 0.0]), np.array([10, 10, 2]), 7)
    array([4, 2, 1])
    """
    wishes, left = np.zeros(spread.size), np.ones(spread.size, np.bool_)
    while left.any():
        wishes[left] = (k - limits[~left].sum()) * parts(spread[left])
        full = left & (wishes > limits)
        if not full.any():
            break
        wishes[full] = limits[full]
        left &= ~full
    return deal(wishes, limits, k)


def measure_spread(rows: Rows, classes: Labels, workers: Workers) -> Floats:
    """Return Σ‖e − m‖ over the rows of each class, where m is their mean: its size times its mean spread."""
    count = int(classes.max()) + 1

    def add_up(_: int, block: Singles, own: Labels) -> tuple[Ints, Floats]:
        with np.errstate(over="ignore", invalid="ignore"):
            return sum_by_label(block, own, np.ones(len(block)))

    def reach(_: int, block: Singles, own: Labels) -> Floats:
        return np.bincount(own, distances_to(block, means, own), count).astype(np.float64)

    sums = np.zeros((count, rows.d))
    for present, block_sums in workers.map(rows, add_up, beside=[classes], name="measuring classes"):
        sums[present] += block_sums
    if not np.isfinite(sums).all():
        refuse_bad_row(rows)
    means = (sums / counts(classes, count)[:, None]).astype(np.float32)
    spread = np.zeros(count)
    for block_spread in workers.map(rows, reach, beside=[classes], name="measuring classes"):
        spread += block_spread
    if not np.isfinite(spread).all():
        refuse_bad_row(rows)
    return spread


def _find_each(
    rows: Rows, members: list[Ints], spread: Floats, k: int, find: Finder, workers: Workers, progress: Progress
) -> list[Assignment]:
    limits = np.array([ids.size for ids in members])
    assignments: dict[int, Assignment] = {}
    together = _Together(limits)
    while True:
        shares = share_centers(spread, limits, k)
        asked = [
            code
            for code, share in enumerate(shares)
            if code not in assignments or len(assignments[code].chosen) != share
        ]
        if not asked:
            return [assignments[code] for code in range(len(members))]
        results = _find_some(rows, [members[code] for code in asked], shares[asked], find, workers, progress)
        assignments.update((code, together.put(code, result)) for code, result in zip(asked, results, strict=True))
        # Centers that a class with few distinct rows cannot use go to the others.
        used = np.array([len(assignments[code].chosen) for code in range(len(members))])
        limits = np.where(used < shares, used, limits)


class _Together:
    """Labels and distances of all classes, one after the other, so that many small classes take no memory either."""

    def __init__(self, sizes: Ints) -> None:
        n = int(sizes.sum())
        self._labels, self._free_distances, self._distances = (
            empty(n, kind) for kind in (np.int32, np.float32, np.float32)
        )
        self._bounds = np.concatenate([[0], np.cumsum(sizes)])

    def put(self, code: int, assignment: Assignment) -> Assignment:
        """Return the assignment of a class with its arrays stored here."""
        here = slice(self._bounds[code], self._bounds[code + 1])
        self._labels[here] = assignment.labels
        self._free_distances[here], self._distances[here] = assignment.free_distances, assignment.distances
        return replace(
            assignment,
            labels=self._labels[here],
            free_distances=self._free_distances[here],
            distances=self._distances[here],
        )


def _find_some(
    rows: Rows, members: list[Ints], shares: Ints, find: Finder, workers: Workers, progress: Progress
) -> Iterator[Assignment]:
    for group in gather([ids.size * rows.d for ids in members], HELD):
        first = members[group[0]]
        if first.size * rows.d > HELD:
            yield find(rows.subset(first), int(shares[group[0]]), workers, progress)
            continue
        ids = [members[place] for place in group]
        held = np.split(rows.take(np.concatenate(ids)), np.cumsum([len(numbers) for numbers in ids])[:-1])
        tasks = list(zip(held, shares[group].tolist(), strict=True))
        # Each small class is one task, so that all cores are busy.
        yield from workers.each(
            tasks,
            lambda task: find(open_rows(task[0]), task[1], SerialWorkers(), Progress()),
            name="clustering classes",
        )


def gather(numbers: list[int], limit: int) -> list[list[int]]:
    """Split places, in their order, into groups of at most `limit` numbers; a larger one is a group of its own.

    >>> gather([2, 3, 9, 1, 4], limit=5)
    [[0, 1], [2], [3, 4]]
    """
    groups: list[list[int]] = []
    room = 0
    for place, size in enumerate(numbers):
        if not groups or size > room:
            groups.append([])
            room = limit
        groups[-1].append(place)
        room -= size
    return groups


def _combine(members: list[Ints], assignments: list[Assignment]) -> Assignment:
    """Return one result for all rows; clusters are numbered class by class."""
    n = sum(ids.size for ids in members)
    labels, free_distances, distances = (empty(n, kind) for kind in (np.int32, np.float32, np.float32))
    chosen, done = [], 0
    for members_of_class, part in zip(members, assignments, strict=True):
        chosen.append(members_of_class[part.chosen])
        for rows in spans(members_of_class.size):
            ids = members_of_class[rows]
            labels[ids] = part.labels[rows] + np.int32(done)
            free_distances[ids], distances[ids] = part.free_distances[rows], part.distances[rows]
        done += len(part.chosen)
    paths = sorted({part.path for part in assignments})
    return Assignment(
        free=np.concatenate([part.free for part in assignments]),
        chosen=np.concatenate(chosen),
        labels=labels,
        free_distances=free_distances,
        distances=distances,
        path=f"within classes: {'; '.join(paths)}",
    )


def _as_labels(labels: Any) -> NDArray[Any]:
    if isinstance(labels, np.ma.MaskedArray):
        labels = labels.tolist()  # masked labels become None
    if hasattr(labels, "__array__"):
        return np.asarray(labels)
    # numpy would convert a list to one type, but 1 and "1" must stay two labels.
    items = list(labels) if isinstance(labels, Iterable) else [labels]
    array = np.empty(len(items), object)
    array[:] = items
    return array


def _by_sorting(labels: NDArray[Any]) -> tuple[list[Any], Labels]:
    codes, known = empty(labels.size, np.int32), dict[Any, int]()
    for rows in spans(labels.size):
        distinct, first, inverse = np.unique(labels[rows], return_index=True, return_inverse=True)
        numbers = np.empty(distinct.size, np.int32)
        order = np.argsort(first)
        for place, label in zip(order.tolist(), distinct[order].tolist(), strict=True):
            numbers[place] = known.setdefault(label, len(known))
        codes[rows] = numbers[inverse]
    codes.setflags(write=False)  # read-only arrays are passed on without a copy
    return list(known), codes


def _by_hashing(labels: NDArray[Any]) -> tuple[list[Any], Labels]:
    seen: dict[Any, int] = {}
    try:
        codes = np.fromiter((seen.setdefault(label, len(seen)) for label in labels), np.int32, labels.size)
    except TypeError:
        odd = next(label for label in labels if not isinstance(label, Hashable))
        refuse("strata", "labels such as whole numbers or texts", repr(odd))
    return list(seen), codes


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)  # noqa: PLR0124 (NaN and NaT are not equal to themselves)
    except (TypeError, ValueError):  # pandas' NA is neither equal nor unequal to itself
        return True
