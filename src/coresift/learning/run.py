"""A run of active learning: rounds of questions, and the model, audits and labels in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from coresift.assembly import assemble_chosen
from coresift.audits import Audit
from coresift.learning.questions import LabelQuestion
from coresift.learning.steps import Course, Task
from coresift.notebook import counted
from coresift.oracle import Oracle
from coresift.oracle.requests import Job
from coresift.oracle.run import Run
from coresift.types import Frame, Ints, LearningSelection, Provenance, Selection


class LearningRun(Run[LearningSelection]):
    """A run of `active_learning`: `ask` for rows, `tell` their labels, until `finished`.

    A correction (`tell(ids, labels, correct=True)`) counts from the next batch on; what was asked stays asked, and no
    label is lost. A run that is opened again goes through its rounds anew with the labels of its state file, and comes
    to the same batches.

    Attributes:
        rows: The rows that labels are asked about.
        numeric: Whether labels are numbers.
        provenance: What the run was begun with.
    """

    def __init__(
        self,
        task: Task,
        question: LabelQuestion,
        provenance: Provenance,
        *,
        labels: Oracle | None = None,
        state: str | Path | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self.rows, self.numeric = task.rows, task.model.numeric
        self._task, self.provenance = task, provenance
        self._course: Course = task.begin()
        self._fit: tuple[Any, Any] = (None, None)
        super().__init__(
            self._job,
            task.rows.n,
            question=question,
            fingerprint=self._fingerprint,
            names=task.rows.names,
            oracle=labels,
            state=state,
            arguments=arguments,
            limit=sum(task.plan.batches) + sum(task.plan.audits),
            never=task.never,
            progress=task.progress,
        )

    @property
    def result(self) -> LearningSelection:
        """The rows that were asked and those whose labels were given, with the labels that they have now."""
        with self._lock:
            return self._with_labels(super().result)

    @property
    def labels(self) -> dict[int, Any]:
        """The label of each row that has one by now, the given ones included, in the order of the rows."""
        with self._lock:
            known = dict(self._task.given) | self._book.open().values
            return {row: known[row] for row in sorted(known) if known[row] is not None}

    @property
    def model(self) -> Any:
        """The head, taught by all labels so far; None without labels, or where `probabilities` are your own."""
        with self._lock:
            labels = self.labels
            if self._fit[0] != labels:
                ids = np.array(list(labels), np.int64)
                values = np.empty(ids.size, object)
                values[:] = list(labels.values())
                self._fit = (labels, self._task.model.fit(self.rows, ids, values))
            return self._fit[1]

    @property
    def audits(self) -> tuple[Audit, ...]:
        """How good the model was in each round that had an audit: on these rows, before it learned from the audit."""
        with self._lock:
            self._driver.pending()
            return self._course.audits(self.labels)

    @property
    def rounds(self) -> Ints:
        """The round of each of the rows in `asked`."""
        entries = self.ledger.entries
        return np.repeat([number for number, _, _ in entries], [count for _, _, count in entries]).astype(np.int64)

    def __repr__(self) -> str:
        now = self.status()
        end = "finished" if now.finished else f"round {now.round}: {counted(now.pending, 'label')} to come"
        return f"LearningRun({now.answered} of {self.budget} answers, {end})"

    @property
    def budget(self) -> int:
        """How many rows are asked in all, audits included."""
        return sum(self._task.plan.batches) + sum(self._task.plan.audits)

    def _job(self) -> Job[LearningSelection]:
        self._course = course = self._task.begin(self._labels_then)
        yield from course.steps()
        task = self._task
        frame = Frame(task.rows.n, np.array(sorted(task.given), np.int64), task.excluded)
        chosen = assemble_chosen(
            task.rows,
            frame,
            course.journal.asked(),
            provenance=self.provenance,
            seed=task.seed,
            ledger=self._driver.tally.ledger,
        )
        parts = {part.name: getattr(chosen, part.name) for part in fields(Selection)}
        rounds = np.zeros(task.rows.n, np.int64)
        rounds[course.journal.asked()] = course.journal.rounds()
        return LearningSelection(**parts, rounds=rounds[chosen.ids], labels=(None,) * len(chosen))

    def _with_labels(self, selection: LearningSelection) -> LearningSelection:
        labels = self.labels
        parts = {part.name: getattr(selection, part.name) for part in fields(LearningSelection)}
        return LearningSelection(**{**parts, "labels": tuple(labels.get(row) for row in selection.ids.tolist())})

    def _advance(self) -> None:
        """Choose the next batch when it is asked: to tell takes no time, and own probabilities may come in between."""

    def _correct(self) -> None:
        """Leave the job where it is: it learns of corrections with its next batch."""

    def _labels_then(self, asked: Ints) -> dict[int, Any]:
        """Return the labels of these rows as they were when the last of them was answered.

        A correction that came later belongs to a later batch, also when the run goes through its rounds anew.
        """
        answers = self._book.open()
        later: dict[int, Any] = {}
        for count, row, before in answers.corrections:
            if count >= asked.size:
                later.setdefault(row, before)
        return {row: later[row] if row in later else answers.values[row] for row in asked.tolist()}

    def _fingerprint(self) -> dict[str, str]:
        return {"rows": self.rows.fingerprint(), **self.provenance.lines(), "seed": str(self._task.seed)}
