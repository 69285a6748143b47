"""Signals: values that are known for every row at no cost, as numeric columns that scores and estimates can use."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import named_options, refuse, unusable
from coresift.columns import add_up, every, stored
from coresift.errors import warn
from coresift.scratch import empty
from coresift.tables.textual import NUMBER
from coresift.types import Floats, Ints, SignalTable, as_array, numbered

# The most categories of a signal that get a column each; the rarer ones share a column.
MOST_CATEGORIES = 30
LARGEST = 1e100


def signal_table(signals: Any, n: int) -> SignalTable:
    """Return signals of any accepted form as a table of n lines.

    A missing number (NaN or None) becomes the median of the others, and an extra 0/1 column marks it. A categorical
    signal (strings, or anything that is not a number) becomes one 0/1 column per category; "missing" is a category too.
    True and False are 1 and 0.

    Args:
        signals: One number or category per row; several columns as a matrix; or a mapping of names to any of these or
            to tables of signals. A frame that iterates over its column names, such as pandas', counts as a mapping.
        n: The number of rows.

    Returns:
        The table; no columns if `signals` is None.

    Examples:
        >>> table = signal_table({"length": [3, None, 8], "language": ["en", "de", "en"]}, 3)
        >>> table.names
        ('length', 'length is missing', 'language=de', 'language=en')
        >>> table.columns[1].tolist()
        [5.5, 1.0, 1.0, 0.0]
    """
    if isinstance(signals, SignalTable):
        return _check_length(signals, n)
    if signals is None:
        return SignalTable((), np.zeros((n, 0)), np.zeros(0, np.bool_))
    named = [(name, values) for name, values in _named(signals) if not isinstance(values, SignalTable)]
    tables = [_check_length(values, n) for _, values in _named(signals) if isinstance(values, SignalTable)]
    pieces = [piece for name, values in named for piece in _pieces(name, values, n)]
    for table in tables:
        pieces += list(zip(table.names, table.columns.T, table.sizes, strict=True))
    names = tuple(name for name, _, _ in pieces)
    if len(set(names)) < len(names):
        duplicate = next(name for position, name in enumerate(names) if name in names[:position])
        refuse("signals", "columns with distinct names", f"{duplicate!r} twice")
    columns = _side_by_side([column for _, column, _ in pieces], n)
    plain = len(pieces) - sum(len(table.names) for table in tables)
    scales = np.concatenate([np.ones(plain), *(table.scales for table in tables)])
    calibrated = np.concatenate([np.zeros(plain, np.bool_), *(table.calibrated for table in tables)])
    return SignalTable(names, columns, np.array([size for _, _, size in pieces], np.bool_), scales, calibrated)


def _side_by_side(pieces: list[Floats], n: int) -> Floats:
    columns = empty((n, len(pieces)), np.float64)
    for number, piece in enumerate(pieces):
        columns[:, number] = piece
    columns.setflags(write=False)  # read-only arrays are passed on without a copy
    return columns


@named_options
def from_probabilities(probabilities: Any, *, log_loss: bool = False) -> dict[str, Floats]:
    """Return signals of how likely a classifier is to be wrong, from its own probabilities.

    Args:
        probabilities: One line per row and one column per class, each line with sum 1; or one number per row, the
            probability of the second of two classes.
        log_loss: Whether the signals are for the classifier's mean log loss. Then there is one more, `loss_deviation`:
            the standard deviation of the log loss if the probabilities are right. It is no sign of errors: it is 0
            where two classes are equally likely, because the log loss is the same for both. It does not help with
            quantiles.

    Returns:
        `expected_error`, 1 − max p; `deviation`, √(p(1 − p)) for the largest p, the standard deviation of being right;
        `entropy`, the expected log loss; `margin`, 1 − (p₁ − p₂) for the two largest.

    Examples:
        >>> signals = from_probabilities([[0.5, 0.5], [1.0, 0.0]])
        >>> {name: values.round(3).tolist() for name, values in signals.items()}
        {'expected_error': [0.5, 0.0], 'deviation': [0.5, 0.0], 'entropy': [0.693, 0.0], 'margin': [1.0, 0.0]}
        >>> from_probabilities([[0.5, 0.5], [0.9, 0.1]], log_loss=True)["loss_deviation"].round(3).tolist()
        [0.0, 0.659]
    """
    matrix = _matrix("probabilities", probabilities)
    if matrix.shape[1] == 1:
        matrix = np.concatenate([1 - matrix, matrix], axis=1)
    if np.any(matrix < 0) or not np.allclose(matrix.sum(axis=1), 1, atol=1e-3):
        refuse("probabilities", "numbers of at least 0 with sum 1 in every line", "other numbers")
    # A partition finds the two largest of each line without a full sort.
    second, first = np.partition(matrix, matrix.shape[1] - 2, axis=1)[:, -2:].T
    surprise = -np.log(np.where(matrix > 0, matrix, 1.0))
    entropy = (matrix * surprise).sum(axis=1)
    signals = {
        "expected_error": np.maximum(1 - first, 0.0),
        "deviation": np.sqrt(np.maximum(first * (1 - first), 0.0)),
        "entropy": entropy,
        "margin": np.maximum(1 - (first - second), 0.0),
    }
    if log_loss:
        signals["loss_deviation"] = np.sqrt((matrix * (surprise - entropy[:, None]) ** 2).sum(axis=1))
    return signals


@named_options
def disagreement(first: Any, second: Any) -> Floats:
    """Return how much two models disagree on each row: the total variation distance of their probabilities, or 0 and 1.

    Args:
        first: One line of class probabilities per row, or one answer per row.
        second: The same for the other model.

    Returns:
        For probabilities, Σ|p − q|/2, from 0 to 1; for answers, 1 if they differ and 0 otherwise.

    Examples:
        >>> disagreement(["cat", "dog"], ["cat", "cat"]).tolist()
        [0.0, 1.0]
        >>> disagreement([[0.9, 0.1]], [[0.4, 0.6]]).tolist()
        [0.5]
    """
    left, right = np.asarray(first), np.asarray(second)
    if left.shape != right.shape or left.ndim not in (1, 2):
        refuse("second", f"of the same shape as first, {left.shape}, with one line per row", f"shape {right.shape}")
    if left.ndim == 1:
        return np.asarray(left != right, np.float64)
    distances: Floats = np.abs(_matrix("first", left) - _matrix("second", right)).sum(axis=1) / 2
    return distances


def _check_length(table: SignalTable, n: int) -> SignalTable:
    if len(table) != n:
        refuse("signals", f"one line for each of {n} rows", f"{len(table)} lines")
    return table


def _named(signals: Any) -> list[tuple[str, Any]]:
    """Return the name and values of each signal."""
    if isinstance(signals, Mapping) or hasattr(signals, "columns"):
        names = signals.column_names if hasattr(signals, "column_names") else list(signals)
        return [(str(name), signals[name]) for name in names]
    return [("signal", signals)]


def _pieces(name: str, values: Any, n: int) -> list[tuple[str, Floats, bool]]:
    """Return the columns of a signal: name, values, and whether it can be used as a size."""
    try:
        array = as_array(values)
    except ValueError:
        refuse("signals", f"one number or name per row in {name!r}", "lists of unequal length")
    if array.shape[:1] != (n,) or array.ndim > 2:
        refuse("signals", f"one number or name for each of {n} rows in {name!r}", f"shape {array.shape}")
    if array.ndim == 2:
        parts = [_pieces(f"{name} {index}", array[:, index], n) for index in range(array.shape[1])]
        return [piece for part in parts for piece in part]
    numbers = _numbers(array)
    return _category_columns(name, array) if numbers is None else _numeric_columns(name, numbers)


def _numbers(array: NDArray[Any]) -> Floats | None:
    """Return the values as numbers with NaN for missing ones, or None if they are categories."""
    if np.issubdtype(array.dtype, np.number) or array.dtype == np.bool_:
        if np.issubdtype(array.dtype, np.complexfloating):
            return None
        return array.astype(np.float64, copy=False)
    if array.dtype != object:
        return None
    try:
        return np.array([np.nan if _missing(value) else _number(value) for value in array], np.float64)
    except TypeError:
        return None


def _number(value: Any) -> float:
    if isinstance(value, str | bytes):
        raise TypeError
    return float(value)


def _missing(value: Any) -> bool:
    # pandas' missing values are recognized by name, because pandas need not be installed.
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and isnan(value))


def _numeric_columns(name: str, numbers: Floats) -> list[tuple[str, Floats, bool]]:
    n = numbers.size
    if not every(n, lambda rows: ~np.isinf(numbers[rows])):
        refuse("signals", f"finite numbers, or NaN if missing, in {name!r}", "an infinity")
    missing = int(add_up(n, lambda rows: np.count_nonzero(np.isnan(numbers[rows]))))
    if missing == n:
        refuse("signals", f"at least one number in {name!r}", "none")
    # fmin and fmax ignore missing values.
    lowest, highest = float(np.fmin.reduce(numbers)), float(np.fmax.reduce(numbers))
    if max(-lowest, highest) > LARGEST:  # their squares could overflow
        refuse("signals", f"numbers of at most {LARGEST:g} in size in {name!r}", f"{max(-lowest, highest):g}")
    can_be_size = lowest < highest and lowest >= 0
    if not missing:
        return [(name, numbers, can_be_size)]
    median = np.median(numbers[~np.isnan(numbers)])
    filled = stored(n, lambda rows: np.where(np.isnan(numbers[rows]), median, numbers[rows]))
    absent = stored(n, lambda rows: np.isnan(numbers[rows]))
    return [(name, filled, can_be_size), (f"{name} is missing", absent, False)]


def _category_columns(name: str, array: NDArray[Any]) -> list[tuple[str, Floats, bool]]:
    categories, codes = numbered(["missing" if _missing(value) else str(value) for value in array.tolist()])
    counts = np.bincount(codes, minlength=len(categories))
    _warn_of_numbers(name, categories, counts)
    frequent = np.sort(np.argsort(-counts, kind="stable")[:MOST_CATEGORIES])
    columns = [(f"{name}={categories[code]}", (codes == code).astype(np.float64), False) for code in frequent]
    if frequent.size < len(categories):
        columns.append((f"{name}: others", (~np.isin(codes, frequent)).astype(np.float64), False))
    return columns


def _warn_of_numbers(name: str, categories: list[str], counts: Ints) -> None:
    """Warn of many categories that are mostly numbers: a column of numbers in which a few cells are something else."""
    if len(categories) <= MOST_CATEGORIES:
        return
    numeric = np.array([re.match(NUMBER, category.strip()) is not None for category in categories])
    if counts[numeric].sum() <= counts.sum() / 2:
        return
    others = [word for word, number in zip(categories, numeric, strict=True) if not number and word != "missing"]
    cause = f"{reprlib.repr(others[0])} is not a number" if others else "its numbers are texts"
    warn(f"The signal {name!r} is read as {len(categories):,} categories and tells little, because {cause}.")


def _matrix(argument: str, values: Any) -> Floats:
    if unusable(values):
        refuse(argument, "real numbers, one line per row and one column per class", unusable(values))
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        refuse(argument, "numbers, one line per row and one column per class", type(values).__name__)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] < 1 or not np.all(np.isfinite(array)):
        refuse(argument, "finite numbers, one line per row and one column per class", f"shape {array.shape}")
    return array
