"""Files that lie elsewhere: on any filesystem that pyarrow knows, named by a URI or given with the filesystem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import refuse

# Single rows are asked for one by one where they are sparser than this; otherwise all between them are read too.
SPARSE = 64


@dataclass(frozen=True)
class Place:
    """A file on a pyarrow filesystem; it is small to send, and whoever opens it needs the same access."""

    filesystem: Any
    path: str
    name: str

    @property
    def suffix(self) -> str:
        """The ending of its name."""
        return "." + self.path.rpartition(".")[2]

    def open(self) -> Any:
        """Open it for reading at any position."""
        return self.filesystem.open_input_file(self.path)

    def absolute(self) -> Place:
        """Return itself: it has the same name everywhere."""
        return self

    def __str__(self) -> str:
        return self.name


def is_uri(source: object) -> bool:
    """Say whether this names a place by its scheme.

    >>> is_uri("s3://bucket/rows"), is_uri("folder/rows.npy")
    (True, False)
    """
    return isinstance(source, str) and "://" in source


def find_places(source: str, filesystem: Any, suffixes: tuple[str, ...]) -> list[Place]:
    """Return the file of this name, or the files in the folder of this name, in their order."""
    import pyarrow as pa
    from pyarrow import fs

    try:
        prefix = ""
        if filesystem is None:
            filesystem, path = fs.FileSystem.from_uri(source)
            prefix = source.partition("://")[0] + "://"
        else:
            path = source
        if filesystem.get_file_info(path).type == fs.FileType.Directory:
            inside = filesystem.get_file_info(fs.FileSelector(path))
            paths = sorted(info.path for info in inside if info.type == fs.FileType.File)
            paths = [path for path in paths if path.lower().endswith(suffixes)]
        else:
            paths = [path]
    except (pa.ArrowException, OSError, TypeError, ValueError) as error:
        refuse("rows", "a place that can be reached", f"{source!r} ({str(error).splitlines()[0].rstrip('.')})")
    if not paths:
        refuse("rows", f"a folder with files of type {', '.join(suffixes)}", source)
    return [Place(filesystem, path, prefix + path) for path in paths]


@dataclass(frozen=True)
class PlacedArray:
    """Opens a .npy file that lies elsewhere; only the rows that are asked for are read."""

    place: Place

    def __call__(self) -> DistantArray:
        """Read its header."""
        return DistantArray(self.place)


class DistantArray:
    """The matrix in a .npy file, read by byte ranges."""

    def __init__(self, place: Place) -> None:
        self._place = place
        try:
            with place.open() as file:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                self.shape, columns, self.dtype = read(file)
                self._start = file.tell()
        except (ValueError, OSError, EOFError) as error:
            refuse("rows", "readable .npy files of numbers", f"{place} ({str(error).splitlines()[0]})")
        self.ndim = len(self.shape)
        if columns and self.ndim > 1 and min(self.shape) > 1:
            refuse("rows", ".npy files that hold one row after the other, where they are not local", place)

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        with self._place.open() as file:
            if isinstance(rows, slice):
                start, stop, _ = rows.indices(self.shape[0])
                return self._read(file, start, max(stop, start))
            if rows.size and rows[-1] - rows[0] < SPARSE * rows.size:
                return np.asarray(self._read(file, int(rows[0]), int(rows[-1]) + 1).take(rows - rows[0], axis=0))
            some = [self._read(file, int(row), int(row) + 1) for row in rows]
            return np.concatenate([np.empty((0, self.shape[1]), self.dtype), *some])

    def _read(self, file: Any, start: int, stop: int) -> NDArray[Any]:
        width = self.shape[1] * self.dtype.itemsize
        try:
            file.seek(self._start + start * width)
            content = file.read((stop - start) * width)
            return np.frombuffer(content, self.dtype).reshape(stop - start, self.shape[1])
        except (ValueError, OSError) as error:
            refuse("rows", "readable .npy files of numbers", f"{self._place} ({str(error).splitlines()[0]})")
