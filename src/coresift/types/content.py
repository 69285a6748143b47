"""A digest of the selected rows' numbers, to detect a table in another order.

Rows without ids are taken by position, so a table that was sorted or shuffled in the meantime would put other rows next
to the weights. The digest is of the unscaled numbers as float32, so it is the same for every type, file layout and
engine. Some rows have a digest of their own, to distinguish another order from other numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.errors import InputError, warn
from coresift.types.places import length_of, names_in, rows_at
from coresift.types.provenance import MOST_IN_REPR, Provenance
from coresift.types.values import Ints, Singles

# If more rows than this are selected, the digest is of a sample: runs of rows in a few places, because a file may have
# to be read in large groups.
MOST, PLACES = 1024, 16
# This many of them have a digest of their own.
MARKED = 16
AT_ONCE = 2**13  # rows of a table to search at a time


def looked_at(ids: Ints) -> Ints:
    """Return the selected rows that the digest is of: all if there are up to 1,024, otherwise 16 runs of 64.

    >>> looked_at(np.array([3, 5])).tolist(), looked_at(np.arange(0, 10_000, 2)).size
    ([3, 5], 1024)
    """
    if ids.size <= MOST:
        return ids
    starts = np.linspace(0, ids.size - MOST // PLACES, PLACES).astype(np.int64)
    return ids.take((starts[:, np.newaxis] + np.arange(MOST // PLACES)).ravel())


def content_of(pieces: Iterable[Singles], count: int) -> str:
    """Return the digest of `count` rows, followed by the digests of some single rows.

    The rows come in pieces; the digest does not depend on where they are cut.

    >>> whole = np.array([[1, 2], [3, -0.0]], np.float32)
    >>> content_of([whole], 2) == content_of([whole[:1], np.abs(whole[1:])], 2)
    True
    """
    marked = sorted(set(np.linspace(0, count - 1, min(MARKED, count)).astype(np.int64).tolist()))
    whole, marks, done = hashlib.blake2b(digest_size=12), [], 0
    for piece in pieces:
        values = np.ascontiguousarray(piece + np.float32(0))  # −0 becomes 0
        whole.update(values.data)
        marks += [_row_digest(values[position - done]) for position in marked if done <= position < done + len(values)]
        done += len(values)
    return " ".join([whole.hexdigest(), *marks])


def holds(pieces: Iterable[Singles], marks: Iterable[str]) -> bool:
    """Return whether any row has one of these digests."""
    targets = frozenset(marks)
    return any(_row_digest(row) in targets for piece in pieces for row in np.ascontiguousarray(piece + np.float32(0)))


def check_order(provenance: Provenance, table: Any, places: Ints) -> None:
    """Refuse a table that has selected rows in other places; warn of a table that has other numbers there.

    Args:
        provenance: How the selection was made.
        table: A frame, an Arrow table or a dataset. If it lacks a column that was used, nothing is compared.
        places: The expected positions of the selected rows, in the order of the selection.

    Raises:
        InputError: The table is in another order.
    """
    if (
        provenance.content is None
        or provenance.columns is None
        or not set(provenance.columns) <= set(map(str, names_in(table)))
    ):
        return
    values = _numbers(rows_at(table, looked_at(places)), provenance.columns)
    if values is not None:
        check_content(provenance, content_of([values], len(values)), _blocks(table, provenance.columns))


def check_content(provenance: Provenance, content: str | None, blocks: Iterable[Singles]) -> None:
    """Do the same with the digest of the rows in the expected positions, and with all rows as `blocks`."""
    if provenance.content is None or content is None or content == provenance.content:
        return
    used = f"the columns used ({provenance.used(MOST_IN_REPR)})"
    pairs = zip(provenance.content.split()[1:], content.split()[1:], strict=False)
    moved = {before for before, now in pairs if before != now}
    if moved and holds(blocks, moved):
        raise InputError(
            f"table must be in the order of the rows that were selected from; judging by {used}, they have moved."
        )
    warn(f"In table, {used} differ from the rows that were selected from; rows are taken by position.")


def _blocks(table: Any, columns: tuple[str, ...]) -> Iterator[Singles]:
    count = length_of(table)
    for start in range(0, count, AT_ONCE):
        values = _numbers(rows_at(table, np.arange(start, min(start + AT_ONCE, count))), columns)
        if values is not None:
            yield values


def _row_digest(row: Singles) -> str:
    return hashlib.blake2b(row.data, digest_size=8).hexdigest()


def _numbers(table: Any, columns: tuple[str, ...]) -> Singles | None:
    """Return numeric columns, or one column of lists, as float32; None if a column has something else."""
    names = {str(name): name for name in names_in(table)}  # in pandas, names need not be strings
    try:
        cells = [_cells(table[names[name]]) for name in columns]
    except (TypeError, ValueError, OverflowError):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return (cells[0] if cells[0].ndim == 2 else np.stack(cells, axis=1)).astype(np.float32)


def _cells(column: Any) -> NDArray[np.float64]:
    values = np.asarray(column.to_numpy()) if hasattr(column, "to_numpy") else np.zeros(0, object)
    if values.dtype.kind in "iuf":
        return values.astype(np.float64)
    return np.asarray(column.to_pylist() if hasattr(column, "to_pylist") else list(column), np.float64)
