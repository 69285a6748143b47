"""Signals: whatever is known for every row at no cost, as columns of numbers that scores and estimates can use."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import named_options, refuse, unusable
from coresift.types import Floats, SignalTable

# A class with more names than this keeps its most frequent ones; the others share a column.
MOST_CATEGORIES = 30
LARGEST = 1e100


def signal_table(signals: Any, n: int) -> SignalTable:
    """Return signals of any accepted form as a table of n lines.

    A number that is missing (NaN or None) becomes the median of the others, and a column of its own says where that
    was done. A class (text, or anything that is not a number) becomes one 0/1 column per name; a missing one is a name
    like any other. True and False are 1 and 0.

    Args:
        signals: One number or name per row; several columns as a matrix; or a mapping of names to any of these, or to
            tables of signals. A table that iterates over its column names, such as pandas', counts as a mapping.
        n: How many rows there are.

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
        return _of_length(signals, n)
    if signals is None:
        return SignalTable((), np.zeros((n, 0)), np.zeros(0, np.bool_))
    named = [(name, values) for name, values in _named(signals) if not isinstance(values, SignalTable)]
    tables = [_of_length(values, n) for _, values in _named(signals) if isinstance(values, SignalTable)]
    pieces = [piece for name, values in named for piece in _pieces(name, values, n)]
    for table in tables:
        pieces += list(zip(table.names, table.columns.T, table.sizes, strict=True))
    names = tuple(name for name, _, _ in pieces)
    if len(set(names)) < len(names):
        again = next(name for place, name in enumerate(names) if name in names[:place])
        refuse("signals", "columns with names of their own", f"{again!r} twice")
    columns = np.stack([column for _, column, _ in pieces], axis=1) if pieces else np.zeros((n, 0))
    scales = np.concatenate(
        [np.ones(len(pieces) - sum(len(table.names) for table in tables)), *(t.scales for t in tables)]
    )
    return SignalTable(names, columns, np.array([size for _, _, size in pieces], np.bool_), scales)


@named_options
def from_probabilities(probabilities: Any) -> dict[str, Floats]:
    """Return what a classifier's own probabilities say about how likely it is to be wrong.

    Args:
        probabilities: One line per row and one column per class, each line summing to 1; or one number per row, the
            probability of the second of two classes.

    Returns:
        `expected_error`, 1 − max p; `deviation`, √(p(1 − p)) of the largest p, the standard deviation of right or
        wrong; `entropy`, the expected log loss; `margin`, 1 − (p₁ − p₂) of the two largest.

    Examples:
        >>> signals = from_probabilities([[0.5, 0.5], [1.0, 0.0]])
        >>> {name: values.round(3).tolist() for name, values in signals.items()}
        {'expected_error': [0.5, 0.0], 'deviation': [0.5, 0.0], 'entropy': [0.693, 0.0], 'margin': [1.0, 0.0]}
    """
    given = _matrix("probabilities", probabilities)
    if given.shape[1] == 1:
        given = np.concatenate([1 - given, given], axis=1)
    if np.any(given < 0) or not np.allclose(given.sum(axis=1), 1, atol=1e-3):
        refuse("probabilities", "numbers of at least 0 that sum to 1 in every line", "other ones")
    # The two largest of each line, without sorting all.
    second, first = np.partition(given, given.shape[1] - 2, axis=1)[:, -2:].T
    surprise = -np.log(np.where(given > 0, given, 1.0))
    return {
        "expected_error": np.maximum(1 - first, 0.0),
        "deviation": np.sqrt(np.maximum(first * (1 - first), 0.0)),
        "entropy": (given * surprise).sum(axis=1),
        "margin": np.maximum(1 - (first - second), 0.0),
    }


@named_options
def disagreement(first: Any, second: Any) -> Floats:
    """Return how far two models are apart on every row: the total variation of their probabilities, or 0 and 1.

    Args:
        first: One line of class probabilities per row, or one answer per row.
        second: The same of the other model.

    Returns:
        For probabilities Σ|p − q|/2, from 0 to 1; for answers 1 where they differ.

    Examples:
        >>> disagreement(["cat", "dog"], ["cat", "cat"]).tolist()
        [0.0, 1.0]
        >>> disagreement([[0.9, 0.1]], [[0.4, 0.6]]).tolist()
        [0.5]
    """
    one, other = np.asarray(first), np.asarray(second)
    if one.shape != other.shape or one.ndim not in (1, 2):
        refuse("second", f"of the same shape as first, {one.shape}, with one line per row", f"shape {other.shape}")
    if one.ndim == 1:
        return np.asarray(one != other, np.float64)
    apart: Floats = np.abs(_matrix("first", one) - _matrix("second", other)).sum(axis=1) / 2
    return apart


def _of_length(table: SignalTable, n: int) -> SignalTable:
    if len(table) != n:
        refuse("signals", f"one line for each of {n} rows", f"{len(table)} lines")
    return table


def _named(signals: Any) -> list[tuple[str, Any]]:
    """Return (name, values) for every signal."""
    if isinstance(signals, Mapping) or hasattr(signals, "columns"):
        names = signals.column_names if hasattr(signals, "column_names") else list(signals)
        return [(str(name), signals[name]) for name in names]
    return [("signal", signals)]


def _pieces(name: str, values: Any, n: int) -> list[tuple[str, Floats, bool]]:
    """Return the columns that a signal becomes, with a name each and whether they can be a size."""
    try:
        array = np.asarray(values)
    except ValueError:
        refuse("signals", f"one number or name per row in {name!r}", "lists of unequal length")
    if array.shape[:1] != (n,) or array.ndim > 2:
        refuse("signals", f"one number or name for each of {n} rows in {name!r}", f"shape {array.shape}")
    if array.ndim == 2:
        parts = [_pieces(f"{name} {place}", array[:, place], n) for place in range(array.shape[1])]
        return [piece for part in parts for piece in part]
    numbers = _numbers(array)
    return _classes(name, array) if numbers is None else _complete(name, numbers)


def _numbers(array: NDArray[Any]) -> Floats | None:
    """Return the values as numbers with NaN for missing ones, or None if they are names."""
    if np.issubdtype(array.dtype, np.number) or array.dtype == np.bool_:
        if np.issubdtype(array.dtype, np.complexfloating):
            return None
        return array.astype(np.float64)
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
    # pandas' own marks cannot be imported without pandas.
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and isnan(value))


def _complete(name: str, numbers: Floats) -> list[tuple[str, Floats, bool]]:
    missing = np.isnan(numbers)
    if np.isinf(numbers).any():
        refuse("signals", f"finite numbers, or NaN where missing, in {name!r}", "an infinity")
    largest = float(np.abs(numbers[~missing]).max(initial=0.0))
    if largest > LARGEST:  # their squares would be no numbers any more
        refuse("signals", f"numbers of at most {LARGEST:g} in size in {name!r}", f"{largest:g}")
    if missing.all():
        refuse("signals", f"at least one number in {name!r}", "none")
    filled = np.where(missing, np.median(numbers[~missing]), numbers)
    varies = bool(filled.min() < filled.max())
    columns = [(name, filled, varies and bool(filled.min() >= 0))]
    if missing.any():
        columns.append((f"{name} is missing", missing.astype(np.float64), False))
    return columns


def _classes(name: str, array: NDArray[Any]) -> list[tuple[str, Floats, bool]]:
    words = np.array(["missing" if _missing(value) else str(value) for value in array.tolist()])
    found, place, counts = np.unique(words, return_inverse=True, return_counts=True)
    kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_CATEGORIES])
    columns = [(f"{name}={found[code]}", (place == code).astype(np.float64), False) for code in kept]
    if kept.size < found.size:
        columns.append((f"{name}: others", (~np.isin(place, kept)).astype(np.float64), False))
    return columns


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
