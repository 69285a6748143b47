"""Drives a job from request to request with the answers so far."""

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
    """Runs a job up to the first row that has no answer, and from the start again where that is needed.

    Args:
        job: Begins the job.
        open: Opens the answers so far when the job asks for the first time; the job continues when more arrive.
        n: How many rows there are.
        limit: The most distinct rows that the job may ask.

    Attributes:
        tally: What the job has asked so far.
        returned: The job's result, in a tuple; empty before its end.

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
        """Forget how far the job has come; it runs again when it is needed, with the answers so far."""
        self._generator: Job[R] | None = None
        self._request: Request | None = None
        self.tally = Tally()
        self.returned: tuple[R] | tuple[()] = ()

    def pending(self) -> Ints:
        """Run the job as far as it can go, and return the rows that it waits for; none at its end."""
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
        """Let the job give the result so far; if it cannot, raise the error. The job can be run again."""
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
        """End the job where it is."""
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
        except StopIteration as end:
            self.returned = (end.value,)
            return
        request = Request(np.asarray(request.ids, np.int64), request.reason, request.round)
        row_numbers("ids", np.unique(request.ids), self._n)
        if self.tally.ledger.asked + self.tally.new(request.ids).size > self._limit:
            raise AnswerError(
                f"The job asks for more than {self._limit} rows, which was to be the most; "
                "this is a bug in coresift, please report it."
            )
        self._generator, self._request = generator, self.tally.note(request)
