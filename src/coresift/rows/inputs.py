"""The types that rows may have, for type checkers and editors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from numpy.typing import ArrayLike

from coresift.rows.base import Rows
from coresift.tables.table import Table
from coresift.types import SignalTable


class ArrowTable(Protocol):
    """A table with an Arrow capsule, such as those of pandas, polars, duckdb and pyarrow."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the table as an Arrow stream."""


class NamedColumns(Protocol):
    """A `datasets.Dataset`."""

    @property
    def column_names(self) -> Any:
        """The column names."""


class SparseMatrix(Protocol):
    """A scipy sparse matrix or array."""

    def tocsr(self) -> Any:
        """Return the matrix in compressed sparse row format."""


# Row numbers, or ids as strings.
NumbersLike: TypeAlias = ArrayLike
# One class per row, or the name of a column that has them.
ClassesLike: TypeAlias = ArrayLike
# Values that are known for every row: arrays, column names, a table, or a file.
SignalsLike: TypeAlias = (
    ArrayLike | Mapping[str, ArrayLike] | ArrowTable | NamedColumns | SignalTable | os.PathLike[str]
)
RowsLike: TypeAlias = (
    Rows
    | Table
    | ArrayLike  # also torch tensors and lists of lists
    | SparseMatrix
    | ArrowTable
    | NamedColumns
    | Mapping[str, ArrayLike]
    | str
    | os.PathLike[str]
    | Sequence[str | os.PathLike[str]]
)
