"""Arrays in .npy and .npz files. The header is checked before anything is mapped, read or allocated."""

from __future__ import annotations

import os
import threading
import zipfile
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError

# numpy parses a file's header as Python code, and Python 3.11's parser can fail when two threads use it at once.
PARSING = threading.Lock()
READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    (3, 0): np.lib.format.read_array_header_2_0,  # like 2.0, with field names in UTF-8
}


class Header(NamedTuple):
    """The header of a .npy file, and the offset at which the numbers start."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    start: int


def read_header(file: IO[bytes], size: int, name: str) -> Header:
    """Return the header of a .npy file of `size` bytes; refuse a header that is damaged or needs a longer file."""
    try:
        with PARSING:
            version = np.lib.format.read_magic(file)
            if version not in READERS:
                raise ValueError(f"it has the unknown format {version[0]}.{version[1]}")
            shape, fortran, dtype = READERS[version](file)
        start = file.tell()
    except Exception as error:  # a damaged header is parsed as Python code and can raise anything
        raise InputError(f"The file {name} cannot be read: {_reason(error)}.") from error
    if dtype.hasobject:
        raise InputError(f"The file {name} cannot be read: it has Python objects, not numbers.")
    if any(length < 0 for length in shape):
        raise InputError(f"The file {name} cannot be read: its shape is {shape}.")
    count = int(np.prod([int(length) for length in shape], dtype=object))
    if start + count * dtype.itemsize > size:
        raise InputError(f"The file {name} cannot be read: it is shorter than its shape {shape} of {dtype} says.")
    return Header(tuple(int(length) for length in shape), bool(fortran), dtype, start)


def map_npy(path: str | Path) -> NDArray[Any]:
    """Return the memory-mapped array of a .npy file; nothing is ever unpickled.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.npy"
    >>> np.save(path, np.arange(3))
    >>> map_npy(path)
    array([0, 1, 2])
    """
    if os.path.exists(path) and not os.path.isfile(path):  # opening a pipe would block
        raise InputError(f"{path} must be a file; it is something else.")
    try:
        with open(path, "rb") as file:
            header = read_header(file, os.fstat(file.fileno()).st_size, str(path))
            if 0 in header.shape:  # no bytes to map
                return np.empty(header.shape, header.dtype)
            untyped: Any = file
            mapped = np.memmap(untyped, header.dtype, "r", header.start, header.shape, "F" if header.fortran else "C")
            return np.asarray(mapped)
    except (OSError, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"The file {path} cannot be read: {_reason(error)}.") from error


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an uncompressed .npz file; refuse arrays that claim to be larger than the file."""
    arrays = {}
    with path.open("rb") as opened, zipfile.ZipFile(opened) as archive:
        if sum(info.file_size for info in archive.infolist()) > os.fstat(opened.fileno()).st_size:
            raise InputError(f"The file {path} cannot be read: its arrays are larger than the file.")
        for info in archive.infolist():
            if info.compress_type != zipfile.ZIP_STORED or not info.filename.endswith(".npy"):
                raise InputError(f"The file {path} cannot be read: {info.filename} is not an uncompressed array.")
            with archive.open(info) as file:
                header = read_header(file, info.file_size, f"{path} ({info.filename})")
                flat = np.frombuffer(file.read(), header.dtype)
            arrays[info.filename[:-4]] = flat.reshape(header.shape, order="F" if header.fortran else "C")
    return arrays


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return text if text and len(text) < 200 else type(error).__name__
