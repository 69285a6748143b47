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

AT_ONCE = 2**16  # rows whose ids are looked at together
LookUp: TypeAlias = Callable[[Ints, Sequence[Any] | None], NDArray[Any]]


class MissingRowsError(InputError):
    """A file lacks rows that were asked for."""


class AnswerFile:
    """A file in which a row is known by its number (`row`) or by its table's own `id`.

    Where both stand, `row` counts, and the ids must be those of the rows. Ids are compared as text, so 7, "7" and the
    7.0 of a column with gaps are one; rows that are not asked about are ignored, rows that have no answer are an error
    with their count.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "answers.csv"
    >>> _ = path.write_text("row,loss,intent\\n7,0.5,refund\\n3,2.0,top-up\\n")
    >>> AnswerFile(path).numbers("loss")(np.array([3, 7, 3]), None)
    array([2. , 0.5, 2. ])
    """

    def __init__(self, path: str | Path, table: Any = None, id_column: str | None = None) -> None:
        """Read a file, or take the table that was read from it; ids are in `id_column` if it has that, or in `id`."""
        self.path = Path(path)
        self._table: Table = open_table(self.path if table is None else table, argument="A file of answers")
        self.columns = self._table.columns
        self.key = "row" if "row" in self.columns else "id"
        self.id_column = id_column if id_column is not None and id_column in self.columns else "id"
        if self.key != "row" and self.id_column not in self.columns:
            wanted = "id" if id_column in (None, "id") else f"id, {id_column}"
            raise InputError(f"{self.path} must have the column {wanted} (or row); it has {self._there()}.")

    def require(self, column: str) -> None:
        """Refuse a file without this column."""
        if column not in self.columns:
            raise InputError(f"{self.path} must have the column {column}; it has {self._there()}.")

    def rows(self) -> Ints:
        """Return the row numbers that the file lists."""
        if self.key != "row":
            raise InputError(f"{self.path} must have the column row; it has {self._there()}.")
        rows = self._rows()
        return rows[rows >= 0]

    def ids(self) -> list[str]:
        """Return the ids that the file lists, as texts."""
        return [str(name) for name in self._keys().drop_null().to_pylist()]

    @property
    def count(self) -> int:
        """How many rows the file has a line for."""
        return len(self._keys().drop_null().unique())

    def known(self, rows: Ints, names: Sequence[Any] | None) -> Ints:
        """Return those of the rows that the file has a line for."""
        import pyarrow.compute as pc

        found: Ints = rows[pc.is_in(self._asked(rows, names), value_set=self._keys()).to_numpy(False)]
        return found

    def numbers(self, column: str) -> LookUp:
        """Return a function of row numbers (and the table's own ids, if it has any) that gives the column's numbers."""
        return self._look_up(column, numbers_in)

    def labels(self, column: str) -> LookUp:
        """Return such a function for a column of labels, as text; no label is an empty one."""
        return self._look_up(column, _labels_in)

    def _look_up(self, column: str, convert: Callable[[Any], NDArray[Any]]) -> LookUp:
        self.require(column)
        with reading(str(self.path)):
            ids, values = self._distinct(column, convert(self._table.whole(column)))

        def look_up(rows: Ints, names: Sequence[Any] | None) -> NDArray[Any]:
            self._check_ids(rows, names)
            asked = rows if names is None or self.key == "row" else names
            found: NDArray[Any] = values[self._places(self._asked(rows, names), asked, ids)]
            return found

        return look_up

    def answered(self, column: str, *, numeric: bool) -> tuple[list[str], NDArray[Any]]:
        """Return the ids or row numbers, as texts, of the lines that have an answer, and the answers."""
        self.require(column)
        with reading(str(self.path)):
            ids, values = self._distinct(column, (numbers_in if numeric else _labels_in)(self._table.whole(column)))
        given = ~np.isnan(values) if numeric else values != ""
        return ids.filter(given).to_pylist(), values[given]

    def strangers(self, n: int, names: Callable[[Ints], Sequence[Any] | None]) -> list[str]:
        """Return the row numbers or ids of the file, as texts, that none of n rows has; `names` gives their ids."""
        import pyarrow.compute as pc

        left = self._keys().drop_null().unique()
        for start in range(0, n, AT_ONCE):
            rows = np.arange(start, min(start + AT_ONCE, n))
            left = left.filter(pc.invert(pc.is_in(left, value_set=self._asked(rows, names(rows)))))
        strangers: list[str] = left.to_pylist()
        return strangers

    def _check_ids(self, rows: Ints, names: Sequence[Any] | None) -> None:
        """Refuse a file in which a row has the id of another one; it may have been sorted by halves."""
        import pyarrow.compute as pc

        if self.key != "row" or names is None or self.id_column not in self.columns or not rows.size:
            return
        order = np.argsort(rows, kind="stable")
        lines = self._rows()
        places = order[np.minimum(np.searchsorted(rows[order], lines), rows.size - 1)]
        about = np.flatnonzero(rows[places] == lines)
        told, own = text_of(self._table.whole(self.id_column)).combine_chunks().take(about), text_of_names(names)
        differ = np.flatnonzero(pc.fill_null(pc.not_equal(told, own.take(places[about])), False).to_numpy(False))
        if differ.size:
            first = int(differ[0])
            line = int(about[first])
            raise InputError(
                f"{self.path} must have the id of each row beside its number; row {lines[line]} has the id "
                f"{own[int(places[line])]} and not {told[first]} ({differ.size} of {about.size} lines are like that)."
            )

    def _rows(self) -> Ints:
        with reading(str(self.path)):
            chunks = [whole_numbers_in(chunk) for chunk in self._table.whole("row").chunks]
            return np.concatenate([np.zeros(0, np.int64), *chunks])

    def _keys(self) -> Any:
        """Return the ids or row numbers of the file as texts, null where there is none."""
        import pyarrow as pa

        if self.key == "id":
            return text_of(self._table.whole(self.id_column)).combine_chunks()
        rows = self._rows()
        return text_of(pa.array(rows, mask=rows < 0))

    def _asked(self, rows: Ints, names: Sequence[Any] | None) -> Any:
        import pyarrow as pa

        return text_of(pa.array(rows)) if names is None or self.key == "row" else text_of_names(names)

    def _distinct(self, column: str, values: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
        """Return the distinct ids as text, and the value of each."""
        keys = self._keys()
        known = keys.is_valid().to_numpy(zero_copy_only=False)
        ids, values = keys.drop_null().dictionary_encode(), values[known]
        codes = ids.indices.to_numpy(zero_copy_only=False)
        _, first = np.unique(codes, return_index=True)
        kept = values[first]
        again = np.flatnonzero((values != kept[codes]) & ~(_missing(values) & _missing(kept[codes])))
        if again.size:
            code, other = codes[again[0]], values[again[0]]
            raise InputError(
                f"{self.path} must have one {column} for each {self.key}; "
                f"{self.key} {ids.dictionary[code]} has {kept[code]} and {other}."
            )
        return ids.dictionary, kept

    def _places(self, texts: Any, asked: Any, ids: Any) -> Ints:
        import pyarrow.compute as pc

        places = pc.index_in(texts, value_set=ids, skip_nulls=True)
        missing = np.flatnonzero(places.is_null().to_numpy(zero_copy_only=False))
        if missing.size:
            example = f"its ids are such as {ids[0]}" if len(ids) else "it has no ids at all"
            raise MissingRowsError(
                f"{self.path} must have every row that is asked; {missing.size} of {len(asked)} are missing, "
                f"the first of them {asked[missing[0]]} ({example})."
            )
        found: Ints = places.to_numpy()
        return found

    def _there(self) -> str:
        return listed(self.columns, str) or "none"


def _labels_in(values: Any) -> NDArray[Any]:
    return np.asarray(text_of(values).fill_null("").to_numpy(zero_copy_only=False)).astype(np.str_)


def _missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, np.bool_)
