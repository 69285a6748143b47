"""Kills at named points, for every job and format: nothing is lost, and the same command goes on to the same bytes."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np

from faults.jobs import ASKED, BATCH, DEAR, JOBS, asked_in, contents
from faults.judging import crashed
from faults.killing import OPERATIONS, WHEN, Point, dying
from faults.kind import Bench, Case, Kind
from faults.processes import run

AGAIN = 3  # kills after the first one, in cases that have several
SELDOM = 12  # cases of other jobs to one of a job that takes long


class Kills(Kind):
    """A job that is killed anywhere leaves old or new files; run again, it ends as if nothing had been."""

    name: ClassVar[str] = "kills at named points"
    share: ClassVar[float] = 20.0

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.count = 0  # kills that came to their point
        self._expected: dict[str, tuple[dict[str, bytes | None], dict[str, int], list[int]]] = {}

    def cases(self, rng: np.random.Generator) -> Iterator[Case]:
        """Yield every point of every job, renames first, of jobs that take long only some; then several points."""
        for number in rng.permutation(len(JOBS)):  # at first one of each job, so that a few cases take no time
            name = list(JOBS)[number]
            renames = [point for point in self._points(name) if point.operation == "rename"]
            if renames:
                yield {"job": name, "point": renames[rng.integers(len(renames))]}
        points = {name: self._points(name) for name in JOBS}
        every = [(name, point) for name, own in points.items() for point in own]
        order = [every[number] for number in rng.permutation(len(every))]
        order.sort(key=lambda one: one[1].operation != "rename")
        dear = iter([one for one in order if one[0] in DEAR])
        for number, (name, point) in enumerate(one for one in order if one[0] not in DEAR):
            yield {"job": name, "point": point}
            if number % SELDOM == 0 and (one := next(dear, None)) is not None:
                yield {"job": one[0], "point": one[1]}
        names = [name for name in JOBS if name not in DEAR and points[name]]
        while True:  # killed, and killed again while it goes on
            name = str(rng.choice(names if rng.random() < 1 - 1 / SELDOM else DEAR))
            first, *others = (points[name][place] for place in rng.integers(len(points[name]), size=AGAIN + 1))
            yield {"job": name, "point": first, "again": others}

    def _points(self, name: str) -> list[Point]:
        _, counts, _ = self._reference(name)
        return [
            Point(operation, number, when)
            for operation in OPERATIONS
            for number in range(1, counts.get(operation, 0) + 1)
            for when in (WHEN if operation == "write" else ("before", "after"))
        ]

    def _reference(self, name: str) -> tuple[dict[str, bytes | None], dict[str, int], list[int]]:
        """Return what an undisturbed run writes, how often it does what, and what it asks."""
        if name not in self._expected:
            job = JOBS[name]
            with self.bench.folder() as folder:
                counts = folder.parent / "counts.json"
                outcome = run(dying(job.run, None, counts), folder, cpu=60)
                if outcome.status:
                    raise RuntimeError(f"The job {name} fails undisturbed: {outcome.err}")
                found = json.loads(counts.read_text())
                self._expected[name] = (contents(job.outs, folder), found, asked_in(folder))
        return self._expected[name]

    def problem(self, case: Case) -> str | None:
        """Kill the job at the point, look at what it left, and run it to its end."""
        job, point = JOBS[case["job"]], Point(*case["point"])
        expected, _, asked = self._reference(case["job"])
        with self.bench.folder() as folder:
            old = self._old_files(folder, expected)
            outcome = run(dying(job.run, point), folder, cpu=60)
            if outcome.status != -signal.SIGKILL:
                return None if outcome.status == 0 else f"did not come to the point: {crashed(outcome)}"
            kills = 1
            for again in case.get("again", ()):
                kills += run(dying(job.run, Point(*again)), folder, cpu=60).status == -signal.SIGKILL
            for name, content in contents(job.outs, folder).items():
                if content not in (old[name], expected[name]):
                    return f"{name} is neither the old file nor the new one"
            self.count += kills
            return self._finish(case["job"], folder, asked, kills)

    def remark(self) -> str:
        """Return how many kills came to their point; a case may have several."""
        return f"{self.count:,} kills"

    def _old_files(self, folder: Path, expected: dict[str, bytes | None]) -> dict[str, bytes | None]:
        """Put other files where those of the job will be."""
        for name in expected:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(b"an older file\n")
        return contents(list(expected), folder)

    def _finish(self, name: str, folder: Path, asked: list[int], kills: int) -> str | None:
        job, (expected, _, _) = JOBS[name], self._reference(name)
        outcome = run(job.run, folder, cpu=60)
        if outcome.status:
            return f"cannot go on: {crashed(outcome) or outcome.err[-300:]}"
        if contents(job.outs, folder) != expected:
            return "goes on to another result"
        again = asked_in(folder)
        if sorted(set(again)) != sorted(set(asked)):
            return "asks other rows than an undisturbed run"
        if job.state is not None and len(again) > len(asked) + BATCH * kills:
            return f"asks {len(again) - len(asked)} rows again, more than the batch in flight ({ASKED})"
        return None
