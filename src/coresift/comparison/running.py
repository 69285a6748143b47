"""Run methods in their own processes, several at a time, so that none can affect another's result."""

from __future__ import annotations

import io
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from coresift.comparison.methods import Method
from coresift.comparison.summary import Trial
from coresift.comparison.worker import MethodJob, Packed
from coresift.rows import Rows

Task: TypeAlias = tuple[int, int]  # budget, seed
Todo: TypeAlias = dict[str, tuple[Method, list[Task]]]  # by label

# The path comes first, so that the process finds the same modules as this one. With -P, Python does not look for
# modules in the current folder, whose files could replace those of a library.
START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from coresift.comparison.worker import main; main()"
SMALL = 2**20  # bytes; the description of rows in files is smaller than this
LOOK = 0.1  # seconds between two checks for processes that have ended or take too long
STARTING = 60.0  # seconds for imports, in addition to the user's limit
GRACE = 2.0  # seconds for the last replies of a process that has ended
WORTH_A_PROCESS = 4  # tasks that justify another process of the same method
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Setting:
    """What all methods get, and how they are run."""

    rows: Rows
    losses: Path | None
    loss_function: Any
    train: Any
    log: Path
    confidence: float
    processes: int
    threads: int
    timeout: float | None

    def job(self, method: Method) -> bytes:
        """Return the first message to a method's process."""
        packed = pickle.dumps(Packed(method, self.train, self.loss_function))
        main = _main() if b"__main__" in packed else None
        return pickle.dumps(MethodJob(main, self.rows, self.losses, packed, self.threads, self.confidence))


def perform(setting: Setting, todo: Todo) -> Iterator[Trial]:
    """Yield each run when it ends. After a failure, the other seeds of that method and budget are skipped."""
    scheduler = _Scheduler(setting, todo)
    try:
        while scheduler.start_processes():
            yield from scheduler.next_runs()
    finally:
        scheduler.close()


class _Scheduler:
    """The processes, each for one method, and the remaining tasks."""

    def __init__(self, setting: Setting, todo: Todo) -> None:
        self._setting = setting
        self._methods = {label: method for label, (method, _) in todo.items()}
        self._left = {label: list(tasks) for label, (_, tasks) in todo.items()}
        self._workers: list[_Worker] = []
        self._events: queue.Queue[tuple[_Worker, dict[str, Any] | None]] = queue.Queue()

    def start_processes(self) -> bool:
        """Start processes as long as there are free slots and tasks; return whether any process is running."""
        while len(self._workers) < self._setting.processes:
            label = self._next_method()
            if label is None:
                break
            job = self._setting.job(self._methods[label])
            self._workers.append(_Worker(label, job, self._setting, self._events))
        return bool(self._workers)

    def _next_method(self) -> str | None:
        """Return the method with the most tasks per process, if another process is worth its start-up time."""
        busy = [worker.label for worker in self._workers]
        least = {label: WORTH_A_PROCESS if label in busy else 1 for label in self._left}
        able = [label for label, tasks in self._left.items() if len(tasks) >= least[label]]
        return min(able, key=lambda label: (busy.count(label), -len(self._left[label])), default=None)

    def next_runs(self) -> Iterator[Trial]:
        """Wait for the next event, and yield the runs that ended with it."""
        try:
            worker, reply = self._events.get(timeout=LOOK)
        except queue.Empty:
            for worker in self._workers:
                worker.look(self._setting.timeout)
            return
        if worker not in self._workers:
            return
        if reply is None:
            yield from self._ended(worker)
        elif "ready" in reply:
            self._occupy(worker)
        elif worker.task is None:  # it never became ready
            yield from self._give_up(worker, reply["failure"])
        else:
            budget, seed = worker.task
            if "failure" in reply:
                self._leave_out(worker.label, budget)
            yield self._run(worker.label, budget, seed, reply)
            self._occupy(worker)

    def _occupy(self, worker: _Worker) -> None:
        if self._left[worker.label]:
            worker.send(self._left[worker.label].pop(0))
        else:
            self._dismiss(worker)

    def _ended(self, worker: _Worker) -> Iterator[Trial]:
        failure = worker.reason_of_end()
        if worker.task is None:
            yield from self._give_up(worker, failure)
            return
        budget, seed = worker.task
        self._dismiss(worker)
        self._leave_out(worker.label, budget)
        yield self._run(worker.label, budget, seed, {"failure": failure})

    def _give_up(self, worker: _Worker, failure: str) -> Iterator[Trial]:
        """Report a method that cannot start as failed at every budget."""
        self._dismiss(worker)
        first = dict(reversed(self._left[worker.label]))
        self._left[worker.label] = []
        for budget in sorted(first):
            yield self._run(worker.label, budget, first[budget], {"failure": failure})

    def _leave_out(self, label: str, budget: int) -> None:
        self._left[label] = [task for task in self._left[label] if task[0] != budget]

    def _dismiss(self, worker: _Worker) -> None:
        worker.close()
        self._workers.remove(worker)

    def _run(self, label: str, budget: int, seed: int, facts: dict[str, Any]) -> Trial:
        return Trial(label, self._methods[label].text, budget, seed, **facts)

    def close(self) -> None:
        for worker in self._workers:
            worker.close()


def _not_a_link(path: str, flags: int) -> int:
    """Open a file; if there is a link in its place, remove that first."""
    if os.path.islink(path):
        os.unlink(path)
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


class _Worker:
    """A process of one method, its current task, and a thread that listens to it."""

    def __init__(self, label: str, job: bytes, setting: Setting, events: queue.Queue[Any]) -> None:
        self.label = label
        self.task: Task | None = None
        self._started = time.monotonic()
        self._events, self._late, self._gone = events, "", 0.0
        threads = dict.fromkeys(THREADS, str(setting.threads))
        with open(setting.log, "ab", opener=_not_a_link) as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", START, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**threads, **os.environ},
                start_new_session=True,  # so that processes which it starts are ended with it
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._write(len(job).to_bytes(8, "big") + job)

    def send(self, task: Task) -> None:
        """Send the next task."""
        self.task, self._started = task, time.monotonic()
        self._write(json.dumps({"budget": task[0], "seed": task[1]}).encode() + b"\n")

    def look(self, timeout: float | None) -> None:
        """End the process if it takes too long; notice its end even if a child process keeps its pipe open."""
        spent = time.monotonic() - self._started - (STARTING if self.task is None else 0.0)
        if timeout is not None and not self._late and spent > timeout:
            self._late = f"It took longer than {timeout:g} seconds and was stopped."
            self._kill()
        if self._process.poll() is None:
            return
        self._gone = self._gone or time.monotonic()
        if time.monotonic() - self._gone > GRACE:
            self._events.put((self, None))

    def reason_of_end(self) -> str:
        """Return why the process ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        status = self._process.poll()
        if self._late:
            return self._late
        if status is not None and status < 0:
            name = signal.Signals(-status).name
            hint = ", as the system does when memory runs out" if name == "SIGKILL" else ""
            return f"Its process was ended by {name}{hint}."
        return f"Its process ended without a result (status {status})."

    def close(self) -> None:
        """End the process and its child processes."""
        self._kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not (pipe is self._process.stdout and self._listener.is_alive()):
                with suppress(OSError):
                    pipe.close()

    def _kill(self) -> None:
        with suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        self._listener.join(GRACE)

    def _write(self, content: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # the process has ended, which its listener reports
            self._process.stdin.write(content)
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                self._events.put((self, json.loads(line)))
            except ValueError:  # cut off in the middle
                break
        self._events.put((self, None))


def _main() -> tuple[str, str] | None:
    """Return how to load the main script or module in another process."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return ("module", spec.name)
    path = getattr(main, "__file__", None)
    return None if path is None else ("path", os.path.abspath(path))


def travels(rows: Rows) -> bool:
    """Return whether another process can open these rows by itself, because they are in files."""
    try:
        pickle.Pickler(_Small()).dump(rows)
    except Exception:  # rows in memory are too large, or cannot be pickled
        return False
    return True


class _Small(io.RawIOBase):
    """A stream that discards a few bytes; more are an error."""

    def __init__(self) -> None:
        self._size = 0

    def write(self, content: Any) -> int:
        self._size += memoryview(content).nbytes
        if self._size > SMALL:
            raise ValueError
        return memoryview(content).nbytes


def write_rows(rows: Rows, path: Path, advance: Callable[[int], None]) -> None:
    """Write rows as float32, block by block, to a new file, never through a link."""
    path.unlink(missing_ok=True)
    matrix = np.lib.format.open_memmap(path, "w+", np.float32, (rows.n, rows.d))
    for start, block in rows.blocks():
        content = block()
        matrix[start : start + len(content)] = content
        advance(len(content))
    matrix.flush()
