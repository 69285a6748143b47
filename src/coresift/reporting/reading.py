"""Texts, images and classes of rows from a table, by row number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError
from coresift.rows import Rows
from coresift.tables import Table, open_table
from coresift.tables.parts import reading
from coresift.tables.values import text_of, whole_numbers_in
from coresift.types import Ints, Selection, check_order

# The table's own ids of the rows with these numbers, or None if they are unknown.
NamesOf = Callable[[Ints], Sequence[Any] | None]


class RowLines:
    """The lines of a table, by the rows that they are about.

    A column `row` says which row a line is about, or else a column `id`, if rows have ids. Otherwise there is one line
    for each of n rows, in their order.
    """

    def __init__(self, table: Table, n: int, names_of: NamesOf | None) -> None:
        self._table, self._n = table, n
        self._line_of = self._places(names_of)

    @classmethod
    def open(cls, source: Any, selection: Selection, names_of: NamesOf) -> RowLines:
        """Open a separate table about the rows that a selection was made from."""
        lines = cls(open_table(source), selection.n, names_of)
        if lines._line_of is None:
            check_order(selection.provenance, lines._table, selection.ids)
        return lines

    @classmethod
    def of_rows(cls, rows: Rows) -> RowLines | None:
        """Return the table that the rows themselves come from, if they do."""
        return None if rows.table is None else cls(rows.table, rows.n, None)

    def cells(self, column: str, ids: Ints) -> list[Any]:
        """Return a column's values for these rows, None for a row without a line."""
        self._table.require("The column", column)
        lines = ids if self._line_of is None else self._line_of[ids]
        known = np.flatnonzero(lines >= 0)
        result: list[Any] = [None] * ids.size
        for place, value in zip(known.tolist(), self._table.cells(column, lines[known]), strict=True):
            result[place] = value
        return result

    def classes(self, column: str) -> tuple[list[str], Ints]:
        """Return the distinct values of a column as texts, and for each of n rows which it is (−1: none)."""
        self._table.require("The column", column)
        names, codes = self._table.classes(column)
        if self._line_of is not None:
            codes = np.append(codes, -1)[self._line_of]  # a row without a line gets the last code, −1
        return names, codes

    def _places(self, names_of: NamesOf | None) -> NDArray[np.int64] | None:
        """Return the line of every row, −1 if it has none; None if lines and rows have the same order."""
        if names_of is None:
            return None
        if "row" in self._table.columns:
            return self._by_row()
        if self._table.id_name is not None:
            names = names_of(np.arange(self._n))
            if names is not None:
                return self._by_id(names, self._table.id_name)
        if self._table.n != self._n:
            raise InputError(
                f"table must have a line for each of {self._n} rows, or a column row; it has {self._table.n}."
            )
        return None

    def _by_row(self) -> NDArray[np.int64]:
        with reading("The column row of table"):
            chunks = [whole_numbers_in(chunk) for chunk in self._table.whole("row").chunks]
        rows = np.concatenate([np.zeros(0, np.int64), *chunks])
        inside = (rows >= 0) & (rows < self._n)
        places = np.full(self._n, -1, np.int64)
        places[rows[inside][::-1]] = np.flatnonzero(inside)[::-1]  # the first line about a row is used
        return places

    def _by_id(self, names: Sequence[Any], column: str) -> NDArray[np.int64]:
        import pyarrow as pa
        import pyarrow.compute as pc

        asked = pa.array([None if name is None else str(name) for name in names], pa.large_string())
        lines = pc.index_in(asked, value_set=text_of(self._table.whole(column)), skip_nulls=True)
        places: NDArray[np.int64] = lines.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return places
