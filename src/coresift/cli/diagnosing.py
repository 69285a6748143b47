"""The command that predicts whether a selection is worth it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import coresift as cs
from coresift.cli.app import verb
from coresift.cli.files import explaining, losses_of_all, open_source, used_columns
from coresift.cli.flags import (
    Address,
    Column,
    EngineName,
    ExcludeColumn,
    IdColumn,
    RowsPath,
    Seed,
    Standardize,
    Threads,
    selecting,
)
from coresift.cli.parsing import parse_engine
from coresift.cli.showing import show_facts, show_table, speaking, tell
from coresift.diagnosis import PERCENTILES, Diagnosis
from coresift.recipes.arguments import Options
from coresift.reporting.facts import plain

DiagnosisBudget = Annotated[
    int | None, typer.Option(help="How many rows you would select (by default ten per cluster).")
]
Probes = Annotated[int, typer.Option(help="At most how many rows to ask besides the centers.")]
Holder = Annotated[float | None, typer.Option(help="A value of Λ, to see how many rows violate it.")]
Powers = Annotated[
    list[float] | None, typer.Option(help="A power z for the table of ratios; can be repeated (by default 0.5, 1, 2).")
]
CheapLosses = Annotated[
    Path | None, typer.Option(help="File with a cheap model's loss for every row, to see whether it does better.")
]
DiagnosisOut = Annotated[Path, typer.Option(help="Where to write the diagnosis: .json, for report --diagnosis.")]
ARRAYS = ("centers", "center_losses", "probes", "losses")


@verb()
@speaking
@selecting
def diagnose(
    rows: RowsPath,
    losses: Annotated[Path, typer.Option(help="File with the columns row or id, and loss.")],
    budget: DiagnosisBudget = None,
    seed: Seed = 0,
    probes: Probes = 200,
    holder: Holder = None,
    power: Powers = None,
    proxy: CheapLosses = None,
    column: Column = None,
    id_column: IdColumn = None,
    exclude_column: ExcludeColumn = None,
    standardize: Standardize = False,
    threads: Threads = None,
    engine: EngineName = "local",
    address: Address = None,
    *,
    options: Options,
) -> None:
    """Predict from a few losses whether a selection would beat a uniform sample.

    Example: coresift diagnose embeddings.npy --losses losses.csv --budget 500

    If the losses are computed elsewhere, see coresift start diagnose --help
    """
    opened = open_source(rows, column, id_column, exclude_column, standardize)
    computing = parse_engine(engine, threads, address)
    with explaining("A diagnosis needs losses of other rows than a selection: see coresift start diagnose --help."):
        extra = probing(opened, probes, holder, power, proxy)
        diagnosis = cs.diagnose(opened, losses, budget, seed, engine=computing, **extra, **options)
    tell(**facts_of(diagnosis))
    used = used_columns(opened)
    show_facts(title_of(diagnosis), [*diagnosis.lines(holder), *used])
    show_table(("percentile", *map(str, PERCENTILES)), percentiles_of(diagnosis))


def probing(
    rows: cs.rows.Rows, probes: int, holder: float | None, powers: list[float] | None, proxy: Path | None
) -> dict[str, Any]:
    """Return the options of `diagnose` that `select` does not have."""
    cheap = None if proxy is None else losses_of_all(proxy, rows)
    return {"probes": probes, "holder": holder, "proxy": cheap, **({"powers": powers} if powers else {})}


def facts_of(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return what --json prints and `report --diagnosis` reads."""
    facts = {name: value for name, value in plain(diagnosis).items() if name not in ARRAYS}
    return {**facts, "percentiles": PERCENTILES, "losses_asked": diagnosis.ledger.asked}


def title_of(diagnosis: Diagnosis) -> str:
    """Return the verdict and its reason."""
    return f"{diagnosis.verdict[:1].upper()}{diagnosis.verdict[1:]}. {diagnosis.reason}"


def percentiles_of(diagnosis: Diagnosis) -> list[tuple[str, ...]]:
    """Return the lines of the table of gaps and Hölder ratios."""
    lines = [
        ("|loss - center's|", *(f"{value:.4g}" for value in diagnosis.gaps.center)),
        ("|loss - random row's|", *(f"{value:.4g}" for value in diagnosis.gaps.random)),
    ]
    for line in diagnosis.holder:
        mark = " (fits best)" if line.z == diagnosis.best_z and len(diagnosis.holder) > 1 else ""
        name = f"|loss - center's| / distance^{line.z:g}{mark}"
        lines.append((name, *(f"{value:.4g}" for value in line.percentiles)))
    return lines
