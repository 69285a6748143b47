"""What a kind of fault is to the campaign: cases that can be stored, and what is wrong after one of them."""

from __future__ import annotations

import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np

from faults.originals import CHANGING, make_originals
from faults.processes import run

# All of it can be written as JSON, so that a case that fails is kept and run again.
Case: TypeAlias = dict[str, Any]


class Bench:
    """A folder with one sound file of every kind, and new folders for the cases.

    Args:
        originals: The folder of the sound files, which are made unless it is there; by default a new one.
    """

    def __init__(self, originals: Path | None = None) -> None:
        self.top = Path(tempfile.mkdtemp(prefix="faults-"))
        self.originals = originals or self.top / "originals"
        if self.originals.exists():
            return
        self.originals.mkdir()
        outcome = run(make_originals, self.originals, cpu=120)
        if outcome.status:
            raise RuntimeError(f"The sound files cannot be made: {outcome.err}")

    @contextmanager
    def folder(self, *, files: bool = True) -> Iterator[Path]:
        """Yield a folder for one case, with the sound files in it: links, but for those that commands change."""
        place = Path(tempfile.mkdtemp(prefix="case-", dir=self.top))
        folder = place / "here"
        folder.mkdir()
        for original in self.originals.iterdir() if files else ():
            if original.is_dir():
                shutil.copytree(original, folder / original.name)
            elif original.suffix in CHANGING:
                shutil.copy(original, folder)
            else:
                os.symlink(original, folder / original.name)
        try:
            yield folder
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def close(self) -> None:
        """Remove all folders."""
        shutil.rmtree(self.top, ignore_errors=True)


class Kind(ABC):
    """A kind of fault that the campaign looks for.

    Attributes:
        name: What the table calls it.
        share: How much of the time it gets, relative to others.
        whole: Whether all of its cases are run, however few of each kind are wanted.
        together: How many cases are handed to `problems` at a time.
    """

    name: ClassVar[str]
    share: ClassVar[float] = 1.0
    whole: ClassVar[bool] = False
    together: ClassVar[int] = 1

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    @abstractmethod
    def cases(self, rng: np.random.Generator) -> Iterator[Case]:
        """Yield cases: first those that are always tried, then random ones, if there are any."""

    @abstractmethod
    def problem(self, case: Case) -> str | None:
        """Return what is wrong after a case, None if nothing is."""

    def problems(self, cases: Sequence[Case]) -> list[str | None]:
        """Return what is wrong after each of several cases."""
        return [self.problem(case) for case in cases]

    def remark(self) -> str:
        """Return what the table says besides, such as how many kills there were."""
        return ""

    def close(self) -> None:  # noqa: B027 (most kinds hold nothing)
        """Let go of what the kind has started."""
