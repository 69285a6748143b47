"""Let several processes work on one study: each run is done by one of them, and each large file is made by one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Wait until no other process is in this block with the same file; the lock ends with the process."""
    import fcntl  # noqa: PLC0415

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        yield


@contextmanager
def claim(path: Path, number: int) -> Iterator[bool]:
    """Claim a numbered piece of work; yields whether no other process is at it. The claim ends with the process."""
    import fcntl  # noqa: PLC0415

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except OSError:
            yield False
            return
        yield True
