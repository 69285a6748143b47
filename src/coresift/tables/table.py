"""A table of n rows, wherever it is stored, read a few rows at a time: in order, by row number or by id."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coresift.checks import InputError, did_you_mean, refuse
from coresift.tables.parts import Part, bounds_of, by_part, reading
from coresift.tables.values import is_nested, is_text, names_of, numbers_in, text_of, text_of_names, type_name
from coresift.types import Floats, Ints

if TYPE_CHECKING:
    import pyarrow as pa

AT_ONCE = 2**13  # rows to read at a time by default
SINGLE_AT_ONCE = 2**16  # rows to read at a time from a single column
MOST_LISTED, LONGEST_NAME = 30, 100  # columns that an error message lists, and characters of each name
UNNAMED_INDEX = "__index_level_"  # what pandas calls an unnamed index in a file; it carries no information


class Table:
    """Tables with the same columns, concatenated.

    `argument` is its name in error messages. The ids are in `id_column` or, by default, in the column "id" if there is
    one and it is not nested. Ids are integers or strings, and are compared as strings.

    >>> from coresift.tables import open_table
    >>> table = open_table({"id": ["a", "b", "c"], "x": [1.5, 2.5, 3.5]})
    >>> table.n, table.columns, table.names([2, 0]), table.numbers_of(["c", "a"]).tolist()
    (3, ['id', 'x'], ['c', 'a'], [2, 0])
    >>> table.take([2, 0]).to_pylist()
    [{'id': 'c', 'x': 3.5}, {'id': 'a', 'x': 1.5}]
    """

    def __init__(self, parts: Sequence[Part], argument: str = "table", id_column: str | None = None) -> None:
        self.parts, self.argument = parts, argument
        self.bounds = bounds_of([part.count for part in parts])
        self.n = int(self.bounds[-1])
        self.schema: pa.Schema = parts[0].schema
        self.columns: list[str] = list(self.schema.names)
        for part in parts[1:]:
            if part.schema.names != self.columns:
                allowed = f"files with the same columns ({self.listed()})"
                refuse(argument, allowed, f"{part.name} with {listed(part.schema.names)}")
        if id_column is not None:
            self.require("id_column", id_column)
            if is_nested(self.type_of(id_column)):
                allowed = "a column of whole numbers or texts"
                refuse("id_column", allowed, f"{id_column!r} of type {type_name(self.type_of(id_column))}")
        has_ids = "id" in self.columns and not is_nested(self.type_of("id"))
        self.id_name = id_column or ("id" if has_ids else None)

    @property
    def index_columns(self) -> list[str]:
        """The columns that were the index of a pandas frame: they number the rows and are not features."""
        try:
            facts = json.loads((self.schema.metadata or {}).get(b"pandas", b"{}"))
            return [name for name in facts.get("index_columns", []) if isinstance(name, str)]
        except (ValueError, AttributeError, TypeError, RecursionError):  # metadata that pandas did not write
            return []

    def type_of(self, column: str) -> pa.DataType:
        """Return the type of a column in the first table."""
        return self.schema.field(column).type

    def require(self, argument: str, column: str) -> None:
        """Refuse a column that the table does not have."""
        if column not in self.columns:
            refuse(argument, f"one of the columns {self.listed()}", f"{column!r}{did_you_mean(column, self.columns)}")

    def require_texts(self, argument: str, column: str) -> None:
        """Refuse a column that the table does not have or that is not of strings."""
        self.require(argument, column)
        if not is_text(self.type_of(column)):
            refuse(argument, "a column of texts", f"{column!r} of type {type_name(self.type_of(column))}")

    def batches(self, columns: Sequence[str], size: int = AT_ONCE) -> Iterator[pa.RecordBatch]:
        """Yield columns in row order, about `size` rows at a time if the source supports it."""
        return chain.from_iterable(part.batches(columns, size) for part in self.parts)

    def pick(self, columns: Sequence[str], ids: Ints, size: int = AT_ONCE) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the sorted, possibly repeated, numbers `ids`."""
        for part, numbers in by_part(ids, self.bounds):
            yield from self.parts[part].pick(columns, size, numbers)

    def cells(self, column: str, ids: ArrayLike) -> list[Any]:
        """Return a column's values for the rows `ids`, in that order."""
        return self._in_order(column, ids, lambda array: array.to_pylist())

    def names(self, ids: ArrayLike) -> list[Any] | None:
        """Return the ids of these rows, in the same order; None if the table has no ids."""
        return None if self.id_name is None else self._in_order(self.id_name, ids, names_of)

    def numbers(self, column: str, ids: ArrayLike) -> Floats:
        """Return a column's numbers for the rows `ids`, in that order, with NaN for missing values."""
        numbers = np.asarray(ids, np.int64)
        order = np.argsort(numbers, kind="stable")
        result = np.empty(numbers.size)
        with reading(f"The column {column}"):
            pieces = [numbers_in(batch.column(0)) for batch in self.pick([column], numbers[order])]
        result[order] = np.concatenate([np.zeros(0), *pieces])
        return result

    def take(self, ids: ArrayLike) -> pa.Table:
        """Return whole rows by number, in the order of `ids`."""
        import pyarrow as pa

        numbers = np.asarray(ids, np.int64)
        order = np.argsort(numbers, kind="stable")
        columns = [name for name in self.columns if not name.startswith(UNNAMED_INDEX)]
        batches = [pa.Table.from_batches([batch]) for batch in self.pick(columns, numbers[order])]
        empty = pa.Table.from_batches([], self.schema).select(columns)
        rows = pa.concat_tables([empty, *batches], promote_options="permissive")
        ranks = np.empty(order.size, np.int64)
        ranks[order] = np.arange(order.size)
        rows = rows if np.array_equal(ranks, np.arange(ranks.size)) else rows.take(pa.array(ranks))
        return rows.replace_schema_metadata(self.schema.metadata)

    def whole(self, column: str) -> pa.ChunkedArray:
        """Return all values of a column."""
        return self._joined(column, [batch.column(0) for batch in self.batches([column], SINGLE_AT_ONCE)])

    def arrays(self, columns: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Return all values of columns, read in one pass; times of day, which NumPy does not have, as strings."""
        import pyarrow.types as kinds

        pieces: dict[str, list[Any]] = {column: [] for column in columns}
        for batch in self.batches(list(pieces), AT_ONCE) if pieces else ():
            for column, own in pieces.items():
                own.append(batch.column(column))
        found = {}
        for column, own in pieces.items():
            with reading(f"The column {column}"):
                values = self._joined(column, own)
                found[column] = (text_of(values) if kinds.is_time(values.type) else values).to_numpy()
        return found

    def _joined(self, column: str, pieces: Sequence[pa.Array]) -> pa.ChunkedArray:
        import pyarrow as pa

        chunks = [pa.chunked_array([piece]) for piece in pieces]
        if len({chunk.type for chunk in chunks}) <= 1:
            return pa.chunked_array(list(chain.from_iterable(chunk.chunks for chunk in chunks)), self.type_of(column))
        tables = [pa.table({column: chunk}) for chunk in chunks]
        return pa.concat_tables(tables, promote_options="permissive")[column]

    def labels(self, column: str, argument: str = "strata") -> NDArray[Any]:
        """Return the values of a column of classes, one per row; equal values share one object."""
        encoded = self._encoded(column, argument, _labels_in)
        distinct = np.empty(len(encoded.dictionary) + 1, object)  # the last entry, None, stands for null
        distinct[:-1] = encoded.dictionary.to_pylist()
        codes: Ints = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        return distinct[codes]

    def classes(self, column: str, argument: str = "label") -> tuple[list[str], Ints]:
        """Return the distinct values of a column as strings, and each row's index into them (−1 if it has none)."""
        encoded = self._encoded(column, argument, text_of)
        codes: Ints = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return encoded.dictionary.to_pylist(), codes

    def numbers_of(self, names: Sequence[Any], argument: str = "ids") -> Ints:
        """Return the row numbers of ids, in their order; refuse an id that no row has or that several rows have."""
        if self.id_name is None:
            refuse(argument, "row numbers, because the rows have no ids", "ids")
        targets = _texts_of(names, argument)
        numbers = np.full(len(targets), -1, np.int64)
        start = 0
        for batch in self.batches([self.id_name], SINGLE_AT_ONCE):
            _match(batch.column(0), targets, start, numbers, argument)
            start += batch.num_rows
        missing = np.flatnonzero(numbers < 0)
        if missing.size:
            refuse(argument, f"ids that column {self.id_name!r} has", f"{targets[int(missing[0])].as_py()!r}")
        return numbers

    def listed(self) -> str:
        """Return the column names as they appear in an error message."""
        return listed(self.columns) or "none"

    def _in_order(self, column: str, ids: ArrayLike, convert: Any) -> list[Any]:
        numbers = np.asarray(ids, np.int64)
        order = np.argsort(numbers, kind="stable")
        values: NDArray[Any] = np.empty(numbers.size, object)
        cells = chain.from_iterable(convert(batch.column(0)) for batch in self.pick([column], numbers[order]))
        for position, cell in zip(order.tolist(), cells, strict=True):
            values[position] = cell
        return list(values)

    def _encoded(self, column: str, argument: str, convert: Any) -> Any:
        import pyarrow as pa

        self.require(argument, column)
        if is_nested(self.type_of(column)):
            allowed = "a column of texts or whole numbers"
            refuse(argument, allowed, f"{column!r} of type {type_name(self.type_of(column))}")
        values = self.whole(column)
        if hasattr(values.type, "storage_type"):
            values = text_of(values)
        values = convert(values)
        if not pa.types.is_dictionary(values.type):
            values = values.dictionary_encode(null_encoding="mask")
        return values.unify_dictionaries().combine_chunks()


def _labels_in(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the labels; times become strings, because Python's own times would lose their nanoseconds."""
    import pyarrow.types as kinds

    return text_of(values) if kinds.is_temporal(values.type) else values


def listed(names: Sequence[str], show: Callable[[str], str] = repr) -> str:
    """Join names for an error message, which stays short even if they are many or long.

    >>> listed([f"c{column}" for column in range(5_000)])[-20:]
    "'c29' and 4,970 more"
    """
    shown = ", ".join(show(name[:LONGEST_NAME]) for name in names[:MOST_LISTED])
    return shown + (f" and {len(names) - MOST_LISTED:,} more" if len(names) > MOST_LISTED else "")


def _texts_of(names: Sequence[Any], argument: str) -> pa.Array:
    import pyarrow as pa

    try:
        targets = text_of_names(names)
    except (pa.ArrowException, TypeError) as error:
        raise InputError(f"{argument} must be a list of ids, whole numbers or texts; got something else.") from error
    if targets.null_count:
        refuse(argument, "ids", "None")
    if targets.unique().__len__() < len(targets):
        texts = targets.to_pylist()
        duplicate = next(text for position, text in enumerate(texts) if text in texts[:position])
        refuse(argument, "distinct ids", f"{duplicate!r} twice")
    return targets


def _match(column: pa.Array, targets: pa.Array, start: int, numbers: Ints, argument: str) -> None:
    """Fill in the row numbers of the ids that occur in this chunk of the id column, which begins at row `start`."""
    import pyarrow.compute as pc

    positions = pc.index_in(text_of(column), value_set=targets)
    hits = np.flatnonzero(positions.is_valid().to_numpy(zero_copy_only=False))
    which = positions.fill_null(-1).to_numpy(zero_copy_only=False)[hits]
    unique, first = np.unique(which, return_index=True)
    repeated = unique[numbers[unique] >= 0]
    if unique.size < which.size or repeated.size:
        later = np.setdiff1d(np.arange(which.size), first)
        position = repeated[0] if repeated.size else which[later[0]]
        refuse(argument, "ids that only one row has", f"{targets[int(position)].as_py()!r}, which several rows have")
    numbers[which] = start + hits
