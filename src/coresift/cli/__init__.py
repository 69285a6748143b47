"""The command line: one short function a verb, each with an example in its help."""

from __future__ import annotations

import os
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
from coresift.arguments import Options
from coresift.checks import CoresiftError, CoresiftWarning, InputError, positive
from coresift.cli.flags import (
    Budget,
    Clusters,
    Column,
    Confidence,
    Estimator,
    IdColumn,
    Normalize,
    OptionalPower,
    Power,
    Predictions,
    RowsPath,
    Seed,
    SelectionPath,
    Strata,
    Threads,
    estimating,
    load_clusters,
    parse_clusters,
    read_strata,
    regressing,
    selecting,
)
from coresift.comparison import DEFAULT
from coresift.diagnosis import PERCENTILES, probe
from coresift.regression import RegressionOptions
from coresift.storage import CLUSTERING_SUFFIX, SELECTION_SUFFIXES, check_target, write_table

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
UsageError: Any = typer.BadParameter.__base__  # click's, or that of the copy of click inside newer versions of typer


def main() -> None:
    """Run the command line; what the user can mend is one sentence and exit status 2."""
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    try:
        raise SystemExit(app(standalone_mode=False))
    except UsageError as error:
        message = error.format_message().strip().rstrip(".") + "."
    except (CoresiftError, OSError) as error:
        message = str(error)
    except MemoryError as error:
        message = f"There is not enough memory: {error or 'nothing more is known'}."
    except typer.Abort:
        raise SystemExit(130) from None
    print("Error:", " ".join(message.split()), file=sys.stderr)
    raise SystemExit(2)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and stop.")] = False,
) -> None:
    """Pick the few rows of a large data set that stand for all of it.

    Start with: coresift demo
    """
    if version:
        print(f"coresift {cs.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def demo(seed: Seed = 0, budget: Annotated[int, typer.Option(help="How many questions to select.")] = 500) -> None:
    """Select from 10,003 bank customers' questions, and compare with the truth.

    Example: coresift demo --seed 7
    """
    from coresift.demo import load_demo

    data = load_demo()
    rows, truth = cs.open_rows(data.embeddings), data.losses.sum()
    clustering = cs.cluster(rows, max(1, budget // 10), seed=seed)
    picks = [cs.select(rows, data.losses, budget, seed + turn, clusters=clustering) for turn in range(21)]
    totals = [cs.estimate(picked, data.losses[picked.ids]).total for picked in picks]
    picked, total = picks[0], totals[0]
    uniform = np.random.default_rng(seed).choice(picked.n, len(picked), replace=False)
    covered, by_uniform = (len(set(data.intents[ids])) for ids in (picked.ids, uniform))
    hits = [one.low <= truth <= one.high for one in totals]
    error = np.sqrt(np.mean([(one.value / truth - 1) ** 2 for one in totals[1:]]))
    _print_facts(
        f"Which {len(picked):,} of {picked.n:,} bank customers' questions stand for all of them?",
        [
            ("losses asked to choose them", f"{picked.ledger.asked:,}"),
            ("estimated total loss", f"{total.value:,.0f}, 95% interval {total.low:,.0f} to {total.high:,.0f}"),
            ("true total loss", f"{truth:,.0f}, {'inside' if hits[0] else 'outside'} the interval"),
            ("with 20 other seeds", f"{sum(hits[1:])} intervals hold the truth; typical error {error:.1%}"),
            ("a uniform sample's typical error", f"{_uniform_error(data.losses, len(picked)):.1%}"),
            ("intents covered", f"{covered} of {len(set(data.intents))}, by a uniform sample {by_uniform}"),
        ],
    )
    weights = _weights(picked)
    heaviest = np.argsort(-weights, kind="stable")[:3]
    lines = [(f"stands for {weights[place]:.1f}", str(data.texts[picked.ids[place]])) for place in heaviest]
    _print_facts("\nThe questions with the largest weights", lines)


@app.command()
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
) -> None:
    """Cluster the rows once, for ask and select to use.

    Example: coresift cluster embeddings.npy -k 200 --out clusters.npz
    """
    check_target(out, (CLUSTERING_SUFFIX,), "a clustering")
    opened = cs.open_rows(rows, column=column, id_column=id_column)
    classes = None if strata is None else read_strata(strata, lambda: opened)
    found = cs.cluster(opened, k, z=z, seed=seed, normalize=normalize, strata=classes, engine=cs.Local(threads))
    cs.save(found, out)
    sizes = found.sizes
    _print_facts(
        f"Wrote {out}",
        [
            ("clusters", f"{found.k:,} of {found.n:,} rows"),
            ("rows in a cluster", f"{sizes.min():,} to {sizes.max():,}, median {np.median(sizes):,.0f}"),
            (f"sum of distance^{found.z:g}", f"{found.snapped_cost:,.6g}"),
        ],
    )


@app.command()
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
    *,
    options: Options,
) -> None:
    """Write which rows need a loss, to have it computed elsewhere.

    Example: coresift ask embeddings.npy --budget 2000 --out ask.csv

    Then add a column loss to ask.csv, and use the same options again with
    coresift select embeddings.npy --budget 2000 --losses ask.csv
    """
    _check_out(out, "a table", rows)
    if _has(out, "loss"):
        raise InputError(f"{out} has losses in it already; give another --out, or remove it first.")
    opened = cs.open_rows(rows, column=column, id_column=id_column)
    ids = np.sort(cs.ask(opened, budget, seed, engine=cs.Local(threads), **options))
    if not ids.size:
        raise InputError("There is nothing to ask: with these options select needs no losses.")
    _write_rows(out, ids, opened.names(ids))
    _print_facts(f"Wrote {out}", [("rows that need a loss", f"{ids.size:,} of {opened.n:,}")])


@app.command()
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
    threads: Threads = None,
    *,
    options: Options,
) -> None:
    """Select weighted rows that stand for all rows.

    Example: coresift select embeddings.npy --losses ask.csv --budget 2000 --out picked.parquet
    """
    _check_out(out, "a selection", rows, losses)
    opened = cs.open_rows(rows, column=column, id_column=id_column)
    picked = cs.select(opened, losses, budget, seed, engine=cs.Local(threads), **options)
    cs.save(picked, out)
    facts = [("rows selected", f"{len(picked):,} of {picked.n:,}"), ("losses asked", f"{picked.ledger.asked:,}")]
    if len(picked):
        weights = _weights(picked)
        facts.append(("weights", f"{weights.min():,.2f} to {weights.max():,.2f}, {weights.sum():,.0f} in all"))
    _print_facts(f"Wrote {out}", facts)


@app.command()
def estimate(
    selection: SelectionPath,
    values: Annotated[Path, typer.Option(help="File with the columns row or id, and columns of numbers.")],
    column: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Which column, can be repeated (by default loss).")
    ] = None,
    group: Annotated[str | None, typer.Option(metavar="NAME", help="Column of labels: one total for each.")] = None,
    confidence: Confidence = 0.95,
    predictions: Predictions = None,
    method: Estimator = None,
) -> None:
    """Estimate totals and means over all rows, with intervals.

    Example: coresift estimate picked.parquet --values losses.csv --column loss
    """
    picked = _load_selection(selection)
    answers, estimator = AnswerFile(values), estimating(picked.n, predictions, method)
    vectors = {name: _numbers(answers, name, picked) for name in column or ["loss"]}
    labels = None if group is None else answers.labels(group)(picked.ids, picked.names)
    found = cs.estimate(picked, vectors, groups=labels, confidence=confidence, method=estimator)
    entries = [(name, label, one) for name in found for label, one in _by_label(found[name]).items()]
    interval = f"{100 * confidence:.6g}% interval"
    table = Table()
    for title in ("column", *([group] if group else []), "total", interval, "mean", interval):
        table.add_column(title, overflow="fold")  # a digit must not be hidden
    for name, label, one in entries:
        table.add_row(name, *([label or "(none)"] if group else []), *_cells(one.total), *_cells(one.mean))
    _print(table)
    if entries:
        size = entries[0][2].effective_size
        _print(f"{len(picked):,} rows stand for {picked.population:,}, and are worth {size:,.0f} of equal weight.")
    for remark in dict.fromkeys(remark for *_, one in entries for remark in one.warnings):
        _show_warning(remark)


@app.command()
def certify(
    selection: SelectionPath,
    losses: Annotated[Path, typer.Option(help="File with the columns row or id, and loss, for all selected rows.")],
    upper: Annotated[float | None, typer.Option(help="A number that no row's loss exceeds, drawn or not.")] = None,
    clusters: Annotated[Path | None, typer.Option(help="The clustering, for the conditional part: .npz.")] = None,
    holder: Annotated[float | None, typer.Option(help="With --clusters: Λ, if not the selection's own.")] = None,
    epsilon: Annotated[float, typer.Option(help="The error to count the draws for.")] = 0.1,
    delta: Annotated[float, typer.Option(help="How probable a larger error may be.")] = 0.05,
    confidence: Confidence = 0.95,
    predictions: Predictions = None,
    method: Estimator = None,
) -> None:
    """Say how far off the estimated total loss can be, and what that rests on.

    Example: coresift certify picked.parquet --losses losses.csv
    """
    picked = _load_selection(selection)
    certificate = cs.certify(
        picked,
        _numbers(AnswerFile(losses), "loss", picked),
        upper=upper,
        clustering=None if clusters is None else load_clusters(str(clusters)),
        holder=holder,
        epsilon=epsilon,
        delta=delta,
        method=estimating(picked.n, predictions, method),
        confidence=confidence,
    )
    _print(str(certificate))


@app.command()
@regressing
def regression(
    rows: RowsPath,
    labels: Annotated[Path | None, typer.Option(help="File with the columns row or id, and label.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="In a table: the column of labels, no part of the rows.")
    ] = None,
    ask: Annotated[
        Path | None, typer.Option(help="Only write, to this file, which rows need a label that --labels lacks.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where to write the selection: .parquet, .csv or .jsonl.")] = Path(
        "picked.parquet"
    ),
    fit: Annotated[Path | None, typer.Option(help="Where to write the coefficients: .csv, .parquet or .jsonl.")] = None,
    ridge: Annotated[float, typer.Option(help="Penalty on the squared coefficients of the fit.")] = 0.0,
    budget: Budget = None,
    seed: Seed = 0,
    column: Column = None,
    id_column: IdColumn = None,
    threads: Threads = None,
    *,
    options: RegressionOptions,
) -> None:
    """Select weighted rows for least squares, and fit.

    Example: coresift regression embeddings.npy --budget 500 --ask ask.csv

    Then add a column label to ask.csv, and use the same options again with
    coresift regression embeddings.npy --budget 500 --labels ask.csv --fit fit.csv
    """
    if labels is not None and target is not None:
        raise InputError("--labels and --target are two sources of labels; give one of them.")
    positive("ridge", ridge, zero=True)
    opened = cs.open_rows(rows, column=column, id_column=id_column, target=target)
    if ask is not None:
        _ask_labels(ask, opened, rows, labels, budget, seed, threads, options)
        return
    if labels is None and target is None:
        raise InputError("A fit needs labels: give --labels or --target, or --ask to learn which rows need one.")
    _check_out(out, "a selection", rows, labels)
    if fit is not None:
        _check_out(fit, "a table", rows, labels, flag="--fit")
        if fit.resolve() == out.resolve():
            raise InputError(f"--fit must be another file than --out; both are {fit}.")
    found = cs.select_regression(opened, labels, budget, seed, engine=cs.Local(threads), **options)
    line = found.fit(ridge)
    cs.save(found.selection, out)
    if fit is not None:
        _write_fit(fit, line, opened.columns)
    facts = [
        ("rows selected", f"{len(found.selection):,} of {opened.n:,}"),
        ("labels asked", f"{found.asked.size:,}"),
        ("coefficients", f"{line.coefficients.size:,}, of rank {line.rank:,}; intercept {line.intercept:,.6g}"),
        ("R² on the selected rows, weighted", f"{found.determination(line):.4f}"),
    ]
    _print_facts(f"Wrote {out}" + ("" if fit is None else f" and {fit}"), facts)


@app.command()
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
    _print_facts(
        f"To select {found.budget:,} of {found.rows:,} rows of {found.dimension:,} numbers",
        [
            ("losses asked to choose them", f"{found.losses_asked:,}"),
            ("losses to estimate the total loss", f"{found.losses_for_estimate:,}, with those"),
            ("clusters", f"{found.clusters:,}"),
            ("readings of all rows", f"{found.passes}"),
            ("arithmetic", f"{found.arithmetic / 1e9:,.1f} billion operations"),
            ("memory", f"{found.memory / 1e6:,.0f} MB"),
        ],
    )


@app.command()
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
    found = cs.compare(
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
    _print(str(found))
    _print(f"Wrote {out}")
    if found.failures:
        raise typer.Exit(1)


@app.command()
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
) -> None:
    """Say whether a selection would beat a uniform sample, from a few probes.

    Example: coresift diagnose embeddings.npy --losses losses.csv --budget 500

    To have the losses computed elsewhere, write the rows that need one with --ask probes.csv, add a column loss,
    and use the same options again with --losses probes.csv
    """
    if (losses is None) == (ask is None):
        raise InputError("Give one of --losses, the answers, and --ask, a file for the rows that need one.")
    if ask is not None:
        _check_out(ask, "a table", rows)
        if _has(ask, "loss"):
            raise InputError(f"{ask} has losses in it already; give another --ask, or remove it first.")
    opened = cs.open_rows(rows, column=column, id_column=id_column)
    options: dict[str, Any] = {"budget": budget, "seed": seed, "z": z, "normalize": normalize, "probes": probes}
    options |= {"clusters": None if clusters is None else parse_clusters(clusters), "engine": cs.Local(threads)}
    if ask is not None:
        ids = np.sort(probe(opened, **options))
        _write_rows(ask, ids, opened.names(ids))
        return _print_facts(f"Wrote {ask}", [("rows that need a loss", f"{ids.size:,} of {opened.n:,}")])
    options |= {"powers": power} if power else {}
    options |= {"proxy": None if proxy is None else _losses_of_all(proxy, opened), "holder": holder}
    _print_diagnosis(cs.diagnose(opened, losses, **options), holder)


def _print_diagnosis(found: cs.Diagnosis, holder: float | None) -> None:
    def shown(interval: cs.Interval, form: str) -> str:
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
    _print_facts(f"{found.verdict[0].upper()}{found.verdict[1:]}. {found.reason}", facts)
    table = Table()
    for title in ("percentile", *(f"{percentile}" for percentile in PERCENTILES)):
        table.add_column(title, overflow="fold")
    table.add_row("|loss - center's|", *(f"{value:.4g}" for value in found.gaps.center))
    table.add_row("|loss - random row's|", *(f"{value:.4g}" for value in found.gaps.random))
    for line in found.holder:
        mark = " (fits best)" if line.z == found.best_z and len(found.holder) > 1 else ""
        name = f"|loss - center's| / distance^{line.z:g}{mark}"
        table.add_row(name, *(f"{value:.4g}" for value in line.percentiles))
    _print(table)


def _uniform_error(values: Any, size: int) -> float:
    """Return the exact relative standard error of a total from a uniform sample without replacement."""
    return float(np.sqrt((1 - size / values.size) / size) * values.std(ddof=1) / values.mean())


def _check_out(out: Path, what: str, *sources: str | Path | None, flag: str = "--out") -> None:
    check_target(out, SELECTION_SUFFIXES, what)
    for source in (Path(source) for source in sources if source is not None):
        if source.is_dir() and out.parent.samefile(source) and out.suffix == ".parquet":
            raise InputError(f"{flag} must not lie in {source}, whose files are the rows; got {out}.")
        if source.exists() and out.exists() and out.samefile(source):
            raise InputError(f"{flag} must be another file than {source}, which is read.")


def _has(path: Path, column: str) -> bool:
    try:
        return path.exists() and column in AnswerFile(path).columns
    except InputError:
        return False


def _losses_of_all(path: Path, rows: cs.Rows) -> Any:
    ids = np.arange(rows.n)
    return AnswerFile(path).numbers("loss")(ids, rows.names(ids))


def _write_rows(path: Path, ids: Any, names: list[Any] | None) -> None:
    import pyarrow as pa

    write_table(pa.table({"row": ids} if names is None else {"row": ids, "id": names}), path)


def _load_selection(path: Path) -> cs.Selection:
    picked = cs.load(path)
    if not isinstance(picked, cs.Selection):
        raise InputError(f"{path} must be a selection; it is a clustering.")
    return picked


def _ask_labels(
    out: Path,
    opened: cs.Rows,
    rows: str,
    labels: Path | None,
    budget: int | None,
    seed: int,
    threads: int | None,
    options: RegressionOptions,
) -> None:
    _check_out(out, "a table", rows, labels, flag="--ask")
    if _has(out, "label"):
        raise InputError(f"{out} has labels in it already; give another --ask, or remove it first.")
    ids = cs.ask_regression(opened, budget, seed, b=labels, engine=cs.Local(threads), **options)
    known = np.zeros(0, np.int64) if labels is None else AnswerFile(labels).known(ids, opened.names(ids))
    ids = np.setdiff1d(ids, known)
    if not ids.size:
        raise InputError(f"There is nothing to ask: {labels} has every label that is needed.")
    _write_rows(out, ids, opened.names(ids))
    _print_facts(f"Wrote {out}", [("rows that need a label", f"{ids.size:,} of {opened.n:,}")])


def _write_fit(path: Path, fit: cs.Fit, columns: tuple[str, ...] | None) -> None:
    import pyarrow as pa

    names = columns or tuple(str(place) for place in range(fit.coefficients.size))
    table = {"column": ["intercept", *names], "coefficient": [fit.intercept, *fit.coefficients]}
    write_table(pa.table(table), path)


def _weights(selection: cs.Selection) -> Any:
    assert selection.weights is not None
    return selection.weights


def _numbers(answers: AnswerFile, column: str, picked: cs.Selection) -> Any:
    vector = answers.numbers(column)(picked.ids, picked.names)
    bad = np.flatnonzero(~np.isfinite(vector))
    if bad.size:
        row = picked.ids[bad[0]] if picked.names is None else picked.names[bad[0]]
        raise InputError(
            f"{column} in {answers.path} must be finite numbers; row {row} has {vector[bad[0]]} "
            f"({bad.size} of {len(picked)} rows are like that)."
        )
    return vector


def _by_label(found: Any) -> dict[str, cs.Estimate]:
    return found if isinstance(found, dict) else {"": found}


def _cells(interval: cs.Interval) -> tuple[str, str]:
    return f"{interval.value:,.6g}", f"{interval.low:,.6g} to {interval.high:,.6g}"


def _print_facts(title: str, lines: list[tuple[str, str]]) -> None:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in lines:
        table.add_row(name, value)
    _print(title)
    _print(table)


def _print(what: str | Table) -> None:
    # What stands in the user's data is no markup, and a file or a pipe has no width to break lines at.
    width = None if sys.stdout.isatty() else 500
    Console(markup=False, emoji=False, highlight=False, width=width).print(what, soft_wrap=isinstance(what, str))


def _show_warning(message: Any, category: type[Warning] = CoresiftWarning, *_: Any) -> None:
    if issubclass(category, CoresiftWarning):
        print(f"Warning: {message}", file=sys.stderr)
