"""Rows: the n×d matrix behind one door, whether it is an array, files, a table or a dataset."""

from __future__ import annotations

import glob
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from coresift.checks import refuse
from coresift.rows.arrays import rows_of_array, rows_of_arrays, rows_of_npy
from coresift.rows.base import Block, Rows, Stretch, first_bad_row, refuse_bad_row
from coresift.rows.checking import check_clustered
from coresift.rows.embedded import MANIFEST, rows_of_embeddings
from coresift.rows.places import PlacedArray, find_places, is_uri
from coresift.rows.sources import ArrowPart, DatasetPart, MemoryPart, ParquetPart
from coresift.rows.tables import Part, rows_of_tables

__all__ = ["Block", "Rows", "Stretch", "check_clustered", "first_bad_row", "open_parts", "open_rows", "refuse_bad_row"]

PARTS: dict[str, type[ArrowPart] | type[ParquetPart]] = {
    ".parquet": ParquetPart,
    ".arrow": ArrowPart,
    ".feather": ArrowPart,
}
SUFFIXES = (".npy", *PARTS)


def open_rows(
    source: Any,
    *,
    column: str | None = None,
    id_column: str | None = None,
    target: str | None = None,
    filesystem: Any = None,
) -> Rows:
    """Return rows over a matrix, without loading what is not in memory already.

    `source` is a 2-D array; the path of a .npy, .parquet, .arrow or .feather file; a folder or glob pattern of such
    files (in the order of their names) or a list of them (in its own order); a folder that `embed` wrote, with its
    ids; a pyarrow Table or RecordBatch; a `datasets.Dataset`; or Rows, which are returned as they are.

    In a table, `column` names the column of lists of numbers that are the rows. Without it the only such column is
    used, or else all columns of numbers in their order. `id_column`, by default one named "id", travels along.
    `target` names a column of numbers that is no part of the rows: the labels of `select_regression`.

    A file or folder may lie elsewhere: its URI, such as "s3://bucket/rows", is one that pyarrow knows, or `filesystem`
    is a pyarrow filesystem and `source` a path on it.

    >>> import numpy as np
    >>> rows = open_rows(np.eye(3, dtype=np.float16))
    >>> rows
    Rows(n=3, d=3)
    >>> import pyarrow as pa
    >>> table = pa.table({"id": ["a", "b"], "embedding": [[3.0, 4.0], [0.0, 2.0]]})
    >>> rows = open_rows(table)
    >>> rows.names([1]), rows.normalized().take([0]).round(1).tolist()
    (['b'], [[0.6000000238418579, 0.800000011920929]])
    """
    if filesystem is not None or is_uri(source):
        return _open_places(str(source), filesystem, column, id_column, target)
    if isinstance(source, str | os.PathLike) and (Path(source) / MANIFEST).is_file():
        _refuse_columns(column, id_column, target)
        return rows_of_embeddings(Path(source))
    if isinstance(source, str | os.PathLike | list | tuple):
        return _open_files(_find(source), column, id_column, target)
    part = _part_in_memory(source)
    if part is not None:
        return rows_of_tables([part], column, id_column, target)
    _refuse_columns(column, id_column, target)
    if isinstance(source, Rows):
        return source
    if isinstance(source, np.ndarray):
        return rows_of_array(source)
    allowed = "a 2-D array, a path, a list of paths, an Arrow table or a datasets.Dataset"
    refuse("rows", allowed, type(source).__name__)


def open_parts(source: Any) -> list[Part] | None:
    """Return the tables behind a path (Parquet or Arrow; a folder, a pattern or a list of such), an Arrow table or a
    dataset; None for anything else."""
    part = _part_in_memory(source)
    if part is not None:
        return [part]
    if not isinstance(source, str | os.PathLike | list | tuple):
        return None
    paths = _find(source)
    if any(path.suffix.lower() not in PARTS or not path.is_file() for path in paths):
        return None
    return [PARTS[path.suffix.lower()](path) for path in paths]


def _open_files(paths: list[Path], column: str | None, id_column: str | None, target: str | None) -> Rows:
    suffixes = {path.suffix.lower() for path in paths}
    for path in paths:
        if path.suffix.lower() not in SUFFIXES:
            refuse("rows", f"a file of type {', '.join(SUFFIXES)}", path)
        if not path.is_file():
            refuse("rows", "files that exist", path)
    if suffixes == {".npy"}:
        _refuse_columns(column, id_column, target)
        return rows_of_npy(paths)
    if ".npy" in suffixes:
        refuse("rows", "either .npy files or tables", f"both, as in {paths[0].parent}")
    return rows_of_tables([PARTS[path.suffix.lower()](path) for path in paths], column, id_column, target)


def _open_places(source: str, filesystem: Any, column: str | None, id_column: str | None, target: str | None) -> Rows:
    places = find_places(source, filesystem, SUFFIXES)
    suffixes = {place.suffix.lower() for place in places}
    if suffixes == {".npy"}:
        _refuse_columns(column, id_column, target)
        return rows_of_arrays([PlacedArray(place) for place in places], [str(place) for place in places])
    if ".npy" in suffixes or not suffixes <= set(SUFFIXES):
        refuse("rows", f"either .npy files or tables ({', '.join(PARTS)})", source)
    return rows_of_tables([PARTS[place.suffix.lower()](place) for place in places], column, id_column, target)


def _find(source: str | os.PathLike[str] | list[Any] | tuple[Any, ...]) -> list[Path]:
    if isinstance(source, list | tuple):
        odd = [item for item in source if not isinstance(item, str | os.PathLike)]
        if odd or not source:
            refuse("rows", "an array, or a list of paths", f"a list with {type(odd[0]).__name__}" if odd else "[]")
        return [Path(item) for item in source]
    path = Path(source)
    if path.is_dir():
        # Other files are left alone: writers of shards put notes such as _SUCCESS or state.json beside them.
        found = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())
        return found or refuse("rows", f"a folder with files of type {', '.join(SUFFIXES)}", path)
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    matches = sorted(glob.glob(str(path), recursive=True))
    return [Path(match) for match in matches] or refuse("rows", "a pattern that matches files", repr(str(path)))


def _part_in_memory(source: Any) -> Part | None:
    # Whoever holds such an object has imported its library, so there is no need to import it to look.
    arrow, datasets = sys.modules.get("pyarrow"), sys.modules.get("datasets")
    if arrow is not None and isinstance(source, arrow.RecordBatch):
        return MemoryPart(arrow.Table.from_batches([source]))
    if arrow is not None and isinstance(source, arrow.Table):
        return MemoryPart(source)
    if datasets is not None and isinstance(source, getattr(datasets, "Dataset", ())):
        return DatasetPart(source)
    return None


def _refuse_columns(column: str | None, id_column: str | None, target: str | None) -> None:
    for argument, value in (("column", column), ("id_column", id_column), ("target", target)):
        if value is not None:
            refuse(argument, "left out where there are no columns to choose from", repr(value))
