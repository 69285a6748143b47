"""The verbs that lead to a selection."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import coresift as cs
from coresift.checks import InputError
from coresift.cli.app import app
from coresift.cli.files import check_out, describe, explaining, has_column, write_rows
from coresift.cli.flags import (
    Address,
    Budget,
    Column,
    Device,
    EmbedModel,
    EngineName,
    Gradient,
    IdColumn,
    LossModel,
    MaxLength,
    Normalize,
    Power,
    Prefix,
    RowsPath,
    Seed,
    Strata,
    Target,
    Text,
    Threads,
    Work,
    parse_engine,
    read_strata,
    selecting,
)
from coresift.cli.showing import show_facts, speaking, tell
from coresift.cli.texts import TextSources, select_texts
from coresift.recipes import Options
from coresift.reporting.facts import plain
from coresift.storage import CLUSTERING_SUFFIX
from coresift.tables.writing import check_target


@app.command()
@speaking
def cluster(
    rows: RowsPath,
    k: Annotated[int, typer.Option("-k", "--clusters", help="How many centers.")],
    out: Annotated[Path, typer.Option(help="Where to write the clustering: .npz.")] = Path("clusters.npz"),
    z: Power = 2.0,
    seed: Seed = 0,
    normalize: Normalize = False,
    strata: Strata = None,
    column: Column = None,
    id_column: IdColumn = None,
    threads: Threads = None,
    engine: EngineName = "local",
    address: Address = None,
) -> None:
    """Cluster the rows once, for ask and select to use.

    Example: coresift cluster embeddings.npy -k 200 --out clusters.npz
    """
    check_target(out, (CLUSTERING_SUFFIX,), "a clustering")
    opened = cs.open_rows(rows, column=column, id_column=id_column)
    classes = None if strata is None else read_strata(strata, lambda: opened)
    found = cs.cluster(
        opened, k, z=z, seed=seed, normalize=normalize, strata=classes, engine=parse_engine(engine, threads, address)
    )
    cs.save(found, out)
    sizes = found.sizes
    tell(wrote=str(out), clusters=found.k, rows=found.n, cost=found.snapped_cost, search=found.search)
    tell(sizes={"least": sizes.min(), "median": np.median(sizes), "largest": sizes.max()})
    show_facts(
        f"Wrote {out}",
        [
            ("clusters", f"{found.k:,} of {found.n:,} rows"),
            ("rows in a cluster", f"{sizes.min():,} to {sizes.max():,}, median {np.median(sizes):,.0f}"),
            (f"sum of distance^{found.z:g}", f"{found.snapped_cost:,.6g}"),
        ],
    )


@app.command()
@speaking
@selecting
def ask(
    rows: RowsPath,
    out: Annotated[Path, typer.Option(help="Where to write the rows to ask: .csv, .parquet or .jsonl.")] = Path(
        "ask.csv"
    ),
    budget: Budget = None,
    seed: Seed = 0,
    column: Column = None,
    id_column: IdColumn = None,
    threads: Threads = None,
    engine: EngineName = "local",
    address: Address = None,
    *,
    options: Options,
) -> None:
    """Write which rows need a loss, to have it computed elsewhere.

    Example: coresift ask embeddings.npy --budget 2000 --out ask.csv

    Then add a column loss to ask.csv, and use the same options again with
    coresift select embeddings.npy --budget 2000 --losses ask.csv
    """
    check_out(out, "a table", rows)
    if has_column(out, "loss"):
        raise InputError(f"{out} has losses in it already; give another --out, or remove it first.")
    opened = cs.open_rows(rows, column=column, id_column=id_column)
    ids = np.sort(cs.ask(opened, budget, seed, engine=parse_engine(engine, threads, address), **options))
    if not ids.size:
        raise InputError("There is nothing to ask: with these options select needs no losses.")
    write_rows(out, ids, opened.names(ids))
    tell(wrote=str(out), need_a_loss=ids.size, rows=opened.n)
    show_facts(f"Wrote {out}", [("rows that need a loss", f"{ids.size:,} of {opened.n:,}")])


@app.command()
@speaking
@selecting
def select(
    rows: RowsPath,
    losses: Annotated[
        Path | None, typer.Option(help="File with the columns row or id, and loss. Without it distances decide.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where to write the selection: .parquet, .csv or .jsonl.")] = Path(
        "picked.parquet"
    ),
    budget: Budget = None,
    seed: Seed = 0,
    column: Column = None,
    id_column: IdColumn = None,
    text: Text = None,
    target: Target = None,
    embed_model: EmbedModel = None,
    loss_model: LossModel = None,
    gradient: Gradient = False,
    prefix: Prefix = "",
    work: Work = None,
    max_length: MaxLength = None,
    device: Device = None,
    threads: Threads = None,
    engine: EngineName = "local",
    address: Address = None,
    *,
    options: Options,
) -> None:
    """Select weighted rows that stand for all rows.

    Example: coresift select embeddings.npy --losses ask.csv --budget 2000 --out picked.parquet

    To go from texts to a file to train on: coresift select corpus.parquet --text en --target de
    --embed-model ENCODER --loss-model MODEL --budget 45000 --out picked.parquet
    """
    check_out(out, "a selection", rows, losses)
    computing = parse_engine(engine, threads, address)
    if text is None:
        given: dict[str, object] = {
            "--target": target,
            "--embed-model": embed_model,
            "--loss-model": loss_model,
            "--gradient": gradient,
        }
        given |= {"--work": work, "--max-length": max_length, "--device": device, "--prefix": prefix}
        for flag in (flag for flag, value in given.items() if value):
            raise InputError(f"{flag} is for tables of texts; give --text, the column, with it.")
    else:
        sources = TextSources(text, target, embed_model, loss_model, gradient, prefix, max_length, device)
        select_texts(rows, sources, losses, out, work, budget, seed, column, id_column, threads, computing, options)
        return
    opened = cs.open_rows(rows, column=column, id_column=id_column)
    with explaining("It must have been asked with the same rows, budget, seed and options."):
        picked = cs.select(opened, losses, budget, seed, engine=computing, **options)
    cs.save(picked, out)
    show_facts(f"Wrote {out}", describe(picked, out))


@app.command()
@speaking
@selecting
def plan(
    rows: RowsPath,
    budget: Budget = None,
    seed: Seed = 0,
    column: Column = None,
    id_column: IdColumn = None,
    *,
    options: Options,
) -> None:
    """Say what a selection will cost, before it runs.

    Example: coresift plan embeddings.npy --budget 2000
    """
    found = cs.plan(cs.open_rows(rows, column=column, id_column=id_column), budget, seed, **options)
    tell(**plain(found))
    show_facts(f"To select {found.budget:,} of {found.rows:,} rows of {found.dimension:,} numbers", found.lines())
