"""Write files whole or not at all, and tables as Parquet, CSV or JSON lines.

A file is written under another name beside its target and then renamed, once: whatever is killed at whatever point,
and however many write or read at the same time, the target is the old file or one whole new file.

What holds for a whole table, its note, is therefore inside the file, never next to it. A Parquet file has it in its
metadata. A CSV or JSONL file has it in a separate column, `coresift`, on the first line only: any tool reads such a
file, and it survives a spreadsheet. A table without rows gets one line that has nothing but the note.

Every Arrow type can be written. Parquet keeps all but intervals, which become texts. In the other two, bytes are
base64, ids of type UUID their usual text, and times ISO 8601; JSON has no infinity and no NaN, so both are null; CSV
has lists and structs as JSON. In CSV a text that a spreadsheet would run as a formula gets an apostrophe before it,
which `read_csv` takes off.
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
from coresift.tables.textual import FORMULA, NOTE, fitted, read_csv, read_jsonl, split_note
from coresift.tables.values import base64_of, is_nested, is_text, plain, text_of

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_SUFFIXES = (".parquet", ".csv", ".jsonl")
FORGOTTEN = 6 * 3600  # seconds after which a file that was never renamed is that of a run that was killed
LINES_AT_ONCE = 1024


def check_suffix(path: Path, allowed: tuple[str, ...], what: str) -> None:
    """Refuse a name of another kind."""
    if path.suffix not in allowed:
        endings = " or ".join([", ".join(allowed[:-1]), allowed[-1]] if len(allowed) > 1 else allowed)
        refuse(f"{what[0].upper()}{what[1:]}", f"a file with the ending {endings}", path.name)


def check_target(path: str | Path, suffixes: tuple[str, ...], what: str) -> None:
    """Refuse a file that could not be written in the end, before the work begins."""
    path = Path(path)
    check_suffix(path, suffixes, what)
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {path.parent} to write {path.name} in.")
    if os.path.isdir(path):
        raise InputError(f"{path} must be a file to write to; it is a folder.")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"The folder {path.parent} is not one that you may write in.")


def check_writable(schema: pa.Schema, path: str | Path) -> None:
    """Refuse columns that a file of this kind cannot hold, before the work begins.

    >>> import pyarrow as pa
    >>> check_writable(pa.schema([("when", pa.timestamp("s"))]), "picked.csv")
    """
    import pyarrow as pa

    path = Path(path)
    check_suffix(path, TABLE_SUFFIXES, "a table")
    _writer(pa.Table.from_batches([], schema), path, None)(io.BytesIO())


def write_table(table: pa.Table, path: str | Path, *, note: bytes | None = None) -> None:
    """Write an Arrow table to `.parquet`, `.csv` or `.jsonl`, the whole file or nothing.

    Args:
        table: The table.
        path: The file; its suffix says the format.
        note: What holds for the whole table, as text in UTF-8; `open_noted` gives it back.
    """
    path = Path(path)
    check_suffix(path, TABLE_SUFFIXES, "a table")
    write_whole(path, _writer(table, path, note))


def write_bytes(content: bytes, path: str | Path) -> None:
    """Write a file, the whole of it or nothing."""

    def write(file: BinaryIO) -> None:
        file.write(content)

    write_whole(Path(path), write)


def write_whole(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write a file beside its target, then rename it. A file that is replaced keeps its mode where that is stricter."""
    check_target(path, (path.suffix,), "a file")
    # Through a link, to the file that it stands for; of a link to itself the system complains below.
    target = Path(os.path.realpath(path))
    aside = target.with_name(f".coresift-{secrets.token_hex(8)}.tmp")
    try:
        _sweep(target.parent)
        with open(aside, "xb") as file:
            with suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode & os.fstat(file.fileno()).st_mode))
            write(file)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(target)
    except OSError as error:
        raise CoresiftError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)


@contextmanager
def open_noted(path: Path) -> Iterator[tuple[bytes | None, Callable[[pa.Schema], pa.Table]]]:
    """Open a file that `write_table` wrote: yield its note (None if it has none) and a function that reads columns.

    The file is opened once, so that note and table are of the same file even if another takes its place meanwhile.
    """
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        with open_input(path) as source, pq.ParquetFile(source) as file:

            def read(schema: pa.Schema) -> pa.Table:
                _check_columns(path, schema, file.schema_arrow.names)
                return file.read(columns=schema.names)

            # One file, never the folder or the partition that its path may look like.
            yield (file.schema_arrow.metadata or {}).get(NOTE.encode()), read
        return
    note, table = split_note(read_csv(path) if path.suffix == ".csv" else read_jsonl(path))

    def fit(schema: pa.Schema) -> pa.Table:
        _check_columns(path, schema, table.column_names if table.num_rows else schema.names)
        return fitted(table, schema)

    yield note, fit


def _check_columns(path: Path, schema: pa.Schema, there: Sequence[str]) -> None:
    """Refuse a file from which a column was taken."""
    for name in schema.names:
        if name not in there:
            raise InputError(f"{path} must have the column {name}, as coresift wrote it; the column has been removed.")


def _sweep(folder: Path) -> None:
    """Remove what earlier runs wrote and were killed before they could rename it."""
    now = time.time()
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".coresift-") and entry.name.endswith(".tmp"):
                with suppress(OSError):
                    if entry.is_file(follow_symlinks=False) and now - entry.stat().st_mtime > FORGOTTEN:
                        os.unlink(entry.path)


def _writer(table: pa.Table, path: Path, note: bytes | None) -> Callable[[BinaryIO], None]:
    """Return what writes a table; a column that cannot be written is refused here, before any file exists."""
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
        said = {} if note is None else {NOTE: note.decode()}
        for batch in table.to_batches(LINES_AT_ONCE):
            for cells in zip(*(_for_json(column) for column in batch.columns), strict=True):
                file.write(_dump({**dict(zip(names, cells, strict=True)), **said}).encode() + b"\n")
                said = {}
        if said:
            file.write(_dump(said).encode() + b"\n")

    return write


def _for_json(array: pa.Array) -> list[Any]:
    """Return what `json` writes for each value."""
    import pyarrow.types as kinds

    kind = array.type
    if kinds.is_dictionary(kind):
        return _for_json(array.dictionary.take(array.indices))
    if is_nested(kind) and hasattr(kind, "storage_type"):
        return _for_json(array.storage)
    known = is_text(kind) or kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind)
    if known or is_nested(kind):
        return [_jsonable(value) for value in array.to_pylist()]
    written: list[Any] = text_of(array).to_pylist()
    return written


def _jsonable(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, dict):
        return {str(name): _jsonable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_jsonable(item) for item in value]
    if type(value) is tuple:  # an entry of a map
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
