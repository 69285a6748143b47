"""Where rows with ids are in a table of any kind, which may have another order than the one they were chosen from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coresift.errors import InputError
from coresift.types.values import Ints


def rows_at(table: Any, places: Ints) -> Any:
    """Return rows of a table, an array or a list by their places, as the same kind."""
    if hasattr(table, "iloc"):  # pandas; its index is no row number
        return table.iloc[places]
    if hasattr(table, "select") and hasattr(table, "features"):  # datasets
        return table.select(places)
    if hasattr(table, "num_columns") or hasattr(table, "id_name"):  # Arrow, and what was opened here
        return table.take(places)
    if isinstance(table, dict):
        return {name: rows_at(column, places) for name, column in table.items()}
    if isinstance(table, (list, tuple)):
        return [table[row] for row in places.tolist()]
    return table[places]


def length_of(table: Any) -> int:
    """Return how many rows a table, an array or a list has."""
    for name in ("n", "num_rows"):  # what was opened here, and Arrow; frames may have columns of these names
        if isinstance(count := getattr(table, name, None), int):
            return count
    if isinstance(table, dict) and table:
        return length_of(next(iter(table.values())))
    if not hasattr(table, "__len__"):
        lazy = "; collect() it first" if hasattr(table, "collect") else ""
        raise InputError(f"table must be a table, an array or a list in memory; got a {type(table).__name__}{lazy}.")
    return len(table)


def names_in(table: Any) -> list[Any]:
    """Return the names of a table's columns; none of an array or a list, which has no names."""
    names = table if isinstance(table, dict) else getattr(table, "column_names", None)
    names = getattr(table, "columns", None) if names is None else names
    return [] if names is None else list(names)


def column_of(table: Any, name: str) -> list[Any] | None:
    """Return a column of a frame, an Arrow table, a dataset or a dict; None where there is no such column.

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


def find_places(ids: Sequence[Any], rows: Ints, column: Sequence[Any]) -> Ints:
    """Return the places of ids in a column; ids are compared as texts, so 7, "7" and 7.0 are one.

    Args:
        ids: The ids of some rows.
        rows: Where they were: nothing is looked up if they are still there.
        column: The ids of a table.

    >>> find_places(["b", "a"], np.array([1, 0]), ["c", "a", "b"])
    array([2, 1])
    """
    wanted = [_text(name) for name in ids]
    if rows.size and rows.max() < len(column) and [_text(column[row]) for row in rows.tolist()] == wanted:
        return rows.copy()
    places: dict[str | None, int] = {}
    double = set()
    for place, name in enumerate(column):
        text = _text(name)
        if places.setdefault(text, place) != place:
            double.add(text)
    for text in wanted:
        if text not in places:
            raise InputError(f"table must have the selected rows; there is none with the id {text}.")
        if text in double or text is None:
            raise InputError(f"table must have one row for each id; several have the id {text}.")
    return np.array([places[text] for text in wanted], np.int64)


def _text(name: Any) -> str | None:
    if name is None:
        return None
    return str(int(name)) if isinstance(name, (float, np.floating)) and float(name).is_integer() else str(name)
