"""Run a job to its end: a job yields requests for answers and returns its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from coresift.checks import InputError
from coresift.oracle import LOSS, Oracle, Question
from coresift.oracle.requests import Job
from coresift.oracle.run import Run
from coresift.progress import Progress
from coresift.rows import Rows
from coresift.types import Ints

R = TypeVar("R")


@dataclass(frozen=True)
class Prepared(Generic[R]):
    """A job that is ready to run.

    Attributes:
        steps: A function that starts the job and returns a generator of requests.
        rows: The rows that the requests refer to by number.
        fingerprint: What the run depends on, by part; called only when something is asked.
        limit: The most distinct rows that may be asked.
        question: What is asked, losses or labels.
        never: The excluded rows, which are never asked.
    """

    steps: Callable[[], Job[R]]
    rows: Rows
    fingerprint: Callable[[], Mapping[str, str]]
    limit: int
    question: Question = LOSS
    never: Ints | None = None

    def run(
        self,
        *,
        oracle: Oracle | None = None,
        state: str | Path | None = None,
        arguments: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Run[R]:
        """Return a run of the job, with answers from an oracle, a state file or the user."""
        return Run(
            self.steps,
            self.rows.n,
            question=self.question,
            fingerprint=self.fingerprint,
            names=self.rows.names,
            oracle=oracle,
            state=state,
            arguments=arguments,
            limit=self.limit,
            never=self.never,
            progress=progress,
        )

    def complete(self, oracle: Oracle | None, progress: Progress) -> R:
        """Let the oracle answer every request, and return the job's result.

        If the oracle's `max_cost` is reached, this is a partial result, if the job has one.
        """
        with self.run(oracle=oracle, progress=progress) as run:
            if oracle is None and (pending := run.ask().size):
                raise InputError(f"{self.question.argument} must be given: {pending} rows need an answer.")
            return run.complete()
