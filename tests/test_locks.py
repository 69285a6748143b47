"""The lock of a state file: two processes never write to the same one, on any system."""

from __future__ import annotations

import errno
import fcntl
import runpy
import subprocess
import sys
import types

import pytest

from coresift.checks import CoresiftWarning, InputError
from coresift.oracle import locks
from coresift.oracle.journal import Journal

HOLDER = """
import sys
from pathlib import Path
from coresift.oracle.journal import Journal

journal = Journal(Path("state"), "loss", {"rows": "a"}, 10)
print("open", flush=True)
sys.stdin.readline()
journal.append([3], [0.5])
"""


@pytest.mark.slow
def test_a_second_process_gets_one_sentence_and_the_file_when_the_first_has_ended(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert first.stdout.readline() == "open\n"
    with pytest.raises(InputError, match=r"^The state file .*state is in use by another run; wait until it ends"):
        Journal(tmp_path / "state", "loss", {"rows": "a"}, 10)
    first.communicate("go on\n", timeout=60)
    journal = Journal(tmp_path / "state", "loss", {"rows": "a"}, 10)
    assert journal.values == {3: 0.5}
    journal.close()


def test_a_file_system_without_locks_is_said_once(tmp_path, monkeypatch):
    def no_locks(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.warns(CoresiftWarning, match=r"cannot be locked \(No locks available\): its file system has no locks"):
        Journal(tmp_path / "state", "loss", {"rows": "a"}, 10).close()


class Bytes(types.ModuleType):
    """The part of msvcrt that is used, with the law of Windows: a byte has one owner, and a locked one is not read."""

    LK_NBLCK = 2

    def __init__(self):
        super().__init__("msvcrt")
        self.owners = {}

    def locking(self, descriptor, mode, count):
        import os

        assert (mode, count) == (self.LK_NBLCK, 1)
        place = (os.fstat(descriptor).st_ino, os.lseek(descriptor, 0, os.SEEK_CUR))
        if self.owners.setdefault(place, descriptor) != descriptor:
            raise OSError(errno.EACCES, "Permission denied")


def test_windows_locks_a_byte_behind_any_content(tmp_path, monkeypatch):
    """Windows itself is not to be had here: its law stands in for it."""
    system = Bytes()
    monkeypatch.setitem(sys.modules, "msvcrt", system)
    monkeypatch.setattr(sys, "platform", "win32")
    lock = runpy.run_path(locks.__file__)["lock"]
    path = tmp_path / "state"
    path.write_bytes(b"content")
    with path.open("a+b", buffering=0) as first, path.open("a+b", buffering=0) as second:
        first.seek(0)
        lock(first, path)
        assert first.read() == b"content"
        with pytest.raises(InputError, match="is in use by another run"):
            lock(second, path)
    ((_, place),) = system.owners
    assert place > 2**30
    assert path.read_bytes() == b"content"
