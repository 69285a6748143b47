"""Ask a model for class probabilities, a batch of rows at a time, and check them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.baselines.making import BaselineTask
from coresift.checks import AnswerError, refuse, whole
from coresift.progress import stage
from coresift.types import Floats, Ints

REASON = "probabilities"
ALLOWED = "an array with a line per row and a column per class, or a callable of row numbers that returns such lines"
# How far the sum of a row's probabilities may be from 1; networks often return half precision.
TOLERANCE = 1e-2


def ask_probabilities(task: BaselineTask, source: Any, ids: Ints, batch: int) -> Iterator[tuple[slice, Floats]]:
    """Yield positions in `ids` and the probabilities of those rows, batch by batch."""
    batch = whole("batch", batch)
    table = None if callable(source) else _table(source, task.rows.n)
    classes = 0
    with stage(task.progress, "asking for probabilities", ids.size):
        for start in range(0, ids.size, batch):
            batch_ids = ids[start : start + batch]
            answers = _check(_call(source, batch_ids) if table is None else table[batch_ids], batch_ids)
            if classes and answers.shape[1] != classes:
                raise AnswerError(
                    f"probabilities must have the same classes for all rows; row {batch_ids[0]} has {answers.shape[1]} "
                    f"after {classes}."
                )
            classes = answers.shape[1]
            yield slice(start, start + batch_ids.size), answers
            task.progress.advance(batch_ids.size)


def _table(source: Any, n: int) -> NDArray[Any]:
    if source is None:
        refuse("probabilities", ALLOWED, "none")
    try:
        table = np.asarray(source)
    except ValueError:
        refuse("probabilities", ALLOWED, "lists of unequal length")
    if table.ndim != 2 or len(table) != n:
        refuse("probabilities", f"{n} lines, one per row, with a column per class", f"shape {table.shape}")
    return table


def _call(source: Any, ids: Ints) -> Any:
    try:
        return source(ids.copy())  # a copy, because a callable may modify its argument
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".: ")
        raise AnswerError(
            f"The callable for probabilities failed on {ids.size} rows, the first of them row {ids[0]}: {reason}."
        ) from error


def _check(values: Any, ids: Ints) -> Floats:
    try:
        answers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise AnswerError(f"probabilities must be numbers, a line per row; got {type(values).__name__}.") from None
    if answers.ndim != 2 or len(answers) != ids.size or answers.shape[1] < 2:
        raise AnswerError(
            f"probabilities must be a line for each of {ids.size} rows, with at least two classes; "
            f"got shape {answers.shape}."
        )
    within = np.isfinite(answers).all(axis=1) & (answers >= 0).all(axis=1)
    bad = np.flatnonzero(~(within & (np.abs(answers.sum(axis=1) - 1) <= TOLERANCE)))
    if bad.size:
        raise AnswerError(
            f"probabilities must be at least 0 and sum to 1 for each row; row {ids[bad[0]]} has {answers[bad[0]]}."
        )
    return answers
