"""A resumable run of any job: people, files or an oracle answer its questions, now or days later."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from coresift.checks import AnswerError, InputError, whole
from coresift.notebook import counted
from coresift.oracle import LossesLike, as_oracle
from coresift.oracle.asking import MaxCostError
from coresift.oracle.book import Book
from coresift.oracle.given_answers import refuse_replacements, row_numbers, rows_with_ids, sort_answers
from coresift.oracle.questions import LOSS, Question
from coresift.oracle.requests import Job
from coresift.oracle.sources import Names
from coresift.oracle.stepping import Driver
from coresift.oracle.store import Answers
from coresift.progress import Progress
from coresift.rows.numbering import ids_in
from coresift.types import Ints, Ledger

R = TypeVar("R")


@dataclass(frozen=True)
class Status:
    """The progress of a run.

    Attributes:
        asked: How many distinct rows the job has asked for so far.
        answered: How many of them have an answer.
        pending: How many do not.
        round: The round of the last request.
        reason: Why its rows were asked.
        cost: What the oracle has spent; 0 if it has no price.
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

    Only the answers are stored. A run that is opened again replays its job with the answers so far, up to the first
    row that has none. The state file is locked while the run waits for answers: until it finishes, until `complete`
    returns or fails, until `close`, or until the end of the `with` block.

    Args:
        job: A function without arguments that starts the job and returns a generator of requests. The job must depend
            on the answers alone.
        n: The number of rows.
        question: What is asked about them.
        fingerprint: What the run depends on, by part, such as digests of the rows and of the arguments. A state file
            belongs to one fingerprint. If this is a function, it is called, and the state file opened, only when the
            job asks for the first time.
        name: A name for the answers; by default the oracle's.
        names: A function from row numbers to the table's ids, or None if it has none.
        oracle: The source that `complete` asks, in any form that `Oracle` accepts.
        state: The state file, which is created if it does not exist; without one, answers stay in this process.
        arguments: The arguments with which the run can be started again (JSON), stored in a new state file.
        limit: The most distinct rows that the job may ask.
        never: Rows that the job never asks, so their answers in an array or a file are not checked.
        progress: Receives the number of answers so far.

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
        self._driver = Driver(job, self._book.read, self._n, self._n if limit is None else limit)
        self._stopped: tuple[R] | tuple[()] = ()  # the partial result of a run that max_cost stopped
        weakref.finalize(self, self._book.close)  # for a run that is never closed

    @property
    def n(self) -> int:
        """The number of rows."""
        return self._n

    @property
    def question(self) -> Question:
        """What is asked about a row."""
        return self._question

    def ask(self, *, as_ids: bool = False) -> Any:
        """Return the rows to answer next; none when the run has finished.

        Args:
            as_ids: Return the table's ids instead of row numbers.

        Returns:
            An array of row numbers, or a list of ids.
        """
        with self._lock:
            pending = self._driver.pending()
            self._release_finished()
            return self._names_of(pending) if as_ids else pending

    def tell(self, ids: Any, answers: Any, *, correct: bool = False, as_ids: bool = False) -> None:
        """Give answers for rows that `ask` returned: some or all of them, in any order, in one call or several.

        Either all answers of a call are stored or, if one of them is unusable, none.

        Args:
            ids: Row numbers as integers, or the table's ids as strings.
            answers: One answer per row. For labels, None means "cannot tell"; NaN is not an answer.
            correct: Whether to replace the answer of a row that has one. The job then runs again, and may ask for
                other rows.
            as_ids: Whether integers are the table's ids too.

        Raises:
            InputError: A row was not asked, or already has another answer.
            AnswerError: An answer is unusable.
        """
        with self._lock:
            self._reopen()
            pending = set(self._driver.pending().tolist())
            as_ids = as_ids or ids_in(ids) is not None
            asked = self._driver.tally.rows
            rows = rows_with_ids(ids, asked, self._names_of(asked)) if as_ids else row_numbers(ids)
            usable = self._question.check(answers, rows, source="answers", names=list(ids) if as_ids else None).tolist()
            known = self._book.read().values
            if not correct:
                refuse_replacements(self._question, known, dict(zip(rows.tolist(), usable, strict=True)), self.names)
            fresh, changed = sort_answers(self._question, known, pending, rows.tolist(), usable)
            updates = changed | fresh
            self._book.open().keep(list(updates), list(updates.values()), correct=bool(changed))
            if changed:
                self._correct()
            self._advance()
            self._release_finished()

    def complete(self, source: LossesLike | None = None) -> R:
        """Let a source answer all remaining questions, and return the result.

        Args:
            source: The source of answers, in any form that `Oracle` accepts; by default the run's own oracle.

        Returns:
            The result; if the oracle's `max_cost` is reached, the job's partial result, if it has one.

        Raises:
            MaxCostError: The oracle's `max_cost` is reached, and the job has no partial result.
        """
        with self._lock:
            try:
                return self._complete(source)
            finally:
                self._book.release()

    def _complete(self, source: LossesLike | None) -> R:
        if not self._driver.pending().size:
            return self.result
        oracle = self._oracle if source is None else as_oracle(source, self._question)
        if source is not None and oracle is not None:
            oracle.verify(self._n, self._question, names=self._names, skip=self._never)
        if oracle is None:
            raise InputError(f"complete needs {self._question.allowed}, or an Oracle; got nothing.")
        answers = self._reopen()
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
        """The job's result; an error if it has not finished."""
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
        """The rows that were asked, in the order in which they were first asked."""
        with self._lock:
            self._driver.pending()
            return self._driver.tally.rows

    @property
    def answers(self) -> dict[int, Any]:
        """The answer of each row that has one, in the order in which they came."""
        with self._lock:
            return dict(self._book.read().values)

    def names(self, ids: Ints) -> list[Any] | None:
        """Return the table's ids of these rows, or None if it has none."""
        names = None if self._names is None else self._names(ids)
        return None if names is None else list(names)

    def status(self) -> Status:
        """Return the run's progress."""
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
        """Close the state file, which has all answers, and release its lock."""
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

    def _reopen(self) -> Answers:
        """Open the answers to add to them; if another run replaced answers in the meantime, the job runs again."""
        before = self._book.read()
        answers = self._book.open()
        if answers is not before and any(
            row not in answers.values or not self._question.same(answers.values[row], answer)
            for row, answer in before.values.items()
        ):
            self._correct()
        return answers

    def _release_finished(self) -> None:
        """Let other runs use the state file as soon as there is nothing left to ask."""
        if self._driver.returned:
            self._book.release()

    def _advance(self) -> None:
        """Let the job continue with the new answers."""
        self._driver.pending()

    def _correct(self) -> None:
        """Make the job run again from the start, because one of its answers was corrected."""
        self._driver.close()
        self._stopped = ()

    def _names_of(self, rows: Ints) -> list[Any]:
        names = self.names(rows)
        if names is None:
            raise InputError("ids must be row numbers, because the rows have no ids; got ids.")
        return names
