"""The tables that can be streamed, one small class per kind.

What comes from a file or another library is validated in full, batch by batch, before anyone looks at it: offsets
that point outside of their buffer, or texts that are not UTF-8, are an error in one sentence.
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


SMALL_FILE = 2**23  # bytes of a Parquet file of which a whole column may be in memory


class Part(ABC):
    """A table that can be streamed, with its number of rows known.

    Columns are asked for by name; `schema` has their plain types, and so has what comes out.
    """

    def __init__(self, name: str, count: int, schema: pa.Schema) -> None:
        self.name, self.count = name, count
        _check_names(name, schema)
        self.schema = _plain_schema(schema)

    @abstractmethod
    def _stream(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns in row order, about `size` rows at a time where the source can."""

    def _slices(self, columns: Sequence[str], size: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        return slice_from(self._stream(columns, size), start, stop)

    def _groups(self, columns: Sequence[str], size: int, ids: Ints) -> Iterator[tuple[Ints, Iterator[pa.RecordBatch]]]:
        """Yield ascending row numbers with batches that they count along; a source may skip what is not asked for."""
        yield ids, self._stream(columns, size)

    def batches(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns in row order, about `size` rows at a time where the source can."""
        return self._complete(self._checked(self._stream(columns, size)), self.count)

    def stretch(self, columns: Sequence[str], size: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield rows `start` to `stop`, about `size` at a time."""
        return self._complete(self._checked(self._slices(columns, size, start, stop)), stop - start)

    def pick(self, columns: Sequence[str], size: int, ids: Ints) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ascending, perhaps repeated, `ids`, at most `size` at a time."""
        yield from self._complete(self._picked(columns, size, ids), ids.size)

    def _picked(self, columns: Sequence[str], size: int, ids: Ints) -> Iterator[pa.RecordBatch]:
        with reading(self.name):
            for numbers, batches in self._groups(columns, size, ids):
                yield from pick_from(self._checked(batches), numbers, size)

    def _complete(self, batches: Iterator[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
        """Yield batches, and refuse a file that comes to an end before it has given all the rows that it promised."""
        seen = 0
        for batch in batches:
            seen += batch.num_rows
            yield batch
        if seen != count:
            what = f"The file {self.name}" if not self.name.startswith("The ") else self.name
            raise InputError(
                f"{what} cannot be read: it has {seen:,} rows and not {count:,}; it is damaged, or has changed since "
                "it was opened (files must stay as they are while they are used)."
            )

    @property
    def read_at_once(self) -> int:
        """The most rows that must be read for one of them."""
        return 1

    def _checked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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
    """A `datasets.Dataset`, asked through its own interface so that its selected or shuffled order counts."""

    def __init__(self, dataset: Any) -> None:
        super().__init__("The dataset", len(dataset), dataset.features.arrow_schema)
        self._dataset = dataset

    def _stream(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        return self._slices(columns, size, 0, self.count)

    def _slices(self, columns: Sequence[str], size: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        chosen = self._dataset.select_columns(list(columns)).with_format("arrow")
        for first in range(start, stop, size):
            yield from chosen[first : min(first + size, stop)].to_batches()

    def _groups(self, columns: Sequence[str], size: int, ids: Ints) -> Iterator[tuple[Ints, Iterator[pa.RecordBatch]]]:
        # A dataset finds rows by number without a scan.
        chosen = self._dataset.select_columns(list(columns)).with_format("arrow")
        for start in range(0, ids.size, size):
            some = ids[start : start + size]
            yield np.arange(some.size), iter(chosen[some.tolist()].to_batches())


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
        # In the first row group, everything before the start is read too.
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

        # By default a row group's column is read as a whole before its first batch comes out; both options are
        # needed to read it a buffer at a time. In a small file, pages are checked against the file before memory is
        # made for them, which a buffer would not do: a damaged page may claim two gigabytes.
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
            # The stream format does not say how many rows there are. A column that has values of its own and is not
            # nested is cheap to look at; that of type null has as many rows as it claims, and nothing to check.
            simplest = sorted(schema, key=lambda field: (str(field.type) == "null", field.type.num_fields))[:1]
            reader = self._open([field.name for field in simplest] or None)
            self._bounds = bounds_of([_length(batch) for batch in _each(reader)])
        self.count = int(self._bounds[-1])

    def _stream(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        # The file's own batches; compressed ones are inflated one at a time.
        return _each(self._open(columns))

    def _groups(self, columns: Sequence[str], size: int, ids: Ints) -> Iterator[tuple[Ints, Iterator[pa.RecordBatch]]]:
        reader = self._open(columns)
        if not hasattr(reader, "get_batch"):  # only the file format lets batches be skipped
            yield ids, _each(reader)
            return
        for number, numbers in by_part(ids, self._bounds):
            yield numbers, map(reader.get_batch, [number])

    def _slices(self, columns: Sequence[str], size: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        reader = self._open(columns)
        first = int(np.searchsorted(self._bounds, start, side="right")) - 1 if hasattr(reader, "get_batch") else 0
        begin = int(self._bounds[first])
        yield from slice_from(_each(reader, first), start - begin, stop - begin)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_path": self._path.absolute()}

    def _open(self, columns: Sequence[str] | None) -> Any:
        import pyarrow as pa

        options = {}
        if columns is not None:
            fields = sorted(self.schema.get_field_index(column) for column in columns)
            options["options"] = pa.ipc.IpcReadOptions(included_fields=fields)
        try:
            return pa.ipc.open_file(_mapped(self._path), **options)
        except pa.ArrowInvalid:
            return pa.ipc.open_stream(_mapped(self._path), **options)


def by_part(ids: Ints, bounds: Ints) -> Iterator[tuple[int, Ints]]:
    """Split sorted row numbers over parts that begin at `bounds`: (part, numbers within it), empty parts left out."""
    cuts = np.searchsorted(ids, bounds)
    for part in np.flatnonzero(np.diff(cuts)):
        yield int(part), ids[cuts[part] : cuts[part + 1]] - bounds[part]


def bounds_of(counts: list[int]) -> Ints:
    """Return where each part begins, and the end of the last."""
    return np.cumsum([0, *counts], dtype=np.int64)


def pick_from(batches: Iterator[pa.RecordBatch], ids: Ints, size: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of sorted `ids`, numbered along the batches, at most `size` at a time; stop after the last."""
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
    """Yield rows `start` to `stop`, numbered along the batches, and look at no batch after them."""
    for batch in batches:
        if start < min(stop, batch.num_rows):
            first = max(start, 0)
            yield batch.slice(first, min(stop, batch.num_rows) - first)
        start, stop = start - batch.num_rows, stop - batch.num_rows
        if stop <= 0:
            return


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Say in one sentence what makes a file or table unreadable."""
    import pyarrow as pa

    try:
        yield
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        what = f"The file {name}" if not name.startswith("The ") else name
        raise InputError(f"{what} cannot be read: {first_line(error)}.") from error


def first_line(error: Exception) -> str:
    """Return what a sentence says of an error: its first line, without secrets and without its last point."""
    return hide_secrets((str(error).splitlines() or [""])[0].strip().rstrip(".") or type(error).__name__)


def open_input(path: Path | Place) -> Any:
    """Open a file for reading at any position; its name need not be UTF-8."""
    import pyarrow as pa

    return path.open() if isinstance(path, Place) else pa.OSFile(os.fsencode(path))


def _mapped(path: Path | Place) -> Any:
    import pyarrow as pa

    return path.open() if isinstance(path, Place) else pa.memory_map(os.fsencode(path))


def _each(reader: Any, first: int = 0) -> Iterator[pa.RecordBatch]:
    if not hasattr(reader, "get_batch"):
        return iter(reader)
    return map(reader.get_batch, range(first, reader.num_record_batches))


def _length(batch: pa.RecordBatch) -> int:
    batch.validate(full=True)
    return int(batch.num_rows)


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([field.with_type(plain_type(field.type)) for field in schema], metadata=schema.metadata)


def _check_names(name: str, schema: pa.Schema) -> None:
    names = schema.names
    counts = Counter(names)
    twice = next((column for column in names if counts[column] > 1), None)
    if twice is not None:
        what = f"The file {name}" if not name.startswith("The ") else name
        raise InputError(f"{what} must have columns whose names differ; it has {twice!r} twice.")
