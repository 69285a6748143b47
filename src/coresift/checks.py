"""Input checks, and the form of every error message: what is wrong, what is allowed, what was given."""

from __future__ import annotations

import difflib
import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, ParamSpec, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from coresift.errors import AnswerError, CoresiftError, CoresiftWarning, InputError

__all__ = [
    "AnswerError",
    "CoresiftError",
    "CoresiftWarning",
    "InputError",
    "did_you_mean",
    "loss_vector",
    "named_options",
    "positive",
    "real_vector",
    "refuse",
    "row_numbers",
    "share",
    "unknown_option",
    "unusable",
    "whole",
]

# Options of `open_rows` that users try to give to other functions.
READING = ("column", "columns", "exclude_columns", "id_column", "ids", "standardize", "target")
P = ParamSpec("P")
T = TypeVar("T")


def refuse(argument: str, allowed: str, got: object) -> NoReturn:
    """Raise the error for a bad argument, in the form that all of them have."""
    raise InputError(f"{argument} must be {allowed}; got {got}.")


def named_options(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a public function, or a class's `__init__`, to report misspelled and missing arguments in one sentence.

    Options in a `TypedDict` (`**options: Unpack[...]`) are checked too. A function that takes any other `**` options
    must check them itself.
    """
    parameters = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
    owner = function.__qualname__.removesuffix(".__init__")
    positional = [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
    names = [parameter.name for parameter in parameters if parameter.name != "self"]

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs:
            if name not in names and name not in (known := _all_names(function, names) or [name]):
                unknown_option(owner, name, known)
        if len(args) > len(positional):
            shown = ", ".join(name for name in positional if name != "self")
            raise InputError(f"{owner} takes {shown} by position; give every other argument by name.")
        for name in positional[: len(args)]:
            if name in kwargs:
                raise InputError(f"{owner} takes {name} once; it was given twice.")
        required = [parameter.name for parameter in parameters[len(args) :] if parameter.default is parameter.empty]
        missing = [name for name in required if name not in kwargs]
        if missing:
            raise InputError(f"{owner} needs {' and '.join(missing)}.")
        return function(*args, **kwargs)

    return checked


def _all_names(function: Callable[..., Any], names: list[str]) -> list[str] | None:
    """Return the names of all arguments that a function accepts; None if it accepts any name."""
    variable = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.VAR_KEYWORD
    ]
    if not variable:
        return names
    (options,) = get_args(get_type_hints(function)[variable[0].name]) or (None,)
    return None if options is None else [*names, *get_type_hints(options)]


def unknown_option(function: str, name: str, known: Sequence[str]) -> NoReturn:
    """Refuse an option that a function does not have."""
    if name in READING:
        raise InputError(
            f"{function} has no option {name}; open the rows with it first: cs.open_rows(rows, {name}=...)."
        )
    close = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {close[0]}?" if close else f"it takes {', '.join(known)}."
    raise InputError(f"{function} has no option {name}; {hint}")


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return the most similar name as a question in parentheses; empty if none is similar.

    >>> did_you_mean("yeer", ["year", "lat"])
    " (did you mean 'year'?)"
    """
    close = difflib.get_close_matches(name, known, 1, cutoff=0.7)
    return f" (did you mean {close[0]!r}?)" if close else ""


def whole(argument: str, value: Any, *, least: int = 1) -> int:
    """Return an integer that is at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        refuse(argument, f"a whole number of at least {least}", repr(value))
    return int(value)


def positive(argument: str, value: Any, *, zero: bool = False) -> float:
    """Return a finite number above 0 (or at least 0)."""
    allowed = "a finite number of at least 0" if zero else "a finite number above 0"
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        refuse(argument, allowed, repr(value))
    if isinstance(value, bool) or not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        refuse(argument, allowed, repr(value))
    return number


def share(argument: str, value: Any, *, ends: bool = False) -> float:
    """Return a number between 0 and 1, without the ends (or with them)."""
    allowed = "a number from 0 to 1" if ends else "a number between 0 and 1"
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        refuse(argument, allowed, repr(value))
    within = 0 <= number <= 1 if ends else 0 < number < 1
    if isinstance(value, bool) or not within:
        refuse(argument, allowed, repr(value))
    return number


def row_numbers(argument: str, value: Any, count: int) -> NDArray[np.int64]:
    """Return distinct row numbers below `count`, sorted."""
    try:
        ids = np.asarray(value if value is not None else [])
    except ValueError:
        refuse(argument, "a list of row numbers", "lists of unequal length")
    if ids.size == 0:
        return np.zeros(0, np.int64)
    if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
        mask = "; np.flatnonzero gives the row numbers of a mask" if ids.dtype == np.bool_ else ""
        refuse(argument, "a list of row numbers", f"an array of {ids.dtype} with shape {ids.shape}{mask}")
    unique, first = np.unique(ids, return_index=True)
    if unique.size < ids.size:
        repeated = np.setdiff1d(np.arange(ids.size), first)[0]
        refuse(argument, "distinct row numbers", f"row {ids[repeated]} twice")
    if unique[0] < 0 or unique[-1] >= count:
        bad = unique[0] if unique[0] < 0 else unique[-1]
        refuse(argument, f"row numbers from 0 to {count - 1}", bad)
    return unique.astype(np.int64)


def unusable(values: Any) -> str | None:
    """Return why an array is not one of real numbers: a mask or imaginary parts, which numpy would silently drop.

    >>> unusable(np.array([1j])), unusable(np.ma.masked_array([1.0], mask=[True])), unusable([1.0])
    ('complex numbers', 'a masked array', None)
    """
    if isinstance(values, np.ma.MaskedArray):
        return "a masked array"
    return "complex numbers" if getattr(getattr(values, "dtype", None), "kind", "") == "c" else None


def loss_vector(
    values: Any,
    ids: NDArray[np.int64],
    *,
    source: str = "losses",
    names: Sequence[Any] | None = None,
    signed: bool = False,
) -> NDArray[np.float64]:
    """Return one finite, nonnegative (unless `signed`) number per row; refuse the first row without one."""
    if unusable(values):
        raise AnswerError(f"{source} must be real numbers, one per row; got {unusable(values)}.")
    try:
        losses = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise AnswerError(f"{source} must be numbers, one per row; got {type(values).__name__}.") from None
    if losses.shape != ids.shape:
        raise AnswerError(f"{source} must be one number for each of {ids.size} rows; got shape {losses.shape}.")
    bad = np.flatnonzero(~(np.isfinite(losses) & (signed | (losses >= 0))))
    if bad.size:
        row = ids[bad[0]] if names is None else names[bad[0]]
        raise AnswerError(
            f"{source} must be finite{'' if signed else ' and at least 0'}; row {row} has {losses[bad[0]]} "
            f"(unusable in {bad.size} of {ids.size} rows)."
        )
    return losses


def _first_text(values: Any) -> str | None:
    """Return the first text among values, which numpy would convert if it looks like a number; None if there is none.

    >>> _first_text(["1", "2"]), _first_text([1, 2]), _first_text("ab")
    ('1', None, 'ab')
    """
    if isinstance(values, str):
        return values
    if getattr(getattr(values, "dtype", None), "kind", "O") not in "OSUT" or not np.size(values):
        return None
    return next((str(value) for value in np.asarray(values, object).flat if isinstance(value, str)), None)


def real_vector(argument: str, values: Any, count: int, *, cure: str = "") -> NDArray[np.float64]:
    """Return `count` finite real numbers; `cure` says what to do about missing ones."""
    if unusable(values):
        refuse(argument, f"{count} real numbers", unusable(values))
    if (text := _first_text(values)) is not None:
        refuse(argument, f"{count} numbers", f"text, such as {text!r}")
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        refuse(argument, f"{count} numbers", type(values).__name__)
    if vector.shape != (count,):
        refuse(argument, f"{count} numbers, one per row", f"shape {vector.shape}")
    bad = np.flatnonzero(~np.isfinite(vector))
    if bad.size:
        several = f" (unusable in {bad.size} of {count})" if bad.size > 1 else ""
        cure = f"; {cure}" if cure and np.isnan(vector[bad]).any() else ""
        refuse(argument, "finite numbers", f"{vector[bad[0]]} at position {bad[0]}{several}{cure}")
    return vector
