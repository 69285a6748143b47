"""Damaged files, each read by the part of coresift that reads such files: many more than whole commands could try."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import coresift as cs
from faults.judging import crashed
from faults.kind import Bench, Case, Kind
from faults.mutating import damage
from faults.processes import MEMORY, UNEXPECTED, run


def _rows(path: Path, **options: Any) -> None:
    rows = cs.open_rows(path, **options)
    for _, block in rows.blocks():
        block()
    rows.take([0, rows.n - 1])
    rows.names(np.arange(min(rows.n, 100)))
    if rows.table is not None:
        rows.table.take(np.arange(0, min(rows.n, 100), 7))
        rows.table.classes("kind")
        rows.table.labels("text")


def _answers(path: Path) -> None:
    from coresift.answers import AnswerFile

    answers, ids = AnswerFile(path), np.arange(0, 60, 7)
    answers.numbers("loss")(ids, None)
    answers.labels("label")(ids, None)


def _tasks(path: Path) -> None:
    from coresift.tables.tasks import read_tasks

    read_tasks(path, "label")


def _journal(path: Path) -> None:
    from coresift.oracle.journal import Journal, read_header

    header = read_header(path)
    Journal(path, header["name"], header["fingerprint"], 60).close()


def _signals(path: Path) -> None:
    from coresift.recipes.known import read_signals

    read_signals(path, None)


def _loaded(path: Path) -> None:
    found = cs.load(path)
    if isinstance(found, cs.WeightedSelection):
        cs.estimate(found, np.ones(len(found)))
    repr(found)


def _log(path: Path) -> None:
    log = cs.signals.from_log(path)
    found = log.align([*log.items[:3], "another"]).signals
    if found:
        cs.signals.history(np.stack(list(found.values()), axis=1))
    repr(log)


READERS: dict[str, Callable[[Path], object]] = {
    "rows.npy": _rows,
    **{name: lambda path: _rows(path, column="emb") for name in ("rows.arrow", "stream.arrow", "plain.feather")},
    **{name: lambda path: _rows(path, column="fixed") for name in ("rows.feather", "rows.parquet")},
    "rows.csv": _rows,
    "rows.jsonl": _rows,
    **{f"loss{suffix}": _answers for suffix in (".csv", ".jsonl", ".parquet")},
    **{f"{name}{suffix}": _loaded for suffix in (".csv", ".jsonl", ".parquet") for name in ("picked", "covered")},
    "labeled.csv": _loaded,
    "clusters.npz": _loaded,
    "oracle.state": _journal,
    "signals.parquet": _signals,
    "studio.json": _tasks,
    "argilla.json": _tasks,
    "samples.jsonl": _log,
    "inspected.json": _log,
    "inspected.eval": _log,
}
REFUSED, NO_SENTENCE = 2, 3  # how a child ends
# Formats that have crashed libraries come more often.
TURNS = (*READERS, "rows.arrow", "stream.arrow", "plain.feather", "rows.feather", "rows.npy", "rows.parquet")


class Reading(Kind):
    """Whatever a file has become, reading it ends in a value or in one sentence, never in a crash."""

    name: ClassVar[str] = "damaged files, read"
    share: ClassVar[float] = 4.0
    together: ClassVar[int] = 25

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._folder = bench.top / "reading"
        self._folder.mkdir(exist_ok=True)

    def cases(self, rng: np.random.Generator) -> Iterator[Case]:
        """Yield each sound file, then damage to each in turn."""
        for name in READERS:
            yield {"file": name, "sound": True, "content": _text((self.bench.originals / name).read_bytes())}
        while True:
            for name in TURNS:
                yield {"file": name, "content": _text(damage((self.bench.originals / name).read_bytes(), rng))}

    def problem(self, case: Case) -> str | None:
        """Read the file in a child of its own."""
        outcome = run(lambda: _read(case, self._folder), self._folder)
        if problem := crashed(outcome):
            return problem
        if outcome.status == NO_SENTENCE:
            return f"not one sentence: {outcome.err[-300:]!r}"
        return "a sound file is refused" if outcome.status and case.get("sound") else None

    def problems(self, cases: Sequence[Case]) -> list[str | None]:
        """Read files one after the other in one child, and each that does not end well in a child of its own again."""
        found: list[str | None] = []
        while len(found) < len(cases):
            left = cases[len(found) :]
            outcome = run(lambda left=left: _read_all(left, self._folder), self._folder)
            ends = [int(line) for line in outcome.out.split()]
            for case, status in zip(left, ends, strict=False):
                well = status == 0 or (status == REFUSED and not case.get("sound"))
                found.append(None if well else self.problem(case) or f"ends with {status}, but only after others")
            if len(ends) < len(left):  # the child died
                found.append(self.problem(left[len(ends)]) or f"{crashed(outcome)}, but only after others")
            elif outcome.peak > MEMORY:
                return [self.problem(case) for case in cases]
        return found


def _read_all(cases: Sequence[Case], folder: Path) -> None:
    for case in cases:
        try:
            status = _read(case, folder)
        except Exception:
            status = UNEXPECTED
        print(status, flush=True)


def _read(case: Case, folder: Path) -> int:
    path = folder / case["file"]
    path.write_bytes(base64.b64decode(case["content"]))
    try:
        READERS[path.name](path)
    except cs.CoresiftError as error:
        sentence = str(error)
        if "\n" in sentence or not sentence.endswith((".", "?")):
            print(sentence, file=sys.stderr)
            return NO_SENTENCE
        return REFUSED
    return 0


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
