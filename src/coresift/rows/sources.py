"""The tables that rows can stream from, one small class a kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coresift.checks import refuse
from coresift.rows.base import bounds_of, by_part
from coresift.rows.places import Place
from coresift.rows.tables import Part, pick_from, slice_from
from coresift.types import Ints

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


class MemoryPart(Part):
    """A table in memory; slices of it cost nothing."""

    def __init__(self, table: pa.Table) -> None:
        self.name, self.count, self.schema = "the table", table.num_rows, table.schema
        self._table = table

    def batches(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        """Yield the table's own batches."""
        yield from self._table.select(columns).to_batches()


class DatasetPart(Part):
    """A `datasets.Dataset`, asked through its own interface so that its selected or shuffled order counts."""

    def __init__(self, dataset: Any) -> None:
        self.name, self.count, self.schema = "the dataset", len(dataset), dataset.features.arrow_schema
        self._dataset = dataset

    def batches(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        """Yield slices."""
        chosen = self._dataset.select_columns(list(columns)).with_format("arrow")
        for start in range(0, self.count, size):
            yield from chosen[start : start + size].to_batches()

    def stretch(self, columns: Sequence[str], size: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield slices from where they begin."""
        chosen = self._dataset.select_columns(list(columns)).with_format("arrow")
        for first in range(start, stop, size):
            yield from chosen[first : min(first + size, stop)].to_batches()

    def pick(self, columns: Sequence[str], size: int, ids: Ints) -> Iterator[pa.RecordBatch]:
        """Yield rows by number, which a dataset finds without a scan."""
        chosen = self._dataset.select_columns(list(columns)).with_format("arrow")
        for start in range(0, ids.size, size):
            yield from chosen[ids[start : start + size].tolist()].to_batches()


class ParquetPart(Part):
    """A Parquet file, opened anew for every pass."""

    def __init__(self, path: Path | Place) -> None:
        self.name, self._path, self._metadata = str(path), path, None
        with self._open() as file:
            self._metadata, self.schema, self.count = file.metadata, file.schema_arrow, file.metadata.num_rows
        self._bounds = bounds_of([self._metadata.row_group(i).num_rows for i in range(self._metadata.num_row_groups)])

    def batches(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        """Yield batches without ever holding a row group."""
        with self._open() as file:
            yield from file.iter_batches(size, columns=list(columns))

    def pick(self, columns: Sequence[str], size: int, ids: Ints) -> Iterator[pa.RecordBatch]:
        """Yield rows by number from the row groups that hold any."""
        with self._open() as file:
            for group, numbers in by_part(ids, self._bounds):
                batches = file.iter_batches(size, row_groups=[group], columns=list(columns))
                yield from pick_from(batches, numbers, size)

    def stretch(self, columns: Sequence[str], size: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield rows from the row groups that hold any; of the first, all that comes before is read too."""
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
        # needed to read it a buffer at a time.
        options = {"pre_buffer": False, "buffer_size": 2**16}
        with _reading(self._path), _opened(self._path) as source:
            yield pq.ParquetFile(source, metadata=self._metadata, **options)


class ArrowPart(Part):
    """A memory-mapped Arrow file, in the file format (also Feather) or the stream format."""

    def __init__(self, path: Path | Place) -> None:
        self.name, self._path = str(path), path
        with _reading(path):
            self.schema = self._open(None).schema
            # The stream format does not say how many rows there are; a column that is not nested is cheap to look at.
            simplest = sorted(self.schema, key=lambda field: field.type.num_fields)[:1]
            reader = self._open([field.name for field in simplest] or None)
            self._bounds = bounds_of([batch.num_rows for batch in _each(reader)])
        self.count = int(self._bounds[-1])

    def batches(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        """Yield the file's own batches; compressed ones are inflated one at a time."""
        with _reading(self._path):
            yield from _each(self._open(columns))

    def pick(self, columns: Sequence[str], size: int, ids: Ints) -> Iterator[pa.RecordBatch]:
        """Yield rows by number; only the file format lets batches be skipped."""
        with _reading(self._path):
            reader = self._open(columns)
            if not hasattr(reader, "get_batch"):
                yield from pick_from(_each(reader), ids, size)
                return
            for number, numbers in by_part(ids, self._bounds):
                yield from pick_from(iter([reader.get_batch(number)]), numbers, size)

    def stretch(self, columns: Sequence[str], size: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield rows by their place; only the file format lets batches be skipped."""
        with _reading(self._path):
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


def _each(reader: Any, first: int = 0) -> Iterator[pa.RecordBatch]:
    if not hasattr(reader, "get_batch"):
        return iter(reader)
    return map(reader.get_batch, range(first, reader.num_record_batches))


@contextmanager
def _opened(path: Path | Place) -> Iterator[Any]:
    """Open a file for as long as it is read."""
    import pyarrow as pa

    with path.open() if isinstance(path, Place) else pa.OSFile(str(path)) as file:
        yield file


def _mapped(path: Path | Place) -> Any:
    import pyarrow as pa

    return path.open() if isinstance(path, Place) else pa.memory_map(str(path))


@contextmanager
def _reading(path: Path | Place) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        refuse("rows", "readable Parquet or Arrow files", f"{path} ({str(error).splitlines()[0]})")
