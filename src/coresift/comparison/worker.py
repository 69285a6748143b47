"""The process of one method: it gets tasks, selects, measures and replies, with one JSON line each.

It ends when its parent process ends for any reason, because then its standard input ends. The output of a method goes
to the comparison's log, never between the replies.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import queue
import runpy
import sys
import threading
import time
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from coresift.checks import CoresiftError, CoresiftWarning, InputError
from coresift.comparison.methods import Method, import_function
from coresift.engine import Local
from coresift.estimation import estimate
from coresift.oracle import Oracle
from coresift.rows import Rows
from coresift.types import Floats, Selection, WeightedSelection

LOADING_MAIN = "__coresift_main__"  # the name of the user's script while it is loaded for its functions
PAUSE = 0.005  # seconds between two measurements of the memory
loading = threading.Event()


@dataclass(frozen=True)
class MethodJob:
    """Everything that a method's process needs; `packed` is unpickled after `main` is loaded."""

    main: tuple[str, str] | None
    rows: Rows
    losses: Path | None
    packed: bytes
    threads: int
    confidence: float


@dataclass(frozen=True)
class Packed:
    """What may need the user's modules to be unpickled: the method, the training function, and a loss function."""

    method: Method
    train: Any
    losses: Any


def main() -> None:
    """Read the job and the tasks from standard input, and reply on standard output."""
    requests, replies = _own_pipes()
    size = int.from_bytes(_exactly(requests, 8), "big")
    job: MethodJob = pickle.loads(_exactly(requests, size))
    tasks: queue.Queue[dict[str, int]] = queue.Queue()
    threading.Thread(target=_listen, args=(requests, tasks), daemon=True).start()
    _go_first_when_memory_is_short()
    warnings.simplefilter("ignore", CoresiftWarning)

    def reply(facts: dict[str, Any]) -> None:
        replies.write(json.dumps(facts).encode() + b"\n")
        replies.flush()

    prepared = _try(lambda: prepare(job))
    reply({"failure": prepared["failure"]} if isinstance(prepared, dict) else {"ready": True})
    while isinstance(prepared, Bench):
        task = tasks.get()
        reply(_try(lambda task=task: prepared.run(task["budget"], task["seed"])))  # type: ignore[misc]


def prepare(job: MethodJob) -> Bench:
    """Open everything in advance, so that the time of a selection does not include imports."""
    import scipy.optimize
    import scipy.special  # noqa: F401

    if job.main is not None:
        _load_main(*job.main)
    packed: Packed = pickle.loads(job.packed)
    losses = packed.losses if job.losses is None else np.load(job.losses, mmap_mode="r", allow_pickle=False)
    train = import_function(packed.train) if isinstance(packed.train, str) else packed.train
    job.rows.fingerprint()
    return Bench(packed.method.runner(), job.rows, losses, train, Local(job.threads), job.confidence)


@dataclass(frozen=True)
class Bench:
    """One method with its rows, losses and options."""

    runner: Callable[..., Selection]
    rows: Rows
    losses: Any
    train: Callable[[Selection], Any] | None
    engine: Local
    confidence: float

    def run(self, budget: int, seed: int) -> dict[str, Any]:
        """Return the facts of one run."""
        losses = Oracle(self.losses) if callable(self.losses) else self.losses
        start = time.perf_counter()
        with peak_memory() as peak:
            selection = self.runner(self.rows, losses, budget, seed, self.engine)
        seconds = time.perf_counter() - start
        check_selection(selection, self.rows.n, budget)
        facts: dict[str, Any] = {
            "selected": len(selection),
            "asked": selection.ledger.asked,
            "calls": selection.ledger.asked + int(np.count_nonzero(np.isnan(selection.losses))),
            "seconds": seconds,
            "memory": peak[0],
        }
        if self.train is not None:
            start = time.perf_counter()
            facts["score"] = _number(self.train(selection))
            facts["training_seconds"] = time.perf_counter() - start
        elif isinstance(selection, WeightedSelection):
            facts |= measure(selection, self.losses, self.confidence)
        return facts


def measure(selection: WeightedSelection, losses: Floats, confidence: float) -> dict[str, Any]:
    """Return the error of the estimated total, relative to the true total, and the quality of its interval."""
    truth = float(losses.sum())
    total = estimate(selection, np.asarray(losses[selection.ids]), confidence=confidence).total
    width = total.high - total.low
    known = math.isfinite(width)
    return {
        "error": total.value / truth - 1,
        "covered": bool(total.low <= truth <= total.high) if known else None,
        "width": width / truth if known else None,
    }


def check_selection(selection: Any, n: int, budget: int) -> None:
    """Refuse a result that cannot be compared with those of other methods."""
    if not isinstance(selection, Selection):
        raise InputError(f"A method must return a Selection; this one returned {type(selection).__name__}.")
    if selection.n != n or selection.population != n:
        raise InputError(
            f"A method's Selection must stand for all {n} rows; this one stands for {selection.population}"
            f" of {selection.n}."
        )
    drawn = selection.phases[-1] if isinstance(selection, WeightedSelection) else None
    if len(selection) > budget and (drawn is None or drawn.fixed_size):
        raise InputError(f"A method must keep to its budget; this one selected {len(selection)} rows for {budget}.")


def _number(score: Any) -> float:
    try:
        value = float(score)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"train must return a number; it returned {type(score).__name__}.") from None
    if not math.isfinite(value):
        raise InputError(f"train must return a finite number; it returned {value}.")
    return value


def _try(action: Callable[[], Any]) -> Any:
    """Return the result of an action, or its failure as a sentence; the log has the traceback."""
    try:
        return action()
    except BaseException as error:  # sys.exit in a method counts as a failure, too
        traceback.print_exc()
        return {"failure": sentence(error)}


def sentence(error: BaseException) -> str:
    """Return an error as one line.

    >>> sentence(MemoryError())
    'It raised MemoryError.'
    """
    if isinstance(error, CoresiftError):
        return " ".join(str(error).split())
    return f"It raised {type(error).__name__}: {' '.join(str(error).split())}".rstrip(".: ") + "."


@contextmanager
def peak_memory() -> Iterator[list[float | None]]:
    """Measure the peak memory of this process in bytes, without pages of mapped files, as the only entry of a list."""
    peak: list[float | None] = [None]
    stop = threading.Event()

    def look() -> None:
        with suppress(OSError):
            peak[0] = max(peak[0] or 0, anonymous_bytes())

    def watch() -> None:
        while not stop.wait(PAUSE):
            look()

    look()
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        stop.set()
        watcher.join()
        look()


def anonymous_bytes() -> int:
    """Return the memory of this process without pages of mapped files, if the kernel reports it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError


def _own_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Duplicate standard input and output, so that a method's output and child processes cannot reach them."""
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return os.fdopen(requests, "rb"), os.fdopen(replies, "wb")


def _exactly(source: IO[bytes], size: int) -> bytes:
    content = source.read(size)
    if len(content) < size:
        os._exit(1)
    return content


def _listen(requests: IO[bytes], tasks: queue.Queue[dict[str, int]]) -> None:
    for line in requests:
        tasks.put(json.loads(line))
    os._exit(1)  # the parent has ended


def _go_first_when_memory_is_short() -> None:
    """If memory runs out, let the kernel end this process first, not the comparison or another method."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")


def _load_main(kind: str, name: str) -> None:
    """Load the script or module that started the comparison, for the functions that it defines."""
    load = runpy.run_path if kind == "path" else runpy.run_module
    loading.set()
    content = load(name, run_name=LOADING_MAIN)
    loading.clear()
    module = types.ModuleType("__main__")
    module.__dict__.update(content, __name__=LOADING_MAIN)
    sys.modules["__main__"] = module
