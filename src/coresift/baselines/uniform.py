"""Random rows: plain, without duplicates, evenly over clusters, or of matching lengths."""

from __future__ import annotations

from typing import Any

import numpy as np

from coresift.baselines.duplicates import group_duplicates
from coresift.baselines.making import BaselineTask, Watch, begin, flag
from coresift.checks import (
    InputError,
    named_options,
    positive,
    real_vector,
    refuse,
    row_numbers,
    whole,
)
from coresift.clustering import cluster
from coresift.engine import Engine
from coresift.errors import warn
from coresift.inclusion import deal
from coresift.rows import RowsLike, check_clustered
from coresift.types import Clustering, Floats, Ints, Selection

BINS = 10


@named_options
def uniform(
    rows: RowsLike,
    budget: int,
    *,
    seed: int = 0,
    given: Any = None,
    exclude: Any = None,
    engine: Engine | None = None,
    progress: Watch = None,
) -> Selection:
    """Draw rows uniformly without replacement; every drawn row has the same weight.

    Cost: no model call; the rows are not even read. Memory: a few numbers per row.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows to select, including the given ones.
        seed: The seed.
        given: Rows that are selected in any case.
        exclude: Rows that are never selected, and that the selection does not stand for.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        The drawn rows, with weights.

    Examples:
        >>> uniform(np.zeros((100, 2)), 10)
        WeightedSelection(10 of 100 rows, 0 losses asked, seed=0)
    """
    task = begin("uniform", rows, budget, seed, given, exclude, engine, progress)
    order = task.rng.permutation(task.open)
    return task.draw(order, np.ones(order.size))


@named_options
def deduplicated(
    rows: RowsLike,
    budget: int,
    *,
    seed: int = 0,
    given: Any = None,
    exclude: Any = None,
    near: float = 0.1,
    normalize: bool = False,
    engine: Engine | None = None,
    progress: Watch = None,
) -> Selection:
    """Draw groups of duplicates uniformly, and one random row of each; its weight stands for the group.

    Rows whose numbers are all equal are duplicates. So are rows that lie within `near` times the typical distance
    from the mean of an earlier row that stands for its group; coresift looks for them inside clusters of about a
    thousand rows (as SemDeDup does: Abbas et al. 2023), so some pairs across clusters remain. Rows are not compared
    with the given ones: totals would be biased without the copies of those.

    Cost: no model call; up to five passes, and a thousand distances per row. Memory: about 60 bytes per row, and
    that of the clustering.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows to select, including the given ones.
        seed: The seed.
        given: Rows that are selected in any case.
        exclude: Rows that are never selected, and that the selection does not stand for.
        near: How close duplicates are, relative to the typical distance from the mean; 0 removes exact copies only.
        normalize: Whether to give every row length 1 first.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        The drawn rows, with weights. If there are fewer groups than the budget, one row per group, with a warning.

    Examples:
        >>> picked = deduplicated(np.repeat(np.eye(3), [5, 1, 2], axis=0), 3)
        >>> sorted(picked.weights.tolist())
        [1.0, 2.0, 5.0]
    """
    near, normalize = positive("near", near, zero=True), flag("normalize", normalize)
    task = begin("deduplicated", rows, budget, seed, given, exclude, engine, progress, near=near, normalize=normalize)
    ids = task.open
    if not ids.size:
        return task.weighted(ids, np.zeros(0))
    groups = group_duplicates(task, task.view(ids, normalize=normalize), near)
    members = np.bincount(groups)
    mixed = task.rng.permutation(ids.size)
    _, first = np.unique(groups[mixed], return_index=True)
    one_each = task.rng.permutation(mixed[first])
    if one_each.size < task.room:
        warn(f"Asked for {task.room} rows, but only {one_each.size} are left without duplicates: all are selected.")
    drawn = one_each[: task.room]
    return task.weighted(ids[drawn], drawn.size / one_each.size / members[groups[drawn]])


@named_options
def cluster_stratified(
    rows: RowsLike,
    budget: int,
    *,
    seed: int = 0,
    given: Any = None,
    exclude: Any = None,
    clusters: int | Clustering | None = None,
    normalize: bool = False,
    engine: Engine | None = None,
    progress: Watch = None,
) -> Selection:
    """Deal the budget to clusters by size, at least one row each if it allows, and draw uniformly inside.

    Cost: no model call; one clustering. Memory: that of the clustering.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows to select, including the given ones.
        seed: The seed.
        given: Rows that are selected in any case.
        exclude: Rows that are never selected, and that the selection does not stand for.
        clusters: How many clusters, by default a tenth of the budget; or a `Clustering`.
        normalize: Whether to give every row length 1 first.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        The drawn rows, with weights.

    Examples:
        >>> rows = np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2]])
        >>> cluster_stratified(rows, 2, clusters=2).weights
        array([3., 3.])
    """
    normalize = flag("normalize", normalize)
    options = {"clusters": clusters, "normalize": normalize}
    task = begin("cluster-stratified", rows, budget, seed, given, exclude, engine, progress, **options)
    clustering = _clustering(task, clusters, normalize)
    order = task.rng.permutation(task.open)
    order = order[np.argsort(clustering.labels[order], kind="stable")]
    members = np.bincount(clustering.labels[order], minlength=clustering.k)
    dealt = deal(task.room * members / max(order.size, 1), members, task.room)
    sizes: Floats = (dealt / np.maximum(members, 1))[clustering.labels[order]]
    return task.draw(order, sizes, clustering=clustering)


@named_options
def length_matched(
    rows: RowsLike,
    budget: int,
    *,
    seed: int = 0,
    given: Any = None,
    exclude: Any = None,
    lengths: Any = None,
    like: Any = None,
    engine: Engine | None = None,
    progress: Watch = None,
) -> Selection:
    """Draw random texts whose lengths are spread like those of all texts, or like those of other chosen rows.

    By default the draw walks the rows from short to long at even steps, and each has the same weight. With `like`,
    each tenth of the lengths gets the part of the budget that it has among those rows: if another method beats this
    baseline, then not because of the lengths of what it picks.

    Cost: no model call; the rows are not read. Memory: a few numbers per row.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows to select, including the given ones.
        seed: The seed.
        given: Rows that are selected in any case.
        exclude: Rows that are never selected, and that the selection does not stand for.
        lengths: One number per row, or the texts themselves (then their characters are counted).
        like: A `Selection` or row numbers whose lengths to match, or None.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        The drawn rows, with weights by default, without weights if `like` is given.

    Examples:
        >>> length_matched(np.zeros((6, 1)), 3, lengths=["a", "b", "cc", "dd", "eeeee", "fffff"]).ids.size
        3
    """
    task = begin("length-matched", rows, budget, seed, given, exclude, engine, progress)
    sizes = _lengths(lengths, task.rows.n)
    task.options["lengths"] = f"{sizes.min():g} to {sizes.max():g}"
    order = task.rng.permutation(task.open)
    order = order[np.argsort(sizes[order], kind="stable")]
    if like is None:
        return task.draw(order, np.ones(order.size))
    reference = row_numbers("like", like.ids if isinstance(like, Selection) else like, task.rows.n)
    if not reference.size:
        refuse("like", "a Selection or row numbers, at least one", "none")
    task.options["like"] = f"{reference.size} rows"
    return task.choose(_matched(task, sizes, reference))


def _clustering(task: BaselineTask, clusters: int | Clustering | None, normalize: bool) -> Clustering:
    if not isinstance(clusters, Clustering):
        k = min(max(1, task.budget // 10), task.rows.n) if clusters is None else whole("clusters", clusters)
        return cluster(task.rows, k, seed=task.seed, normalize=normalize, engine=task.engine, progress=task.progress)
    check_clustered(clusters, task.rows)
    if normalize and not clusters.normalized:
        raise InputError("normalize=True needs a clustering of normalized rows; this one is not.")
    return clusters


def _lengths(lengths: Any, n: int) -> Floats:
    if lengths is None:
        refuse("lengths", f"a length or a text for each of {n} rows", "none")
    values = np.asarray(lengths)
    if values.dtype.kind in "UO" and values.ndim == 1 and all(isinstance(text, str) for text in values):
        values = np.fromiter(map(len, values), np.float64, values.size)
    found = real_vector("lengths", values, n)
    if found.min() < 0:
        refuse("lengths", "numbers of at least 0", found.min())
    return found


def _matched(task: BaselineTask, sizes: Floats, reference: Ints) -> Ints:
    """Return random open rows, as many of each tenth of the lengths as the reference asks for."""
    edges = np.quantile(sizes[task.counted], np.arange(1, BINS) / BINS)
    bins = np.searchsorted(edges, sizes, side="right")
    wanted = np.bincount(bins[reference], minlength=BINS)
    mixed = task.rng.permutation(task.open)
    mixed = mixed[np.argsort(bins[mixed], kind="stable")]
    members = np.bincount(bins[mixed], minlength=BINS)
    dealt = deal(task.room * wanted / reference.size, np.where(wanted > 0, members, 0), task.room)
    missing = task.room - int(dealt.sum())
    if missing:
        message = f"Only {dealt.sum()} rows are left of the lengths that like has: {missing} others are of any length."
        warn(message)
    place = np.arange(mixed.size) - np.repeat(np.cumsum(members) - members, members)
    return mixed[place < np.repeat(dealt, members)]
