"""Which rows to label next, so that a model learns most: coverage weighted by the model's uncertainty, in rounds."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from coresift.active_learning.journal import Journal, Learned, Reply, Request
from coresift.active_learning.judging import Head, Judgment, Model, Probabilities
from coresift.active_learning.plan import Plan
from coresift.audits import Audit, audit_accuracy, audit_error, draw_audit
from coresift.checks import row_numbers, whole
from coresift.engine import Engine, Local, Workers
from coresift.facility import cover_rows
from coresift.progress import Progress, choose
from coresift.rows import Rows, open_rows
from coresift.types import Ints

__all__ = ["Audit", "Head", "Learned", "Reply", "Request", "complete", "steps"]

# Other streams of a seed belong to clustering, pilot, second draw and baselines.
STREAM = 6
ROUNDS = 8
# Which part of the budget is for audits, where that is at least 50 rows.
AUDIT = 0.1
# Every row keeps this much importance, however sure the model is.
SURE = 0.01


def steps(
    rows: Any,
    budget: int,
    *,
    rounds: int = ROUNDS,
    head: Any = None,
    probabilities: Probabilities | None = None,
    numeric: bool = False,
    classes: Any = None,
    audit: float | int | None = AUDIT,
    labels: dict[int, Any] | None = None,
    exclude: Any = None,
    seed: int = 0,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
) -> Generator[Request, Any, Learned]:
    """Yield requests for labels, take an array of labels (or a `Reply`) for each, and return what was learned.

    The first batch covers all rows. After every further batch a model learns from the labels so far, and the next one
    covers the rows where it is unsure: one minus the margin between its two likeliest classes is a row's importance.
    Everything follows from the arguments and the answers, so a run can be resumed by giving the same answers again.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many labels are asked in all, audits included.
        rounds: How many batches there are; fewer where the budget is small.
        head: A model with `fit` and `predict_proba`; by default logistic regression, ridge regression for numbers.
        probabilities: Probabilities of your own model instead: a function of the round, the labeled rows and their
            labels, or an n×classes array per round after the first.
        numeric: Whether labels are numbers; importance is then the spread of a prediction.
        classes: All classes there are, in the order of the columns of `probabilities`; other labels are refused.
        audit: How many labels measure the model: a part of the budget, or a number of rows; None for no audit. Where it
            is a part and comes to less than 50 rows, there is none. An audit comes at the end, and one before it for
            every further 50 rows; audit rows teach the model afterwards.
        labels: Labels that are known already, by row number; they do not count in the budget.
        exclude: Rows that are not to be asked, and need not be covered.
        seed: Seed of all chance.
        engine: What runs the row blocks.
        progress: Whether to show bars.

    >>> values = np.random.default_rng(0).normal(size=(200, 2))
    >>> run = steps(values, 20, rounds=2)
    >>> next(run).reason
    'coverage'
    >>> learned = complete(steps(values, 20, rounds=2), lambda ids: np.where(values[ids, 0] > 0, "right", "left"))
    >>> len(learned.ids), learned.model.classes_.tolist()
    (20, ['left', 'right'])
    """
    opened = open_rows(rows)
    excluded = row_numbers("exclude", exclude, opened.n)
    plan = Plan.of(
        whole("budget", budget), whole("rounds", rounds), audit, opened.n - excluded.size - len(labels or {})
    )
    model = Model(head, probabilities, numeric, classes)
    journal = Journal(opened.n, excluded, labels or {}, classes)
    tools = (engine or Local(), choose(progress))
    return _run(opened, plan, model, journal, np.random.default_rng([whole("seed", seed, least=0), STREAM]), tools)


def complete(run: Generator[Request, Any, Learned], labels: Callable[[Ints], Any]) -> Learned:
    """Answer all requests of a run by a function of row numbers, and return what was learned."""
    try:
        request = next(run)
        while True:
            request = run.send(labels(request.ids))
    except StopIteration as stop:
        learned: Learned = stop.value
        return learned


def _run(
    rows: Rows,
    plan: Plan,
    model: Model,
    journal: Journal,
    rng: np.random.Generator,
    tools: tuple[Engine, Progress],
) -> Generator[Request, Any, Learned]:
    audits: list[Audit] = []
    for number, (teaching, auditing) in enumerate(zip(plan.batches, plan.audits, strict=True), start=1):
        # Drawn for every round alike, so that no answer changes what later rounds draw.
        own = np.random.default_rng(rng.integers(2**63, size=4))
        if teaching:
            with tools[0].open(tools[1]) as workers:
                ids, reason = _next_batch(rows, teaching, model, journal, number, own, workers, tools[1])
            yield from _ask(ids, reason, number, journal)
        if auditing:
            with tools[0].open(tools[1]) as workers:
                judged = model.judge(rows, journal, number, workers)
            drawn = draw_audit(journal.open(), auditing, own)
            known = journal.labeled()
            yield from _ask(drawn, "audit", number, journal)
            audits.append(_audit(model, judged, known, drawn, journal, own, number, plan.audit_count))
    with tools[0].open(tools[1]) as workers:
        final = model.fitted(rows, journal, plan.rounds + 1, workers) if model.probabilities is None else None
    return journal.result(tuple(audits), final)


def _ask(ids: Ints, reason: str, number: int, journal: Journal) -> Generator[Request, Any, None]:
    reply = yield Request(ids, reason, number)
    journal.write(ids, reason, number, reply if isinstance(reply, Reply) else Reply(reply))


def _next_batch(
    rows: Rows,
    count: int,
    model: Model,
    journal: Journal,
    number: int,
    rng: np.random.Generator,
    workers: Workers,
    progress: Progress,
) -> tuple[Ints, str]:
    """Choose rows that cover all others, or those where the model is unsure once there is one."""
    free = np.zeros(rows.n, np.bool_)
    free[journal.open()] = True
    importance, reason = journal.counted.astype(np.float64), "coverage"
    if model.ready(journal, number):
        unsure = model.judge(rows, journal, number, workers).unsure
        importance *= SURE + (1 - SURE) * unsure
        reason = "uncertainty"
    given = np.sort(journal.labeled()) if journal.labeled().size else None
    chosen = cover_rows(rows, count, workers, rng, importance=importance, given=given, free=free, progress=progress)
    return chosen.ids, reason


def _audit(
    model: Model,
    judged: Judgment,
    known: Ints,
    drawn: Ints,
    journal: Journal,
    rng: np.random.Generator,
    number: int,
    audits: int,
) -> Audit:
    """Compare what a model said about the rows drawn for its audit with their labels."""
    labels = journal.labels(drawn)
    answered = np.array([label is not None for label in labels], np.bool_)
    others = np.concatenate([journal.open(), drawn])
    skipped = int(drawn.size - answered.sum())
    rows = drawn[answered]
    if model.numeric:
        squares = np.square(labels[answered].astype(np.float64) - judged.answer[rows])
        return audit_error(squares, judged.sure[rows], judged.sure[others], known.size, rng, number, skipped, audits)
    right = np.array([judged.answer[row] == label for row, label in zip(rows, labels[answered], strict=True)], np.bool_)
    learned = np.array([a == b for a, b in zip(judged.answer[known], journal.labels(known), strict=True)], np.bool_)
    sure = judged.sure
    return audit_accuracy(right, sure[rows], sure[others], learned, rng, number, skipped, audits)
