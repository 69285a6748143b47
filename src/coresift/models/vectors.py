"""The vectors of the current shard, in batches with checksums, so that damaged data are never read as vectors."""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEAD = 2 * np.dtype(np.int64).itemsize  # bytes: the number of rows, and of numbers per row
SUM = 16  # bytes


class VectorLog:
    """A file of batches. Each has its shape in front, and at its end a checksum of it and all earlier batches.

    Opening the file cuts it off before the first incomplete or damaged batch; those vectors are encoded again.

    Args:
        path: The file; it is created if it does not exist.
        dtype: The type of the numbers.

    Attributes:
        rows: How many intact vectors the file has.

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
        while rest:  # usually one call, but the system may write only a part
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
        """Count the batch that begins here; return its size in bytes, or 0 if it is not intact."""
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
