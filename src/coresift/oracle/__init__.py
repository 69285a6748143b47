"""The oracle: what is the loss of these rows? Asked of a dear model, so counted, cached, journalled and retried."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from coresift.checks import CoresiftError, LossError, loss_vector, positive, refuse, row_numbers, whole
from coresift.oracle.journal import Journal
from coresift.oracle.sources import LABEL, LOSS, CallError, Names, Opening, Question, Reader, source_of
from coresift.progress import Progress, stage
from coresift.types import Bools, Floats, Ints, Ledger

__all__ = ["LABEL", "LOSS", "Oracle", "Question", "Session", "Source", "as_oracle"]

Source: TypeAlias = Callable[[Ints], ArrayLike] | ArrayLike | str | Path | None


class Oracle:
    """Answers what the loss of a row is, and never asks its source for the same row twice.

    source: a callable that takes an int64 array of row numbers and returns one loss each; an array with a loss
        for every row, of which only the asked ones need be valid; or a Parquet, CSV or JSONL file with a column
        `loss` and a column `row` (row numbers) or else `id` (the table's own ids, or row numbers if it has none).
        For `select_regression` the answers are labels, any finite numbers, and the file's column is `label`.
    name: what the loss is called, such as the model and its version. A journal is good for one name only.
    journal: a file that keeps every answer, so that a run that was stopped goes on from where it was.
    batch: how many rows a callable is asked for at once. A loss must depend on its row alone, not on its batch.
    retries, pause: how often a callable that raises is tried again, and how many seconds to wait before that.

    `calls` counts how often the source itself was asked (retries too), `answered` how many losses it returned.

    >>> import numpy as np
    >>> oracle = Oracle(lambda rows: rows / 10, name="a tenth of the row number")
    >>> with oracle.session(100, {}, limit=3, progress=Progress()) as session:
    ...     session.ask(np.array([30, 20, 30]), round=1, reason="pilot")
    array([3., 2., 3.])
    >>> oracle.answered, session.ledger.asked
    (2, 2)
    """

    def __init__(
        self,
        source: Source,
        *,
        name: str = "loss",
        journal: str | Path | None = None,
        batch: int = 256,
        retries: int = 2,
        pause: float = 0.0,
    ) -> None:
        if not isinstance(name, str):
            refuse("name", "a text", repr(name))
        if journal is not None and not isinstance(journal, (str, Path)):
            refuse("journal", "the path of a file", repr(journal))
        self._source: Opening = source_of(source)
        self.name = name
        self.journal = None if journal is None else Path(journal)
        self.batch = whole("batch", batch)
        self.retries = whole("retries", retries, least=0)
        self.pause = positive("pause", pause, zero=True)
        self.calls = 0
        self.answered = 0
        self._known: dict[tuple[int, str], _Answers] = {}

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
        """Open the source and the journal for one run over n rows, and close them whatever happens.

        fingerprint: what the run depends on, by part ("rows", "arguments"): a journal is good for one fingerprint,
            and the oracle's own cache for one value of its part "rows".
        limit: the most distinct rows that may be asked.
        names: the table's own ids of the rows with these numbers, or None if it has none.
        question: what is asked, losses or labels.

        >>> import numpy as np
        >>> with Oracle([0.5, 2.0]).session(2, {}, limit=1, progress=Progress()) as session:
        ...     session.ask(np.array([1]), round=1, reason="pilot")
        array([2.])
        """
        reader = self._source.reader(n, names, question)
        # Row numbers mean something within one table only; other arguments do not change what a row's loss is.
        known = self._known.setdefault((n, fingerprint.get("rows", "")), _Answers(n))
        with self._opened_journal(fingerprint, n, question) as journal:
            if journal is not None:
                known.meet(journal)
            yield Session(
                self,
                reader=reader,
                known=known,
                journal=journal,
                limit=limit,
                progress=progress,
                question=question,
            )

    def _opened_journal(
        self, fingerprint: Mapping[str, str], n: int, question: Question
    ) -> AbstractContextManager[Journal | None]:
        if self.journal is None:
            return nullcontext()
        return closing(Journal(self.journal, self.name, fingerprint, n, signed=question.signed))

    def __repr__(self) -> str:
        return f"Oracle({self._source}, name={self.name!r}, answered={self.answered})"


class Session:
    """One run's questions to an oracle: which distinct rows it asked, when and why stands in its `ledger`.

    The ledger counts what the run asked, whoever answered (the callable, a file, the cache or the journal), so
    that a result that is saved does not depend on it.

    >>> import numpy as np
    >>> with Oracle(np.sqrt).session(50, {}, limit=50, progress=Progress()) as session:
    ...     _ = session.ask(np.array([4, 9]), round=1, reason="pilot")
    ...     session.ask(np.array([9, 16]), round=2, reason="check")
    array([3., 4.])
    >>> session.ledger
    Ledger(entries=((1, 'pilot', 2), (2, 'check', 1)))
    """

    def __init__(
        self,
        oracle: Oracle,
        *,
        reader: Reader,
        known: _Answers,
        journal: Journal | None,
        limit: int,
        progress: Progress,
        question: Question,
    ) -> None:
        self.ledger = Ledger()
        self._question = question
        self._oracle, self._reader, self._known = oracle, reader, known
        self._journal, self._limit, self._progress = journal, limit, progress
        self._asked: Bools = np.zeros(known.n, np.bool_)

    def ask(self, ids: Ints, *, round: int, reason: str) -> Floats:
        """Return the losses of the rows with these numbers, in their order; a row may come more than once."""
        ids = np.asarray(ids, dtype=np.int64)
        distinct, first = np.unique(ids, return_index=True)
        row_numbers("ids", distinct, self._known.n)
        ordered = ids[np.sort(first)]
        self._count(ordered, round, reason)
        # The journal holds whole batches in the order asked, so what is left after a stop splits into the same
        # batches as in a run that was never stopped.
        pending = ordered[~self._known.mask[ordered]]
        step = self._oracle.batch if self._oracle._source.batched else max(pending.size, 1)
        with stage(self._progress, f"asking for {self._question.plural}", pending.size):
            for start in range(0, pending.size, step):
                batch = pending[start : start + step]
                losses = _checked(self._reply(batch), batch, self._question)
                self._oracle.answered += batch.size
                if self._journal is not None:
                    self._journal.append(batch, losses)
                self._known.add(batch, losses)
                self._progress.advance(batch.size)
        return self._known.losses[ids]

    def _count(self, rows: Ints, round: int, reason: str) -> None:
        new = rows[~self._asked[rows]]
        total = self.ledger.asked + new.size
        if total > self._limit:
            raise LossError(
                f"The {self._question.plural} of {total} rows were asked, and the limit is {self._limit}; "
                "this is a defect of coresift, please report it."
            )
        if new.size:
            self._asked[new] = True
            self.ledger = Ledger((*self.ledger.entries, (round, reason, new.size)))

    def _reply(self, batch: Ints) -> Any:
        tries = 1 + self._oracle.retries
        for attempt in range(tries):
            if attempt:
                time.sleep(self._oracle.pause)
            self._oracle.calls += 1
            try:
                return self._reader(batch)
            except CallError as failure:
                cause = failure.__cause__
        raise LossError(
            f"The callable for {self._question.plural} failed {_times(tries)} on {_rows(batch)}: "
            f"{_told(cause)}. {self._safe()}"
        ) from cause

    def _safe(self) -> str:
        if self._journal is None:
            return "Its earlier answers live in this process only; with a journal, a later run goes on from there."
        return (
            f"{self._journal.count} answers are safe in the journal {self._journal.path}; "
            "the same call goes on from there."
        )


def as_oracle(answers: Source | Oracle, question: Question = LOSS) -> Oracle | None:
    """Return an oracle for any form of losses or labels: None and an oracle stay what they are.

    >>> as_oracle([0.5, 2.0])
    Oracle(array of 2 numbers, name='loss', answered=0)
    """
    if answers is None:
        return None
    if not isinstance(answers, Oracle):
        source_of(answers, question)  # its sentence names the argument
        answers = Oracle(answers, name=question.column)
    answers._source.check(question)
    return answers


class _Answers:
    """The losses that are known of n rows; zeros that were never written take no memory."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.losses: Floats = np.zeros(n)
        self.mask: Bools = np.zeros(n, np.bool_)

    def add(self, ids: Ints, losses: Floats) -> None:
        self.losses[ids] = losses
        self.mask[ids] = True

    def meet(self, journal: Journal) -> None:
        """Take over the journal's answers, and hand it those that it lacks (its file may have been removed)."""
        lacking = self.mask.copy()
        lacking[journal.ids] = False
        self.add(journal.ids, journal.losses)
        if lacking.any():
            ids = np.flatnonzero(lacking)
            journal.append(ids, self.losses[ids])


def _checked(values: Any, ids: Ints, question: Question) -> Floats:
    try:
        return loss_vector(values, ids, source=question.argument, signed=question.signed)
    except CoresiftError:
        raise
    except Exception as error:  # whatever the conversion of a foreign object to numbers may raise
        raise LossError(
            f"{question.argument} must be numbers, one a row; got {type(values).__name__}, which gave {_told(error)}."
        ) from error


def _told(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(".: ")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _rows(batch: Ints) -> str:
    return f"row {batch[0]}" if batch.size == 1 else f"{batch.size} rows, the first of them row {batch[0]}"
