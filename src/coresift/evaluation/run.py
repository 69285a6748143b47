"""A run of an evaluation: ask, tell, and what the answers say so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from coresift.evaluation.result import Evaluation
from coresift.evaluation.steps import Task
from coresift.notebook import counted
from coresift.oracle import Oracle
from coresift.oracle.questions import Question
from coresift.oracle.run import Run
from coresift.oracle.sources import Names
from coresift.progress import Progress


class EvaluationRun(Run[Evaluation]):
    """A run of `evaluate`: `complete()` it, or `ask` for rows and `tell` their answers until `finished`."""

    def __init__(
        self,
        task: Task,
        question: Question,
        fingerprint: Callable[[], Mapping[str, str]],
        *,
        oracle: Oracle | None = None,
        names: Names | None = None,
        state: str | Path | None = None,
        arguments: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._task = task
        super().__init__(
            task.steps,
            task.population.n,
            question=question,
            fingerprint=fingerprint,
            names=names,
            oracle=oracle,
            state=state,
            arguments=arguments,
            progress=progress,
        )

    def __repr__(self) -> str:
        now = self.status()
        end = "finished" if now.finished else f"{now.reason}: {counted(now.pending, 'answer')} to come"
        return f"EvaluationRun({now.answered} answers, {end})"
