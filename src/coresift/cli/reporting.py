"""The verb that shows a selection."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import coresift as cs
from coresift.cli.app import app
from coresift.cli.files import load_selection
from coresift.cli.flags import Column, IdColumn, SelectionPath, Threads, load_clusters
from coresift.cli.showing import show_facts, speaking, tell


@app.command()
@speaking
def report(
    selection: SelectionPath,
    out: Annotated[
        Path | None, typer.Option(help="Where to write the page (by default beside SELECTION, .html).")
    ] = None,
    rows: Annotated[str | None, typer.Option(help="The rows that were selected from, for the map.")] = None,
    losses: Annotated[
        Path | None, typer.Option(help="File with row or id, and loss, for all selected rows: the estimated loss.")
    ] = None,
    clusters: Annotated[
        Path | None, typer.Option(help="What cluster wrote, for centers and exact sizes: .npz.")
    ] = None,
    table: Annotated[
        Path | None, typer.Option(help="A table with a line per row, or row or id (by default that of --rows).")
    ] = None,
    text: Annotated[str | None, typer.Option(metavar="NAME", help="Its column of texts, to show beside rows.")] = None,
    image: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its column of images, or a .npy file of their pixels.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its column of classes: how many are reached?")
    ] = None,
    diagnosis: Annotated[Path | None, typer.Option(help="What diagnose --json wrote, for its verdict.")] = None,
    title: Annotated[str | None, typer.Option(help="The page's title.")] = None,
    facts: Annotated[Path | None, typer.Option(help="Write all that the page says to this .json file, too.")] = None,
    column: Column = None,
    id_column: IdColumn = None,
    threads: Threads = None,
) -> None:
    """Write a page that shows a selection: a map, weights, losses, clusters.

    Example: coresift report picked.parquet --rows embeddings.npy --losses losses.csv --out picked.html
    """
    picked = load_selection(selection)
    target = out or selection.with_suffix(".html")
    # A plain path stands in the command and the code that the page shows.
    named = column is not None or id_column is not None
    source = cs.open_rows(rows, column=column, id_column=id_column) if rows is not None and named else rows
    written = cs.report(
        picked,
        target,
        rows=source,
        clustering=None if clusters is None else load_clusters(str(clusters)),
        losses=losses,
        table=table,
        text=text,
        image=image,
        label=label,
        diagnosis=diagnosis,
        title=title,
        facts=facts,
        engine=cs.engines.Local(threads),
    )
    tell(wrote=[str(path) for path in (written, facts) if path is not None], bytes=written.stat().st_size)
    size = f"{written.stat().st_size / 1e6:,.2f} MB, one file that works offline"
    show_facts(f"Wrote {written}" + ("" if facts is None else f" and {facts}"), [("size", size)])
