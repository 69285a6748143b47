"""The jobs of `start`: select, regression and diagnose.

`ask`, `tell` and `status` also work with active learning and evaluations, so those modules are imported here.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import typer
from typer.core import TyperGroup

import coresift as cs
import coresift.cli.evaluating
import coresift.cli.learning
from coresift import diagnosis as diagnosing
from coresift import selection as selecting
from coresift.cli.app import UsageError, app
from coresift.cli.diagnosing import (
    CheapLosses,
    DiagnosisBudget,
    DiagnosisOut,
    Holder,
    Powers,
    Probes,
    facts_of,
    probing,
)
from coresift.cli.files import check_out, describe, open_source, table_of, used_columns
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
    gather,
    gather_regression,
    shared_flags,
)
from coresift.cli.parsing import parse_engine, split_column
from coresift.cli.regression import FitOut, Ridge, TargetColumn, check_outs, open_features, write_regression
from coresift.cli.runs import Arguments, StepJob, add_start, add_verbs
from coresift.cli.showing import as_json_text, tell
from coresift.engine import Engine, Workers
from coresift.oracle.driving import Prepared
from coresift.oracle.run import Run
from coresift.progress import Progress, choose
from coresift.reporting.facts import plain
from coresift.storage import CLUSTERING_SUFFIX
from coresift.tables.writing import check_target, write_bytes

# Jobs that have their own commands, among them start.
OWN_COMMANDS = (coresift.cli.evaluating.NAME, coresift.cli.learning.NAME)


class Starts(TyperGroup):
    """The jobs of `start`."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a job; for one that has its own commands, say which of them starts it."""
        if cmd_name in OWN_COMMANDS and not ctx.resilient_parsing:
            raise UsageError(f"There is no coresift start {cmd_name}; the command is coresift {cmd_name} start.", ctx)
        return super().get_command(ctx, cmd_name)


starts = typer.Typer(cls=Starts, rich_markup_mode=None)


@starts.callback(invoke_without_command=True)
def start(context: typer.Context) -> None:
    """Start a run whose answers come later, from people or other programs.

    Example: coresift start select embeddings.npy --budget 500 --state run.state

    Then repeat: coresift ask run.state --out ask.csv, add a column of answers to ask.csv, and
    coresift tell run.state ask.csv. The last answer writes the result.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


# How the flags of start are stored


def keeping(gatherer: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., Arguments]]:
    """Return a decorator that adds the flags of `gather` to a check, and returns all flags for the state file."""

    def with_flags(check: Callable[..., None]) -> Callable[..., Arguments]:
        own = list(inspect.signature(check, eval_str=True).parameters.values())
        shared = shared_flags(gatherer, own)

        @functools.wraps(check)
        def verb(**flags: Any) -> Arguments:
            check(**{part.name: flags[part.name] for part in own})
            return _anywhere(flags)

        verb.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
        verb.__annotations__ = {part.name: part.annotation for part in (*own, *shared)}
        return verb

    return with_flags


def _anywhere(flags: dict[str, Any]) -> Arguments:
    """Return the flags with absolute paths, which work in any folder."""
    rows, clusters, strata = flags["rows"], flags.get("clusters"), flags.get("strata")
    changed = {"rows": rows if "://" in rows else os.path.abspath(rows)}
    if clusters is not None and clusters.endswith(CLUSTERING_SUFFIX):
        changed["clusters"] = os.path.abspath(clusters)
    path, column = (None, "") if strata is None else split_column(strata, "class")
    if path is not None:
        changed["strata"] = f"{path.absolute()}:{column}"
    return flags | changed


def _gathered(gatherer: Callable[..., Any], arguments: Arguments, rows: cs.rows.Rows, *besides: str) -> Any:
    """Return what kept flags come to; those in `besides` mean something else in this job."""
    flags = {}
    for part in list(inspect.signature(gatherer, eval_str=True).parameters.values())[1:]:
        if part.name not in besides:
            value, kind = arguments[part.name], get_args(part.annotation)[0]
            flags[part.name] = Path(value) if value is not None and Path in get_args(kind) else value
    return gatherer(lambda: rows, **flags)


def _open_rows(arguments: Arguments) -> cs.rows.Rows:
    names = ("rows", "column", "id_column", "exclude_column", "standardize")
    return open_source(*(arguments[name] for name in names))


def _path(arguments: Arguments, name: str) -> Path | None:
    return None if arguments[name] is None else Path(arguments[name])


def _out(arguments: Arguments) -> Path:
    return Path(arguments["out"])


@dataclass(frozen=True)
class Keeping:
    """An engine that keeps clusterings in a folder, since every step of a run starts its job again."""

    engine: Engine
    keep: Path

    def open(self, progress: Progress) -> AbstractContextManager[Workers]:
        """Open the workers of the engine."""
        return self.engine.open(progress)


def _run(
    begin: Callable[..., Prepared[Any]], rows: cs.rows.Rows, arguments: Arguments, state: Path, options: Any
) -> Run[Any]:
    computing = parse_engine(arguments["engine"], arguments["threads"], arguments["address"])
    engine = Keeping(computing, state.with_name(f"{state.name}.work"))
    progress = choose(None)
    prepared = begin(rows, arguments["budget"], arguments["seed"], engine=engine, progress=progress, **options)
    return prepared.run(state=state, arguments=arguments, progress=progress)


# The jobs


@keeping(gather)
def start_select(
    rows: RowsPath,
    out: SelectionOut = Path("picked.parquet"),
    budget: Budget = None,
    seed: Seed = 0,
    column: Column = None,
    id_column: IdColumn = None,
    exclude_column: ExcludeColumn = None,
    standardize: Standardize = False,
    threads: Threads = None,
    engine: EngineName = "local",
    address: Address = None,
) -> None:
    """Start a selection whose losses are computed elsewhere.

    Example: coresift start select embeddings.npy --budget 500 --state run.state

    Then: coresift ask run.state
    """
    check_out(out, "a selection", rows)


def open_select(arguments: Arguments, state: Path) -> Run[Any]:
    """Open the run of a selection."""
    rows = _open_rows(arguments)
    return _run(selecting.begin, rows, arguments, state, _gathered(gather, arguments, rows))


def write_select(result: cs.WeightedSelection, arguments: Arguments) -> list[tuple[str, str]]:
    """Write a selection with the columns of its table."""
    rows = _open_rows(arguments)
    cs.save(result, _out(arguments), table=table_of(rows))
    return [*describe(result, _out(arguments)), *used_columns(rows)]


@keeping(gather_regression)
def start_regression(
    rows: RowsPath,
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
) -> None:
    """Start a regression whose labels come later.

    A column of labels in ROWS, named label or by --target, is not used as a feature.

    Example: coresift start regression embeddings.npy --budget 500 --fit fit.csv --state run.state

    Then: coresift ask run.state
    """
    check_outs(out, fit, ridge, rows)


def _open_features(arguments: Arguments) -> cs.rows.Rows:
    names = ("rows", "column", "id_column", "exclude_column", "standardize", "target")
    return open_features(*(arguments[name] for name in names))


def open_regression(arguments: Arguments, state: Path) -> Run[Any]:
    """Open the run of a regression."""
    rows = _open_features(arguments)
    return _run(cs.regression.begin, rows, arguments, state, _gathered(gather_regression, arguments, rows))


def write_fit(result: cs.regression.RegressionSelection, arguments: Arguments) -> list[tuple[str, str]]:
    """Write a regression's selection and fit."""
    rows, fit = _open_features(arguments), _path(arguments, "fit")
    return write_regression(result, rows, _out(arguments), fit, arguments["ridge"])


@keeping(gather)
def start_diagnose(
    rows: RowsPath,
    out: DiagnosisOut = Path("diagnosis.json"),
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
) -> None:
    """Start a diagnosis whose losses are computed elsewhere.

    Example: coresift start diagnose embeddings.npy --budget 500 --out diagnosis.json --state run.state

    Then: coresift ask run.state
    """
    check_target(out, (".json",), "a diagnosis")


def open_diagnose(arguments: Arguments, state: Path) -> Run[Any]:
    """Open the run of a diagnosis."""
    rows, proxy = _open_rows(arguments), _path(arguments, "proxy")
    own = probing(rows, arguments["probes"], arguments["holder"], arguments["power"], proxy)
    options = _gathered(gather, arguments, rows, "proxy")
    return _run(diagnosing.begin, rows, arguments, state, {**own, **options})


def write_diagnosis(result: diagnosing.Diagnosis, arguments: Arguments) -> list[tuple[str, str]]:
    """Write what diagnose --json prints."""
    facts = plain(facts_of(result))
    tell(**facts)
    write_bytes(as_json_text(facts).encode("utf-8", "backslashreplace") + b"\n", _out(arguments))
    verdict = ("verdict", f"{result.verdict}. {result.reason}")
    return [verdict, *result.lines(arguments["holder"]), *used_columns(_open_rows(arguments))]


add_start(starts, StepJob("select", open_select, write_select, _out, rows=_open_rows), start_select)
add_start(starts, StepJob("regression", open_regression, write_fit, _out, rows=_open_features), start_regression)
add_start(starts, StepJob("diagnose", open_diagnose, write_diagnosis, _out, rows=_open_rows), start_diagnose)
app.add_typer(starts, name="start")
add_verbs(app)
