"""One run's access to an oracle, which answers its questions and counts them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import AnswerError, row_numbers
from coresift.oracle.asking import Asker, Meter, Pace
from coresift.oracle.questions import Question
from coresift.oracle.requests import Tally
from coresift.oracle.sources import Reader
from coresift.oracle.store import Answers, Cache
from coresift.progress import Progress, stage
from coresift.types import Ints, Ledger, Request

if TYPE_CHECKING:
    from coresift.oracle import Oracle


class Fetcher:
    """Asks an oracle for rows, and stores the answers for one run."""

    def __init__(
        self,
        oracle: Oracle,
        reader: Reader,
        question: Question,
        cache: Cache,
        answers: Answers,
        progress: Progress,
    ) -> None:
        self._oracle, self._cache, self._answers, self._progress = oracle, cache, answers, progress
        self.question = question
        self._expensive = oracle._source.batched
        self._progress_lock = threading.Lock()
        self._asker = Asker(
            reader,
            question,
            batch=oracle.batch if self._expensive else 2**62,
            retries=oracle.retries if self._expensive else 0,
            pause=oracle.pause,
            timeout=oracle.timeout if self._expensive else None,
            concurrency=oracle.concurrency if self._expensive else 1,
            meter=oracle._meter if self._expensive else Meter(None, None),
            pace=oracle._pace if self._expensive else Pace(None),
            journal=answers.journal,
            count_call=lambda: oracle._count(calls=1),
            safe=self._safe,
        )

    def fetch(self, ids: Ints) -> None:
        """Ask for these rows; when this returns, each of them has an answer."""
        # The journal has complete batches in the order in which they were asked, so the rows that remain after a stop
        # are split into the same batches as in a run that was never stopped.
        pending = self._answers.missing(ids)
        with stage(self._progress, f"asking for {self.question.plural}", pending.size):
            while pending.size:
                if known := self._cache.known(pending.tolist()):
                    self._answers.keep(list(known), list(known.values()))
                    self._progress.advance(len(known))
                claimed = self._cache.claim(self._answers.missing(pending).tolist())
                if claimed:
                    try:
                        self._asker.fetch(np.array(claimed, np.int64), self._keep)
                    finally:
                        self._cache.release(claimed)
                elif (waiting := self._answers.missing(pending)).size:
                    self._cache.wait(waiting.tolist())
                pending = self._answers.missing(pending)

    def _keep(self, ids: Ints, answers: NDArray[Any]) -> None:
        self._answers.keep(ids, answers)
        self._cache.put(ids, answers)
        self._oracle._count(answered=ids.size)
        with self._progress_lock:
            self._progress.advance(ids.size)

    def _safe(self) -> str:
        journal = self._answers.journal
        if journal is None:
            return "Earlier answers are in this process only; with a state file, a later run could continue from there."
        return f"{journal.count} answers are safe in the state file {journal.path}; the same call continues from there."


class Session:
    """One run's questions to an oracle; the `ledger` counts the distinct rows that it asked, by round and reason.

    The ledger counts rows wherever their answers came from (the callable, a file, the cache or the journal), so saved
    results do not depend on the source.

    Examples:
        >>> import numpy as np
        >>> from coresift.oracle import Oracle
        >>> with Oracle(np.sqrt).session(50, {}, limit=50, progress=Progress()) as session:
        ...     _ = session.ask(np.array([4, 9]), round=1, reason="pilot")
        ...     session.ask(np.array([9, 16]), round=2, reason="check")
        array([3., 4.])
        >>> session.ledger
        Ledger(entries=((1, 'pilot', 2), (2, 'check', 1)))
    """

    def __init__(self, fetcher: Fetcher, answers: Answers, n: int, limit: int) -> None:
        self._fetcher, self._answers, self._n, self._limit = fetcher, answers, n, limit
        self._tally = Tally()

    @property
    def ledger(self) -> Ledger:
        """How many distinct rows were asked, by round and reason."""
        return self._tally.ledger

    def ask(self, ids: Ints, *, round: int, reason: str) -> Any:
        """Return the answers for these rows, in the order of `ids`, which may repeat."""
        request = Request(np.asarray(ids, np.int64), reason, round)
        row_numbers("ids", np.unique(request.ids), self._n)
        total = self.ledger.asked + self._tally.new(request.ids).size
        if total > self._limit:
            raise AnswerError(
                f"The {self._fetcher.question.plural} of {total} rows were asked, but the limit is {self._limit}; "
                "this is a bug in coresift, please report it."
            )
        self._tally.note(request)
        self._fetcher.fetch(request.ids)
        return self._answers.get(request.ids)
