"""What a table tells of rows by their numbers: texts, images, classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError, refuse
from coresift.rows import open_parts
from coresift.rows.base import bounds_of, by_part
from coresift.rows.sources import MemoryPart
from coresift.rows.tables import Part, TableRows
from coresift.types import Ints

if TYPE_CHECKING:
    import pyarrow as pa

# Lines that are read at a time.
AT_ONCE = 2**15
ALLOWED = "a table: .parquet, .arrow, .csv or .jsonl, an Arrow table or a datasets.Dataset"
# The table's own ids of the rows with these numbers, or None if nobody knows them.
NamesOf = Callable[[Ints], Sequence[Any] | None]


class Lines:
    """The lines of a table as the rows that they speak of.

    A table with a column `row` says itself which row a line is about; else a column `id` does, where rows have ids;
    else there is one line for each of n rows, in their order.
    """

    def __init__(self, parts: Sequence[Part], n: int, names_of: NamesOf | None) -> None:
        self._parts, self._bounds = parts, bounds_of([part.count for part in parts])
        self.columns: list[str] = list(parts[0].schema.names)
        self._n = n
        self._line_of = self._places(names_of)

    @classmethod
    def open(cls, source: Any, n: int, names_of: NamesOf) -> Lines:
        """Open a table of its own."""
        return cls(_parts(source), n, names_of)

    @classmethod
    def of_rows(cls, rows: Any) -> Lines | None:
        """Return the table that the rows themselves come from, if they do."""
        return cls(rows.parts, rows.n, None) if isinstance(rows, TableRows) else None

    def cells(self, column: str, ids: Ints) -> list[Any]:
        """Return a column's values for these rows, None where there is no line."""
        self._require(column)
        lines = ids if self._line_of is None else self._line_of[ids]
        order = np.argsort(lines, kind="stable")
        order = order[lines[order] >= 0]
        result: list[Any] = [None] * ids.size
        found = chain.from_iterable(batch.column(0).to_pylist() for batch in self._picked(column, lines[order]))
        for place, value in zip(order.tolist(), found, strict=True):
            result[place] = value
        return result

    def classes(self, column: str) -> tuple[list[str], Ints]:
        """Return the distinct values of a column as texts, and for each of n rows which it is (−1: none)."""
        import pyarrow as pa

        self._require(column)
        batches = chain.from_iterable(part.batches([column], AT_ONCE) for part in self._parts)
        found = pa.chunked_array([batch.column(0) for batch in batches])
        if pa.types.is_nested(found.type):
            refuse("label", "a column of texts or whole numbers", f"{column!r} of type {found.type}")
        if pa.types.is_dictionary(found.type):
            found = found.cast(found.type.value_type)
        encoded = found.cast(pa.string()).dictionary_encode().unify_dictionaries().combine_chunks()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        if self._line_of is not None:
            codes = np.append(codes, -1)[self._line_of]  # no line is the last
        return encoded.dictionary.to_pylist(), codes

    def _require(self, column: str) -> None:
        if column not in self.columns:
            refuse("The column", f"one of {', '.join(self.columns)}", column)

    def _picked(self, column: str, lines: Ints) -> Iterator[pa.RecordBatch]:
        for part, numbers in by_part(lines, self._bounds):
            yield from self._parts[part].pick([column], AT_ONCE, numbers)

    def _places(self, names_of: NamesOf | None) -> NDArray[np.int64] | None:
        """Return the line of every row, −1 where there is none; None where the order is that of the rows."""
        if names_of is None:
            return None
        count = int(self._bounds[-1])
        if "row" in self.columns:
            return self._by_row(count)
        if "id" in self.columns:
            names = names_of(np.arange(self._n))
            if names is not None:
                return self._by_id(names)
        if count != self._n:
            raise InputError(f"table must have a line for each of {self._n} rows, or a column row; it has {count}.")
        return None

    def _by_row(self, count: int) -> NDArray[np.int64]:
        import pyarrow as pa

        try:
            column = self._whole_column("row").cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InputError("The column row of table must be whole numbers; it has others.") from error
        rows = column.fill_null(-1).to_numpy()
        inside = (rows >= 0) & (rows < self._n)
        places = np.full(self._n, -1, np.int64)
        places[rows[inside][::-1]] = np.arange(count)[inside][::-1]  # the first line of a row counts
        return places

    def _by_id(self, names: Sequence[Any]) -> NDArray[np.int64]:
        import pyarrow as pa
        import pyarrow.compute as pc

        asked = pa.array([None if name is None else str(name) for name in names], pa.large_string())
        found = pc.index_in(asked, value_set=self._whole_column("id").cast(pa.large_string()), skip_nulls=True)
        places: NDArray[np.int64] = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return places

    def _whole_column(self, column: str) -> Any:
        import pyarrow as pa

        batches = chain.from_iterable(part.batches([column], AT_ONCE) for part in self._parts)
        return pa.chunked_array([batch.column(0) for batch in batches], self._parts[0].schema.field(column).type)


def _parts(source: Any) -> list[Part]:
    if isinstance(source, str | Path) and Path(source).suffix.lower() in (".csv", ".jsonl"):
        return [MemoryPart(_text_table(Path(source)))]
    return open_parts(source) or refuse("table", ALLOWED, source if isinstance(source, str | Path) else type(source))


def _text_table(path: Path) -> Any:
    """Read a CSV file with every cell as the text that stands there, or JSON lines."""
    import json

    import pyarrow as pa
    from pyarrow import csv

    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        if path.suffix.lower() == ".jsonl":
            with path.open("rb") as file:
                lines = [json.loads(line) for line in file if line.strip()]
            names = dict.fromkeys(name for line in lines for name in line)
            return pa.table({name: pa.array([_plain(line.get(name)) for line in lines]) for name in names})
        parse = csv.ParseOptions(newlines_in_values=True)
        with csv.open_csv(path, parse_options=parse) as stream:
            names = dict.fromkeys(stream.schema.names)
        kinds = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
        return csv.read_csv(path, parse_options=parse, convert_options=kinds)
    except (pa.ArrowException, OSError, ValueError, AttributeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InputError(f"The file {path} cannot be read: {reason}.") from error


def _plain(value: Any) -> str | None:
    return None if value is None else value if isinstance(value, str) else str(value)
