"""Run a function over row blocks: the interface of an engine, and the engine that uses a thread pool.

A block function gets one block of rows and does not depend on threads or on the machine that it runs on. It closes over
other arrays or gets its part of them (`beside`), and it returns its result. Blocks are computed independently, with
single-threaded linear algebra, and results are returned in row order, so they never depend on the number of threads.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from numpy.typing import NDArray
from threadpoolctl import OpenBLASController, ThreadpoolController

from coresift.checks import whole
from coresift.progress import Progress, stage
from coresift.rows import Rows
from coresift.types import Ints, Singles, Strategy

S = TypeVar("S")
T = TypeVar("T")
# A function of a block's first row number, the block, and its part of each array in `beside`.
BlockFunction = Callable[..., T]
# Arrays with one entry per row.
Beside = Sequence[NDArray[Any]]

# How many runs of blocks are folded into one result.
RUNS = 16


@dataclass(frozen=True)
class Fold(Generic[T]):
    """How the results of `size` neighboring blocks (a run) are joined into one, and those of 16 runs into one again.

    Floating-point sums depend on their order. Because this order is fixed, sums can be computed on the machines that
    read the blocks, so little data has to be sent, and the result has the same bytes on every engine.
    """

    join: Callable[[Iterable[T]], T]
    size: int

    def of(self, results: Iterator[T]) -> Iterator[T]:
        """Yield one result per run of blocks."""
        return _by_runs(results, self.size, self.join)

    def again(self, runs: Iterator[T]) -> Iterator[T]:
        """Yield one result per 16 runs."""
        return _by_runs(runs, RUNS, self.join)


def _by_runs(results: Iterator[T], size: int, join: Callable[[Iterable[T]], T]) -> Iterator[T]:
    for first in results:
        yield join(chain([first], islice(results, size - 1)))


class Workers(Protocol):
    """The workers of an open engine, which run block functions."""

    @property
    def here(self) -> Workers:
        """The workers of this process, for data that is already in its memory."""
        ...

    @property
    def count(self) -> int:
        """How many blocks they process at a time."""
        ...

    def map(
        self,
        rows: Rows,
        function: BlockFunction[T],
        *,
        beside: Beside = (),
        fold: Fold[T] | None = None,
        name: str = "",
    ) -> Iterator[T]:
        """Yield function(start, block, *parts of `beside`) for each block in row order; with `fold`, joined results."""
        ...

    def pick(
        self, rows: Rows, pieces: Sequence[Ints], function: Callable[[Singles], T], *, name: str = ""
    ) -> Iterator[T]:
        """Yield function(rows with these numbers) for each piece of ascending row numbers, in order."""
        ...

    def each(self, items: Sequence[S], function: Callable[[S], T], *, name: str = "") -> Iterator[T]:
        """Yield function(item) for each item, in order; it runs in this process."""
        ...


class Engine(Protocol):
    """Opens workers for one computation."""

    @property
    def keep(self) -> str | os.PathLike[str] | None:
        """A folder that stores finished clusterings, or None."""
        ...

    def open(self, progress: Progress) -> AbstractContextManager[Workers]:
        """Return the workers, which are shut down at the end of the `with` block."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Local(Strategy):
    """Threads of this process.

    Args:
        threads: The number of threads; by default, the number of cores that this process may use.

    Examples:
        >>> Local(threads=2)
        Local(threads=2)
    """

    threads: int | None = None
    keep: ClassVar[None] = None

    @contextmanager
    def open(self, progress: Progress) -> Iterator[Workers]:
        """Start the pool, and limit linear algebra to one thread per task."""
        count = available_cores() if self.threads is None else whole("threads", self.threads)
        pool = ThreadPoolExecutor(count, thread_name_prefix="coresift")
        with SINGLE_THREADED:
            try:
                yield _Pool(pool, count, progress)
            finally:
                progress.finish()  # an error in a loop over results leaves its stage open
                pool.shutdown(wait=True, cancel_futures=True)


class _Pool:
    def __init__(self, pool: ThreadPoolExecutor, count: int, progress: Progress) -> None:
        self._pool, self._count, self._progress = pool, count, progress

    @property
    def here(self) -> Workers:
        return self

    @property
    def count(self) -> int:
        return self._count

    def map(
        self,
        rows: Rows,
        function: BlockFunction[T],
        *,
        beside: Beside = (),
        fold: Fold[T] | None = None,
        name: str = "",
    ) -> Iterator[T]:
        results = self._map(rows, function, beside, name)
        return results if fold is None else fold.again(fold.of(results))

    def _map(self, rows: Rows, function: BlockFunction[T], beside: Beside, name: str) -> Iterator[T]:
        tasks = (
            (min(rows.block_rows, rows.n - start), partial(_run, function, start, read, beside))
            for start, read in rows.blocks()
        )
        progress = self._progress if name else Progress()
        with stage(progress, name, rows.n):
            if rows.n <= rows.block_rows:  # for a single block, another thread would only cost time
                yield from (task() for _, task in tasks)
            else:
                yield from self._in_order(tasks, progress)

    def pick(
        self, rows: Rows, pieces: Sequence[Ints], function: Callable[[Singles], T], *, name: str = ""
    ) -> Iterator[T]:
        progress = self._progress if name else Progress()
        with stage(progress, name, sum(map(len, pieces))):
            if len(pieces) == 1:  # a single piece needs no other thread
                yield _pick(rows, pieces[0], function)
            else:
                yield from self._in_order(((len(ids), partial(_pick, rows, ids, function)) for ids in pieces), progress)

    def each(self, items: Sequence[S], function: Callable[[S], T], *, name: str = "") -> Iterator[T]:
        progress = self._progress if name else Progress()
        with stage(progress, name, len(items)):
            yield from self._in_order(((1, partial(function, item)) for item in items), progress)

    def _in_order(self, tasks: Iterable[tuple[int, Callable[[], T]]], progress: Progress) -> Iterator[T]:
        if self._count == 1:  # a single thread would only add overhead
            for size, task in tasks:
                result = task()
                progress.advance(size)
                yield result
            return
        waiting: deque[tuple[int, Future[T]]] = deque()
        try:
            for size, task in tasks:
                waiting.append((size, self._pool.submit(task)))
                # A short queue keeps every thread busy and bounds how many blocks are in memory.
                if len(waiting) > 2 * self._count:
                    yield _collect(waiting, progress)
            while waiting:
                yield _collect(waiting, progress)
        finally:
            for _, future in waiting:
                future.cancel()


class SerialWorkers:
    """Workers that run everything in the calling thread, for a task that runs in a pool and must not wait for it."""

    @property
    def here(self) -> Workers:
        """These workers."""
        return self

    @property
    def count(self) -> int:
        """One block at a time."""
        return 1

    def map(
        self,
        rows: Rows,
        function: BlockFunction[T],
        *,
        beside: Beside = (),
        fold: Fold[T] | None = None,
        name: str = "",
    ) -> Iterator[T]:
        """Yield function(start, block, *parts) for each block of rows; with `fold`, joined results."""
        results = (_run(function, start, read, beside) for start, read in rows.blocks())
        return results if fold is None else fold.again(fold.of(results))

    def pick(
        self, rows: Rows, pieces: Sequence[Ints], function: Callable[[Singles], T], *, name: str = ""
    ) -> Iterator[T]:
        """Yield function(rows with these numbers) for each piece."""
        return (_pick(rows, ids, function) for ids in pieces)

    def each(self, items: Sequence[S], function: Callable[[S], T], *, name: str = "") -> Iterator[T]:
        """Yield function(item) for each item."""
        return map(function, items)


class _SingleThreadedBlas:
    """Limits linear algebra to one thread while any engine of this process is open; the last to close restores it."""

    def __init__(self) -> None:
        self._lock, self._open, self._imported = threading.Lock(), 0, 0

    def __enter__(self) -> None:
        with self._lock:
            if self._open == 0:
                if self._imported != len(sys.modules):  # finding the libraries takes milliseconds
                    self._libraries, self._imported = ThreadpoolController(), len(sys.modules)
                _take_control()
                self._limits = self._libraries.limit(limits=1, user_api="blas")
            self._open += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._open -= 1
            if self._open == 0:
                _take_control()
                self._limits.restore_original_limits()
                _take_control()


def _take_control() -> None:
    """Let this thread set the limit; threadpoolctl 3.8 silently ignores every thread but the last one that set it."""
    clear = getattr(OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


SINGLE_THREADED = _SingleThreadedBlas()


def parts_of(beside: Beside, start: int, stop: int) -> list[NDArray[Any]]:
    """Return each array's entries for rows `start` to `stop`."""
    return [array[start:stop] for array in beside]


def _run(function: BlockFunction[T], start: int, read: Callable[[], Singles], beside: Beside) -> T:
    block = read()
    return function(start, block, *parts_of(beside, start, start + len(block)))


def _pick(rows: Rows, ids: Ints, function: Callable[[Singles], T]) -> T:
    return function(rows.take(ids))


def _collect(waiting: deque[tuple[int, Future[T]]], progress: Progress) -> T:
    size, future = waiting.popleft()
    result = future.result()
    progress.advance(size)
    return result


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
