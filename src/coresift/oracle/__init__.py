"""The oracle answers questions about rows. Answers are expensive, so it counts, prices, stores and retries them."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from coresift.checks import InputError, named_options, positive, refuse, whole
from coresift.oracle.asking import MaxCostError, Meter, Pace
from coresift.oracle.journal import Journal
from coresift.oracle.questions import CLASS, LABEL, LOSS, Question
from coresift.oracle.requests import Job
from coresift.oracle.session import Fetcher, Session
from coresift.oracle.sources import AnswerSource, Names, source_of
from coresift.oracle.store import Answers, Cache
from coresift.progress import Progress
from coresift.redaction import redact
from coresift.types import Ints, Request

__all__ = [
    "CLASS",
    "LABEL",
    "LOSS",
    "Job",
    "LossesLike",
    "MaxCostError",
    "Oracle",
    "Question",
    "Request",
    "Session",
    "Source",
    "as_oracle",
]

Source: TypeAlias = Callable[[Ints], Any] | ArrayLike | str | os.PathLike[str]
# Answers stay in memory for this many tables, in addition to those in use.
TABLES = 4


class Oracle:
    """Returns the loss (or the label) of a row, and never asks its source for the same row twice.

    Several threads may share an oracle. If two of them need the same row, one asks and the other waits.

    Args:
        source: A callable, plain or async, that takes an int64 array of row numbers and returns one answer per row; an
            array with one answer per row; or a Parquet, CSV or JSONL file with a column `loss` and a column `row` (row
            numbers) or `id` (the table's ids, or row numbers if it has none). For labels, the column is `label`. Arrays
            and files are checked in full before anything is computed, except for excluded rows; a file does not need
            the rows that are never asked.
        name: A name for the answers, such as the model and its version. A journal belongs to one name.
        journal: A state file that stores every answer, so that a stopped run can continue.
        batch: The number of rows per call. An answer must depend on its row alone, not on its batch.
        retries: How often to retry a call that raised, took too long, or returned unusable answers. If only some
            answers of a reply are unusable, the others are kept, and only the bad ones are asked again. A label that
            is NaN is a gap in the source and is not asked again.
        pause: The number of seconds to wait before each retry.
        cost: The price per row. Every row that is sent counts, even if no usable answer comes back, because most
            services bill those too. Arrays and files cost nothing.
        max_cost: The most to spend, over all runs of this oracle and its journal. When the next row would cost more,
            the run stops with `MaxCostError` (or with a partial result, if its job has one); the same call with a
            larger `max_cost` continues.
        concurrency: The number of calls at a time, each in its own thread.
        per_minute: The most calls per minute, evenly spread.
        timeout: The number of seconds after which a call counts as failed.

    Attributes:
        calls: How often the source was called, retries included.
        answered: How many usable answers it returned.

    Examples:
        >>> import numpy as np
        >>> oracle = Oracle(lambda rows: rows / 10, name="a tenth of the row number", cost=0.02)
        >>> with oracle.session(100, {}, limit=3, progress=Progress()) as session:
        ...     session.ask(np.array([30, 20, 30]), round=1, reason="pilot")
        array([3., 2., 3.])
        >>> oracle.answered, oracle.spent, session.ledger.asked
        (2, 0.04, 2)
    """

    @named_options
    def __init__(
        self,
        source: Source,
        *,
        name: str = "loss",
        journal: str | Path | None = None,
        batch: int = 256,
        retries: int = 2,
        pause: float = 0.0,
        cost: float | None = None,
        max_cost: float | None = None,
        concurrency: int = 1,
        per_minute: float | None = None,
        timeout: float | None = None,
    ) -> None:
        if not isinstance(name, str):
            refuse("name", "a text", repr(name))
        if journal is not None and not isinstance(journal, (str, Path)):
            refuse("journal", "the path of a file", repr(journal))
        if max_cost is not None and cost is None:
            raise InputError("max_cost needs cost, the price per row.")
        self._source: AnswerSource = source_of(source)
        self.name = redact(name)
        self.journal = None if journal is None else Path(journal)
        self.batch = whole("batch", batch)
        self.retries = whole("retries", retries, least=0)
        self.pause = positive("pause", pause, zero=True)
        self.concurrency = whole("concurrency", concurrency)
        self.timeout = None if timeout is None else positive("timeout", timeout)
        self._pace = Pace(None if per_minute is None else positive("per_minute", per_minute))
        self._meter = Meter(
            None if cost is None else positive("cost", cost, zero=True),
            None if max_cost is None else positive("max_cost", max_cost, zero=True),
        )
        self.calls = 0
        self.answered = 0
        self._lock = threading.RLock()
        self._caches: OrderedDict[tuple[int, str, bool], Cache] = OrderedDict()
        self._open: dict[Path, _OpenJournal] = {}

    @property
    def spent(self) -> float:
        """The cost of all rows that were sent, including those of earlier runs with the same journal."""
        return self._meter.spent

    def verify(
        self, n: int, question: Question = LOSS, *, names: Names | None = None, skip: Ints | None = None
    ) -> None:
        """Check all answers of an array or a file; a callable is not called before its answers are needed.

        Args:
            n: The number of rows.
            question: What is asked.
            names: A function from row numbers to the table's ids, or None if it has none.
            skip: Rows that are never asked, so their answers are not checked.

        Raises:
            InputError: The answers are not those of n rows.
            AnswerError: An answer cannot be used.

        Examples:
            >>> Oracle([0.5, -2.0, 1.0]).verify(2)
            Traceback (most recent call last):
                ...
            coresift.errors.InputError: losses must be one number for each of 2 rows; got 3 numbers.
        """
        self._source.verify(n, names, question, np.zeros(0, np.int64) if skip is None else skip)

    @contextmanager
    def session(
        self,
        n: int,
        fingerprint: Mapping[str, str],
        limit: int,
        progress: Progress,
        names: Names | None = None,
        question: Question = LOSS,
    ) -> Iterator[Session]:
        """Open the source and the journal for one run over n rows, and close them in the end.

        Args:
            n: The number of rows.
            fingerprint: What the run depends on, by part ("rows", "arguments"). A journal belongs to one fingerprint,
                and the oracle's cache to one value of the part "rows".
            limit: The most distinct rows that may be asked.
            progress: Receives the number of answers so far.
            names: A function from row numbers to the table's ids, or None if it has none.
            question: What is asked, losses or labels.

        Examples:
            >>> import numpy as np
            >>> with Oracle([0.5, 2.0]).session(2, {}, limit=1, progress=Progress()) as session:
            ...     session.ask(np.array([1]), round=1, reason="pilot")
            array([2.])
        """
        with (
            self.answers(n, fingerprint, question) as answers,
            self.fetcher(n, fingerprint, names, question, answers, progress) as fetcher,
        ):
            yield Session(fetcher, answers, n, limit)

    @contextmanager
    def answers(self, n: int, fingerprint: Mapping[str, str], question: Question) -> Iterator[Answers]:
        """Open the answers of one run, from the journal if there is one; threads of the same run share them."""
        if self.journal is None:
            yield Answers(question)
            return
        path = self.journal
        with self._lock:
            shared = self._open.get(path)
            if shared is None:
                journal = Journal(path, self.name, fingerprint, n, question=question)
                self.meet(journal)
                shared = self._open[path] = _OpenJournal(Answers(question, journal), (n, dict(fingerprint), question))
            elif shared.run != (n, dict(fingerprint), question):
                raise InputError(
                    f"The state file {path} is in use by another run of the same oracle; "
                    "wait until it ends, or give each run an oracle with its own journal."
                )
            shared.users += 1
        try:
            yield shared.answers
        finally:
            with self._lock:
                shared.users -= 1
                if not shared.users:
                    del self._open[path]
                    shared.close()

    @contextmanager
    def fetcher(
        self,
        n: int,
        fingerprint: Mapping[str, str],
        names: Names | None,
        question: Question,
        answers: Answers,
        progress: Progress,
    ) -> Iterator[Fetcher]:
        """Open the source for one run, which stores its answers in `answers`."""
        reader = self._source.reader(n, names, question)
        # A row number is meaningful within one table only; a row's answer does not depend on the other arguments.
        key = (n, fingerprint.get("rows", ""), question.numeric)
        with self._lock:
            cache = self._caches.setdefault(key, Cache())
            self._caches.move_to_end(key)
            cache.users += 1
        try:
            if answers.journal is not None:
                self.meet(answers.journal)
            cache.put(list(answers.values), list(answers.values.values()))
            yield Fetcher(self, reader, question, cache, answers, progress)
        finally:
            with self._lock:
                cache.users -= 1
                self._drop_unused()

    def meet(self, journal: Journal) -> None:
        """Count what earlier processes spent, according to a state file."""
        self._meter.meet(journal)

    def _drop_unused(self) -> None:
        """Drop the answers of the least recently used tables."""
        unused = [key for key, cache in self._caches.items() if not cache.users]
        for key in unused[: max(len(unused) - TABLES, 0)]:
            del self._caches[key]

    def _count(self, *, calls: int = 0, answered: int = 0) -> None:
        with self._lock:
            self.calls += calls
            self.answered += answered

    def __repr__(self) -> str:
        return f"Oracle({self._source}, name={self.name!r}, answered={self.answered})"


class _OpenJournal:
    """The answers in an open journal, the run they belong to, and how many sessions use them."""

    def __init__(self, answers: Answers, run: tuple[int, dict[str, str], Question]) -> None:
        self.answers, self.run, self.users = answers, run, 0

    def close(self) -> None:
        if self.answers.journal is not None:
            self.answers.journal.close()


LossesLike: TypeAlias = Source | Oracle


def as_oracle(answers: LossesLike | None, question: Question = LOSS) -> Oracle | None:
    """Return an oracle for any form of losses or labels; None and an oracle are returned unchanged.

    Examples:
        >>> as_oracle([0.5, 2.0])
        Oracle(array of 2 numbers, name='loss', answered=0)
    """
    if answers is None:
        return None
    if not isinstance(answers, Oracle):
        source_of(answers, question)  # so that an error names the argument
        answers = Oracle(answers, name=question.column)
    answers._source.check(question)
    return answers
