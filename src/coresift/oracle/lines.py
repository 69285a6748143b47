"""The state file: append-only, checksummed lines, so that a killed run can continue and damage is detected."""

from __future__ import annotations

import json
import os
import re
import reprlib
import threading
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NoReturn

from coresift.checks import AnswerError, InputError
from coresift.oracle.locks import lock
from coresift.redaction import redact

FORMAT = 2
_OPENING = b'{"format": '
_SUM = re.compile(rb', "sum": "([0-9a-f]{16})"\}')
_DIGITS = 16
_ENDING = len(b', "sum": ""}') + _DIGITS


class Lines:
    """A file of JSON lines: a header that identifies the run, then one line per entry.

    Each line ends with a checksum of itself and of the line before it, so a changed, removed, repeated or moved line
    is refused, by its number. (Lines that were removed at the end look like a run that was stopped there.) A line is on
    disk before its entry counts, so a kill loses only the entry in flight and leaves at most a torn last line, which
    the next run cuts off. The file is locked while it is open.

    Args:
        path: The file, which is created if it does not exist.
        name: A name for the entries.
        fingerprint: What the run depends on, by part; a file belongs to one name and one fingerprint.
        arguments: The arguments with which the run can be started again, stored in the header of a new file.

    Attributes:
        entries: The entries that the file had when it was opened.
        count: How many entries it has now.
        arguments: The arguments in the header.

    Examples:
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

    def __init__(
        self,
        path: Path,
        name: str,
        fingerprint: Mapping[str, str],
        *,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = path
        self.count = 0
        self.arguments: dict[str, Any] | None = None if arguments is None else dict(arguments)
        self._writing = threading.RLock()
        self._end = (0, "")  # the length of all complete lines, and the checksum of the last one
        header: dict[str, Any] = {"format": FORMAT, "name": redact(name), "fingerprint": dict(fingerprint)}
        if arguments is not None:
            header["arguments"] = self.arguments
        if path.exists() and not path.is_file():
            raise InputError(f"The state file {path} must be a file; it is something else.")
        try:
            self._file = path.open("a+b", buffering=0)
        except OSError as error:
            raise InputError(f"The state file {path} cannot be opened: {error.strerror}.") from error
        try:
            lock(self._file, path)
            self.entries = self._resume(header)
        except BaseException:
            self._file.close()
            raise

    def write(self, entry: dict[str, Any]) -> None:
        """Store an entry durably: it is on disk when this returns."""
        with self._writing:
            self._write(entry)
            self.count += 1

    def close(self) -> None:
        """Close the file, which releases its lock."""
        with self._writing:
            self._file.close()

    def _entry(self, entry: dict[str, Any], number: int) -> Any:
        """Return the entry of a line after the header, and count it."""
        self.count += 1
        return entry

    def _resume(self, header: dict[str, Any]) -> list[Any]:
        self._file.seek(0)
        content = self._file.readall()
        *lines, torn = content.split(b"\n")
        if not lines and not _SUM.search(torn):
            self._refuse_other_file(torn)
            self._file.truncate(0)
            self._write(header)
            self._sync_folder()
            return []
        complete = _SUM.search(torn)
        if complete:  # only the line break is missing, or something else is in its place
            lines, torn = [*lines, torn[: complete.end()]], torn[complete.end() :]
        self._check_header(lines[0], header)
        checksum = self._checked(lines[0], "", 1)
        entries = []
        for number, line in enumerate(lines[1:], start=2):
            checksum = self._checked(line, checksum, number)
            entries.append(self._entry(_parse(line[:-_ENDING] + b"}"), number))
        if complete and torn:
            self._refuse_line(len(lines), "it is followed by something other than a line break.")
        # Nothing is changed before this point, because only now is it certain that the file belongs to this run.
        if complete:
            self._file.write(b"\n")
        end = sum(map(len, lines)) + len(lines)
        self._file.truncate(end)
        self._end = (end, checksum)
        return entries

    def _sync_folder(self) -> None:
        """Make a new file's directory entry durable, on systems that can sync a folder."""
        try:
            folder = os.open(self.path.parent, os.O_RDONLY)
        except OSError:  # Windows cannot open folders
            return
        try:
            os.fsync(folder)
        except OSError:  # some file systems can sync files only
            pass
        finally:
            os.close(folder)

    def _refuse_other_file(self, torn: bytes) -> None:
        """Refuse a file that is not a state file; one with a torn header is started anew."""
        if torn.rstrip()[: len(_OPENING)] != _OPENING[: len(torn.rstrip())]:
            self._refuse_header()

    def _refuse_header(self) -> NoReturn:
        raise InputError(f"The file {self.path} is not a state file of coresift; use another file.")

    def _refuse_line(self, number: int, why: str) -> NoReturn:
        raise InputError(
            f"Line {number} of the state file {self.path} cannot be used: {why} "
            "Restore the file from a copy, or remove that line and all lines after it to have them asked again."
        )

    def _checked(self, line: bytes, before: str, number: int) -> str:
        """Return the checksum of a line; refuse a line whose checksum does not match."""
        body = line[:-_ENDING]
        ending = _SUM.fullmatch(line[-_ENDING:])
        expected = _checksum(body, before)
        if ending is None or ending[1].decode() != expected or not isinstance(_parse(body + b"}"), dict):
            self._refuse_line(number, "it is damaged, or a line before it is missing (its checksum does not match).")
        return expected

    def _check_header(self, line: bytes, now: dict[str, Any]) -> None:
        then = _parse(line)
        if not line.startswith(_OPENING):
            self._refuse_header()
        if isinstance(then, dict) and then.get("format") != FORMAT:
            raise InputError(
                f"The state file {self.path} has format {show(then.get('format'))}, but this version of coresift "
                f"reads {FORMAT}; use another file."
            )
        self._checked(line, "", 1)
        if not isinstance(then, dict) or not isinstance(then.get("fingerprint"), dict):
            self._refuse_header()
        self.arguments = then.get("arguments")
        before = {**then["fingerprint"], "name of the loss": then.get("name")}
        after = {**now["fingerprint"], "name of the loss": now["name"]}
        parts = [part for part in {**after, **before} if before.get(part) != after.get(part)]
        if parts:
            changes = "; ".join(_change(part, before.get(part), after.get(part)) for part in parts)
            raise InputError(
                f"The state file {self.path} belongs to another run ({changes}); "
                "use another file, or the arguments of that run."
            )

    def _write(self, entry: dict[str, Any]) -> None:
        """Write a line and wait until it is on disk; if anything goes wrong, remove it again."""
        size, before = end = self._end
        body = json.dumps(entry).encode()[:-1]
        checksum = _checksum(body, before)
        line = rest = body + f', "sum": "{checksum}"}}\n'.encode()
        try:
            while rest:  # a single write may take only a part of the line
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
            self._end = (size + len(line), checksum)
        except OSError as error:
            self._restore(end)
            raise AnswerError(
                f"The state file {self.path} cannot be written: {error.strerror}. "
                f"{self.count} answers are safe in it; the same call continues from there."
            ) from error
        except BaseException:
            self._restore(end)
            raise

    def _restore(self, end: tuple[int, str]) -> None:
        """Remove the last line, whose entry has not been counted."""
        self._end = end
        if self._file.closed:
            return
        try:
            self._file.truncate(end[0])
        except OSError:  # no line may follow half a line; the next open cuts it off
            self._file.close()


def read_header(path: str | Path) -> dict[str, Any]:
    """Return the header of a state file, without opening the run.

    Args:
        path: The file.

    Returns:
        The header: `format`, `name`, `fingerprint`, and `arguments` if the run has any.

    Raises:
        InputError: There is no such file, or it is not a state file of this format.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"There is no state file {path}.")
    with path.open("rb") as file:
        line = file.readline()
    header = _parse(line)
    if not line.startswith(_OPENING) or not isinstance(header, dict) or not isinstance(header.get("fingerprint"), dict):
        raise InputError(f"The file {path} is not a state file of coresift.")
    if header["format"] != FORMAT:
        raise InputError(
            f"The state file {path} has format {show(header['format'])}, but this version of coresift reads {FORMAT}."
        )
    if header.pop("sum", None) != _checksum(line.rstrip(b"\n")[:-_ENDING], ""):
        raise InputError(f"Line 1 of the state file {path} is damaged: its checksum does not match.")
    return header


def _checksum(body: bytes, before: str) -> str:
    return blake2b(before.encode() + body, digest_size=_DIGITS // 2).hexdigest()


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _change(part: str, then: object, now: object) -> str:
    """Say how a part of a fingerprint changed; the digest of the rows says nothing to a person."""
    return "rows: other embeddings now" if part == "rows" else f"{part}: {show(then)} then, {show(now)} now"


def show(part: object) -> str:
    """Return a part of a header or an entry for an error message."""
    return "nothing" if part is None else reprlib.repr(part)
