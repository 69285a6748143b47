"""A resumable run of any job: what it asks is answered by people, files or an oracle, now or days later."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import numpy as np

from coresift.checks import AnswerError, InputError, refuse, whole
from coresift.notebook import counted
from coresift.oracle import LossesLike, as_oracle
from coresift.oracle.asking import MaxCostError
from coresift.oracle.book import Book
from coresift.oracle.questions import LOSS, Question
from coresift.oracle.requests import Job
from coresift.oracle.sources import Names
from coresift.oracle.stepping import Driver
from coresift.progress import Progress
from coresift.rows.numbering import ids_in
from coresift.types import Ints, Ledger

R = TypeVar("R")


@dataclass(frozen=True)
class Status:
    """How far a run has come.

    Attributes:
        asked: How many distinct rows the job has asked for so far.
        answered: How many of them have an answer.
        pending: How many do not.
        round: The round of the last request.
        reason: Why its rows were asked.
        cost: What the oracle has spent, 0 without a price.
        finished: Whether there is a result.
    """

    asked: int
    answered: int
    pending: int
    round: int
    reason: str
    cost: float
    finished: bool


class Run(Generic[R]):
    """A job that stops at each question and continues when it is answered, in this process or a later one.

    Nothing but the answers is kept: a run that is opened again runs its job again with the answers so far, up to
    the first row that has none. The state file is locked until `close`, or the end of the `with` block.

    Args:
        job: Begins the job: a function without arguments that returns a generator of requests. What it does must depend
            on the answers alone.
        n: How many rows there are.
        question: What is asked about them.
        fingerprint: What the run depends on, by part, such as the digests of the rows and of the arguments; a state
            file is good for one fingerprint. A function is called when the job has asked for the first time, and only
            then is the state file opened.
        name: What the answers are called, by default as the oracle says.
        names: The table's own ids of the rows with these numbers, or None if it has none.
        oracle: What `complete` asks, in any form that an `Oracle` takes.
        state: The state file, which is made unless it is there; without it answers live in this process only.
        arguments: What the run can be begun again with (JSON), kept in a new state file.
        limit: The most distinct rows that the job may ask.
        never: Rows that it never asks, whatever an array or a file has for them.
        progress: Told how far the answers have come.

    Examples:
        >>> from coresift.oracle import Request
        >>> def job():
        ...     first = yield Request([4, 9], "pilot")
        ...     more = yield Request([int(first.sum())], "check", 2)
        ...     return float(first.sum() + more[0])
        >>> run = Run(job, n=50)
        >>> run.ask()
        array([4, 9])
        >>> run.tell([9], [3.0])
        >>> run.tell([4], [2.0])
        >>> run.ask()
        array([5])
        >>> run.complete(lambda rows: rows / 2)
        7.5
    """

    def __init__(
        self,
        job: Callable[[], Job[R]],
        n: int,
        *,
        question: Question = LOSS,
        fingerprint: Mapping[str, str] | Callable[[], Mapping[str, str]] | None = None,
        name: str | None = None,
        names: Names | None = None,
        oracle: LossesLike | None = None,
        state: str | Path | None = None,
        arguments: Mapping[str, Any] | None = None,
        limit: int | None = None,
        never: Ints | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._n, self._question, self._names, self._never = whole("n", n, least=0), question, names, never
        self._progress, self._oracle = progress or Progress(), as_oracle(oracle, question)
        self._lock = threading.RLock()
        self._book = Book(self._n, question, fingerprint, self._oracle, state, name, arguments)
        self._driver = Driver(job, self._book.open, self._n, self._n if limit is None else limit)
        self._stopped: tuple[R] | tuple[()] = ()  # the result so far of a run that max_cost has stopped
        weakref.finalize(self, self._book.close)  # for a run that is never closed

    # What a user does

    @property
    def n(self) -> int:
        """How many rows there are."""
        return self._n

    @property
    def question(self) -> Question:
        """What is asked about a row."""
        return self._question

    def ask(self, *, as_ids: bool = False) -> Any:
        """Return the rows that are to be answered next; none when the run has finished.

        Args:
            as_ids: Return the table's own ids instead of row numbers.

        Returns:
            An array of row numbers, or a list of ids.
        """
        with self._lock:
            pending = self._driver.pending()
            return self._names_of(pending) if as_ids else pending

    def tell(self, ids: Any, answers: Any, *, correct: bool = False, as_ids: bool = False) -> None:
        """Give answers to rows that `ask` returned: some or all of them, in any order, in one call or several.

        Either all answers of a call are kept or, if one of them cannot be used, none.

        Args:
            ids: Row numbers as whole numbers, or the table's own ids as texts.
            answers: One for each of them. Where labels are asked, None means "cannot tell"; NaN is not an answer.
            correct: Whether a row that has another answer already gets this one; the job then runs again, and what it
                asks differently is asked again.
            as_ids: Whether whole numbers are the table's own ids too.

        Raises:
            InputError: A row was not asked, or has another answer already.
            AnswerError: An answer cannot be used.
        """
        with self._lock:
            pending = set(self._driver.pending().tolist())
            as_ids = as_ids or ids_in(ids) is not None
            rows = self._rows_of(ids) if as_ids else self._numbers(ids)
            told = self._question.check(answers, rows, source="answers", names=list(ids) if as_ids else None).tolist()
            fresh, changed = self._sort(rows.tolist(), told, pending, correct)
            both = changed | fresh
            self._book.open().keep(list(both), list(both.values()), correct=bool(changed))
            if changed:
                self._correct()
            self._advance()

    def complete(self, source: LossesLike | None = None) -> R:
        """Have everything that is asked answered, and return the result.

        Args:
            source: Where answers come from, in any form that an `Oracle` takes; by default the run's own oracle.

        Returns:
            The result; if the oracle's `max_cost` is reached, the job's result so far, if it can give one.

        Raises:
            MaxCostError: The oracle's `max_cost` is reached, and the job has no result so far.
        """
        with self._lock:
            if not self._driver.pending().size:
                return self.result
            oracle = self._oracle if source is None else as_oracle(source, self._question)
            if source is not None and oracle is not None:
                oracle.verify(self._n, self._question, names=self._names, skip=self._never)
            if oracle is None:
                raise InputError(f"complete needs {self._question.allowed}, or an Oracle; got nothing.")
            answers = self._book.open()
            with oracle.fetcher(
                self._n, self._book.fingerprint, self._names, self._question, answers, self._progress
            ) as fetcher:
                self._oracle = oracle
                try:
                    while (ids := self._driver.pending()).size:
                        fetcher.fetch(ids)
                except MaxCostError as error:
                    self._stopped = (self._driver.stop(error),)
                    return self._stopped[0]
            return self.result

    @property
    def result(self) -> R:
        """What the job returned; an error in one sentence if it has not finished."""
        with self._lock:
            if self._stopped and not self._driver.returned:
                return self._stopped[0]
            pending = self._driver.pending().size
            if self._driver.returned:
                return self._driver.returned[0]
            raise AnswerError(f"The run has no result yet: {counted(pending, 'answer')} must come first.")

    @property
    def finished(self) -> bool:
        """Whether the job has returned its result."""
        with self._lock:
            self._driver.pending()
            return bool(self._driver.returned)

    @property
    def ledger(self) -> Ledger:
        """How many distinct rows were asked, by round and reason."""
        with self._lock:
            self._driver.pending()
            return self._driver.tally.ledger

    @property
    def asked(self) -> Ints:
        """The rows that were asked, in the order in which they first were."""
        with self._lock:
            self._driver.pending()
            return self._driver.tally.rows

    def names(self, ids: Ints) -> list[Any] | None:
        """Return the table's own ids of these rows, or None if it has none."""
        found = None if self._names is None else self._names(ids)
        return None if found is None else list(found)

    def status(self) -> Status:
        """Return how far the run has come."""
        with self._lock:
            pending = self._driver.pending().size
            last = self._driver.tally.last
            return Status(
                asked=self._driver.tally.ledger.asked,
                answered=self._driver.tally.ledger.asked - pending,
                pending=pending,
                round=0 if last is None else last.round,
                reason="" if last is None else last.reason,
                cost=0.0 if self._oracle is None else self._oracle.spent,
                finished=bool(self._driver.returned),
            )

    def close(self) -> None:
        """Close the state file, which ends its lock; everything told is in it."""
        with self._lock:
            self._driver.close()
            self._book.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Run({self._book.count} answers{', finished' if self._driver.returned else ''})"

    # What is told

    def _advance(self) -> None:
        """Let the job continue with what it was told."""
        self._driver.pending()

    def _correct(self) -> None:
        """Run the job again, because one of its answers was corrected."""
        self._driver.close()
        self._stopped = ()

    def _numbers(self, ids: Any) -> Ints:
        try:
            rows = np.asarray(ids)
        except ValueError:
            refuse("ids", "a list of row numbers", "lists of unequal length")
        if rows.size and (rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer)):
            refuse("ids", "a list of row numbers", f"an array of {rows.dtype} with shape {rows.shape}")
        return rows.astype(np.int64).ravel()

    def _rows_of(self, ids: Any) -> Ints:
        """Return the numbers of the asked rows that have these ids; 7, "7" and 7.0 are one id."""
        rows = self._driver.tally.rows
        known: dict[str, int] = {}
        for row, name in zip(rows.tolist(), self._names_of(rows), strict=True):
            if known.setdefault(_key(name), row) != row:
                raise InputError(f"The id {name} belongs to several rows that were asked; use row numbers instead.")
        unknown = [name for name in ids if _key(name) not in known]
        if unknown:
            more = f" and {counted(len(unknown) - 1, 'other')}" if len(unknown) > 1 else ""
            raise InputError(f"ids must be rows that were asked; got {unknown[0]!r}{more}.")
        return np.array([known[_key(name)] for name in ids], np.int64)

    def _names_of(self, rows: Ints) -> list[Any]:
        names = self.names(rows)
        if names is None:
            raise InputError("ids must be row numbers, since the rows have no ids of their own; got ids.")
        return names

    def _sort(
        self, rows: Sequence[int], answers: Sequence[Any], pending: set[int], correct: bool
    ) -> tuple[dict[int, Any], dict[int, Any]]:
        """Return the answers that are new and those that replace others, or refuse all of them."""
        fresh: dict[int, Any] = {}
        changed: dict[int, Any] = {}
        known = self._book.open().values
        for row, answer in zip(rows, answers, strict=True):
            if row not in known and row not in pending:
                raise InputError(f"ids must be rows that were asked and are not answered yet; row {row} is not.")
            if row in known and not correct and not self._question.same(known[row], answer):
                raise InputError(
                    f"Row {row} has the answer {known[row]!r} already; with correct=True it gets {answer!r} instead."
                )
            target = changed if row in known else fresh
            if row in target and not self._question.same(target[row], answer):
                raise InputError(f"answers must be one per row; row {row} has {target[row]!r} and {answer!r}.")
            if row not in known or not self._question.same(known[row], answer):
                target[row] = answer
        return fresh, changed


def _key(name: Any) -> str:
    return str(int(name)) if isinstance(name, (float, np.floating)) and float(name).is_integer() else str(name)
