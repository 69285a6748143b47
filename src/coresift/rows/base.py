"""The interface of all rows: fixed-size blocks in order, rows by number, views, and a fingerprint."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coresift.checks import InputError, refuse
from coresift.columns import every
from coresift.notebook import card, counted
from coresift.scratch import copied
from coresift.tables.table import Table
from coresift.types import MOST_COLUMNS, MOST_IN_REPR, Floats, Ints, Singles, brief_list, content_of, digest, looked_at

Block: TypeAlias = tuple[int, Callable[[], Singles]]
Stretch: TypeAlias = "Callable[[Rows], Iterator[Singles]]"

# Two rows of this length are at most 2e18 apart, so squared distances stay well below the maximum of float32 (3.4e38).
LONGEST = 1e18

# The most rows of a block.
LONGEST_BLOCK = 32_768

SAMPLED, PLACES = 1024, 16  # rows whose standard deviations are compared, and in how many places of the table

CHANGED = "rows must not change while they are in use; a file has changed since it was opened."


def checksum(_: int, block: Singles) -> int:
    """Return a checksum of a block's numbers. It is a block function, so any engine can run it."""
    return zlib.crc32(np.ascontiguousarray(block, np.float32).data.cast("B"))


class Rows(ABC):
    """A read-only n×d matrix that is read in blocks of float32 or by row number, never all at once.

    `block_rows` depends on d alone, so results that are computed block by block do not depend on where the numbers are
    stored. `id_name` and `target_name` are the names of the table's id column and target column, if it has them.

    >>> import numpy as np
    >>> from coresift.rows import open_rows
    >>> rows = open_rows(np.arange(6).reshape(3, 2))
    >>> rows.n, rows.d, rows.id_name
    (3, 2, None)
    >>> [(start, block().tolist()) for start, block in rows.blocks()]
    [(0, [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])]
    >>> rows.take([2, 0]).tolist()
    [[4.0, 5.0], [0.0, 1.0]]
    """

    def __init__(self, n: int, d: int, id_name: str | None = None, target_name: str | None = None) -> None:
        if n == 0 or d == 0:
            refuse("rows", "at least one row of at least one number", f"{n} rows of {d} numbers")
        self.n, self.d, self.id_name, self.target_name = n, d, id_name, target_name
        self.block_rows = block_length(d)
        self._fingerprint: str | None = None

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """Yield, in row order, the first row's number and a function that returns the block.

        Every block but the last has `block_rows` rows. The functions may run in several threads at a time. Do not
        write to what they return: it may be the source itself.
        """

    @abstractmethod
    def _pick(self, ids: Ints) -> Iterator[Singles]:
        """Yield the rows with the sorted, possibly repeated, numbers `ids` in pieces of bounded size."""

    def _read(self, start: int, stop: int) -> Iterator[Singles]:
        """Yield rows `start` to `stop` in pieces of bounded size."""
        return self._pick(np.arange(start, stop))

    @property
    def read_at_once(self) -> int:
        """How many rows the source must read to get one of them, such as the rows of a compressed row group."""
        return 1

    @property
    def base(self) -> Rows:
        """The rows that hold the numbers: these, or those that they are a view of. Another process needs them once."""
        return self

    def stretch(self, start: int, stop: int) -> Stretch:
        """Return a function of `base` that yields rows `start` to `stop` in blocks.

        `start` must be the first row of a block. Unlike `blocks`, the function does not depend on earlier reads, and it
        pickles small.
        """
        return partial(_read_stretch, start, stop)

    def picking(self, ids: Ints) -> Stretch:
        """Return a function of `base` that yields the rows with the sorted numbers `ids` in pieces of bounded size."""
        return partial(_pick_from, ids)

    def take(self, ids: ArrayLike) -> Singles:
        """Return rows by number, in the order of `ids`, which may repeat."""
        numbers = self._numbers(ids)
        ascending = bool(np.all(numbers[1:] >= numbers[:-1]))  # to sort and to scatter would take most of the time
        order = np.zeros(0, np.int64) if ascending else np.argsort(numbers, kind="stable")
        result = np.empty((numbers.size, self.d), np.float32)
        done = 0
        for piece in self._pick(numbers if ascending else numbers[order]):
            here = slice(done, done + len(piece))
            result[here if ascending else order[here]] = piece
            done += len(piece)
        if done < numbers.size:
            raise InputError(CHANGED)
        return result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return all rows as an array in memory, for `np.asarray(rows)`."""
        if copy is False:
            raise ValueError("Rows are read, so an array of them is always a copy.")
        return self.take(np.arange(self.n)).astype(np.float32 if dtype is None else dtype, copy=False)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns of the table that are the rows: d numeric ones, or one of lists; None if there is no table."""
        return None

    @property
    def unused(self) -> tuple[str, ...]:
        """The columns of the table that are neither used nor the id, the target, or excluded by name."""
        return ()

    @property
    def unused_booleans(self) -> tuple[str, ...]:
        """The boolean columns among them that would be used if they were numbers."""
        return ()

    @property
    def scaling(self) -> tuple[Floats, Floats] | None:
        """The shift that was subtracted from each column and the scale it was divided by; None if neither was done."""
        return None

    def origin(self) -> dict[str, Any]:
        """Return what a selection's provenance says about where its rows came from."""
        return {"columns": self.columns, "id_column": self.id_name, "standardized": self.scaling is not None}

    @property
    def table(self) -> Table | None:
        """The table that the rows come from, with all of its columns; None if there is no table."""
        return None

    def names(self, ids: ArrayLike) -> list[Any] | None:
        """Return the ids of these rows; None if the rows have no ids."""
        self._numbers(ids)
        return None

    def numbers_of(self, names: Sequence[Any], argument: str = "ids") -> Ints:
        """Return the row numbers of ids, in their order; refuse an id that no row has, or that several have.

        Ids are compared as strings, so 7 and "7" are the same. `argument` is their name in error messages.

        >>> import pyarrow as pa
        >>> from coresift.rows import open_rows
        >>> open_rows(pa.table({"id": ["a", "b"], "x": [1, 2]})).numbers_of(["b"]).tolist()
        [1]
        """
        refuse(argument, "row numbers, because the rows have no ids", "ids")

    def named(self, ids: Sequence[Any], name: str = "id") -> Rows:
        """Return a view of these rows with the given ids, one per row."""
        from coresift.rows.views import named

        return named(self, ids, name)

    def standardized(self) -> Rows:
        """Return a view in which each column has mean 0 and standard deviation 1; a constant column is 0."""
        from coresift.rows.views import standardized

        return standardized(self)

    @property
    def features(self) -> tuple[str, ...] | None:
        """The name of each dimension if each is a column of a table; None if one column holds the whole vector.

        >>> from coresift.rows import open_rows
        >>> open_rows({"cents": [1, 900], "share": [0.2, 0.1]}).features
        ('cents', 'share')
        """
        return self.columns if self.columns is not None and len(self.columns) == self.d else None

    def scale_hint(self) -> str | None:
        """Return a hint if the columns of a table are on very different scales, judged by up to 1,024 rows.

        >>> from coresift.rows import open_rows
        >>> open_rows({"cents": [1, 900, 500], "share": [0.2, 0.1, 0.2]}).scale_hint()[:60]
        "The values of column 'cents' vary 7,801 times as much as tho"
        """
        from coresift.rows.hints import scale_hint

        return scale_hint(self)

    def warn_of_columns(self) -> None:
        """Warn of columns that are probably not what the user wants, such as one that dominates all distances."""
        from coresift.rows.hints import warn_of_columns

        warn_of_columns(self)

    def number(self, row: int) -> int:
        """Return the row's number as the user knows it: in the original rows if these are a view."""
        return row

    def targets(self, ids: ArrayLike) -> Floats:
        """Return these rows' values in the target column, with NaN for missing ones."""
        refuse("target", "named when the rows are opened", "rows without a target column")

    def normalized(self) -> Rows:
        """Return a view whose rows have Euclidean length 1; a row of zeros is not changed."""
        from coresift.rows.views import Normalized

        return Normalized(self)

    def subset(self, ids: ArrayLike) -> Rows:
        """Return a view of the rows with the ascending numbers `ids`, renumbered from 0.

        >>> import numpy as np
        >>> from coresift.rows import open_rows
        >>> open_rows(np.arange(6).reshape(3, 2)).subset([0, 2]).take([1]).tolist()
        [[4.0, 5.0]]
        """
        numbers = self._numbers(ids)
        if not every(numbers.size - 1, lambda rows: numbers[rows] < numbers[1:][rows]):
            refuse("ids", "ascending row numbers", "numbers that are not")
        from coresift.rows.views import Subset

        return Subset(self, numbers)

    def labels(self, column: str, argument: str = "strata") -> NDArray[Any]:
        """Return the values of a column of the rows' table, one per row."""
        refuse(argument, "one label per row if the rows have no columns to choose from", repr(column))

    def content(self, ids: Ints) -> str | None:
        """Return a digest of up to 1,024 of the rows with the sorted numbers `ids`, as they are stored.

        A view returns the digest of the rows behind it. The digest is None if a row is not numeric, which is no problem
        for a method that does not read the rows.
        """
        by_column = self.features is not None and self.d <= MOST_COLUMNS
        try:
            return content_of(self._pick(looked_at(ids)), looked_at(ids).size, by_column=by_column)
        except InputError:
            return None

    def stored(self) -> Iterator[Singles]:
        """Yield the blocks as they are stored; a view yields those behind it."""
        return (block() for _, block in self.blocks())

    def fingerprint(self) -> str:
        """Return a digest of n, d and all rows: the same for the same float32 values, wherever they are stored.

        The first call reads all rows, unless an engine has already passed their checksums to `mark`.
        """
        if self._fingerprint is None:
            self.mark([checksum(start, block()) for start, block in self.blocks()])
        assert self._fingerprint is not None
        return self._fingerprint

    @property
    def marked(self) -> bool:
        """Whether the fingerprint has been computed."""
        return self._fingerprint is not None

    def mark(self, checksums: Sequence[int]) -> None:
        """Compute the fingerprint from the checksums of all blocks, in row order."""
        self._fingerprint = digest(np.array([self.n, self.d], np.int64), np.array(checksums, np.uint32))

    def sample_ids(self) -> Ints:
        """Return the numbers of up to 1,024 rows: runs in a few places, since a file may be read in large groups."""
        if self.n <= SAMPLED:
            return np.arange(self.n)
        starts = np.linspace(0, self.n - SAMPLED // PLACES, PLACES).astype(np.int64)
        return (starts[:, np.newaxis] + np.arange(SAMPLED // PLACES)).ravel()

    def _numbers(self, ids: ArrayLike) -> Ints:
        numbers = np.asarray(ids)
        if numbers.size == 0:
            return np.zeros(0, np.int64)
        if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer):
            refuse("ids", "a list of row numbers", f"an array of {numbers.dtype} with shape {numbers.shape}")
        if numbers.min() < 0 or numbers.max() >= self.n:
            bad = numbers.min() if numbers.min() < 0 else numbers.max()
            refuse("ids", f"row numbers from 0 to {self.n - 1}", bad)
        return copied(numbers, np.int64)

    def __repr__(self) -> str:
        columns = "" if self.columns is None else f", columns {brief_list(self.columns, MOST_IN_REPR)}"
        unused = f"; not used: {brief_list(self.unused, MOST_IN_REPR)}" if self.unused else ""
        scaled = ", standardized" if self.scaling is not None else ""
        return f"Rows(n={self.n}, d={self.d}{columns}{scaled}{unused})"

    def _repr_html_(self) -> str:
        lines = [("numbers per row", f"{self.d:,}")]
        lines += [] if self.columns is None else [("columns used", brief_list(self.columns))]
        lines += [] if not self.unused else [("columns not used", brief_list(self.unused))]
        lines += [] if self.id_name is None else [("ids", self.id_name)]
        lines += [] if self.target_name is None else [("target", self.target_name)]
        lines += [("standardized", "yes")] if self.scaling is not None else []
        return card(counted(self.n, "row"), lines)


def block_length(d: int) -> int:
    """Return how many rows of d numbers make a block: a power of two, about 2²¹/d, from 256 to 32,768."""
    about = max(2**21 // max(d, 1), 1)
    return int(np.clip(1 << (about.bit_length() - 1), 256, LONGEST_BLOCK))


def _read_stretch(start: int, stop: int, base: Rows) -> Iterator[Singles]:
    return map(joined, in_blocks(base._read(start, stop), base.block_rows, stop - start))


def _pick_from(ids: Ints, base: Rows) -> Iterator[Singles]:
    return base._pick(ids)


def in_blocks(pieces: Iterator[Singles], size: int, total: int) -> Iterator[list[Singles]]:
    """Regroup pieces: yield the pieces of each block of `size` rows; refuse pieces that do not add up to `total`."""
    block: list[Singles] = []
    count = done = 0
    for piece in pieces:
        used = 0
        while used < len(piece):
            block.append(piece[used : used + size - count])
            used, count = used + len(block[-1]), count + len(block[-1])
            if count == size:
                yield block
                block, count, done = [], 0, done + size
    if done + count != total:
        raise InputError(CHANGED)
    if block:
        yield block


def joined(pieces: list[Singles]) -> Singles:
    """Concatenate pieces; a single piece is returned without a copy."""
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def to_single(values: NDArray[Any]) -> Singles:
    """Return the values as contiguous float32, copied only if needed; values that are too large become infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(values, dtype=np.float32)


def first_bad_row(rows: Rows) -> int | None:
    """Return the first row that contains NaN or infinity or is longer than 1e18; None if all rows are usable.

    >>> from coresift.rows import open_rows
    >>> first_bad_row(open_rows(np.array([[1.0, 2.0], [np.nan, 0.0]])))
    1
    """
    for start, block in rows.blocks():
        values = block()
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.einsum("ij,ij->i", values, values)
        bad = np.flatnonzero(~(squares <= LONGEST**2))
        if bad.size:
            return start + int(bad[0])
    return None


def refuse_bad_row(rows: Rows) -> NoReturn:
    """Raise an error that names the first unusable row and what is wrong with it.

    >>> from coresift.rows import open_rows
    >>> refuse_bad_row(open_rows(np.array([[1.0, 2.0], [np.nan, 0.0]])))
    Traceback (most recent call last):
        ...
    coresift.errors.InputError: rows must be finite numbers; row 1 has NaN at position 0.
    """
    row = first_bad_row(rows)
    if row is None:
        raise InputError("rows must be finite numbers; all of them are, but a distance between two of them is not.")
    values = rows.take([row])[0]
    row = rows.number(row)
    if np.all(np.isfinite(values)):
        raise InputError(f"rows must have a length of at most {LONGEST:g}; row {row} is longer.")
    position = int(np.flatnonzero(~np.isfinite(values))[0])
    names = rows.features
    where = f"at position {position}" if names is None else f"in column {names[position]!r}"
    what = "NaN" if np.isnan(values[position]) else "a number that is infinite or too large for float32"
    raise InputError(f"rows must be finite numbers; row {row} has {what} {where}.")
