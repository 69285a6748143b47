"""The flags that several commands share, and the options that they make up together."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from coresift.checks import InputError
from coresift.cli.app import CHOOSING, COMPUTING, READING, TEXTS
from coresift.cli.files import check_out, open_source
from coresift.cli.parsing import (
    Opener,
    paper_mode,
    parse_clusters,
    parse_part,
    read_proxy,
    read_rows,
    read_strata,
)
from coresift.recipes.arguments import Options
from coresift.regression import RegressionOptions

reading = functools.partial(typer.Option, rich_help_panel=READING)
choosing = functools.partial(typer.Option, rich_help_panel=CHOOSING)
from_texts = functools.partial(typer.Option, rich_help_panel=TEXTS)
computing = functools.partial(typer.Option, rich_help_panel=COMPUTING)

RowsPath = Annotated[
    str,
    typer.Argument(
        metavar="ROWS", help="Embeddings or other numbers: .npy, .parquet, .arrow, .csv, .jsonl, a folder or a glob."
    ),
]
Budget = Annotated[int | None, typer.Option(help="How many rows to select.")]
Seed = Annotated[int, typer.Option(help="Seed of the random draws; the same seed gives the same bytes.")]
SelectionOut = Annotated[Path, typer.Option(help="Where to write the selection: .parquet, .csv or .jsonl.")]
Power = Annotated[float, choosing("--z", help="Power of the distances: 2 is k-means, 1 is k-median.")]
OptionalPower = Annotated[float | None, choosing("--z", help="Power of the distances (by default 2).")]
Clusters = Annotated[
    str | None,
    choosing(
        help="How many (by default a tenth of the budget, a twentieth with --strata), or a file that cluster wrote."
    ),
]
Normalize = Annotated[bool, choosing("--normalize", help="Scale every row to length 1, to compare by cosine.")]
Column = Annotated[str | None, reading(help="In a table: the column that holds the embedding.")]
IdColumn = Annotated[str | None, reading(help="In a table: the column of ids (by default id).")]
ExcludeColumn = Annotated[
    list[str] | None,
    reading(metavar="NAME", help="In a table: a numeric column to leave out of the rows; can be repeated."),
]
Standardize = Annotated[bool, reading("--standardize", help="Scale every column to mean 0 and standard deviation 1.")]
Signals = Annotated[
    str | None,
    choosing(help="What you know about every row at no cost: columns of ROWS, or a file with a line per row."),
]
Strata = Annotated[
    str | None,
    choosing(
        metavar="NAME|FILE[:NAME]",
        help="Classes that no cluster may cross: a column of ROWS, or a file with the columns row or id, and class.",
    ),
]
Given = Annotated[
    Path | None,
    choosing(help="File of rows that must be selected: a row number or id per line, or a table with row or id."),
]
Exclude = Annotated[
    Path | None,
    choosing(
        help="File of rows that are never selected or asked: a row number or id per line, or a table with row or id."
    ),
]
Design = Annotated[str | None, choosing(help="How rows are drawn: Systematic, Pivotal, Poisson or Independent.")]
Text = Annotated[
    str | None,
    from_texts(metavar="COLUMN", help="ROWS is a table of texts: embed this column with --embed-model first."),
]
Target = Annotated[
    str | None, from_texts(metavar="COLUMN", help="With --loss-model: the column of targets, or of classes.")
]
EmbedModel = Annotated[str | None, from_texts(metavar="MODEL", help="With --text: folder or hub name of the encoder.")]
LossModel = Annotated[
    str | None, from_texts(metavar="MODEL", help="With --text, instead of --losses: folder or hub name of a model.")
]
Gradient = Annotated[bool, from_texts("--gradient", help="With --loss-model: squared gradient norms, not losses.")]
Prefix = Annotated[str, from_texts(help="With --loss-model: text to put before every text.")]
Work = Annotated[
    Path | None,
    from_texts(help="With --text: folder that keeps the output of each stage, for reuse (by default OUT.work)."),
]
MaxLength = Annotated[int | None, from_texts(help="How many tokens of a text to use (by default as the model says).")]
Device = Annotated[str | None, computing(help="cpu, cuda or mps (by default the fastest that is available).")]
Threads = Annotated[int | None, computing(help="Threads (by default one per core); the result is the same.")]
EngineName = Annotated[
    str, computing("--engine", metavar="NAME", help="local, or ray for a Ray cluster; the result is the same.")
]
Address = Annotated[str | None, computing(help="With --engine ray: the address of the cluster, such as 10.0.0.1:6379.")]
SelectionPath = Annotated[Path, typer.Argument(metavar="SELECTION", help="A file that select wrote.")]
Confidence = Annotated[float, typer.Option(help="The probability that an interval covers the truth.")]
Predictions = Annotated[
    Path | None,
    typer.Option(help="A cheap model's loss for every row, not only selected ones: .npy, or as --values."),
]
Estimator = Annotated[
    str | None, typer.Option(metavar="NAME", help="How to use the predictions: difference (default) or regression.")
]


def selecting(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags of `gather` in place of its last argument, which gets the options that they make up.

    The command has its own ROWS and its own flags that say how to read them. Flags that it already has are left out.
    """
    return _with_flags(verb, gather)


def regressing(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags of `gather_regression` in the same way."""
    return _with_flags(verb, gather_regression)


def _with_flags(verb: Callable[..., None], gatherer: Callable[..., Any]) -> Callable[..., None]:
    own = list(inspect.signature(verb, eval_str=True).parameters.values())[:-1]
    shared = shared_flags(gatherer, own)

    @functools.wraps(verb)
    def run(**flags: Any) -> None:
        mine = {part.name: flags.pop(part.name) for part in own}
        if "out" in mine:
            named = [flags.get(name) for name in ("clusters", "strata", "signals", "given", "exclude", "proxy")]
            check_out(mine["out"], "a selection", *named)
        verb(**mine, options=gatherer(functools.cache(lambda: _open(mine)), **flags))

    run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {part.name: part.annotation for part in (*own, *shared)}
    return run


def shared_flags(gatherer: Callable[..., Any], own: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """Return the flags of `gather` or `gather_regression`, except those that a command already has."""
    taken = {part.name for part in own}
    return [
        part.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for part in list(inspect.signature(gatherer, eval_str=True).parameters.values())[1:]
        if part.name not in taken
    ]


def _open(mine: dict[str, Any]) -> Any:
    """Open the rows of a command, or the table of texts that they are computed from; both have ids."""
    if mine.get("text") is None:
        return open_source(mine["rows"], mine["column"], mine["id_column"], mine["exclude_column"])
    from coresift.models.corpus import open_corpus

    return open_corpus(mine["rows"], id_column=mine["id_column"])


def gather_regression(
    opener: Opener,
    clusters: Annotated[
        str | None,
        choosing(help="How many medoids (by default a third of the budget), or the file that cluster --z 1 wrote."),
    ] = None,
    score: Annotated[
        str | None, choosing(help='The score of a row: Distance, LeverageMixture or "Sensitivity(holder=0.1)".')
    ] = None,
    design: Design = None,
    paper: Annotated[
        float | None,
        choosing(metavar="HOLDER", help="The paper's Algorithm 2 with this Λ (inf: distances alone)."),
    ] = None,
    given: Given = None,
    exclude: Exclude = None,
    intercept: Annotated[bool, typer.Option(help="Whether the fit has an intercept.")] = True,
) -> RegressionOptions:
    """Return the options of a regression; `opener` opens the rows if ids must be looked up."""
    if paper is not None and (score or design):
        raise InputError("--paper sets the score and the design; leave out --score and --design.")
    return RegressionOptions(
        recipe=None if paper is None else paper_mode(str(paper)),
        clusters=None if clusters is None else parse_clusters(clusters),
        score=parse_part("score", score),
        design=parse_part("design", design),
        given=None if given is None else read_rows("--given", given, opener),
        exclude=None if exclude is None else read_rows("--exclude", exclude, opener),
        intercept=intercept,
    )


def gather(
    opener: Opener,
    clusters: Clusters = None,
    z: OptionalPower = None,
    normalize: Normalize = False,
    strata: Strata = None,
    signals: Signals = None,
    given: Given = None,
    exclude: Exclude = None,
    pilot: Annotated[
        str | None, choosing(help='The rows asked first: Representatives or "Centers(keep=True)".')
    ] = None,
    score: Annotated[
        str | None, choosing(help='The score of a row: Portfolio, Learned, Distance or "Sensitivity(holder=0.1)".')
    ] = None,
    proxy: Annotated[
        Path | None,
        choosing(help="Instead of --score: file with row or id, and loss: a cheap model's for every row."),
    ] = None,
    design: Design = None,
    paper: Annotated[
        str | None,
        choosing(
            metavar="HOLDER",
            help="The paper's Algorithm 1 with this Λ (a number, free, robust or estimate); sets all three above.",
        ),
    ] = None,
    epsilon: Annotated[
        float | None, choosing(help="With --paper, instead of --budget: the error of the theorem.")
    ] = None,
    delta: Annotated[float | None, choosing(help="With --epsilon: the probability of a larger error.")] = None,
) -> Options:
    """Return the options of a selection; `opener` opens the rows if a file about them must be read."""
    if paper is not None and any((pilot, score, proxy, design)):
        raise InputError(
            "--paper sets the pilot, the score and the design; leave out --pilot, --score, --proxy and --design."
        )
    if proxy is not None and score is not None:
        raise InputError("--proxy is a score; leave out --score.")
    return Options(
        recipe=None if paper is None else paper_mode(paper),
        clusters=None if clusters is None else parse_clusters(clusters),
        z=z,
        normalize=normalize,
        strata=None if strata is None else read_strata(strata, opener),
        signals=signals,
        given=None if given is None else read_rows("--given", given, opener),
        exclude=None if exclude is None else read_rows("--exclude", exclude, opener),
        pilot=parse_part("pilot", pilot),
        score=parse_part("score", score) if proxy is None else read_proxy(proxy, opener),
        design=parse_part("design", design),
        epsilon=epsilon,
        delta=delta,
    )
