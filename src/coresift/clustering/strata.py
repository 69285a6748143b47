"""Clusters that never cross a class: centers are shared out over the classes, and each class is clustered alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError, refuse
from coresift.clustering.nearest import Labels, distances_to
from coresift.clustering.refine import sum_by_label
from coresift.clustering.snapping import Found
from coresift.engine import SerialWorkers, Workers
from coresift.inclusion import deal, parts
from coresift.progress import Progress
from coresift.rows import Rows, first_bad_row, open_rows, refuse_bad_row
from coresift.types import Floats, Ints, Singles

# Classes are read into memory together up to so many numbers; a larger class is read block by block.
HELD = 2**25

Finder = Callable[[Rows, int, Workers, Progress], Found]


def encode(strata: Any, rows: Rows) -> Labels:
    """Return the class of every row as a number; classes are counted as they first appear.

    `strata` is one label per row, of any kind that a dict takes for a key, or the name of a column of the table that
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
) -> tuple[Found, Ints]:
    """Return the clusters that `find` makes of each class, as one, and the class of each cluster."""
    members = np.split(np.argsort(classes, kind="stable"), np.cumsum(np.bincount(classes))[:-1])
    if k < len(members):
        refuse("k", f"at least {len(members)}, one cluster for each class in strata", k)
    try:
        found = _find_each(rows, members, measure_spread(rows, classes, workers), k, find, workers, progress)
    except InputError:
        # A class numbers its rows by itself; the sentence is to name the row as the user knows it.
        if first_bad_row(rows) is not None:
            refuse_bad_row(rows)
        raise
    return _combine(members, found), np.repeat(np.arange(len(members)), [len(one.chosen) for one in found])


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
    """Return Σ‖e − m‖ over the rows of each class, m their mean: its size times how far its rows reach."""
    count = int(classes.max()) + 1

    def add_up(_: int, block: Singles, own: Labels) -> tuple[Ints, Floats]:
        with np.errstate(over="ignore", invalid="ignore"):
            return sum_by_label(block, own, np.ones(len(block)))

    def reach(_: int, block: Singles, own: Labels) -> Floats:
        return np.bincount(own, distances_to(block, means, own), count).astype(np.float64)

    sums = np.zeros((count, rows.d))
    for present, some in workers.map(rows, add_up, beside=[classes], name="measuring classes"):
        sums[present] += some
    if not np.isfinite(sums).all():
        refuse_bad_row(rows)
    means = (sums / np.bincount(classes)[:, None]).astype(np.float32)
    spread = np.zeros(count)
    for some in workers.map(rows, reach, beside=[classes], name="measuring classes"):
        spread += some
    if not np.isfinite(spread).all():
        refuse_bad_row(rows)
    return spread


def _find_each(
    rows: Rows, members: list[Ints], spread: Floats, k: int, find: Finder, workers: Workers, progress: Progress
) -> list[Found]:
    limits = np.array([ids.size for ids in members])
    found: dict[int, Found] = {}
    while True:
        shares = share_centers(spread, limits, k)
        asked = [code for code, share in enumerate(shares) if code not in found or len(found[code].chosen) != share]
        if not asked:
            return [found[code] for code in range(len(members))]
        some = _find_some(rows, [members[code] for code in asked], shares[asked], find, workers, progress)
        found.update(zip(asked, some, strict=True))
        # What a class with few distinct rows cannot use goes to the others.
        counts = np.array([len(found[code].chosen) for code in range(len(members))])
        limits = np.where(counts < shares, counts, limits)


def _find_some(
    rows: Rows, members: list[Ints], shares: Ints, find: Finder, workers: Workers, progress: Progress
) -> Iterator[Found]:
    for group in gather([ids.size * rows.d for ids in members], HELD):
        first = members[group[0]]
        if first.size * rows.d > HELD:
            yield find(rows.subset(first), int(shares[group[0]]), workers, progress)
            continue
        ids = [members[place] for place in group]
        held = np.split(rows.take(np.concatenate(ids)), np.cumsum([len(some) for some in ids])[:-1])
        tasks = list(zip(held, shares[group].tolist(), strict=True))
        # Small classes are one task each, so that all cores have something to do.
        yield from workers.each(
            tasks,
            lambda task: find(open_rows(task[0]), task[1], SerialWorkers(), Progress()),
            name="clustering classes",
        )


def gather(numbers: list[int], limit: int) -> list[list[int]]:
    """Split places, in their order, into groups of at most `limit` numbers; one with more stands alone.

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


def _combine(members: list[Ints], found: list[Found]) -> Found:
    """Return one result for all rows; clusters are numbered class by class."""
    n = sum(ids.size for ids in members)
    labels, free_distances, distances = np.empty(n, np.int32), np.empty(n, np.float32), np.empty(n, np.float32)
    chosen, done = [], 0
    for ids, one in zip(members, found, strict=True):
        chosen.append(ids[one.chosen])
        labels[ids] = one.labels + np.int32(done)
        free_distances[ids], distances[ids] = one.free_distances, one.distances
        done += len(one.chosen)
    paths = sorted({one.path for one in found})
    return Found(
        free=np.concatenate([one.free for one in found]),
        chosen=np.concatenate(chosen),
        labels=labels,
        free_distances=free_distances,
        distances=distances,
        path=f"within classes: {'; '.join(paths)}",
    )


def _as_labels(labels: Any) -> NDArray[Any]:
    if isinstance(labels, np.ma.MaskedArray):
        labels = labels.tolist()  # what is masked becomes None
    if hasattr(labels, "__array__"):
        return np.asarray(labels)
    # Of a list numpy would make one type: 1 and "1" must stay two labels.
    items = list(labels) if isinstance(labels, Iterable) else [labels]
    found = np.empty(len(items), object)
    found[:] = items
    return found


def _by_sorting(labels: NDArray[Any]) -> tuple[list[Any], Labels]:
    distinct, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(order.size, np.int32)
    rank[order] = np.arange(order.size)
    return distinct[order].tolist(), rank[inverse]


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
