"""Choose rows that cover all rows, important ones first: for labeling and training in one shot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coresift.baselines.making import BaselineTask, ProgressLike, begin, flag, option_text
from coresift.checks import named_options, real_vector, refuse
from coresift.engine import Engine
from coresift.facility import cover_rows
from coresift.progress import stage
from coresift.rows import NumbersLike, RowsLike
from coresift.streams import Stream, generator
from coresift.types import CoverSelection, Floats, Ints, Selection

LARGEST_IMPORTANCE = 1e100


@named_options
def cover(
    rows: RowsLike,
    budget: int,
    *,
    importance: ArrayLike | Callable[[Ints], ArrayLike] | None = None,
    given: NumbersLike | None = None,
    exclude: NumbersLike | None = None,
    normalize: bool = False,
    seed: int = 0,
    engine: Engine | None = None,
    progress: ProgressLike = None,
) -> CoverSelection:
    """Choose rows so that every row has a chosen row nearby; important rows count more. There are no weights.

    The rows S are chosen greedily to maximize Σᵢ uᵢ·max_{j ∈ S ∪ given} exp(−‖xᵢ − xⱼ‖²/2h²): importance-weighted
    facility location. The bandwidth h is 0.7 times the median nearest-neighbor distance among the given rows and random
    rows that fill the rest of the budget, so it shrinks as the budget grows.

    Up to 8,192 rows the greedy choice is exact, with at least 1 − 1/e of the largest possible sum. With more rows, up
    to 32,000 of 64 numbers or 15,000 of 384, the first choices are made for a sample, and the sum is about the same.
    With even more rows, or if so few are chosen that the list of similar pairs would be too long, groups of about 1,000
    neighbors choose separately in three stages, and their choices are merged by gain.

    Cost: no model call. Memory: up to 0.7 GB for a list of pairs; with groups, 2 bytes per number (up to 800 MB; beyond
    that, rows are sampled), and 60 bytes per row.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows to select, given rows included.
        importance: u, a number of at least 0 per row, such as `cs.signals.near(rows, target)`, or a function of row
            numbers that returns them; it is asked once, for all rows. By default all rows count the same.
        given: Rows that are already chosen; they are selected too, and cover their neighbors. Row numbers, or ids as
            text.
        exclude: Rows that must not be selected and need not be covered, in the same form.
        normalize: Scale every row to length 1 first, for embeddings that are compared by cosine.
        seed: Draws the rows that the bandwidth is measured on, and the groups.
        engine: What runs the row blocks.
        progress: Whether to show a bar.

    Returns:
        The selection. `order` is the order of choice, `represents` is the number of rows that each selected row stands
        for, `members(row)` returns those rows, and `provenance` says how the rows were chosen.

    Examples:
        >>> values = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0], [20.0], [21.0], [22.0]])
        >>> selection = cover(values, 3)
        >>> selection.ids, selection.represents
        (array([1, 4, 7]), array([3, 3, 3]))
        >>> selection.members(4)
        array([3, 4, 5])
    """
    normalize = flag("normalize", normalize)
    weights = None if importance is None or callable(importance) else np.asarray(importance)
    task = begin("cover", rows, budget, seed, given, exclude, engine, progress, importance=weights, normalize=normalize)
    if callable(importance):
        weights = np.asarray(importance(np.arange(task.frame.n)))
        task.options["importance"] = option_text(weights)
    task = replace(task, rng=generator(task.seed, Stream.COVER))
    task.rows.warn_of_columns()
    ids = task.counted
    weights = None if weights is None else _check_importance(weights, task)[ids]
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
    representative = np.full(task.frame.n, -1, np.int64)
    representative[ids] = ids[coverage.members[coverage.labels]]
    return _with_members(task.choose(ids[coverage.ids]), representative)


def _with_members(selection: Selection, representative: Ints) -> CoverSelection:
    """Return the selection with the rows that each of its rows represents; a selected row represents itself."""
    representative[selection.ids] = selection.ids
    positions = np.searchsorted(selection.ids, representative[representative >= 0])
    represents = np.bincount(positions, minlength=len(selection))
    values = {field.name: getattr(selection, field.name) for field in fields(Selection)}
    return CoverSelection(**values, represents=represents, representative=representative)


def _check_importance(importance: Any, task: BaselineTask) -> Floats:
    weights = real_vector("importance", importance, task.frame.n)
    if weights.min() < 0:
        refuse("importance", "numbers of at least 0", f"{weights.min():g} for row {weights.argmin()}")
    if weights.max() > LARGEST_IMPORTANCE:  # sums would overflow
        refuse(
            "importance", f"numbers of at most {LARGEST_IMPORTANCE:g}", f"{weights.max():g} for row {weights.argmax()}"
        )
    if not weights[task.counted].any():
        refuse("importance", "above 0 for some row that is not excluded", "0 for all of them")
    return weights
