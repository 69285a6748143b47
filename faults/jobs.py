"""Whole jobs, each of which can be stopped at any point and run again: what is killed, flipped and compared."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import coresift as cs
from coresift.tables.writing import write_bytes
from faults.processes import command

BATCH = 4
ASKED = "asked.log"  # the rows that were asked, one per line, whatever process asked them


@dataclass(frozen=True)
class Job:
    """A job that writes files.

    Attributes:
        run: Does it, in the current folder.
        outs: The files that it writes whole: the old one or the new one is there, never anything else.
        state: The file that it adds to, if there is one.
    """

    run: Callable[[], object]
    outs: tuple[str, ...]
    state: str | None = None


def losses_of(ids: Any) -> Any:
    """Answer, and note what was asked; the note goes past Python's files, so that it is no point to die at."""
    descriptor = os.open(ASKED, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, "".join(f"{row}\n" for row in ids.tolist()).encode())
    os.close(descriptor)
    rows = np.load("rows.npy")
    return np.abs(rows[ids, 0]) + ids % 7


def labels_of(ids: Any) -> Any:
    """Answer with classes."""
    losses_of(ids)
    return np.array([f"c{row % 3}" for row in ids.tolist()])


def _oracle() -> None:
    oracle = cs.Oracle(losses_of, journal="work.state", batch=BATCH)
    cs.save(cs.select(np.load("rows.npy"), oracle, 20, clusters=4), "out.csv")


def _start(function: Any, answer: Any, out: str, budget: int = 20, **options: Any) -> Callable[[], None]:
    def run() -> None:
        with cs.start(function(), np.load("rows.npy"), budget, state="work.state", **options) as run:
            result = run.complete(cs.Oracle(answer, batch=BATCH))
        if isinstance(result, list):  # one selection per round
            result = result[-1]
        if isinstance(result, cs.Selection):
            cs.save(result, out)
        elif hasattr(result, "selection"):
            cs.save(result.selection, out)
        else:
            write_bytes(json.dumps([result.verdict, result.reason]).encode(), out)

    return run


def _learning() -> None:
    run = cs.active_learning("rows.npy", 20, rounds=2, audit=0, state="work.state")
    cs.save(run.complete(cs.Oracle(labels_of, batch=BATCH)), "out.parquet")


def _evaluate() -> None:
    run = cs.evaluate("rows.npy", budget=20, state="work.state", seed=3)
    found = run.complete(cs.Oracle(losses_of, batch=BATCH))
    write_bytes(json.dumps([found.value, found.low, found.high, found.asked]).encode(), "out.json")


def _vectors() -> None:
    """Write vectors as `embed` does, without the model."""
    place = Path(cs.__file__).parent / "models" / "vectors.py"
    spec = importlib.util.spec_from_file_location("vectors", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    wanted = np.arange(24, dtype=np.float32).reshape(8, 3)
    log = module.VectorLog(Path("work.state"), "float32")
    for row in range(log.rows, 8, 2):
        log.append(wanted[row : row + 2])
    write_bytes(log.read().tobytes(), "out.bin")
    log.close()


def _compare() -> None:
    """Compare a method with itself; its runs are kept in a journal, and its pages have times, which differ."""
    found = cs.compare_methods("rows.npy", np.arange(60.0), ["uniform"], [10], 2, out="compared", plot=False)
    means = [(line.method, line.budget, line.measure and line.measure.value) for line in found.lines]
    write_bytes(json.dumps(means).encode(), "out.json")


def _grow() -> None:
    picked, oracle = cs.load("picked.csv"), cs.Oracle(losses_of, journal="work.state", batch=BATCH)
    cs.save(cs.grow(picked, oracle, 32, rows="rows.npy"), "out.parquet")


def _verb(words: str, *outs: str) -> Job:
    return Job(command(words.split()), outs)


def _by_files(start: str, answers: str, turns: int) -> Callable[[], None]:
    """Return a job that is started, and told its answers by a file until it has finished."""

    def run() -> None:
        from faults.known import cli

        cli(*start.split(), "--state", "work.state", status=0)
        for _ in range(turns):
            cli("ask", "work.state", "--out", "asked.parquet", status=0)
            cli("tell", "work.state", answers, status=0)
        assert "finished" in cli("status", "work.state", status=0).out

    return run


EVALUATED = "rows.csv --predictions kind --budget 20"
SUFFIXES = (".parquet", ".csv", ".jsonl")
STATEFUL = {
    "oracle": Job(_oracle, ("out.csv",), "work.state"),
    "start select": Job(_start(lambda: cs.select, losses_of, "out.jsonl", clusters=4), ("out.jsonl",), "work.state"),
    "start regression": Job(
        _start(lambda: cs.regression.select, losses_of, "out.csv", clusters=4), ("out.csv",), "work.state"
    ),
    "start diagnose": Job(_start(lambda: cs.diagnose, losses_of, "out.json", probes=20), ("out.json",), "work.state"),
    "active learning": Job(_learning, ("out.parquet",), "work.state"),
    "evaluate": Job(_evaluate, ("out.json",), "work.state"),
    "start rounds": Job(
        _start(lambda: cs.rounds, losses_of, "out.jsonl", clusters=3, rounds=2), ("out.jsonl",), "work.state"
    ),
    "grow": Job(_grow, ("out.parquet",), "work.state"),
    "embed": Job(_vectors, ("out.bin",), "work.state"),
}
WRITING = {
    **{
        f"select {suffix}": _verb(f"select rows.npy --losses loss.csv --budget 20 --out out{suffix}", f"out{suffix}")
        for suffix in SUFFIXES
    },
    **{
        f"select, with a table, {suffix}": _verb(
            f"select rows.parquet --column emb --budget 20 --clusters 3 --out out{suffix}", f"out{suffix}"
        )
        for suffix in SUFFIXES
    },
    **{f"cover {suffix}": _verb(f"cover rows.npy --budget 6 --out out{suffix}", f"out{suffix}") for suffix in SUFFIXES},
    "cluster": _verb("cluster rows.npy --clusters 4 --out out.npz", "out.npz"),
    "regression": _verb(
        "regression rows.npy --labels labels.csv --budget 20 --fit fit.csv --out out.csv", "out.csv", "fit.csv"
    ),
    "report": _verb("report picked.csv --rows rows.npy --facts facts.json --out out.html", "out.html", "facts.json"),
    **{f"ask {suffix}": _verb(f"ask active-learning.state --out out{suffix}", f"out{suffix}") for suffix in SUFFIXES},
    "ask label-studio": _verb("ask active-learning.state --format label-studio --out out.json", "out.json"),
    "ask argilla": _verb("ask active-learning.state --format argilla --out out.json", "out.json"),
    "tell, a tool's export": _verb("tell active-learning.state studio.json"),
    "evaluate run": _verb(f"evaluate run {EVALUATED} --answers loss.csv --out out.json", "out.json"),
    "evaluate ask": _verb("evaluate ask evaluate.state --out out.csv", "out.csv"),
    "evaluate report": _verb("evaluate report evaluate.state --out out.html", "out.html"),
    "active-learning report": _verb("active-learning report active-learning.state --out out.html", "out.html"),
    "start": _verb("start select rows.npy --budget 12 --state new.state --out out.csv"),
}
# Whole runs by files; each step is a command, and what it has kept is safe.
STEPS = {
    name: Job(_by_files(f"{words} --out {out}", answers, turns), (out,))
    for name, words, out, answers, turns in (
        ("select by files", "start select rows.npy --budget 12", "out.csv", "loss.csv", 2),
        ("regression by files", "start regression rows.npy --budget 12", "out.csv", "labels.csv", 2),
        ("diagnose by files", "start diagnose rows.npy --budget 12 --probes 20", "out.json", "loss.csv", 3),
        ("learning by files", "active-learning start rows.npy --budget 8 --rounds 2", "out.parquet", "loss.csv", 2),
        ("evaluate by files", f"evaluate start {EVALUATED}", "out.json", "loss.csv", 3),
    )
}
DEAR = (*STEPS, "compare")  # jobs of several commands or processes
JOBS: dict[str, Job] = {**STATEFUL, **WRITING, **STEPS, "compare": Job(_compare, ("out.json",))}


def contents(names: Sequence[str], folder: Path) -> dict[str, bytes | None]:
    """Return the bytes of files, None for those that are not there."""
    return {name: (folder / name).read_bytes() if (folder / name).exists() else None for name in names}


def asked_in(folder: Path) -> list[int]:
    """Return the rows that were asked so far, in order."""
    log = folder / ASKED
    return [int(line) for line in log.read_text().split()] if log.exists() else []
