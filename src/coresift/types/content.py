"""A digest of the selected rows' own numbers, by which a table in another order is noticed.

Rows without ids are taken by position, so a table that was sorted or shuffled in the meantime would put other rows next
to the weights. The digest is of the numbers as float32 before anyone scales them: the same for every type, file layout
and engine. Some rows have a digest of their own, which tells another order from other numbers.
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

# Of more selected rows than this, some are looked at, in a few places, since a file may be read in large groups.
MOST, PLACES = 1024, 16
# Of those, so many have a digest of their own.
MARKED = 16
AT_ONCE = 2**13  # rows of a table that are looked through at a time


def looked_at(ids: Ints) -> Ints:
    """Return which of the selected rows the digest is of: all of up to 1,024, otherwise 16 stretches of 64.

    >>> looked_at(np.array([3, 5])).tolist(), looked_at(np.arange(0, 10_000, 2)).size
    ([3, 5], 1024)
    """
    if ids.size <= MOST:
        return ids
    starts = np.linspace(0, ids.size - MOST // PLACES, PLACES).astype(np.int64)
    return ids.take((starts[:, np.newaxis] + np.arange(MOST // PLACES)).ravel())


def content_of(pieces: Iterable[Singles], count: int) -> str:
    """Return the digest of `count` rows that come in pieces, however they are cut, and those of some single rows.

    >>> whole = np.array([[1, 2], [3, -0.0]], np.float32)
    >>> content_of([whole], 2) == content_of([whole[:1], np.abs(whole[1:])], 2)
    True
    """
    marked = set(np.linspace(0, count - 1, min(MARKED, count)).astype(np.int64).tolist())
    whole, marks, done = hashlib.blake2b(digest_size=12), [], 0
    for piece in pieces:
        values = np.ascontiguousarray(piece + np.float32(0))  # −0 becomes 0
        whole.update(values.data)
        marks += [_row_digest(row) for place, row in enumerate(values, start=done) if place in marked]
        done += len(values)
    return " ".join([whole.hexdigest(), *marks])


def holds(pieces: Iterable[Singles], marks: Iterable[str]) -> bool:
    """Say whether any row has one of these digests."""
    wanted = frozenset(marks)
    return any(_row_digest(row) in wanted for piece in pieces for row in np.ascontiguousarray(piece + np.float32(0)))


def check_order(made: Provenance, table: Any, places: Ints) -> None:
    """Refuse a table that has selected rows in other places, and warn of one that has other numbers in them.

    Args:
        made: What made the selection.
        table: A frame, an Arrow table or a dataset. If it lacks a column that was used, nothing is compared.
        places: Where the selected rows are thought to be, in the order of the selection.

    Raises:
        InputError: The table is in another order.
    """
    if made.content is None or made.columns is None or not set(made.columns) <= set(map(str, names_in(table))):
        return
    values = _numbers(rows_at(table, looked_at(places)), made.columns)
    if values is not None:
        check_content(made, content_of([values], len(values)), _blocks(table, made.columns))


def check_content(made: Provenance, content: str | None, blocks: Iterable[Singles]) -> None:
    """Do the same for the digest of the rows where the selected ones should be, and all rows."""
    if made.content is None or content is None or content == made.content:
        return
    used = f"the columns used ({made.used(MOST_IN_REPR)})"
    pairs = zip(made.content.split()[1:], content.split()[1:], strict=False)
    moved = {before for before, now in pairs if before != now}
    if moved and holds(blocks, moved):
        raise InputError(
            f"table must be in the order of the rows that were selected from; by {used}, selected rows are elsewhere."
        )
    warn(f"In table, {used} have other numbers than the rows that were selected from; rows are taken by position.")


def _blocks(table: Any, columns: tuple[str, ...]) -> Iterator[Singles]:
    count = length_of(table)
    for start in range(0, count, AT_ONCE):
        values = _numbers(rows_at(table, np.arange(start, min(start + AT_ONCE, count))), columns)
        if values is not None:
            yield values


def _row_digest(row: Singles) -> str:
    return hashlib.blake2b(row.data, digest_size=8).hexdigest()


def _numbers(table: Any, columns: tuple[str, ...]) -> Singles | None:
    """Return columns of numbers, or one of lists, as float32; None where a column has something else."""
    names = {str(name): name for name in names_in(table)}  # pandas may have other names than texts
    try:
        cells = [_cells(table[names[name]]) for name in columns]
    except (TypeError, ValueError, OverflowError):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return (cells[0] if cells[0].ndim == 2 else np.stack(cells, axis=1)).astype(np.float32)


def _cells(column: Any) -> NDArray[np.float64]:
    found = np.asarray(column.to_numpy()) if hasattr(column, "to_numpy") else np.zeros(0, object)
    if found.dtype.kind in "iuf":
        return found.astype(np.float64)
    return np.asarray(column.to_pylist() if hasattr(column, "to_pylist") else list(column), np.float64)
