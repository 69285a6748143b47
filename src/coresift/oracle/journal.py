"""The journal: an append-only file of answers, so that a run that was killed asks only for what it does not have."""

from __future__ import annotations

import json
import os
import reprlib
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from coresift.checks import CoresiftError, InputError, LossError, loss_vector, row_numbers
from coresift.types import Floats, Ints

FORMAT = 1
_OPENING = b'{"format": '


class Lines:
    """One JSON object a line: a header that says which run it belongs to, then one line for each entry.

    A line is written with one system call and is on the disk before its entry is used, so a kill at any moment
    costs the entry in flight and leaves at most a torn last line, which the next run cuts off. `entries` are those
    found when it was opened. It is locked while it is open.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "runs.jsonl"
    >>> lines = Lines(path, "comparison", {"rows": "a1"})
    >>> lines.write({"seed": 3})
    >>> lines.close()
    >>> lines = Lines(path, "comparison", {"rows": "a1"})
    >>> lines.entries
    [{'seed': 3}]
    >>> lines.close()
    """

    def __init__(self, path: Path, name: str, fingerprint: Mapping[str, str]) -> None:
        self.path = path
        self.count = 0
        if path.exists() and not path.is_file():
            raise InputError(f"The journal {path} must be a file; it is something else.")
        try:
            self._file = path.open("a+b", buffering=0)
        except OSError as error:
            raise InputError(f"The journal {path} cannot be opened: {error.strerror}.") from error
        try:
            _lock(self._file, path)
            self.entries = self._resume({"format": FORMAT, "name": name, "fingerprint": dict(fingerprint)})
        except BaseException:
            self._file.close()
            raise
        self.count = sum(map(self._size, self.entries))

    def write(self, entry: dict[str, Any]) -> None:
        """Keep an entry; when this returns, no kill can lose it."""
        self._write(entry)
        self.count += 1

    def close(self) -> None:
        """Close the file, which ends its lock."""
        self._file.close()

    def _entry(self, line: bytes, number: int) -> Any:
        """Return what a line after the header holds."""
        entry = _parse(line)
        if not isinstance(entry, dict):
            raise InputError(
                f"Line {number} of the journal {self.path} cannot be used: it is not an entry. "
                "Remove that line, or use another journal file."
            )
        return entry

    def _size(self, entry: Any) -> int:
        return 1

    def _resume(self, header: dict[str, Any]) -> list[Any]:
        self._file.seek(0)
        content = self._file.readall()
        lines, torn = _split(content)
        if not lines:
            self._refuse_other_file(torn)
            self._file.truncate(0)
            self._write(header)
            return []
        self._check_header(lines[0], header)
        entries = [self._entry(line, number) for number, line in enumerate(lines[1:], start=2)]
        # Only now, when the file has proved to be this run's journal, is anything of it removed.
        self._file.truncate(len(content) - len(torn))
        return entries

    def _refuse_other_file(self, torn: bytes) -> None:
        """A torn header makes a new journal; a file that never was a journal is left alone."""
        if torn.rstrip()[: len(_OPENING)] != _OPENING[: len(torn.rstrip())]:
            self._refuse_header()

    def _refuse_header(self) -> NoReturn:
        raise InputError(f"The file {self.path} is not a journal of coresift; use another file as the journal.")

    def _check_header(self, line: bytes, now: dict[str, Any]) -> None:
        then = _parse(line)
        if not isinstance(then, dict) or not isinstance(then.get("fingerprint"), dict) or "format" not in then:
            self._refuse_header()
        if then["format"] != FORMAT:
            raise InputError(
                f"The journal {self.path} has format {then['format']}, and this version of coresift reads {FORMAT}; "
                "use another journal file."
            )
        before = {**then["fingerprint"], "name of the loss": then.get("name")}
        after = {**now["fingerprint"], "name of the loss": now["name"]}
        parts = [part for part in {**after, **before} if before.get(part) != after.get(part)]
        if parts:
            changes = "; ".join(
                f"{part}: {_show(before.get(part))} then, {_show(after.get(part))} now" for part in parts
            )
            raise InputError(
                f"The journal {self.path} belongs to another run ({changes}); "
                "use another journal file, or the arguments that it was begun with."
            )

    def _write(self, entry: dict[str, Any]) -> None:
        rest = json.dumps(entry).encode() + b"\n"
        try:
            while rest:  # one call, unless the system takes only a part of it
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise LossError(
                f"The journal {self.path} cannot be written: {error.strerror}. "
                f"{self.count} answers are safe in it; the same call goes on from there."
            ) from error


class Journal(Lines):
    """The answers of a source of losses, one line for each batch.

    `ids` and `losses` are the answers found when it was opened, `count` is how many are safe in it now. `signed`
    answers may be negative: labels, which stand under the same name.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "journal.jsonl"
    >>> journal = Journal(path, "loss", {"rows": "a1"}, n=10)
    >>> journal.append(np.array([7, 3]), np.array([0.5, 2.0]))
    >>> journal.close()
    >>> print(path.read_text(), end="")
    {"format": 1, "name": "loss", "fingerprint": {"rows": "a1"}}
    {"ids": [7, 3], "losses": [0.5, 2.0]}
    >>> journal = Journal(path, "loss", {"rows": "a1"}, n=10)
    >>> journal.ids, journal.losses
    (array([7, 3]), array([0.5, 2. ]))
    >>> journal.close()
    """

    def __init__(self, path: Path, name: str, fingerprint: Mapping[str, str], n: int, *, signed: bool = False) -> None:
        self._n, self._signed = n, signed
        super().__init__(path, name, fingerprint)
        self.ids = np.concatenate([np.zeros(0, np.int64), *(ids for ids, _ in self.entries)])
        self.losses = np.concatenate([np.zeros(0), *(losses for _, losses in self.entries)])

    def append(self, ids: Ints, losses: Floats) -> None:
        """Keep a batch of answers; when this returns, no kill can lose them."""
        self._write({"ids": ids.tolist(), "losses": losses.tolist()})
        self.count += ids.size

    def _size(self, entry: Any) -> int:
        return len(entry[0])

    def _entry(self, line: bytes, number: int) -> tuple[Ints, Floats]:
        try:
            entry = json.loads(line)
            row_numbers("ids", entry["ids"], self._n)
            ids = np.array(entry["ids"], np.int64)
            return ids, loss_vector(entry["losses"], ids, signed=self._signed)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError, LossError) as error:
            why = str(error) if isinstance(error, CoresiftError) else "it is not a batch of answers."
            raise InputError(
                f"Line {number} of the journal {self.path} cannot be used: {why} "
                "Remove that line to have its rows asked again, or use another journal file."
            ) from error


def _split(content: bytes) -> tuple[list[bytes], bytes]:
    """Return the whole lines, and what a kill or a power cut left of the last one."""
    *lines, torn = content.split(b"\n")
    if lines and not torn and _parse(lines[-1]) is None:
        torn = lines.pop() + b"\n"
    return lines, torn


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _lock(file: FileIO, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(
            f"The journal {path} is in use by another run; wait until that has ended, or use another journal file."
        ) from None
    except OSError:  # a file system without locks
        return


def _show(part: object) -> str:
    return "nothing" if part is None else reprlib.repr(part)
