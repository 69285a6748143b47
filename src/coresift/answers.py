"""A table of answers about rows: a column `row` or `id`, and columns of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError
from coresift.tables import Table, open_table
from coresift.tables.parts import reading
from coresift.tables.table import listed
from coresift.tables.values import numbers_in, text_of, text_of_names, whole_numbers_in
from coresift.types import Ints

AT_ONCE = 2**16  # rows whose ids are compared at a time
LookUp: TypeAlias = Callable[[Ints, Sequence[Any] | None], NDArray[Any]]


class MissingRowsError(InputError):
    """A file lacks rows whose answers are needed."""


class AnswerFile:
    """A file with answers about rows, which it identifies by number (`row`) or by the table's `id`.

    If a file has both, `row` is used, and the ids must match. Ids are compared as strings, so 7, "7" and the 7.0 of a
    column with gaps are the same. Rows that nobody asks about are ignored; rows without an answer are an error. If no
    column has exactly the wanted name, one that differs only in case or in white space around it is used.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "answers.csv"
    >>> _ = path.write_text("row,loss,intent\\n7,0.5,refund\\n3,2.0,top-up\\n")
    >>> AnswerFile(path).numbers("loss")(np.array([3, 7, 3]), None)
    array([2. , 0.5, 2. ])
    """

    def __init__(self, path: str | Path, table: Any = None, id_column: str | None = None) -> None:
        """Read a file, or use the table that was read from it; ids are in `id_column` if it has that, or in `id`."""
        self.path = Path(path)
        self._table: Table = open_table(self.path if table is None else table, argument="A file of answers")
        self.columns = self._table.columns
        self.key = "row" if self.has("row") else "id"
        self.id_column = id_column if id_column is not None and self.has(id_column) else "id"
        if self.key != "row" and not self.has(self.id_column):
            expected = "id" if id_column in (None, "id") else f"id, {id_column}"
            raise InputError(f"{self.path} must have the column {expected} (or row); it has {self._listed_columns()}.")

    def has(self, column: str) -> bool:
        """Return whether the file has this column."""
        return self._find(column) is not None

    def require(self, column: str) -> None:
        """Refuse a file without this column."""
        if not self.has(column):
            raise InputError(f"{self.path} must have the column {column}; it has {self._listed_columns()}.")

    def rows(self) -> Ints:
        """Return the row numbers in the file."""
        if self.key != "row":
            raise InputError(f"{self.path} must have the column row; it has {self._listed_columns()}.")
        rows = self._rows()
        return rows[rows >= 0]

    def ids(self) -> list[str]:
        """Return the ids in the file, as strings."""
        return [str(name) for name in self._keys().drop_null().to_pylist()]

    @property
    def count(self) -> int:
        """The number of distinct rows in the file."""
        return len(self._keys().drop_null().unique())

    def known(self, rows: Ints, names: Sequence[Any] | None) -> Ints:
        """Return the rows that are in the file."""
        import pyarrow.compute as pc

        present: Ints = rows[pc.is_in(self._keys_of(rows, names), value_set=self._keys()).to_numpy(False)]
        return present

    def numbers(self, column: str) -> LookUp:
        """Return a function from row numbers (and the table's ids, if it has any) to the column's numbers."""
        return self._look_up(column, numbers_in)

    def labels(self, column: str) -> LookUp:
        """Return such a function for a column of labels, as strings; a missing label is an empty string."""
        return self._look_up(column, _labels_in)

    def _look_up(self, column: str, convert: Callable[[Any], NDArray[Any]]) -> LookUp:
        self.require(column)
        with reading(str(self.path)):
            ids, values = self._distinct(column, convert(self._whole(column)))

        def look_up(rows: Ints, names: Sequence[Any] | None) -> NDArray[Any]:
            self.check_ids(rows, names)
            shown = rows if names is None or self.key == "row" else names
            answers: NDArray[Any] = values[self._positions(self._keys_of(rows, names), shown, ids)]
            return answers

        return look_up

    def answered(self, column: str, *, numeric: bool) -> tuple[list[str], NDArray[Any]]:
        """Return the ids or row numbers of the lines that have an answer, as strings, and the answers."""
        self.require(column)
        with reading(str(self.path)):
            ids, values = self._distinct(column, (numbers_in if numeric else _labels_in)(self._whole(column)))
        present = ~np.isnan(values) if numeric else values != ""
        return ids.filter(present).to_pylist(), values[present]

    def strangers(self, n: int, names: Callable[[Ints], Sequence[Any] | None]) -> list[str]:
        """Return the row numbers or ids in the file that none of n rows has, as strings; `names` returns rows' ids."""
        import pyarrow.compute as pc

        unknown = self._keys().drop_null().unique()
        for start in range(0, n, AT_ONCE):
            rows = np.arange(start, min(start + AT_ONCE, n))
            unknown = unknown.filter(pc.invert(pc.is_in(unknown, value_set=self._keys_of(rows, names(rows)))))
        strangers: list[str] = unknown.to_pylist()
        return strangers

    def check_ids(self, rows: Ints, names: Sequence[Any] | None) -> None:
        """Refuse a file in which a row has the id of another row, as happens when only some columns were sorted."""
        import pyarrow.compute as pc

        if self.key != "row" or names is None or not self.has(self.id_column) or not rows.size:
            return
        order = np.argsort(rows, kind="stable")
        lines = self._rows()
        positions = order[np.minimum(np.searchsorted(rows[order], lines), rows.size - 1)]
        shared = np.flatnonzero(rows[positions] == lines)
        in_file = text_of(self._whole(self.id_column)).combine_chunks().take(shared)
        expected = text_of_names(names)
        unequal = pc.not_equal(in_file, expected.take(positions[shared]))
        differ = np.flatnonzero(pc.fill_null(unequal, False).to_numpy(False))
        if differ.size:
            first = int(differ[0])
            line = int(shared[first])
            raise InputError(
                f"{self.path} must have the id of each row next to its number; row {lines[line]} has the id "
                f"{expected[int(positions[line])]}, not {in_file[first]} "
                f"(wrong in {differ.size} of {shared.size} lines)."
            )

    def _rows(self) -> Ints:
        with reading(str(self.path)):
            chunks = [whole_numbers_in(chunk) for chunk in self._whole("row").chunks]
            return np.concatenate([np.zeros(0, np.int64), *chunks])

    def _keys(self) -> Any:
        """Return the ids or row numbers in the file as strings, with null for missing ones."""
        import pyarrow as pa

        if self.key == "id":
            return text_of(self._whole(self.id_column)).combine_chunks()
        rows = self._rows()
        return text_of(pa.array(rows, mask=rows < 0))

    def _keys_of(self, rows: Ints, names: Sequence[Any] | None) -> Any:
        import pyarrow as pa

        return text_of(pa.array(rows)) if names is None or self.key == "row" else text_of_names(names)

    def _distinct(self, column: str, values: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
        """Return the distinct ids as strings, and the value of each."""
        keys = self._keys()
        present = keys.is_valid().to_numpy(zero_copy_only=False)
        ids, values = keys.drop_null().dictionary_encode(), values[present]
        codes = ids.indices.to_numpy(zero_copy_only=False)
        _, first = np.unique(codes, return_index=True)
        distinct = values[first]
        conflicts = np.flatnonzero((values != distinct[codes]) & ~(_missing(values) & _missing(distinct[codes])))
        if conflicts.size:
            code, other = codes[conflicts[0]], values[conflicts[0]]
            raise InputError(
                f"{self.path} must have one {column} for each {self.key}; "
                f"{self.key} {ids.dictionary[code]} has {distinct[code]} and {other}."
            )
        return ids.dictionary, distinct

    def _positions(self, keys: Any, shown: Any, ids: Any) -> Ints:
        import pyarrow.compute as pc

        indices = pc.index_in(keys, value_set=ids, skip_nulls=True)
        missing = np.flatnonzero(indices.is_null().to_numpy(zero_copy_only=False))
        if missing.size:
            example = f"its ids look like {ids[0]}" if len(ids) else "it has no ids at all"
            raise MissingRowsError(
                f"{self.path} must have every row that is asked; {missing.size} of {len(shown)} are missing, "
                f"the first of them {shown[missing[0]]} ({example})."
            )
        positions: Ints = indices.to_numpy()
        return positions

    def _find(self, column: str) -> str | None:
        """Return the name that the file has for a column; None if it has none, or several."""
        if column in self.columns:
            return column
        similar = [name for name in self.columns if name.strip().lower() == column.strip().lower()]
        return similar[0] if len(similar) == 1 else None

    def _whole(self, column: str) -> Any:
        return self._table.whole(self._find(column) or column)

    def _listed_columns(self) -> str:
        return listed(self.columns, str) or "none"


def _labels_in(values: Any) -> NDArray[Any]:
    import pyarrow.compute as pc

    labels = pc.utf8_trim_whitespace(text_of(values).fill_null(""))
    # Objects, since a NumPy array of strings gives each one the room of the longest.
    return np.asarray(labels.to_numpy(zero_copy_only=False), object)


def _missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, np.bool_)
