"""Resolve the rows that a user names in `given`, `exclude` and `tell`: integers are row numbers, strings are ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from coresift.checks import InputError, refuse, row_numbers
from coresift.errors import warn
from coresift.rows.base import Rows
from coresift.types import Ints

NO_ROWS = np.zeros(0, np.int64)


def ids_in(values: Any) -> list[str] | None:
    """Return the ids in a list of rows; None if they are not all strings.

    >>> ids_in(["a", "b"]), ids_in([1, 2]), ids_in([])
    (['a', 'b'], None, None)
    """
    if isinstance(values, str) or getattr(getattr(values, "dtype", None), "kind", "O") in "iuf":
        return None
    try:
        items = list(values)
    except TypeError:
        return None
    return [str(value) for value in items] if items and all(isinstance(value, str) for value in items) else None


def numbers_in_order(argument: str, rows_or_ids: Any, rows: Rows) -> Ints:
    """Return row numbers, in the order of the given row numbers or ids.

    Args:
        argument: The name of the argument, for error messages.
        rows_or_ids: Integers, which are row numbers, or strings, which are ids.
        rows: The rows.

    >>> import pyarrow as pa
    >>> from coresift.rows import open_rows
    >>> rows = open_rows(pa.table({"id": ["a", "b", "c"], "x": [1, 2, 3]}))
    >>> numbers_in_order("given", ["c", "a"], rows), numbers_in_order("given", [2, 0], rows)
    (array([2, 0]), array([2, 0]))
    """
    if rows_or_ids is None:
        return NO_ROWS
    ids = ids_in(rows_or_ids)
    if ids is not None:
        return rows.numbers_of(ids, argument)
    try:
        row_numbers(argument, rows_or_ids, rows.n)
    except InputError as error:
        if rows.id_name is None or "twice" in str(error):
            raise
        came = str(error).rpartition("; got ")[2].rstrip(".")
        refuse(argument, f"row numbers from 0 to {rows.n - 1}, or ids as texts", came)
    return np.asarray(rows_or_ids, np.int64).ravel()


def warn_of_budget(budget: int, available: int) -> None:
    """Warn if the budget is larger than the number of rows to choose from."""
    if budget > available:
        warn(f"budget is {budget:,}, but there are only {available:,} rows to choose from: all of them are selected.")


def numbers_of(argument: str, rows_or_ids: Any, rows: Rows) -> Ints:
    """Return the row numbers of the given row numbers or ids, sorted."""
    return np.sort(numbers_in_order(argument, rows_or_ids, rows))
