"""Write files atomically, and tables as Parquet, CSV or JSON lines.

A file is written to a temporary name next to its target and then renamed. Even if the process is killed, and however
many processes read and write at once, the target is always the old file or one complete new file.

Facts about the whole table (its note) are therefore inside the file, never next to it. Parquet has them in its
metadata. CSV and JSONL have them in a separate column, `coresift`, on the first line only, so any tool can read the
file, and the note survives a spreadsheet. A table without rows gets one line with nothing but the note.

Parquet holds every Arrow type but unions; intervals become strings. In CSV and JSONL, bytes become base64, UUIDs their
usual form, and times ISO 8601. JSON has no infinity and no NaN, so both become null. CSV holds lists and structs as
JSON, and a string that a spreadsheet would run as a formula gets a leading apostrophe, which `read_csv` removes.
"""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from coresift.checks import CoresiftError, InputError, refuse
from coresift.tables.parts import first_line, open_input
from coresift.tables.places import hide_secrets
from coresift.tables.textual import FORMULA, NOTE, fit_to_schema, read_csv, read_jsonl, split_note
from coresift.tables.values import base64_of, is_nested, is_text, plain, text_of

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_SUFFIXES = (".parquet", ".csv", ".jsonl")
STALE_SECONDS = 6 * 3600  # a temporary file older than this belongs to a run that was killed
LINES_AT_ONCE = 1024


def check_suffix(path: Path, allowed: tuple[str, ...], what: str) -> None:
    """Refuse a file whose suffix is not allowed."""
    if path.suffix not in allowed:
        extensions = " or ".join([", ".join(allowed[:-1]), allowed[-1]] if len(allowed) > 1 else allowed)
        refuse(f"{what[0].upper()}{what[1:]}", f"a file with the extension {extensions}", _short_name(path))


def _short_name(path: Path) -> str:
    """Return the name of a file; that of a URI keeps its scheme, by which secrets are found and hidden."""
    return hide_secrets(str(path)) if ":/" in str(path) else path.name


def check_target(path: str | Path, suffixes: tuple[str, ...], what: str) -> None:
    """Refuse a path that cannot be written, before the work begins."""
    path = Path(path)
    check_suffix(path, suffixes, what)
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {path.parent} to write {path.name} in.")
    if os.path.isdir(path):
        raise InputError(f"{path} must be a file to write to; it is a folder.")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"You do not have permission to write to the folder {path.parent}.")


def check_writable(schema: pa.Schema, path: str | Path) -> None:
    """Refuse columns that this file format cannot hold, before the work begins.

    >>> import pyarrow as pa
    >>> check_writable(pa.schema([("when", pa.timestamp("s"))]), "picked.csv")
    """
    import pyarrow as pa

    path = Path(path)
    check_suffix(path, TABLE_SUFFIXES, "a table")
    _writer(pa.Table.from_batches([], schema), path, None)(io.BytesIO())


def write_table(table: pa.Table, path: str | Path, *, note: bytes | None = None) -> None:
    """Write an Arrow table to `.parquet`, `.csv` or `.jsonl`, atomically.

    Args:
        table: The table.
        path: The file; its suffix determines the format.
        note: Facts about the whole table, as UTF-8 text; `open_noted` returns it.
    """
    path = Path(path)
    check_suffix(path, TABLE_SUFFIXES, "a table")
    write_whole(path, _writer(table, path, note))


def formulas_in(table: pa.Table) -> int:
    """Return how many cells get an apostrophe in a CSV file, since a spreadsheet would run them as formulas.

    >>> import pyarrow as pa
    >>> formulas_in(pa.table({"text": ["=1+1", "plain", "@home"], "number": [-1, 2, 3]}))
    2
    """
    import pyarrow.compute as pc

    columns = [_by_chunk(table[name], _for_csv) for name in table.column_names]
    matches = [pc.match_substring_regex(column, "^'" + FORMULA[1:]) for column in columns if is_text(column.type)]
    return sum(pc.sum(match).as_py() or 0 for match in matches)


def write_bytes(content: bytes, path: str | Path) -> None:
    """Write a file atomically."""

    def write(file: BinaryIO) -> None:
        file.write(content)

    write_whole(Path(path), write)


def write_whole(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write a temporary file and rename it to `path`. If the old file had stricter permissions, the new one has too."""
    check_target(path, (path.suffix,), "a file")
    # A symlink stays, and the file it points to is replaced; a link to itself fails below.
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".coresift-{secrets.token_hex(8)}.tmp")
    try:
        _remove_stale(target.parent)
        with open(temporary, "xb") as file:
            with suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode & os.fstat(file.fileno()).st_mode))
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        raise CoresiftError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def open_noted(path: Path) -> Iterator[tuple[bytes | None, Callable[[pa.Schema], pa.Table]]]:
    """Open a file that `write_table` wrote: yield its note (None if it has none) and a function that reads columns.

    The file is opened once, so the note and the table belong together even if the file is replaced meanwhile.
    """
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        with open_input(path) as source, pq.ParquetFile(source) as file:

            def read(schema: pa.Schema) -> pa.Table:
                _check_columns(path, schema, file.schema_arrow.names)
                return file.read(columns=schema.names)

            # ParquetFile reads this one file; read_table could take its path for a folder or a partition.
            yield (file.schema_arrow.metadata or {}).get(NOTE.encode()), read
        return
    note, table = split_note(read_csv(path) if path.suffix == ".csv" else read_jsonl(path))

    def fit(schema: pa.Schema) -> pa.Table:
        _check_columns(path, schema, table.column_names if table.num_rows else schema.names)
        return fit_to_schema(table, schema)

    yield note, fit


def _check_columns(path: Path, schema: pa.Schema, present: Sequence[str]) -> None:
    """Refuse a file that lost a column after coresift wrote it."""
    for name in schema.names:
        if name not in present:
            raise InputError(f"{path} must have the column {name}, as coresift wrote it; the column has been removed.")


def _remove_stale(folder: Path) -> None:
    """Remove the temporary files of earlier runs that were killed."""
    now = time.time()
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".coresift-") and entry.name.endswith(".tmp"):
                with suppress(OSError):
                    if entry.is_file(follow_symlinks=False) and now - entry.stat().st_mtime > STALE_SECONDS:
                        os.unlink(entry.path)


def _writer(table: pa.Table, path: Path, note: bytes | None) -> Callable[[BinaryIO], None]:
    """Return a function that writes the table; refuse columns that the format cannot hold before any file exists."""
    import pyarrow as pa

    prepare, write = _KINDS[path.suffix]
    columns = []
    for name in table.column_names:
        try:
            columns.append(_by_chunk(table[name], prepare))
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise InputError(f"A {path.suffix} file cannot hold the column {name}: {first_line(error)}.") from error
    return write(pa.table(columns, names=table.column_names), note)


def _by_chunk(column: pa.ChunkedArray, prepare: Callable[[pa.Array], pa.Array]) -> pa.ChunkedArray:
    import pyarrow as pa

    chunks = [prepare(plain(chunk)) for chunk in column.chunks]
    return pa.chunked_array(chunks or [prepare(plain(pa.nulls(0, column.type)))])


def _for_parquet(array: pa.Array) -> pa.Array:
    import pyarrow.types as kinds

    if "union" in str(array.type):
        raise TypeError(f"it has values of type {array.type}")
    return text_of(array) if kinds.is_interval(array.type) else array


def _parquet(table: pa.Table, note: bytes | None) -> Callable[[BinaryIO], None]:
    import pyarrow.parquet as pq

    table = table.replace_schema_metadata(None if note is None else {NOTE.encode(): note})
    return lambda file: pq.write_table(table, file, compression="zstd")


def _for_csv(array: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    kind = array.type
    if is_nested(kind):
        texts = [None if value is None else _dump(value) for value in _for_json(array)]
        return pa.array(texts, pa.large_string())
    timed = kinds.is_time(kind) or kinds.is_timestamp(kind) or kinds.is_interval(kind)
    if timed or kinds.is_dictionary(kind) or hasattr(kind, "storage_type") or "binary" in str(kind):
        array = text_of(array)
    return pc.replace_substring_regex(array, FORMULA, r"'\1") if is_text(array.type) else array


def _csv(table: pa.Table, note: bytes | None) -> Callable[[BinaryIO], None]:
    import pyarrow.csv

    names = [re.sub(FORMULA, r"'\1", name) for name in table.column_names]
    table = _with_note(table.rename_columns(names), note)
    return lambda file: pyarrow.csv.write_csv(table, file)


def _jsonl(table: pa.Table, note: bytes | None) -> Callable[[BinaryIO], None]:
    names = table.column_names

    def write(file: BinaryIO) -> None:
        note_cell = {} if note is None else {NOTE: note.decode()}
        for batch in table.to_batches(LINES_AT_ONCE):
            for cells in zip(*(_for_json(column) for column in batch.columns), strict=True):
                file.write(_dump({**dict(zip(names, cells, strict=True)), **note_cell}).encode() + b"\n")
                note_cell = {}
        if note_cell:
            file.write(_dump(note_cell).encode() + b"\n")

    return write


def _for_json(array: pa.Array) -> list[Any]:
    """Return each value in a form that `json` can write."""
    import pyarrow.types as kinds

    kind = array.type
    if kinds.is_dictionary(kind):
        return _for_json(array.dictionary.take(array.indices))
    if is_nested(kind) and hasattr(kind, "storage_type"):
        return _for_json(array.storage)
    native = is_text(kind) or kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind)
    if native or is_nested(kind):
        return [_jsonable(value) for value in array.to_pylist()]
    texts: list[Any] = text_of(array).to_pylist()
    return texts


def _jsonable(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, dict):
        return {str(name): _jsonable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_jsonable(item) for item in value]
    if type(value) is tuple:  # a map entry
        return {"key": _jsonable(value[0]), "value": _jsonable(value[1])}
    return base64_of(value) if isinstance(value, bytes) else str(value)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _with_note(table: pa.Table, note: bytes | None) -> pa.Table:
    import pyarrow as pa

    if note is None:
        return table
    if table.num_rows == 0:
        table = pa.table({field.name: pa.nulls(1, field.type) for field in table.schema})
    return table.append_column(NOTE, pa.array([note.decode(), *[None] * (table.num_rows - 1)], pa.string()))


_KINDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, bytes | None], Callable[[BinaryIO], None]]]] = {
    ".parquet": (_for_parquet, _parquet),
    ".csv": (_for_csv, _csv),
    ".jsonl": (lambda array: array, _jsonl),
}
