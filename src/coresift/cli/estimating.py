"""The commands that estimate something about all rows from a selection."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import coresift as cs
from coresift.answers import AnswerFile
from coresift.cli.app import verb
from coresift.cli.files import explaining, load_weighted, numbers_of
from coresift.cli.flags import (
    Confidence,
    Estimator,
    Predictions,
    SelectionPath,
)
from coresift.cli.parsing import load_clusters, parse_estimator
from coresift.cli.showing import show, show_table, show_warning, speaking, tell
from coresift.notebook import interval_texts
from coresift.reporting.facts import plain

ALL_ROWS = "needs the numbers of all selected rows, not only of those that were asked first."


@verb()
@speaking
def estimate(
    selection: SelectionPath,
    values: Annotated[Path, typer.Option(help="File with the columns row or id, and columns of numbers.")],
    column: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Which column; can be repeated (by default loss).")
    ] = None,
    group: Annotated[str | None, typer.Option(metavar="NAME", help="Column of groups: estimate each one.")] = None,
    confidence: Confidence = 0.95,
    predictions: Predictions = None,
    estimator: Estimator = None,
) -> None:
    """Estimate totals and means over all rows, with intervals.

    Example: coresift estimate picked.parquet --values losses.csv --column loss
    """
    picked = load_weighted(selection)
    answers, method = (
        AnswerFile(values, id_column=picked.provenance.id_column),
        parse_estimator(picked.n, predictions, estimator),
    )
    with explaining(f"An estimate {ALL_ROWS}"):
        vectors = {name: numbers_of(answers, name, picked) for name in column or ["loss"]}
    labels = None if group is None else answers.labels(group)(picked.ids, picked.names)
    estimates = cs.estimate(picked, vectors, groups=labels, confidence=confidence, method=method)
    entries = [(name, label, part) for name in estimates for label, part in _by_label(estimates[name]).items()]
    lines = [{"column": name, "group": label, "total": part.total, "mean": part.mean} for name, label, part in entries]
    tell(estimates=lines if group else [{k: v for k, v in line.items() if k != "group"} for line in lines])
    tell(confidence=confidence, selected=len(picked), population=picked.population)
    interval = f"{100 * confidence:.6g}% interval"
    show_table(
        ("column", *([group] if group else []), "total", interval, "mean", interval),
        [
            (name, *([label or "(none)"] if group else []), *_cells(part.total), *_cells(part.mean))
            for name, label, part in entries
        ],
    )
    if entries:
        size = entries[0][2].effective_size
        tell(effective_size=size)
        show(f"{len(picked):,} rows stand for {picked.population:,}; they are worth {size:,.0f} rows of equal weight.")
    for remark in dict.fromkeys(remark for *_, part in entries for remark in part.warnings):
        show_warning(remark)


@verb()
@speaking
def certify(
    selection: SelectionPath,
    losses: Annotated[Path, typer.Option(help="File with the columns row or id, and loss, for all selected rows.")],
    upper: Annotated[float | None, typer.Option(help="A number that no row's loss exceeds, selected or not.")] = None,
    clusters: Annotated[Path | None, typer.Option(help="The clustering, for the conditional part: .npz.")] = None,
    holder: Annotated[float | None, typer.Option(help="With --clusters: Λ (by default the selection's own).")] = None,
    epsilon: Annotated[float, typer.Option(help="The error that the theorem should guarantee.")] = 0.1,
    delta: Annotated[float, typer.Option(help="The probability of a larger error.")] = 0.05,
    confidence: Confidence = 0.95,
    predictions: Predictions = None,
    estimator: Estimator = None,
) -> None:
    """Show how far off the estimated total loss can be, and under which assumptions.

    Example: coresift certify picked.parquet --losses losses.csv
    """
    picked = load_weighted(selection)
    with explaining(f"A certificate {ALL_ROWS}"):
        values = numbers_of(AnswerFile(losses, id_column=picked.provenance.id_column), "loss", picked)
    certificate = cs.certify(
        picked,
        values,
        upper=upper,
        clustering=None if clusters is None else load_clusters(str(clusters)),
        holder=holder,
        epsilon=epsilon,
        delta=delta,
        method=parse_estimator(picked.n, predictions, estimator),
        confidence=confidence,
    )
    tell(**plain(certificate))
    show(str(certificate))


def _by_label(estimate: Any) -> dict[str, cs.types.Estimate]:
    return estimate if isinstance(estimate, dict) else {"": estimate}


def _cells(interval: cs.types.Interval) -> tuple[str, str]:
    value, low, high = interval_texts(interval.value, interval.low, interval.high)
    return value, f"{low} to {high}"
