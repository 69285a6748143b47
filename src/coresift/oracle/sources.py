"""The sources of answers: a callable, an array, or a file. Each provides a function of row numbers."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coresift.answers import AnswerFile
from coresift.checks import refuse, unusable
from coresift.oracle.questions import LOSS, Question
from coresift.types import Ints

__all__ = [
    "LOSS",
    "AnswerSource",
    "ArraySource",
    "CallError",
    "CallableSource",
    "FileSource",
    "Names",
    "Reader",
    "source_of",
    "with_id_column",
]

Names: TypeAlias = Callable[[Ints], Sequence[Any] | None]


class Reader(Protocol):
    """A function of row numbers and a timeout in seconds that returns one answer per row."""

    def __call__(self, ids: Ints, timeout: float | None = None, /) -> Any:
        """Return the reply."""


class CallError(Exception):
    """The user's callable raised or was too slow; `__cause__` is its exception."""


class AnswerSource(Protocol):
    """A source of answers: it checks that it fits n rows, and returns the function that answers.

    Attributes:
        batched: Whether it is expensive, so it is asked for a few rows at a time and each reply is stored.
    """

    batched: ClassVar[bool]

    def check(self, question: Question) -> None:
        """Refuse a question that the source cannot answer, if that is known right away."""

    def verify(self, n: int, names: Names | None, question: Question, skip: Ints) -> None:
        """Check all answers that are already known, except those of rows that are never asked."""

    def reader(self, n: int, names: Names | None, question: Question) -> Reader:
        """Return a function of row numbers that returns one answer per row."""


def source_of(source: Any, question: Question = LOSS) -> AnswerSource:
    """Return `source` as a source of answers; refuse anything that is not one.

    Args:
        source: A callable, plain or async; an array; or the path of a file.
        question: What it will be asked.

    Returns:
        The source.

    Raises:
        InputError: It is none of these.
    """
    if isinstance(source, FileSource):
        return source
    if callable(source):
        return CallableSource(source)
    if isinstance(source, (str, Path)):
        if not Path(source).is_file():
            hint = "" if Path(source).suffix else f"; if it is a column, {question.of_column(source)}"
            refuse(question.argument, question.allowed, f"{str(source)!r}, which is not a file{hint}")
        return FileSource(Path(source))
    if unusable(source):
        refuse(question.argument, question.allowed, unusable(source))
    try:
        array = np.asarray(source)
    except Exception:  # lists of unequal length, or an object that cannot become an array
        refuse(question.argument, question.allowed, type(source).__name__)
    if array.ndim != 1:
        came = f"{type(source).__name__} with shape {array.shape}" if array.ndim else repr(source)
        if isinstance(source, int):
            came += f"; the number of rows to select is budget={source}"
        refuse(question.argument, question.allowed, came)
    return ArraySource(array)


def with_id_column(source: Any, id_column: str | None) -> Any:
    """Return `source`; if it is a file of answers, its ids may be in `id_column`."""
    is_file = isinstance(source, (str, Path)) and Path(source).is_file()
    return FileSource(Path(source), id_column) if is_file and id_column not in (None, "id") else source


@dataclass(frozen=True)
class CallableSource:
    """A callable of row numbers, plain or async."""

    function: Callable[[Ints], Any]
    batched: ClassVar[bool] = True

    def check(self, question: Question) -> None:
        """Do nothing: the answers are not known yet."""

    def verify(self, n: int, names: Names | None, question: Question, skip: Ints) -> None:
        """Do nothing: the answers are not known yet."""

    def reader(self, n: int, names: Names | None, question: Question) -> Reader:
        """Return the callable, whose exceptions become a `CallError`."""

        def call(ids: Ints, timeout: float | None = None) -> Any:
            try:
                return self._reply(ids.copy(), timeout)  # a copy, because the callable may change it
            except Exception as error:
                raise CallError from error

        return call

    def _reply(self, ids: Ints, timeout: float | None) -> Any:
        if self._is_async:
            return _await_reply(self.function(ids), timeout)
        reply = self.function(ids) if timeout is None else _call_with_timeout(timeout, self.function, ids)
        return _await_reply(reply, timeout) if inspect.isawaitable(reply) else reply

    @property
    def _is_async(self) -> bool:
        method = getattr(self.function, "__call__", None)  # noqa: B004 an object with an async __call__
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(method)

    def __str__(self) -> str:
        return f"callable {getattr(self.function, '__name__', type(self.function).__name__)}"


@dataclass(frozen=True, eq=False)
class ArraySource:
    """An array with one answer per row."""

    array: NDArray[Any]
    batched: ClassVar[bool] = False

    def check(self, question: Question) -> None:
        """Do nothing: the number of rows is not known yet."""

    def verify(self, n: int, names: Names | None, question: Question, skip: Ints) -> None:
        """Refuse an array of another length, or with an unusable answer."""
        self._check_length(n, question)
        rows = np.delete(np.arange(n), skip)
        question.check(self.array[rows] if skip.size else self.array, rows)

    def reader(self, n: int, names: Names | None, question: Question) -> Reader:
        """Return a look-up in the array; refuse an array of another length."""
        self._check_length(n, question)
        return lambda ids, timeout=None: self.array.take(ids)

    def _check_length(self, n: int, question: Question) -> None:
        if self.array.size != n:
            refuse(
                question.argument,
                f"one {question.singular} for each of {n} rows",
                f"{self.array.size} {question.singular}s",
            )

    def __str__(self) -> str:
        return f"array of {self.array.size} numbers"


@dataclass(frozen=True)
class FileSource:
    """A Parquet, CSV or JSONL file with answers for some rows; ids may be in `id_column`."""

    path: Path
    id_column: str | None = None
    batched: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._answers()

    def check(self, question: Question) -> None:
        """Refuse a file without the column of the answers."""
        self._answers().require(question.column)

    def verify(self, n: int, names: Names | None, question: Question, skip: Ints) -> None:
        """Refuse a file about other rows, or with an unusable answer; it does not need all rows."""
        answers = self._answers()
        keys, values = answers.answered(question.column, numeric=question.numeric)
        skipped_ids = None if names is None or answers.key == "row" else names(skip)
        source = f"{question.plural} in {self.path}"
        unknown = [] if skipped_ids is not None else [key for key in keys if not key.isdecimal() or int(key) >= n]
        if unknown:
            refuse(source, f"about rows from 0 to {n - 1}", f"row {unknown[0]}")
        skipped = set(map(str, skip.tolist() if skipped_ids is None else skipped_ids))
        asked = np.array([position for position, key in enumerate(keys) if key not in skipped], np.int64)
        question.check(values[asked], asked, source=source, names=[keys[position] for position in asked])

    def reader(self, n: int, names: Names | None, question: Question) -> Reader:
        """Read the file, and return a look-up by row number or by the table's ids."""
        answers = self._answers()
        look_up = answers.numbers(question.column) if question.numeric else answers.labels(question.column)
        source = f"{question.plural} in {self.path}"

        def answers_for(rows: Ints, timeout: float | None = None) -> Any:
            row_ids = names(rows) if names and answers.has(answers.id_column) else None
            values: Any = look_up(rows, row_ids)
            if not question.numeric:  # an empty cell is not a label
                values = [value or None for value in values.tolist()]
            return question.check(values, rows, source=source, names=row_ids if answers.key == "id" else None)

        return answers_for

    def _answers(self) -> AnswerFile:
        return AnswerFile(self.path, id_column=self.id_column)

    def __str__(self) -> str:
        return f"file {str(self.path)!r}"


def _call_with_timeout(timeout: float, function: Callable[[Ints], Any], ids: Ints) -> Any:
    """Return the reply of a call, or stop waiting for it; the call itself cannot be stopped."""
    outcome: list[tuple[bool, Any]] = []

    def call() -> None:
        try:
            outcome.append((True, function(ids)))
        except BaseException as error:
            outcome.append((False, error))

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(timeout)
    if not outcome:
        raise TimeoutError(f"no reply within {timeout:g} seconds")
    returned, value = outcome[0]
    if not returned:
        raise value
    return value


class _Loop:
    """One event loop in its own thread, because clients of an async API are bound to the first loop they use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            # After a fork the thread is gone, and the child needs its own loop.
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
                self._thread.start()
            return self._loop


_LOOP = _Loop()


def _await_reply(reply: Awaitable[Any], timeout: float | None) -> Any:
    """Return the reply of an async callable; this works in any thread, even if another event loop is running."""

    async def limited() -> Any:
        try:
            return await asyncio.wait_for(reply, timeout)
        except TimeoutError:
            raise TimeoutError(f"no reply within {timeout:g} seconds" if timeout else "it timed out") from None

    coroutine: Coroutine[Any, Any, Any] = limited()
    future = asyncio.run_coroutine_threadsafe(coroutine, _LOOP.get())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
