"""The command that chooses rows that cover all rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import coresift as cs
from coresift.cli.app import verb
from coresift.cli.files import check_out, open_source, table_of, used_columns
from coresift.cli.flags import (
    Address,
    Column,
    EngineName,
    Exclude,
    ExcludeColumn,
    Given,
    IdColumn,
    Normalize,
    RowsPath,
    Seed,
    SelectionOut,
    Standardize,
    Threads,
)
from coresift.cli.parsing import parse_engine, read_importance, read_rows, split_column
from coresift.cli.showing import show_facts, speaking, tell
from coresift.rows.taking import take


@verb()
@speaking
def cover(
    rows: RowsPath,
    budget: Annotated[int, typer.Option(help="How many rows to choose, including those of --given.")],
    importance: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE[:NAME]",
            help="A number of at least 0 per row, such as nearness to a task: a column of ROWS, or a file with row "
            "or id, and importance (or NAME). By default all rows count the same.",
        ),
    ] = None,
    table: Annotated[
        Path | None, typer.Option(help="A table with the same rows, whose columns go into OUT too (by default ROWS).")
    ] = None,
    out: SelectionOut = Path("covering.parquet"),
    seed: Seed = 0,
    given: Given = None,
    exclude: Exclude = None,
    normalize: Normalize = False,
    column: Column = None,
    id_column: IdColumn = None,
    exclude_column: ExcludeColumn = None,
    standardize: Standardize = False,
    threads: Threads = None,
    engine: EngineName = "local",
    address: Address = None,
) -> None:
    """Choose rows that cover all rows, to label or train on in one batch.

    The chosen rows have no weights. For totals and intervals, use select.

    Example: coresift cover embeddings.npy --budget 200 --normalize --table texts.csv --out covering.parquet
    """
    path, name = (None, None) if importance is None else split_column(importance, "importance")
    check_out(out, "a selection", rows, path, table)
    opened = open_source(rows, column, id_column, exclude_column, standardize)
    if path is None and name is not None and name in (opened.columns or ()):
        # The importance of a row says nothing about its distance to others.
        opened = open_source(rows, column, id_column, [*(exclude_column or ()), name], standardize)
    if table is not None:
        take(table, np.zeros(0, np.int64), opened.n)  # refuses a table of other rows before anything is computed
    selection = cs.cover(
        opened,
        budget,
        importance=None if importance is None else read_importance(importance, opened),
        given=None if given is None else read_rows("--given", given, lambda: opened),
        exclude=None if exclude is None else read_rows("--exclude", exclude, lambda: opened),
        normalize=normalize,
        seed=seed,
        engine=parse_engine(engine, threads, address),
    )
    cs.save(selection, out, table=table or table_of(opened))
    tell(wrote=str(out), selected=len(selection), rows=selection.n, seed=seed)
    facts = [("rows chosen", f"{len(selection):,} of {selection.n:,}"), *used_columns(opened)]
    show_facts(f"Wrote {out}", facts)
