"""The verb for least squares."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import coresift as cs
from coresift.answers import AnswerFile
from coresift.checks import InputError, positive
from coresift.cli.app import app
from coresift.cli.files import check_out, has_column, write_rows
from coresift.cli.flags import (
    Address,
    Budget,
    Column,
    EngineName,
    IdColumn,
    RowsPath,
    Seed,
    Threads,
    parse_engine,
    regressing,
)
from coresift.cli.showing import show_facts, speaking, tell
from coresift.regression import RegressionOptions
from coresift.tables.writing import write_table


@app.command()
@speaking
@regressing
def regression(
    rows: RowsPath,
    labels: Annotated[Path | None, typer.Option(help="File with the columns row or id, and label.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="In a table: the column of labels, no part of the rows.")
    ] = None,
    ask: Annotated[
        Path | None, typer.Option(help="Only write, to this file, which rows need a label that --labels lacks.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where to write the selection: .parquet, .csv or .jsonl.")] = Path(
        "picked.parquet"
    ),
    fit: Annotated[Path | None, typer.Option(help="Where to write the coefficients: .csv, .parquet or .jsonl.")] = None,
    ridge: Annotated[float, typer.Option(help="Penalty on the squared coefficients of the fit.")] = 0.0,
    budget: Budget = None,
    seed: Seed = 0,
    column: Column = None,
    id_column: IdColumn = None,
    threads: Threads = None,
    engine: EngineName = "local",
    address: Address = None,
    *,
    options: RegressionOptions,
) -> None:
    """Select weighted rows for least squares, and fit.

    Example: coresift regression embeddings.npy --budget 500 --ask ask.csv

    Then add a column label to ask.csv, and use the same options again with
    coresift regression embeddings.npy --budget 500 --labels ask.csv --fit fit.csv
    """
    if labels is not None and target is not None:
        raise InputError("--labels and --target are two sources of labels; give one of them.")
    positive("ridge", ridge, zero=True)
    computing = parse_engine(engine, threads, address)
    opened = cs.open_rows(rows, column=column, id_column=id_column, target=target)
    if ask is not None:
        _ask_labels(ask, opened, rows, labels, budget, seed, computing, options)
        return
    if labels is None and target is None:
        raise InputError("A fit needs labels: give --labels or --target, or --ask to learn which rows need one.")
    check_out(out, "a selection", rows, labels)
    if fit is not None:
        check_out(fit, "a table", rows, labels, flag="--fit")
        if fit.resolve() == out.resolve():
            raise InputError(f"--fit must be another file than --out; both are {fit}.")
    found = cs.regression.select(opened, labels, budget, seed, engine=computing, **options)
    line = found.fit(ridge)
    cs.save(found.selection, out)
    if fit is not None:
        _write_fit(fit, line, opened.columns)
    tell(wrote=[str(path) for path in (out, fit) if path is not None], selected=len(found.selection), rows=opened.n)
    tell(labels_asked=found.asked.size, coefficients=line.coefficients.size, rank=line.rank, intercept=line.intercept)
    tell(determination=found.determination(line))
    facts = [
        ("rows selected", f"{len(found.selection):,} of {opened.n:,}"),
        ("labels asked", f"{found.asked.size:,}"),
        ("coefficients", f"{line.coefficients.size:,}, of rank {line.rank:,}; intercept {line.intercept:,.6g}"),
        ("R² on the selected rows, weighted", f"{found.determination(line):.4f}"),
    ]
    show_facts(f"Wrote {out}" + ("" if fit is None else f" and {fit}"), facts)


def _ask_labels(
    out: Path,
    opened: cs.rows.Rows,
    rows: str,
    labels: Path | None,
    budget: int | None,
    seed: int,
    engine: cs.engines.Local | cs.engines.Ray,
    options: RegressionOptions,
) -> None:
    check_out(out, "a table", rows, labels, flag="--ask")
    if has_column(out, "label"):
        raise InputError(f"{out} has labels in it already; give another --ask, or remove it first.")
    ids = cs.ask_regression(opened, budget, seed, b=labels, engine=engine, **options)
    known = np.zeros(0, np.int64) if labels is None else AnswerFile(labels).known(ids, opened.names(ids))
    ids = np.setdiff1d(ids, known)
    if not ids.size:
        raise InputError(f"There is nothing to ask: {labels} has every label that is needed.")
    write_rows(out, ids, opened.names(ids))
    tell(wrote=str(out), need_a_label=ids.size, rows=opened.n)
    show_facts(f"Wrote {out}", [("rows that need a label", f"{ids.size:,} of {opened.n:,}")])


def _write_fit(path: Path, fit: cs.regression.Fit, columns: tuple[str, ...] | None) -> None:
    import pyarrow as pa

    size = fit.coefficients.size
    names = columns if columns and len(columns) == size else tuple(str(place) for place in range(size))
    table = {"column": ["intercept", *names], "coefficient": [fit.intercept, *fit.coefficients]}
    write_table(pa.table(table), path)
