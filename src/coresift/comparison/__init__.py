"""Compare methods with the same rows, seeds and budgets, each method in its own processes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from coresift.checks import (
    CoresiftError,
    CoresiftWarning,
    InputError,
    loss_vector,
    named_options,
    positive,
    refuse,
    share,
    whole,
)
from coresift.comparison import pages
from coresift.comparison.files import beside, opened_folder, remove_link
from coresift.comparison.methods import Method, check_module, check_travels, methods_of, name_of
from coresift.comparison.plotting import check_matplotlib, draw
from coresift.comparison.running import Setting, Todo, perform
from coresift.comparison.summary import Line, Mean, Trial, Verdict, summarize, verdicts
from coresift.comparison.worker import loading
from coresift.engine import available_cores
from coresift.oracle import LossesLike
from coresift.oracle.journal import Lines
from coresift.oracle.sources import LOSS, source_of
from coresift.progress import Progress, choose, stage
from coresift.rows import Rows, RowsLike, open_rows
from coresift.tables.writing import write_bytes, write_table
from coresift.types import Floats, digest
from coresift.version import __version__

__all__ = ["Comparison", "Line", "Mean", "Method", "Trial", "Verdict", "compare_methods"]

DEFAULT = ("coresift", "paper", "distance", "uniform")
MOST_SEEDS = 1_000_000
JOURNAL, LOG = "runs.jsonl", "methods.log"


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison; printed, it first says which method is best.

    `lines` has one entry per budget and method, `runs` every single selection, `verdicts` the best method at each
    budget. `scored` says that methods are judged by training instead of by the error of the estimated total loss;
    `higher`, that a larger score is better. `total` is the true total loss.
    """

    rows: int
    dimension: int
    methods: tuple[str, ...]
    budgets: tuple[int, ...]
    seeds: tuple[int, ...]
    reference: str
    scored: bool
    higher: bool
    total: float | None
    confidence: float
    threads: int
    lines: tuple[Line, ...]
    verdicts: tuple[Verdict, ...]
    runs: tuple[Trial, ...]

    @property
    def failures(self) -> tuple[Line, ...]:
        """The methods and budgets that have no result."""
        return tuple(line for line in self.lines if line.failure)

    def plot(self, path: str | Path) -> Path:
        """Draw the error, or score, against the budget to an `.svg`, `.pdf` or `.png` file."""
        return draw(self, Path(path))

    def __str__(self) -> str:
        return pages.as_text(self)

    def __repr__(self) -> str:
        return str(self)


@named_options
def compare_methods(
    rows: RowsLike,
    losses: LossesLike | None = None,
    methods: Any = DEFAULT,
    budgets: int | Iterable[int] = (),
    seeds: int | Iterable[int] = 20,
    *,
    out: str | Path | None = None,
    train: Callable[..., Any] | str | None = None,
    higher: bool = True,
    reference: str | None = None,
    confidence: float = 0.95,
    processes: int | None = None,
    threads: int = 1,
    timeout: float | None = None,
    plot: bool | None = None,
    progress: bool | Progress | None = None,
) -> Comparison:
    """Compare methods on the same rows with the same seeds and budgets, each in its own processes.

    A method that raises, crashes or runs out of memory gets a failed line; the others continue.

    Args:
        rows: Anything that `open_rows` takes.
        losses: The loss of every row, as an array or a file. Methods ask for some of them, and their estimates of the
            total are compared with the true total. With `train`, a callable or None is enough.
        methods: Names, with options in parentheses if needed ("paper(holder=0.1)", "coresift(design=Poisson)"); texts
            such as "module:function"; functions (rows, losses, budget, seed) -> Selection; or a mapping of labels to
            these. An option that names a .npy file means its array.
        budgets: Numbers of losses that a method may use, and of rows that it may select. `paper` asks k centers and
            draws budget − k rows.
        seeds: How many seeds, or which ones.
        out: A folder for the results: comparison.md, .csv, .json and .svg, and runs.jsonl, which keeps every run. The
            same call continues where it stopped; you can add seeds, budgets or methods.
        train: A function (or "module:function") that takes a selection and returns a score to judge methods by.
        higher: Whether a larger score is better.
        reference: The method to compare the others with; by default "uniform" if it is among them, else the first.
        confidence: The confidence level of the intervals.
        processes: How many selections run at a time, by default one per core.
        threads: How many threads each selection may use.
        timeout: Seconds after which a run (selection and training) counts as failed; imports get a minute more.
        plot: Whether to draw a plot; by default, if matplotlib is installed.
        progress: Whether to show a progress bar.

    Returns:
        The comparison, with one line per budget and method.

    Examples:
        >>> import numpy as np
        >>> rows = np.random.default_rng(0).normal(size=(500, 3))
        >>> comparison = compare_methods(rows, rows[:, 0] ** 2, ["distance", "uniform"], budgets=[50], seeds=3)
        >>> [(line.method, line.budget, line.seeds) for line in comparison.lines]
        [('distance', 50, 3), ('uniform', 50, 3)]
    """
    if loading.is_set():
        raise InputError(
            'compare_methods must be under `if __name__ == "__main__":` in a script whose functions it uses.'
        )
    request = _settle(methods, budgets, seeds, reference, train)
    rows, progress = open_rows(rows), choose(progress)
    known = _all_losses(losses, rows, train)
    plot = _checked_plot(plot, out)
    run_options = _run_options(confidence, processes, threads, timeout)
    fingerprint = {
        "rows": rows.fingerprint(),
        "losses": _shown(losses) if known is None else digest(known),
        "train": _shown(train),
        "confidence": repr(confidence),
        "threads": str(run_options["threads"]),
        "version": __version__,
    }
    with opened_folder(out) as folder, closing(Lines(folder / JOURNAL, "comparison", fingerprint)) as journal:
        runs = _kept(journal, request)
        todo = _todo(request, runs)
        if any(tasks for _, tasks in todo.values()):
            with beside(folder, rows, known, progress) as (there, loss_file):
                function = losses if known is None else None
                setting = Setting(there, loss_file, function, train, folder / LOG, **run_options)
                _perform(setting, todo, runs, journal, progress)
        comparison = _comparison(
            request, rows, known, runs, train is not None, higher, confidence, run_options["threads"]
        )
        _write(comparison, folder, plot)
    return comparison


@dataclass(frozen=True)
class _Request:
    methods: list[Method]
    budgets: list[int]
    seeds: list[int]
    reference: str


def _settle(methods: Any, budgets: Any, seeds: Any, reference: str | None, train: Any) -> _Request:
    chosen = methods_of(methods)
    labels = [method.label for method in chosen]
    if reference is None:
        reference = "uniform" if "uniform" in labels else labels[0]
    if reference not in labels:
        refuse("reference", f"one of the methods, {', '.join(labels)}", repr(reference))
    if isinstance(train, str):
        if ":" not in train:
            refuse("train", 'a function or a text such as "module:function"', repr(train))
        check_module("train", train)
    elif train is not None:
        if not callable(train):
            refuse("train", 'a function or a text such as "module:function"', repr(train))
        check_travels("train", train, _shown(train))
    return _Request(chosen, _numbers("budgets", budgets, 1), _numbers("seeds", seeds, 0), reference)


def _checked_plot(plot: bool | None, out: str | Path | None) -> bool | None:
    """Return whether to draw a plot; None if that depends on whether matplotlib is installed."""
    if plot and out is None:
        raise InputError("A plot needs a folder to write to; give out.")
    if plot:
        check_matplotlib()
    return False if out is None else plot


def _run_options(confidence: float, processes: int | None, threads: int, timeout: float | None) -> dict[str, Any]:
    """Check how methods are run and judged, and fill in the defaults."""
    threads = whole("threads", threads)
    return {
        "confidence": share("confidence", confidence),
        "processes": max(1, available_cores() // threads) if processes is None else whole("processes", processes),
        "threads": threads,
        "timeout": None if timeout is None else positive("timeout", timeout),
    }


def _numbers(argument: str, values: Any, least: int) -> list[int]:
    """Return distinct whole numbers in ascending order; one budget is a list of one, a number of seeds a range."""
    if isinstance(values, (int, np.integer)) and not isinstance(values, bool):
        if argument == "seeds" and whole(argument, values) > MOST_SEEDS:
            refuse(argument, f"at most {MOST_SEEDS:,}", values)
        values = [values] if argument == "budgets" else range(int(values))
    if isinstance(values, str) or not isinstance(values, Iterable):
        refuse(argument, "whole numbers", repr(values))
    numbers = sorted({whole(argument, number, least=least) for number in values})
    if not numbers:
        refuse(argument, "at least one whole number", "none")
    return numbers


def _all_losses(losses: Any, rows: Rows, train: Any) -> Floats | None:
    """Return the loss of every row, or None if methods are judged by training and losses are not all known."""
    if losses is None or callable(losses):
        if train is None:
            raise InputError(
                "losses must be an array or a file with every row's loss, since estimates are compared with the true "
                f"total; got {'none' if losses is None else 'a callable; compute all losses first'}."
            )
        if losses is not None:
            check_travels("losses", losses, _shown(losses))
        return None
    everything = np.arange(rows.n)
    known = loss_vector(source_of(losses).reader(rows.n, rows.names, LOSS)(everything), everything)
    if train is None and not known.any():
        raise InputError("losses must not all be 0: errors are relative to their total.")
    return known


def _shown(function: Any) -> str:
    if function is None or isinstance(function, str):
        return str(function)
    return name_of(function) or repr(function)


def _kept(journal: Lines, request: _Request) -> dict[tuple[str, int, int], Trial]:
    """Return the finished runs of earlier calls that this call needs, with the labels of this call."""
    labels = {method.text: method.label for method in request.methods}
    names = {field.name for field in fields(Trial)}
    kept = {}
    for number, entry in enumerate(journal.entries, start=2):
        try:
            run = Trial(**{name: value for name, value in entry.items() if name in names})
            key = (labels.get(run.text, ""), int(run.budget), int(run.seed))
            if run.failure is None and not run.is_sound():
                raise ValueError("a value of the wrong type or size")
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f"Line {number} of {journal.path} is not a run; remove it, or use another folder."
            ) from None
        if run.failure is None and key[0] and run.budget in request.budgets and run.seed in request.seeds:
            kept[key] = Trial(**{**asdict(run), "method": key[0]})
    return kept


def _todo(request: _Request, runs: dict[tuple[str, int, int], Trial]) -> Todo:
    tasks = [(budget, seed) for seed in request.seeds for budget in request.budgets]
    return {
        method.label: (method, [task for task in tasks if (method.label, *task) not in runs])
        for method in request.methods
    }


def _perform(
    setting: Setting, todo: Todo, runs: dict[tuple[str, int, int], Trial], journal: Lines, progress: Progress
) -> None:
    with stage(progress, "comparing", sum(len(tasks) for _, tasks in todo.values())):
        for run in perform(setting, todo):
            journal.write(asdict(run))
            runs[run.method, run.budget, run.seed] = run
            progress.advance(1)


def _comparison(
    request: _Request,
    rows: Rows,
    losses: Floats | None,
    runs: dict[tuple[str, int, int], Trial],
    scored: bool,
    higher: bool,
    confidence: float,
    threads: int,
) -> Comparison:
    value = _score if scored else _absolute_error
    labels = [method.label for method in request.methods]
    order = {label: place for place, label in enumerate(labels)}
    ordered = tuple(sorted(runs.values(), key=lambda run: (run.budget, order[run.method], run.seed)))
    lines = summarize(ordered, labels, request.budgets, request.reference, value)
    return Comparison(
        rows=rows.n,
        dimension=rows.d,
        methods=tuple(labels),
        budgets=tuple(request.budgets),
        seeds=tuple(request.seeds),
        reference=request.reference,
        scored=scored,
        higher=bool(higher) if scored else False,
        total=None if losses is None else float(losses.sum()),
        confidence=float(confidence),
        threads=threads,
        lines=lines,
        verdicts=verdicts(lines, ordered, request.reference, value, higher and scored),
        runs=ordered,
    )


def _score(run: Trial) -> float | None:
    return run.score


def _absolute_error(run: Trial) -> float | None:
    return None if run.error is None else abs(run.error)


def _write(comparison: Comparison, folder: Path, plot: bool | None) -> None:
    for name in ("comparison.json", "comparison.csv", "comparison.md"):
        remove_link(folder / name)  # never write through a link to another file
    write_bytes(pages.as_json(comparison), folder / "comparison.json")
    write_table(pages.as_csv(comparison.lines), folder / "comparison.csv")
    picture = folder / "comparison.svg"
    picture.unlink(missing_ok=True)  # from an earlier call, perhaps with fewer methods
    if plot is not False and comparison.verdicts:
        try:
            comparison.plot(picture)
        except CoresiftError as error:
            warnings.warn(f"{error} The same call will then draw it.", CoresiftWarning, stacklevel=4)
    write_bytes(pages.as_markdown(comparison, picture).encode(), folder / "comparison.md")
