"""The vectors of the current shard: batches with a checksum each, so that damage is never taken for a vector."""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEAD = 2 * np.dtype(np.int64).itemsize  # bytes: how many rows, and how many numbers in each
SUM = 16  # bytes


class VectorLog:
    """A file of batches, each with its shape before it and a checksum of itself and all before it behind it.

    Opening it cuts the file off before the first batch that is torn or damaged; what is cut off is encoded again.

    Args:
        path: The file, which is made unless it is there.
        dtype: The type of the numbers.

    Attributes:
        rows: How many vectors are safe in it.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "shard.log"
        >>> log = VectorLog(path, "float16")
        >>> log.append(np.ones((2, 3), np.float16))
        >>> log.close()
        >>> log.read().shape
        (2, 3)
    """

    def __init__(self, path: Path, dtype: str) -> None:
        self.rows = 0
        self._path, self._dtype = path, np.dtype(dtype)
        self._sum, self._width, end = b"", 0, 0
        content = path.read_bytes() if path.is_file() else b""
        while size := self._batch_at(content, end):
            end += size
        if end < len(content):
            os.truncate(path, end)
        self._file = path.open("ab", buffering=0)

    def append(self, vectors: NDArray[Any]) -> None:
        """Add a batch."""
        body = np.array([vectors.shape], np.int64).tobytes() + vectors.astype(self._dtype, copy=False).tobytes()
        checksum = blake2b(self._sum + body, digest_size=SUM).digest()
        rest = memoryview(body + checksum)
        while rest:  # one call, unless the system takes only a part of it
            rest = rest[self._file.write(rest) :]
        self.rows, self._sum, self._width = self.rows + len(vectors), checksum, vectors.shape[1]

    def read(self) -> NDArray[Any]:
        """Return all vectors, one per row."""
        content, at, batches = self._path.read_bytes(), 0, []
        while at < len(content):
            rows, width = np.frombuffer(content, np.int64, 2, at).tolist()
            batches.append(np.frombuffer(content, self._dtype, rows * width, at + HEAD).reshape(rows, width))
            at += HEAD + batches[-1].nbytes + SUM
        return np.concatenate(batches)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _batch_at(self, content: bytes, start: int) -> int:
        """Count the batch that begins here; return its size in bytes, or 0 if there is no sound one."""
        if start + HEAD > len(content):
            return 0
        rows, width = np.frombuffer(content, np.int64, 2, start).tolist()
        end = start + HEAD + rows * width * self._dtype.itemsize
        if rows < 1 or width < 1 or end + SUM > len(content) or self._width not in (0, width):
            return 0
        checksum = blake2b(self._sum + content[start:end], digest_size=SUM).digest()
        if checksum != content[end : end + SUM]:
            return 0
        self.rows, self._sum, self._width = self.rows + rows, checksum, width
        return int(end + SUM - start)
