"""The command for least squares."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

import coresift as cs
from coresift.checks import InputError, positive
from coresift.cli.app import verb
from coresift.cli.files import check_out, open_source, table_of, used_columns
from coresift.cli.flags import (
    Address,
    Budget,
    Column,
    EngineName,
    ExcludeColumn,
    IdColumn,
    RowsPath,
    Seed,
    SelectionOut,
    Standardize,
    Threads,
    regressing,
)
from coresift.cli.parsing import parse_engine
from coresift.cli.showing import show_facts, speaking, tell
from coresift.oracle import LABEL
from coresift.regression import RegressionOptions, RegressionSelection
from coresift.tables.writing import write_table

TargetColumn = Annotated[
    str | None, typer.Option(metavar="NAME", help="In a table: the column of labels, which is not a feature.")
]
FitOut = Annotated[Path | None, typer.Option(help="Where to write the coefficients: .csv, .parquet or .jsonl.")]
Ridge = Annotated[float, typer.Option(help="Penalty on the squared coefficients of the fit.")]


@verb()
@speaking
@regressing
def regression(
    rows: RowsPath,
    labels: Annotated[Path | None, typer.Option(help="File with the columns row or id, and label.")] = None,
    target: TargetColumn = None,
    out: SelectionOut = Path("picked.parquet"),
    fit: FitOut = None,
    ridge: Ridge = 0.0,
    budget: Budget = None,
    seed: Seed = 0,
    column: Column = None,
    id_column: IdColumn = None,
    exclude_column: ExcludeColumn = None,
    standardize: Standardize = False,
    threads: Threads = None,
    engine: EngineName = "local",
    address: Address = None,
    *,
    options: RegressionOptions,
) -> None:
    """Select weighted rows for least squares, and fit.

    Example: coresift regression embeddings.npy --labels labels.csv --budget 500 --fit fit.csv

    If the labels come later, see coresift start regression --help
    """
    if (labels is None) == (target is None):
        raise InputError(
            "Give either --labels, a file, or --target, a column of the table; "
            "if the labels come later, see coresift start regression --help."
        )
    check_outs(out, fit, ridge, rows, labels)
    opened = open_features(rows, column, id_column, exclude_column, standardize, target)
    chosen = cs.regression.select(
        opened, labels, budget, seed, engine=parse_engine(engine, threads, address), **options
    )
    facts = write_regression(chosen, opened, out, fit, ridge)
    show_facts(f"Wrote {out}" + ("" if fit is None else f" and {fit}"), facts)


def check_outs(out: Path, fit: Path | None, ridge: float, *sources: str | Path | None) -> None:
    """Refuse files that could not be written at the end, before the work begins."""
    positive("ridge", ridge, zero=True)
    check_out(out, "a selection", *sources)
    if fit is not None:
        check_out(fit, "a table", *sources, flag="--fit")
        if os.path.realpath(fit) == os.path.realpath(out):
            raise InputError(f"--fit must be another file than --out; both are {fit}.")


def open_features(
    rows: str,
    column: str | None,
    id_column: str | None,
    exclude_column: list[str] | None,
    standardize: bool,
    target: str | None,
) -> cs.rows.Rows:
    """Open rows whose features include neither the target nor a column `label`."""
    exclude = list(exclude_column or ())
    opened = open_source(rows, column, id_column, exclude, False, target)
    if LABEL.column in (opened.columns or ()):
        exclude.append(LABEL.column)
    elif not standardize:
        return opened
    return open_source(rows, column, id_column, exclude, standardize, target)


def write_regression(
    chosen: RegressionSelection, rows: cs.rows.Rows, out: Path, fit: Path | None, ridge: float
) -> list[tuple[str, str]]:
    """Write the selection and the fit, and return the lines that are shown about them."""
    fitted = chosen.fit(ridge)
    cs.save(chosen.selection, out, table=table_of(rows))
    if fit is not None:
        _write_fit(fit, fitted, rows.columns)
    tell(wrote=[str(path) for path in (out, fit) if path is not None], selected=len(chosen.selection), rows=rows.n)
    tell(labels_asked=chosen.asked.size, coefficients=fitted.coefficients.size)
    tell(rank=fitted.rank, intercept=fitted.intercept, determination=chosen.determination(fitted))
    return [
        ("rows selected", f"{len(chosen.selection):,} of {rows.n:,}"),
        ("labels asked", f"{chosen.asked.size:,}"),
        ("coefficients", f"{fitted.coefficients.size:,}, of rank {fitted.rank:,}; intercept {fitted.intercept:,.6g}"),
        ("R² on the selected rows, weighted", f"{chosen.determination(fitted):.4f}"),
        *used_columns(rows),
    ]


def _write_fit(path: Path, fit: cs.regression.Fit, columns: tuple[str, ...] | None) -> None:
    import pyarrow as pa

    size = fit.coefficients.size
    names = columns if columns and len(columns) == size else tuple(str(place) for place in range(size))
    table = {"column": ["intercept", *names], "coefficient": [fit.intercept, *fit.coefficients]}
    write_table(pa.table(table), path)
