"""What is asked about a row, and which answers are usable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import AnswerError
from coresift.redaction import holds_secret, redact
from coresift.types import Bools, Ints

MISSING = ("nan", "<NA>", "NaT")  # how pandas shows an empty cell
LARGEST = 1e60  # the largest answer; fourth powers of its sum over all rows stay finite


@dataclass(frozen=True)
class Question:
    """What is asked about a row.

    Attributes:
        argument: The name of the argument, for error messages.
        plural: The plural noun for the answers.
        column: The name of their column in files.
        signed: Whether a number may be negative.
        squared: Whether answers are squared, so that very large ones are unusable.
        numeric: Whether answers are finite numbers (the job gets a float array). Otherwise they are labels: strings,
            numbers, or None for "cannot tell" (the job gets an object array). NaN is never an answer.

    Examples:
        >>> LOSS.read([0.5, float("nan")], np.array([7, 3]))
        (array([0.5, nan]), array([ True, False]))
        >>> CLASS.read(["cat", None], np.array([7, 3]))[0].tolist()
        ['cat', None]
    """

    argument: str
    plural: str
    column: str
    signed: bool
    numeric: bool = True
    squared: bool = field(default=False, kw_only=True)

    @property
    def allowed(self) -> str:
        """The sources that can answer the question, for error messages."""
        return (
            f"a callable of row numbers, an array of {self.plural}, or a .parquet, .csv or .jsonl file of {self.plural}"
        )

    def of_column(self, name: object) -> str:
        """Return the advice for a user who names a column of the rows' table as the source of answers."""
        if self.column == "label" and self.numeric:
            return f"open the table with it and leave out b: cs.open_rows(table, target={str(name)!r})"
        return "give its values, and leave it out of the rows: cs.open_rows(table, exclude_columns=[...])"

    def read(self, values: Any, ids: Ints) -> tuple[NDArray[Any], Bools]:
        """Return one answer per row, and which of them are usable.

        Args:
            values: A reply, with one answer per row.
            ids: The rows that were asked.

        Returns:
            The answers, and a mask of the usable ones.

        Raises:
            AnswerError: The reply is not one answer per row.
        """
        try:
            answers = self._numbers(values, ids) if self.numeric else self._labels(values)
        except AnswerError:
            raise
        except Exception as error:  # converting a foreign object can raise anything
            raise AnswerError(
                f"{self.argument} must be {self._kind}, one per row; "
                f"got {type(values).__name__}, which raised {describe_error(error)}."
            ) from (None if holds_secret(error) else error)
        if answers.shape != ids.shape:
            raise AnswerError(
                f"{self.argument} must be one {self.singular} for each of {ids.size} rows; got shape {answers.shape}."
            )
        if not self.numeric:
            return answers, np.array([_is_label(value) for value in answers], np.bool_)
        usable = np.isfinite(answers) & (self.signed | (answers >= 0))
        return answers, usable & (np.abs(answers) <= LARGEST) if self.squared else usable

    def check(self, values: Any, ids: Ints, *, source: str | None = None, names: Sequence[Any] | None = None) -> Any:
        """Return one usable answer per row; refuse the first row without.

        Args:
            values: One answer per row.
            ids: The rows.
            source: The name of the answers in an error message.
            names: The table's ids of the rows, for the error message.

        Returns:
            The answers as an array.

        Raises:
            AnswerError: An answer is unusable.
        """
        answers, usable = self.read(values, ids)
        bad = np.flatnonzero(~usable)
        if bad.size:
            row = ids[bad[0]] if names is None else names[bad[0]]
            came = answers[bad[0]]
            came = came if self.numeric or isinstance(came, float) else _shown(list(values)[bad[0]])
            blank = str(came) in MISSING and not self.numeric
            hint = "; leave out the rows that have no answer yet" if blank and source == "answers" else ""
            raise AnswerError(f"{self.refusal(source, row, came)} (unusable in {bad.size} of {ids.size} rows){hint}.")
        return answers

    def refusal(self, source: str | None, row: Any, came: Any) -> str:
        """Return the error message about an unusable answer, without its final period."""
        sizes = f"finite{'' if self.signed else ' and at least 0'}{too_large(came)}"
        allowed = sizes if self.numeric else "texts, numbers or None"
        return f"{source or self.argument} must be {allowed}; row {row} has {came}"

    def shown(self, answer: Any) -> Any:
        """Return an unusable answer for an error message; a foreign object is not shown."""
        return answer if self.numeric or isinstance(answer, float) else "something else"

    def is_gap(self, answer: Any) -> bool:
        """Return whether an unusable label is NaN or infinite: a gap in the source, which would give it again."""
        return not self.numeric and isinstance(answer, float)

    def same(self, one: Any, other: Any) -> bool:
        """Return whether two answers are the same."""
        return bool(one == other) if self.numeric else type(one) is type(other) and bool(one == other)

    def array(self, answers: Sequence[Any]) -> NDArray[Any]:
        """Return answers as the array that jobs get."""
        if self.numeric:
            return np.array(answers, np.float64)
        return _objects(answers)

    @property
    def _kind(self) -> str:
        return "numbers" if self.numeric else "labels"

    @property
    def singular(self) -> str:
        """The singular noun for an answer."""
        return "number" if self.numeric else "label"

    def _numbers(self, values: Any, ids: Ints) -> NDArray[np.float64]:
        if np.ma.isMaskedArray(values):
            values = np.ma.filled(values.astype(np.float64), np.nan)
        raw = values if isinstance(values, np.ndarray) else None
        if raw is not None and np.iscomplexobj(raw):
            raise AnswerError(f"{self.argument} must be numbers, one per row; got complex numbers.")
        try:
            return np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            numbers = _parse_each(values)
        if numbers is None or not np.isfinite(numbers).any():
            raise AnswerError(f"{self.argument} must be numbers, one per row; got {type(values).__name__}.")
        return numbers

    def _labels(self, values: Any) -> NDArray[Any]:
        if isinstance(values, str) or not hasattr(values, "__iter__"):
            raise AnswerError(f"{self.argument} must be labels, one per row; got {type(values).__name__}.")
        return _objects([_label(value) for value in values])


LOSS = Question(argument="losses", plural="losses", column="loss", signed=False, squared=True)
LABEL = Question(argument="b", plural="labels", column="label", signed=True, squared=True)
CLASS = Question(argument="labels", plural="labels", column="label", signed=True, numeric=False)

_BAD: Any = object()


def too_large(came: Any) -> str:
    """Return the limit for a number that is squared, for the error message about a larger one."""
    size = abs(float(came)) if isinstance(came, (float, np.floating)) else 0.0
    return f" and at most {LARGEST:g} in size" if LARGEST < size < math.inf else ""


def describe_error(error: BaseException | None) -> str:
    """Return an exception for an error message, without secrets."""
    return redact(f"{type(error).__name__}: {' '.join(str(error).split())}").rstrip(".: ")


def _parse_each(values: Any) -> NDArray[np.float64] | None:
    """Return the numbers in a list, with NaN for items that are not numbers; None if it is not a list."""
    if isinstance(values, (str, bytes)) or not isinstance(values, (Sequence, np.ndarray)):
        return None
    numbers = np.full(len(values), np.nan)
    for position, value in enumerate(values):
        try:
            numbers[position] = float(value)
        except (TypeError, ValueError, OverflowError):
            continue
    return numbers


def _label(value: Any) -> Any:
    """Return a label that JSON can store unchanged, None for "cannot tell", an infinity or NaN, or _BAD."""
    value = value.as_py() if hasattr(value, "as_py") else value
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value
    return _BAD  # also a missing value of pandas, which may mean "not yet" or "cannot tell"


def _is_label(value: Any) -> bool:
    return value is not _BAD and not (isinstance(value, float) and not math.isfinite(value))


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _shown(value: Any) -> str:
    return redact(repr(value.item() if isinstance(value, np.generic) else value))[:80]
