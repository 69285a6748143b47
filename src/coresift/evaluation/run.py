"""A run of an evaluation: ask, tell, and the estimate so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coresift.checks import InputError, refuse
from coresift.evaluation.forecasting import EvaluationPlan, forecast
from coresift.evaluation.poststrata import by_group
from coresift.evaluation.result import Evaluation, Figure
from coresift.evaluation.steps import Steps, Task
from coresift.notebook import counted
from coresift.oracle import Oracle
from coresift.oracle.questions import Question
from coresift.oracle.run import Run, Status
from coresift.oracle.sources import Names
from coresift.progress import Progress

INTERIM = "an interim interval from the complete stages; do not stop because of it"
ANYTIME = "an interval that holds at any time; you may stop because of it"


@dataclass(frozen=True)
class EvaluationStatus(Status):
    """How far an evaluation is.

    Attributes:
        interim: The estimate from the complete stages; None before the first stage is complete. Do not use it to
            decide when to stop: if you stop when the interval is short enough, or excludes a value, it is wrong more
            often than it says.
        note: A remark about the interim interval.
    """

    interim: Evaluation | None = None
    note: str = ""


class EvaluationRun(Run[Evaluation]):
    """A run of `evaluate`: `complete()` it, or `ask` for rows and `tell` their answers until `finished`.

    Args:
        task: What is evaluated, and the wanted half-width or budget.
        question: What is asked about a row.
        fingerprint: Digests of the inputs, by name.
        oracle: The source of answers.
        names: The ids of the rows.
        state: The file that keeps every answer.
        arguments: What is needed to continue the run.
        progress: Shows the progress of the answers.
    """

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
        self._task, self._course = task, task.begin()
        super().__init__(
            self._job,
            task.setup.population.n,
            question=question,
            fingerprint=fingerprint,
            names=names,
            oracle=oracle,
            state=state,
            arguments=arguments,
            never=task.setup.population.others,
            progress=progress,
        )
        if state is not None:
            self._book.open()  # the state file of another run is refused at once

    def status(self) -> EvaluationStatus:
        """Return how far the run is, and the estimate from its complete stages."""
        with self._lock:
            now = super().status()
            if now.finished or not len(self._course.sample):
                return EvaluationStatus(**vars(now))
            return EvaluationStatus(**vars(now), interim=self._course.evaluation(), note=self._note)

    @property
    def _note(self) -> str:
        return ANYTIME if self._task.anytime else INTERIM

    def plan(self, *, cost: float | None = None, expected: float | None = None) -> EvaluationPlan:
        """Return how many answers this evaluation will take, from the signals or from its complete stages.

        Args:
            cost: The price per answer.
            expected: Before anything is answered: the rate that you expect, such as the error rate.
        """
        with self._lock:
            wish = self._task.wish
            if wish.group_within.size:
                raise InputError("plan forecasts answers for within or a budget, not for a half-width per group.")
            self._driver.pending()  # a run that was opened again replays its stages first
            return forecast(self._course, wish.within, wish.budget, expected, cost)

    @property
    def wishes(self) -> tuple[float, ...]:
        """The half-widths that the run was asked to reach, one after the other."""
        wish = self._task.wish
        return tuple(each.within for each in (*wish.earlier, wish) if each.within is not None)

    def stages(self) -> tuple[Evaluation, ...]:
        """Return the estimate after each complete stage; the last one is the result if the run is finished."""
        with self._lock:
            self._driver.pending()
            count = len(self._course.sample.counts)
            earlier = tuple(self._course.until(stage).evaluation() for stage in range(1, count))
            if not count:
                return ()
            return (*earlier, self.result if self.finished else self._course.evaluation())

    def widths(self) -> tuple[tuple[int, float], ...]:
        """Return the half-width for several numbers of answers, from those so far to all rows."""
        with self._lock:
            self._driver.pending()
            if not len(self._course.sample) or self._course.sample.complete or self._task.wish.group_within.size:
                return ()
            return forecast(self._course, None, len(self._course.sample), None, None).table

    def by_group(self, groups: Any, sizes: Mapping[Any, int] | None = None) -> dict[str, Figure]:
        """Return the mean of each group, if groups became known with the answers.

        Groups with fewer than 20 answers are merged as "others".

        Args:
            groups: One label for each of `asked`, in that order.
            sizes: The number of rows of each group, if known; the overall mean, under "", is then post-stratified.

        Returns:
            Figures by group, and under "" the overall figure.
        """
        with self._lock:
            asked = self.asked
            labels = [str(label) for label in groups]
            if len(labels) != asked.size:
                refuse("groups", f"one label for each of {asked.size} asked rows", str(len(labels)))
            named = dict(zip(asked.tolist(), labels, strict=True))
            reading = self._course.reading()
            rows = self._task.setup.population.rows[reading.sample.ids]
            return by_group(self._task.setup, reading, [named[row] for row in rows.tolist()], sizes)

    def __repr__(self) -> str:
        now = super().status()
        end = "finished" if now.finished else f"{now.reason}: {counted(now.pending, 'answer')} to come"
        return f"EvaluationRun({now.answered} answers, {end})"

    def _job(self) -> Steps:
        self._course = self._task.begin()
        return self._course.drive(self._task.wish)
