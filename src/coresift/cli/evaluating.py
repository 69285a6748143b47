"""Evaluations from files: coresift evaluate run, start, plan, ask, tell, status and report."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import coresift as cs
from coresift.checks import InputError
from coresift.cli.app import app
from coresift.cli.app import verb as verb_on
from coresift.cli.files import check_out
from coresift.cli.flags import Confidence, Seed
from coresift.cli.runs import Arguments, StepJob, add_start, add_verbs, kept_arguments, with_flags
from coresift.cli.showing import as_json_text, show_facts, show_page, show_warning, speaking, tell
from coresift.evaluation import Evaluation, EvaluationRun, Figure
from coresift.evaluation.result import halved, shown
from coresift.oracle.sources import with_id_column
from coresift.recipes.known import columns_of
from coresift.reporting.facts import plain
from coresift.tables import open_table
from coresift.tables.table import Table
from coresift.tables.writing import check_target, write_bytes
from coresift.types import Ints

NAME = "evaluate"
verbs = typer.Typer(rich_markup_mode=None)
app.add_typer(verbs, name=NAME)

TablePath = Annotated[
    str, typer.Argument(metavar="TABLE", help="Table with one line per row: predictions, signals, groups, texts.")
]
Metric = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="mean, total, rate, median or p95; with --predictions accuracy, precision, recall, f1 or difference.",
    ),
]
Positive = Annotated[str | None, typer.Option(metavar="CLASS", help="The positive class of precision, recall or f1.")]
PredictionColumns = Annotated[
    str | None, typer.Option("--predictions", metavar="A,B,...", help="Columns of predictions, one per model.")
]
SignalColumns = Annotated[
    str | None,
    typer.Option("--signals", metavar="A,B,...", help="Columns of numbers that are related to the answers."),
]
AnswerIds = Annotated[
    str | None,
    typer.Option("--id-column", metavar="NAME", help="Column of ids (by default id), which files of answers may have."),
]
Groups = Annotated[str | None, typer.Option(metavar="NAME", help="Column of groups, to estimate each.")]
GroupWithin = Annotated[float | None, typer.Option(help="The half-width that every group should have.")]
Within = Annotated[float | None, typer.Option(help="The half-width that the interval should have.")]
AnswersBudget = Annotated[
    int | None, typer.Option("--budget", help="How many answers to ask; with --within, the most.")
]
Embeddings = Annotated[
    Path | None, typer.Option("--rows", help="Embeddings of the rows, which help to predict answers.")
]
JsonOut = Annotated[Path, typer.Option(help="Where to write the evaluation: .json.")]


@verbs.callback(invoke_without_command=True)
def about(context: typer.Context) -> None:
    """Estimate a model's accuracy, or another number about all rows, from answers for a few of them.

    Example: coresift evaluate start predictions.csv --predictions guess --signals doubt --within 0.01
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


def gather(
    table: TablePath,
    out: JsonOut = Path("evaluation.json"),
    metric: Metric = None,
    positive: Positive = None,
    predictions: PredictionColumns = None,
    signals: SignalColumns = None,
    groups: Groups = None,
    within: Within = None,
    group_within: GroupWithin = None,
    budget: AnswersBudget = None,
    confidence: Confidence = 0.95,
    rows: Embeddings = None,
    id_column: AnswerIds = None,
    seed: Seed = 0,
) -> Arguments:
    """Start an evaluation whose answers come later.

    Example: coresift evaluate start predictions.csv --predictions guess --signals doubt --within 0.01

    Then repeat: coresift evaluate ask run.state --out ask.csv, add a column label (or value, if answers are numbers) to
    ask.csv, and coresift evaluate tell run.state ask.csv. The last answer writes the evaluation.
    """
    check_target(out, (".json",), "an evaluation")
    return {
        "table": table if "://" in table else str(Path(table).absolute()),
        "out": out,
        "metric": metric,
        "positive": positive,
        "predictions": predictions,
        "signals": signals,
        "groups": groups,
        "within": within,
        "group_within": group_within,
        "budget": budget,
        "confidence": confidence,
        "rows": rows,
        "id_column": id_column,
        "seed": seed,
    }


def _open(arguments: Arguments, state: Path | None, answers: Any = None) -> EvaluationRun:
    table = _table(arguments)
    names = _columns(arguments["predictions"])
    predictions = _arrays(table, names, "predictions")
    signals = _signals(arguments["table"], _columns(arguments["signals"]))
    groups = arguments["groups"]
    metric = _metric(arguments["metric"], arguments["positive"])
    return cs.evaluate(
        arguments["rows"],
        predictions=predictions if len(names) > 1 else predictions[names[0]] if names else None,
        signals=signals,
        n=table.n,
        ids=table.names(list(range(table.n))) if table.id_name is not None else None,
        groups=None if groups is None else _arrays(table, [groups], "groups")[groups],
        metric=metric,
        **{name: arguments[name] for name in ("within", "group_within", "budget", "confidence", "seed")},
        state=state,
        arguments=arguments if state is not None else None,
        **({} if answers is None else {"labels" if names else "values": answers}),
    )


def _table(arguments: Arguments) -> Table:
    return open_table(arguments["table"], id_column=arguments["id_column"])


def _metric(name: str | None, positive: str | None) -> Any:
    classes: dict[str, Callable[..., Any]] = {
        "precision": cs.evaluation.Precision,
        "recall": cs.evaluation.Recall,
        "f1": cs.evaluation.F1,
    }
    return name if positive is None or name not in classes else classes[name](positive=positive)


def _columns(names: str | None) -> list[str]:
    return [] if names is None else [name.strip() for name in names.split(",")]


def _signals(table: str, names: list[str]) -> Any:
    """Return the columns of signals; predictions, groups and ids stay as they are written, but these are numbers."""
    return columns_of(open_table(table, texts=()), names) if names else None


def _arrays(table: Table, names: list[str], argument: str) -> dict[str, Any]:
    for name in names:
        table.require(argument, name)
    return table.arrays(names)


def _beside(arguments: Arguments, ids: Ints, n: int) -> Any:
    """Return the table's columns for people who answer, without predictions and signals, which would sway them."""
    hidden = {*_columns(arguments["predictions"]), *_columns(arguments["signals"])}
    table = _table(arguments)
    return table.take(ids).drop_columns([name for name in table.columns if name in hidden and name != table.id_name])


def _write(evaluation: Evaluation, arguments: Arguments) -> list[tuple[str, str]]:
    facts = plain(evaluation)
    tell(**facts)
    write_bytes(as_json_text(facts).encode("utf-8", "backslashreplace") + b"\n", Path(arguments["out"]))
    for remark in evaluation.remarks:
        show_warning(remark)
    return lines_of(evaluation)


def _progress(run: EvaluationRun) -> list[tuple[str, str]]:
    """Return the estimate so far, for status, or the command that comes next."""
    now = run.status()
    if now.finished:
        return [(run.result.metric, _shown(run.result))]
    if now.interim is None:
        return [("next", "coresift evaluate ask STATE, and then coresift evaluate tell STATE ask.csv")]
    return [(f"{now.interim.metric} so far", _shown(now.interim)), ("", f"This is {now.note}.")]


def lines_of(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Return the lines that are shown about an evaluation."""
    lines = [(name or evaluation.metric, _shown(figure)) for name, figure in evaluation.figures.items()]
    lines += [(str(name), _shown(figure)) for name, figure in evaluation.groups.items()]
    lines += [("verdict", text) for text in evaluation.verdicts]
    missing = evaluation.missing
    if missing is not None:
        span = f"the estimate is between {missing.worst:.4g} and {missing.best:.4g}, whatever their answers are"
        lines.append(("no answer", f"{missing.rows:,} rows; {span}"))
    lines.append(("answers", f"{evaluation.asked:,}, worth {evaluation.effective_sample_size:,.0f} uniform rows"))
    if 0 < evaluation.half_width < math.inf:
        half = halved(evaluation.half_width)
        lines.append((f"for ± {half:g}", f"about {evaluation.answers_for(half):,} answers"))
    return lines


def _shown(figure: Figure) -> str:
    low, high = shown(figure.low), shown(figure.high)
    return f"{shown(figure.value)}, from {low} to {high} ({100 * figure.confidence:g}%)"


# A run that goes on has several half-widths or budgets.
KEPT = {"within": float | list[float] | None, "budget": int | list[int] | None}
JOB = StepJob(
    NAME, _open, _write, lambda arguments: Path(arguments["out"]), columns=_beside, kept=KEPT, progress=_progress
)
add_start(verbs, JOB, gather, command="start")
add_verbs(verbs, NAME)


def run(answers: Path, **flags: Any) -> None:
    """Evaluate at once, with answers from a file; only the answers for the drawn rows are used.

    Example: coresift evaluate run predictions.csv --predictions guess --answers labels.csv --budget 500
    """
    arguments = gather(**flags)
    check_out(arguments["out"], "an evaluation", answers, suffixes=(".json",))
    evaluation = _open(arguments, None, with_id_column(answers, arguments["id_column"])).complete()
    show_facts(f"Wrote {arguments['out']}", _write(evaluation, arguments))


AnswersPath = Annotated[Path, typer.Option(help="File with the columns row or id, and label or value.")]
ANSWERS = inspect.Parameter("answers", inspect.Parameter.KEYWORD_ONLY, annotation=AnswersPath)
verb_on("run", verbs)(speaking(with_flags(run, gather, ANSWERS)))


def plan(
    state: Annotated[Path, typer.Argument(metavar="STATE", help="The state file that start wrote.")],
    cost: Annotated[float | None, typer.Option(help="The price per answer.")] = None,
    expected: Annotated[
        float | None,
        typer.Option(help="The rate that you expect, such as the error rate; used before there are answers."),
    ] = None,
) -> None:
    """Forecast how many answers an evaluation will take, from the signals or from its complete stages.

    Example: coresift evaluate plan run.state --cost 0.05
    """
    with _reopened(state) as opened:
        forecast = opened.plan(cost=cost, expected=expected)
    tell(**plain(forecast))
    lines = [("based on", forecast.basis), *((f"{count:,} answers", f"± {half:.3g}") for count, half in forecast.table)]
    price = [] if forecast.price is None else [("price", f"{forecast.price:,.2f}")]
    show_facts(f"{forecast.answers:,} answers give ± {forecast.half_width:.3g}", [*price, *lines])


verb_on("plan", verbs)(speaking(plan))


@verb_on("extend", verbs)
@speaking
def extend(
    state: Annotated[Path, typer.Argument(metavar="STATE", help="The state file of a finished evaluation.")],
    to: Annotated[Path, typer.Option("--state", help="The state file of the run that goes on.")],
    within: Annotated[float | None, typer.Option(help="The half-width to reach now.")] = None,
    budget: Annotated[int | None, typer.Option(help="The number of answers to reach now.")] = None,
) -> None:
    """Go on with a finished evaluation, to a smaller half-width or a larger budget; its answers are kept.

    Example: coresift evaluate extend run.state --within 0.015 --state more.state
    """
    arguments = dict(kept_arguments(state, NAME)[1])
    if (within is None) == (budget is None):
        raise InputError("evaluate extend needs --within or --budget, and not both.")
    name, wish = ("within", within) if budget is None else ("budget", budget)
    if arguments[name] is None or to.exists():
        cause = f"{to} exists already" if to.exists() else f"the evaluation in {state} has no --{name}"
        raise InputError(f"The evaluation cannot go on, because {cause}.")
    with _open(arguments, state) as before:
        if not before.finished:
            raise InputError(f"The evaluation in {state} is not finished; hand in its answers first.")
        answers = before.answers
    arguments[name] = [*(arguments[name] if isinstance(arguments[name], list) else [arguments[name]]), wish]
    with _open(arguments, to) as run:
        while known := [row for row in run.ask().tolist() if row in answers]:
            run.tell(known, [answers[row] for row in known])
        pending = run.ask().size
    tell(answered=len(answers), pending=pending, state=str(to))
    show_facts(f"Wrote {to} with {len(answers):,} answers", [("answers to come now", f"{pending:,}")])


@verb_on("report", verbs)
@speaking
def report(
    state: Annotated[Path, typer.Argument(metavar="STATE", help="The state file that start wrote.")],
    out: Annotated[Path, typer.Option(help="Where to write the web page: .html.")] = Path("evaluation.html"),
) -> None:
    """Write a web page about an evaluation: the number after each stage, width against answers, models and groups.

    Example: coresift evaluate report run.state --out evaluation.html
    """
    with _reopened(state) as opened:
        page = cs.report(opened, out)
    show_page(page)


def _reopened(state: Path) -> EvaluationRun:
    return _open(kept_arguments(state, NAME)[1], state)
