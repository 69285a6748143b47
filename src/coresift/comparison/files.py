"""The folder of a comparison, and the files that its processes read there."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from coresift.checks import CoresiftError, InputError
from coresift.comparison.running import travels, write_rows
from coresift.progress import Progress, stage
from coresift.rows import Rows, open_rows
from coresift.types import Floats

ROWS, LOSSES = ".rows.npy", ".losses.npy"


@contextmanager
def opened_folder(out: str | Path | None) -> Iterator[Path]:
    """Create the folder of the results, or a temporary one if there is none."""
    if out is None:
        with tempfile.TemporaryDirectory() as name:
            yield Path(name)
        return
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"out must be a folder that can be created; {folder}: {error.strerror}.") from error
    yield folder


@contextmanager
def beside(folder: Path, rows: Rows, losses: Floats | None, progress: Progress) -> Iterator[tuple[Rows, Path | None]]:
    """Write rows and losses in memory to files that every process can map, and remove them at the end."""
    written = []
    try:
        if not travels(rows):
            written.append(folder / ROWS)
            with stage(progress, "writing rows for the processes", rows.n):
                write_rows(rows, folder / ROWS, progress.advance)
            rows = open_rows(folder / ROWS)
        if losses is not None:
            written.append(folder / LOSSES)
            _write_losses(losses, folder / LOSSES)
        yield rows, None if losses is None else folder / LOSSES
    except OSError as error:
        raise CoresiftError(
            f"The files that the processes need cannot be written to {folder}: {error.strerror or error}."
        ) from error
    finally:
        for path in written:
            path.unlink(missing_ok=True)


def _write_losses(losses: Floats, path: Path) -> None:
    """Write losses to a new file, never through a link to another."""
    path.unlink(missing_ok=True)
    with path.open("xb") as file:
        np.save(file, losses, allow_pickle=False)


def remove_link(path: Path) -> None:
    """Remove a link to another file, so that a new file can take its place."""
    if path.is_symlink():
        path.unlink()
