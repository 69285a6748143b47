"""Rows in the columns of tables: Parquet, Arrow files, tables in memory, Hugging Face datasets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coresift.checks import InputError, refuse
from coresift.rows.base import CHANGED, Block, Rows, bounds_of, by_part, to_single
from coresift.types import Floats, Ints, Singles

if TYPE_CHECKING:
    import pyarrow as pa

LABELS_AT_ONCE = 2**16


class Part(ABC):
    """A table that can be streamed, with its number of rows known."""

    name: str
    count: int
    schema: pa.Schema

    @abstractmethod
    def batches(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns in row order, about `size` rows at a time where the source can."""

    def pick(self, columns: Sequence[str], size: int, ids: Ints) -> Iterator[pa.RecordBatch]:
        """Yield the rows of sorted `ids`."""
        return pick_from(self.batches(columns, size), ids, size)

    def stretch(self, columns: Sequence[str], size: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield rows `start` to `stop`, about `size` at a time."""
        return slice_from(self.batches(columns, size), start, stop)

    @property
    def read_at_once(self) -> int:
        """The most rows that must be read for one of them."""
        return 1


class TableRows(Rows):
    """Rows of one table after the other, streamed by the caller's thread and converted by the block's function."""

    def __init__(self, parts: Sequence[Part], layout: Layout) -> None:
        counts = [part.count for part in parts]
        d = _width(parts, layout)
        super().__init__(sum(counts), d, layout.id_name, layout.target)
        self._parts, self._layout, self._bounds = parts, layout, bounds_of(counts)

    def blocks(self) -> Iterator[Block]:
        """Yield blocks of what has been read so far, whatever the boundaries of files, row groups and batches."""
        stream = chain.from_iterable(part.batches(self._layout.columns, self.block_rows) for part in self._parts)
        start, held, count = 0, [], 0
        for batch in stream:
            used = 0
            while used < batch.num_rows:
                piece = batch.slice(used, self.block_rows - count)
                held.append(piece)
                used, count = used + piece.num_rows, count + piece.num_rows
                if count == self.block_rows:
                    yield start, partial(self._convert, held, start)
                    start, held, count = start + count, [], 0
        if start + count != self.n:
            raise InputError(CHANGED)
        if held:
            yield start, partial(self._convert, held, start)

    def _convert(self, batches: list[pa.RecordBatch], start: int) -> Singles:
        matrices = []
        for batch in batches:
            matrices.append(self._layout.matrix(batch, self.d, np.arange(start, start + batch.num_rows)))
            start += batch.num_rows
        return matrices[0] if len(matrices) == 1 else np.concatenate(matrices)

    def _read(self, start: int, stop: int) -> Iterator[Singles]:
        first = int(np.searchsorted(self._bounds, start, side="right")) - 1
        for part, begin in zip(self._parts[first:], self._bounds[first:].tolist(), strict=False):
            if begin >= stop:
                return
            within = max(start - begin, 0), min(stop - begin, part.count)
            for batch in part.stretch(self._layout.columns, self.block_rows, *within):
                yield self._layout.matrix(batch, self.d, np.arange(start, start + batch.num_rows))
                start += batch.num_rows

    @property
    def read_at_once(self) -> int:
        """The rows of the largest group that a table holds together."""
        return max(part.read_at_once for part in self._parts)

    def _pick(self, ids: Ints) -> Iterator[Singles]:
        done = 0
        for batch in self._picked(self._layout.columns, ids):
            yield self._layout.matrix(batch, self.d, ids[done : done + batch.num_rows])
            done += batch.num_rows

    def _picked(self, columns: Sequence[str], ids: Ints) -> Iterator[pa.RecordBatch]:
        for part, numbers in by_part(ids, self._bounds):
            yield from self._parts[part].pick(columns, self.block_rows, numbers)

    @property
    def parts(self) -> Sequence[Part]:
        """The tables, one after the other."""
        return self._parts

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The table's columns, unless the rows are lists in one of them."""
        return None if self._layout.listed else self._layout.columns

    def names(self, ids: ArrayLike) -> list[Any] | None:
        """Return the values of the id column for these rows: whole numbers or texts, and other types as text."""
        numbers = self._numbers(ids)
        if self.id_name is None:
            return None
        order = np.argsort(numbers, kind="stable")
        found = [names_of(batch.column(self.id_name)) for batch in self._picked([self.id_name], numbers[order])]
        result = np.empty(numbers.size, object)
        result[order] = list(chain.from_iterable(found))
        return list(result)

    def labels(self, column: str) -> NDArray[Any]:
        """Return the values of a column, one a row; each distinct one is held once."""
        import pyarrow as pa

        names = self._parts[0].schema.names
        if column not in names:
            refuse("strata", f"one label a row, or one of the columns {_list(names)}", repr(column))
        stream = chain.from_iterable(part.batches([column], LABELS_AT_ONCE) for part in self._parts)
        found = pa.chunked_array([batch.column(0) for batch in stream])
        if pa.types.is_nested(found.type):
            refuse("strata", "a column of whole numbers or texts", f"{column!r} of type {found.type}")
        if not pa.types.is_dictionary(found.type):
            found = found.dictionary_encode(null_encoding="encode")
        encoded = found.unify_dictionaries().combine_chunks()
        distinct = np.empty(len(encoded.dictionary) + 1, object)  # where the place is null, so is the value
        distinct[:-1] = encoded.dictionary.to_pylist()
        places: Ints = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()
        return distinct[places]

    def targets(self, ids: ArrayLike) -> Floats:
        """Return the numbers of the target column for these rows; a null is NaN."""
        numbers = self._numbers(ids)
        if self.target_name is None:
            return super().targets(ids)
        order = np.argsort(numbers, kind="stable")
        batches = self._picked([self.target_name], numbers[order])
        found = [batch.column(self.target_name).cast("double").to_numpy(zero_copy_only=False) for batch in batches]
        result = np.empty(numbers.size)
        result[order] = np.concatenate([np.zeros(0), *found])
        return result


@dataclass(frozen=True)
class Layout:
    """Which columns of a table are the embedding, one of lists or several of numbers, and which are id and target."""

    columns: tuple[str, ...]
    listed: bool
    id_name: str | None
    target: str | None = None

    def matrix(self, batch: pa.RecordBatch, d: int, numbers: Ints) -> Singles:
        """Return the rows of a batch, or refuse the first that is not d numbers, by its row number."""
        if self.listed:
            return to_single(_flat(batch.column(self.columns[0]), d, numbers).reshape(-1, d))
        columns = [batch.column(name) for name in self.columns]
        nulls = [(_first_null(column), name) for column, name in zip(columns, self.columns, strict=True)]
        position, name = min(nulls)
        if position < batch.num_rows:
            refuse("rows", "numbers without nulls", f"a null in row {numbers[position]}, column {name!r}")
        result = np.empty((batch.num_rows, d), np.float32)
        for place, column in enumerate(columns):
            result[:, place] = to_single(column.to_numpy(zero_copy_only=False))
        return result


def rows_of_tables(
    parts: Sequence[Part], column: str | None, id_column: str | None, target: str | None = None
) -> TableRows:
    """Return rows over tables that have the same columns."""
    layout = _layout(parts[0].schema, column, id_column, target)
    for part in parts[1:]:
        other = _layout(part.schema, column, id_column, target)
        if other != layout:
            refuse(
                "rows",
                f"files with the same columns ({_list(layout.columns)})",
                f"{part.name} with {_list(other.columns)}",
            )
    return TableRows(parts, layout)


def pick_from(batches: Iterator[pa.RecordBatch], ids: Ints, size: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of sorted `ids`, numbered along the batches, at most `size` at a time; stop after the last."""
    import pyarrow as pa

    start = done = 0
    for batch in batches:
        stop = done + int(np.searchsorted(ids[done:], start + batch.num_rows))
        for at in range(done, stop, size):
            yield batch.take(pa.array(ids[at : min(at + size, stop)] - start))
        start, done = start + batch.num_rows, stop
        if done == ids.size:
            return


def slice_from(batches: Iterator[pa.RecordBatch], start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """Yield rows `start` to `stop`, numbered along the batches, and look at no batch after them."""
    for batch in batches:
        if start < min(stop, batch.num_rows):
            first = max(start, 0)
            yield batch.slice(first, min(stop, batch.num_rows) - first)
        start, stop = start - batch.num_rows, stop - batch.num_rows
        if stop <= 0:
            return


def _layout(schema: pa.Schema, column: str | None, id_column: str | None, target: str | None) -> Layout:
    if len(set(schema.names)) < len(schema.names):
        refuse("rows", "a table whose columns have different names", _list(schema.names))
    for argument, name in (("column", column), ("id_column", id_column), ("target", target)):
        if name is not None and name not in schema.names:
            refuse(argument, f"one of {_list(schema.names)}", repr(name))
    lists = [field.name for field in schema if _is_number(_item(field.type))]
    if column is not None and column not in lists:
        refuse("column", "a column of lists of numbers", f"{column!r} of type {schema.field(column).type}")
    if column is not None and column == id_column:
        refuse("id_column", "another column than the embedding", repr(id_column))
    if id_column is not None and not _is_id(schema.field(id_column).type):
        allowed = "a column of whole numbers or texts"
        refuse("id_column", allowed, f"{id_column!r} of type {schema.field(id_column).type}")
    id_name = id_column or ("id" if "id" in schema.names and _is_id(schema.field("id").type) else None)
    if target is not None and (target == id_name or not _is_number(schema.field(target).type)):
        refuse("target", "a column of numbers that is not the id", f"{target!r} of type {schema.field(target).type}")
    lists = [column] if column is not None else [name for name in lists if name != id_name]
    if len(lists) > 1:
        names = _list(lists)
        raise InputError(f"column must say which lists of numbers are the rows: one of {names}; got None.")
    if lists:
        return Layout((lists[0],), True, id_name, target)
    others = (id_name, target)
    numeric = tuple(field.name for field in schema if _is_number(field.type) and field.name not in others)
    if not numeric:
        found = ", ".join(f"{field.name!r} ({field.type})" for field in schema) or "none"
        wanted = "a table with a column of embeddings (lists of numbers) or columns of numbers"
        texts = any(_is_text(field.type) for field in schema)
        hint = "; to embed a column of texts, see coresift embed --help" if texts else ""
        refuse("rows", wanted, f"columns {found}{hint}")
    return Layout(numeric, False, id_name, target)


def _width(parts: Sequence[Part], layout: Layout) -> int:
    if not layout.listed:
        return len(layout.columns)
    widths = {part.name: _list_length(part, layout.columns[0]) for part in parts if part.count}
    width = next(iter(widths.values()), 0)
    for name, d in widths.items():
        if d != width:
            refuse("rows", f"lists of the same length ({width} as in the first file)", f"{d} in {name}")
    return width


def _list_length(part: Part, column: str) -> int:
    fixed = getattr(part.schema.field(column).type, "list_size", None)
    if fixed is not None:
        return int(fixed)
    first = next(batch for batch in part.batches([column], 1) if batch.num_rows)
    row = first.column(column)[0].as_py()
    if row is None:
        refuse("rows", "lists of numbers", f"a null in row 0 of {part.name}")
    return len(row)


def _flat(column: pa.Array, d: int, numbers: Ints) -> NDArray[Any]:
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
    odd = np.flatnonzero(lengths != d)
    good = len(column) if odd.size == 0 else int(odd[0])
    values = column.slice(0, good).flatten()
    null = _first_null(values)
    if null < len(values):
        refuse("rows", "numbers without nulls", f"a null in the list of row {numbers[null // d]}")
    if odd.size:
        came = "a null" if lengths[good] < 0 else f"{lengths[good]} numbers"
        refuse("rows", f"lists of {d} numbers, as the first one", f"{came} in row {numbers[good]}")
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _first_null(column: pa.Array) -> int:
    """Return where the first null is; the length if there is none."""
    if column.null_count == 0:
        return len(column)
    return int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))


def _item(kind: pa.DataType) -> pa.DataType | None:
    import pyarrow.types as kinds

    is_list = kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)
    return kind.value_type if is_list else None


def _is_number(kind: pa.DataType | None) -> bool:
    import pyarrow.types as kinds

    return kind is not None and bool(kinds.is_floating(kind) or kinds.is_integer(kind))


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))


def _is_id(kind: pa.DataType) -> bool:
    import pyarrow.types as kinds

    return not (kinds.is_nested(kind) or "binary" in str(kind))


def names_of(column: pa.Array) -> list[Any]:
    """Return the values of an id column: whole numbers or texts, and other types as text."""
    import pyarrow.types as kinds

    if kinds.is_dictionary(column.type):
        column = column.dictionary_decode()
    plain: list[Any] = (column if kinds.is_integer(column.type) else column.cast("string")).to_pylist()
    return plain


def _list(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)
