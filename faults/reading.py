"""Damaged files, each read by the part of coresift that reads such files: many more than whole commands could try."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import coresift as cs
from faults.judging import crashed
from faults.kind import Bench, Case, Kind
from faults.mutating import damage
from faults.processes import run


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
}
# Formats that have crashed libraries come more often.
TURNS = (*READERS, "rows.arrow", "stream.arrow", "plain.feather", "rows.feather", "rows.npy", "rows.parquet")


class Reading(Kind):
    """Whatever a file has become, reading it ends in a value or in one sentence, never in a crash."""

    name: ClassVar[str] = "damaged files, read"
    share: ClassVar[float] = 6.0

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
        """Read the file in a child."""
        path = self._folder / case["file"]
        path.write_bytes(base64.b64decode(case["content"]))
        outcome = run(lambda: _read(path), self._folder)
        if problem := crashed(outcome):
            return problem
        if outcome.status == 3:
            return f"not one sentence: {outcome.err[-300:]!r}"
        return "a sound file is refused" if outcome.status and case.get("sound") else None


def _read(path: Path) -> int:
    try:
        READERS[path.name](path)
    except cs.CoresiftError as error:
        sentence = str(error)
        if "\n" in sentence or not sentence.endswith((".", "?")):
            print(sentence, file=sys.stderr)
            return 3
        return 2
    return 0


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
