"""Check the rows and answers that a user tells a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from coresift.checks import InputError, refuse
from coresift.notebook import counted
from coresift.oracle.questions import Question
from coresift.types import Ints

MOST_NAMED = 3  # rows that an error message names


def row_numbers(ids: Any) -> Ints:
    """Return row numbers as an array; refuse anything else."""
    try:
        rows = np.asarray(ids)
    except ValueError:
        refuse("ids", "a list of row numbers", "lists of unequal length")
    if rows.size and (rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer)):
        refuse("ids", "a list of row numbers", f"an array of {rows.dtype} with shape {rows.shape}")
    return rows.astype(np.int64).ravel()


def rows_with_ids(ids: Any, asked: Ints, names: Sequence[Any]) -> Ints:
    """Return the numbers of the rows that have these ids; 7, "7" and 7.0 are the same id.

    Args:
        ids: The table's ids.
        asked: The rows that were asked.
        names: The ids of the rows that were asked.

    Returns:
        One row number per id.

    Raises:
        InputError: An id belongs to no asked row, or to several.

    Examples:
        >>> rows_with_ids(["7", 3.0], np.array([10, 20]), [3, 7])
        array([20, 10])
    """
    row_of: dict[str, int] = {}
    for row, name in zip(asked.tolist(), names, strict=True):
        if row_of.setdefault(_key(name), row) != row:
            raise InputError(f"The id {name} belongs to several rows that were asked; use row numbers instead.")
    unknown = [name for name in ids if _key(name) not in row_of]
    if unknown:
        more = f" and {counted(len(unknown) - 1, 'other')}" if len(unknown) > 1 else ""
        raise InputError(f"ids must be rows that were asked; got {unknown[0]!r}{more}.")
    return np.array([row_of[_key(name)] for name in ids], np.int64)


def sort_answers(
    question: Question, known: Mapping[int, Any], pending: set[int], rows: Sequence[int], answers: Sequence[Any]
) -> tuple[dict[int, Any], dict[int, Any]]:
    """Return the answers that are new and those that replace others; refuse all of them if one is not allowed."""
    fresh: dict[int, Any] = {}
    changed: dict[int, Any] = {}
    for row, answer in zip(rows, answers, strict=True):
        if row not in known and row not in pending:
            raise InputError(f"ids must be rows that were asked and are not answered yet; row {row} is not.")
        target = changed if row in known else fresh
        if row in target and not question.same(target[row], answer):
            raise InputError(f"answers must be one per row; row {row} has {target[row]!r} and {answer!r}.")
        if row not in known or not question.same(known[row], answer):
            target[row] = answer
    return fresh, changed


def refuse_replacements(
    question: Question,
    known: Mapping[int, Any],
    answers: Mapping[int, Any],
    names_of: Callable[[Ints], Sequence[Any] | None],
) -> None:
    """Refuse answers for rows that have another one; the sentence names the first few rows."""
    rows = [row for row in answers if row in known and not question.same(known[row], answers[row])]
    if not rows:
        return
    names = names_of(np.array(rows[:MOST_NAMED], np.int64)) or [None] * MOST_NAMED
    replacements = [
        (
            f"row {row}" if name is None else f"row {row} (id {name})",
            _text(question, known[row]),
            _text(question, answers[row]),
        )
        for row, name in zip(rows, names, strict=False)
    ]
    if len(rows) == 1:
        (row, before, after) = replacements[0]
        raise InputError(
            f"{row[0].upper()}{row[1:]} already has the answer {before}; to replace it by {after}, use correct=True."
        )
    more = f"; and {len(rows) - MOST_NAMED:,} more" if len(rows) > MOST_NAMED else ""
    changes = "; ".join(f"{row} had {before}, now {after}" for row, before, after in replacements)
    raise InputError(
        f"{len(rows):,} rows already have another answer: {changes}{more} (to replace them, use correct=True)."
    )


def _text(question: Question, answer: Any) -> str:
    return f"no {question.column}" if answer is None else repr(answer)


def _key(name: Any) -> str:
    return str(int(name)) if isinstance(name, (float, np.floating)) and float(name).is_integer() else str(name)
