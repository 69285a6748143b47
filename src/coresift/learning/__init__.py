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
from coresift.learning.plan import AUDIT, AuditSize
from coresift.learning.questions import LabelQuestion, question_of
from coresift.learning.run import LearningRun
from coresift.learning.steps import ROUNDS, Task, complete, steps
from coresift.oracle import LossesLike, as_oracle
from coresift.oracle.sources import with_id_column
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
    audit: AuditSize = AUDIT,
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
    """Start a run that asks for labels in rounds, most informative rows first.

    The first batch covers all rows. After each batch a model is fit to the labels so far, and the next batch covers
    the rows where it is unsure: a row's importance is one minus the margin between its two likeliest classes. If the
    rows say little about their classes, as pixels of photos do, some or all of a batch is random (`run.random_share`),
    from kinds of rows that have too few labels so far.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many labels to ask for in total, audits included.
        rounds: How many batches to ask for; fewer if the budget is small.
        labels: Where labels come from, for `run.complete()`: a callable of row numbers, an array of n labels, a file
            with columns row (or id) and label, or an `Oracle`. Without it, answer with `run.tell`.
        head: A model with `fit` and `predict_proba` (for numbers: `fit`, `predict` and `predict_spread`). The default
            is logistic regression, or ridge regression for numbers.
        probabilities: Probabilities from your own model instead: a function of the round, the labeled rows and their
            labels, or an n×classes array per round after the first (append to the list before you ask). A resumed run
            calls the function again for its earlier rounds, so it must return the same values. It is not called for a
            batch that is all random.
        audit: How many labels to spend on measuring the model: a share of the budget, or a number of rows, which must
            come to at least 50 rows; None or 0 for no audit. By default ("auto") a tenth of the budget, or no audit if
            that is fewer than 50 rows. One audit comes at the end, plus an earlier one for every further 50 rows;
            afterward the model learns from the audit rows too.
        classes: All classes, in the order of the columns of `probabilities`; other labels are refused.
        numeric: Whether labels are numbers; importance is then the spread of a prediction.
        given: Labels that you already have, keyed by row number or by id as text; they do not count toward the budget.
        exclude: Rows that must not be asked about and need not be covered: row numbers, or ids as text.
        seed: The same seed and the same labels give the same batches.
        state: A file that keeps every label. Call again with the same arguments and the same file to continue the run,
            in this process or a later one.
        engine: What runs the row blocks.
        progress: Whether to show progress bars.
        arguments: What the command line needs to resume the run; stored in a new state file.

    Returns:
        A run. `ask()` returns the rows to label next, `tell(ids, labels)` takes labels (None for "cannot tell"),
        `complete()` does all rounds with `labels`, `result` is the selection, `model` is the head so far, and `audits`
        says how good it was on these rows.

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
    given_labels = _check_given(given, question, rows)
    task = Task.of(
        rows,
        budget,
        rounds=rounds,
        head=head,
        probabilities=probabilities,
        numeric=numeric,
        classes=question.classes,
        audit=audit,
        given=given_labels,
        exclude=exclude,
        seed=seed,
        engine=engine,
        progress=progress,
    )
    provenance = _provenance(task, budget, head, question)
    oracle = as_oracle(with_id_column(labels, rows.id_name), question)
    if oracle is not None:
        oracle.verify(rows.n, question, names=rows.names, skip=task.never)
    return LearningRun(task, question, provenance, labels=oracle, state=state, arguments=arguments)


def _check_given(given: Mapping[Any, Any] | None, question: LabelQuestion, rows: Rows) -> dict[int, Any]:
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
        "model": _model_name(head, task),
    }
    if question.classes is not None:
        options["classes"] = json.dumps(question.classes)
    if task.given:
        content = json.dumps(sorted(task.given.items()))
        options["given labels"] = f"{len(task.given)}, digest {digest(np.frombuffer(content.encode(), np.uint8))}"
    return Provenance(
        "active_learning",
        int(budget),
        None,
        frame.record(),
        None,
        options,
        **task.rows.origin(),
    )


def _model_name(head: Any, task: Task) -> str:
    """Return a name for the model that is the same in every process: a default repr holds a memory address."""
    if task.model.probabilities is not None:
        return "own probabilities"
    if head is None:
        return "ridge regression" if task.model.numeric else "logistic regression"
    text = repr(head)
    return type(head).__name__ if " at 0x" in text else " ".join(text.split())
