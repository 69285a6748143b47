"""Know a number about all rows, within ± x, from as few answers as possible."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coresift.checks import InputError, named_options, positive, share, whole
from coresift.engine import Engine
from coresift.evaluation.metrics import Context, Mean, Metric, Rate, Total, metric_of
from coresift.evaluation.population import count_rows, fingerprint, opened, population_of
from coresift.evaluation.result import Evaluation, Figure
from coresift.evaluation.run import EvaluationRun
from coresift.evaluation.steps import Task
from coresift.oracle import as_oracle
from coresift.progress import Progress, choose

__all__ = ["Evaluation", "EvaluationRun", "Figure", "Mean", "Metric", "Rate", "Total", "evaluate"]


@named_options
def evaluate(
    rows: Any = None,
    *,
    values: Any = None,
    signals: Any = None,
    n: int | None = None,
    within: float | None = None,
    budget: int | None = None,
    metric: str | Metric = "mean",
    confidence: float = 0.95,
    seed: int = 0,
    state: str | Path | None = None,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> EvaluationRun:
    """Begin to evaluate a number over all rows from answers for few of them, and return a run.

    Args:
        rows: Embeddings of the rows, as `open_rows` takes them, from which answers are predicted; may be left out.
        values: Who answers, for `run.complete()`: a callable of row numbers that returns one number each, an array of
            n numbers of which only the asked ones are looked at, a file, or an `Oracle`. Without it, use `run.tell`.
        signals: Anything known for every row at no cost, as in `select`: a cheap model's loss, a model's own
            confidence (`cs.signals.from_probabilities`), a length, a class.
        n: How many rows there are, if nothing else says so.
        within: The half-width that the interval should have; answers are then asked in three stages.
        budget: How many answers to ask, or the most of them if there is `within`.
        metric: "mean", "total" or "rate" (values from 0 to 1).
        confidence: How probable it is that the interval has the true value in it.
        seed: The same seed and the same answers give the same rows.
        state: A file that keeps every answer. With the same arguments, the same file continues the run.
        engine: What reads the rows.
        progress: Whether to show a progress bar.
        arguments: What the command line can begin the run again with; kept in a new state file.

    Returns:
        A run: `complete()` returns the `Evaluation`; or `ask()` for rows and `tell` their answers until `finished`.

    Examples:
        >>> import numpy as np
        >>> risk = np.random.default_rng(0).beta(1, 9, size=10_000)
        >>> wrong = np.random.default_rng(1).random(10_000) < risk
        >>> found = evaluate(values=wrong, signals=risk, budget=500, metric="rate").complete()
        >>> bool(found.low < wrong.mean() < found.high), found.asked
        (True, 500)
    """
    chosen = metric_of(metric)
    source, known = opened(rows, signals)
    count = count_rows(source, known, None, n if n is not None or rows is not None else _length(values, known))
    context = Context(count)
    if within is None and budget is None:
        raise InputError("evaluate needs within, the half-width to reach, or budget, the number of answers.")
    shown = choose(progress)
    population = population_of(chosen, context, source, known, None, seed, engine, shown)
    task = Task(
        chosen,
        context,
        population,
        None if budget is None else whole("budget", budget),
        None if within is None else positive("within", within),
        share("confidence", confidence),
        seed,
    )
    question = chosen.question(context)
    return EvaluationRun(
        task,
        question,
        lambda: fingerprint(source, population) | {"evaluation": repr((chosen, budget, within, confidence, seed))},
        oracle=as_oracle(values, question),
        names=None if source is None else source.names,
        state=state,
        arguments=arguments,
        progress=shown,
    )


def _length(values: Any, known: Any) -> int | None:
    """Return how many rows an array of values is about, if nothing else says so."""
    return len(values) if known is None and hasattr(values, "__len__") and not isinstance(values, str) else None
