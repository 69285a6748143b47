"""The Ray engine: stretches of blocks are tasks, read on the node that runs them; results are joined in row order."""

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
    Beside,
    BlockFunction,
    Fold,
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

# The most blocks per task (more if a table must be read in larger groups). A task has fewer if otherwise each worker
# would get fewer than TASKS_PER_WORKER tasks.
MOST_BLOCKS = 32
TASKS_PER_WORKER = 4
# Tasks in flight per worker: one runs, one waits.
IN_FLIGHT = 2


@dataclass(frozen=True, eq=False, repr=False)
class Ray(Strategy):
    """The workers of a Ray cluster read and process the row blocks; the result has the same bytes as with threads.

    Files must have the same paths on all nodes; an array in memory is sent once. Ray is an extra: run
    `pip install ".[ray]"` in a clone of coresift.

    Args:
        address: The address of the cluster, such as "10.0.0.1:6379". By default, the cluster that this process is
            connected to or that RAY_ADDRESS names, or else one that is started on this machine.
        threads: The number of threads for this process's own part of the work, as in `Local`.
        keep: A folder on this process's machine that stores finished clusterings. A later call for the same clustering
            reads it from there, for example after a run was killed.

    Examples:
        >>> Ray(address="10.0.0.1:6379")
        Ray(address='10.0.0.1:6379', threads=None, keep=None)
    """

    address: str | None = None
    threads: int | None = None
    keep: str | os.PathLike[str] | None = None

    @contextmanager
    def open(self, progress: Progress) -> Iterator[Workers]:
        """Connect to the cluster; everything sent to it is released at the end of the `with` block."""
        ray = connect(self.address)
        with Local(self.threads).open(progress) as threads:
            cluster = _Cluster(ray, threads, progress)
            try:
                yield cluster
            finally:
                cluster.release()


@dataclass(frozen=True)
class _Job(Generic[T]):
    """The work on a stretch of rows: a function of each block, and a fold."""

    function: Callable[..., Any]
    fold: Fold[T] | None

    def run(self, start: int, blocks: Iterator[Singles], beside: Beside) -> list[T]:
        """Return the results of the blocks from row `start` on; with a fold, one result per run."""
        results = self._blocks(start, blocks, beside)
        return list(results if self.fold is None else self.fold.of(results))

    def _blocks(self, start: int, blocks: Iterator[Singles], beside: Beside) -> Iterator[T]:
        done = 0
        for block in blocks:
            yield self.function(start + done, block, *parts_of(beside, done, done + len(block)))
            done += len(block)


class _Cluster:
    def __init__(self, ray: Any, threads: Workers, progress: Progress) -> None:
        self._ray, self._threads, self._progress = ray, threads, progress
        self._sent: dict[int, tuple[Rows, Any]] = {}
        options = {"num_cpus": 1, "max_retries": RETRIES}
        self._work, self._pick, self._join = (ray.remote(**options)(task) for task in (_work, _pick, _join))

    @property
    def here(self) -> Workers:
        return self._threads

    @property
    def count(self) -> int:
        return self._workers()

    def release(self) -> None:
        """Release what was sent to the cluster."""
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
        return self._run(rows, _Job(function, fold), beside, name)

    def pick(
        self, rows: Rows, pieces: Sequence[Ints], function: Callable[[Singles], T], *, name: str = ""
    ) -> Iterator[T]:
        base, sent, workers = self._send(rows.base), self._ray.put(function), self._workers()
        count = max(1, -(-len(pieces) // (TASKS_PER_WORKER * workers)))
        tasks = []
        for first in range(0, len(pieces), count):
            group = [(len(ids), rows.picking(ids)) for ids in pieces[first : first + count]]
            submit = partial(self._pick.remote, __version__, sent, base, group)
            tasks.append(_Task(sum(size for size, _ in group), "rows by number", submit))
        return self._in_order(iter(tasks), sum(map(len, pieces)), workers, name)

    def each(self, items: Sequence[S], function: Callable[[S], T], *, name: str = "") -> Iterator[T]:
        return self._threads.each(items, function, name=name)

    def _run(self, rows: Rows, job: _Job[T], beside: Beside, name: str) -> Iterator[T]:
        workers = self._workers()
        unit = 1 if job.fold is None else job.fold.size
        count = units_per_task(rows, unit, workers)
        if job.fold is not None:  # a power of two, so that 16 runs are a whole number of tasks
            count = 1 << (min(count, RUNS).bit_length() - 1)
        tasks = self._stretches(rows, job, count * unit * rows.block_rows, beside)
        if job.fold is not None:
            tasks = self._join_tasks(tasks, job.fold, RUNS // count)
        return self._in_order(tasks, rows.n, workers, name)

    def _stretches(self, rows: Rows, job: _Job[T], step: int, beside: Beside) -> Iterator[_Task]:
        base, sent = self._send(rows.base), self._ray.put(job)
        for start in range(0, rows.n, step):
            stop = min(start + step, rows.n)
            parts = parts_of(beside, start, stop)
            submit = partial(self._work.remote, __version__, sent, base, rows.stretch(start, stop), start, parts)
            yield _Task(stop - start, f"rows {start} to {stop - 1}", submit)

    def _join_tasks(self, tasks: Iterator[_Task], fold: Fold[T], count: int) -> Iterator[_Task]:
        """Join the results of 16 runs on the cluster, so that only one result is sent back."""
        sent = self._ray.put(fold)
        for first in tasks:
            group = [first, *(task for _, task in zip(range(count - 1), tasks, strict=False))]
            size = sum(task.size for task in group)
            yield _Task(size, first.what, partial(self._submit_join, sent, group), len(group))

    def _submit_join(self, fold: Any, tasks: list[_Task]) -> Any:
        return self._join.remote(fold, *(task.submit() for task in tasks))

    def _in_order(self, tasks: Iterator[_Task], total: int, workers: int, name: str) -> Iterator[Any]:
        progress = self._progress if name else Progress()
        waiting: deque[tuple[_Task, Any]] = deque()
        # After an error, the tasks in flight are not canceled: Ray (2.60) can abort this process if a task is canceled
        # at the moment it finishes.
        with stage(progress, name, total):
            for task in tasks:
                waiting.append((task, task.submit()))
                # This bounds both the tasks in flight and the results that wait for an earlier one.
                while len(waiting) > 2 and sum(task.count for task, _ in waiting) > IN_FLIGHT * workers:
                    yield from self._collect(waiting, progress)
            while waiting:
                yield from self._collect(waiting, progress)

    def _collect(self, waiting: deque[tuple[_Task, Any]], progress: Progress) -> list[Any]:
        task, reference = waiting.popleft()
        results: list[Any] = get(self._ray, reference, task.what)
        progress.advance(task.size)
        return results

    def _send(self, base: Rows) -> Any:
        """Put rows into the object store, once: the paths of files, or the numbers of rows in memory."""
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
    """Work to submit: the number of rows, its name in error messages, how to submit it, and how many tasks it has."""

    size: int
    what: str
    submit: Callable[[], Any]
    count: int = 1


def units_per_task(rows: Rows, unit: int, workers: int) -> int:
    """Return the number of units, of `unit` blocks each, per task."""
    blocks = -(-rows.n // rows.block_rows)
    most = max(MOST_BLOCKS, -(-rows.read_at_once // rows.block_rows)) // unit
    return max(1, min(most, blocks // (unit * TASKS_PER_WORKER * workers)))


def _work(
    version: str,
    job: _Job[T],
    base: Rows,
    stretch: Stretch,
    start: int,
    beside: Sequence[NDArray[Any]],
) -> list[T] | Failure:
    """Read a stretch of rows and do the job; this runs on a worker."""
    try:
        check_version(version)
        _limit_threads()
        return job.run(start, _read(stretch, base), beside)
    except CoresiftError as error:
        return Failure(error)


def _pick(
    version: str, function: Callable[[Singles], T], base: Rows, pieces: list[tuple[int, Stretch]]
) -> list[T] | Failure:
    """Read rows by number, piece by piece; this runs on a worker."""
    try:
        check_version(version)
        _limit_threads()
        return [function(_concatenate(_read(picking, base), size)) for size, picking in pieces]
    except CoresiftError as error:
        return Failure(error)


def _join(fold: Fold[T], *runs: list[T] | Failure) -> list[T] | Failure:
    """Join the results of runs; this runs on a worker."""
    for run in runs:
        if isinstance(run, Failure):
            return run
    return list(fold.again(chain.from_iterable(run for run in runs if not isinstance(run, Failure))))


def _concatenate(pieces: Iterable[Singles], size: int) -> Singles:
    blocks = list(pieces)
    if sum(map(len, blocks)) != size:
        raise CoresiftError(f"Rows that {here()} reads have changed since they were opened.")
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def _read(stretch: Stretch, base: Rows) -> Iterator[Singles]:
    try:
        yield from stretch(base)
    except (CoresiftError, OSError) as error:
        raise CoresiftError(f"{here().capitalize()} cannot read its rows: {error}") from None


def _limit_threads() -> None:
    """Limit linear algebra to one thread, as everywhere; a worker does nothing else, so the limit is never lifted."""
    global _limited  # noqa: PLW0603 - once per process
    if not _limited:
        SINGLE_THREADED.__enter__()
        _limited = True


_limited = False
