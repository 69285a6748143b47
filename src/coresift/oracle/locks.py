"""Lock an open file against other processes, on every system."""

from __future__ import annotations

import sys
import warnings
from io import FileIO
from pathlib import Path

from coresift.checks import CoresiftWarning, InputError

# Windows locks bytes of a file, and no other process can read a locked byte, so this one is beyond any content.
_LOCK_OFFSET = 2**31 - 2


def lock(file: FileIO, path: Path) -> None:
    """Lock an open file until it is closed.

    Args:
        file: The open file.
        path: Its path, for error messages.

    Raises:
        InputError: The file is already locked, by this process or another.
    """
    try:
        _lock(file)
    except (BlockingIOError, PermissionError):
        raise InputError(
            f"The state file {path} is in use by another run; wait until it ends, close() it if it is in this process, "
            "or use another file."
        ) from None
    except OSError as error:
        message = (
            f"The state file {path} cannot be locked ({error.strerror}): its file system has no locks. "
            "Make sure that no other run uses it at the same time."
        )
        warnings.warn(message, CoresiftWarning, stacklevel=2)


if sys.platform == "win32":

    def _lock(file: FileIO) -> None:
        import errno
        import msvcrt

        position = file.tell()
        file.seek(_LOCK_OFFSET)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError as error:
            # If another process holds the lock, the C library reports EACCES or EDEADLOCK.
            if error.errno in (errno.EACCES, errno.EDEADLK, getattr(errno, "EDEADLOCK", errno.EDEADLK)):
                raise PermissionError(error.errno, "it is locked") from None
            raise
        finally:
            file.seek(position)

else:

    def _lock(file: FileIO) -> None:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
