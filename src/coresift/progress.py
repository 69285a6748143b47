"""Progress of long steps: a bar on a terminal after one second, and nothing anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress


SILENT: ContextVar[bool] = ContextVar("silent", default=False)


class Progress:
    """Receives the progress of a stage; this base class shows nothing."""

    def start(self, stage: str, total: int) -> None:
        """Start a stage of `total` units."""

    def advance(self, amount: int) -> None:
        """Count `amount` more units as done."""

    def finish(self) -> None:
        """End the stage, if one is open."""


class Bar(Progress):
    """A bar on standard error with stage, rate and time left, shown once a stage has taken a second."""

    patience = 1.0

    def __init__(self) -> None:
        self._bar: RichProgress | None = None

    def start(self, stage: str, total: int) -> None:
        """Start a stage of `total` units."""
        self._stage, self._total, self._done, self._start_time = stage, total, 0, time.monotonic()

    def advance(self, amount: int) -> None:
        """Count `amount` more units as done; the bar appears once the stage has taken a second."""
        self._done += amount
        elapsed = time.monotonic() - self._start_time
        if elapsed < self.patience:
            return
        if self._bar is None:
            self._bar = _rich_bar(self._stage, self._total)
        rate = f"{self._done / elapsed:,.0f}/s"
        self._bar.update(self._bar.task_ids[0], completed=self._done, rate=rate)

    def finish(self) -> None:
        """End the stage, if one is open, and clear its bar."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = None


def _rich_bar(stage: str, total: int) -> RichProgress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    bar = RichProgress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task(stage, total=total, rate="")
    bar.start()
    return bar


def choose(progress: bool | Progress | None) -> Progress:
    """Return the progress to use: by default, a bar if standard error is a terminal."""
    if progress is None:
        progress = not SILENT.get() and sys.stderr is not None and sys.stderr.isatty()
    if isinstance(progress, bool):
        return Bar() if progress else Progress()
    return progress


@contextmanager
def silence() -> Iterator[None]:
    """Show no bars inside the `with` block, except those that are explicitly requested.

    >>> with silence():
    ...     type(choose(None)).__name__
    'Progress'
    """
    token = SILENT.set(True)
    try:
        yield
    finally:
        SILENT.reset(token)


@contextmanager
def stage(progress: Progress, name: str, total: int) -> Iterator[Progress]:
    """Start a stage, and end it when the `with` block ends."""
    progress.start(name, total)
    try:
        yield progress
    finally:
        progress.finish()
