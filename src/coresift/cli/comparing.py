"""The command that compares methods."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

import coresift as cs
from coresift.cli.app import verb
from coresift.cli.files import open_source, used_columns
from coresift.cli.flags import Column, ExcludeColumn, IdColumn, RowsPath, Standardize
from coresift.cli.showing import show, show_facts, speaking, tell
from coresift.comparison import DEFAULT
from coresift.comparison.methods import names_module
from coresift.reporting.facts import plain


@verb()
@speaking
def compare_methods(
    rows: RowsPath,
    budget: Annotated[list[int], typer.Option(help="How many losses and rows a method may use; can be repeated.")],
    losses: Annotated[
        Path | None, typer.Option(help="File with the columns row or id, and loss, for every row.")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help='A method, such as coresift, "paper(holder=0.1)" or module:function; can be repeated.'
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds to run each method with.")] = 20,
    out: Annotated[Path, typer.Option(help="Folder for the results; the same command continues in it.")] = Path(
        "comparison"
    ),
    train: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="Judge by the score that this returns for a selection."),
    ] = None,
    lower: Annotated[bool, typer.Option("--lower", help="With --train: a smaller score is better.")] = False,
    reference: Annotated[str | None, typer.Option(help="Compare with this method (by default uniform).")] = None,
    processes: Annotated[
        int | None, typer.Option(help="How many selections to run at a time (by default one per core).")
    ] = None,
    threads: Annotated[int, typer.Option(help="How many threads each selection may use.")] = 1,
    timeout: Annotated[float | None, typer.Option(help="Seconds after which a selection counts as failed.")] = None,
    plot: Annotated[bool | None, typer.Option(help="Draw plots (by default if matplotlib is installed).")] = None,
    column: Column = None,
    id_column: IdColumn = None,
    exclude_column: ExcludeColumn = None,
    standardize: Standardize = False,
) -> None:
    """Compare methods: error of the estimated total loss, coverage, calls, time and memory.

    Every method gets the same rows, seeds and budgets, and runs in its own processes. If a method fails, its line says
    so, the others continue, and the exit status is 1. A module:function may be in the current folder. The results
    include a web page, comparison.html.

    Example: coresift compare-methods embeddings.npy --losses losses.csv --budget 100 --budget 200 --seeds 3
    --out comparison
    """
    if any(names_module(text) for text in (*(method or ()), train or "")) and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last, so that no file here replaces a module of Python or of a library
    opened = open_source(rows, column, id_column, exclude_column, standardize)
    comparison = cs.compare_methods(
        opened,
        losses,
        method or DEFAULT,
        budget,
        seeds,
        out=out,
        train=train,
        higher=not lower,
        reference=reference,
        processes=processes,
        threads=threads,
        timeout=timeout,
        plot=plot,
    )
    page = cs.report(comparison, out / "comparison.html")
    facts = plain(comparison)
    facts.pop("runs", None)
    tell(wrote=str(out), page=str(page), **facts)
    show(str(comparison))
    show_facts(f"Wrote {out}; open {page} in a browser", used_columns(opened))
    if comparison.failures:
        raise typer.Exit(1)
