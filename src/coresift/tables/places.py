"""Remote files: on any filesystem that pyarrow supports, given by a URI or by a path and the filesystem."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from coresift.checks import refuse

# The parts of a URI that may hold a key: user and password, and the query. A URI that was normalized as a path has
# only one slash after its scheme.
_SECRETS = re.compile(r"(?<=:/)(/?)[^/\s@]*@|(?<=\w)\?[^\s'\"?=]*=[^\s'\"]*(?<![.,;)])")


@dataclass(frozen=True)
class Place:
    """A file on a pyarrow filesystem. It pickles small; the process that opens it needs the same credentials."""

    filesystem: Any
    path: str
    name: str

    @property
    def suffix(self) -> str:
        """The file's suffix, with the dot."""
        return "." + self.path.rpartition(".")[2]

    def open(self) -> Any:
        """Open the file for random access."""
        return self.filesystem.open_input_file(self.path)

    def absolute(self) -> Place:
        """Return itself: it has the same name everywhere."""
        return self

    def __str__(self) -> str:
        return self.name


def is_uri(source: object) -> bool:
    """Return whether `source` is a URI.

    >>> is_uri("s3://bucket/rows"), is_uri("folder/rows.npy")
    (True, False)
    """
    return isinstance(source, str) and "://" in source


def hide_secrets(text: str) -> str:
    """Return the text with users, passwords and parameters removed from its URIs.

    >>> hide_secrets("got 's3://KEY:SECRET@bucket/rows?secret_key=x' (no access)")
    "got 's3://…@bucket/rows?…' (no access)"
    """
    return _SECRETS.sub(lambda match: f"{match[1]}…@" if match[0].endswith("@") else "?…", text)


def find_places(source: str, filesystem: Any, suffixes: tuple[str, ...], argument: str = "rows") -> list[Place]:
    """Return the file at `source`, or the files in that folder, sorted by path."""
    import pyarrow as pa
    from pyarrow import fs

    try:
        prefix = ""
        if filesystem is None:
            filesystem, path = fs.FileSystem.from_uri(source)
            prefix = source.partition("://")[0] + "://"
        else:
            path = source
        if filesystem.get_file_info(path).type == fs.FileType.Directory:
            entries = filesystem.get_file_info(fs.FileSelector(path))
            paths = sorted(info.path for info in entries if info.type == fs.FileType.File)
            paths = [path for path in paths if path.lower().endswith(suffixes)]
        else:
            paths = [path]
    except (pa.ArrowException, OSError, TypeError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        for secret in re.split("[:@]", (re.search(r"://([^/@]*)@", source) or ["", ""])[1]):
            reason = reason.replace(secret, "…") if secret else reason
        refuse(argument, "a location that can be reached", hide_secrets(f"{source!r} ({reason})"))
    if not paths:
        refuse(argument, f"a folder with files of type {', '.join(suffixes)}", hide_secrets(source))
    return [Place(filesystem, path, prefix + path) for path in paths]
