"""Read signals in any accepted form, and make rows from signals alone."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError, refuse
from coresift.prediction import standardized
from coresift.rows import Rows, open_rows
from coresift.rows.views import View
from coresift.signal_table import signal_table
from coresift.tables import is_tabular, open_table
from coresift.tables.finding import SUFFIXES
from coresift.tables.npy import map_npy
from coresift.tables.parts import reading
from coresift.tables.table import Table
from coresift.tables.values import numbers_in
from coresift.types import Ints, SignalTable

FORMS = "an array, a mapping of names to arrays, columns of the rows' table, or a file"


def read_signals(signals: Any, rows: Rows | None) -> SignalTable | None:
    """Return signals as a table; None if there are none.

    Args:
        signals: What `signal_table` takes; the name of a column of the rows' table, or several separated by commas or
            in a list; the path of a table with one line per row, or of a `.npy` file. A table with a column `row`, or
            with an `id` column if rows have ids, may have its lines in any order.
        rows: The rows, or None if there are only signals.
    """
    if signals is None or isinstance(signals, SignalTable):
        return signals
    if isinstance(signals, str | os.PathLike):
        signals = _from_text(os.fspath(signals), rows)
    elif isinstance(signals, list | tuple) and _are_columns(signals, rows):
        signals = _columns(signals, rows)
    elif isinstance(signals, Mapping):
        signals = {
            name: _columns([values], rows)[values] if isinstance(values, str) else values
            for name, values in signals.items()
        }
    elif is_tabular(signals):
        signals = _from_table(signals, rows)
    n = rows.n if rows is not None else _length(signals)
    return signal_table(signals, n)


def rows_of_signals(signals: SignalTable | None) -> Rows:
    """Return the signals as rows, each column with mean 0 and standard deviation 1."""
    if signals is None or not signals.names:
        raise InputError("rows must be given, or signals; got neither.")
    return SignalRows(open_rows(standardized(signals.columns)))


class SignalRows(View):
    """Rows made from signals."""

    def content(self, ids: Ints) -> str | None:
        """Return None, since these numbers are not stored in any table."""
        return None


def _from_text(text: str, rows: Rows | None) -> Any:
    if text.lower().endswith(".npy"):
        return map_npy(text)
    if text.lower().endswith(tuple(SUFFIXES)) or Path(text).is_dir():
        return _from_table(text, rows)
    return _columns([name.strip() for name in text.split(",")], rows)


def _are_columns(names: Sequence[Any], rows: Rows | None) -> bool:
    """Return whether these are column names and not one class per row, which can be text too."""
    return rows is not None and 0 < len(names) != rows.n and all(isinstance(name, str) for name in names)


def _columns(names: Sequence[str], rows: Rows | None) -> dict[str, NDArray[Any]]:
    table = None if rows is None else rows.table
    if table is None:
        refuse("signals", f"{FORMS}; these rows have no table", ", ".join(names))
    return columns_of(table, names)


def columns_of(table: Table, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return columns of a table as signals; a CSV file's numbers are numbers if `open_table` got `texts=()`."""
    for name in names:
        if name not in table.columns:
            refuse("signals", f"columns of the rows' table, {table.listed()}", repr(name))
    return table.arrays(names)


def _from_table(source: Any, rows: Rows | None) -> dict[str, NDArray[Any]]:
    table = open_table(source, argument="signals", texts=())
    key_columns = {"row", table.id_name, *table.index_columns}
    columns = table.arrays([name for name in table.columns if name not in key_columns])
    if not columns:
        refuse("signals", "a table with a column besides row and id", table.listed())
    if rows is not None and table.n != rows.n:
        refuse("signals", f"a table with one line for each of {rows.n} rows", f"{table.n} lines")
    numbers: NDArray[Any] | None = None
    if "row" in table.columns:
        with reading("The column row"):
            numbers = numbers_in(table.whole("row"))
    elif table.id_name is not None and rows is not None and rows.id_name is not None:
        numbers = rows.numbers_of(table.names(np.arange(table.n)) or [], "signals")
    if numbers is None:
        return columns
    if not np.array_equal(np.sort(numbers), np.arange(table.n)):
        refuse("signals", f"a table with every row once, from 0 to {table.n - 1}", "other rows")
    return {name: values[np.argsort(numbers)] for name, values in columns.items()}


def _length(signals: Any) -> int:
    first = next(iter(signals.values()), ()) if isinstance(signals, Mapping) else signals
    try:
        return len(first)
    except TypeError:
        refuse("signals", FORMS, type(signals).__name__)
