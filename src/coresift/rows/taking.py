"""The selected rows of whatever the rows came from, as an Arrow table with all of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coresift.checks import refuse
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

FEATURES = "features"  # the column of a matrix that has no columns of its own


def take(
    source: Any,
    ids: Ints,
    n: int,
    names: Sequence[Any] | None = None,
    id_column: str | None = None,
    made: Provenance | None = None,
) -> pa.Table:
    """Return the rows `ids` of n rows, with all of their columns.

    Args:
        source: Whatever `open_rows` takes, with all n rows or only with those of `ids`, in their order. If it has ids,
            its rows may be others in another order.
        ids: Row numbers, in any order.
        n: The number of rows that they are of.
        names: The ids of the rows, where they have some: they find the rows if the source has ids.
        id_column: The column of ids, if the source has it.
        made: What made the selection of these rows: a table in another order is refused.

    Returns:
        An Arrow table with a line for each of `ids`. A matrix becomes the one column `features`, after the ids if
        its rows have any.

    >>> take({"x": [1, 2, 3]}, np.array([2, 0]), 3).to_pydict()
    {'x': [3, 1]}
    >>> take({"x": [3, 1]}, np.array([2, 0]), 3).to_pydict()
    {'x': [3, 1]}
    >>> take(np.eye(3), np.array([2]), 3).to_pydict()
    {'features': [[0.0, 0.0, 1.0]]}
    """
    whole = _open(source, id_column)
    named = names is not None and whole.id_name is not None
    numbers = _find(whole, ids, n, names or ()) if named else _places(whole, ids, n)
    table = whole.table if isinstance(whole, Rows) else whole
    if table is None:
        return _features(whole, numbers)
    if made is not None and not named:
        check_order(made, table, numbers)
    return table.take(numbers)


def _places(whole: Any, ids: Ints, n: int) -> Ints:
    """Return where rows without ids are in a table: where they were, or one after another in a table of them alone."""
    if whole.n not in (n, ids.size):
        refuse("table", f"one of all {n} rows, or of the {ids.size} selected ones", f"{whole.n} rows")
    return ids if whole.n == n else np.arange(ids.size)


def _find(whole: Any, ids: Ints, n: int, names: Sequence[Any]) -> Ints:
    """Return where rows with ids are in a table; nothing is looked up if they are still where they were."""
    if whole.n in (n, ids.size):
        numbers = _places(whole, ids, n)
        if text_of_names(whole.names(numbers)).equals(text_of_names(names)):
            return numbers
    found: Ints = whole.numbers_of(list(names), "The ids of the selected rows")
    return found


def _open(source: Any, id_column: str | None) -> Any:
    """Return a table, which need not have any numbers in it, or else rows."""
    table = _open_as_it_is(source)
    if not isinstance(table, Table) or table.id_name == id_column or id_column not in table.columns:
        return table
    return Table(table.parts, table.argument, id_column)


def _open_as_it_is(source: Any) -> Any:
    if is_tabular(source):
        return open_table(source)
    if isinstance(source, Rows):
        return source
    paths = isinstance(source, str) or hasattr(source, "__fspath__")
    if paths and "://" not in str(source):
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
