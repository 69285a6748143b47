"""A lock on an open file against a second process, on every system."""

from __future__ import annotations

import sys
import warnings
from io import FileIO
from pathlib import Path

from coresift.checks import CoresiftWarning, InputError

# Windows locks bytes of the file, and no other process may read a locked byte: this one lies behind any content.
_BEYOND = 2**31 - 2


def lock(file: FileIO, path: Path) -> None:
    """Lock an open file until it is closed, or say which process has it.

    Args:
        file: The open file.
        path: Its path, for sentences.

    Raises:
        InputError: Another process, or another part of this one, has it locked.
    """
    try:
        _lock(file)
    except (BlockingIOError, PermissionError):
        raise InputError(
            f"The state file {path} is in use by another run; wait until it ends, or use another file."
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

        place = file.tell()
        file.seek(_BEYOND)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError as error:
            # The C library reports a lock that another holds as EACCES or EDEADLOCK.
            if error.errno in (errno.EACCES, errno.EDEADLK, getattr(errno, "EDEADLOCK", errno.EDEADLK)):
                raise PermissionError(error.errno, "it is locked") from None
            raise
        finally:
            file.seek(place)

else:

    def _lock(file: FileIO) -> None:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
