"""Find rows by id in any kind of table, even if their order has changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coresift.errors import InputError
from coresift.types.values import Ints


def rows_at(table: Any, places: Ints) -> Any:
    """Return rows of a table, an array or a list by position, as the same type."""
    if hasattr(table, "iloc"):  # pandas, whose index is not a position
        return table.iloc[places]
    if hasattr(table, "select") and hasattr(table, "features"):  # datasets
        return table.select(places)
    if hasattr(table, "num_columns") or hasattr(table, "id_name"):  # Arrow, and coresift's own rows and tables
        return table.take(places)
    if isinstance(table, dict):
        return {name: rows_at(column, places) for name, column in table.items()}
    if isinstance(table, (list, tuple)):
        return [table[row] for row in places.tolist()]
    return table[places]


def length_of(table: Any) -> int:
    """Return the number of rows of a table, an array or a list."""
    for name in ("n", "num_rows"):  # coresift's own, and Arrow; in a frame, these may be columns
        if isinstance(count := getattr(table, name, None), int):
            return count
    if is_split(table):
        raise InputError(f"table must be one table; got a {type(table).__name__}; pass {split_hint(table)}.")
    if isinstance(table, dict) and table:
        return length_of(next(iter(table.values())))
    if not hasattr(table, "__len__"):
        lazy = "; collect() it first" if hasattr(table, "collect") else ""
        name = type(table).__name__
        article = "an" if name[0] in "AEIOU" else "a"
        raise InputError(f"table must be a table, an array or a list in memory; got {article} {name}{lazy}.")
    return len(table)


def is_split(source: Any) -> bool:
    """Return whether this is a dict of data sets, such as a `datasets.DatasetDict`, and not one of columns.

    >>> is_split({"text": ["a"]})
    False
    """
    return isinstance(source, dict) and any(hasattr(value, "column_names") for value in source.values())


def split_hint(source: Any) -> str:
    """Return what to pass in place of a dict of data sets."""
    return f"one of its splits, such as dataset[{next(iter(source))!r}]"


def names_in(table: Any) -> list[Any]:
    """Return a table's column names; an empty list for an array or a list."""
    names = table if isinstance(table, dict) else getattr(table, "column_names", None)
    names = getattr(table, "columns", None) if names is None else names
    return [] if names is None else list(names)


def column_of(table: Any, name: str) -> list[Any] | None:
    """Return a column of a frame, an Arrow table, a dataset or a dict; None if there is no such column.

    >>> column_of([1, 2], "id") is None
    True
    """
    names = names_in(table)
    if name in getattr(getattr(table, "index", None), "names", ()):  # the index of a pandas frame
        column = table.index.get_level_values(name)
    elif name in names:
        column = table[name]
    else:
        return None
    return list(column.to_pylist() if hasattr(column, "to_pylist") else column)


def column_values(table: Any) -> dict[str, Any] | None:
    """Return the columns of a frame or an Arrow table by name; None for an array, a list or a single column."""
    names = names_in(table)
    return {str(name): table[name] for name in names} if names else None


def check_labels(argument: str, values: Any, ids: Ints, names: Sequence[Any] | None) -> None:
    """Refuse a pandas column whose index has the selected rows' numbers or ids, but in another order."""
    index = values.index.tolist() if hasattr(values, "iloc") else None
    for expected, how in ((ids.tolist(), "selection.ids"), (names, "list(selection.names)")):
        if index is None or expected is None or len(index) != len(expected) or index == list(expected):
            continue
        if set(index) == set(expected):
            raise InputError(
                f"{argument} must be in the order of selection.ids; its index has these rows in another order; "
                f"use {argument}.loc[{how}], or {argument}.to_numpy() if they are in order."
            )


def find_places(ids: Sequence[Any], rows: Ints, column: Sequence[Any]) -> Ints:
    """Return the positions of ids in a column; ids are compared as strings, so 7, "7" and 7.0 are the same.

    Args:
        ids: The ids to find.
        rows: Their original positions; nothing is looked up if they are still there.
        column: The ids of a table.

    >>> find_places(["b", "a"], np.array([1, 0]), ["c", "a", "b"])
    array([2, 1])
    """
    targets = [_text(name) for name in ids]
    if rows.size and rows.max() < len(column) and [_text(column[row]) for row in rows.tolist()] == targets:
        return rows.copy()
    positions: dict[str | None, int] = {}
    duplicates = set()
    for position, name in enumerate(column):
        text = _text(name)
        if positions.setdefault(text, position) != position:
            duplicates.add(text)
    for text in targets:
        if text not in positions:
            raise InputError(f"table must have the selected rows; there is none with the id {text}.")
        if text in duplicates or text is None:
            raise InputError(f"table must have one row for each id; several have the id {text}.")
    return np.array([positions[text] for text in targets], np.int64)


def _text(name: Any) -> str | None:
    if name is None:
        return None
    return str(int(name)) if isinstance(name, (float, np.floating)) and float(name).is_integer() else str(name)
