"""A run of active learning: rounds of questions, with its model, audits and labels at any time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.assembly import assemble_chosen
from coresift.audits import Audit
from coresift.checks import InputError
from coresift.heads import LogisticHead, RidgeHead
from coresift.learning.plan import Plan
from coresift.learning.questions import LabelQuestion
from coresift.learning.steps import Course, Task
from coresift.notebook import card, counted
from coresift.oracle import Oracle
from coresift.oracle.requests import Job
from coresift.oracle.run import Run
from coresift.rows.features import Features
from coresift.types import Floats, Frame, Ints, LearningSelection, Provenance, Selection


class LearningRun(Run[LearningSelection]):
    """A run of `active_learning`: `ask` for rows, `tell` their labels, until `finished`.

    A correction (`tell(ids, labels, correct=True)`) counts at once for `model` and `result`. The next batch depends on
    the labels as they were when the last row of the batch before was answered, so a later correction counts for the
    batch after it. A resumed run replays its rounds with the labels in its state file and arrives at the same
    batches.

    Attributes:
        rows: The rows to be labeled.
        numeric: Whether labels are numbers.
        provenance: The arguments of the run.
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
        self._task, self._classes, self.provenance = task, question.classes, provenance
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
            limit=task.plan.budget,
            never=task.never,
            progress=task.progress,
        )
        if state is not None:
            self._book.open()  # the state file of another run is refused at once

    @property
    def result(self) -> LearningSelection:
        """The rows that were asked and those with given labels, with their current labels."""
        with self._lock:
            return self._with_labels(super().result)

    @property
    def labels(self) -> dict[int, Any]:
        """The current label of each row that has one, including given labels, in row order."""
        with self._lock:
            all_labels = dict(self._task.given) | self._book.read().values
            return {row: all_labels[row] for row in sorted(all_labels) if all_labels[row] is not None}

    @property
    def model(self) -> Any:
        """The head, trained on all labels so far; None without labels, or if you supplied `probabilities`.

        The built-in heads read a table's columns by name and standardize them if `rows` were opened with
        `standardize=True`. A head of your own gets numbers, so give it those of `rows`.
        """
        with self._lock:
            labels = self.labels
            if self._fit[0] != labels:
                ids = np.array(list(labels), np.int64)
                values = np.empty(ids.size, object)
                values[:] = list(labels.values())
                model = self._task.model.fit(self.rows, ids, values)
                if isinstance(model, LogisticHead | RidgeHead):
                    model.features = Features.of(self.rows)
                self._fit = (labels, model)
            return self._fit[1]

    def predict(self) -> tuple[NDArray[Any], Floats]:
        """Return what `model` says about every row, and how sure it is.

        Returns:
            The likeliest class of each row and its probability; or, if labels are numbers, the predicted number and
            its standard deviation.
        """
        model = self.model
        if model is None:
            raise InputError("There are no labels to learn from yet; tell the first ones, then predict.")
        with self._task.engine.open(self._task.progress) as workers:
            judgment = self._task.model.apply(model, self.rows, workers)
        return judgment.answer, judgment.confidence

    @property
    def audits(self) -> tuple[Audit, ...]:
        """How good the model was on these rows in each round with an audit, before it saw the audit's labels."""
        with self._lock:
            self._driver.pending()
            return self._course.audits(self.labels)

    @property
    def rounds(self) -> Ints:
        """The round of each row in `asked`."""
        entries = self.ledger.entries
        return np.repeat([number for number, _, _ in entries], [count for _, _, count in entries]).astype(np.int64)

    def __repr__(self) -> str:
        status = self.status()
        progress = (
            "finished" if status.finished else f"round {status.round}: {counted(status.pending, 'label')} to come"
        )
        return f"LearningRun({status.answered} of {self.budget} answers, {progress})"

    def _repr_html_(self) -> str:
        status, audits = self.status(), self.audits
        step = "finished" if status.finished else f"{status.round}, {counted(status.pending, 'label')} to come"
        lines = [("answers", f"{status.answered:,} of {self.budget:,}"), ("round", step)]
        lines += [("last audit", str(audits[-1]))] if audits else []
        return card(f"Active learning on {self.rows.n:,} rows", [*lines, ("seed", str(self.seed))])

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self._task.seed

    @property
    def plan(self) -> Plan:
        """How many rows the batch and the audit of each round have."""
        return self._task.plan

    @property
    def next_audit(self) -> str:
        """When the next audit comes; empty if none does."""
        status = self.status()
        if status.finished or not any(self.plan.audits[status.round - 1 :]):
            return ""
        if status.reason == "audit":
            return f"now, with the {self.plan.audits[status.round - 1]:,} rows that are asked"
        return self.plan.next_audit(status.round)

    @property
    def random_share(self) -> float:
        """The share of this round's batch that is random: above 0 if rows say little about their classes so far."""
        with self._lock:
            self._driver.pending()
            return self._course.random_shares.get(self.status().round, 0.0)

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """All classes, if they were given; other labels are refused."""
        return self._classes

    @property
    def budget(self) -> int:
        """How many rows are asked in total, audits included."""
        return self._task.plan.budget

    def _job(self) -> Job[LearningSelection]:
        self._course = course = self._task.begin(self._labels_then)
        yield from course.steps()
        task = self._task
        frame = Frame(task.rows.n, np.array(sorted(task.given), np.int64), task.excluded)
        selection = assemble_chosen(
            task.rows,
            frame,
            course.journal.asked(),
            provenance=self.provenance,
            seed=task.seed,
            ledger=self._driver.tally.ledger,
        )
        values = {field.name: getattr(selection, field.name) for field in fields(Selection)}
        rounds = np.zeros(task.rows.n, np.int64)
        rounds[course.journal.asked()] = course.journal.rounds()
        return LearningSelection(**values, rounds=rounds[selection.ids], labels=(None,) * len(selection))

    def _with_labels(self, selection: LearningSelection) -> LearningSelection:
        labels = self.labels
        values = {field.name: getattr(selection, field.name) for field in fields(LearningSelection)}
        return LearningSelection(**{**values, "labels": tuple(labels.get(row) for row in selection.ids.tolist())})

    def _advance(self) -> None:
        """Do nothing: `ask` chooses the next batch, so `tell` is fast and the user can add probabilities in between."""

    def _correct(self) -> None:
        """Do nothing: the job takes corrections into account when it chooses its next batch."""

    def _labels_then(self, asked: Ints) -> dict[int, Any]:
        """Return the labels that these rows had when the last of them was answered.

        A later correction belongs to a later batch, also when a resumed run replays its rounds.
        """
        answers = self._book.read()
        original: dict[int, Any] = {}
        for count, row, before in answers.corrections:
            if count >= asked.size:
                original.setdefault(row, before)
        return {row: original[row] if row in original else answers.values[row] for row in asked.tolist()}

    def _fingerprint(self) -> dict[str, str]:
        return {"rows": self.rows.fingerprint(), **self.provenance.lines(), "seed": str(self._task.seed)}
