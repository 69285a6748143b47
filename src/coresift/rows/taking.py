"""Take the selected rows from their source, as an Arrow table with all of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coresift.checks import refuse
from coresift.notebook import counted
from coresift.rows import SUFFIXES, Rows, open_rows
from coresift.rows.embedded import MANIFEST
from coresift.tables.finding import SUFFIXES as TABLES
from coresift.tables.finding import find_files
from coresift.tables.opening import is_tabular, open_table
from coresift.tables.table import Table
from coresift.tables.values import text_of_names
from coresift.types import Ints, Provenance, check_order

if TYPE_CHECKING:
    import pyarrow as pa

FEATURES = "features"  # the name of the column for rows that come from a matrix


def take(
    source: Any,
    ids: Ints,
    n: int,
    names: Sequence[Any] | None = None,
    id_column: str | None = None,
    provenance: Provenance | None = None,
) -> pa.Table:
    """Return the rows `ids` out of n rows, with all of their columns.

    Args:
        source: Anything that `open_rows` accepts, with all n rows or only the selected ones, in the order of `ids`.
            If it has ids, it may have other rows in any order.
        ids: Row numbers, in any order.
        n: The number of rows that were selected from.
        names: The ids of the selected rows, if they have any; they are looked up if the source has ids too.
        id_column: The column of ids, if the source has it.
        provenance: How the selection was made; a table whose rows are in another order is refused.

    Returns:
        An Arrow table with one line per row number. A matrix becomes a column `features`, after the ids if its rows
        have any.

    >>> take({"x": [1, 2, 3]}, np.array([2, 0]), 3).to_pydict()
    {'x': [3, 1]}
    >>> take({"x": [3, 1]}, np.array([2, 0]), 3).to_pydict()
    {'x': [3, 1]}
    >>> take(np.eye(3), np.array([2]), 3).to_pydict()
    {'features': [[0.0, 0.0, 1.0]]}
    """
    opened = _open(source, id_column)
    by_id = names is not None and opened.id_name is not None
    numbers = _numbers_by_id(opened, ids, n, names or ()) if by_id else _numbers_by_position(opened, ids, n)
    table = opened.table if isinstance(opened, Rows) else opened
    if table is None:
        return _features(opened, numbers)
    if provenance is not None and not by_id:
        check_order(provenance, table, numbers)
    return table.take(numbers)


def _numbers_by_position(opened: Any, ids: Ints, n: int) -> Ints:
    """Return the numbers of rows without ids: unchanged, or counted from 0 if the source has only the selected rows."""
    if opened.n not in (n, ids.size):
        selected = f", or one with the {ids.size:,} selected rows" if ids.size else ""
        refuse("table", f"a table with all {n:,} rows{selected}", counted(opened.n, "row"))
    return ids if opened.n == n else np.arange(ids.size)


def _numbers_by_id(opened: Any, ids: Ints, n: int, names: Sequence[Any]) -> Ints:
    """Return the numbers of rows with ids; nothing is looked up if the rows are still in the same places."""
    if opened.n in (n, ids.size):
        numbers = _numbers_by_position(opened, ids, n)
        if text_of_names(opened.names(numbers)).equals(text_of_names(names)):
            return numbers
    moved: Ints = opened.numbers_of(list(names), "The ids of the selected rows")
    return moved


def _open(source: Any, id_column: str | None) -> Any:
    """Open a table, which need not have any numbers, or else rows."""
    table = _open_source(source)
    if not isinstance(table, Table) or table.id_name == id_column or id_column not in table.columns:
        return table
    return Table(table.parts, table.argument, id_column)


def _open_source(source: Any) -> Any:
    if is_tabular(source):
        return open_table(source)
    if isinstance(source, Rows):
        return source
    is_path = isinstance(source, str) or hasattr(source, "__fspath__")
    if is_path and "://" not in str(source):
        files = [] if _is_embedded(source) else find_files(source, SUFFIXES, "table")
        if files and all(file.suffix.lower() in TABLES for file in files):
            return open_table(list(files))
    return open_rows(source)


def _features(rows: Rows, numbers: Ints) -> pa.Table:
    import pyarrow as pa

    values = pa.FixedSizeListArray.from_arrays(pa.array(rows.take(numbers).ravel()), rows.d)
    names = rows.names(numbers)
    return pa.table({FEATURES: values} if names is None else {"id": names, FEATURES: values})


def _is_embedded(source: Any) -> bool:
    return (Path(source) / MANIFEST).is_file()
