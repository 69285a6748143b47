"""Rows in numpy arrays and .npy files, whole or in shards, local or remote."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError, refuse
from coresift.rows.base import Block, Rows, to_single
from coresift.tables.npy import map_npy, read_header
from coresift.tables.parts import bounds_of, by_part, first_line
from coresift.tables.places import Place
from coresift.types import Ints, Singles

# An opener returns an object with a shape and a dtype that can be indexed by a slice or by sorted row numbers.
Opener: TypeAlias = Callable[[], Any]

# Rows of a remote file are read one by one if fewer than one in this many is needed; otherwise the whole range is read.
SPARSE = 64
STRETCH = 8  # blocks of a file that may be mapped at once while rows are picked


class ArrayRows(Rows):
    """Rows of several arrays, concatenated; each array is opened again for every block.

    Because a file is mapped for one block only, it neither stays in resident memory nor keeps a descriptor open, so
    there is no limit on n or on the number of shards.
    """

    def __init__(self, openers: Sequence[Opener], counts: list[int], d: int) -> None:
        super().__init__(sum(counts), d)
        self._openers, self._bounds = openers, bounds_of(counts)

    def blocks(self) -> Iterator[Block]:
        """Yield blocks that are read only when their function runs."""
        for start in range(0, self.n, self.block_rows):
            yield start, partial(self._block, start, min(start + self.block_rows, self.n))

    def _block(self, start: int, stop: int) -> Singles:
        first = np.searchsorted(self._bounds, start, side="right") - 1
        last = np.searchsorted(self._bounds, stop, side="left")
        parts = range(int(first), int(last))
        pieces = [self._openers[i]()[max(start - self._bounds[i], 0) : stop - self._bounds[i]] for i in parts]
        if len(pieces) > 1:
            return np.concatenate([to_single(piece) for piece in pieces])
        block = to_single(pieces[0])
        block.flags.writeable = False
        return block

    def _read(self, start: int, stop: int) -> Iterator[Singles]:
        for first in range(start, stop, self.block_rows):
            yield self._block(first, min(first + self.block_rows, stop))

    def _pick(self, ids: Ints) -> Iterator[Singles]:
        # The system loads neighboring pages along with each row. Rows spread over a file would load all of it, so the
        # file is mapped anew for every stretch.
        stretches = np.flatnonzero(np.diff(ids // (STRETCH * self.block_rows))) + 1
        cuts = np.union1d(stretches, np.arange(self.block_rows, ids.size, self.block_rows))
        for chunk in np.split(ids, cuts):
            for part, numbers in by_part(chunk, self._bounds):
                yield to_single(self._openers[part]()[numbers])


def rows_of_array(array: NDArray[Any]) -> ArrayRows:
    """Return rows over an array in memory."""
    if isinstance(array, np.ma.MaskedArray):
        refuse("rows", "an array without a mask", "a masked array")
    plain = np.asarray(array)
    _check("an array", plain)
    return ArrayRows([partial(_itself, plain)], [len(plain)], plain.shape[1])


def rows_of_npy(paths: list[Path]) -> ArrayRows:
    """Return rows over .npy files, in the given order; they are mapped, never loaded."""
    return rows_of_arrays([NpyFile(path) for path in paths], [str(path) for path in paths])


def rows_of_arrays(openers: Sequence[Opener], names: list[str]) -> ArrayRows:
    """Return rows over arrays of the same width; `names` are their names in error messages."""
    shapes = [_shape(opener, name) for opener, name in zip(openers, names, strict=True)]
    width = next((d for count, d in shapes if count), shapes[0][1])
    for name, (count, d) in zip(names, shapes, strict=True):
        if count and d != width:
            refuse("rows", f"shards of the same width ({width} as in the first)", f"{d} in {name}")
    return ArrayRows(openers, [count for count, _ in shapes], width)


@dataclass(frozen=True)
class NpyFile:
    """Opens a local file; it is pickled with its absolute path."""

    path: Path

    def __call__(self) -> NDArray[Any]:
        """Map the file."""
        return map_npy(self.path)

    def __reduce__(self) -> tuple[type[NpyFile], tuple[Path]]:
        return NpyFile, (self.path.absolute(),)


@dataclass(frozen=True)
class RemoteArrayFile:
    """Opens a remote .npy file, of which only the needed rows are read."""

    place: Place

    def __call__(self) -> RemoteArray:
        """Read the header."""
        return RemoteArray(self.place)


class RemoteArray:
    """The matrix in a .npy file, read by byte ranges."""

    def __init__(self, place: Place) -> None:
        self._place = place
        try:
            with place.open() as file:
                self.shape, columns, self.dtype, self._start = read_header(file, file.size(), str(place))
        except OSError as error:
            raise InputError(f"The file {place} cannot be read: {first_line(error)}.") from error
        self.ndim = len(self.shape)
        if columns and self.ndim > 1 and min(self.shape) > 1:
            refuse("rows", "in C order (row by row) in a remote .npy file", place)

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        with self._place.open() as file:
            if isinstance(rows, slice):
                start, stop, _ = rows.indices(self.shape[0])
                return self._read(file, start, max(stop, start))
            if rows.size and rows[-1] - rows[0] < SPARSE * rows.size:
                return np.asarray(self._read(file, int(rows[0]), int(rows[-1]) + 1).take(rows - rows[0], axis=0))
            pieces = [self._read(file, int(row), int(row) + 1) for row in rows]
            return np.concatenate([np.empty((0, self.shape[1]), self.dtype), *pieces])

    def _read(self, file: Any, start: int, stop: int) -> NDArray[Any]:
        width = self.shape[1] * self.dtype.itemsize
        try:
            file.seek(self._start + start * width)
            content = file.read((stop - start) * width)
            return np.frombuffer(content, self.dtype).reshape(stop - start, self.shape[1])
        except (ValueError, OSError) as error:
            raise InputError(f"The file {self._place} cannot be read: {first_line(error)}.") from error


def _itself(array: NDArray[Any]) -> NDArray[Any]:
    return array


def _shape(opener: Opener, name: str) -> tuple[int, int]:
    array = opener()
    _check(name, array)
    return array.shape[0], array.shape[1]


def _check(what: str, array: Any) -> None:
    if array.ndim != 2:
        refuse("rows", "a 2-D array, one item per row", f"{what} with {array.ndim} dimension(s), shape {array.shape}")
    if array.dtype.kind not in "fiub":
        refuse("rows", "real numbers", f"{what} of {array.dtype}")
