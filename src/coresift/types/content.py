"""A digest of the selected rows' numbers, to detect a table in another order.

Rows without ids are taken by position, so a table that was sorted or shuffled in the meantime would put other rows next
to the weights. The digest is of the unscaled numbers as float32, so it is the same for every type, file layout and
engine. Some rows have a digest of their own, to distinguish another order from other numbers. If the rows are up to 64
columns of a table, each column has its own digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.errors import InputError, warn
from coresift.types.places import length_of, names_in, rows_at
from coresift.types.provenance import MOST_IN_REPR, Provenance, brief_list
from coresift.types.values import Ints, Singles

# If more rows than this are selected, the digest is of a sample: runs of rows in a few places, because a file may have
# to be read in large groups.
MOST, PLACES = 1024, 16
# This many of them have a digest of their own.
MARKED = 16
AT_ONCE = 2**13  # rows of a table to search at a time
MOST_COLUMNS = 64  # more columns than this have one digest together


def looked_at(ids: Ints) -> Ints:
    """Return the selected rows that the digest is of: all if there are up to 1,024, otherwise 16 runs of 64.

    >>> looked_at(np.array([3, 5])).tolist(), looked_at(np.arange(0, 10_000, 2)).size
    ([3, 5], 1024)
    """
    if ids.size <= MOST:
        return ids
    starts = np.linspace(0, ids.size - MOST // PLACES, PLACES).astype(np.int64)
    return ids.take((starts[:, np.newaxis] + np.arange(MOST // PLACES)).ravel())


def content_of(pieces: Iterable[Singles], count: int, *, by_column: bool = False) -> str:
    """Return the digest of `count` rows, followed by the digests of some single rows.

    The rows come in pieces; the digest does not depend on where they are cut. With `by_column`, there is such a text
    for each column, so that a table with only some of the columns can be compared too.

    >>> whole = np.array([[1, 2], [3, -0.0]], np.float32)
    >>> content_of([whole], 2) == content_of([whole[:1], np.abs(whole[1:])], 2)
    True
    >>> content_of([whole], 2, by_column=True).split(";")[1] == content_of([whole[:, 1:]], 2)
    True
    """
    if by_column:
        values = np.concatenate(list(pieces))
        return ";".join(content_of([values[:, [column]]], count) for column in range(values.shape[1]))
    marked = sorted(set(np.linspace(0, count - 1, min(MARKED, count)).astype(np.int64).tolist()))
    whole, marks, done = hashlib.blake2b(digest_size=12), [], 0
    for piece in pieces:
        values = np.ascontiguousarray(piece + np.float32(0))  # −0 becomes 0
        whole.update(values.data)
        marks += [_row_digest(values[position - done]) for position in marked if done <= position < done + len(values)]
        done += len(values)
    return " ".join([whole.hexdigest(), *marks])


def has_changed(before: str | None, now: str | None) -> bool:
    """Return whether two digests show that rows differ; digests that cannot be compared do not."""
    return before is not None and now is not None and before.count(";") == now.count(";") and before != now


def check_order(provenance: Provenance, table: Any, places: Ints) -> None:
    """Refuse a table that has selected rows in other places; warn of a table that has other numbers there.

    Args:
        provenance: How the selection was made.
        table: A frame, an Arrow table or a dataset. The columns that it has are compared.
        places: The expected positions of the selected rows, in the order of the selection.

    Raises:
        InputError: The table is in another order.
    """
    columns = provenance.columns
    if provenance.content is None or columns is None:
        return
    names, parts = set(map(str, names_in(table))), provenance.content.split(";")
    by_column = len(parts) > 1
    present = [column for column in columns if column in names]
    if not present or not (by_column or len(present) == len(columns)):
        return
    values = _numbers(rows_at(table, looked_at(places)), present)
    if values is None:
        return
    if by_column:
        parts = [part for part, column in zip(parts, columns, strict=True) if column in names]
    now = content_of([values], len(values), by_column=by_column).split(";")
    _check_parts(present, parts, now, _blocks(table, present))


def check_content(provenance: Provenance, content: str | None, blocks: Iterable[Singles]) -> None:
    """Do the same with the digest of the rows in the expected positions, and with all rows as `blocks`."""
    before, columns = provenance.content, provenance.columns
    if columns is not None and before is not None and content is not None and has_changed(before, content):
        _check_parts(list(columns), before.split(";"), content.split(";"), blocks)


def _check_parts(columns: list[str], before: list[str], now: list[str], blocks: Iterable[Singles]) -> None:
    """Compare the digests of each column, or of all columns together."""
    if before == now:
        return
    equal = [old == new for old, new in zip(before, now, strict=True)]
    # If a column that varies has not changed, the rows are in their order.
    if not any(same and len(set(_marks(part))) > 1 for part, same in zip(before, equal, strict=True)):
        rows = zip(zip(*map(_marks, before), strict=True), zip(*map(_marks, now), strict=True), strict=False)
        moved = {old for old, new in rows if old != new}
        if moved and _holds(blocks, moved):
            raise InputError(
                "table must be in the order of the rows that were selected from; judging by the columns used "
                f"({brief_list(columns, MOST_IN_REPR)}), they have moved."
            )
    if any(equal):
        columns = [column for column, same in zip(columns, equal, strict=True) if not same]
    warn(
        f"In table, the columns used ({brief_list(columns, MOST_IN_REPR)}) differ from the rows that were selected "
        "from; rows are taken by position."
    )


def _holds(blocks: Iterable[Singles], marks: set[tuple[str, ...]]) -> bool:
    """Return whether any row has one of these digests: one of the whole row, or one of each number."""
    by_column = [set(column) for column in zip(*marks, strict=True)]
    for block in blocks:
        rows = np.ascontiguousarray(block + np.float32(0))
        if len(by_column) == 1:
            if any((_row_digest(row),) in marks for row in rows):
                return True
            continue
        for column, sought in enumerate(by_column):  # few rows are left after the first columns
            values, which = np.unique(rows[:, column], return_inverse=True)
            rows = rows[np.array([_row_digest(value[np.newaxis]) in sought for value in values], np.bool_)[which]]
        if any(tuple(_row_digest(value[np.newaxis]) for value in row) in marks for row in rows):
            return True
    return False


def _marks(part: str) -> list[str]:
    return part.split()[1:]


def _blocks(table: Any, columns: list[str]) -> Iterator[Singles]:
    count = length_of(table)
    for start in range(0, count, AT_ONCE):
        values = _numbers(rows_at(table, np.arange(start, min(start + AT_ONCE, count))), columns)
        if values is not None:
            yield values


def _row_digest(row: Singles) -> str:
    return hashlib.blake2b(row.data, digest_size=8).hexdigest()


def _numbers(table: Any, columns: list[str]) -> Singles | None:
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
