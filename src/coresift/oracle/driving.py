"""Drive a job to its end: a job yields requests for answers and returns its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from coresift.checks import InputError
from coresift.oracle import LOSS, Oracle, Question
from coresift.oracle.requests import Job
from coresift.oracle.run import Run
from coresift.progress import Progress
from coresift.rows import Rows

R = TypeVar("R")


def answer(
    steps: Job[R],
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

    Returns:
        The result; if the oracle's `max_cost` is reached, the result so far of a job that can give one.
    """
    with Run(
        lambda: steps,
        rows.n,
        question=question,
        fingerprint=fingerprint,
        names=rows.names,
        oracle=oracle,
        limit=limit,
        progress=progress,
    ) as run:
        if oracle is None and (pending := run.ask().size):
            raise InputError(f"{question.argument} must be given: {pending} rows are to be asked.")
        return run.complete()
