"""Hints about columns of a table that are probably not what the user wants."""

from __future__ import annotations

import numpy as np

from coresift.errors import ScaleWarning, warn
from coresift.rows.base import Rows
from coresift.types import brief_list

# If standard deviations differ by more than this, the smaller column hardly affects distances, and the user is warned.
UNEVEN = 100.0
# A column of fewer rows than this may equal the row number by chance.
FEWEST = 10


def warn_of_columns(rows: Rows) -> None:
    """Warn of columns on very different scales, of a column of row numbers, and of boolean columns that are unused."""
    hint = rows.scale_hint()
    if hint is not None:
        warn(hint, ScaleWarning)
    for hint in (numbering_hint(rows), boolean_hint(rows)):
        if hint is not None:
            warn(hint)


def scale_hint(rows: Rows) -> str | None:
    """Return a hint if the columns of a table are on very different scales, judged by up to 1,024 rows."""
    names = rows.features
    if names is None or rows.d < 2:
        return None
    with np.errstate(all="ignore"):  # unusable numbers are refused elsewhere
        deviations = rows.take(rows.sample_ids()).std(axis=0, dtype=np.float64)
    varying = np.flatnonzero(deviations > 0)
    if varying.size < 2:
        return None
    least, most = varying[deviations[varying].argmin()], varying[deviations[varying].argmax()]
    ratio = deviations[most] / deviations[least]
    if ratio <= UNEVEN or not np.isfinite(ratio):
        return None
    return (
        f"The values of column {names[most]!r} vary {ratio:,.0f} times as much as those of "
        f"{names[least]!r}, so it dominates all distances; "
        "open the rows with standardize=True to put all columns on one scale."
    )


def numbering_hint(rows: Rows) -> str | None:
    """Return a hint if a column only numbers the rows, judged by up to 1,024 rows.

    >>> from coresift.rows import open_rows
    >>> numbering_hint(open_rows({"rownames": range(1, 21), "x": [3] * 20}))[:49]
    "Column 'rownames' is the row number, and it is us"
    """
    stored = rows.base
    names = stored.features
    if names is None or stored.d < 2 or stored.n < FEWEST:
        return None
    ids = stored.sample_ids()
    values = stored.take(ids)
    for first in (0, 1):
        numbered = np.flatnonzero((values == (ids + first).astype(np.float32)[:, np.newaxis]).all(axis=0))
        if numbered.size:
            name = names[numbered[0]]
            return (
                f"Column {name!r} is the row number, and it is used like any other column; if that is not intended, "
                f"open the rows with exclude_columns=[{name!r}]."
            )
    return None


def boolean_hint(rows: Rows) -> str | None:
    """Return a hint if boolean columns of a table are left out only because nobody named them.

    >>> from coresift.rows import open_rows
    >>> boolean_hint(open_rows({"x": [1, 2], "is_late": [True, False]}))[:64]
    'Boolean columns are used only if you name them in columns=, and '
    """
    names = rows.base.unused_booleans
    if not names:
        return None
    return (
        "Boolean columns are used only if you name them in columns=, and the rows leave these out: "
        f"{brief_list(names, 4)}; name them in exclude_columns= if that is intended."
    )
