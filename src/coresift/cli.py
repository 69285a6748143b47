"""The command line: one short function a verb, each with an example in its help."""

from __future__ import annotations

import ast
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import coresift as cs
from coresift.answers import AnswerFile
from coresift.checks import CoresiftError, CoresiftWarning, InputError
from coresift.pipeline import Options
from coresift.storage import write_table

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

STRATEGIES = {
    part.__name__: part
    for part in (
        cs.Centers, cs.Representatives, cs.Sensitivity, cs.Learned, cs.Mixture, cs.Distance, cs.Independent,
        cs.Systematic, cs.Pivotal, cs.Poisson,
    )
}  # fmt: skip

RowsPath = Annotated[str, typer.Argument(metavar="ROWS", help=".npy, folder or glob of shards, .parquet or .arrow.")]
Column = Annotated[str | None, typer.Option(help="Column that holds the embedding, in a table with several.")]
IdColumn = Annotated[str | None, typer.Option(help="Column of the table's own ids (by default: id, if there is one).")]
Budget = Annotated[int | None, typer.Option(help="How many rows to select.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same bytes.")]
Clusters = Annotated[str | None, typer.Option(help="How many, or a .npz file that `coresift cluster` wrote.")]
Power = Annotated[float | None, typer.Option("--z", help="Power of the distances: 2 is k-means, 1 is k-median.")]
Normalize = Annotated[bool, typer.Option("--normalize", help="Give rows length 1, for cosine embeddings.")]
Given = Annotated[
    Path | None, typer.Option(help="File of rows that are taken anyway: a row number a line, or a table.")
]
Exclude = Annotated[Path | None, typer.Option(help="File of rows that must not be taken; the same forms.")]
PilotText = Annotated[str | None, typer.Option("--pilot", help='Such as "Centers(keep=True)".')]
ScoreText = Annotated[str | None, typer.Option("--score", help='Such as "Sensitivity(holder=0.1)" or "Mixture()".')]
DesignText = Annotated[str | None, typer.Option("--design", help="Pivotal, Systematic, Poisson or Independent.")]
Paper = Annotated[float | None, typer.Option("--paper", metavar="HOLDER", help="The paper's Algorithm 1 with this Λ.")]
Epsilon = Annotated[float | None, typer.Option(help="With --paper, instead of a budget: the theorem's ε.")]
Delta = Annotated[float | None, typer.Option(help="With --epsilon: the probability with which it may fail.")]
Threads = Annotated[int | None, typer.Option(help="By default as many as there are cores; never changes the result.")]


def main() -> None:
    """Run the command line; what the user can mend is one sentence and exit status 2."""
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    try:
        app()
    except (CoresiftError, OSError, MemoryError) as error:
        print(f"Error: {error or type(error).__name__}", file=sys.stderr)
        raise SystemExit(2) from None


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", is_eager=True, help="Show the version and stop.")] = False,
) -> None:
    """Pick the few rows of a large data set that stand for all of it.

    Start with: coresift demo
    """
    if show:
        print(f"coresift {cs.__version__}")
        raise typer.Exit


@app.command()
def demo(seed: Seed = 0, budget: Budget = 500) -> None:
    """Select 500 of 10,003 bank customers' questions, and compare with the truth.

    Example: coresift demo --seed 7
    """
    from coresift.demo import load_demo

    data = load_demo()
    picked = cs.select(data.embeddings, losses=lambda ids: data.losses[ids], budget=budget, seed=seed)
    total, truth = cs.estimate(picked, data.losses[picked.ids]).total, data.losses.sum()
    uniform = np.random.default_rng(seed).choice(picked.n, len(picked), replace=False)
    covered, by_uniform = (len(set(data.intents[ids])) for ids in (picked.ids, uniform))
    inside = "inside" if total.low <= truth <= total.high else "outside"
    _print_table(
        "Which of 10,003 bank customers' questions stand for all of them?",
        [
            ("rows selected", f"{len(picked):,} of {picked.n:,}"),
            ("losses asked to choose them", f"{picked.ledger.asked:,}"),
            ("estimated total loss", f"{total.value:,.0f}, 95 % interval {total.low:,.0f} to {total.high:,.0f}"),
            ("true total loss", f"{truth:,.0f}, {inside} the interval, {abs(total.value / truth - 1):.1%} off"),
            ("intents covered", f"{covered} of {len(set(data.intents))}, by a uniform sample {by_uniform}"),
        ],
    )
    heaviest = np.argsort(-_weights(picked), kind="stable")[:3]
    lines = [(f"{_weights(picked)[place]:.1f}", str(data.texts[picked.ids[place]])) for place in heaviest]
    _print_table("The rows with the largest weights", lines)


@app.command()
def cluster(
    rows: RowsPath,
    k: Annotated[int, typer.Option("-k", "--clusters", help="How many centers.")],
    out: Annotated[Path, typer.Option(help="Where to write the clustering (.npz).")] = Path("clusters.npz"),
    z: Power = 2.0,
    seed: Seed = 0,
    normalize: Normalize = False,
    column: Column = None,
    threads: Threads = None,
) -> None:
    """Cluster once, to be used by ask and select.

    Example: coresift cluster embeddings.npy -k 200 --out clusters.npz
    """
    opened = cs.open_rows(rows, column=column)
    found = cs.cluster(opened, k, z=2.0 if z is None else z, seed=seed, normalize=normalize, engine=cs.Local(threads))
    cs.save(found, out)
    sizes = found.sizes
    _print_table(
        f"Wrote {out}",
        [
            ("clusters", f"{found.k:,} of {found.n:,} rows"),
            ("smallest, median, largest", f"{sizes.min():,}, {np.median(sizes):,.0f}, {sizes.max():,}"),
            ("cost to the center rows", f"{found.snapped_cost:,.6g}"),
        ],
    )


@app.command()
def ask(
    rows: RowsPath,
    out: Annotated[Path, typer.Option(help="Where to write the rows that need a loss (.csv or .parquet).")] = Path(
        "ask.csv"
    ),
    budget: Budget = None,
    seed: Seed = 0,
    clusters: Clusters = None,
    z: Power = None,
    normalize: Normalize = False,
    given: Given = None,
    exclude: Exclude = None,
    pilot: PilotText = None,
    score: ScoreText = None,
    design: DesignText = None,
    paper: Paper = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    column: Column = None,
    id_column: IdColumn = None,
    threads: Threads = None,
) -> None:
    """Write which rows need a loss, so that it can be had elsewhere.

    Example: coresift ask embeddings.npy --budget 2000 --out ask.csv
    Then add a column `loss` and: coresift select embeddings.npy --budget 2000 --losses ask.csv
    """
    opened = cs.open_rows(rows, column=column, id_column=id_column)
    options = _options(clusters, z, normalize, given, exclude, (pilot, score, design), paper, (epsilon, delta))
    ids = np.sort(cs.ask(opened, budget, seed, engine=cs.Local(threads), **options))
    _write_rows(out, ids, opened.names(ids))
    _print_table(f"Wrote {out}", [("rows that need a loss", f"{ids.size:,} of {opened.n:,}")])


@app.command()
def select(
    rows: RowsPath,
    losses: Annotated[
        Path | None, typer.Option(help="File with the columns row (or id) and loss. Without it, distances decide.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where to write the selection (.parquet, .csv or .jsonl).")] = Path(
        "picked.parquet"
    ),
    budget: Budget = None,
    seed: Seed = 0,
    clusters: Clusters = None,
    z: Power = None,
    normalize: Normalize = False,
    given: Given = None,
    exclude: Exclude = None,
    pilot: PilotText = None,
    score: ScoreText = None,
    design: DesignText = None,
    paper: Paper = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    column: Column = None,
    id_column: IdColumn = None,
    threads: Threads = None,
) -> None:
    """Select weighted rows that stand for all rows.

    Example: coresift select embeddings.npy --losses losses.csv --budget 2000 --out picked.parquet
    """
    opened = cs.open_rows(rows, column=column, id_column=id_column)
    options = _options(clusters, z, normalize, given, exclude, (pilot, score, design), paper, (epsilon, delta))
    picked = cs.select(opened, losses, budget, seed, engine=cs.Local(threads), **options)
    cs.save(picked, out)
    weights = _weights(picked)
    _print_table(
        f"Wrote {out}",
        [
            ("rows selected", f"{len(picked):,} of {picked.n:,}"),
            ("losses asked", f"{picked.ledger.asked:,}"),
            ("weights", f"{weights.min():.3g} to {weights.max():.3g}, {weights.sum():,.0f} in all"),
            ("worth as many equal weights as", f"{weights.sum() ** 2 / (weights**2).sum():,.0f} rows"),
        ],
    )


@app.command()
def estimate(
    selection: Annotated[Path, typer.Argument(help="A file that `coresift select` wrote.")],
    values: Annotated[Path, typer.Option(help="File with the column row (or id) and one or more columns of numbers.")],
    column: Annotated[list[str] | None, typer.Option(help="Which of them (by default: loss).")] = None,
    group: Annotated[str | None, typer.Option(help="Column to tell the totals apart by.")] = None,
    confidence: Annotated[float, typer.Option(help="Probability with which an interval covers the truth.")] = 0.95,
) -> None:
    """Estimate totals and means over all rows, with intervals.

    Example: coresift estimate picked.parquet --values losses.csv
    """
    picked = cs.load(selection)
    if not isinstance(picked, cs.Selection):
        raise InputError(f"{selection} must be a selection; it is a clustering.")
    answers = AnswerFile(values)
    names = column or ["loss"]
    vectors = {name: answers.numbers(name)(picked.ids, picked.names) for name in names}
    labels = None if group is None else answers.labels(group)(picked.ids, picked.names)
    found = cs.estimate(picked, vectors, groups=labels, confidence=confidence)
    table = Table("column", "group", "total", f"{confidence:.0%} interval", "mean", f"{confidence:.0%} interval")
    if group is None:
        table.columns.pop(1)
    remarks: dict[str, None] = {}
    for name, result in found.items():
        for label, one in ({None: result} if group is None else result).items():
            cells = [name] if group is None else [name, str(label)]
            table.add_row(*cells, *_cells(one.total), *_cells(one.mean))
            remarks |= dict.fromkeys(one.warnings)
    Console().print(table)
    for remark in remarks:
        _show_warning(remark)


@app.command()
def plan(
    rows: RowsPath,
    budget: Budget = None,
    seed: Seed = 0,
    clusters: Clusters = None,
    z: Power = None,
    normalize: Normalize = False,
    given: Given = None,
    exclude: Exclude = None,
    pilot: PilotText = None,
    score: ScoreText = None,
    design: DesignText = None,
    paper: Paper = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    column: Column = None,
) -> None:
    """Say what a selection will cost, before it runs.

    Example: coresift plan embeddings.npy --budget 2000
    """
    opened = cs.open_rows(rows, column=column)
    options = _options(clusters, z, normalize, given, exclude, (pilot, score, design), paper, (epsilon, delta))
    found = cs.plan(opened, budget, seed, **options)
    _print_table(
        f"To select {found.budget:,} of {found.rows:,} rows",
        [
            ("losses asked first", f"{found.losses_asked:,}"),
            ("losses for an estimate of the total", f"{found.losses_for_estimate:,} in all"),
            ("clusters", f"{found.clusters:,}"),
            ("passes over the rows", f"{found.passes}"),
            ("arithmetic", f"{found.arithmetic / 1e9:,.1f} Gflop"),
            ("memory", f"{found.memory / 1e6:,.0f} MB"),
        ],
    )


def parse_strategy(text: str) -> Any:
    """Return the strategy that a text such as "Sensitivity(holder=0.1)" names; only literals, nothing is run.

    >>> parse_strategy("Centers(keep=True)")
    Centers(keep=True)
    """
    known = ", ".join(sorted(STRATEGIES))
    try:
        node = ast.parse(text, mode="eval").body
        if isinstance(node, ast.Name):
            node = ast.Call(node, [], [])
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.args:
            raise ValueError
        options = {word.arg: ast.literal_eval(word.value) for word in node.keywords if word.arg}
        return STRATEGIES[node.func.id](**options)
    except (KeyError, ValueError, SyntaxError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f'A part must be one of {known}, with options such as "Centers(keep=True)"; got {text}.'
        ) from None
    except TypeError as error:
        raise InputError(f"{text} does not fit: {error}.") from None


def _options(
    clusters: str | None,
    z: float | None,
    normalize: bool,
    given: Path | None,
    exclude: Path | None,
    texts: tuple[str | None, str | None, str | None],
    paper: float | None,
    bound: tuple[float | None, float | None],
) -> Options:
    parts = [None if text is None else parse_strategy(text) for text in texts]
    if paper is not None:
        if any(parts):
            raise InputError("--paper names all parts already; leave out --pilot, --score and --design.")
        parts = [cs.Centers(keep=False), cs.Sensitivity(holder=paper), cs.Independent()]
    pilot, score, design = parts
    return Options(
        clusters=_clusters(clusters),
        z=z,
        normalize=normalize,
        given=None if given is None else _read_rows(given),
        exclude=None if exclude is None else _read_rows(exclude),
        pilot=pilot,
        score=score,
        design=design,
        epsilon=bound[0],
        delta=bound[1],
    )


def _clusters(text: str | None) -> int | cs.Clustering | None:
    if text is None:
        return None
    if text.isdigit():
        return int(text)
    found = cs.load(text)
    if not isinstance(found, cs.Clustering):
        raise InputError(f"--clusters must be a number or a clustering; {text} is a selection.")
    return found


def _read_rows(path: Path) -> Any:
    """Return row numbers from a text of one a line, or from a table's column `row` (a selection has one)."""
    if path.suffix in (".parquet", ".csv", ".jsonl"):
        return AnswerFile(path).rows()
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        return np.array([int(line) for line in path.read_text(encoding="utf-8").split()], np.int64)
    except ValueError as error:
        raise InputError(f"{path} must have one row number a line ({error}).") from None


def _write_rows(path: Path, ids: Any, names: list[Any] | None) -> None:
    import pyarrow as pa

    columns = {"row": ids} if names is None else {"row": ids, "id": names}
    write_table(pa.table(columns), path)


def _weights(selection: cs.Selection) -> Any:
    assert selection.weights is not None
    return selection.weights


def _cells(interval: cs.Interval) -> tuple[str, str]:
    return f"{interval.value:,.6g}", f"{interval.low:,.6g} to {interval.high:,.6g}"


def _print_table(title: str, lines: list[tuple[str, str]]) -> None:
    table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in lines:
        table.add_row(name, value)
    Console().print(table)


def _show_warning(message: Any, category: type[Warning] = CoresiftWarning, *_: Any) -> None:
    if issubclass(category, CoresiftWarning):
        print(f"Warning: {message}", file=sys.stderr)
