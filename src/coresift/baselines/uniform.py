"""Draw random rows: uniformly, without duplicates, stratified by cluster, or with matching lengths."""

from __future__ import annotations

from typing import Any

import numpy as np

from coresift.baselines.duplicates import group_duplicates
from coresift.baselines.making import BaselineTask, ProgressLike, begin, flag
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
    progress: ProgressLike = None,
) -> Selection:
    """Draw rows uniformly without replacement; every drawn row has the same weight.

    Cost: no model call; the rows are not read. Memory: a few numbers per row.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows to select, including the given ones.
        seed: The seed.
        given: Rows that are always selected.
        exclude: Rows that are never selected, and that the selection does not represent.
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
    progress: ProgressLike = None,
) -> Selection:
    """Draw groups of duplicates uniformly, and one random row from each; its weight represents the whole group.

    Rows whose numbers are all equal are duplicates. So are rows that are closer to the first row of a group than
    `near` times the typical distance from the mean. Those are searched within clusters of about a thousand rows (like
    SemDeDup, Abbas et al. 2023), so some pairs across clusters remain. Rows are not compared with the given rows, since
    leaving out copies of those would bias totals.

    Cost: no model call; up to five passes, and a thousand distances per row. Memory: about 60 bytes per row, and
    that of the clustering.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows to select, including the given ones.
        seed: The seed.
        given: Rows that are always selected.
        exclude: Rows that are never selected, and that the selection does not represent.
        near: How close duplicates are, relative to the typical distance from the mean; 0 removes only exact copies.
        normalize: Whether to scale every row to length 1 first.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        The drawn rows, with weights. With fewer groups than the budget, there is one row per group, and a warning.

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
    shuffled = task.rng.permutation(ids.size)
    _, first = np.unique(groups[shuffled], return_index=True)
    representatives = task.rng.permutation(shuffled[first])
    if representatives.size < task.room:
        warn(
            f"Asked for {task.room} rows, but only {representatives.size} are left without duplicates: "
            "all are selected."
        )
    drawn = representatives[: task.room]
    return task.weighted(ids[drawn], drawn.size / representatives.size / members[groups[drawn]])


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
    progress: ProgressLike = None,
) -> Selection:
    """Allocate the budget to clusters in proportion to size, at least one row each if possible, and draw uniformly.

    Cost: no model call; one clustering. Memory: that of the clustering.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows to select, including the given ones.
        seed: The seed.
        given: Rows that are always selected.
        exclude: Rows that are never selected, and that the selection does not represent.
        clusters: How many clusters, by default a tenth of the budget; or a `Clustering`.
        normalize: Whether to scale every row to length 1 first.
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
    allocation = deal(task.room * members / max(order.size, 1), members, task.room)
    sizes: Floats = (allocation / np.maximum(members, 1))[clustering.labels[order]]
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
    progress: ProgressLike = None,
) -> Selection:
    """Draw random texts whose lengths are distributed like those of all texts, or like those of other chosen rows.

    By default the draw is systematic from short to long, and all rows have the same weight. With `like`, each tenth of
    the lengths gets the same share of the budget as it has among those rows, so a method that beats this baseline does
    not owe it to the lengths of the rows it picks.

    Cost: no model call; the rows are not read. Memory: a few numbers per row.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows to select, including the given ones.
        seed: The seed.
        given: Rows that are always selected.
        exclude: Rows that are never selected, and that the selection does not represent.
        lengths: One number per row, or the texts themselves, whose characters are counted.
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
    checked = real_vector("lengths", values, n)
    if checked.min() < 0:
        refuse("lengths", "numbers of at least 0", checked.min())
    return checked


def _matched(task: BaselineTask, sizes: Floats, reference: Ints) -> Ints:
    """Return random open rows with the reference's share of each tenth of the lengths."""
    edges = np.quantile(sizes[task.counted], np.arange(1, BINS) / BINS)
    bins = np.searchsorted(edges, sizes, side="right")
    reference_counts = np.bincount(bins[reference], minlength=BINS)
    shuffled = task.rng.permutation(task.open)
    shuffled = shuffled[np.argsort(bins[shuffled], kind="stable")]
    members = np.bincount(bins[shuffled], minlength=BINS)
    allocation = deal(
        task.room * reference_counts / reference.size, np.where(reference_counts > 0, members, 0), task.room
    )
    missing = task.room - int(allocation.sum())
    if missing:
        warn(f"Only {allocation.sum()} rows have the lengths of like: {missing} others are of any length.")
    rank = np.arange(shuffled.size) - np.repeat(np.cumsum(members) - members, members)
    return shuffled[rank < np.repeat(allocation, members)]
