"""Active learning with files: coresift active-learning start, ask, tell, status and report."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import coresift as cs
from coresift.cli.app import app, verb
from coresift.cli.files import check_out, open_source, warn_of_formulas, write_rows
from coresift.cli.flags import Column, ExcludeColumn, IdColumn, RowsPath, Seed, Standardize
from coresift.cli.labeling import REASONS, progress_of, remarks_on
from coresift.cli.runs import Arguments, StepJob, add_start, add_verbs, kept_arguments
from coresift.cli.showing import show_facts, show_page, speaking, tell
from coresift.cli.wording import PLURALS
from coresift.learning import AUDIT, ROUNDS, LearningRun
from coresift.learning.plan import DEFAULT_SHARE, rows_to_audit
from coresift.rows.taking import FEATURES, take
from coresift.types import Ints, LearningSelection

NAME = "active-learning"
# The columns that a file of rows to label always has; columns of the user's table with these names are renamed.
OWN = ("row", "id", "label")

verbs = typer.Typer(rich_markup_mode=None)
app.add_typer(verbs, name=NAME)


@verbs.callback(invoke_without_command=True)
def about(context: typer.Context) -> None:
    """Label rows in rounds, the most informative ones first.

    Example: coresift active-learning start embeddings.npy --table texts.csv --budget 300
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


def start(
    rows: RowsPath,
    budget: Annotated[int, typer.Option(help="How many labels to ask in total, including audits.")],
    out: Annotated[Path, typer.Option(help="Where to write the labeled rows: .parquet, .csv or .jsonl.")] = Path(
        "labeled.parquet"
    ),
    table: Annotated[
        Path | None, typer.Option(help="The table whose columns the labelers see (by default ROWS).")
    ] = None,
    rounds: Annotated[int, typer.Option(help="How many batches to ask.")] = ROUNDS,
    audit: Annotated[
        float | None,
        typer.Option(
            help="The rows that measure the model: a number, or a part of the budget, of at least 50 rows; 0: none "
            "(by default a tenth of the budget, and none if that is fewer than 50 rows)."
        ),
    ] = None,
    classes: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="All classes; other labels are refused.")
    ] = None,
    numeric: Annotated[bool, typer.Option("--numeric", help="Labels are numbers.")] = False,
    seed: Seed = 0,
    column: Column = None,
    id_column: IdColumn = None,
    exclude_column: ExcludeColumn = None,
    standardize: Standardize = False,
) -> Arguments:
    """Start labeling rows in rounds.

    Example: coresift active-learning start embeddings.npy --table texts.csv --budget 300

    Then repeat: coresift active-learning ask run.state --out round-1.csv, add a column label to round-1.csv, and
    coresift active-learning tell run.state round-1.csv. The last label writes the labeled rows.
    """
    check_out(out, "labeled rows", rows, table)
    return {
        "rows": _absolute(rows),
        "budget": budget,
        "out": out,
        "table": table,
        "rounds": rounds,
        "audit": _kept_audit(audit, budget),
        "classes": None if classes is None else [name.strip() for name in classes.split(",")],
        "numeric": numeric,
        "seed": seed,
        "column": column,
        "id_column": id_column,
        "exclude_column": exclude_column,
        "standardize": standardize,
    }


def _kept_audit(audit: float | None, budget: int) -> float | int | None:
    """Return the default share, or the number of rows that was given; a part of the budget is counted here."""
    if audit is None:
        return DEFAULT_SHARE
    return rows_to_audit(int(audit) if 1 <= audit < math.inf else audit, budget) or None


def _hints(arguments: Arguments) -> list[str]:
    """Return a warning if labelers would see only numbers of rows."""
    if _columns(arguments, np.zeros(0, np.int64), _rows(arguments).n) is not None:
        return []
    return ["Labelers will see no texts, only row numbers; to show them a table, start a run with --table and --state."]


def _absolute(rows: str) -> str:
    return rows if "://" in rows else str(Path(rows).absolute())


def _open(arguments: Arguments, state: Path) -> LearningRun:
    options = {name: arguments[name] for name in ("rounds", "audit", "classes", "numeric", "seed")}
    options |= {"audit": AUDIT} if options["audit"] == DEFAULT_SHARE else {}
    rows = _rows(arguments)
    if arguments["table"] is not None:
        take(arguments["table"], np.zeros(0, np.int64), rows.n)  # refuses a table of other rows before anyone labels
    return cs.active_learning(rows, arguments["budget"], state=state, arguments=arguments, **options)


def _source(arguments: Arguments) -> Any:
    return arguments["table"] or arguments["rows"]


def _rows(arguments: Arguments) -> cs.rows.Rows:
    return _rows_and_options(arguments)[0]


def _rows_and_options(arguments: Arguments) -> tuple[cs.rows.Rows, dict[str, Any]]:
    """Open the rows, and return the options that say how; a column of labels is never a feature."""
    options = {name: arguments[name] for name in ("column", "id_column", "exclude_column", "standardize")}
    rows = open_source(arguments["rows"], **options)
    if rows.columns is None or "label" not in rows.columns:
        return rows, options
    options["exclude_column"] = [*(options["exclude_column"] or ()), "label"]
    return open_source(arguments["rows"], **options), options


def _columns(arguments: Arguments, ids: Ints, n: int) -> Any:
    """Return the columns of the table for these rows, without embeddings; None if there are none."""
    import pyarrow as pa

    rows = _rows(arguments)
    shown = (
        rows.table.take(ids)
        if arguments["table"] is None and rows.table is not None
        else take(_source(arguments), ids, n, rows.names(ids), rows.id_name)
    )
    names = [name for name in shown.column_names if name != FEATURES and not _nested(shown.schema.field(name).type)]
    columns = {f"table_{name}" if name in OWN else name: shown[name] for name in names if name != "id"}
    return pa.table(columns) if columns else None


def _nested(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _write(selection: LearningSelection, arguments: Arguments) -> list[tuple[str, str]]:
    import pyarrow as pa

    out, table = Path(arguments["out"]), _columns(arguments, selection.ids, selection.n)
    cs.save(selection, out, table=table)
    texts = [cell for cell in (*selection.labels, *(selection.names or ())) if isinstance(cell, str)]
    warn_of_formulas(out, pa.table({"text": texts}), *([] if table is None else [table]))
    return []


def _next_steps(run: LearningRun, arguments: Arguments, state: Path) -> list[tuple[str, str]]:
    """Return what a finished run is good for: the labeled rows, and a model that predicts all rows."""
    from coresift.reporting.learning import opening_call

    options = _rows_and_options(arguments)[1].items()
    given = [f"{PLURALS.get(name, name)}={value!r}" for name, value in options if value]
    rows = f"cs.open_rows({', '.join([repr(arguments['rows']), *given])})" if given else repr(arguments["rows"])
    return [
        ("next", f"train a model on {arguments['out']}, or let the model of this run label all other rows:"),
        ("", f"coresift {NAME} predict {state} --out predicted.csv"),
        ("in Python", "or, to go on with it:"),
        ("", opening_call(run, rows, str(state))),
        ("", "predicted = run.model.predict(run.rows)"),
        ("report", f"coresift {NAME} report {state} writes a page about the run, with these lines"),
    ]


JOB = StepJob(
    NAME,
    _open,
    _write,
    lambda arguments: Path(arguments["out"]),
    rows=_rows,
    columns=_columns,
    kept={"audit": float | None, "classes": list[str] | None},
    hints=_hints,
    progress=progress_of,
    remarks=remarks_on,
    reasons=REASONS,
    next_steps=_next_steps,
)
add_start(verbs, JOB, start, command="start")
add_verbs(verbs, NAME)


@verb("report", verbs)
@speaking
def report(
    state: Annotated[Path, typer.Argument(metavar="STATE", help="The state file that start wrote.")],
    out: Annotated[Path, typer.Option(help="Where to write the web page: .html.")] = Path("run.html"),
) -> None:
    """Write a web page about a run: a map by round, the learning curve, and the balance of classes.

    Example: coresift active-learning report run.state --out run.html
    """
    _, arguments = kept_arguments(state, NAME)
    with _open(arguments, state) as run:
        page = cs.report(run, out)
    show_page(page)


@verb("predict", verbs)
@speaking
def predict(
    state: Annotated[Path, typer.Argument(metavar="STATE", help="The state file that start wrote.")],
    out: Annotated[Path, typer.Option(help="Where to write all rows: .parquet, .csv or .jsonl.")] = Path(
        "predicted.parquet"
    ),
) -> None:
    """Label all rows: those that people labeled as they are, and the others by the model trained on these labels.

    Each row has a label, who it is from (person or model), and how sure the model is: the probability of its class,
    or with --numeric labels the standard deviation of its number.

    Example: coresift active-learning predict run.state --out predicted.csv
    """
    _, arguments = kept_arguments(state, NAME)
    check_out(out, "predictions", arguments["rows"], arguments["table"])
    if out.absolute() == Path(arguments["out"]):
        raise cs.InputError(f"--out must be another file than {out}, which is for the labeled rows of this run.")
    with _open(arguments, state) as run:
        rows, labels = run.rows, run.labels
        answer, sureness = run.predict()
    ids, people, predicted = np.arange(rows.n), list(labels), answer.astype(object)
    predicted[people] = list(labels.values())
    by = np.full(rows.n, "model", object)
    by[people], sureness[people] = "person", np.nan
    answers = {
        "label": predicted.tolist(),
        "label_by": by,
        "standard_deviation" if run.numeric else "confidence": sureness,
    }
    table, key = _columns(arguments, ids, rows.n), arguments["id_column"]
    write_rows(out, ids, rows.names(ids), table, "label", id_column=key, answered=answers)
    tell(wrote=str(out), rows=rows.n, labeled=len(labels), predicted=rows.n - len(labels))
    facts = [("labeled by people", f"{len(labels):,}"), ("labeled by the model", f"{rows.n - len(labels):,}")]
    show_facts(f"Wrote {out}", facts)
