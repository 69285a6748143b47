"""Numbers that are known for every row at no cost, and that tell which rows are worth asking."""

from __future__ import annotations

from typing import Any

import numpy as np

from coresift.checks import InputError, named_options, refuse, share
from coresift.engine import Engine, Local
from coresift.histories import history
from coresift.logs import from_log
from coresift.progress import Progress, choose
from coresift.rows import Rows, RowsLike, open_rows
from coresift.signal_table import disagreement, from_probabilities
from coresift.types import Floats, Ints, Singles

__all__ = ["disagreement", "from_log", "from_probabilities", "history", "near"]

# How many of its nearest rows each target row ranks; all other rows score 0.
RANKED = 1000


@named_options
def near(
    rows: RowsLike,
    target_rows: RowsLike,
    *,
    floor: float = 0.1,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
) -> Floats:
    """Return how near each row is to examples of what a model should be good at, for `importance=`.

    Every target row ranks all rows by cosine similarity, and a row's score is its best reciprocal rank over the target
    rows (0 beyond rank 1,000). So the nearest rows of every target row are at the top, as in the round-robin selection
    RDS+ (Ivison et al. 2025).

    Args:
        rows: Anything that `open_rows` accepts.
        target_rows: The embeddings of examples of the target task, computed in the same way as the rows.
        floor: The part of the total importance that is spread evenly, from 0 to 1, so that every row has some.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        One number per row, 1 on average.

    Examples:
        >>> values = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [-1.0, 0.0]])
        >>> near(values, np.array([[1.0, 0.05]])).round(2).tolist()
        [1.83, 0.96, 0.68, 0.53]
    """
    pool, targets = open_rows(rows), _open_targets(target_rows)
    if pool.d != targets.d:
        refuse("target_rows", f"rows of {pool.d} numbers, like the rows", f"rows of {targets.d}")
    floor = share("floor", floor, ends=True)
    target_vectors = targets.normalized().take(np.arange(targets.n))

    count = min(RANKED, pool.n)
    numbers, similarities = np.zeros((0, targets.n), np.int64), np.zeros((0, targets.n), np.float32)

    def nearest(start: int, block: Singles) -> tuple[Ints, Singles]:
        return _largest(
            np.arange(start, start + len(block))[:, None].repeat(targets.n, axis=1), block @ target_vectors.T, count
        )

    with (engine or Local()).open(choose(progress)) as workers:
        for ids, cosines in workers.map(pool.normalized(), nearest, name="comparing rows"):
            numbers, similarities = _largest(
                np.concatenate([numbers, ids]), np.concatenate([similarities, cosines]), count
            )
    best = np.zeros(pool.n)
    for rank, ids in enumerate(numbers, start=1):
        best[ids] = np.maximum(best[ids], 1 / rank)
    return np.asarray(floor + (1 - floor) * best / best.mean(), np.float64)


def _open_targets(target_rows: Any) -> Rows:
    """Open the examples; an error names their argument, not that of the rows."""
    flat = isinstance(target_rows, list | tuple) or getattr(target_rows, "ndim", None) == 1
    if flat and any(isinstance(first, int | np.integer) for first in target_rows[:1]):
        refuse("target_rows", "the embeddings of examples, one row each", "row numbers; use embeddings[row_numbers]")
    try:
        return open_rows(target_rows)
    except InputError as error:
        raise InputError(f"target_{error}" if str(error).startswith("rows ") else str(error)) from None


def _largest(numbers: Ints, values: Singles, count: int) -> tuple[Ints, Singles]:
    """Return the `count` largest values per column, in order, and their row numbers; the first of equal values wins."""
    order = np.argsort(-values, axis=0, kind="stable")[:count]
    return np.take_along_axis(numbers, order, axis=0), np.take_along_axis(values, order, axis=0)
