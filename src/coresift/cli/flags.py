"""The flags that several verbs share, and how their texts become what the library takes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import coresift as cs
from coresift import registry
from coresift.answers import AnswerFile
from coresift.checks import InputError, loss_vector
from coresift.recipes import Options
from coresift.regression import RegressionOptions
from coresift.storage import CLUSTERING_SUFFIX, SELECTION_SUFFIXES
from coresift.tables.npy import map_npy
from coresift.types import ESTIMATES

RowsPath = Annotated[
    str, typer.Argument(metavar="ROWS", help="Embeddings: .npy, .parquet, .arrow, or a folder or glob of such files.")
]
Budget = Annotated[int | None, typer.Option(help="How many rows to select.")]
Seed = Annotated[int, typer.Option(help="Seed of the random draws; the same one gives the same bytes.")]
Power = Annotated[float, typer.Option("--z", help="Power of the distances: 2 is k-means, 1 is k-median.")]
OptionalPower = Annotated[float | None, typer.Option("--z", help="Power of the distances, 2 if not said.")]
Clusters = Annotated[
    str | None,
    typer.Option(help="How many (by default a tenth of the budget, a twentieth with --strata), or what cluster wrote."),
]
Normalize = Annotated[bool, typer.Option("--normalize", help="Give every row length 1, to compare by cosine.")]
Column = Annotated[str | None, typer.Option(help="In a table: the column that holds the embedding.")]
IdColumn = Annotated[str | None, typer.Option(help="In a table: the column of its own ids (by default id).")]
Signals = Annotated[
    str | None,
    typer.Option(help="Known for every row at no cost: columns of the rows' table, or a file with a line per row."),
]
Strata = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE[:NAME]",
        help="Classes that no cluster crosses: a column of the rows' table, or a file with row or id, and class.",
    ),
]
Text = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="ROWS is a table of texts: embed this column with --embed-model first."),
]
Target = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="With --loss-model: the column of targets, or of classes.")
]
EmbedModel = Annotated[
    str | None, typer.Option(metavar="MODEL", help="With --text: folder or hub name of the encoder.")
]
LossModel = Annotated[
    str | None, typer.Option(metavar="MODEL", help="With --text, instead of --losses: folder or hub name of a model.")
]
Gradient = Annotated[bool, typer.Option("--gradient", help="With --loss-model: squared gradient norms, not losses.")]
Prefix = Annotated[str, typer.Option(help="With --loss-model: stands before every text.")]
Work = Annotated[
    Path | None, typer.Option(help="With --text: folder of what each stage made, reused (by default OUT.work).")
]
MaxLength = Annotated[int | None, typer.Option(help="How many tokens of a text count (by default as the model says).")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda or mps (by default the best there is).")]
Threads = Annotated[int | None, typer.Option(help="By default one a core; never changes the result.")]
EngineName = Annotated[
    str, typer.Option("--engine", metavar="NAME", help="Who computes: local, or ray, a cluster; with the same result.")
]
Address = Annotated[str | None, typer.Option(help="With --engine ray: the cluster's, such as 10.0.0.1:6379.")]
SelectionPath = Annotated[Path, typer.Argument(metavar="SELECTION", help="A file that select wrote.")]
Confidence = Annotated[float, typer.Option(help="How probable it is that an interval covers the truth.")]
Predictions = Annotated[
    Path | None, typer.Option(help="A cheap model's loss for every row, not only the selected: .npy, or as --values.")
]
Estimator = Annotated[
    str | None, typer.Option(metavar="NAME", help="How predictions are used: difference (default) or regression.")
]


def parse_engine(name: str, threads: int | None, address: str | None) -> cs.engines.Local | cs.engines.Ray:
    """Return the engine that the flags name.

    >>> parse_engine("ray", None, "10.0.0.1:6379")
    Ray(address='10.0.0.1:6379', threads=None, keep=None)
    """
    if name not in ("local", "ray"):
        raise InputError(f"--engine must be local or ray; got {name}.")
    if name == "ray":
        return cs.engines.Ray(address, threads)
    if address is not None:
        raise InputError("--address is that of a cluster; it needs --engine ray.")
    return cs.engines.Local(threads)


def selecting(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options of `gather` in place of its last argument, which receives what they come to.

    The verb has ROWS, --column and --id-column of its own: files that speak of rows are read with them.
    """
    return _with_flags(verb, gather)


def regressing(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options of `gather_regression` in the same way."""
    return _with_flags(verb, gather_regression)


def _with_flags(verb: Callable[..., None], gather: Callable[..., Any]) -> Callable[..., None]:
    own = list(inspect.signature(verb, eval_str=True).parameters.values())[:-1]
    shared = list(inspect.signature(gather, eval_str=True).parameters.values())[1:]

    @functools.wraps(verb)
    def run(**flags: Any) -> None:
        mine = {part.name: flags.pop(part.name) for part in own}
        verb(**mine, options=gather(functools.partial(_open, mine), **flags))

    run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {part.name: part.annotation for part in (*own, *shared)}
    return run


def _open(mine: dict[str, Any]) -> Any:
    """Open the rows of a verb, or the table of texts that they are made from: either has a number and ids."""
    if mine.get("text") is None:
        return cs.open_rows(mine["rows"], column=mine["column"], id_column=mine["id_column"])
    from coresift.models.corpus import open_corpus

    return open_corpus(mine["rows"], id_column=mine["id_column"])


def gather_regression(
    opener: Callable[[], cs.rows.Rows],
    clusters: Annotated[
        str | None,
        typer.Option(help="How many medoids (by default a tenth of the budget), or what cluster --z 1 wrote."),
    ] = None,
    score: Annotated[
        str | None, typer.Option(help='What a row is worth: Distance, LeverageMixture or "Sensitivity(holder=0.1)".')
    ] = None,
    design: Annotated[
        str | None, typer.Option(help="How rows are drawn: Systematic, Pivotal, Poisson or Independent.")
    ] = None,
    paper: Annotated[
        float | None,
        typer.Option(metavar="HOLDER", help="The paper's Algorithm 2 with this Λ (inf: distances alone)."),
    ] = None,
    given: Annotated[Path | None, typer.Option(help="File of rows to take anyway, as in select.")] = None,
    exclude: Annotated[Path | None, typer.Option(help="File of rows never to take or ask, as in select.")] = None,
    intercept: Annotated[bool, typer.Option(help="Whether there is a constant beside the columns.")] = True,
) -> RegressionOptions:
    """Return the options of `select_regression`; `opener` is not needed for any of them."""
    if paper is not None and (score or design):
        raise InputError("--paper names all parts already; leave out --score and --design.")
    return RegressionOptions(
        recipe=None if paper is None else paper_mode(str(paper)),
        clusters=None if clusters is None else parse_clusters(clusters),
        score=None if score is None else registry.parse("score", score, argument="--score"),
        design=None if design is None else registry.parse("design", design, argument="--design"),
        given=None if given is None else _row_numbers(given),
        exclude=None if exclude is None else _row_numbers(exclude),
        intercept=intercept,
    )


def gather(
    opener: Callable[[], cs.rows.Rows],
    clusters: Clusters = None,
    z: OptionalPower = None,
    normalize: Normalize = False,
    strata: Strata = None,
    signals: Signals = None,
    given: Annotated[
        Path | None, typer.Option(help="File of rows to take anyway: a row number a line, or a table with `row`.")
    ] = None,
    exclude: Annotated[Path | None, typer.Option(help="File of rows never to take or ask, in the same form.")] = None,
    pilot: Annotated[str | None, typer.Option(help='Who is asked: Representatives or "Centers(keep=True)".')] = None,
    score: Annotated[
        str | None, typer.Option(help='What a row is worth: Learned, Mixture, Distance or "Sensitivity(holder=0.1)".')
    ] = None,
    proxy: Annotated[
        Path | None,
        typer.Option(help="Instead of --score: file with row or id, and loss, a cheap model's for every row."),
    ] = None,
    design: Annotated[
        str | None, typer.Option(help="How rows are drawn: Systematic, Pivotal, Poisson or Independent.")
    ] = None,
    paper: Annotated[
        str | None,
        typer.Option(
            metavar="HOLDER",
            help="The paper's Algorithm 1 with this Λ (a number, free, robust or estimate); names all three above.",
        ),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="With --paper, instead of --budget: the error of the theorem.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="With --epsilon: how probable a larger error may be.")] = None,
) -> Options:
    """Return what ask, select and plan have in common; `opener` opens the rows, where a file must be read for them."""
    if paper is not None and any((pilot, score, proxy, design)):
        raise InputError("--paper names all parts already; leave out --pilot, --score, --proxy and --design.")
    if proxy is not None and score is not None:
        raise InputError("--proxy is a score already; leave out --score.")
    return Options(
        recipe=None if paper is None else paper_mode(paper),
        clusters=None if clusters is None else parse_clusters(clusters),
        z=z,
        normalize=normalize,
        strata=None if strata is None else read_strata(strata, opener),
        signals=signals,
        given=None if given is None else _row_numbers(given),
        exclude=None if exclude is None else _row_numbers(exclude),
        pilot=None if pilot is None else registry.parse("pilot", pilot, argument="--pilot"),
        score=_score(score, proxy, opener),
        design=None if design is None else registry.parse("design", design, argument="--design"),
        epsilon=epsilon,
        delta=delta,
    )


def read_strata(text: str, opener: Callable[[], cs.rows.Rows]) -> Any:
    """Return the name of a column of the rows' table, or the classes that a file has for the rows."""
    path, column = _split(text)
    if path is None:
        return column
    rows = opener()
    labels = AnswerFile(path).labels(column)(*_all(rows)).astype(object)
    labels[labels == ""] = None  # no label is no class
    return labels


def _split(text: str) -> tuple[Path | None, str]:
    """Tell FILE, whose column is class, and FILE:NAME from the NAME of a column."""
    if text.lower().endswith(SELECTION_SUFFIXES):
        return Path(text), "class"
    path, colon, column = text.rpartition(":")
    return (Path(path), column) if colon and path.lower().endswith(SELECTION_SUFFIXES) else (None, text)


def _score(text: str | None, proxy: Path | None, opener: Callable[[], cs.rows.Rows]) -> Any:
    if proxy is None:
        return None if text is None else registry.parse("score", text, argument="--score")
    rows = opener()
    ids, names = _all(rows)
    return cs.scores.Proxy(
        loss_vector(AnswerFile(proxy).numbers("loss")(ids, names), ids, source=str(proxy), names=names)
    )


def _all(rows: cs.rows.Rows) -> tuple[Any, list[Any] | None]:
    ids = np.arange(rows.n)
    return ids, rows.names(ids)


def paper_mode(holder: str) -> cs.Recipe:
    """Return the paper's Algorithm 1."""
    try:
        value: float | str = float(holder)
    except ValueError:
        value = holder
    if isinstance(value, str) and value not in ESTIMATES:
        raise InputError(f"--paper must be a number, or one of {', '.join(ESTIMATES)}; got {holder}.")
    return cs.recipes.paper(holder=value)


def estimating(rows: int, predictions: Path | None, method: str | None) -> Any:
    """Return the estimator that the flags name; without predictions the plain one, None."""
    if method not in (None, "difference", "regression"):
        raise InputError(f"--method must be difference or regression; got {method}.")
    if predictions is None:
        if method is not None:
            raise InputError(f"--method {method} needs --predictions.")
        return None
    numbers = _predictions(predictions, rows)
    return cs.estimators.GeneralizedRegression(numbers) if method == "regression" else cs.estimators.Difference(numbers)


def load_clusters(text: str) -> cs.Clustering:
    """Return the clustering in a file."""
    if not text.endswith(CLUSTERING_SUFFIX):
        raise InputError(f"--clusters must be a {CLUSTERING_SUFFIX} file that cluster wrote; got {text}.")
    loaded = cs.load(text)
    assert isinstance(loaded, cs.Clustering)  # its suffix is that of clusterings alone
    return loaded


def _predictions(path: Path, rows: int) -> Any:
    if path.suffix.lower() != ".npy":
        return AnswerFile(path).numbers("loss")(np.arange(rows), None)
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    return map_npy(path)


def parse_clusters(text: str) -> int | cs.Clustering:
    """Return a number of clusters, or the clustering in a file."""
    if text.isdecimal():
        return int(text)
    if not text.endswith(CLUSTERING_SUFFIX):
        raise InputError(f"--clusters must be a number or a {CLUSTERING_SUFFIX} file that cluster wrote; got {text}.")
    return load_clusters(text)


def _row_numbers(path: Path) -> Any:
    """Return row numbers from a text of one a line, or from a table's column `row` (a selection has one)."""
    if path.suffix.lower() in SELECTION_SUFFIXES:
        return AnswerFile(path).rows()
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        return np.array([int(line) for line in path.read_text(encoding="utf-8").split()], np.int64)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path} must have one row number a line; {error}.") from None
