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
from coresift.reporting import SUFFIXES
from coresift.tables.writing import check_target


@verb()
@speaking
def demo(
    seed: Seed = 0,
    budget: Annotated[int, typer.Option(help="How many questions to select.")] = 500,
    out: Annotated[Path, typer.Option(help="Where to write a page to look at: .html.")] = Path("coresift-demo.html"),
) -> None:
    """Select from 10,003 bank customers' questions, and compare with the truth.

    Example: coresift demo --seed 7
    """
    import pyarrow as pa

    from coresift.demo import load_demo

    check_target(out, SUFFIXES, "a report")
    data = load_demo()
    rows, truth = cs.open_rows(data.embeddings), data.losses.sum()
    clustering = cs.cluster(rows, max(1, budget // 10), seed=seed)
    picks = [cs.select(rows, data.losses, budget, seed + turn, clusters=clustering) for turn in range(21)]
    totals = [cs.estimate(picked, data.losses[picked.ids]).total for picked in picks]
    picked, total = picks[0], totals[0]
    uniform = np.random.default_rng(seed).choice(picked.n, len(picked), replace=False)
    covered, by_uniform = (len(set(data.intents[ids])) for ids in (picked.ids, uniform))
    hits = [one.low <= truth <= one.high for one in totals]
    error = np.sqrt(np.mean([(one.value / truth - 1) ** 2 for one in totals[1:]]))
    tell(
        selected=len(picked), rows=picked.n, losses_asked=picked.ledger.asked, total=total, truth=truth, wrote=str(out)
    )
    tell(seeds=len(hits) - 1, intervals_with_truth=sum(hits[1:]), error=error)
    tell(uniform_error=_uniform_error(data.losses, len(picked)), intents_covered=covered, by_uniform=by_uniform)
    show_facts(
        f"Which {len(picked):,} of {picked.n:,} bank customers' questions stand for all of them?",
        [
            ("losses asked to choose them", f"{picked.ledger.asked:,}"),
            ("estimated total loss", f"{total.value:,.0f}, 95% interval {total.low:,.0f} to {total.high:,.0f}"),
            ("true total loss", f"{truth:,.0f}, {'inside' if hits[0] else 'outside'} the interval"),
            ("with 20 other seeds", f"{sum(hits[1:])} intervals hold the truth; typical error {error:.1%}"),
            ("a uniform sample's typical error", f"{_uniform_error(data.losses, len(picked)):.1%}"),
            ("intents covered", f"{covered} of {len(set(data.intents))}, by a uniform sample {by_uniform}"),
        ],
    )
    weights = picked.weights
    heaviest = np.argsort(-weights, kind="stable")[:3]
    lines = [(f"stands for {weights[place]:.1f}", str(data.texts[picked.ids[place]])) for place in heaviest]
    show_facts("\nThe questions with the largest weights", lines)
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
    show(f"\nTo look at it, open {out} in a browser.")


def _uniform_error(values: Any, size: int) -> float:
    """Return the exact relative standard error of a total from a uniform sample without replacement."""
    return float(np.sqrt((1 - size / values.size) / size) * values.std(ddof=1) / values.mean())
