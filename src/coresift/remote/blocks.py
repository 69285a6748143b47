"""The engine: stretches of blocks as Ray tasks, read where they run, and reduced in row order here."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from coresift.checks import CoresiftError, CoresiftWarning
from coresift.engine import (
    RUNS,
    SINGLE_THREADED,
    Alone,
    Beside,
    BlockFunction,
    Fold,
    GroupFunction,
    Local,
    Workers,
    parts_of,
)
from coresift.progress import Progress, stage
from coresift.remote.connection import RETRIES, Failure, check_version, connect, get, here
from coresift.rows import Rows, Stretch
from coresift.types import Ints, Singles, Strategy
from coresift.version import __version__

S = TypeVar("S")
T = TypeVar("T")

# A task has at most so many blocks (more where a table must be read in larger groups), and fewer where each worker
# would not get several tasks.
MOST_BLOCKS = 32
TASKS_A_WORKER = 4
# Tasks that have been handed out and not taken back, for each worker: one runs, one waits.
IN_FLIGHT = 2


@dataclass(frozen=True, eq=False, repr=False)
class Ray(Strategy):
    """The workers of a Ray cluster read and compute the row blocks; the result has the same bytes as with threads.

    Files must have the same paths on all nodes; an array in memory is sent once. Install it with
    `pip install "coresift[ray]"`.

    Args:
        address: The address of the cluster, such as "10.0.0.1:6379". By default, the cluster that this process is
            connected to or that RAY_ADDRESS names, or else one that is started on this machine.
        threads: How many threads this process uses for its own part of the work, as in `Local`.
        keep: A folder on this process's machine for finished clusterings. A later call for the same clustering reads
            it from there, for example after a run that was killed.

    Examples:
        >>> Ray(address="10.0.0.1:6379")
        Ray(address='10.0.0.1:6379', threads=None, keep=None)
    """

    address: str | None = None
    threads: int | None = None
    keep: str | os.PathLike[str] | None = None

    @contextmanager
    def open(self, progress: Progress) -> Iterator[Workers]:
        """Connect to the cluster; on leaving, nothing of this computation stays on it."""
        ray = connect(self.address)
        with Local(self.threads).open(progress) as threads:
            cluster = _Cluster(ray, threads, progress)
            try:
                yield cluster
            finally:
                cluster.forget()


@dataclass(frozen=True)
class _Job(Generic[T]):
    """What is done with a stretch of rows: a function of each block, or of each group of `size` blocks; and a fold."""

    function: Callable[..., Any]
    size: int
    fold: Fold[T] | None

    def run(self, start: int, blocks: Iterator[Singles], beside: Beside) -> list[T]:
        """Return the results of the blocks from row `start` on, or of the runs into which they are folded."""
        results = self._groups(start, blocks, beside) if self.size else self._blocks(start, blocks, beside)
        return list(results if self.fold is None else self.fold.of(results))

    def _blocks(self, start: int, blocks: Iterator[Singles], beside: Beside) -> Iterator[T]:
        done = 0
        for block in blocks:
            yield self.function(start + done, block, *parts_of(beside, done, done + len(block)))
            done += len(block)

    def _groups(self, start: int, blocks: Iterator[Singles], beside: Beside) -> Iterator[T]:
        done = 0
        while group := [block for _, block in zip(range(self.size), blocks, strict=False)]:
            places = start + done + np.cumsum([0, *map(len, group)])
            some = [(int(place), partial(_itself, block)) for place, block in zip(places, group, strict=False)]
            stop = int(places[-1]) - start
            yield from self.function(Alone(), some, *parts_of(beside, done, stop))
            done = stop


def _itself(block: Singles) -> Singles:
    return block


class _Cluster:
    def __init__(self, ray: Any, threads: Workers, progress: Progress) -> None:
        self._ray, self._threads, self._progress = ray, threads, progress
        self._sent: dict[int, tuple[Rows, Any]] = {}
        options = {"num_cpus": 1, "max_retries": RETRIES}
        self._work, self._choose, self._join = (ray.remote(**options)(task) for task in (_work, _choose, _join))

    @property
    def here(self) -> Workers:
        return self._threads

    def forget(self) -> None:
        """Let go of what was sent to the cluster."""
        self._sent.clear()

    def map(
        self,
        rows: Rows,
        function: BlockFunction[T],
        *,
        beside: Beside = (),
        fold: Fold[T] | None = None,
        name: str = "",
    ) -> Iterator[T]:
        if rows.n <= rows.block_rows:
            return self._threads.map(rows, function, beside=beside, fold=fold, name=name)
        return self._run(rows, _Job(function, 0, fold), 1, beside, name)

    def groups(
        self,
        rows: Rows,
        size: int,
        function: GroupFunction[T],
        *,
        beside: Beside = (),
        fold: Fold[T] | None = None,
        name: str = "",
    ) -> Iterator[T]:
        if rows.n <= rows.block_rows:
            return self._threads.groups(rows, size, function, beside=beside, fold=fold, name=name)
        return self._run(rows, _Job(function, size, fold), size, beside, name)

    def pick(
        self, rows: Rows, pieces: Sequence[Ints], function: Callable[[Singles], T], *, name: str = ""
    ) -> Iterator[T]:
        base, done, workers = self._send(rows.base), self._ray.put(function), self._workers()
        count = max(1, -(-len(pieces) // (TASKS_A_WORKER * workers)))
        tasks = []
        for first in range(0, len(pieces), count):
            some = [(len(ids), rows.picking(ids)) for ids in pieces[first : first + count]]
            submit = partial(self._choose.remote, __version__, done, base, some)
            tasks.append(_Task(sum(size for size, _ in some), "rows by number", submit))
        return self._in_order(iter(tasks), sum(map(len, pieces)), workers, name)

    def each(self, items: Sequence[S], function: Callable[[S], T], *, name: str = "") -> Iterator[T]:
        return self._threads.each(items, function, name=name)

    def _run(self, rows: Rows, job: _Job[T], unit: int, beside: Beside, name: str) -> Iterator[T]:
        workers = self._workers()
        unit = unit if job.fold is None else job.fold.size
        count = units_a_task(rows, unit, workers)
        if job.fold is not None:  # so many that 16 are those of whole tasks
            count = 1 << (min(count, RUNS).bit_length() - 1)
        tasks = self._stretches(rows, job, count * unit * rows.block_rows, beside)
        if job.fold is not None:
            tasks = self._joined(tasks, job.fold, RUNS // count)
        return self._in_order(tasks, rows.n, workers, name)

    def _stretches(self, rows: Rows, job: _Job[T], step: int, beside: Beside) -> Iterator[_Task]:
        base, sent = self._send(rows.base), self._ray.put(job)
        for start in range(0, rows.n, step):
            stop = min(start + step, rows.n)
            parts = parts_of(beside, start, stop)
            submit = partial(self._work.remote, __version__, sent, base, rows.stretch(start, stop), start, parts)
            yield _Task(stop - start, f"rows {start} to {stop - 1}", submit)

    def _joined(self, tasks: Iterator[_Task], fold: Fold[T], count: int) -> Iterator[_Task]:
        """Fold runs again where they are, so that only every sixteenth comes here."""
        sent = self._ray.put(fold)
        for first in tasks:
            some = [first, *(task for _, task in zip(range(count - 1), tasks, strict=False))]
            size = sum(task.size for task in some)
            yield _Task(size, first.what, partial(self._submit_joined, sent, some), len(some))

    def _submit_joined(self, fold: Any, tasks: list[_Task]) -> Any:
        return self._join.remote(fold, *(task.submit() for task in tasks))

    def _in_order(self, tasks: Iterator[_Task], total: int, workers: int, name: str) -> Iterator[Any]:
        progress = self._progress if name else Progress()
        waiting: deque[tuple[_Task, Any]] = deque()
        # After an error the few tasks in flight run to their end unused: Ray (2.60) can abort this process when
        # one is cancelled at the moment of its completion.
        with stage(progress, name, total):
            for task in tasks:
                waiting.append((task, task.submit()))
                # What is in flight is bounded, and so are the results that wait for an earlier one.
                while len(waiting) > 2 and sum(task.count for task, _ in waiting) > IN_FLIGHT * workers:
                    yield from self._collect(waiting, progress)
            while waiting:
                yield from self._collect(waiting, progress)

    def _collect(self, waiting: deque[tuple[_Task, Any]], progress: Progress) -> list[Any]:
        task, reference = waiting.popleft()
        found: list[Any] = get(self._ray, reference, task.what)
        progress.advance(task.size)
        return found

    def _send(self, base: Rows) -> Any:
        """Put rows where all workers can get them, once: paths of files, or the numbers where they are in memory."""
        if id(base) not in self._sent:
            self._sent[id(base)] = (base, self._ray.put(base))
        return self._sent[id(base)][1]

    def _workers(self) -> int:
        count = int(self._ray.cluster_resources().get("CPU", 0))
        if count == 0:
            warnings.warn("The cluster has no workers yet; waiting for the first.", CoresiftWarning, stacklevel=2)
        return max(count, 1)


@dataclass(frozen=True)
class _Task:
    """Work that is ready to be handed out: of how many rows, what it is called, how, and how many tasks it is."""

    size: int
    what: str
    submit: Callable[[], Any]
    count: int = 1


def units_a_task(rows: Rows, unit: int, workers: int) -> int:
    """Return how many times `unit` blocks a task has."""
    blocks = -(-rows.n // rows.block_rows)
    most = max(MOST_BLOCKS, -(-rows.read_at_once // rows.block_rows)) // unit
    return max(1, min(most, blocks // (unit * TASKS_A_WORKER * workers)))


def _work(
    version: str,
    job: _Job[T],
    base: Rows,
    stretch: Stretch,
    start: int,
    beside: Sequence[NDArray[Any]],
) -> list[T] | Failure:
    """Run on a worker: read a stretch of rows and do the job."""
    try:
        check_version(version)
        _hold_to_one_thread()
        return job.run(start, _reading(stretch, base), beside)
    except CoresiftError as error:
        return Failure(error)


def _choose(
    version: str, function: Callable[[Singles], T], base: Rows, pieces: list[tuple[int, Stretch]]
) -> list[T] | Failure:
    """Run on a worker: read rows by number, piece by piece."""
    try:
        check_version(version)
        _hold_to_one_thread()
        return [function(_together(_reading(picking, base), size)) for size, picking in pieces]
    except CoresiftError as error:
        return Failure(error)


def _join(fold: Fold[T], *runs: list[T] | Failure) -> list[T] | Failure:
    """Run on a worker: fold runs of blocks."""
    for run in runs:
        if isinstance(run, Failure):
            return run
    return list(fold.again(chain.from_iterable(run for run in runs if not isinstance(run, Failure))))


def _together(pieces: Iterable[Singles], size: int) -> Singles:
    found = list(pieces)
    if sum(map(len, found)) != size:
        raise CoresiftError(f"Rows that {here()} reads have changed since they were opened.")
    return found[0] if len(found) == 1 else np.concatenate(found)


def _reading(stretch: Stretch, base: Rows) -> Iterator[Singles]:
    try:
        yield from stretch(base)
    except (CoresiftError, OSError) as error:
        raise CoresiftError(f"{here().capitalize()} cannot read its rows: {error}") from None


def _hold_to_one_thread() -> None:
    """Blocks are computed as in any other process; a worker has nothing else to do, so the limit stays."""
    global _held  # noqa: PLW0603 - once a process
    if not _held:
        SINGLE_THREADED.__enter__()
        _held = True


_held = False
