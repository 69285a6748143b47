"""Views of rows: scaled to unit length, standardized, a subset, or with ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coresift.checks import refuse
from coresift.columns import spans
from coresift.rows.base import Block, Rows, Stretch, in_blocks, joined, refuse_bad_row
from coresift.tables.opening import open_table
from coresift.tables.table import Table
from coresift.types import Floats, Ints, Singles


class View(Rows):
    """A view transforms other rows, one by one; everything else is delegated to them."""

    def __init__(self, raw: Rows) -> None:
        super().__init__(raw.n, raw.d, raw.id_name, raw.target_name)
        self._raw = raw

    def _transform(self, block: Singles) -> Singles:
        """Return the transformed block."""
        return block

    def _transform_stretch(self, raw: Stretch) -> Stretch:
        """Return a function that reads a stretch and transforms it, and that pickles small."""
        return raw

    def blocks(self) -> Iterator[Block]:
        """Yield the transformed blocks."""
        for start, block in self._raw.blocks():
            yield start, lambda block=block: self._transform(block())  # type: ignore[misc]

    def _pick(self, ids: Ints) -> Iterator[Singles]:
        return map(self._transform, self._raw._pick(ids))

    @property
    def base(self) -> Rows:
        """The rows that hold the numbers."""
        return self._raw.base

    def stretch(self, start: int, stop: int) -> Stretch:
        """Return a function of `base` that yields rows `start` to `stop` in blocks."""
        return self._transform_stretch(self._raw.stretch(start, stop))

    def picking(self, ids: Ints) -> Stretch:
        """Return a function of `base` that yields the rows with the sorted numbers `ids`."""
        return self._transform_stretch(self._raw.picking(ids))

    @property
    def read_at_once(self) -> int:
        """How many rows the source must read to get one of them."""
        return self._raw.read_at_once

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns of the table that are the rows."""
        return self._raw.columns

    @property
    def unused(self) -> tuple[str, ...]:
        """The columns of the table that are neither used nor the id, the target, or excluded by name."""
        return self._raw.unused

    @property
    def scaling(self) -> tuple[Floats, Floats] | None:
        """The mean and the standard deviation of each column if it was standardized."""
        return self._raw.scaling

    @property
    def table(self) -> Table | None:
        """The table that the rows come from."""
        return self._raw.table

    def names(self, ids: ArrayLike) -> list[Any] | None:
        """Return the ids of these rows."""
        return self._raw.names(ids)

    def numbers_of(self, names: Sequence[Any], argument: str = "ids") -> Ints:
        """Return the row numbers of ids."""
        return self._raw.numbers_of(names, argument)

    def content(self, ids: Ints) -> str | None:
        """Return a digest of the numbers behind the view."""
        return self._raw.content(ids)

    def stored(self) -> Iterator[Singles]:
        """Yield the blocks behind the view."""
        return self._raw.stored()

    def labels(self, column: str, argument: str = "strata") -> NDArray[Any]:
        """Return the values of a column, one per row."""
        return self._raw.labels(column, argument)

    def number(self, row: int) -> int:
        """Return the row's number as the user knows it."""
        return self._raw.number(row)

    def targets(self, ids: ArrayLike) -> Floats:
        """Return these rows' values in the target column."""
        return self._raw.targets(ids)


class Normalized(View):
    """Rows scaled to length 1. They have the fingerprint of the raw rows, as these are stored."""

    def _transform(self, block: Singles) -> Singles:
        return _unit_length(block)

    def _transform_stretch(self, raw: Stretch) -> Stretch:
        return partial(_read_units, raw)

    def normalized(self) -> Rows:
        """Return itself."""
        return self

    def fingerprint(self) -> str:
        """Return the fingerprint of the raw rows."""
        return self._raw.fingerprint()

    @property
    def marked(self) -> bool:
        """Whether the fingerprint of the raw rows has been computed."""
        return self._raw.marked

    def mark(self, checksums: Sequence[int]) -> None:
        """Compute the fingerprint of the raw rows from the checksums of the raw blocks."""
        self._raw.mark(checksums)


class Standardized(View):
    """Rows whose columns are shifted and scaled. They have a fingerprint of their own, as their clusters differ."""

    def __init__(self, raw: Rows, mean: Floats, scale: Floats) -> None:
        super().__init__(raw)
        self._mean, self._scale = mean, scale

    def _transform(self, block: Singles) -> Singles:
        return _scaled(block, self._mean, self._scale)

    def _transform_stretch(self, raw: Stretch) -> Stretch:
        return partial(_read_scaled, raw, self._mean, self._scale)

    @property
    def scaling(self) -> tuple[Floats, Floats] | None:
        """The mean and the standard deviation of each column; a constant column has scale infinity."""
        return self._mean, self._scale

    def scale_hint(self) -> str | None:
        """Return None: all columns are on the same scale."""
        return None


class Named(View):
    """Rows with ids, which are in a table of their own."""

    def __init__(self, raw: Rows, ids: Table, name: str) -> None:
        super().__init__(raw)
        self._names, self.id_name = ids, name

    def fingerprint(self) -> str:
        """Return the fingerprint of the rows, without the ids."""
        return self._raw.fingerprint()

    @property
    def marked(self) -> bool:
        """Whether the fingerprint of the raw rows has been computed."""
        return self._raw.marked

    def mark(self, checksums: Sequence[int]) -> None:
        """Compute the fingerprint of the raw rows from the checksums of the raw blocks."""
        self._raw.mark(checksums)

    def names(self, ids: ArrayLike) -> list[Any] | None:
        """Return the ids of these rows."""
        return self._names.names(self._numbers(ids))

    def numbers_of(self, names: Sequence[Any], argument: str = "ids") -> Ints:
        """Return the row numbers of ids."""
        return self._names.numbers_of(names, argument)


class Subset(View):
    """A subset of other rows, in their order; each pass reads it as one stream."""

    def __init__(self, whole: Rows, ids: Ints) -> None:
        super().__init__(whole)
        self.n, self.target_name, self._ids = ids.size, None, ids
        if self.n == 0:
            refuse("rows", "at least one row of at least one number", f"0 rows of {whole.d} numbers")

    def blocks(self) -> Iterator[Block]:
        """Yield blocks as they are read."""
        start = 0
        pieces_of_all = chain.from_iterable(self._raw._pick(self._ids[rows]) for rows in spans(self.n))
        for pieces in in_blocks(pieces_of_all, self.block_rows, self.n):
            yield start, partial(np.concatenate, pieces)
            start += self.block_rows

    def _pick(self, ids: Ints) -> Iterator[Singles]:
        return self._raw._pick(self._ids[ids])

    def stretch(self, start: int, stop: int) -> Stretch:
        """Return a function of `base` that yields rows `start` to `stop` in blocks."""
        return partial(_in_whole_blocks, self._raw.picking(self._ids[start:stop]), stop - start)

    def picking(self, ids: Ints) -> Stretch:
        """Return a function of `base` that yields the rows with the sorted numbers `ids`."""
        return self._raw.picking(self._ids[ids])

    @property
    def read_at_once(self) -> int:
        """Return 1: rows of a subset are not read in groups."""
        return 1

    @property
    def table(self) -> Table | None:
        """Return None: the table has all rows, not just the subset."""
        return None

    def names(self, ids: ArrayLike) -> list[Any] | None:
        """Return the ids of these rows."""
        return self._raw.names(self._ids[self._numbers(ids)])

    def numbers_of(self, names: Sequence[Any], argument: str = "ids") -> Ints:
        """Return the row numbers of ids."""
        rows = self._raw.numbers_of(names, argument)
        positions = np.searchsorted(self._ids, rows)
        outside = np.flatnonzero(self._ids[np.minimum(positions, self.n - 1)] != rows)
        if outside.size:
            refuse(argument, "ids of these rows", repr(names[int(outside[0])]))
        return positions

    def content(self, ids: Ints) -> str | None:
        """Return a digest of the numbers behind the view."""
        return self._raw.content(self._ids[ids])

    def labels(self, column: str, argument: str = "strata") -> NDArray[Any]:
        """Return the values of a column, one per row."""
        labels: NDArray[Any] = self._raw.labels(column, argument)[self._ids]
        return labels

    def targets(self, ids: ArrayLike) -> Floats:
        """Refuse: a subset has no target column."""
        return Rows.targets(self, ids)

    def number(self, row: int) -> int:
        """Return the row's number in the subset."""
        return row


def named(rows: Rows, ids: Sequence[Any], name: str) -> Rows:
    """Return rows with ids, one per row."""
    table = open_table({"id": list(ids)}, argument="ids")
    if table.n != rows.n:
        refuse("ids", f"one id for each of {rows.n} rows", f"{table.n} ids")
    if table.id_name is None:
        refuse("ids", "whole numbers or texts", "lists")
    return Named(rows, table, name)


def standardized(rows: Rows) -> Rows:
    """Return rows whose columns have mean 0 and standard deviation 1, after one pass over them."""
    shift = rows.take([0])[0].astype(np.float64)
    sums, squares = np.zeros(rows.d), np.zeros(rows.d)
    for _, block in rows.blocks():
        # Subtract the first row, because otherwise columns far from 0 lose digits.
        with np.errstate(invalid="ignore"):
            wide = block().astype(np.float64) - shift
        sums += wide.sum(axis=0)
        squares += np.square(wide, out=wide).sum(axis=0)
    if not np.isfinite(squares).all():
        refuse_bad_row(rows)
    mean = sums / rows.n
    deviation = np.sqrt(np.maximum(squares / rows.n - mean**2, 0))
    constant = deviation <= 1e-12 * np.maximum(np.abs(mean), 1e-300)
    return Standardized(rows, shift + mean, np.where(constant, np.inf, deviation))


def _read_units(raw: Stretch, base: Rows) -> Iterator[Singles]:
    return map(_unit_length, raw(base))


def _read_scaled(raw: Stretch, mean: Floats, scale: Floats, base: Rows) -> Iterator[Singles]:
    return (_scaled(block, mean, scale) for block in raw(base))


def _in_whole_blocks(pieces: Stretch, count: int, base: Rows) -> Iterator[Singles]:
    return map(joined, in_blocks(pieces(base), base.block_rows, count))


def _scaled(block: Singles, mean: Floats, scale: Floats) -> Singles:
    return ((block.astype(np.float64) - mean) / scale).astype(np.float32)


def _unit_length(block: Singles) -> Singles:
    # In float64 the squares of large rows do not overflow and those of small rows do not vanish. The whole block is
    # converted first, because the result of a buffered sum would depend on a row's position in the block.
    wide = block.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    lengths[lengths == 0] = 1
    with np.errstate(invalid="ignore"):
        wide /= lengths[:, np.newaxis]
    return wide.astype(np.float32)
