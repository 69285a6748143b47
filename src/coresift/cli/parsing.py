"""Turn the values of flags into arguments of the library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import coresift as cs
from coresift import registry
from coresift.answers import AnswerFile
from coresift.checks import InputError, loss_vector
from coresift.storage import CLUSTERING_SUFFIX, SELECTION_SUFFIXES
from coresift.tables.npy import map_npy
from coresift.types import ESTIMATES, Ints

Opener = Callable[[], Any]  # opens the rows, or the table of texts that they are computed from; both have ids
LONGEST_NUMBER = 18  # digits of a number of clusters


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
        raise InputError("--address is the address of a cluster; it needs --engine ray.")
    return cs.engines.Local(threads)


def parse_clusters(text: str) -> int | cs.Clustering:
    """Return a number of clusters, or the clustering in a file."""
    if text.isdecimal() and len(text) <= LONGEST_NUMBER:
        return int(text)
    if not text.endswith(CLUSTERING_SUFFIX):
        shown = text if len(text) < 100 else f"{text[:20]}... ({len(text)} characters)"
        raise InputError(f"--clusters must be a number or a {CLUSTERING_SUFFIX} file that cluster wrote; got {shown}.")
    return load_clusters(text)


def load_clusters(text: str) -> cs.Clustering:
    """Return the clustering in a file."""
    if not text.endswith(CLUSTERING_SUFFIX):
        raise InputError(f"--clusters must be a {CLUSTERING_SUFFIX} file that cluster wrote; got {text}.")
    loaded = cs.load(text)
    assert isinstance(loaded, cs.Clustering)  # only clusterings have this suffix
    return loaded


def read_strata(text: str, opener: Opener) -> Any:
    """Return the name of a column of the rows' table, or the classes that a file has for the rows."""
    path, column = split_column(text, "class")
    if path is None:
        return column
    labels = AnswerFile(path).labels(column)(*_all(opener()))
    labels[labels == ""] = None  # an empty cell is a missing class
    return labels


def read_importance(text: str, rows: cs.rows.Rows) -> Any:
    """Return a number per row, from a column of the rows' table or from a file."""
    path, column = split_column(text, "importance")
    if path is not None:
        return AnswerFile(path).numbers(column)(*_all(rows))
    if rows.table is None:
        raise InputError(f"--importance must be a FILE:COLUMN if the rows are not a table; got {text}.")
    rows.table.require("--importance", column)
    return rows.table.numbers(column, np.arange(rows.n))


def split_column(text: str, column: str) -> tuple[Path | None, str]:
    """Split FILE or FILE:NAME into a path and a column; a plain NAME is a column without a path.

    >>> split_column("kinds.csv:kind", "class"), split_column("kind", "class")
    ((PosixPath('kinds.csv'), 'kind'), (None, 'kind'))
    """
    if text.lower().endswith(SELECTION_SUFFIXES):
        return Path(text), column
    path, colon, name = text.rpartition(":")
    return (Path(path), name) if colon and path.lower().endswith(SELECTION_SUFFIXES) else (None, text)


def read_rows(flag: str, path: Path, opener: Opener) -> Ints:
    """Return the numbers of the rows that a file lists.

    Args:
        flag: The flag, for error messages.
        path: A table with the column `row` or `id`, or a text with a row number or an id on each line.
        opener: Opens the rows if ids must be looked up.

    Returns:
        Row numbers, in the order of the file.
    """
    if path.suffix.lower() in SELECTION_SUFFIXES:
        listed = AnswerFile(path)
        return listed.rows() if listed.key == "row" else opener().numbers_of(listed.ids(), flag)
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except ValueError as error:
        raise InputError(f"{path} must have one row number or id per line; {error}.") from None
    return _numbers(flag, path, lines, opener())


def _numbers(flag: str, path: Path, lines: list[str], rows: Any) -> Ints:
    """Return the rows that lines name by number or id; refuse lines that could mean different rows."""
    try:
        numbers = [np.array([int(line) for line in lines], np.int64)]
    except (ValueError, OverflowError) as error:
        if rows.id_name is None:
            raise InputError(f"{path} must have one row number per line, as the rows have no ids; {error}.") from None
        numbers = []
    if rows.id_name is None:
        return numbers[0]
    try:
        named: Ints = rows.numbers_of(lines, flag)
    except InputError:
        if not numbers:
            raise
        return numbers[0]
    if numbers and not np.array_equal(numbers[0], named):
        raise InputError(
            f"{path} has numbers that could be row numbers or ids, and these are different rows; "
            "give a table with the column row or id instead."
        )
    return named


def read_proxy(path: Path, opener: Opener) -> cs.scores.Proxy:
    """Return the score that uses a cheap model's loss for every row."""
    ids, names = _all(opener())
    losses = loss_vector(AnswerFile(path).numbers("loss")(ids, names), ids, source=str(path), names=names)
    return cs.scores.Proxy(losses)


def parse_part(kind: str, text: str | None) -> Any:
    """Return the strategy that --pilot, --score or --design names."""
    return None if text is None else registry.parse(kind, text, argument=f"--{kind}")


def paper_mode(holder: str) -> cs.recipes.Recipe:
    """Return the paper's Algorithm 1."""
    try:
        value: float | str = float(holder)
    except ValueError:
        value = holder
    if isinstance(value, str) and value not in ESTIMATES:
        raise InputError(f"--paper must be a number, or one of {', '.join(ESTIMATES)}; got {holder}.")
    return cs.recipes.paper(holder=value)


def parse_estimator(rows: int, predictions: Path | None, name: str | None) -> Any:
    """Return the estimator that the flags name; without predictions the plain one, None."""
    if name not in (None, "difference", "regression"):
        raise InputError(f"--estimator must be difference or regression; got {name}.")
    if predictions is None:
        if name is not None:
            raise InputError(f"--estimator {name} needs --predictions.")
        return None
    numbers = _predictions(predictions, rows)
    return cs.estimators.GeneralizedRegression(numbers) if name == "regression" else cs.estimators.Difference(numbers)


def _predictions(path: Path, rows: int) -> Any:
    if path.suffix.lower() != ".npy":
        return AnswerFile(path).numbers("loss")(np.arange(rows), None)
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    return map_npy(path)


def _all(rows: Any) -> tuple[Any, list[Any] | None]:
    ids = np.arange(rows.n)
    return ids, rows.names(ids)
