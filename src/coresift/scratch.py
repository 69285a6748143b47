"""Arrays with one entry per row: in memory if they are small, otherwise in a temporary file that is mapped.

The system writes mapped pages to the file and takes them back when it needs the memory, so a process never runs out of
memory because there are many rows. The file has no name, and is gone when no array uses it any more.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from coresift.errors import CoresiftError

# Arrays of more bytes than this are in files.
IN_MEMORY = 2**25


class _Pages(mmap.mmap):
    """The mapped file of one array."""


def empty(shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return an array whose entries are not set yet.

    >>> empty((2, 3), np.float32).shape
    (2, 3)
    """
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return np.empty(shape, dtype) if size <= IN_MEMORY else np.ndarray(shape, dtype, buffer=_map(size))


def copied(values: Any, dtype: DTypeLike) -> NDArray[Any]:
    """Return a copy of values with this type.

    >>> copied([1, 2], np.float64)
    array([1., 2.])
    """
    if not isinstance(values, np.ndarray) or values.size * np.dtype(dtype).itemsize <= IN_MEMORY:
        return np.array(values, dtype=dtype)
    copy = empty(values.shape, dtype)
    copy[...] = values
    return copy


def owns(array: NDArray[Any]) -> bool:
    """Say whether an array is all there is of its numbers, so that nobody can change them if it is read-only."""
    return array.flags.owndata or isinstance(array.base, _Pages)


def room() -> int:
    """Return how many bytes are free where temporary files are.

    >>> room() > 0
    True
    """
    return shutil.disk_usage(tempfile.gettempdir()).free


def _map(size: int) -> _Pages:
    try:
        with tempfile.TemporaryFile(prefix="coresift-") as file:
            if hasattr(os, "posix_fallocate"):  # to run out of room while pages are written would end the process
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
            return _Pages(file.fileno(), size)
    except OSError as error:
        raise CoresiftError(
            f"So many rows need temporary files, and there is no room for one of {size / 1e6:,.0f} MB "
            f"({error.strerror}); set TMPDIR to a folder on a disk with more room."
        ) from error
