"""What every kind of rows can do: fixed-size blocks in order, single rows by number, unit length, a fingerprint."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coresift.checks import InputError, refuse
from coresift.errors import ScaleWarning, warn
from coresift.tables.table import Table
from coresift.types import Floats, Ints, Singles, content_of, digest, looked_at

Block: TypeAlias = tuple[int, Callable[[], Singles]]
Stretch: TypeAlias = "Callable[[Rows], Iterator[Singles]]"

# Two rows of this length are at most 2e18 apart, so squared distances stay far from the end of float32 (3.4e38).
LONGEST = 1e18

# Columns whose standard deviations differ by more than this get a hint: the smaller one hardly counts in a distance.
UNEVEN = 100.0

SEEN, PLACES = 1024, 16  # rows that are looked at for that, and in how many places

CHANGED = "rows must not change while they are in use; a file has changed since it was opened."


def checksum(_: int, block: Singles) -> int:
    """Return a checksum of a block's numbers; it is a block function, so that any engine can run it."""
    return zlib.crc32(np.ascontiguousarray(block, np.float32).data.cast("B"))


class Rows(ABC):
    """A read-only n×d matrix that hands out blocks of float32 and single rows by number, never all of it at once.

    `block_rows` depends on d only, so that what is computed block by block does not depend on where the numbers
    lie. `id_name` is the name of the table's own id column, if one travels along; `target_name` that of its labels.

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

        Every block but the last has `block_rows` rows. The functions may run in other threads, several at a time;
        what they return is not to be written to, as it may be the data themselves.
        """

    @abstractmethod
    def _pick(self, ids: Ints) -> Iterator[Singles]:
        """Yield the rows of sorted, perhaps repeated, `ids` in pieces of bounded size."""

    def _read(self, start: int, stop: int) -> Iterator[Singles]:
        """Yield the rows of a stretch in pieces of bounded size."""
        return self._pick(np.arange(start, stop))

    @property
    def read_at_once(self) -> int:
        """How many rows a source reads at least, whatever part of them is wanted: a compressed group of a table."""
        return 1

    @property
    def base(self) -> Rows:
        """What has the numbers: these rows, or those that they are a view of. Another process needs it once."""
        return self

    def stretch(self, start: int, stop: int) -> Stretch:
        """Return a function of `base` that yields rows `start` to `stop` in blocks; `start` is where a block begins.

        Unlike `blocks` it needs nothing that was read before it, and it is small to send to another process.
        """
        return partial(_read_stretch, start, stop)

    def picking(self, ids: Ints) -> Stretch:
        """Return a function of `base` that yields the rows of ascending `ids` in pieces of bounded size."""
        return partial(_pick_from, ids)

    def take(self, ids: ArrayLike) -> Singles:
        """Return rows by number, in the order asked, repeated where a number is."""
        numbers = self._numbers(ids)
        order = np.argsort(numbers, kind="stable")
        result = np.empty((numbers.size, self.d), np.float32)
        done = 0
        for piece in self._pick(numbers[order]):
            result[order[done : done + len(piece)]] = piece
            done += len(piece)
        if done < numbers.size:
            raise InputError(CHANGED)
        return result

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the table's columns that are the rows: d of numbers, or one of lists; None without a table."""
        return None

    @property
    def scaling(self) -> tuple[Floats, Floats] | None:
        """What was subtracted from each column of a table and what it was then divided by; None if nothing was."""
        return None

    @property
    def table(self) -> Table | None:
        """The table that the rows come from, row by row, with all of its columns; None if they come from none."""
        return None

    def names(self, ids: ArrayLike) -> list[Any] | None:
        """Return the ids of these rows from the table's id column; None if it has none."""
        self._numbers(ids)
        return None

    def numbers_of(self, names: Sequence[Any], argument: str = "ids") -> Ints:
        """Return the row numbers of some ids, in their order; refuse an id that no row has, or that several have.

        Ids are compared as texts, so 7 and "7" are one. `argument` is what a sentence calls them.

        >>> import pyarrow as pa
        >>> from coresift.rows import open_rows
        >>> open_rows(pa.table({"id": ["a", "b"], "x": [1, 2]})).numbers_of(["b"]).tolist()
        [1]
        """
        refuse(argument, "row numbers, because the rows have no ids", "ids")

    def named(self, ids: Sequence[Any], name: str = "id") -> Rows:
        """Return a view of these rows that have ids, one per row."""
        from coresift.rows.views import named

        return named(self, ids, name)

    def standardized(self) -> Rows:
        """Return a view in which each column has mean 0 and standard deviation 1; a constant column is 0."""
        from coresift.rows.views import standardized

        return standardized(self)

    @property
    def features(self) -> tuple[str, ...] | None:
        """The names of the dimensions where each is a column of a table; None where one column has the whole vector.

        >>> from coresift.rows import open_rows
        >>> open_rows({"cents": [1, 900], "share": [0.2, 0.1]}).features
        ('cents', 'share')
        """
        return self.columns if self.columns is not None and len(self.columns) == self.d else None

    def scale_hint(self) -> str | None:
        """Return a sentence if the columns of a table are on very different scales, as seen in up to 1,024 rows.

        >>> from coresift.rows import open_rows
        >>> open_rows({"cents": [1, 900, 500], "share": [0.2, 0.1, 0.2]}).scale_hint()[:60]
        "The values of column 'cents' vary 7,801 times as much as tho"
        """
        names = self.features
        if names is None or self.d < 2:
            return None
        with np.errstate(all="ignore"):  # unusable numbers are refused elsewhere
            spread = self._spread_rows().std(axis=0, dtype=np.float64)
        known = np.flatnonzero(spread > 0)
        if known.size < 2:
            return None
        least, most = known[spread[known].argmin()], known[spread[known].argmax()]
        ratio = spread[most] / spread[least]
        if ratio <= UNEVEN or not np.isfinite(ratio):
            return None
        return (
            f"The values of column {names[most]!r} vary {ratio:,.0f} times as much as those of "
            f"{names[least]!r}, so it dominates all distances; "
            "open the rows with standardize=True to put all columns on one scale."
        )

    def warn_of_scales(self) -> None:
        """Say the same as a warning, to whoever gave the rows."""
        hint = self.scale_hint()
        if hint is not None:
            warn(hint, ScaleWarning)

    def number(self, row: int) -> int:
        """Return what the user calls this row: its number in the rows that this is perhaps a part of."""
        return row

    def targets(self, ids: ArrayLike) -> Floats:
        """Return the labels of these rows from the target column, NaN where it has none."""
        refuse("target", "named when the rows are opened", "rows without a target column")

    def normalized(self) -> Rows:
        """Return a view whose rows have Euclidean length 1; a row of zeros stays one."""
        from coresift.rows.views import Normalized

        return Normalized(self)

    def subset(self, ids: ArrayLike) -> Rows:
        """Return a view of some rows, by ascending numbers; they are renumbered from 0.

        >>> import numpy as np
        >>> from coresift.rows import open_rows
        >>> open_rows(np.arange(6).reshape(3, 2)).subset([0, 2]).take([1]).tolist()
        [[4.0, 5.0]]
        """
        numbers = self._numbers(ids)
        if np.any(np.diff(numbers) <= 0):
            refuse("ids", "ascending row numbers", "some that are not")
        from coresift.rows.views import Subset

        return Subset(self, numbers)

    def labels(self, column: str, argument: str = "strata") -> NDArray[Any]:
        """Return the values of a column of the table that the rows come from, one per row."""
        refuse(argument, "one label per row where the rows have no columns to choose from", repr(column))

    def content(self, ids: Ints) -> str | None:
        """Return a digest of the numbers of ascending `ids`, at most 1,024 of them, as they are stored, not seen.

        It is None where a row has something else than numbers, which a method that reads none does not mind.
        """
        try:
            return content_of(self._pick(looked_at(ids)), looked_at(ids).size)
        except InputError:
            return None

    def stored(self) -> Iterator[Singles]:
        """Yield the blocks as they are stored, not seen."""
        return (block() for _, block in self.blocks())

    def fingerprint(self) -> str:
        """Return a digest of n, d and all rows: the same for the same float32 values, wherever they are stored.

        It takes one reading of all rows, once for each `Rows`; `mark` takes what an engine has read.
        """
        if self._fingerprint is None:
            self.mark([checksum(start, block()) for start, block in self.blocks()])
        assert self._fingerprint is not None
        return self._fingerprint

    @property
    def marked(self) -> bool:
        """Whether the fingerprint is known already."""
        return self._fingerprint is not None

    def mark(self, checksums: Sequence[int]) -> None:
        """Take the checksum of every block, in their order, for the fingerprint."""
        self._fingerprint = digest(np.array([self.n, self.d], np.int64), np.array(checksums, np.uint32))

    def _spread_rows(self) -> Singles:
        if self.n <= SEEN:
            return self.take(np.arange(self.n))
        # In a few places, since a file may be read in large groups of rows.
        starts = np.linspace(0, self.n - SEEN // PLACES, PLACES).astype(np.int64)
        return self.take((starts[:, np.newaxis] + np.arange(SEEN // PLACES)).ravel())

    def _numbers(self, ids: ArrayLike) -> Ints:
        numbers = np.asarray(ids)
        if numbers.size == 0:
            return np.zeros(0, np.int64)
        if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer):
            refuse("ids", "a list of row numbers", f"an array of {numbers.dtype} with shape {numbers.shape}")
        if numbers.min() < 0 or numbers.max() >= self.n:
            bad = numbers.min() if numbers.min() < 0 else numbers.max()
            refuse("ids", f"row numbers from 0 to {self.n - 1}", bad)
        return numbers.astype(np.int64)

    def __repr__(self) -> str:
        return f"Rows(n={self.n}, d={self.d})"


def block_length(d: int) -> int:
    """Return how many rows of d numbers make a block: a power of two, about 2²¹/d, from 256 to 32,768."""
    about = max(2**21 // max(d, 1), 1)
    return int(np.clip(1 << (about.bit_length() - 1), 256, 32_768))


def _read_stretch(start: int, stop: int, base: Rows) -> Iterator[Singles]:
    return map(joined, in_blocks(base._read(start, stop), base.block_rows, stop - start))


def _pick_from(ids: Ints, base: Rows) -> Iterator[Singles]:
    return base._pick(ids)


def in_blocks(pieces: Iterator[Singles], size: int, total: int) -> Iterator[list[Singles]]:
    """Cut pieces again: yield what makes up each block of `size` rows, and the rest; they must be `total` rows."""
    held: list[Singles] = []
    count = done = 0
    for piece in pieces:
        used = 0
        while used < len(piece):
            held.append(piece[used : used + size - count])
            used, count = used + len(held[-1]), count + len(held[-1])
            if count == size:
                yield held
                held, count, done = [], 0, done + size
    if done + count != total:
        raise InputError(CHANGED)
    if held:
        yield held


def joined(pieces: list[Singles]) -> Singles:
    """Return pieces one after another; a single one unchanged."""
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def to_single(values: NDArray[Any]) -> Singles:
    """Return the values as contiguous float32, without a copy where they are; too large ones become infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(values, dtype=np.float32)


def first_bad_row(rows: Rows) -> int | None:
    """Return the first row that has a NaN or an infinity, or is longer than 1e18; None if all are usable.

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
    """Raise the sentence that names the first unusable row and what is wrong with it.

    >>> from coresift.rows import open_rows
    >>> refuse_bad_row(open_rows(np.array([[1.0, 2.0], [np.nan, 0.0]])))
    Traceback (most recent call last):
        ...
    coresift.errors.InputError: rows must be finite numbers; row 1 has NaN at position 0.
    """
    row = first_bad_row(rows)
    if row is None:
        raise InputError("rows must be finite numbers; all of them are, yet a distance between two was not.")
    values = rows.take([row])[0]
    row = rows.number(row)
    if np.all(np.isfinite(values)):
        raise InputError(f"rows must have a length of at most {LONGEST:g}; row {row} is longer.")
    position = int(np.flatnonzero(~np.isfinite(values))[0])
    names = rows.features
    where = f"at position {position}" if names is None else f"in column {names[position]!r}"
    what = "NaN" if np.isnan(values[position]) else "a number that is infinite or too large for float32"
    raise InputError(f"rows must be finite numbers; row {row} has {what} {where}.")
