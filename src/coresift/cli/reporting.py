"""The command that writes a page about a selection."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import coresift as cs
from coresift.checks import InputError
from coresift.cli.app import verb
from coresift.cli.files import has_column, load_selection
from coresift.cli.flags import Column, IdColumn, SelectionPath, Threads
from coresift.cli.origins import find_origin, work_folder
from coresift.cli.parsing import load_clusters
from coresift.cli.showing import show_page, speaking
from coresift.oracle.journal import read_header
from coresift.storage import SELECTION_SUFFIXES

PAGES = ("active-learning", "evaluate")  # jobs whose runs have pages of their own


@verb()
@speaking
def report(
    selection: SelectionPath,
    out: Annotated[
        Path | None, typer.Option(help="Where to write the web page (by default beside SELECTION, .html).")
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(help="The rows that were selected from, for the map (found after select --text)."),
    ] = None,
    losses: Annotated[
        Path | None,
        typer.Option(help="File with row or id, and loss, for all selected rows, for the total loss."),
    ] = None,
    clusters: Annotated[
        Path | None, typer.Option(help="The file that cluster wrote, for centers and exact sizes: .npz.")
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(help="A table with a line per row, or with row or id (by default --rows, or SELECTION itself)."),
    ] = None,
    text: Annotated[str | None, typer.Option(metavar="NAME", help="Its column of texts, to show beside rows.")] = None,
    image: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its column of images, or a .npy file of pixels.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Its column of classes, to see how many are covered."),
    ] = None,
    diagnosis: Annotated[Path | None, typer.Option(help="The output of diagnose --json, to show its verdict.")] = None,
    title: Annotated[str | None, typer.Option(help="The page's title.")] = None,
    facts: Annotated[Path | None, typer.Option(help="Also write what the page says to this .json file.")] = None,
    work: Annotated[
        Path | None, typer.Option(help="The --work folder of select --text (by default SELECTION.work).")
    ] = None,
    column: Column = None,
    id_column: IdColumn = None,
    threads: Threads = None,
) -> None:
    """Write a web page that shows a selection: a map, weights, losses and clusters.

    Example: coresift report picked.parquet --rows embeddings.npy --losses losses.csv --out picked.html
    """
    _refuse_state(selection)
    picked = load_selection(selection)
    target = out or selection.with_suffix(".html")
    sources = _find(selection, rows, table, column, id_column, work, [text, image, label])
    written = cs.report(
        picked,
        target,
        rows=sources.rows,
        clustering=None if clusters is None else load_clusters(str(clusters)),
        losses=losses,
        table=sources.table,
        text=text,
        image=image,
        label=label,
        diagnosis=diagnosis,
        title=title,
        facts=facts,
        engine=cs.engines.Local(threads),
    )
    show_page(written, facts, sources.lines)


def _refuse_state(path: Path) -> None:
    """Refuse the state file of a run, and name the command or the file that has its page."""
    if path.suffix in SELECTION_SUFFIXES:
        return
    try:
        arguments = read_header(path).get("arguments")
    except (InputError, OSError):  # it is no state file
        return
    job, out = (arguments.get("job"), arguments.get("out")) if isinstance(arguments, dict) else (None, None)
    if job in PAGES:
        advice = f"for a page about its run, use coresift {job} report"
    else:
        advice = f"give the selection that its run writes{f', {out}' if job == 'select' else ''}"
    raise InputError(f"SELECTION must be a file that select wrote; {path} is a state file: {advice}.")


@dataclass(frozen=True)
class _Sources:
    """The rows and the table of a report, and lines that say where they were found."""

    rows: Any = None
    table: Any = None
    lines: tuple[tuple[str, str], ...] = ()


def _find(
    selection: Path,
    rows: str | None,
    table: Path | None,
    column: str | None,
    id_column: str | None,
    work: Path | None,
    shown: list[str | None],
) -> _Sources:
    """Return the rows and the table that the flags name, or else those that the selection was made from."""
    if rows is not None:
        # The page shows a plain path in its command and code.
        named = column is not None or id_column is not None
        return _Sources(cs.open_rows(rows, column=column, id_column=id_column) if named else rows, table)
    origin = find_origin(work or work_folder(selection), selection)
    if origin is not None:
        lines = (("embeddings", f"found in {origin.embeddings}"),)
        texts = Path(origin.table) if table is None and any(shown) else table
        return _Sources(str(origin.embeddings), texts, lines)
    if table is None and any(name is not None and has_column(selection, name) for name in shown):
        return _Sources(table=selection)
    return _Sources(table=table)
