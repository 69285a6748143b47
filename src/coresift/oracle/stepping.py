"""Drive a job from request to request with the answers so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from coresift.checks import AnswerError, row_numbers
from coresift.oracle.asking import MaxCostError
from coresift.oracle.requests import Job, Tally
from coresift.oracle.store import Answers
from coresift.types import Ints, Request

R = TypeVar("R")


class Driver(Generic[R]):
    """Runs a job up to the first row that has no answer, and again from the start if that is needed.

    Args:
        job: A function that starts the job.
        open: A function that opens the answers so far, called when the job asks for the first time.
        n: The number of rows.
        limit: The most distinct rows that the job may ask.

    Attributes:
        tally: Counts what the job has asked so far.
        returned: The job's result, in a tuple, which is empty before the job ends.

    Examples:
        >>> from coresift.oracle.questions import LOSS
        >>> def job():
        ...     return (yield Request([4, 9], "pilot")).tolist()
        >>> answers = Answers(LOSS)
        >>> driver = Driver(job, lambda: answers, n=50, limit=50)
        >>> driver.pending()
        array([4, 9])
        >>> answers.keep([9, 4], [3.0, 2.0])
        >>> driver.pending(), driver.returned
        (array([], dtype=int64), ([2.0, 3.0],))
    """

    def __init__(self, job: Callable[[], Job[R]], open: Callable[[], Answers], n: int, limit: int) -> None:
        self._job, self._open, self._n, self._limit = job, open, n, limit
        self.restart()

    def restart(self) -> None:
        """Discard the job's progress; it is replayed with the answers so far when it is needed."""
        self._generator: Job[R] | None = None
        self._request: Request | None = None
        self.tally = Tally()
        self.returned: tuple[R] | tuple[()] = ()

    def pending(self) -> Ints:
        """Run the job as far as possible, and return the rows that it waits for; none when it has finished."""
        if not self.returned and self._generator is None:
            self.restart()
            self._generator = self._job()
            self._step(next)
        while self._request is not None:
            answers = self._open()
            missing = answers.missing(self._request.ids)
            if missing.size:
                return missing
            self._send(answers.get(self._request.ids))
        return np.zeros(0, np.int64)

    def stop(self, error: MaxCostError) -> R:
        """Return the job's partial result; raise the error if it has none. The job can be run again."""
        request, generator = self._request, self._generator
        if request is None or generator is None:
            raise error
        answers = self._open()
        known = request.ids[~np.isin(request.ids, answers.missing(request.ids))]
        error.ids, error.answers = known, answers.get(known)
        self.restart()
        try:
            generator.throw(error)
        except StopIteration as end:
            result: R = end.value
            return result
        generator.close()
        raise error

    def close(self) -> None:
        """Stop the job."""
        if self._generator is not None:
            self._generator.close()
        self.restart()

    def _send(self, answers: Any) -> None:
        self._step(lambda generator: generator.send(answers))

    def _step(self, step: Callable[[Job[R]], Request]) -> None:
        """Let the job take one step; if it fails, the next call runs it from the start."""
        generator, self._generator, self._request = self._generator, None, None
        assert generator is not None
        try:
            request = step(generator)
        except StopIteration as stop:
            self.returned = (stop.value,)
            return
        request = Request(np.asarray(request.ids, np.int64), request.reason, request.round)
        row_numbers("ids", np.unique(request.ids), self._n)
        if self.tally.ledger.asked + self.tally.new(request.ids).size > self._limit:
            raise AnswerError(
                f"The job asks for more rows than its limit of {self._limit}; "
                "this is a bug in coresift, please report it."
            )
        self._generator, self._request = generator, self.tally.note(request)
