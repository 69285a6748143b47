"""The first five minutes: coresift demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import coresift as cs
from coresift.cli.app import verb
from coresift.cli.flags import (
    Seed,
)
from coresift.cli.showing import show, show_facts, speaking, tell
from coresift.demo import DemoData, load_demo
from coresift.heads import LogisticHead
from coresift.reporting import SUFFIXES
from coresift.tables.writing import check_target
from coresift.types import Ints

# How many questions are labeled, and how many random draws they are compared with.
LABELED, RANDOM_DRAWS = 300, 3
WITHIN = 0.02

LABEL_CODE = """\
    run = cs.active_learning(embeddings, 300)
    while not run.finished:
        ids = run.ask()
        run.tell(ids, labels_from_people(ids))
    model = run.model"""
EVALUATE_CODE = """\
    run = cs.evaluate(
        predictions=model.predict(embeddings),
        signals=cs.signals.from_probabilities(model.predict_proba(embeddings)),
        labels=labels_from_people,
        within=0.02,
    )
    print(run.complete())"""
SUMMARIZE_CODE = """\
    selection = cs.select(embeddings, losses=loss_of, budget=500)
    print(cs.estimate(selection, loss_of(selection.ids)))
    cs.report(selection, "report.html", rows=embeddings)"""


@verb()
@speaking
def demo(
    seed: Seed = 0,
    budget: Annotated[int, typer.Option(help="How many questions to select for the summary.")] = 500,
    out: Annotated[Path, typer.Option(help="Where to write the web page: .html.")] = Path("coresift-demo.html"),
) -> None:
    """Label, evaluate and summarize 10,003 bank customers' questions, and compare with the truth.

    Example: coresift demo --seed 7
    """
    check_target(out, SUFFIXES, "a report")
    data = load_demo()
    model = _label(data, seed)
    _evaluate(data, model, seed)
    _summarize(data, budget, seed, out)


def _label(data: DemoData, seed: int) -> Any:
    """Show how well a model does with chosen labels, and return it."""
    run = cs.active_learning(data.embeddings, LABELED, labels=data.intents, seed=seed)
    chosen = run.complete()
    accuracy = _accuracy(run.model, data, chosen.ids)
    draws = [np.random.default_rng([seed, draw]).choice(chosen.n, LABELED, False) for draw in range(RANDOM_DRAWS)]
    random_accuracy = float(np.mean([_accuracy(_fit(data, ids), data, ids) for ids in draws]))
    intents, random_intents = (len(set(data.intents[ids])) for ids in (chosen.ids, draws[0]))
    tell(labeled=LABELED, accuracy=accuracy, random_accuracy=random_accuracy)
    show_facts(
        f"1. Label. Which {LABELED} of {chosen.n:,} questions teach a model the most?",
        [
            ("accuracy with the chosen questions", f"{accuracy:.1%} on the other {chosen.n - LABELED:,}"),
            ("accuracy with random questions", f"{random_accuracy:.1%}, mean of {RANDOM_DRAWS} draws"),
            ("intents covered", f"{intents} of {len(set(data.intents))}; with random questions {random_intents}"),
        ],
    )
    _show_code(LABEL_CODE)
    return run.model


def _fit(data: DemoData, ids: Ints) -> LogisticHead:
    return LogisticHead().fit(data.embeddings[ids], data.intents[ids])


def _accuracy(model: Any, data: DemoData, training: Ints) -> float:
    """Return the accuracy on the rows that the model was not trained on."""
    others = np.setdiff1d(np.arange(data.losses.size), training)
    return float(np.mean(model.predict(data.embeddings[others]) == data.intents[others]))


def _evaluate(data: DemoData, model: Any, seed: int) -> None:
    """Show how many labels it takes to know the model's accuracy."""
    predicted = model.predict(data.embeddings)
    signals = cs.signals.from_probabilities(model.predict_proba(data.embeddings))
    run = cs.evaluate(predictions=predicted, signals=signals, labels=data.intents, within=WITHIN, seed=seed)
    result = run.complete()
    truth = float(np.mean(predicted == data.intents))
    uniform = _uniform_need(truth, result.half_width, data.losses.size)
    tell(evaluated=result.value, low=result.low, high=result.high, answers=result.asked, uniform_answers=uniform)
    inside = "inside" if result.low <= truth <= result.high else "outside"
    show_facts(
        f"\n2. Evaluate. How accurate is this model on all {data.losses.size:,} questions, ±{100 * WITHIN:g} points?",
        [
            ("estimated accuracy", f"{result.value:.1%}, 95% interval {result.low:.1%} to {result.high:.1%}"),
            ("true accuracy", f"{truth:.1%}, {inside} the interval"),
            ("labels asked", f"{result.asked:,}; a uniform sample needs {uniform:,} for the same width"),
        ],
    )
    _show_code(EVALUATE_CODE)


def _uniform_need(rate: float, within: float, n: int) -> int:
    """Return how many of n rows a uniform sample needs for a 95 % interval of a known rate."""
    infinite = 1.96**2 * rate * (1 - rate) / within**2  # from an infinite population
    return int(np.ceil(infinite / (1 + infinite / n)))


def _summarize(data: DemoData, budget: int, seed: int, out: Path) -> None:
    """Show what a few weighted questions say about all questions, and write the report."""
    import pyarrow as pa

    rows, truth = cs.open_rows(data.embeddings), data.losses.sum()
    clustering = cs.cluster(rows, max(1, budget // 10), seed=seed)
    picked = cs.select(rows, data.losses, budget, seed, clusters=clustering)
    total = cs.estimate(picked, data.losses[picked.ids]).total
    inside = "inside" if total.low <= truth <= total.high else "outside"
    tell(
        selected=len(picked), rows=picked.n, losses_asked=picked.ledger.asked, total=total, truth=truth, wrote=str(out)
    )
    heaviest = int(np.argmax(picked.weights))
    show_facts(
        f"\n3. Summarize. Which {len(picked):,} of {picked.n:,} questions stand for all of them?",
        [
            ("estimated total loss", f"{total.value:,.0f}, 95% interval {total.low:,.0f} to {total.high:,.0f}"),
            ("true total loss", f"{truth:,.0f}, {inside} the interval"),
            ("losses asked to choose them", f"{picked.ledger.asked:,}"),
            ("largest weight", f"{picked.weights[heaviest]:.1f}, for: {data.texts[picked.ids[heaviest]]}"),
        ],
    )
    cs.report(
        picked,
        out,
        rows=rows,
        clustering=clustering,
        losses=data.losses,
        table=pa.table({"text": data.texts.tolist(), "intent": data.intents.tolist()}),
        text="text",
        label="intent",
        title=f"{len(picked):,} of {picked.n:,} bank customers' questions",
    )
    _show_code(SUMMARIZE_CODE)
    show(f"\nTo look at the summary, open {out} in a browser.")


def _show_code(lines: str) -> None:
    show(f"\nOn your own data:\n\n{lines}")
