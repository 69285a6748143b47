"""Rows that cover all rows, the important ones first: for labeling and training in one shot."""

from __future__ import annotations

from typing import Any

import numpy as np

from coresift.baselines.making import Task, Watch, begin, flag
from coresift.checks import real_vector, refuse
from coresift.engine import Engine
from coresift.facility import Coverage, cover_rows
from coresift.progress import stage
from coresift.types import Floats, Selection


def cover(
    rows: Any,
    budget: int,
    *,
    importance: Any = None,
    given: Any = None,
    exclude: Any = None,
    normalize: bool = False,
    seed: int = 0,
    engine: Engine | None = None,
    progress: Watch = None,
) -> Selection:
    """Choose rows such that every row has one of them near, the more so the more important it is. No weights.

    The rows S are chosen greedily to maximize Σᵢ uᵢ·max_{j ∈ S ∪ given} exp(−‖xᵢ − xⱼ‖²/2h²): importance-weighted
    facility location. The bandwidth h is 0.7 times the median distance between neighbors among the given rows and as
    many random ones as there is room for, so it shrinks as the budget grows.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows come out, the given ones included.
        importance: u, a number of at least 0 per row: a loss, a gradient norm, a model's uncertainty. By default all
            rows count the same.
        given: Rows that are chosen already; they come out too, and cover their neighbors.
        exclude: Rows that can neither come out nor need to be covered.
        normalize: Give every row length 1 first, for embeddings that are compared by cosine.
        seed: Draws the rows that the bandwidth is measured on, and the groups.
        engine: What runs the row blocks.
        progress: Whether to show a bar.

    Returns:
        The selection; `order` is the order of choice, and `provenance` says how the rows were chosen. Use
        `cover_with_members` to learn which rows each of them stands for.

    Up to 8,192 rows the greedy choice is exact, with at least 1 − 1/e of the largest possible sum. Of more rows, groups
    of about 1,000 neighbors choose separately in three stages, and their choices are merged by what each adds.

    Cost: no model call. Memory: 2 bytes per number (up to 800 MB; of more rows a sample is read), 60 bytes per row.

    Examples:
        >>> cover(np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0], [20.0], [21.0], [22.0]]), 3).ids
        array([1, 4, 7])
    """
    return cover_with_members(
        rows,
        budget,
        importance=importance,
        given=given,
        exclude=exclude,
        normalize=normalize,
        seed=seed,
        engine=engine,
        progress=progress,
    )[0]


def cover_with_members(
    rows: Any,
    budget: int,
    *,
    importance: Any = None,
    given: Any = None,
    exclude: Any = None,
    normalize: bool = False,
    seed: int = 0,
    engine: Engine | None = None,
    progress: Watch = None,
) -> tuple[Selection, Coverage]:
    """Do what `cover` does, and return with the selection which of its rows stands for each row.

    The coverage is about the rows that are not excluded, numbered from 0: `labels` has an entry for each.

    Examples:
        >>> values = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0], [20.0], [21.0], [22.0]])
        >>> selection, coverage = cover_with_members(values, 3)
        >>> coverage.members[coverage.labels]
        array([1, 1, 1, 4, 4, 4, 7, 7, 7])
    """
    normalize = flag("normalize", normalize)
    weights = None if importance is None else np.asarray(importance)
    task = begin("cover", rows, budget, seed, given, exclude, engine, progress, importance=weights, normalize=normalize)
    ids = task.counted
    weights = None if weights is None else _check(weights, task)[ids]
    view = task.view(ids, normalize=normalize)
    with task.workers() as workers, stage(task.progress, "choosing rows", task.room):
        coverage = cover_rows(
            view,
            task.room,
            workers,
            task.rng,
            importance=weights,
            given=np.searchsorted(ids, task.frame.given),
            free=task.frame.open()[ids],
            progress=task.progress,
        )
    task.options["choice"] = f"{coverage.method}; bandwidth {coverage.bandwidth:.6g}"
    return task.choose(ids[coverage.ids]), coverage


def _check(importance: Any, task: Task) -> Floats:
    weights = real_vector("importance", importance, task.frame.n)
    if weights.min() < 0:
        refuse("importance", "numbers of at least 0", f"{weights.min():g} for row {weights.argmin()}")
    if not weights[task.counted].any():
        refuse("importance", "above 0 for some row that is not excluded", "0 for all of them")
    return weights
