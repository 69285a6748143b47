"""Rows in numpy arrays and .npy files, whole or in shards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coresift.checks import refuse
from coresift.rows.base import Block, Rows, bounds_of, by_part, to_single
from coresift.types import Ints, Singles

# What they return has a shape and a dtype, and gives rows by slice or by ascending numbers.
Opener: TypeAlias = Callable[[], Any]

# numpy parses a file's header as Python, and Python 3.11's parser can fail when two threads use it at once.
PARSING = threading.Lock()
STRETCH = 8  # blocks of a file that may be mapped at once while rows are picked


class ArrayRows(Rows):
    """Rows of one array after the other, each opened anew for every block.

    A file that is mapped for one block only neither stays in the resident memory of the process nor keeps a
    descriptor open, so neither n nor the number of shards matters.
    """

    def __init__(self, openers: Sequence[Opener], counts: list[int], d: int) -> None:
        super().__init__(sum(counts), d)
        self._openers, self._bounds = openers, bounds_of(counts)

    def blocks(self) -> Iterator[Block]:
        """Yield blocks that are cut out only when their function runs."""
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
        # A mapped page brings its neighbors along: rows spread over a file would bring in all of it, were it not
        # for the mapping that ends with each stretch.
        stretches = np.flatnonzero(np.diff(ids // (STRETCH * self.block_rows))) + 1
        cuts = np.union1d(stretches, np.arange(self.block_rows, ids.size, self.block_rows))
        for some in np.split(ids, cuts):
            for part, numbers in by_part(some, self._bounds):
                yield to_single(self._openers[part]()[numbers])


def rows_of_array(array: NDArray[Any]) -> ArrayRows:
    """Return rows over an array in memory."""
    if isinstance(array, np.ma.MaskedArray):
        refuse("rows", "an array without a mask", "a masked array")
    plain = np.asarray(array)
    _check("an array", plain)
    return ArrayRows([partial(_itself, plain)], [len(plain)], plain.shape[1])


def rows_of_npy(paths: list[Path]) -> ArrayRows:
    """Return rows over .npy files, which are only ever mapped, in the order given."""
    return rows_of_arrays([NpyFile(path) for path in paths], [str(path) for path in paths])


def rows_of_arrays(openers: Sequence[Opener], names: list[str]) -> ArrayRows:
    """Return rows over whatever opens as arrays of the same width."""
    shapes = [_shape(opener, name) for opener, name in zip(openers, names, strict=True)]
    width = next((d for count, d in shapes if count), shapes[0][1])
    for name, (count, d) in zip(names, shapes, strict=True):
        if count and d != width:
            refuse("rows", f"shards of the same width ({width} as in the first)", f"{d} in {name}")
    return ArrayRows(openers, [count for count, _ in shapes], width)


@dataclass(frozen=True)
class NpyFile:
    """Opens a file; another process gets to know it by its full path."""

    path: Path

    def __call__(self) -> NDArray[Any]:
        """Map the file."""
        return _map(self.path)

    def __reduce__(self) -> tuple[type[NpyFile], tuple[Path]]:
        return NpyFile, (self.path.absolute(),)


def _itself(array: NDArray[Any]) -> NDArray[Any]:
    return array


def _shape(opener: Opener, name: str) -> tuple[int, int]:
    array = opener()
    _check(name, array)
    return array.shape[0], array.shape[1]


def _map(path: Path) -> NDArray[Any]:
    try:
        # Unlike np.load this never looks for a pickle or an archive, so the message fits what is wrong.
        with PARSING:
            return np.asarray(np.lib.format.open_memmap(path, mode="r"))
    except (ValueError, OSError, EOFError, OverflowError) as error:
        refuse("rows", "readable .npy files of numbers", f"{path} ({error})")


def _check(what: str, array: Any) -> None:
    if array.ndim != 2:
        refuse("rows", "a 2-D array, one row an item", f"{what} with {array.ndim} dimension(s), shape {array.shape}")
    if array.dtype.kind not in "fiub":
        refuse("rows", "real numbers", f"{what} of {array.dtype}")
