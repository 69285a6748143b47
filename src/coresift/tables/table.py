"""A table of n rows, wherever it is stored: read a few rows at a time, in order, by row number or by id."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coresift.checks import InputError, refuse
from coresift.tables.parts import Part, bounds_of, by_part, reading
from coresift.tables.values import is_nested, is_text, names_of, numbers_in, text_of, text_of_names
from coresift.types import Floats, Ints

if TYPE_CHECKING:
    import pyarrow as pa

AT_ONCE = 2**13  # rows that are read at a time, unless someone says otherwise
SINGLE_AT_ONCE = 2**16  # cells of a single column
MOST_LISTED, LONGEST_NAME = 30, 100  # of columns that a sentence names
UNNAMED_INDEX = "__index_level_"  # how a file of pandas calls an index without a name, which says nothing about rows


class Table:
    """Tables with the same columns, one after another.

    `argument` is what sentences call it. A column of the name "id" has the ids of the rows, unless `id_column` names
    another or its values have parts; ids are whole numbers or texts, and are compared as texts.

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
                refuse("id_column", allowed, f"{id_column!r} of type {self.type_of(id_column)}")
        own = "id" in self.columns and not is_nested(self.type_of("id"))
        self.id_name = id_column or ("id" if own else None)

    @property
    def index_columns(self) -> list[str]:
        """The columns that were the index of a pandas frame: they number the rows, and describe nothing."""
        try:
            facts = json.loads((self.schema.metadata or {}).get(b"pandas", b"{}"))
            return [name for name in facts.get("index_columns", []) if isinstance(name, str)]
        except (ValueError, AttributeError, TypeError, RecursionError):  # the note of someone else
            return []

    def type_of(self, column: str) -> pa.DataType:
        """Return the type of a column in the first of the tables."""
        return self.schema.field(column).type

    def require(self, argument: str, column: str) -> None:
        """Refuse a column that is not there."""
        if column not in self.columns:
            refuse(argument, f"one of the columns {self.listed()}", repr(column))

    def require_texts(self, argument: str, column: str) -> None:
        """Refuse a column that is not there or has no texts in it."""
        self.require(argument, column)
        if not is_text(self.type_of(column)):
            refuse(argument, "a column of texts", f"{column!r} of type {self.type_of(column)}")

    def batches(self, columns: Sequence[str], size: int = AT_ONCE) -> Iterator[pa.RecordBatch]:
        """Yield columns in row order, about `size` rows at a time where the source can."""
        return chain.from_iterable(part.batches(columns, size) for part in self.parts)

    def pick(self, columns: Sequence[str], ids: Ints, size: int = AT_ONCE) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ascending, perhaps repeated, `ids`."""
        for part, numbers in by_part(ids, self.bounds):
            yield from self.parts[part].pick(columns, size, numbers)

    def cells(self, column: str, ids: ArrayLike) -> list[Any]:
        """Return a column's values for some rows, in the order asked."""
        return self._in_order(column, ids, lambda array: array.to_pylist())

    def names(self, ids: ArrayLike) -> list[Any] | None:
        """Return the ids of some rows, in the order asked; None if the table has none."""
        return None if self.id_name is None else self._in_order(self.id_name, ids, names_of)

    def numbers(self, column: str, ids: ArrayLike) -> Floats:
        """Return a column's numbers for some rows, in the order asked, NaN where there is none."""
        numbers = np.asarray(ids, np.int64)
        order = np.argsort(numbers, kind="stable")
        result = np.empty(numbers.size)
        with reading(f"The column {column}"):
            found = [numbers_in(batch.column(0)) for batch in self.pick([column], numbers[order])]
        result[order] = np.concatenate([np.zeros(0), *found])
        return result

    def take(self, ids: ArrayLike) -> pa.Table:
        """Return whole rows by number, in the order asked."""
        import pyarrow as pa

        numbers = np.asarray(ids, np.int64)
        order = np.argsort(numbers, kind="stable")
        columns = [name for name in self.columns if not name.startswith(UNNAMED_INDEX)]
        batches = [pa.Table.from_batches([batch]) for batch in self.pick(columns, numbers[order])]
        nothing = pa.Table.from_batches([], self.schema).select(columns)
        whole = pa.concat_tables([nothing, *batches], promote_options="permissive")
        back = np.empty(order.size, np.int64)
        back[order] = np.arange(order.size)
        taken = whole if np.array_equal(back, np.arange(back.size)) else whole.take(pa.array(back))
        return taken.replace_schema_metadata(self.schema.metadata)

    def whole(self, column: str) -> pa.ChunkedArray:
        """Return all values of a column."""
        import pyarrow as pa

        chunks = [pa.chunked_array([batch.column(0)]) for batch in self.batches([column], SINGLE_AT_ONCE)]
        if len({chunk.type for chunk in chunks}) <= 1:
            return pa.chunked_array(list(chain.from_iterable(chunk.chunks for chunk in chunks)), self.type_of(column))
        tables = [pa.table({column: chunk}) for chunk in chunks]
        return pa.concat_tables(tables, promote_options="permissive")[column]

    def labels(self, column: str, argument: str = "strata") -> NDArray[Any]:
        """Return the values of a column of classes, one per row; each distinct one is held once."""
        encoded = self._encoded(column, argument, _labels_in)
        distinct = np.empty(len(encoded.dictionary) + 1, object)  # where the place is null, so is the value
        distinct[:-1] = encoded.dictionary.to_pylist()
        places: Ints = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        return distinct[places]

    def classes(self, column: str, argument: str = "label") -> tuple[list[str], Ints]:
        """Return the distinct values of a column as texts, and for each row which of them it has (−1: none)."""
        encoded = self._encoded(column, argument, text_of)
        codes: Ints = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return encoded.dictionary.to_pylist(), codes

    def numbers_of(self, names: Sequence[Any], argument: str = "ids") -> Ints:
        """Return the row numbers of some ids, in their order; refuse an id that no row has, or that two rows have."""
        if self.id_name is None:
            refuse(argument, "row numbers, because the rows have no ids", "ids")
        asked = _texts_of(names, argument)
        found = np.full(len(asked), -1, np.int64)
        start = 0
        for batch in self.batches([self.id_name], SINGLE_AT_ONCE):
            _match(batch.column(0), asked, start, found, argument)
            start += batch.num_rows
        missing = np.flatnonzero(found < 0)
        if missing.size:
            refuse(argument, f"ids that column {self.id_name!r} has", f"{asked[int(missing[0])].as_py()!r}")
        return found

    def listed(self) -> str:
        """Return the names of the columns for a sentence."""
        return listed(self.columns) or "none"

    def _in_order(self, column: str, ids: ArrayLike, convert: Any) -> list[Any]:
        numbers = np.asarray(ids, np.int64)
        order = np.argsort(numbers, kind="stable")
        found: NDArray[Any] = np.empty(numbers.size, object)
        cells = chain.from_iterable(convert(batch.column(0)) for batch in self.pick([column], numbers[order]))
        for place, cell in zip(order.tolist(), cells, strict=True):
            found[place] = cell
        return list(found)

    def _encoded(self, column: str, argument: str, convert: Any) -> Any:
        import pyarrow as pa

        self.require(argument, column)
        if is_nested(self.type_of(column)):
            allowed = "a column of texts or whole numbers"
            refuse(argument, allowed, f"{column!r} of type {self.type_of(column)}")
        values = self.whole(column)
        if hasattr(values.type, "storage_type"):
            values = text_of(values)
        values = convert(values)
        if not pa.types.is_dictionary(values.type):
            values = values.dictionary_encode(null_encoding="mask")
        return values.unify_dictionaries().combine_chunks()


def _labels_in(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values that Python can tell apart: it has no nanoseconds, so times become texts."""
    import pyarrow.types as kinds

    return text_of(values) if kinds.is_temporal(values.type) else values


def listed(names: Sequence[str], show: Callable[[str], str] = repr) -> str:
    """Return names for a sentence, which stays one however many and long they are.

    >>> listed([f"c{column}" for column in range(5_000)])[-20:]
    "'c29' and 4,970 more"
    """
    shown = ", ".join(show(name[:LONGEST_NAME]) for name in names[:MOST_LISTED])
    return shown + (f" and {len(names) - MOST_LISTED:,} more" if len(names) > MOST_LISTED else "")


def _texts_of(names: Sequence[Any], argument: str) -> pa.Array:
    import pyarrow as pa

    try:
        asked = text_of_names(names)
    except (pa.ArrowException, TypeError) as error:
        raise InputError(f"{argument} must be a list of ids, whole numbers or texts; got others.") from error
    if asked.null_count:
        refuse(argument, "ids", "None")
    if asked.unique().__len__() < len(asked):
        texts = asked.to_pylist()
        twice = next(text for place, text in enumerate(texts) if text in texts[:place])
        refuse(argument, "distinct ids", f"{twice!r} twice")
    return asked


def _match(column: pa.Array, asked: pa.Array, start: int, found: Ints, argument: str) -> None:
    """Note the row numbers of the ids that this piece of the id column has."""
    import pyarrow.compute as pc

    places = pc.index_in(text_of(column), value_set=asked)
    hits = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
    which = places.fill_null(-1).to_numpy(zero_copy_only=False)[hits]
    unique, first = np.unique(which, return_index=True)
    again = unique[found[unique] >= 0]
    if unique.size < which.size or again.size:
        other = np.setdiff1d(np.arange(which.size), first)
        place = again[0] if again.size else which[other[0]]
        refuse(argument, "ids that only one row has", f"{asked[int(place)].as_py()!r}, which several rows have")
    found[which] = start + hits
