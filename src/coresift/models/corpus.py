"""Tables of texts: Parquet, Arrow, CSV, JSON lines, folders of `datasets`, or what is in memory already."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coresift.checks import InputError, refuse
from coresift.models.extra import need
from coresift.rows.base import bounds_of, by_part
from coresift.rows.sources import ArrowPart, DatasetPart, MemoryPart, ParquetPart
from coresift.rows.tables import Part, names_of
from coresift.types import Ints

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".parquet", ".arrow", ".feather", ".csv", ".jsonl")
AT_ONCE = 8192
LINES_AT_ONCE = 2**16


class Corpus:
    """A table of n rows, read a few at a time: texts of its columns in order, or rows by number.

    >>> corpus = open_corpus(["to be", "or not"])
    >>> corpus.n, list(corpus.windows("text", 5))
    (2, [['to be', 'or not']])
    """

    def __init__(self, parts: Sequence[Part], id_column: str | None = None) -> None:
        self._parts = parts
        self._bounds = bounds_of([part.count for part in parts])
        self.n = int(self._bounds[-1])
        self.schema: pa.Schema = parts[0].schema
        for part in parts[1:]:
            if part.schema.names != self.schema.names:
                refuse("The table", f"files with the same columns ({self._there()})", f"others in {part.name}")
        if id_column is not None:
            self.require("id_column", id_column)
        self.id_name = id_column or ("id" if "id" in self.schema.names else None)
        if self.n == 0:
            refuse("The table", "one of at least one row", "an empty one")

    def windows(self, column: str, size: int) -> Iterator[list[str]]:
        """Yield the texts of a column in order, `size` at a time; the last ones may be fewer."""
        held: list[str] = []
        start = 0
        for batch in self._stream([column]):
            held += _texts(batch.column(0), column, start)
            start += batch.num_rows
            while len(held) >= size:
                yield held[:size]
                held = held[size:]
        if held:
            yield held

    def texts(self, column: str, ids: Ints) -> list[str]:
        """Return the texts of some rows, in the order asked."""
        order = np.argsort(ids, kind="stable")
        found: NDArray[Any] = np.empty(ids.size, object)
        batches = self._picked([column], ids[order])
        found[order] = list(chain.from_iterable(_texts(batch.column(0), column, None) for batch in batches))
        return list(found)

    def values(self, column: str, ids: Ints) -> list[Any]:
        """Return the values of a column for some rows, in the order asked."""
        order = np.argsort(ids, kind="stable")
        found: NDArray[Any] = np.empty(ids.size, object)
        found[order] = list(chain.from_iterable(b.column(0).to_pylist() for b in self._picked([column], ids[order])))
        return list(found)

    def take(self, ids: Ints) -> pa.Table:
        """Return whole rows by ascending number, as a table."""
        import pyarrow as pa

        return pa.Table.from_batches(list(self._picked(self.schema.names, ids)))

    def names(self, ids: ArrayLike) -> list[Any] | None:
        """Return the values of the id column for ascending row numbers; None if there is no such column."""
        if self.id_name is None:
            return None
        batches = self._picked([self.id_name], np.asarray(ids, np.int64))
        return list(chain.from_iterable(names_of(batch.column(0)) for batch in batches))

    def labels(self, column: str) -> NDArray[Any]:
        """Return the values of a column of classes, one a row."""
        self.require("strata", column)
        found: NDArray[Any] = np.empty(self.n, object)
        found[:] = list(chain.from_iterable(batch.column(0).to_pylist() for batch in self._stream([column])))
        return found

    def require_texts(self, argument: str, column: str) -> None:
        """Refuse a column that is not there or has no texts in it."""
        import pyarrow.types as kinds

        self.require(argument, column)
        kind = self.schema.field(column).type
        if not (kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind)):
            refuse(argument, "a column of texts", f"{column!r} of type {kind}")

    def digest(self, column: str) -> str:
        """Return a fingerprint of all texts of a column."""
        state = hashlib.blake2b(digest_size=12)
        for texts in self.windows(column, AT_ONCE):
            for text in texts:
                coded = text.encode("utf-8", "surrogatepass")
                state.update(len(coded).to_bytes(8, "little") + coded)
        return state.hexdigest()

    def _stream(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return chain.from_iterable(part.batches(columns, AT_ONCE) for part in self._parts)

    def _picked(self, columns: Sequence[str], ids: Ints) -> Iterator[pa.RecordBatch]:
        for part, numbers in by_part(ids, self._bounds):
            yield from self._parts[part].pick(columns, AT_ONCE, numbers)

    def require(self, argument: str, column: str) -> None:
        """Refuse a column that is not there."""
        if column not in self.schema.names:
            refuse(argument, f"one of the columns {self._there()}", repr(column))

    def _there(self) -> str:
        return ", ".join(repr(name) for name in self.schema.names) or "none"


def open_corpus(source: Any, *, id_column: str | None = None) -> Corpus:
    """Return the corpus that this is: a path, a list of texts, a dict of columns, an Arrow table or a `Dataset`.

    A path is a Parquet, Arrow, CSV or JSONL file, a folder or glob of such files, or a folder that
    `Dataset.save_to_disk` wrote. A plain list of texts is a table with the one column "text".
    """
    if isinstance(source, Corpus):
        return source
    part = _part_in_memory(source)
    if part is not None:
        return Corpus([part], id_column)
    if isinstance(source, str | os.PathLike):
        return Corpus([_part(path) for path in _find(Path(source))], id_column)
    refuse("The table", "a path, a list of texts, an Arrow table or a datasets.Dataset", type(source).__name__)


def _part_in_memory(source: Any) -> Part | None:
    import pyarrow as pa

    if isinstance(source, pa.Table):
        return MemoryPart(source)
    if isinstance(source, dict):
        return MemoryPart(_table(source))
    datasets = sys.modules.get("datasets")
    if datasets is not None and isinstance(source, datasets.Dataset):
        return DatasetPart(source)
    if isinstance(source, list | tuple | np.ndarray):
        odd = next((item for item in source if not isinstance(item, str)), None)
        if odd is not None:
            refuse("The texts", "a list of texts", f"one with {odd!r} in it")
        return MemoryPart(pa.table({"text": pa.array([str(text) for text in source], pa.string())}))
    return None


def _table(columns: dict[str, Any]) -> pa.Table:
    import pyarrow as pa

    try:
        return pa.table(columns)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"The table must be columns of the same length: {_first_line(error)}.") from error


def _find(path: Path) -> list[Path]:
    if path.is_dir():
        if (path / "dataset_dict.json").is_file():
            splits = ", ".join(sorted(one.name for one in path.iterdir() if one.is_dir()))
            raise InputError(f"{path} holds several data sets ({splits}); give the folder of one of them.")
        if (path / "state.json").is_file():
            return [path]
        found = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())
        return found or refuse("The table", f"a folder with files of type {', '.join(SUFFIXES)}", path)
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    matches = sorted(glob.glob(str(path), recursive=True))
    return [Path(match) for match in matches] or refuse("The table", "a pattern that matches files", repr(str(path)))


def _part(path: Path) -> Part:
    if path.is_dir():
        return DatasetPart(_load_from_disk(path))
    if path.suffix.lower() not in SUFFIXES:
        refuse("The table", f"a file of type {', '.join(SUFFIXES)}, or a folder of datasets", path)
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    if path.suffix.lower() == ".parquet":
        return ParquetPart(path)
    if path.suffix.lower() in (".arrow", ".feather"):
        return ArrowPart(path)
    return MemoryPart(_read_csv(path) if path.suffix.lower() == ".csv" else _read_jsonl(path))


def _load_from_disk(path: Path) -> Any:
    try:
        return need("datasets").load_from_disk(str(path))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a folder of datasets that can be read ({_first_line(error)}).") from error


def _read_csv(path: Path) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv

    # Cells stay the texts that they are: a guess would turn a question "007" into a number.
    parse = csv.ParseOptions(newlines_in_values=True)
    try:
        with csv.open_csv(path, parse_options=parse) as file:
            names = file.schema.names
        kinds = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
        return csv.read_csv(path, parse_options=parse, convert_options=kinds)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"The file {path} cannot be read: {_first_line(error)}.") from error


def _read_jsonl(path: Path) -> pa.Table:
    import pyarrow as pa

    tables: list[pa.Table] = []
    held: list[dict[str, Any]] = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                entry = json.loads(line)
                if not isinstance(entry, dict):
                    raise InputError(f"{path} must have one JSON object a line; line {number} is something else.")
                held.append(entry)
                if len(held) == LINES_AT_ONCE:
                    tables.append(_table_of(held))
                    held = []
        tables += [_table_of(held)] if held or not tables else []
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"The file {path} cannot be read: {_first_line(error)}.") from error


def _table_of(lines: list[dict[str, Any]]) -> pa.Table:
    import pyarrow as pa

    names = dict.fromkeys(chain.from_iterable(lines))
    return pa.table({name: pa.array([line.get(name) for line in lines]) for name in names})


def _texts(column: pa.Array, name: str, start: int | None) -> list[str]:
    if column.null_count:
        place = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        where = "one of the rows" if start is None else f"row {start + place}"
        raise InputError(f"The column {name} must have a text in every row; {where} has none.")
    found: list[str] = column.to_pylist()
    return found


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
