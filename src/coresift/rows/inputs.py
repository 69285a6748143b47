"""What rows may be, for type checkers and editors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from numpy.typing import ArrayLike

from coresift.rows.base import Rows
from coresift.tables.table import Table
from coresift.types import SignalTable


class ArrowTable(Protocol):
    """A table with the Arrow capsule, as pandas, polars, duckdb and pyarrow have it."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the table as an Arrow stream."""


class NamedColumns(Protocol):
    """A `datasets.Dataset`."""

    @property
    def column_names(self) -> Any:
        """The names of its columns."""


class SparseMatrix(Protocol):
    """A sparse matrix or array of scipy."""

    def tocsr(self) -> Any:
        """Return it row by row."""


# Row numbers, or ids as texts.
NumbersLike: TypeAlias = ArrayLike
# One class per row, or the name of a column that has them.
ClassesLike: TypeAlias = ArrayLike
# What is known of every row: arrays, names of columns, a table, or a file.
SignalsLike: TypeAlias = (
    ArrayLike | Mapping[str, ArrayLike] | ArrowTable | NamedColumns | SignalTable | os.PathLike[str]
)
RowsLike: TypeAlias = (
    Rows
    | Table
    | ArrayLike  # torch tensors and lists of lists, too
    | SparseMatrix
    | ArrowTable
    | NamedColumns
    | Mapping[str, ArrayLike]
    | str
    | os.PathLike[str]
    | Sequence[str | os.PathLike[str]]
)
