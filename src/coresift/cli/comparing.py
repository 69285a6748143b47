"""The verbs that say which method to use."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

import coresift as cs
from coresift.checks import InputError
from coresift.cli.app import app
from coresift.cli.files import check_out, explaining, has_column, losses_of_all, write_rows
from coresift.cli.flags import (
    Address,
    Clusters,
    Column,
    EngineName,
    IdColumn,
    Normalize,
    OptionalPower,
    RowsPath,
    Seed,
    Threads,
    parse_clusters,
    parse_engine,
)
from coresift.cli.showing import show, show_facts, speaking, tell
from coresift.comparison import DEFAULT
from coresift.diagnosis import PERCENTILES
from coresift.reporting.facts import plain


@app.command()
@speaking
def compare(
    rows: RowsPath,
    budget: Annotated[list[int], typer.Option(help="How many losses and rows a method may use; can be repeated.")],
    losses: Annotated[
        Path | None, typer.Option(help="File with the columns row or id, and loss, for every row.")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help='Such as coresift, "paper(holder=0.1)", or module:function; can be repeated.'
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds each method is run with.")] = 20,
    out: Annotated[Path, typer.Option(help="Folder for the results; the same command again goes on in it.")] = Path(
        "comparison"
    ),
    train: Annotated[
        str | None, typer.Option(metavar="MODULE:FUNCTION", help="Judge by what this returns for a selection.")
    ] = None,
    lower: Annotated[bool, typer.Option("--lower", help="With --train: a smaller score is better.")] = False,
    reference: Annotated[str | None, typer.Option(help="Compare with this method (by default uniform).")] = None,
    processes: Annotated[int | None, typer.Option(help="How many selections at a time, by default one a core.")] = None,
    threads: Annotated[int, typer.Option(help="How many threads each of them has.")] = 1,
    timeout: Annotated[float | None, typer.Option(help="Seconds after which a selection has failed.")] = None,
    plot: Annotated[bool | None, typer.Option(help="By default where matplotlib is installed.")] = None,
    column: Column = None,
    id_column: IdColumn = None,
) -> None:
    """Compare methods: error of the estimated total loss, coverage, calls, time and memory.

    Every method has the same rows, seeds and budgets, and runs in processes of its own: one that fails has a failed
    line, the others go on, and the exit status is 1.

    Example: coresift compare embeddings.npy --losses losses.csv --budget 100 --budget 200 --seeds 3 --out comparison
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # where a user's own module:function is
    found = cs.compare_methods(
        cs.open_rows(rows, column=column, id_column=id_column),
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
    told = plain(found)
    told.pop("runs", None)
    tell(wrote=str(out), **told)
    show(str(found))
    show(f"Wrote {out}")
    if found.failures:
        raise typer.Exit(1)


@app.command()
@speaking
def diagnose(
    rows: RowsPath,
    losses: Annotated[Path | None, typer.Option(help="File with the columns row or id, and loss.")] = None,
    ask: Annotated[
        Path | None, typer.Option(help="Write which rows need a loss (.csv, .parquet, .jsonl), and stop.")
    ] = None,
    budget: Annotated[
        int | None, typer.Option(help="How many rows you would select (by default ten for each cluster).")
    ] = None,
    seed: Seed = 0,
    probes: Annotated[int, typer.Option(help="How many rows to ask besides the centers, at most.")] = 200,
    holder: Annotated[float | None, typer.Option(help="A Λ: how many rows violate it?")] = None,
    power: Annotated[
        list[float] | None, typer.Option(help="A z for the table of ratios, can be repeated (by default 0.5, 1, 2).")
    ] = None,
    proxy: Annotated[
        Path | None, typer.Option(help="File with a cheap model's loss for every row: would that be better?")
    ] = None,
    clusters: Clusters = None,
    z: OptionalPower = None,
    normalize: Normalize = False,
    column: Column = None,
    id_column: IdColumn = None,
    threads: Threads = None,
    engine: EngineName = "local",
    address: Address = None,
) -> None:
    """Say whether a selection would beat a uniform sample, from a few probes.

    Example: coresift diagnose embeddings.npy --losses losses.csv --budget 500

    To have the losses computed elsewhere, write the rows that need one with --ask probes.csv, add a column loss,
    and use the same options again with --losses probes.csv
    """
    if (losses is None) == (ask is None):
        raise InputError("Give one of --losses, the answers, and --ask, a file for the rows that need one.")
    if ask is not None:
        check_out(ask, "a table", rows)
        if has_column(ask, "loss"):
            raise InputError(f"{ask} has losses in it already; give another --ask, or remove it first.")
    opened = cs.open_rows(rows, column=column, id_column=id_column)
    options: dict[str, Any] = {"budget": budget, "seed": seed, "z": z, "normalize": normalize, "probes": probes}
    options |= {
        "clusters": None if clusters is None else parse_clusters(clusters),
        "engine": parse_engine(engine, threads, address),
    }
    if ask is not None:
        ids = np.sort(cs.start(cs.diagnose, opened, **options).ask())
        write_rows(ask, ids, opened.names(ids))
        tell(wrote=str(ask), need_a_loss=ids.size, rows=opened.n)
        return show_facts(f"Wrote {ask}", [("rows that need a loss", f"{ids.size:,} of {opened.n:,}")])
    options |= {"powers": power} if power else {}
    options |= {"proxy": None if proxy is None else losses_of_all(proxy, opened), "holder": holder}
    with explaining("A diagnosis asks other rows than a selection: write them with --ask first."):
        found = cs.diagnose(opened, losses, **options)
    arrays = ("centers", "center_losses", "probes", "losses")
    tell(**{name: value for name, value in plain(found).items() if name not in arrays})
    tell(percentiles=PERCENTILES, losses_asked=found.ledger.asked)
    _print_diagnosis(found, holder)


def _print_diagnosis(found: cs.diagnosis.Diagnosis, holder: float | None) -> None:
    def shown(interval: cs.types.Interval, form: str) -> str:
        return f"{interval.value:{form}}, 95% interval {interval.low:{form}} to {interval.high:{form}}"

    facts = [("error relative to uniform's", shown(found.ratio, ".2f"))]
    if found.proxy_ratio is not None:
        facts.append(("error with the proxy", shown(found.proxy_ratio, ".2f")))
    facts.append(("variance that clusters explain", shown(found.explained, ".0%")))
    facts.append(("center's loss is nearer", f"{found.gaps.nearer:.0%} of the time, than a random row's"))
    if found.violations is not None:
        facts.append((f"rows that violate Λ = {holder:g}", shown(found.violations, ".1%")))
    counts = ", ".join(f"{count:,} {reason}" for _, reason, count in found.ledger.entries)
    facts.append(("losses asked", f"{found.ledger.asked:,}: {counts}"))
    show_facts(f"{found.verdict[0].upper()}{found.verdict[1:]}. {found.reason}", facts)
    table = Table()
    for title in ("percentile", *(f"{percentile}" for percentile in PERCENTILES)):
        table.add_column(title, overflow="fold")
    table.add_row("|loss - center's|", *(f"{value:.4g}" for value in found.gaps.center))
    table.add_row("|loss - random row's|", *(f"{value:.4g}" for value in found.gaps.random))
    for line in found.holder:
        mark = " (fits best)" if line.z == found.best_z and len(found.holder) > 1 else ""
        name = f"|loss - center's| / distance^{line.z:g}{mark}"
        table.add_row(name, *(f"{value:.4g}" for value in line.percentiles))
    show(table)
