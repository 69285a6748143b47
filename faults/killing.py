"""Death at a named point: before, within or after the k-th write, synchronization, rename or cut of a file.

Files that are opened for writing below the current folder are counted, and so are `os.fsync` and `os.replace`, which
everything that coresift writes goes through. Nothing of this is in coresift itself.
"""

from __future__ import annotations

import builtins
import io
import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

OPERATIONS = ("rename", "synchronize", "write", "cut")
WHEN = ("before", "half", "after")


class Point(NamedTuple):
    """A named point: which operation, its number from 1 on, and whether before, within or after it."""

    operation: str
    number: int
    when: str


class _Deadly:
    """Counts operations, and dies at one of them."""

    def __init__(self, point: Point | None) -> None:
        self.point, self.seen, self.home = point, Counter[str](), os.getcwd() + os.sep

    def __call__(self, operation: str, act: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        self.seen[operation] += 1
        here = self.point is not None and (operation, self.seen[operation]) == self.point[:2]
        if here and self.point is not None and self.point.when == "before":
            _die()
        if here and self.point is not None and self.point.when == "half":
            if half is not None:
                half()
            _die()
        result = act()
        if here:
            _die()
        return result


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying(function: Callable[[], object], point: Point | None, counts: Path | None = None) -> Callable[[], object]:
    """Return a function for a child that dies at a point, or that writes how often each operation occurred."""

    def armed() -> object:
        deadly = _Deadly(point)
        _patch(deadly)
        try:
            return function()
        finally:
            if counts is not None:
                descriptor = os.open(counts, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
                os.write(descriptor, json.dumps(deadly.seen).encode())
                os.close(descriptor)

    return armed


def _patch(deadly: _Deadly) -> None:
    fsync, replace, rename, truncate, opened = os.fsync, os.replace, os.rename, os.truncate, io.open
    os.fsync = lambda descriptor: deadly("synchronize", lambda: fsync(descriptor))  # type: ignore[assignment]
    for name, act in (("replace", replace), ("rename", rename)):
        setattr(os, name, lambda *a, act=act, **k: deadly("rename", lambda: act(*a, **k)))
    os.truncate = lambda *a: deadly("cut", lambda: truncate(*a))  # type: ignore[assignment]

    class File(io.FileIO):
        def write(self, content: Any) -> int:
            content = bytes(content)
            write = super().write
            result: int = deadly("write", lambda: write(content), lambda: write(content[: len(content) // 2]))
            return result

        def truncate(self, size: int | None = None) -> int:
            cut = super().truncate
            result: int = deadly("cut", lambda: cut(size))
            return result

    def open_file(file: Any, mode: str = "r", buffering: int = -1, *rest: Any, **options: Any) -> Any:
        writes = isinstance(file, str | os.PathLike) and set(mode) & set("wxa+")
        if not writes or not os.path.abspath(file).startswith(deadly.home):
            return opened(file, mode, buffering, *rest, **options)
        raw = File(os.fspath(file), mode.replace("b", "").replace("t", ""))
        if buffering == 0:
            return raw
        whole = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return whole if "b" in mode else io.TextIOWrapper(whole, *rest, **options)

    builtins.open = open_file  # type: ignore[assignment]
    io.open = open_file  # type: ignore[assignment]
