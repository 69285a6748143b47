"""The commands cluster, select, grow and plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import coresift as cs
from coresift.checks import InputError
from coresift.cli.app import verb
from coresift.cli.files import (
    check_out,
    describe,
    explaining,
    load_weighted,
    open_source,
    table_of,
    used_columns,
)
from coresift.cli.flags import (
    Address,
    Budget,
    Column,
    Device,
    EmbedModel,
    EngineName,
    Exclude,
    ExcludeColumn,
    Gradient,
    IdColumn,
    LossModel,
    MaxLength,
    Normalize,
    Power,
    Prefix,
    RowsPath,
    Seed,
    SelectionOut,
    SelectionPath,
    Signals,
    Standardize,
    Strata,
    Target,
    Text,
    Threads,
    Work,
    selecting,
)
from coresift.cli.parsing import load_clusters, parse_engine, read_rows, read_strata
from coresift.cli.showing import show_facts, speaking, tell
from coresift.cli.texts import TextSources, select_texts
from coresift.recipes.arguments import Options
from coresift.reporting.facts import plain
from coresift.storage import CLUSTERING_SUFFIX
from coresift.tables.writing import check_target


@verb()
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
    exclude_column: ExcludeColumn = None,
    standardize: Standardize = False,
    threads: Threads = None,
    engine: EngineName = "local",
    address: Address = None,
) -> None:
    """Cluster the rows once, for select, start and other commands to use.

    Example: coresift cluster embeddings.npy -k 200 --out clusters.npz
    """
    check_target(out, (CLUSTERING_SUFFIX,), "a clustering")
    opened = open_source(rows, column, id_column, exclude_column, standardize)
    classes = None if strata is None else read_strata(strata, lambda: opened)
    computing = parse_engine(engine, threads, address)
    clustering = cs.cluster(opened, k, z=z, seed=seed, normalize=normalize, strata=classes, engine=computing)
    cs.save(clustering, out)
    sizes, cost = clustering.sizes, clustering.snapped_cost
    tell(wrote=str(out), clusters=clustering.k, rows=clustering.n, cost=cost, search=clustering.search)
    tell(sizes={"least": sizes.min(), "median": np.median(sizes), "largest": sizes.max()})
    show_facts(
        f"Wrote {out}",
        [
            ("clusters", f"{clustering.k:,} of {clustering.n:,} rows"),
            ("rows in a cluster", f"{sizes.min():,} to {sizes.max():,}, median {np.median(sizes):,.0f}"),
            (f"sum of distance^{clustering.z:g}", f"{cost:,.6g}"),
            *used_columns(opened),
        ],
    )


@verb()
@speaking
@selecting
def select(
    rows: RowsPath,
    losses: Annotated[
        Path | None, typer.Option(help="File with the columns row or id, and loss. Without it, distances decide.")
    ] = None,
    out: SelectionOut = Path("picked.parquet"),
    budget: Budget = None,
    seed: Seed = 0,
    column: Column = None,
    id_column: IdColumn = None,
    exclude_column: ExcludeColumn = None,
    standardize: Standardize = False,
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

    If ROWS is a table, its columns are written beside the weights.

    Example: coresift select embeddings.npy --losses losses.csv --budget 2000 --out picked.parquet

    If the losses are computed elsewhere, see coresift start select --help

    From texts to training data: coresift select corpus.parquet --text en --target de
    --embed-model ENCODER --loss-model MODEL --budget 45000 --out picked.parquet
    """
    check_out(out, "a selection", rows, losses)
    computing = parse_engine(engine, threads, address)
    sources = TextSources(text or "", target, embed_model, loss_model, gradient, prefix, max_length, device)
    if text is not None:
        if exclude_column or standardize:
            raise InputError(
                "--exclude-column and --standardize are for tables of numbers; leave them out with --text."
            )
        select_texts(rows, sources, losses, out, work, budget, seed, column, id_column, threads, computing, options)
        return
    sources.refuse_any(work)
    opened = open_source(rows, column, id_column, exclude_column, standardize)
    with explaining("To learn which rows need a loss, use coresift start select."):
        picked = cs.select(opened, losses, budget, seed, engine=computing, **options)
    cs.save(picked, out, table=table_of(opened))
    show_facts(f"Wrote {out}", [*describe(picked, out), *used_columns(opened)])


@verb()
@speaking
def grow(
    selection: SelectionPath,
    rows: RowsPath,
    budget: Annotated[int, typer.Option(help="How many rows to select in total.")],
    losses: Annotated[
        Path | None,
        typer.Option(help="File with the columns row or id, and loss, of all selected rows. Needed if select had one."),
    ] = None,
    out: SelectionOut = Path("grown.parquet"),
    clusters: Annotated[
        Path | None, typer.Option(help="The clustering of the selection, if select had a file of clusters.")
    ] = None,
    strata: Strata = None,
    signals: Signals = None,
    exclude: Exclude = None,
    column: Column = None,
    id_column: IdColumn = None,
    threads: Threads = None,
    engine: EngineName = "local",
    address: Address = None,
) -> None:
    """Add rows to a selection; it keeps all earlier rows and their answers, and its weights stay unbiased.

    Give the same --strata, --signals and --exclude as to select. The columns of a table and its scaling are those of
    the selection.

    Example: coresift grow picked.parquet embeddings.npy --losses losses.csv --budget 2400 --out grown.parquet
    """
    check_out(out, "a selection", selection, rows, losses, clusters, strata, signals, exclude)
    before, opened = load_weighted(selection), open_source(rows, column, id_column)
    with explaining("Growing needs the losses of all selected rows."):
        grown = cs.grow(
            before,
            losses,
            budget,
            rows=opened,
            clusters=None if clusters is None else load_clusters(str(clusters)),
            exclude=None if exclude is None else read_rows("--exclude", exclude, lambda: opened),
            strata=None if strata is None else read_strata(strata, lambda: opened),
            signals=signals,
            engine=parse_engine(engine, threads, address),
        )
    cs.save(grown, out, table=table_of(opened))
    added = len(grown) - len(before)
    tell(added=added)
    show_facts(f"Wrote {out}", [("rows added", f"{added:,}"), *describe(grown, out)])


@verb()
@speaking
@selecting
def plan(
    rows: RowsPath,
    budget: Budget = None,
    seed: Seed = 0,
    column: Column = None,
    id_column: IdColumn = None,
    exclude_column: ExcludeColumn = None,
    standardize: Standardize = False,
    cost: Annotated[float | None, typer.Option(help="The price per loss, to show the total price.")] = None,
    threads: Threads = None,
    engine: EngineName = "local",
    address: Address = None,
    *,
    options: Options,
) -> None:
    """Predict what a selection will cost: losses, price, time and memory.

    Example: coresift plan embeddings.npy --budget 2000 --cost 0.01
    """
    opened = open_source(rows, column, id_column, exclude_column, standardize)
    computing = parse_engine(engine, threads, address)
    planned = cs.plan(opened, budget, seed, cost=cost, engine=computing, **options)
    tell(**plain(planned))
    title = f"To select {planned.budget:,} of {planned.rows:,} rows of {planned.dimension:,} numbers"
    show_facts(title, [*planned.lines(), *used_columns(opened)])
