"""Estimate a number about all rows, within ±x, from as few answers as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coresift.checks import InputError, named_options, refuse, share, whole
from coresift.engine import Engine
from coresift.evaluation.arguments import (
    TARGETS,
    AnswersLike,
    PredictionsLike,
    check_sources,
    context_of,
    count_answers,
    count_predictions,
    listed_wishes,
    names_of,
    wish_of,
)
from coresift.evaluation.choosing import metric_of
from coresift.evaluation.classification import F1, Accuracy, ModelDifference, Precision, Recall
from coresift.evaluation.estimating import Setup
from coresift.evaluation.forecasting import EvaluationPlan
from coresift.evaluation.metrics import Mean, Metric, Rate, Ratio, Total
from coresift.evaluation.population import column_of, count_rows, fingerprint, opened, population_of
from coresift.evaluation.quantiles import Quantile
from coresift.evaluation.result import Evaluation, Figure, Missing
from coresift.evaluation.run import EvaluationRun, EvaluationStatus
from coresift.evaluation.steps import Task
from coresift.oracle import as_oracle
from coresift.oracle.sources import with_id_column
from coresift.progress import Progress, choose
from coresift.rows import ClassesLike, RowsLike, SignalsLike

__all__ = [
    "F1",
    "Accuracy",
    "Evaluation",
    "EvaluationPlan",
    "EvaluationRun",
    "EvaluationStatus",
    "Figure",
    "Mean",
    "Metric",
    "Missing",
    "ModelDifference",
    "Precision",
    "Quantile",
    "Rate",
    "Ratio",
    "Recall",
    "Total",
    "evaluate",
]


@named_options
def evaluate(
    rows: RowsLike | None = None,
    *,
    values: AnswersLike | None = None,
    labels: AnswersLike | None = None,
    predictions: PredictionsLike | None = None,
    signals: SignalsLike | None = None,
    n: int | None = None,
    ids: Sequence[Any] | None = None,
    within: float | Sequence[float] | None = None,
    budget: int | Sequence[int] | None = None,
    metric: str | Metric | None = None,
    confidence: float = 0.95,
    groups: ClassesLike | None = None,
    group_within: float | Mapping[Any, float] | None = None,
    models: Sequence[str] | None = None,
    target: str = "these rows",
    units: ClassesLike | None = None,
    repeats: int = 1,
    anytime: bool = False,
    seed: int = 0,
    state: str | Path | None = None,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> EvaluationRun:
    """Start to estimate a number over all rows from answers for a few of them, and return a run.

    Rows are drawn without replacement. A row is more likely to be drawn if the answers so far, the signals and the rows
    say that its answer is uncertain. The estimate uses their predictions, too. Useless signals cost little.

    Args:
        rows: Embeddings of the rows (anything that `open_rows` takes), which help to predict answers; optional.
        values: The source of answers that are numbers, for `run.complete()`: a callable of row numbers, an array of n
            numbers, a file with the columns row or id (or the id column of the rows), and value, or an `Oracle`. A
            callable gets at most 256 rows per call. With `models`, an answer has one number per model, as a list or a
            mapping. The answer None means that nobody can tell.
        labels: The source of answers that are labels, in the same forms, if `predictions` are evaluated.
        predictions: A model's prediction for every row, or the name of a column of the rows' table; for several models,
            a mapping of names to arrays.
        signals: Anything that you know about every row at no cost, as in `select`: a cheap model's loss, a model's own
            confidence (`cs.signals.from_probabilities`), a length, a class; or names of columns of the rows' table.
        n: The number of rows, if no other argument says it.
        ids: One id per row, for handing in answers; by default the ids of the rows' table.
        within: The half-width that the interval should have; answers are then asked in three stages. To go on with a
            finished run, list what it had and what you want now: `within=[0.03, 0.02]`, with the same state file.
        budget: How many answers to ask; with `within`, the most answers to ask. To go on: `budget=[500, 1000]`.
        metric: For values "mean", "total", "rate" (from 0 to 1), "ratio" (a pair of numbers per row), "median" or
            "p95"; for labels "accuracy", "precision", "recall" or "f1" (with more than two classes
            `cs.evaluation.F1(positive=...)`); for several models also "difference". The default is the mean, or with
            predictions the accuracy.
        confidence: The probability that the interval contains the true value.
        groups: One label per row, or the name of a column of the rows' table; each group gets its own estimate.
        group_within: The half-width that every group should have: one number, or a mapping by group.
        models: The names of models whose values are asked together, on the same rows.
        target: What the number is about: "these rows", or "rows like these", of which these are a sample.
        units: For "rows like these": the unit that was sampled as a whole, such as the document of each row.
        repeats: How many answers each row gets, if answers are random; an answer is then a list of that many numbers.
        anytime: Whether the interval should hold at any time, so that you may look and stop when you like (a confidence
            sequence, Waudby-Smith and Ramdas 2020). It works for the rate, accuracy or precision of one model, needs
            several times the answers, and does not use signals.
        seed: The same seed and the same answers give the same rows.
        state: A file that keeps every answer. With the same arguments, the same file continues the run.
        engine: Where the row blocks are processed: threads, or a Ray cluster.
        progress: Whether to show a progress bar.
        arguments: What the command line needs to continue the run; kept in the state file.

    Returns:
        A run. `complete()` returns the `Evaluation`. Or `ask()` for rows and `tell` their answers until `finished`.

    Examples:
        >>> import numpy as np
        >>> risk = np.random.default_rng(0).beta(1, 9, size=10_000)
        >>> wrong = np.random.default_rng(1).random(10_000) < risk
        >>> result = evaluate(values=wrong, signals=risk, budget=500, metric="rate").complete()
        >>> bool(result.low < wrong.mean() < result.high), result.asked
        (True, 500)
    """
    source, known = opened(rows, signals)
    groups, units = column_of(source, "groups", groups), column_of(source, "units", units)
    predictions = column_of(source, "predictions", predictions)
    if n is None and source is None and known is None and predictions is None and groups is None:
        n = count_answers(values)
    count = count_rows(source, known, count_predictions(predictions), groups, n)
    chosen = metric_of(metric if metric is not None else "mean" if predictions is None else "accuracy")
    context = context_of(count, predictions, models, repeats)
    answers = check_sources(chosen, context, values, labels)
    if target not in TARGETS:
        refuse("target", f"{TARGETS[0]!r} or {TARGETS[1]!r}", repr(target))
    if units is not None and target != TARGETS[1]:
        raise InputError("units needs target='rows like these'.")
    shown = choose(progress)
    seed = whole("seed", seed, least=0)
    population = population_of(chosen, context, source, known, groups, units, seed, engine, shown)
    shares = chosen.ends == (0.0, 1.0) or bool(chosen.labels and context.codes)
    wish = wish_of(within, budget, group_within, population, shares)
    confidence = share("confidence", confidence)
    setup = Setup(chosen, context, population, confidence, target == TARGETS[1], wish.decided)
    question = chosen.question(context)
    oracle = as_oracle(with_id_column(answers, None if source is None else source.id_name), question)
    names = names_of(ids, count) if ids is not None else None if source is None else source.names
    if oracle is not None:
        oracle.verify(count, question, names=names, skip=population.others)
    # A run that goes on has the state file of its first wish.
    first = tuple(next(iter(listed_wishes(value)), None) for value in (budget, within))
    settings = repr((chosen, *first, str(group_within), context.models, confidence, target, repeats, anytime))
    return EvaluationRun(
        Task(setup, wish, seed, bool(anytime)),
        question,
        lambda: fingerprint(source, population) | {"evaluation": settings, "seed": str(seed)},
        oracle=oracle,
        names=names,
        state=state,
        arguments=arguments,
        progress=shown,
    )
