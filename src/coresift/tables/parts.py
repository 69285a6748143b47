"""The tables that can be streamed, one small class per format.

Data from a file or another library is fully validated, batch by batch, before it is used. Offsets outside their buffer
and strings that are not UTF-8 are errors.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coresift.checks import InputError
from coresift.tables.places import Place, hide_secrets
from coresift.tables.values import plain, plain_type
from coresift.types import Ints

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


SMALL_FILE = 2**23  # a Parquet file of at most this many bytes may have a whole column in memory


class Part(ABC):
    """A table that can be streamed and whose number of rows is known.

    Columns are read by name. `schema` and all batches have plain types (see `plain_type`).
    """

    def __init__(self, name: str, count: int, schema: pa.Schema) -> None:
        self.name, self.count = name, count
        _check_names(name, schema)
        self.schema = _plain_schema(schema)

    @abstractmethod
    def _stream(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns in row order, about `size` rows at a time if the source supports it."""

    def _slices(self, columns: Sequence[str], size: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        return slice_from(self._stream(columns, size), start, stop)

    def _groups(self, columns: Sequence[str], size: int, ids: Ints) -> Iterator[tuple[Ints, Iterator[pa.RecordBatch]]]:
        """Yield pairs of sorted row numbers and the batches they index into; a source may skip batches without any."""
        yield ids, self._stream(columns, size)

    def batches(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns in row order, about `size` rows at a time if the source supports it."""
        return self._check_count(self._validated(self._stream(columns, size)), self.count)

    def stretch(self, columns: Sequence[str], size: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield rows `start` to `stop`, about `size` at a time."""
        return self._check_count(self._validated(self._slices(columns, size, start, stop)), stop - start)

    def pick(self, columns: Sequence[str], size: int, ids: Ints) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the sorted, possibly repeated, numbers `ids`, at most `size` at a time."""
        yield from self._check_count(self._pick_batches(columns, size, ids), ids.size)

    def _pick_batches(self, columns: Sequence[str], size: int, ids: Ints) -> Iterator[pa.RecordBatch]:
        with reading(self.name):
            for numbers, batches in self._groups(columns, size, ids):
                yield from pick_from(self._validated(batches), numbers, size)

    def _check_count(self, batches: Iterator[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches, and refuse a file that does not have exactly `count` rows."""
        seen = 0
        for batch in batches:
            seen += batch.num_rows
            yield batch
        if seen != count:
            what = f"The file {self.name}" if not self.name.startswith("The ") else self.name
            raise InputError(
                f"{what} cannot be read: it has {seen:,} rows instead of {count:,}; it is damaged, or it changed after "
                "it was opened (files must not change while they are in use)."
            )

    @property
    def read_at_once(self) -> int:
        """How many rows must be read, at most, to get one of them."""
        return 1

    def _validated(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with reading(self.name):
            for batch in batches:
                batch.validate(full=True)
                columns = [plain(column) for column in batch.columns]
                yield pa.RecordBatch.from_arrays(columns, batch.schema.names) if columns else batch


class MemoryPart(Part):
    """A table in memory; slices of it cost nothing."""

    def __init__(self, table: pa.Table, name: str = "The table") -> None:
        super().__init__(name, table.num_rows, table.schema)
        self._table = table

    def _stream(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        yield from self._table.select(list(columns)).to_batches()


class DatasetPart(Part):
    """A `datasets.Dataset`, read through its own interface to respect selected or shuffled rows."""

    def __init__(self, dataset: Any) -> None:
        super().__init__("The dataset", len(dataset), dataset.features.arrow_schema)
        self._dataset = dataset

    def _stream(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        return self._slices(columns, size, 0, self.count)

    def _slices(self, columns: Sequence[str], size: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        dataset = self._dataset.select_columns(list(columns)).with_format("arrow")
        for first in range(start, stop, size):
            yield from dataset[first : min(first + size, stop)].to_batches()

    def _groups(self, columns: Sequence[str], size: int, ids: Ints) -> Iterator[tuple[Ints, Iterator[pa.RecordBatch]]]:
        # A dataset looks up rows by number without a scan.
        dataset = self._dataset.select_columns(list(columns)).with_format("arrow")
        for start in range(0, ids.size, size):
            chunk = ids[start : start + size]
            yield np.arange(chunk.size), iter(dataset[chunk.tolist()].to_batches())


class ParquetPart(Part):
    """A Parquet file, opened again for every pass."""

    def __init__(self, path: Path | Place) -> None:
        self._path, self._metadata, self.name = path, None, str(path)
        with reading(self.name), self._open() as file:
            self._metadata = file.metadata
            super().__init__(str(path), file.metadata.num_rows, file.schema_arrow)
        self._bounds = bounds_of([self._metadata.row_group(i).num_rows for i in range(self._metadata.num_row_groups)])

    def _stream(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        with self._open() as file:
            yield from file.iter_batches(size, columns=list(columns))

    def _groups(self, columns: Sequence[str], size: int, ids: Ints) -> Iterator[tuple[Ints, Iterator[pa.RecordBatch]]]:
        with self._open() as file:
            for group, numbers in by_part(ids, self._bounds):
                yield numbers, file.iter_batches(size, row_groups=[group], columns=list(columns))

    def _slices(self, columns: Sequence[str], size: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        # pyarrow cannot seek within a row group, so the rows before the start of the first group are read too.
        first = int(np.searchsorted(self._bounds, start, side="right")) - 1
        groups = range(first, int(np.searchsorted(self._bounds, stop)))
        begin = int(self._bounds[first])
        with self._open() as file:
            batches = file.iter_batches(size, row_groups=list(groups), columns=list(columns))
            yield from slice_from(batches, start - begin, stop - begin)

    @property
    def read_at_once(self) -> int:
        """The rows of the largest row group."""
        return int(np.diff(self._bounds).max(initial=1))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_path": self._path.absolute()}

    @contextmanager
    def _open(self) -> Iterator[pq.ParquetFile]:
        import pyarrow.parquet as pq

        # By default pyarrow reads a row group's whole column before it yields the first batch; both options are
        # needed to read one buffer at a time. Unbuffered, a page's size is checked against the file before memory is
        # allocated for it, so small files are read that way: a damaged page may claim two gigabytes.
        with open_input(self._path) as source:
            options = {"pre_buffer": False, "buffer_size": 2**16 if source.size() > SMALL_FILE else 0}
            yield pq.ParquetFile(source, metadata=self._metadata, **options)


class ArrowPart(Part):
    """A memory-mapped Arrow file, in the file format (also Feather) or the stream format."""

    def __init__(self, path: Path | Place) -> None:
        self._path, self.name = path, str(path)
        with reading(self.name):
            schema = self._open(None).schema
            super().__init__(str(path), 0, schema)
            # The stream format does not store the number of rows, so one column is read to count them. A flat column
            # is cheapest; a column of type null is the last choice, because its length cannot be validated.
            simplest = sorted(schema, key=lambda field: (str(field.type) == "null", field.type.num_fields))[:1]
            reader = self._open([field.name for field in simplest] or None)
            self._bounds = bounds_of([_validated_length(batch) for batch in _batches_of(reader)])
        self.count = int(self._bounds[-1])

    def _stream(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        # These are the file's own batches; compressed batches are decompressed one at a time.
        return _batches_of(self._open(columns))

    def _groups(self, columns: Sequence[str], size: int, ids: Ints) -> Iterator[tuple[Ints, Iterator[pa.RecordBatch]]]:
        reader = self._open(columns)
        if not hasattr(reader, "get_batch"):  # only the file format can skip batches
            yield ids, _batches_of(reader)
            return
        for batch, numbers in by_part(ids, self._bounds):
            yield numbers, map(reader.get_batch, [batch])

    def _slices(self, columns: Sequence[str], size: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        reader = self._open(columns)
        first = int(np.searchsorted(self._bounds, start, side="right")) - 1 if hasattr(reader, "get_batch") else 0
        begin = int(self._bounds[first])
        yield from slice_from(_batches_of(reader, first), start - begin, stop - begin)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_path": self._path.absolute()}

    def _open(self, columns: Sequence[str] | None) -> Any:
        import pyarrow as pa

        options = {}
        if columns is not None:
            fields = sorted(self.schema.get_field_index(column) for column in columns)
            options["options"] = pa.ipc.IpcReadOptions(included_fields=fields)
        try:
            return pa.ipc.open_file(_open_mapped(self._path), **options)
        except pa.ArrowInvalid:
            return pa.ipc.open_stream(_open_mapped(self._path), **options)


def by_part(ids: Ints, bounds: Ints) -> Iterator[tuple[int, Ints]]:
    """Split sorted row numbers by part: yield (part, row numbers within it), without empty parts."""
    cuts = np.searchsorted(ids, bounds)
    for part in np.flatnonzero(np.diff(cuts)):
        yield int(part), ids[cuts[part] : cuts[part + 1]] - bounds[part]


def bounds_of(counts: list[int]) -> Ints:
    """Return where each part starts, followed by where the last part ends."""
    return np.cumsum([0, *counts], dtype=np.int64)


def pick_from(batches: Iterator[pa.RecordBatch], ids: Ints, size: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows with the sorted numbers `ids`, counted from the first batch, at most `size` at a time."""
    import pyarrow as pa

    start = done = 0
    for batch in batches:
        stop = done + int(np.searchsorted(ids[done:], start + batch.num_rows))
        for at in range(done, stop, size):
            yield batch.take(pa.array(ids[at : min(at + size, stop)] - start))
        start, done = start + batch.num_rows, stop
        if done == ids.size:
            return


def slice_from(batches: Iterator[pa.RecordBatch], start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """Yield rows `start` to `stop`, counted from the first batch; later batches are not read."""
    for batch in batches:
        if start < min(stop, batch.num_rows):
            first = max(start, 0)
            yield batch.slice(first, min(stop, batch.num_rows) - first)
        start, stop = start - batch.num_rows, stop - batch.num_rows
        if stop <= 0:
            return


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn whatever a file or table raises when it is read into one error sentence."""
    import pyarrow as pa

    try:
        yield
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        what = f"The file {name}" if not name.startswith("The ") else name
        raise InputError(f"{what} cannot be read: {first_line(error)}.") from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error message without secrets and final punctuation, or the error's type."""
    return hide_secrets((str(error).strip().splitlines() or [""])[0].strip().rstrip(".:") or type(error).__name__)


def open_input(path: Path | Place) -> Any:
    """Open a file for reading at any position; its name need not be UTF-8."""
    import pyarrow as pa

    return path.open() if isinstance(path, Place) else pa.OSFile(os.fsencode(path))


def _open_mapped(path: Path | Place) -> Any:
    import pyarrow as pa

    return path.open() if isinstance(path, Place) else pa.memory_map(os.fsencode(path))


def _batches_of(reader: Any, first: int = 0) -> Iterator[pa.RecordBatch]:
    if not hasattr(reader, "get_batch"):
        return iter(reader)
    return map(reader.get_batch, range(first, reader.num_record_batches))


def _validated_length(batch: pa.RecordBatch) -> int:
    batch.validate(full=True)
    return int(batch.num_rows)


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([field.with_type(plain_type(field.type)) for field in schema], metadata=schema.metadata)


def _check_names(name: str, schema: pa.Schema) -> None:
    names = schema.names
    counts = Counter(names)
    duplicate = next((column for column in names if counts[column] > 1), None)
    if duplicate is not None:
        what = f"The file {name}" if not name.startswith("The ") else name
        raise InputError(f"{what} must have distinct column names; it has {duplicate!r} twice.")
