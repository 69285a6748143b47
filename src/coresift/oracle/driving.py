"""Drive a job to its end: a job yields requests for answers and returns its result."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TypeVar

from coresift.checks import InputError
from coresift.oracle import LOSS, Oracle, Question
from coresift.progress import Progress
from coresift.rows import Rows
from coresift.types import Floats, Request

R = TypeVar("R")


def answer(
    steps: Generator[Request, Floats, R],
    oracle: Oracle | None,
    rows: Rows,
    fingerprint: Callable[[], Mapping[str, str]],
    limit: int,
    progress: Progress,
    question: Question = LOSS,
) -> R:
    """Answer every request of a job from the oracle, and return the job's result.

    Args:
        steps: The job.
        oracle: Who answers; None where the job asks nothing.
        rows: The rows that the requests number.
        fingerprint: What the run depends on, by part; called only when something is asked.
        limit: The most distinct rows that may be asked.
        progress: Where progress shows.
        question: What is asked, losses or labels.
    """
    try:
        request = next(steps)
    except StopIteration as done:
        result: R = done.value
        return result
    if oracle is None:
        raise InputError(f"{question.argument} must be given: {request.ids.size} rows are to be asked.")
    with oracle.session(rows.n, fingerprint(), limit, progress, rows.names, question) as session:
        while True:
            answers = session.ask(request.ids, round=request.round, reason=request.reason)
            try:
                request = steps.send(answers)
            except StopIteration as done:
                finished: R = done.value
                return finished
