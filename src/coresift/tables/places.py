"""Files that lie elsewhere: on any filesystem that pyarrow knows, named by a URI or given with the filesystem."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from coresift.checks import refuse

# In a URI, what may be a key: the user and password, and everything after the path. One that was taken for a path has
# lost a slash.
_SECRETS = re.compile(r"(?<=:/)(/?)[^/\s@]*@|(?<=\w)\?[^\s'\"?=]*=[^\s'\"]*(?<![.,;)])")


@dataclass(frozen=True)
class Place:
    """A file on a pyarrow filesystem; it is small to send, and the process that opens it needs the same access."""

    filesystem: Any
    path: str
    name: str

    @property
    def suffix(self) -> str:
        """The ending of its name."""
        return "." + self.path.rpartition(".")[2]

    def open(self) -> Any:
        """Open it for reading at any position."""
        return self.filesystem.open_input_file(self.path)

    def absolute(self) -> Place:
        """Return itself: it has the same name everywhere."""
        return self

    def __str__(self) -> str:
        return self.name


def is_uri(source: object) -> bool:
    """Say whether this names a place by its scheme.

    >>> is_uri("s3://bucket/rows"), is_uri("folder/rows.npy")
    (True, False)
    """
    return isinstance(source, str) and "://" in source


def hide_secrets(text: str) -> str:
    """Return a text in which no URI has a user, a password or parameters any more.

    >>> hide_secrets("got 's3://KEY:SECRET@bucket/rows?secret_key=x' (no access)")
    "got 's3://…@bucket/rows?…' (no access)"
    """
    return _SECRETS.sub(lambda found: f"{found[1]}…@" if found[0].endswith("@") else "?…", text)


def find_places(source: str, filesystem: Any, suffixes: tuple[str, ...], argument: str = "rows") -> list[Place]:
    """Return the file of this name, or the files in the folder of this name, in their order."""
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
            inside = filesystem.get_file_info(fs.FileSelector(path))
            paths = sorted(info.path for info in inside if info.type == fs.FileType.File)
            paths = [path for path in paths if path.lower().endswith(suffixes)]
        else:
            paths = [path]
    except (pa.ArrowException, OSError, TypeError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        for secret in re.split("[:@]", (re.search(r"://([^/@]*)@", source) or ["", ""])[1]):
            reason = reason.replace(secret, "…") if secret else reason
        refuse(argument, "a place that can be reached", hide_secrets(f"{source!r} ({reason})"))
    if not paths:
        refuse(argument, f"a folder with files of type {', '.join(suffixes)}", hide_secrets(source))
    return [Place(filesystem, path, prefix + path) for path in paths]
