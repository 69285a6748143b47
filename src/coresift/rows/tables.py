"""Rows in the columns of a table: one column of lists of numbers, or several numeric columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coresift.checks import InputError, did_you_mean, refuse
from coresift.rows.base import CHANGED, Block, Rows, to_single
from coresift.tables.parts import Part
from coresift.tables.table import Table, listed
from coresift.tables.values import (
    bare_type,
    features_in,
    first_null,
    is_boolean,
    is_number,
    is_text,
    is_time,
    item_type,
    type_name,
)
from coresift.types import Floats, Ints, Singles

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class ColumnChoice:
    """Which columns the user wants as the rows.

    `column` is a column of lists of numbers, and `columns` are numeric columns; `exclude` and `target` are left out.
    """

    column: str | None = None
    columns: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    target: str | None = None

    def refuse_any(self) -> None:
        """Refuse a choice of columns for rows that have no columns."""
        names = {"column": self.column, "columns": self.columns, "exclude_columns": self.exclude, "target": self.target}
        for argument, value in names.items():
            if value:
                refuse(argument, "left out if there are no columns to choose from", repr(value))


class TableRows(Rows):
    """Rows of a table, which are read in the caller's thread and converted in the block's function."""

    def __init__(self, table: Table, layout: Layout, choice: ColumnChoice) -> None:
        super().__init__(table.n, _width(table.parts, layout), table.id_name, layout.target)
        self._table, self._layout, self._choice = table, layout, choice

    def blocks(self) -> Iterator[Block]:
        """Yield blocks as they are read; they may cross the boundaries of files, row groups and batches."""
        start, pieces, count = 0, [], 0
        for batch in self._table.batches(self._layout.columns, self.block_rows):
            used = 0
            while used < batch.num_rows:
                piece = batch.slice(used, self.block_rows - count)
                pieces.append(piece)
                used, count = used + piece.num_rows, count + piece.num_rows
                if count == self.block_rows:
                    yield start, partial(self._convert, pieces, start)
                    start, pieces, count = start + count, [], 0
        if start + count != self.n:
            raise InputError(CHANGED)
        if pieces:
            yield start, partial(self._convert, pieces, start)

    def _convert(self, batches: list[pa.RecordBatch], start: int) -> Singles:
        matrices = []
        for batch in batches:
            matrices.append(self._layout.matrix(batch, self.d, np.arange(start, start + batch.num_rows)))
            start += batch.num_rows
        return matrices[0] if len(matrices) == 1 else np.concatenate(matrices)

    def _read(self, start: int, stop: int) -> Iterator[Singles]:
        bounds = self._table.bounds
        first = int(np.searchsorted(bounds, start, side="right")) - 1
        for part, begin in zip(self._table.parts[first:], bounds[first:].tolist(), strict=False):
            if begin >= stop:
                return
            within = max(start - begin, 0), min(stop - begin, part.count)
            for batch in part.stretch(self._layout.columns, self.block_rows, *within):
                yield self._layout.matrix(batch, self.d, np.arange(start, start + batch.num_rows))
                start += batch.num_rows

    @property
    def read_at_once(self) -> int:
        """The rows of the largest group that must be read as a whole."""
        return max(part.read_at_once for part in self._table.parts)

    def _pick(self, ids: Ints) -> Iterator[Singles]:
        done = 0
        for batch in self._table.pick(self._layout.columns, ids, self.block_rows):
            yield self._layout.matrix(batch, self.d, ids[done : done + batch.num_rows])
            done += batch.num_rows

    @property
    def table(self) -> Table | None:
        """The table that the rows are columns of."""
        return self._table

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns of the table that are the rows: d numeric ones, or one of lists."""
        return self._layout.columns

    @property
    def unused(self) -> tuple[str, ...]:
        """The columns of the table that are neither used nor the id, the target, or excluded by name."""
        known = {*self._layout.columns, *_excluded(self._table, self._choice)}
        return tuple(name for name in self._table.columns if name not in known)

    @property
    def unused_booleans(self) -> tuple[str, ...]:
        """The boolean columns among them that would be used if they were numbers."""
        if self._choice.columns is not None or self._layout.listed:
            return ()
        return tuple(name for name in self.unused if is_boolean(self._table.type_of(name)))

    def names(self, ids: ArrayLike) -> list[Any] | None:
        """Return the values of the id column for these rows: integers or strings; other types become strings."""
        return self._table.names(self._numbers(ids))

    def numbers_of(self, names: Sequence[Any], argument: str = "ids") -> Ints:
        """Return the row numbers of ids, in their order."""
        return self._table.numbers_of(names, argument)

    def labels(self, column: str, argument: str = "strata") -> NDArray[Any]:
        """Return the values of a column, one per row; equal values share one object."""
        if column not in self._table.columns:
            got = f"{column!r}{did_you_mean(column, self._table.columns)}"
            refuse(argument, f"one label per row, or one of the columns {self._table.listed()}", got)
        return self._table.labels(column, argument)

    def targets(self, ids: ArrayLike) -> Floats:
        """Return the numbers of the target column for these rows; a null is NaN."""
        numbers = self._numbers(ids)
        return super().targets(ids) if self.target_name is None else self._table.numbers(self.target_name, numbers)


@dataclass(frozen=True)
class Layout:
    """Which columns of a table are the rows (one of lists if `listed`, else numeric ones), and which is the target."""

    columns: tuple[str, ...]
    listed: bool
    target: str | None = None

    def matrix(self, batch: pa.RecordBatch, d: int, numbers: Ints) -> Singles:
        """Return the rows of a batch; refuse the first that does not have d numbers, by its row number."""
        if self.listed:
            return to_single(_flat(batch.column(self.columns[0]), d, numbers).reshape(-1, d))
        columns = [batch.column(name) for name in self.columns]
        nulls = [(first_null(column), name) for column, name in zip(columns, self.columns, strict=True)]
        position, name = min(nulls)
        if position < batch.num_rows:
            where = f"a null in row {numbers[position]}, column {name!r}"
            others = [other for first, other in nulls if first < batch.num_rows and other != name]
            cure = f", and others in {listed(others)}; fill them in, or leave these columns out" if others else ""
            refuse("rows", "numbers without nulls", where + (cure or "; fill it in, or leave the column out"))
        result = np.empty((batch.num_rows, d), np.float32)
        for position, column in enumerate(columns):
            result[:, position] = to_single(features_in(column))
        return result


def rows_of_table(table: Table, choice: ColumnChoice) -> TableRows:
    """Return rows over the columns of a table."""
    layout = _layout(table, choice)
    for part in table.parts[1:]:
        other = _layout(Table([part], table.argument, table.id_name), choice)
        if other != layout:
            allowed = f"files with the same columns ({listed(layout.columns)})"
            refuse("rows", allowed, f"{part.name} with {listed(other.columns)}")
    return TableRows(table, layout, choice)


def _layout(table: Table, choice: ColumnChoice) -> Layout:
    _check(table, choice)
    excluded = _excluded(table, choice)
    if choice.columns is not None:
        return Layout(choice.columns, _is_lists(table, choice.columns), choice.target)
    lists = [name for name in table.columns if is_number(item_type(table.type_of(name))) and name not in excluded]
    lists = lists if choice.column is None else [choice.column]
    if len(lists) > 1:
        raise InputError(f"column must say which lists of numbers are the rows: one of {listed(lists)}; got None.")
    if lists:
        return Layout((lists[0],), True, choice.target)
    numeric = tuple(name for name in table.columns if is_number(table.type_of(name)) and name not in excluded)
    if not numeric:
        _refuse_columns(table)
    return Layout(numeric, False, choice.target)


def _excluded(table: Table, choice: ColumnChoice) -> set[str | None]:
    return {table.id_name, choice.target, *choice.exclude, *table.index_columns}


def _is_lists(table: Table, columns: tuple[str, ...]) -> bool:
    """Return whether these columns are one column of lists of numbers."""
    return len(columns) == 1 and is_number(item_type(table.type_of(columns[0])))


def _check(table: Table, choice: ColumnChoice) -> None:
    chosen = {"column": [choice.column], "target": [choice.target], "exclude_columns": choice.exclude}
    for argument, names in {**chosen, "columns": choice.columns or ()}.items():
        for name in names:
            if name is not None:
                table.require(argument, name)
    if choice.column is not None and choice.columns is not None:
        refuse("columns", "left out if column names a column of lists", repr(choice.columns))
    if choice.column is not None and not is_number(item_type(table.type_of(choice.column))):
        got = f"{choice.column!r} of type {type_name(table.type_of(choice.column))}"
        refuse("column", "a column of lists of numbers", got)
    if choice.target is not None and (choice.target == table.id_name or not is_number(table.type_of(choice.target))):
        allowed = "a column of numbers that is not the id"
        refuse("target", allowed, f"{choice.target!r} of type {type_name(table.type_of(choice.target))}")
    for name in choice.columns or ():
        if not (
            _is_lists(table, choice.columns or ()) or is_number(table.type_of(name)) or is_boolean(table.type_of(name))
        ):
            kind = table.type_of(name)
            refuse("columns", "columns of numbers", f"{name!r} of type {type_name(kind)}{_cure(kind)}")
        if name in (table.id_name, choice.target, *choice.exclude):
            refuse("columns", "columns other than the id, the target and the excluded ones", repr(name))


def _refuse_columns(table: Table) -> None:
    came = ", ".join(f"{field.name!r} ({type_name(field.type)})" for field in table.schema) or "none"
    allowed = "a table with a column of embeddings (lists of numbers) or columns of numbers"
    texts = any(is_text(field.type) for field in table.schema)
    hint = (
        "; to embed a column of texts, use cs.models.embed or coresift embed; "
        "to turn categories into numbers, use pandas.get_dummies"
    )
    refuse("rows", allowed, f"columns {came}{hint if texts else ''}")


def _cure(kind: pa.DataType) -> str:
    """Return how to turn a column that is not numeric into numbers."""
    if is_text(kind):
        return "; turn categories into numbers, for example with pandas.get_dummies"
    return "; turn times into numbers, such as the year" if is_time(kind) else ""


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
    fixed = getattr(bare_type(part.schema.field(column).type), "list_size", None)
    if fixed is not None:
        return int(fixed)
    first = next(batch for batch in part.batches([column], 1) if batch.num_rows)
    row = first.column(column)[0].as_py()
    if row is None:
        refuse("rows", "lists of numbers", f"a null in row 0 of {part.name}")
    return len(row)


def _flat(column: pa.Array, d: int, numbers: Ints) -> NDArray[Any]:
    import pyarrow.compute as pc

    column = getattr(column, "storage", column)
    lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(lengths != d)
    valid = len(column) if wrong.size == 0 else int(wrong[0])
    values = column.slice(0, valid).flatten()
    null = first_null(values)
    if null < len(values):
        refuse("rows", "numbers without nulls", f"a null in the list of row {numbers[null // d]}")
    if wrong.size:
        came = "a null" if lengths[valid] < 0 else f"{lengths[valid]} numbers"
        refuse("rows", f"lists of {d} numbers, like the first one", f"{came} in row {numbers[valid]}")
    return features_in(values)
