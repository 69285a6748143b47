"""Children that may crash: each is forked from this process, which has everything imported, and has limits of its own.

A fork takes milliseconds, so every input can have a process of its own. The parent must stay single-threaded: it
imports coresift, but runs nothing of it.
"""

from __future__ import annotations

import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

CPU_SECONDS = 20  # a hang is told by processor time, which a busy machine does not stretch
WALL_SECONDS = 600  # for what waits without computing
UNEXPECTED = 70  # exit status of a child that ended in an exception
MEMORY = 2 * 2**30  # bytes that no small input may need
MOST_MEMORY = 8 * 2**30  # addresses that a child may have, so that a runaway does not take the machine with it


class Outcome(NamedTuple):
    """How a child ended: its exit status (negative: the signal), what it printed, and its peak memory."""

    status: int
    out: str
    err: str
    peak: int
    late: bool


class Child:
    """A forked process that runs a function in a folder.

    Args:
        function: What to run; an int that it returns is the exit status.
        folder: Where.
        cpu: Seconds of processor time that it may use.
    """

    def __init__(self, function: Callable[[], object], folder: Path, cpu: int = CPU_SECONDS) -> None:
        self._printed = Path(tempfile.mkdtemp(prefix="printed-", dir=folder.parent))
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._run(function, folder, cpu)

    def _run(self, function: Callable[[], object], folder: Path, cpu: int) -> None:
        status = UNEXPECTED
        try:
            os.chdir(folder)
            self._redirect()
            resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 5))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
            returned = function()
            status = returned if isinstance(returned, int) else 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(status)

    def _redirect(self) -> None:
        for number, name in ((1, "stdout"), (2, "stderr")):
            target = os.open(self._printed / name, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
            os.dup2(target, number)
            os.close(target)
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def kill(self) -> None:
        """Send SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self, wall: float = WALL_SECONDS) -> Outcome:
        """Wait for the end, or bring it about when it is late."""
        descriptor = os.pidfd_open(self.pid)
        late = not select.select([descriptor], [], [], wall)[0]
        os.close(descriptor)
        if late:
            self.kill()
        _, status, used = os.wait4(self.pid, 0)
        out, err = (
            (self._printed / name).read_text("utf-8", "replace") if (self._printed / name).exists() else ""
            for name in ("stdout", "stderr")
        )
        shutil.rmtree(self._printed)
        return Outcome(os.waitstatus_to_exitcode(status), out, err, used.ru_maxrss * 1024, late)


def run(function: Callable[[], object], folder: Path, cpu: int = CPU_SECONDS) -> Outcome:
    """Run a function in a child and wait for it."""
    return Child(function, folder, cpu).wait()


def command(words: Sequence[object]) -> Callable[[], None]:
    """Return the command line with these words, to be run in a child."""

    def main() -> None:
        from coresift.cli import main

        sys.argv = ["coresift", *map(str, words)]
        main()

    return main


def warm() -> None:
    """Import all that children need, so that none of them has to: what a few commands imported in a child."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    folder = Path(tempfile.mkdtemp(prefix="warm-")) / "run"
    folder.mkdir()
    names = run(_modules_used, folder).out.split()
    shutil.rmtree(folder.parent)
    for name in names:
        with suppress(Exception):  # a part of a library that is not made to be imported by itself
            import_module(name)
    if threading.active_count() > 1:
        raise RuntimeError("A library has started threads while it was imported; forks would not be safe.")


def _modules_used() -> None:
    """Use what there is, and print the names of all modules that are imported then."""
    import numpy as np

    from coresift.cli.app import VERBS

    for module in {module for module, _ in VERBS.values()}:
        import_module(f"coresift.cli.{module}")
    before = set(sys.modules)
    np.save("rows.npy", np.random.default_rng(0).normal(size=(60, 3)))
    Path("loss.csv").write_text("row,loss\n" + "".join(f"{row},1\n" for row in range(60)))
    for suffix in (".parquet", ".csv", ".jsonl"):
        words = ["select", "rows.npy", "--losses", "loss.csv", "--budget", "20", "--out", f"picked{suffix}"]
        with suppress(SystemExit), open(os.devnull, "w") as nothing, redirect_stdout(nothing):
            command(words)()
    with suppress(SystemExit), open(os.devnull, "w") as nothing, redirect_stdout(nothing):
        command(["report", "picked.csv", "--rows", "rows.npy"])()
    print("\n".join([*sorted(before), *sorted(set(sys.modules) - before)]))


def patiently(condition: Callable[[], bool], seconds: float = 30) -> bool:
    """Wait until something is so; say whether it came to be."""
    late = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > late:
            return False
        time.sleep(0.001)
    return True
