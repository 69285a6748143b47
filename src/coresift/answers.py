"""A file of answers about rows, from whoever was asked: a column `row` or `id`, and columns of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError
from coresift.types import Ints

LookUp: TypeAlias = Callable[[Ints, Sequence[Any] | None], NDArray[Any]]


class MissingRowsError(InputError):
    """A file lacks rows that were asked for."""


class AnswerFile:
    """A Parquet, CSV or JSONL file in which a row is known by its number (`row`) or by its table's own `id`.

    `row` is preferred where both stand. Ids are compared as text, so 7, "7" and the 7.0 of a column with gaps are
    one; rows that nobody asks about are ignored, rows that have no answer are an error with their count.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "answers.csv"
    >>> _ = path.write_text("row,loss,intent\\n7,0.5,refund\\n3,2.0,top-up\\n")
    >>> AnswerFile(path).numbers("loss")(np.array([3, 7, 3]), None)
    array([2. , 0.5, 2. ])
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise InputError(f"There is no file {self.path}.")
        if self.path.suffix.lower() not in _KINDS:
            raise InputError(f"A file of answers must end in {', '.join(_KINDS)}; got {self.path.name}.")
        self._columns, self._read = _KINDS[self.path.suffix.lower()]
        self.columns: list[str] = self._safely(self._columns)
        self.key = "row" if "row" in self.columns else "id"
        if self.key not in self.columns:
            raise InputError(f"{self.path} must have the column id (or row); it has {self._there()}.")

    def require(self, column: str) -> None:
        """Refuse a file without this column."""
        if column not in self.columns:
            raise InputError(f"{self.path} must have the column {column}; it has {self._there()}.")

    def rows(self) -> Ints:
        """Return the row numbers that the file lists."""
        if self.key != "row":
            raise InputError(f"{self.path} must have the column row; it has {self._there()}.")
        found: Ints = self._safely(lambda path: _whole(self._read(path, "row", None, None)["row"]).to_numpy())
        return found

    def known(self, rows: Ints, names: Sequence[Any] | None) -> Ints:
        """Return those of the rows that the file has a line for."""
        import pyarrow as pa
        import pyarrow.compute as pc

        def listed(path: Path) -> Any:
            key = self._read(path, self.key, None, None)[self.key].combine_chunks()
            return _as_text(_whole(key) if self.key == "row" else key)

        asked = rows if names is None or self.key == "row" else names
        found: Ints = rows[pc.is_in(_as_text(pa.array(asked)), value_set=self._safely(listed)).to_numpy(False)]
        return found

    def numbers(self, column: str) -> LookUp:
        """Return a function of row numbers (and the table's own ids, if it has any) that gives the column's numbers."""
        return self._look_up(column, "double")

    def labels(self, column: str) -> LookUp:
        """Return such a function for a column of labels, as text; no label is an empty one."""
        return self._look_up(column, "string")

    def _look_up(self, column: str, kind: str) -> LookUp:
        self.require(column)
        ids, values = self._safely(lambda path: self._distinct(path, column, kind))

        def look_up(rows: Ints, names: Sequence[Any] | None) -> NDArray[Any]:
            asked = rows if names is None or self.key == "row" else names
            found: NDArray[Any] = values[self._places(asked, ids)]
            return found

        return look_up

    def _distinct(self, path: Path, column: str, kind: str) -> tuple[Any, NDArray[Any]]:
        """Return the distinct ids as text, and the value of each."""
        import pyarrow.compute as pc

        table = self._read(path, self.key, column, kind)
        table = table.filter(pc.is_valid(table[self.key]))
        values = table[column].cast(kind)
        values = values.fill_null("").to_numpy().astype(np.str_) if kind == "string" else values.to_numpy()
        key = table[self.key].combine_chunks()
        ids = _as_text(_whole(key) if self.key == "row" else key).dictionary_encode()
        codes = ids.indices.to_numpy(zero_copy_only=False)
        _, first = np.unique(codes, return_index=True)
        kept = values[first]
        again = np.flatnonzero((values != kept[codes]) & ~(_missing(values) & _missing(kept[codes])))
        if again.size:
            code, other = codes[again[0]], values[again[0]]
            raise InputError(
                f"{path} must have one {column} for each {self.key}; "
                f"{self.key} {ids.dictionary[code]} has {kept[code]} and {other}."
            )
        return ids.dictionary, kept

    def _places(self, asked: Any, ids: Any) -> Ints:
        import pyarrow as pa
        import pyarrow.compute as pc

        places = pc.index_in(_as_text(pa.array(asked)), value_set=ids, skip_nulls=True)
        missing = np.flatnonzero(places.is_null().to_numpy(zero_copy_only=False))
        if missing.size:
            example = f"its ids are such as {ids[0]}" if len(ids) else "it has no ids at all"
            raise MissingRowsError(
                f"{self.path} must have every row that is asked; {missing.size} of {len(asked)} are missing, "
                f"the first of them {asked[missing[0]]} ({example})."
            )
        found: Ints = places.to_numpy()
        return found

    def _safely(self, read: Callable[[Path], Any]) -> Any:
        import pyarrow as pa

        try:
            return read(self.path)
        except InputError:
            raise
        except (pa.ArrowException, OSError, ValueError, OverflowError, RecursionError) as error:
            raise InputError(f"The file {self.path} cannot be read: {_first_line(error)}.") from error

    def _there(self) -> str:
        return ", ".join(self.columns) or "none"


def _missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, np.bool_)


def _whole(values: Any) -> Any:
    """Return row numbers as whole ones; in a text they may be written as 7 or 7.0."""
    import pyarrow as pa

    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        with suppress(pa.ArrowInvalid):
            return values.cast(pa.int64())
        values = values.cast(pa.float64())
    return values.cast(pa.int64())


def _as_text(values: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_floating(values.type):
        with suppress(pa.ArrowInvalid):  # fractions stay what they are
            values = values.cast(pa.int64())
    return values.cast(pa.large_string())


def _parquet_columns(path: Path) -> list[str]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        return list(file.schema_arrow.names)


def _parquet(path: Path, key: str, column: str | None, kind: str | None) -> Any:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        return file.read(columns=_wanted(key, column))


def _csv_columns(path: Path) -> list[str]:
    from pyarrow import csv

    with csv.open_csv(path, parse_options=csv.ParseOptions(newlines_in_values=True)) as file:
        return list(file.schema.names)


def _csv(path: Path, key: str, column: str | None, kind: str | None) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    # Ids and labels are read as text: a guess would turn 007 into the number 7.
    texts = [key, *([column] if kind == "string" else [])]
    options = csv.ConvertOptions(include_columns=_wanted(key, column), column_types=dict.fromkeys(texts, pa.string()))
    return csv.read_csv(path, parse_options=csv.ParseOptions(newlines_in_values=True), convert_options=options)


def _json_columns(path: Path) -> list[str]:
    import json

    with path.open("rb") as file:
        first = json.loads(next((line for line in file if line.strip()), b"{}"))
    if not isinstance(first, dict):
        raise InputError(f"{path} must have one JSON object a line; its first line is something else.")
    return list(first)


def _json(path: Path, key: str, column: str | None, kind: str | None) -> Any:
    import json

    import pyarrow as pa

    # Arrow's own reader takes a text such as 2024-01-31 for a time.
    with path.open("rb") as file:
        lines = [json.loads(line) for line in file if line.strip()]
    if not all(isinstance(line, dict) for line in lines):
        raise InputError(f"{path} must have one JSON object a line; one of its lines is something else.")
    return pa.table({name: pa.array([line.get(name) for line in lines]) for name in _wanted(key, column)})


def _wanted(key: str, column: str | None) -> list[str]:
    return [key] if column in (None, key) else [key, str(column)]


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


# Suffix → how to read the names of the columns, and how to read the key and one column as this kind.
_KINDS: dict[str, tuple[Callable[[Path], list[str]], Callable[[Path, str, str | None, str | None], Any]]] = {
    ".parquet": (_parquet_columns, _parquet),
    ".csv": (_csv_columns, _csv),
    ".jsonl": (_json_columns, _json),
}
