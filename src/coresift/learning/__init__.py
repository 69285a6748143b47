"""Which rows to label next, so that a model learns most: coverage weighted by the model's uncertainty, in rounds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from coresift.audits import Audit
from coresift.checks import named_options, refuse
from coresift.engine import Engine
from coresift.learning.journal import Learned
from coresift.learning.judging import Head, Probabilities
from coresift.learning.questions import LabelQuestion, question_of
from coresift.learning.run import LearningRun
from coresift.learning.steps import AUDIT, ROUNDS, Task, complete, steps
from coresift.oracle import LossesLike, as_oracle
from coresift.progress import Progress
from coresift.rows import NumbersLike, Rows, RowsLike, open_rows
from coresift.rows.numbering import numbers_in_order
from coresift.types import Frame, Provenance, digest

__all__ = ["AUDIT", "ROUNDS", "Audit", "Head", "Learned", "LearningRun", "active_learning", "complete", "steps"]


@named_options
def active_learning(
    rows: RowsLike,
    budget: int,
    *,
    rounds: int = ROUNDS,
    labels: LossesLike | None = None,
    head: Any = None,
    probabilities: Probabilities | None = None,
    audit: float | int | None = AUDIT,
    classes: Iterable[Any] | None = None,
    numeric: bool = False,
    given: Mapping[Any, Any] | None = None,
    exclude: NumbersLike | None = None,
    seed: int = 0,
    state: str | Path | None = None,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> LearningRun:
    """Begin to label rows in rounds, those first from which a model learns most, and return a run.

    The first batch covers all rows. After every further batch a model learns from the labels so far, and the next one
    covers the rows where it is unsure: one minus the margin between its two likeliest classes is a row's importance.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many labels are asked in all, audits included.
        rounds: How many batches there are; fewer where the budget is small.
        labels: Who answers, for `run.complete()`: a callable of row numbers, an array of n labels, a file with row or
            id, and label, or an `Oracle`. Without it, answer by `run.tell`.
        head: A model with `fit` and `predict_proba` (for numbers `fit`, `predict` and `predict_spread`); by default
            logistic regression, or ridge regression for numbers.
        probabilities: Probabilities of your own model instead: a function of the round, the labeled rows and their
            labels, or an n×classes array per round after the first (append to the list before you ask). A run that is
            opened again calls the function anew for its earlier rounds, so it must give the same again.
        audit: How many labels measure the model: a part of the budget, or a number of rows; None for no audit. Where a
            part comes to less than 50 rows, there is none. An audit comes at the end, and one before it for every
            further 50 rows; audit rows teach the model afterwards.
        classes: All classes there are, in the order of the columns of `probabilities`; other labels are refused.
        numeric: Whether labels are numbers; importance is then the spread of a prediction.
        given: Labels that are known already, by row number, or by id as a text; they do not count in the budget.
        exclude: Rows that are not to be asked, and need not be covered: row numbers, or ids as texts.
        seed: The same seed and the same labels give the same batches.
        state: A file that keeps every label. With the same arguments, the same file continues the run, in this process
            or a later one.
        engine: Who runs the row blocks.
        progress: Whether to show bars.
        arguments: What the command line can begin the run again with; kept in a new state file.

    Returns:
        A run. `ask()` returns the rows to label next, `tell(ids, labels)` takes labels (None for "cannot tell"),
        `complete()` does all rounds with `labels`, `result` is the selection, `model` the head so far, and `audits` say
        how good it was on these rows.

    Examples:
        >>> rows = np.random.default_rng(0).normal(size=(200, 2))
        >>> side = np.where(rows[:, 0] > 0, "right", "left")
        >>> run = active_learning(rows, 20, rounds=2)
        >>> while (ids := run.ask()).size:
        ...     run.tell(ids, side[ids])
        >>> run.result
        LearningSelection(20 of 200 rows, 20 labels, seed=0)
        >>> float((run.model.predict(rows) == side).mean()) > 0.9
        True
        >>> active_learning(rows, 20, rounds=2, labels=side).complete() == run.result
        True
    """
    question = question_of(classes=classes, numeric=numeric)
    rows = open_rows(rows)
    known = _given(given, question, rows)
    task = Task.of(
        rows,
        budget,
        rounds=rounds,
        head=head,
        probabilities=probabilities,
        numeric=numeric,
        classes=question.classes,
        audit=audit,
        given=known,
        exclude=exclude,
        seed=seed,
        engine=engine,
        progress=progress,
    )
    provenance = _provenance(task, budget, head, question)
    oracle = as_oracle(labels, question)
    if oracle is not None:
        oracle.verify(rows.n, question, names=rows.names, skip=task.never)
    return LearningRun(task, question, provenance, labels=oracle, state=state, arguments=arguments)


def _given(given: Mapping[Any, Any] | None, question: LabelQuestion, rows: Rows) -> dict[int, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        refuse("given", "a mapping from row numbers or ids to labels", type(given).__name__)
    ids = numbers_in_order("given", list(given), rows)
    labels = question.check(list(given.values()), ids, source="given")
    return dict(zip(ids.tolist(), labels.tolist(), strict=True))


def _provenance(task: Task, budget: int, head: Any, question: LabelQuestion) -> Provenance:
    frame = Frame(task.rows.n, np.array(sorted(task.given), np.int64), task.excluded)
    options = {
        "batches": ", ".join(map(str, task.plan.batches)),
        "audits": ", ".join(map(str, task.plan.audits)),
        "model": _name(head, task),
    }
    if question.classes is not None:
        options["classes"] = json.dumps(question.classes)
    if task.given:
        content = json.dumps(sorted(task.given.items()))
        options["given labels"] = f"{len(task.given)}, digest {digest(np.frombuffer(content.encode(), np.uint8))}"
    made = "active_learning", int(budget), None, frame.record(), None, options
    return Provenance(*made, columns=task.rows.columns, id_column=task.rows.id_name)


def _name(head: Any, task: Task) -> str:
    """Return a name of the model that is the same in every process."""
    if task.model.probabilities is not None:
        return "own probabilities"
    if head is None:
        return "ridge regression" if task.model.numeric else "logistic regression"
    written = repr(head)
    return type(head).__name__ if " at 0x" in written else " ".join(written.split())
