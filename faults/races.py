"""Several at once: two writers, a reader beside a writer, two runs with one state, threads with one oracle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import coresift as cs
from faults.jobs import STATEFUL, SUFFIXES, asked_in, contents
from faults.judging import crashed
from faults.kind import Case, Kind
from faults.processes import Child

RACES = ("writers", "reader", "state", "threads")
TURNS = 12


class Races(Kind):
    """What several do at once ends as if they had done it one after the other."""

    name: ClassVar[str] = "several at once"
    share: ClassVar[float] = 1.0

    def cases(self, rng: np.random.Generator) -> Iterator[Case]:
        """Yield each race in turn, for every format."""
        while True:
            for race in RACES:
                for suffix in SUFFIXES if race in ("writers", "reader") else ("",):
                    yield {"race": race, "suffix": suffix, "seed": int(rng.integers(2**31))}

    def problem(self, case: Case) -> str | None:
        """Run the race."""
        with self.bench.folder() as folder:
            return getattr(self, f"_{case['race']}")(folder, case)

    def _writers(self, folder: Path, case: Case) -> str | None:
        name = f"out{case['suffix']}"
        first = _ended([Child(lambda: _write(name, 1, 1), folder)])
        both = [Child(lambda seed=seed: _write(name, seed, TURNS), folder) for seed in (1, 2)]
        return first or _ended(both) or _ended([Child(lambda: _read(name, 1), folder)])

    def _reader(self, folder: Path, case: Case) -> str | None:
        name = f"out{case['suffix']}"
        first = _ended([Child(lambda: _write(name, 1, 1), folder)])
        return first or _ended(
            [Child(lambda: _write(name, 2, TURNS), folder), Child(lambda: _read(name, TURNS), folder)]
        )

    def _state(self, folder: Path, case: Case) -> str | None:
        """Two runs with one state file: one has it, the other waits or is refused, and no row is asked twice."""
        job = STATEFUL["start select"]
        both = [Child(_patiently(job.run), folder) for _ in range(2)]
        problem = _ended(both)
        asked = asked_in(folder)
        if problem is None and len(asked) != len(set(asked)):
            return f"{len(asked)} asked for {len(set(asked))} rows"
        return problem or (None if contents(job.outs, folder)["out.jsonl"] else "no result")

    def _threads(self, folder: Path, case: Case) -> str | None:
        return _ended([Child(lambda: _share(case["seed"]), folder)])


def _ended(children: list[Child]) -> str | None:
    problems = []
    for child in children:
        outcome = child.wait()
        problems.append(crashed(outcome) or (f"exit {outcome.status}" if outcome.status else None))
    return next((problem for problem in problems if problem), None)


def _selection(seed: int) -> Any:
    return cs.select(np.load("rows.npy"), None, 10, seed, clusters=2)


def _write(name: str, seed: int, turns: int) -> None:
    selection = _selection(seed)
    for _ in range(turns):
        cs.save(selection, name)


def _read(name: str, turns: int) -> None:
    allowed = [_selection(seed) for seed in (1, 2)]
    for _ in range(turns):
        assert cs.load(name) in allowed


def _patiently(job: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(300):
            try:
                job()
                return
            except cs.CoresiftError as error:
                if "in use by another run" not in str(error):
                    raise
                time.sleep(0.02)

    return run


def _share(seed: int) -> None:
    """Four threads select with one oracle; nobody asks what another one asks."""
    rows, asked, rng = np.load("rows.npy"), [], np.random.default_rng(seed)
    pauses = rng.exponential(0.001, size=1000)

    def answer(ids: Any) -> Any:
        asked.extend(ids.tolist())
        time.sleep(pauses[len(asked) % 1000])
        good = np.abs(rows[ids, 0]) + 1.0
        return np.where((ids % 11 == 3) & (np.array([asked.count(row) for row in ids.tolist()]) == 1), np.nan, good)

    opened, oracle, errors = cs.open_rows(rows), cs.Oracle(answer, batch=5, retries=5), []

    def one() -> None:
        try:
            cs.select(opened, oracle, 30, clusters=3)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    bad = sum(row % 11 == 3 for row in set(asked))
    assert len(asked) <= len(set(asked)) + bad, f"{len(asked)} asked for {len(set(asked))} rows, {bad} of them bad once"
