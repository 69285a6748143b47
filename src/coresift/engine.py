"""Run a function over row blocks: a thread pool here, and a seam where another engine can stand.

A block function sees one block of rows and knows nothing of threads. Blocks are computed alone, with
single-threaded linear algebra, and come back in row order, so a result never depends on how many run at once.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Protocol, TypeVar

from threadpoolctl import threadpool_limits

from coresift.checks import whole
from coresift.progress import Progress, stage
from coresift.rows import Block, Rows
from coresift.types import Singles, Strategy

S = TypeVar("S")
T = TypeVar("T")
BlockFunction = Callable[[int, Singles], T]
# Reads a few blocks itself, with workers for whatever it does side by side, and returns one result a block.
GroupFunction = Callable[["Workers", Sequence[Block]], list[T]]


class Workers(Protocol):
    """Whoever runs block functions while an engine is open."""

    def map(self, rows: Rows, function: BlockFunction[T], *, name: str = "") -> Iterator[T]:
        """Yield function(start, block) for every block of rows, in row order."""
        ...

    def groups(self, rows: Rows, size: int, function: GroupFunction[T], *, name: str = "") -> Iterator[T]:
        """Yield all of function(workers, blocks) for `size` blocks at a time, in row order."""
        ...

    def each(self, items: Sequence[S], function: Callable[[S], T], *, name: str = "") -> Iterator[T]:
        """Yield function(item) for every item, in their order."""
        ...


class Engine(Protocol):
    """Opens workers for the length of one computation."""

    def open(self, progress: Progress) -> AbstractContextManager[Workers]:
        """Return the workers; on leaving, nothing of them stays behind."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Local(Strategy):
    """Threads of this process (`threads`: as many as this process may use cores).

    >>> Local(threads=2)
    Local(threads=2)
    """

    threads: int | None = None

    @contextmanager
    def open(self, progress: Progress) -> Iterator[Workers]:
        """Start the pool, and hold linear algebra to one thread inside each task."""
        count = available_cores() if self.threads is None else whole("threads", self.threads)
        pool = ThreadPoolExecutor(count, thread_name_prefix="coresift")
        with SINGLE_THREADED:
            try:
                yield _Pool(pool, count, progress)
            finally:
                progress.finish()  # an error in a loop over results keeps its stage open
                pool.shutdown(wait=True, cancel_futures=True)


class _Pool:
    def __init__(self, pool: ThreadPoolExecutor, count: int, progress: Progress) -> None:
        self._pool, self._count, self._progress = pool, count, progress

    def map(self, rows: Rows, function: BlockFunction[T], *, name: str = "") -> Iterator[T]:
        tasks = (
            (min(rows.block_rows, rows.n - start), partial(_run, function, start, read))
            for start, read in rows.blocks()
        )
        progress = self._progress if name else Progress()
        with stage(progress, name, rows.n):
            if rows.n <= rows.block_rows:  # a single block needs no other thread
                yield from (task() for _, task in tasks)
            else:
                yield from self._in_order(tasks, progress)

    def groups(self, rows: Rows, size: int, function: GroupFunction[T], *, name: str = "") -> Iterator[T]:
        progress = self._progress if name else Progress()
        with stage(progress, name, rows.n):
            for blocks in _grouped(rows, size):
                yield from function(self, blocks)
                progress.advance(min(size * rows.block_rows, rows.n - blocks[0][0]))

    def each(self, items: Sequence[S], function: Callable[[S], T], *, name: str = "") -> Iterator[T]:
        progress = self._progress if name else Progress()
        with stage(progress, name, len(items)):
            yield from self._in_order(((1, partial(function, item)) for item in items), progress)

    def _in_order(self, tasks: Iterable[tuple[int, Callable[[], T]]], progress: Progress) -> Iterator[T]:
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


class Alone:
    """Workers for a task that is itself one of many: everything in the thread that asks, so that none waits."""

    def map(self, rows: Rows, function: BlockFunction[T], *, name: str = "") -> Iterator[T]:
        """Yield function(start, block) for every block of rows."""
        return (function(start, read()) for start, read in rows.blocks())

    def groups(self, rows: Rows, size: int, function: GroupFunction[T], *, name: str = "") -> Iterator[T]:
        """Yield all of function(workers, blocks) for `size` blocks at a time."""
        for blocks in _grouped(rows, size):
            yield from function(self, blocks)

    def each(self, items: Sequence[S], function: Callable[[S], T], *, name: str = "") -> Iterator[T]:
        """Yield function(item) for every item."""
        return map(function, items)


class _SingleThreadedBlas:
    """Holds linear algebra to one thread while any engine of this process is open; the last one out restores it."""

    def __init__(self) -> None:
        self._lock, self._open = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if self._open == 0:
                self._limits = threadpool_limits(1, user_api="blas")
            self._open += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._open -= 1
            if self._open == 0:
                self._limits.restore_original_limits()


SINGLE_THREADED = _SingleThreadedBlas()


def _grouped(rows: Rows, size: int) -> Iterator[list[Block]]:
    blocks = rows.blocks()
    while some := list(islice(blocks, size)):
        yield some


def _run(function: BlockFunction[T], start: int, read: Callable[[], Singles]) -> T:
    return function(start, read())


def _collect(waiting: deque[tuple[int, Future[T]]], progress: Progress) -> T:
    size, future = waiting.popleft()
    result = future.result()
    progress.advance(size)
    return result


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
