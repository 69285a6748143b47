"""Rows: one interface to an n×d matrix, whether it is an array, files, a table or a dataset."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coresift.checks import named_options, refuse
from coresift.rows.arrays import RemoteArrayFile, rows_of_array, rows_of_arrays, rows_of_npy
from coresift.rows.base import Block, Rows, Stretch, checksum, first_bad_row, refuse_bad_row
from coresift.rows.checking import check_clustered
from coresift.rows.embedded import MANIFEST, rows_of_embeddings
from coresift.rows.inputs import ClassesLike, NumbersLike, RowsLike, SignalsLike
from coresift.rows.matrices import SparseRows, as_array, is_sparse
from coresift.rows.tables import ColumnChoice, rows_of_table
from coresift.tables.finding import SUFFIXES as TABLES
from coresift.tables.finding import find_files
from coresift.tables.opening import described, is_tabular, open_part, open_table
from coresift.tables.places import Place, find_places, hide_secrets, is_uri
from coresift.tables.table import Table

__all__ = [
    "Block",
    "ClassesLike",
    "NumbersLike",
    "Rows",
    "RowsLike",
    "SignalsLike",
    "Stretch",
    "check_clustered",
    "checksum",
    "first_bad_row",
    "open_rows",
    "refuse_bad_row",
]

SUFFIXES = (".npy", *TABLES)


@named_options
def open_rows(
    source: RowsLike,
    *,
    column: str | None = None,
    columns: Sequence[str] | None = None,
    exclude_columns: Sequence[str] = (),
    id_column: str | None = None,
    target: str | None = None,
    ids: Sequence[Any] | None = None,
    standardize: bool = False,
    filesystem: Any = None,
) -> Rows:
    """Open a matrix as rows, without loading anything that is not in memory yet.

    A table's rows are its only column of lists of numbers or, if it has none, all of its numeric columns. The id, the
    target and the index of a pandas frame are never used, and boolean columns only if you name them. `Rows.columns`
    says which columns are used.

    Args:
        source: A 2-D array, torch tensor, list of lists, or scipy sparse matrix; a pandas, polars or Arrow table, a
            `datasets.Dataset` or a dict of columns; the path of a .npy, .parquet, .arrow, .feather, .csv or .jsonl
            file; a folder or glob pattern of such files (sorted by name) or a list of them (in the given order); a
            folder that `embed` wrote, with its ids; or Rows. A file may be remote, given by any URI that pyarrow
            supports, such as "s3://bucket/rows".
        column: The column of lists of numbers that are the rows.
        columns: The numeric columns that are the rows, in this order; true is 1, and false is 0. Or one column of
            lists.
        exclude_columns: Columns to leave out of the rows, such as a label.
        id_column: The column with the rows' ids; by default the column "id", if there is one.
        target: The numeric column with the labels of a regression, which is left out of the rows.
        ids: One id per row, for rows that do not come from a table.
        standardize: Whether to shift and scale each column to mean 0 and standard deviation 1, which takes one pass
            over the rows.
        filesystem: A pyarrow filesystem on which `source` is a path.

    Returns:
        Rows, which you can read in blocks of float32 or by row number.

    Examples:
        >>> import numpy as np
        >>> rows = open_rows(np.eye(3, dtype=np.float16))
        >>> rows
        Rows(n=3, d=3)
        >>> import pyarrow as pa
        >>> table = pa.table({"id": ["a", "b"], "embedding": [[3.0, 4.0], [0.0, 2.0]], "label": [1, 0]})
        >>> rows = open_rows(table)
        >>> rows.columns, rows.names([1]), rows.normalized().take([0]).round(1).tolist()
        (('embedding',), ['b'], [[0.6000000238418579, 0.800000011920929]])
    """
    choice = ColumnChoice(column, _names("columns", columns), _names("exclude_columns", exclude_columns) or (), target)
    rows = _open(source, choice, id_column, filesystem)
    if ids is not None:
        if rows.id_name is not None:
            refuse("ids", f"left out if the rows have ids (in column {rows.id_name!r})", f"{len(ids)} ids")
        rows = rows.named(ids)
    return rows.standardized() if standardize else rows


def _open(source: Any, choice: ColumnChoice, id_column: str | None, filesystem: Any) -> Rows:
    opened = source
    if filesystem is not None or is_uri(source):
        opened = find_places(str(source), filesystem, SUFFIXES)
    elif isinstance(source, str | os.PathLike) and (Path(source) / MANIFEST).is_file():
        opened = rows_of_embeddings(Path(source))
    elif isinstance(source, str | os.PathLike) or _are_paths(source):
        opened = find_files(source, SUFFIXES, "rows")
    if _are_files(opened) and all(file.suffix.lower() != ".npy" for file in opened):
        texts = (id_column or "id",)  # otherwise the id 007 would become a number
        parts = [open_part(file, texts, "rows") for file in opened]
        return rows_of_table(Table(parts, "rows", id_column), choice)
    if is_tabular(opened):
        return rows_of_table(open_table(opened, argument="rows", id_column=id_column), choice)
    choice.refuse_any()
    rows = _rows_of_files(opened) if _are_files(opened) else _rows_of_matrix(opened)
    if id_column not in (None, rows.id_name):
        known = "no columns and no ids" if rows.id_name is None else f"the ids of the column {rows.id_name!r} already"
        refuse("id_column", f"left out, since the rows have {known}", repr(id_column))
    return rows


def _rows_of_files(files: Sequence[Any]) -> Rows:
    if any(file.suffix.lower() != ".npy" for file in files):
        refuse("rows", f"either .npy files or tables ({', '.join(TABLES)})", hide_secrets(f"both, as in {files[0]}"))
    if isinstance(files[0], Place):
        return rows_of_arrays([RemoteArrayFile(place) for place in files], [str(place) for place in files])
    return rows_of_npy(list(files))


def _rows_of_matrix(source: Any) -> Rows:
    if isinstance(source, Rows):
        return source
    if is_sparse(source):
        return SparseRows(source)
    array = as_array(source)
    if array is None:
        allowed = "a 2-D array or tensor, lists of numbers, a table, a path or a list of paths"
        refuse("rows", allowed, described(source))
    return rows_of_array(array)


def _are_paths(source: Any) -> bool:
    return isinstance(source, list | tuple) and all(isinstance(item, str | os.PathLike) for item in source)


def _are_files(opened: Any) -> bool:
    return isinstance(opened, list) and bool(opened) and all(isinstance(file, Path | Place) for file in opened)


def _names(argument: str, names: Sequence[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        refuse(argument, "a list of names", repr(names))
    if argument == "columns" and (not names or len(set(names)) < len(names)):
        refuse(argument, "at least one name, and none twice", repr(list(names)))
    return tuple(names)
