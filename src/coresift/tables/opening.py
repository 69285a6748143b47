"""Open anything tabular as a `Table`."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from coresift.checks import InputError, refuse
from coresift.tables.finding import SUFFIXES, TEXTUAL, find_files, refuse_type
from coresift.tables.parts import ArrowPart, DatasetPart, MemoryPart, ParquetPart, Part, first_line
from coresift.tables.places import Place, find_places, is_uri
from coresift.tables.table import Table
from coresift.tables.textual import read_csv, read_jsonl, split_note
from coresift.types.places import is_split, split_hint

ALLOWED = "a path, a pandas, polars or Arrow table, a datasets.Dataset or a dict of columns"


def open_table(
    source: Any,
    *,
    argument: str = "table",
    id_column: str | None = None,
    texts: Collection[str] | None = None,
    filesystem: Any = None,
) -> Table:
    """Open `source` as a table. Only CSV and JSONL files are loaded into memory.

    Args:
        source: A path (also of a folder, or a pattern), a list of paths, a URI, a frame, an Arrow table, a
            `datasets.Dataset`, a dict of columns, or a Table, which is returned as it is.
        argument: The name of the argument, for error messages.
        id_column: The column with the rows' ids; by default one named "id".
        texts: The columns of a CSV file to keep as strings; None means all of them. Each of the others becomes
            numeric if all of its cells are numbers.
        filesystem: A pyarrow filesystem on which `source` is a path.
    """
    if isinstance(source, Table):
        return source
    if isinstance(source, str | os.PathLike | list | tuple):
        if filesystem is not None or is_uri(source):
            places = find_places(str(source), filesystem, SUFFIXES, argument)
            return Table([open_part(place, texts, argument) for place in places], argument, id_column)
        paths = find_files(source, SUFFIXES, argument)
        return Table([open_part(path, texts, argument) for path in paths], argument, id_column)
    part = part_in_memory(source, argument)
    if part is None:
        refuse(argument, ALLOWED, described(source))
    return Table([part], argument, id_column)


def is_tabular(source: Any) -> bool:
    """Return whether `source` is a table in memory, with named columns.

    >>> import pyarrow as pa
    >>> is_tabular(pa.table({"x": [1]})), is_tabular({"x": [1]}), is_tabular([[1]])
    (True, True, False)
    """
    return isinstance(source, Table | dict) or hasattr(source, "__arrow_c_stream__") or _is_dataset(source)


def described(source: Any) -> str:
    """Return the type of an object that cannot be opened, and what to do about it if that is known."""
    name = type(source).__name__
    return f"a {name}; collect() it first" if hasattr(source, "collect") else name


def open_part(path: Path | Place, texts: Collection[str] | None, argument: str) -> Part:
    """Open a file as a table; the suffix says its format."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return ParquetPart(path)
    if suffix in (".arrow", ".feather"):
        return ArrowPart(path)
    if suffix not in TEXTUAL:
        refuse_type(path, SUFFIXES, argument)
    _, table = split_note(read_csv(path, texts) if suffix == ".csv" else read_jsonl(path))
    return MemoryPart(table, str(path))


def part_in_memory(source: Any, argument: str) -> Part | None:
    """Wrap an object in memory as a table; None if it is not tabular."""
    import pyarrow as pa

    if _is_dataset(source):
        return DatasetPart(source)
    if not is_tabular(source):
        return None
    if is_split(source):
        refuse(argument, ALLOWED, f"a {type(source).__name__}; pass {split_hint(source)}")
    if hasattr(source, "to_frame") and not hasattr(source, "columns"):
        refuse(argument, ALLOWED, f"a {type(source).__name__}, a single column; use its to_frame()")
    try:
        # from_pandas marks the index in the metadata; the Arrow capsule would lose that mark.
        return MemoryPart(_from_pandas(source) if _is_pandas(source) else pa.table(source))
    except InputError:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{argument} must be columns of one type and the same length: {first_line(error)}.") from error


def _from_pandas(frame: Any) -> Any:
    """Return a frame as an Arrow table; an index becomes a column only if it has a name."""
    import pyarrow as pa

    has_name = any(name is not None for name in frame.index.names)
    return pa.Table.from_pandas(frame, preserve_index=None if has_name else False)


def _is_dataset(source: Any) -> bool:
    # Such an object can exist only if its library is already imported, so there is no need to import it here.
    datasets = sys.modules.get("datasets")
    return datasets is not None and isinstance(source, getattr(datasets, "Dataset", ()))


def _is_pandas(source: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(source, getattr(pandas, "DataFrame", ()))
