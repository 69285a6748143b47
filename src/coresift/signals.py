"""Numbers per row that are known at no cost, and say where to look."""

from __future__ import annotations

import numpy as np

from coresift.checks import named_options, refuse, share
from coresift.engine import Engine, Local
from coresift.histories import history
from coresift.logs import from_log
from coresift.progress import Progress, choose
from coresift.rows import RowsLike, open_rows
from coresift.signal_table import disagreement, from_probabilities
from coresift.types import Floats, Ints, Singles

__all__ = ["disagreement", "from_log", "from_probabilities", "history", "near"]

# Of how many of its nearest rows a target row knows the rank; a rank below that counts as none.
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

    Every target row ranks all rows by cosine, and a row's score is its best reciprocal rank over the target rows (0
    beyond rank 1,000). Every target row so has its own nearest rows at the top, as in the round-robin selection RDS+
    (Ivison et al. 2025).

    Args:
        rows: Anything that `open_rows` takes.
        target_rows: Examples of the target task, embedded in the same way: the same number of columns.
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
    pool, targets = open_rows(rows), open_rows(target_rows)
    if pool.d != targets.d:
        refuse("target_rows", f"rows of {pool.d} numbers, as the rows have", f"rows of {targets.d}")
    floor = share("floor", floor, ends=True)
    wanted = targets.normalized().take(np.arange(targets.n))

    kept = min(RANKED, pool.n)
    names, values = np.zeros((0, targets.n), np.int64), np.zeros((0, targets.n), np.float32)

    def nearest(start: int, block: Singles) -> tuple[Ints, Singles]:
        return _largest(np.arange(start, start + len(block))[:, None].repeat(targets.n, axis=1), block @ wanted.T, kept)

    with (engine or Local()).open(choose(progress)) as workers:
        for ids, cosines in workers.map(pool.normalized(), nearest, name="comparing rows"):
            names, values = _largest(np.concatenate([names, ids]), np.concatenate([values, cosines]), kept)
    best = np.zeros(pool.n)
    for rank, ids in enumerate(names, start=1):
        best[ids] = np.maximum(best[ids], 1 / rank)
    return np.asarray(floor + (1 - floor) * best / best.mean(), np.float64)


def _largest(names: Ints, values: Singles, count: int) -> tuple[Ints, Singles]:
    """Return the `count` largest values of each column in order, the first of equal ones, and their names."""
    order = np.argsort(-values, axis=0, kind="stable")[:count]
    return np.take_along_axis(names, order, axis=0), np.take_along_axis(values, order, axis=0)
