"""A digest of the selected rows' own numbers, by which a table in another order is noticed.

Rows without ids are taken by position, so a table that was sorted or shuffled in the meantime would put other rows next
to the weights. The digest is of the numbers as float32 before anyone scales them: the same for every type, file layout
and engine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.errors import InputError
from coresift.types.places import rows_at
from coresift.types.provenance import MOST_IN_REPR, Provenance
from coresift.types.values import Ints, Singles

# Of more selected rows than this, some are looked at, in a few places, since a file may be read in large groups.
MOST, PLACES = 1024, 16


def looked_at(ids: Ints) -> Ints:
    """Return which of the selected rows the digest is of: all of up to 1,024, otherwise 16 stretches of 64.

    >>> looked_at(np.array([3, 5])).tolist(), looked_at(np.arange(0, 10_000, 2)).size
    ([3, 5], 1024)
    """
    if ids.size <= MOST:
        return ids
    starts = np.linspace(0, ids.size - MOST // PLACES, PLACES).astype(np.int64)
    return ids.take((starts[:, np.newaxis] + np.arange(MOST // PLACES)).ravel())


def content_of(pieces: Iterable[Singles]) -> str:
    """Return the digest of rows that come in pieces, however they are cut.

    >>> whole = np.array([[1, 2], [3, -0.0]], np.float32)
    >>> content_of([whole]) == content_of([whole[:1], np.abs(whole[1:])])
    True
    """
    state = hashlib.blake2b(digest_size=12)
    for piece in pieces:
        state.update(np.ascontiguousarray(piece + np.float32(0)).data)  # −0 becomes 0
    return state.hexdigest()


def check_order(made: Provenance, table: Any, places: Ints) -> None:
    """Refuse a table whose rows at these places are not the selected ones, if it has the columns that were used.

    Args:
        made: What made the selection.
        table: A frame, an Arrow table or a dataset; anything else has no columns to compare.
        places: Where the selected rows are thought to be, in the order of the selection.

    Raises:
        InputError: The columns have other numbers there.
    """
    if made.content is None or made.columns is None or not _names(table).keys() >= set(made.columns):
        return
    values = _numbers(rows_at(table, looked_at(places)), made.columns)
    if values is not None:
        check_content(made, content_of([values]))


def check_content(made: Provenance, content: str | None) -> None:
    """Refuse the columns of a table that have another digest than the selected rows."""
    if made.content is not None and content != made.content:
        raise InputError(
            f"table must be in the order of the rows that were selected from; {made.used(MOST_IN_REPR)} have other "
            "numbers in the selected rows (if you changed them, leave these columns out)."
        )


def _names(table: Any) -> dict[str, Any]:
    """Return the columns of a table by their names as texts: pandas has other names, too."""
    names = getattr(table, "column_names", None)
    names = getattr(table, "columns", None) if names is None else names
    return {} if names is None else {str(name): name for name in names}


def _numbers(table: Any, columns: tuple[str, ...]) -> Singles | None:
    """Return columns of numbers, or one of lists, as float32; None where a column has something else."""
    names = _names(table)
    try:
        cells = [_cells(table[names[name]]) for name in columns]
    except (TypeError, ValueError, OverflowError):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return (cells[0] if cells[0].ndim == 2 else np.stack(cells, axis=1)).astype(np.float32)


def _cells(column: Any) -> NDArray[np.float64]:
    return np.asarray(column.to_pylist() if hasattr(column, "to_pylist") else list(column), np.float64)
