"""The faults of the first campaign, reproduced one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

import faults.known_low  # noqa: F401 (registers its reproductions)
from faults.judging import crashed
from faults.kind import Case, Kind
from faults.known import REPRODUCTIONS, make_files
from faults.processes import run


class Reproductions(Kind):
    """What was wrong once is right."""

    name: ClassVar[str] = "known faults"
    whole: ClassVar[bool] = True

    def cases(self, rng: np.random.Generator) -> Iterator[Case]:
        """Yield each fault once."""
        yield from ({"fault": fault} for fault in REPRODUCTIONS)

    def problem(self, case: Case) -> str | None:
        """Reproduce it in a child."""

        def reproduce() -> None:
            make_files()
            REPRODUCTIONS[case["fault"]]()

        with self.bench.folder(files=False) as folder:
            return crashed(run(reproduce, folder, cpu=60))
