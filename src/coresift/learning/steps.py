"""Coverage weighted by a model's uncertainty, in rounds, as a generator of requests."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from coresift.audits import Audit, draw_audit
from coresift.checks import whole
from coresift.engine import Engine, Local
from coresift.facility import Groupings, Nearest, choose_rows
from coresift.learning.auditing import AuditRecord
from coresift.learning.journal import Journal, Learned
from coresift.learning.judging import Model, Probabilities
from coresift.learning.plan import AUDIT, SCHEDULE, AuditSize, Plan, Schedule
from coresift.learning.strata import Strata
from coresift.progress import Progress, choose
from coresift.rows import Rows, open_rows
from coresift.rows.numbering import numbers_of, warn_of_budget
from coresift.streams import Stream, generator
from coresift.types import Floats, Ints, Request

ROUNDS = 8
# The reason of a batch whose rows have different reasons.
MIXED = "mixed"

# Returns the labels that rows had when the last of them was answered.
LabelsThen = Callable[[Ints], Mapping[int, Any]]


@dataclass(frozen=True)
class Task:
    """The checked arguments of active learning; they and the answers determine every question."""

    rows: Rows
    plan: Plan
    model: Model
    given: Mapping[int, Any]
    excluded: Ints
    seed: int
    engine: Engine
    progress: Progress
    schedule: Schedule

    @classmethod
    def of(
        cls,
        rows: Any,
        budget: int,
        *,
        rounds: int,
        head: Any,
        probabilities: Probabilities | None,
        numeric: bool,
        classes: Any,
        audit: AuditSize,
        given: Mapping[int, Any],
        exclude: Any,
        seed: int,
        engine: Engine | None,
        progress: bool | Progress | None,
        schedule: Schedule = SCHEDULE,
    ) -> Task:
        """Check the arguments."""
        opened = open_rows(rows)
        excluded = numbers_of("exclude", exclude, opened)
        Journal(opened.n, excluded, given)
        available = opened.n - excluded.size - len(given)
        plan = Plan.of(whole("budget", budget), whole("rounds", rounds), audit, available, schedule.first)
        model = Model(head, probabilities, numeric, classes)
        seed = whole("seed", seed, least=0)
        warn_of_budget(budget, available)
        opened.warn_of_columns()
        return cls(opened, plan, model, given, excluded, seed, engine or Local(), choose(progress), schedule)

    @property
    def never(self) -> Ints:
        """The rows that are never asked: excluded rows, and rows with given labels."""
        return np.union1d(self.excluded, np.array(sorted(self.given), np.int64))

    def begin(self, labels_then: LabelsThen | None = None) -> Course:
        """Return a run's course, at its start."""
        return Course(self, labels_then)


class Course:
    """The progress of a run: the labels so far, a record for each audit, and the random share of each round's batch.

    Args:
        task: The arguments of the run.
        labels_then: If labels can be corrected: returns the labels of all rows asked so far, as of the last answer.
    """

    def __init__(self, task: Task, labels_then: LabelsThen | None = None) -> None:
        self.task, self._labels_then = task, labels_then
        self.journal = Journal(task.rows.n, task.excluded, task.given)
        self.records: list[AuditRecord] = []
        self.random_shares: dict[int, float] = {}
        self._labeled, self._groupings = Nearest(task.rows), Groupings()

    def steps(self) -> Generator[Request, Any, None]:
        """Yield requests, and receive an array of labels for each."""
        plan = self.task.plan
        for number, (training_rows, audit_rows) in enumerate(zip(plan.batches, plan.audits, strict=True), start=1):
            if training_rows:
                yield from self._ask(*self._next_batch(training_rows, number), number)
            if audit_rows:
                record = self._prepare_audit(audit_rows, number)
                yield from self._ask(record.drawn, ["audit"] * audit_rows, number)
                self.records.append(record)

    def audits(self, labels: Mapping[int, Any]) -> tuple[Audit, ...]:
        """Return the audits so far, given the current labels of rows."""
        count, seed = self.task.plan.audit_count, self.task.seed
        numeric = self.task.model.numeric
        audits = (record.audit(labels, numeric=numeric, audits=count, seed=seed) for record in self.records)
        return tuple(audit for audit in audits if audit is not None)

    def _ask(self, ids: Ints, reasons: Sequence[str], number: int) -> Generator[Request, Any, None]:
        labels = yield Request(ids, reasons[0] if len(set(reasons)) == 1 else MIXED, number)
        self.journal.write(ids, reasons, number, labels)
        if self._labels_then is not None:
            self.journal.correct(self._labels_then(self.journal.asked()))

    def _next_batch(self, count: int, number: int) -> tuple[Ints, list[str]]:
        """Choose rows that cover all others, then random rows; return them, and why each of them is asked.

        Once there is a model, rows where it is unsure count more. The less rows say about their classes, the more of
        the batch is random, and the more these rows make up for the choice of the others.
        """
        task, journal = self.task, self.journal
        if not task.model.ready(journal, number):
            return self._cover(count, number, journal.counted.astype(np.float64)), ["coverage"] * count
        labeled = journal.labeled()
        model = task.model.fit(task.rows, labeled, journal.labels(labeled))
        self.random_shares[number] = share = task.model.random_share(task.rows, journal, model)
        random_count = round(share * count)
        ids = np.zeros(0, np.int64)
        if random_count < count:
            with task.engine.open(task.progress) as workers:
                uncertainty = task.model.judge(task.rows, journal, number, workers, model).uncertainty
            importance = journal.counted * task.schedule.importance(uncertainty)
            ids = self._cover(count - random_count, number, importance)
        reasons = ["uncertainty"] * ids.size + ["random"] * random_count
        if random_count:
            free = np.setdiff1d(journal.open(), ids, assume_unique=True)
            rng = generator(task.seed, Stream.COVER, number, 1)
            ids = np.concatenate([ids, self._strata.draw(random_count, journal.counted, free, share, rng)])
        return ids, reasons

    @cached_property
    def _strata(self) -> Strata:
        """The strata of the rows; they depend only on rows, budget and seed, so a resumed run has the same ones."""
        task = self.task
        with task.engine.open(task.progress) as workers:
            rng = generator(task.seed, Stream.STRATA)
            return Strata.of(task.rows, task.plan.budget, rng, workers, task.progress)

    def _cover(self, count: int, number: int, importance: Floats) -> Ints:
        """Choose rows that, with the labeled ones, cover all others by their importance."""
        task, journal = self.task, self.journal
        rng = generator(task.seed, Stream.COVER, number)
        with task.engine.open(task.progress) as workers:
            free = np.zeros(task.rows.n, np.bool_)
            free[journal.open()] = True
            ids = choose_rows(
                task.rows,
                count,
                workers,
                rng,
                given=np.sort(journal.labeled()),
                distances=self._labeled.distances(journal.labeled(), rng, workers),
                importance=importance,
                free=free,
                factor=task.schedule.factor(number, task.plan.rounds),
                groupings=self._groupings,
                progress=task.progress,
            ).ids
        if ids.size < count:  # duplicates add no coverage, so random rows fill the batch
            others = rng.permutation(np.setdiff1d(journal.open(), ids, assume_unique=True))
            ids = np.concatenate([ids, others[: count - ids.size]])
        return ids

    def _prepare_audit(self, count: int, number: int) -> AuditRecord:
        """Draw the rows of an audit, and record the model's predictions before anyone labels them."""
        task, unlabeled, labeled = self.task, self.journal.open(), self.journal.labeled()
        with task.engine.open(task.progress) as workers:
            judgment = task.model.judge(task.rows, self.journal, number, workers)
        drawn = draw_audit(unlabeled, count, generator(task.seed, Stream.AUDIT, number))
        return AuditRecord.of(number, judgment, labeled, drawn, unlabeled)


def steps(
    rows: Any,
    budget: int,
    *,
    rounds: int = ROUNDS,
    head: Any = None,
    probabilities: Probabilities | None = None,
    numeric: bool = False,
    classes: Any = None,
    audit: AuditSize = AUDIT,
    given: Mapping[int, Any] | None = None,
    exclude: Any = None,
    seed: int = 0,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
    schedule: Schedule = SCHEDULE,
) -> Generator[Request, Any, Learned]:
    """Yield requests for labels, receive an array of labels for each, and return what was learned.

    The arguments are those of `active_learning`, plus the schedule of the rounds. They and the answers determine
    everything, so a run can be resumed by replaying the answers.

    Examples:
        >>> values = np.random.default_rng(0).normal(size=(200, 2))
        >>> next(steps(values, 20, rounds=2)).reason
        'coverage'
        >>> learned = complete(steps(values, 20, rounds=2), lambda ids: np.where(values[ids, 0] > 0, "right", "left"))
        >>> len(learned.ids), learned.model.classes_.tolist()
        (20, ['left', 'right'])
    """
    task = Task.of(
        rows,
        budget,
        rounds=rounds,
        head=head,
        probabilities=probabilities,
        numeric=numeric,
        classes=classes,
        audit=audit,
        given=given or {},
        exclude=exclude,
        seed=seed,
        engine=engine,
        progress=progress,
        schedule=schedule,
    )
    return _learn(task)


def _learn(task: Task) -> Generator[Request, Any, Learned]:
    course = task.begin()
    yield from course.steps()
    journal = course.journal
    labeled = journal.labeled()
    audits = course.audits(dict(zip(labeled.tolist(), journal.labels(labeled), strict=True)))
    return journal.result(audits, task.model.fit(task.rows, labeled, journal.labels(labeled)))


def complete(run: Generator[Request, Any, Learned], labels: Callable[[Ints], Any]) -> Learned:
    """Answer all requests with a function of row numbers, and return what was learned."""
    try:
        request = next(run)
        while True:
            request = run.send(labels(request.ids))
    except StopIteration as stop:
        learned: Learned = stop.value
        return learned
