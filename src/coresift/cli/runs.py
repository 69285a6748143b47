"""The commands of a resumable run: start a job, write the rows to answer, hand in answers, show how far it is."""

from __future__ import annotations

import functools
import inspect
import os
import reprlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin

import numpy as np
import typer

from coresift.answers import AnswerFile
from coresift.checks import InputError
from coresift.cli.app import verb as verb_on
from coresift.cli.files import check_out, has_column, used_columns, write_rows
from coresift.cli.showing import show_facts, show_warning, speaking, tell
from coresift.cli.wording import differences, flags_of
from coresift.notebook import counted
from coresift.oracle.journal import read_header
from coresift.oracle.questions import Question
from coresift.oracle.run import Run, Status
from coresift.redaction import redact
from coresift.rows import Rows
from coresift.tables.finding import SUFFIXES, check_file
from coresift.tables.tasks import SKIPPED, SUFFIX, Tool, read_tasks
from coresift.tables.values import is_nested
from coresift.types import Ints

State = Annotated[Path, typer.Option("--state", help="The state file of the run, which keeps every answer.")]
StatePath = Annotated[Path, typer.Argument(metavar="STATE", help="The state file that start wrote.")]
Arguments = Mapping[str, Any]
WRITTEN = ("out", "fit")  # arguments that name files of results


class Form(StrEnum):
    """The format in which the rows to answer are written."""

    CSV = "csv"
    LABEL_STUDIO = Tool.LABEL_STUDIO.value
    ARGILLA = Tool.ARGILLA.value


@dataclass(frozen=True)
class StepJob:
    """A job that the command line runs in steps, which may be days apart.

    Attributes:
        name: Its name, which is also the command after `start`.
        open: Opens its run. It takes the arguments of `start`, as JSON keeps them, and the state file, and must pass
            both to `Run`.
        write: Writes a result where the arguments say, and returns the lines that are shown about it.
        out: Returns the file that `write` writes.
        rows: Opens the rows; the other columns of their table are written beside the rows to answer.
        columns: Returns a table to write beside the rows to answer, by default none. It takes the arguments, the row
            numbers and the number of rows.
        kept: Types of arguments that are kept in another form than the flags of `start` have.
        hints: Returns warnings about the arguments, for `start`.
        progress: Returns more lines to show about how far a run is, finished or not.
        remarks: Returns warnings about answers that were just handed in.
        reasons: Why rows are asked, in the words of the people who answer, by the reason of a request.
        next_steps: Returns lines about what to do with a finished run. It takes the run, the arguments and the state
            file.
    """

    name: str
    open: Callable[[Arguments, Path], Run[Any]]
    write: Callable[[Any, Arguments], list[tuple[str, str]]]
    out: Callable[[Arguments], Path]
    rows: Callable[[Arguments], Rows] | None = None
    columns: Callable[[Arguments, Ints, int], Any] | None = None
    kept: Mapping[str, Any] = field(default_factory=dict)
    hints: Callable[[Arguments], list[str]] = lambda arguments: []
    progress: Callable[[Any], list[tuple[str, str]]] = lambda run: []
    remarks: Callable[[Any, list[Any]], list[str]] = lambda run, answers: []
    reasons: Mapping[str, str] = field(default_factory=dict)
    next_steps: Callable[[Any, Arguments, Path], list[tuple[str, str]]] = lambda run, arguments, state: []


JOBS: dict[str, StepJob] = {}
KINDS: dict[str, dict[str, Any]] = {}  # the types of each job's arguments, by its name


def add_start(app: typer.Typer, job: StepJob, verb: Callable[..., Arguments], *, command: str | None = None) -> None:
    """Add the command that starts a job.

    Args:
        app: The command line to add it to.
        job: The job; the other commands find it by its name.
        verb: Takes the flags, and returns the arguments of the job, which JSON must be able to keep. Paths become
            absolute, so that the other commands work in any folder.
        command: The name of the command, by default that of the job.
    """
    JOBS[job.name] = job
    own = inspect.signature(verb, eval_str=True).parameters.values()
    KINDS[job.name] = {part.name: _kind(part.annotation) for part in own} | dict(job.kept)
    flags_by_name = flags_of(own)

    @functools.wraps(verb)
    def start(*, state: Path, **flags: Any) -> None:
        arguments = {name: _plain(value) for name, value in verb(**flags).items()}
        for flag in WRITTEN:
            if arguments.get(flag) is not None and os.path.realpath(arguments[flag]) == os.path.realpath(state):
                raise InputError(f"--state must be another file than --{flag}; both are {state}.")
        before = _check_start(state, job.name, arguments, flags_by_name)
        with job.open({"job": job.name, **arguments}, state) as run:
            _show(run, job, {"job": job.name, **arguments}, state, _title(run.status(), job.name, state, before))
        for hint in job.hints(arguments):
            show_warning(hint)

    state = inspect.Parameter("state", inspect.Parameter.KEYWORD_ONLY, default=Path("run.state"), annotation=State)
    verb_on(command or job.name, app)(speaking(with_flags(start, verb, state)))


def with_flags(function: Callable[..., None], verb: Callable[..., Any], more: inspect.Parameter) -> Callable[..., None]:
    """Give a function the flags of a command, and one more."""
    parts = [*inspect.signature(verb, eval_str=True).parameters.values(), more]
    function.__signature__ = inspect.Signature(parts)  # type: ignore[attr-defined]
    function.__annotations__ = {part.name: part.annotation for part in parts}
    return function


def _title(now: Status, name: str, state: Path, before: bool) -> str:
    """Return the title that start shows: whether the run is new, continues, or is finished."""
    if not now.asked:
        return f"{name} needs no answers and is finished"
    if now.finished:
        return f"{name} in {state} is finished; for a new run, give another --state"
    if before:
        return f"{name} was started before and continues; its state is in {state}"
    return f"Started {name}; its state is in {state}"


def add_verbs(app: typer.Typer, group: str | None = None) -> None:
    """Add the commands `ask`, `tell` and `status`, which work with every job; their help names the `group`."""
    for verb in (ask, tell_answers, status):
        command = speaking(verb)
        if group is not None:
            command.__doc__ = (verb.__doc__ or "").replace("coresift ", f"coresift {group} ")
        verb_on("tell" if verb is tell_answers else verb.__name__, app)(command)


def ask(
    state: StatePath,
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write the rows to answer: .csv, .parquet or .jsonl (by default ask.csv)."),
    ] = None,
    form: Annotated[
        Form | None,
        typer.Option(
            "--format",
            help="A spreadsheet (.csv), or tasks for a labeling tool (by default ask.json); tell reads its export.",
        ),
    ] = None,
) -> None:
    """Write the rows that a run needs answers for.

    Example: coresift ask run.state --out ask.csv

    Then add a column of answers to ask.csv, and run coresift tell run.state ask.csv

    For a labeling tool: coresift ask run.state --format label-studio --out tasks.json
    """
    tool = None if form in (None, Form.CSV) else Tool(form)
    out = out or Path("ask.csv" if tool is None else "ask.json")
    with _opened(state) as (run, job, arguments):
        if form is None:
            check_out(out, "a table", state, *_files(arguments))
        else:
            suffixes = (".csv" if tool is None else SUFFIX,)
            check_out(out, f"a file for {form.value}", state, *_files(arguments), suffixes=suffixes)
        if has_column(out, run.question.column):
            raise InputError(f"{out} already has {run.question.plural} in it; give another --out, or remove the file.")
        ids = run.ask()
        if ids.size:
            beside, key = _beside(job, arguments, ids, run.n), _id_column(job, arguments)
            write_rows(out, ids, run.names(ids), beside, run.question.column, tool, key)
            tell(wrote=str(out))
        _show(run, job, arguments, state, f"Wrote {out}" if ids.size else "There is nothing left to answer")


def tell_answers(
    state: StatePath,
    answers: Annotated[
        Path,
        typer.Argument(
            metavar="ANSWERS",
            help="File with row, id or the table's ids, and a column of answers, or a labeling tool's .json export.",
        ),
    ],
    column: Annotated[str | None, typer.Option(help="The column of answers (by default loss, label or value).")] = None,
    correct: Annotated[bool, typer.Option("--correct", help="Replace answers that were handed in before.")] = False,
    cannot_tell: Annotated[
        str | None, typer.Option(metavar="WORD", help="If answers are labels: the word for rows that nobody can label.")
    ] = None,
) -> None:
    """Hand in answers, some or all of them, as often as you like. Empty cells count as not answered yet.

    The last answer writes the result to the --out of start.

    Example: coresift tell run.state ask.csv
    """
    with _opened(state) as (run, job, arguments):
        if cannot_tell is not None and run.question.numeric:
            raise InputError("--cannot-tell is for runs that ask for labels; this one asks for numbers.")
        key = _id_column(job, arguments)
        ids, values, other_rows = _read(answers, column or run.question.column, run, run.question, key)
        if cannot_tell is not None:
            values = [None if value == cannot_tell.strip() else value for value in values]
        before = run.answers
        run.tell(ids, values, correct=correct)
        _show(run, job, arguments, state, _told(before, run.answers, ids.tolist(), other_rows))
        for remark in job.remarks(run, values):
            show_warning(remark)


def _told(before: Mapping[int, Any], after: Mapping[int, Any], rows: list[int], ignored: int) -> str:
    """Return the title that tell shows: how many answers are new, how many changed, and what was ignored."""
    counts = {
        "new": sum(row not in before for row in rows),
        "corrected": sum(row in before and before[row] != after[row] for row in rows),
        "unchanged": sum(row in before and before[row] == after[row] for row in rows),
    }
    tell(read=len(rows), **counts, ignored=ignored)
    parts = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    lines = f"{counted(ignored, 'other line')} of the file {'is' if ignored == 1 else 'are'} about rows not asked"
    return f"Read {counted(len(rows), 'answer')}{': ' if parts else ''}{parts}{f'; {lines}' if ignored else ''}"


def status(state: StatePath) -> None:
    """Show how far a run is.

    Example: coresift status run.state
    """
    with _opened(state) as (run, job, arguments):
        _show(run, job, arguments, state, f"{job.name} of {state}", writing=False)


def _check_start(state: Path, name: str, arguments: Arguments, flags: Mapping[str, str]) -> bool:
    """Refuse keys in arguments, and the state file of another run; return whether this run was started before."""
    for flag, value in arguments.items():
        if isinstance(value, str) and redact(value) != value:
            raise InputError(
                f"{flag} must not contain a password or a key, since the state file would keep it; "
                f"use the environment or a credentials file; got {redact(value)}."
            )
    # A file without a whole line is left over from a start that was killed.
    if not state.is_file() or b"\n" not in state.read_bytes():
        return False
    before = read_header(state).get("arguments")
    if before != {"job": name, **arguments}:
        raise InputError(
            f"The state file {state} belongs to another run ({differences(before, name, arguments, flags)}); "
            "continue it with ask and tell, or give another --state."
        )
    return True


def kept_arguments(state: Path, name: str | None = None) -> tuple[StepJob, Arguments]:
    """Return the job of a state file and its arguments; if there is a `name`, refuse other jobs."""
    header = read_header(state).get("arguments")
    arguments: dict[str, Any] = header if isinstance(header, dict) else {}
    job = arguments.get("job")
    if not isinstance(job, str) or job not in JOBS or name not in (None, job):
        verb = "start" if name is None else f"{name} start"
        raise InputError(
            f"The state file {state} was not written by {verb}; continue a run of Python there, with the same call."
        )
    for argument, kind in KINDS[job].items():
        if argument not in arguments:
            raise InputError(f"The state file {state} has no argument {argument}; another version may have written it.")
        if not _fits(arguments[argument], kind):
            value = reprlib.repr(arguments[argument])
            raise InputError(f"The state file {state} has a value of the wrong type for {argument}: {value}.")
    return JOBS[job], arguments


def _files(arguments: Arguments) -> list[str]:
    """Return the files that a run reads; start has made their paths absolute."""
    texts = (value for name, value in arguments.items() if name not in WRITTEN and isinstance(value, str))
    return [text for text in texts if os.path.isabs(text)]


def _kind(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _fits(value: Any, kind: Any) -> bool:
    """Return whether a value from JSON has the type of a flag."""
    if isinstance(kind, UnionType):
        return any(_fits(value, part) for part in get_args(kind))
    if get_origin(kind) is list:
        return isinstance(value, list) and all(_fits(part, get_args(kind)[0]) for part in value)
    if kind in (bool, NoneType):
        return isinstance(value, kind)
    numbers = {int: int, float: int | float}
    return isinstance(value, numbers.get(kind, str)) and not isinstance(value, bool)


@contextmanager
def _opened(state: Path) -> Iterator[tuple[Run[Any], StepJob, Arguments]]:
    """Open the run of a state file with its arguments."""
    job, arguments = kept_arguments(state)
    with job.open(arguments, state) as run:
        yield run, job, arguments


def _beside(job: StepJob, arguments: Arguments, ids: Ints, n: int) -> Any:
    """Return the rows to answer from the table, without embeddings, which people do not read."""
    if job.columns is not None:
        return job.columns(arguments, ids, n)
    rows = None if job.rows is None else job.rows(arguments)
    if rows is None or rows.table is None:
        return None
    asked = rows.table.take(ids)
    return asked.drop_columns([name for name in rows.columns or () if is_nested(asked[name].type)])


def _id_column(job: StepJob, arguments: Arguments) -> str | None:
    """Return the column of ids, which files of answers may have instead of `id`."""
    named: str | None = arguments.get("id_column")
    return named if named is not None or job.rows is None else job.rows(arguments).id_name


def _read(
    path: Path, column: str, run: Run[Any], question: Question, id_column: str | None
) -> tuple[Any, list[Any], int]:
    """Return the asked rows that a file answers, the answers, and how many other rows the file has."""
    check_file(path, (*SUFFIXES, SUFFIX), "A file of answers")
    exported = read_tasks(path, column) if path.suffix.lower() == SUFFIX else None
    answers = AnswerFile(path, exported, id_column)
    if not answers.has(column):
        columns = ", ".join(name for name in answers.columns if name not in ("row", answers.id_column)) or "no other"
        raise InputError(
            f"{path} must have a column of answers named {column}; name another with --column ({columns})."
        )
    unknown = answers.strangers(run.n, run.names)
    if unknown:
        raise InputError(
            f"{path} must be about rows of this run; there is no {answers.key} {unknown[0]} "
            f"({len(unknown)} of {answers.count} are unknown)."
        )
    listed = answers.rows() if answers.key == "row" else np.zeros(0, np.int64)
    answers.check_ids(listed, run.names(listed))
    rows = answers.known(run.asked, run.names(run.asked))
    look_up = answers.numbers(column) if question.numeric else answers.labels(column)
    values = look_up(rows, run.names(rows))
    answered = ~np.isnan(values) if question.numeric else values != ""
    skipped = np.zeros(rows.size, np.bool_)
    if exported is not None and not question.numeric:
        skipped = answers.numbers(SKIPPED)(rows, None) == 1
    replies = [None if skip else value for value, skip in zip(values.tolist(), skipped.tolist(), strict=True)]
    places = np.flatnonzero(answered | skipped)
    return rows[places], [replies[place] for place in places], answers.count - rows.size


def _show(run: Run[Any], job: StepJob, arguments: Arguments, state: Path, title: str, *, writing: bool = True) -> None:
    """Show how far the run is, and write the result if it is finished."""
    now = run.status()
    tell(job=job.name, **asdict(now))
    facts = [("answered", counted(now.answered, "row")), *job.progress(run)]
    if job.rows is not None and not now.finished:
        facts += used_columns(job.rows(arguments))
    if now.pending:
        reason = job.reasons.get(now.reason, now.reason)
        facts.append(("waiting for", f"{counted(now.pending, 'answer')} (round {now.round}: {reason})"))
    if now.finished:
        out = job.out(arguments)
        facts.append(("finished", str(out)))
        if writing:
            facts += job.write(run.result, arguments)
            tell(wrote=str(out))
        facts += job.next_steps(run, arguments, state)
    show_facts(title, facts)


def _plain(value: Any) -> Any:
    return str(value.absolute()) if isinstance(value, Path) else value
