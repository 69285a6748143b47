"""What is asked about a row, and which answers to it can be used."""

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

MISSING = ("nan", "<NA>", "NaT")  # what pandas has where a cell is empty
LARGEST = 1e100  # of answers that are squared: the sum of as many squares as there can be rows is a number still


@dataclass(frozen=True)
class Question:
    """What is asked about a row.

    Attributes:
        argument: The argument that sentences name.
        plural: What the answers are called.
        column: The name of their column in files.
        signed: Whether a number may be negative.
        squared: Whether answers are squared, so that very large ones cannot be used.
        numeric: Whether answers are finite numbers (the job gets a float array). Otherwise they are labels: texts,
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
        """What can answer it."""
        return (
            f"a callable of row numbers, an array of {self.plural}, or a .parquet, .csv or .jsonl file of {self.plural}"
        )

    def of_column(self, name: object) -> str:
        """Say how a column of the rows' own table answers it."""
        if self.column == "label" and self.numeric:
            return f"open the table with it and leave out b: cs.open_rows(table, target={str(name)!r})"
        return "give its values, and leave it out of the rows: cs.open_rows(table, exclude_columns=[...])"

    def read(self, values: Any, ids: Ints) -> tuple[NDArray[Any], Bools]:
        """Return one answer per row, and which of them can be used.

        Args:
            values: A reply, one answer for each of `ids`.
            ids: The rows that were asked.

        Returns:
            The answers, and a mask of those that can be used.

        Raises:
            AnswerError: The reply is not one answer per row.
        """
        try:
            answers = self._numbers(values, ids) if self.numeric else self._labels(values)
        except AnswerError:
            raise
        except Exception as error:  # whatever the conversion of a foreign object may raise
            raise AnswerError(
                f"{self.argument} must be {self._kind}, one per row; "
                f"got {type(values).__name__}, which gave {told(error)}."
            ) from (None if holds_secret(error) else error)
        if answers.shape != ids.shape:
            raise AnswerError(
                f"{self.argument} must be one {self.singular} for each of {ids.size} rows; got shape {answers.shape}."
            )
        if not self.numeric:
            return answers, np.array([value is not _BAD for value in answers], np.bool_)
        usable = np.isfinite(answers) & (self.signed | (answers >= 0))
        return answers, usable & (np.abs(answers) <= LARGEST) if self.squared else usable

    def check(self, values: Any, ids: Ints, *, source: str | None = None, names: Sequence[Any] | None = None) -> Any:
        """Return one usable answer per row, or name the first row without.

        Args:
            values: One answer for each of `ids`.
            ids: The rows.
            source: What the sentence calls the answers.
            names: The table's own ids of the rows, for the sentence.

        Returns:
            The answers as an array.

        Raises:
            AnswerError: Some answer cannot be used.
        """
        answers, good = self.read(values, ids)
        bad = np.flatnonzero(~good)
        if bad.size:
            row = ids[bad[0]] if names is None else names[bad[0]]
            came = answers[bad[0]]
            came = came if self.numeric or isinstance(came, float) else _shown(list(values)[bad[0]])
            blank = str(came) in MISSING and not self.numeric
            hint = "; leave out the rows that have no answer yet" if blank and source == "answers" else ""
            raise AnswerError(f"{self.refusal(source, row, came)} ({bad.size} of {ids.size} rows are like that){hint}.")
        return answers

    def refusal(self, source: str | None, row: Any, came: Any) -> str:
        """Return the sentence on an answer that cannot be used, without its end."""
        sizes = f"finite{'' if self.signed else ' and at least 0'}{too_large(came)}"
        allowed = sizes if self.numeric else "texts, numbers or None"
        return f"{source or self.argument} must be {allowed}; row {row} has {came}"

    def shown(self, answer: Any) -> Any:
        """Return an answer that cannot be used as a sentence names it; of a foreign object nothing is shown."""
        return answer if self.numeric else "something else"

    def same(self, one: Any, other: Any) -> bool:
        """Say whether two answers are the same."""
        return bool(one == other) if self.numeric else type(one) is type(other) and bool(one == other)

    def array(self, answers: Sequence[Any]) -> NDArray[Any]:
        """Return answers in the form that jobs get them."""
        if self.numeric:
            return np.array(answers, np.float64)
        return _objects(answers)

    @property
    def _kind(self) -> str:
        return "numbers" if self.numeric else "labels"

    @property
    def singular(self) -> str:
        """What one answer is."""
        return "number" if self.numeric else "label"

    def _numbers(self, values: Any, ids: Ints) -> NDArray[np.float64]:
        if np.ma.isMaskedArray(values):
            values = np.ma.filled(values.astype(np.float64), np.nan)
        raw = values if isinstance(values, np.ndarray) else None
        if raw is not None and np.iscomplexobj(raw):
            raise AnswerError(f"{self.argument} must be numbers, one per row; got complex ones.")
        try:
            return np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            found = _each_number(values)
        if found is None or not np.isfinite(found).any():
            raise AnswerError(f"{self.argument} must be numbers, one per row; got {type(values).__name__}.")
        return found

    def _labels(self, values: Any) -> NDArray[Any]:
        if isinstance(values, str) or not hasattr(values, "__iter__"):
            raise AnswerError(f"{self.argument} must be labels, one per row; got {type(values).__name__}.")
        return _objects([_label(value) for value in values])


LOSS = Question(argument="losses", plural="losses", column="loss", signed=False)
LABEL = Question(argument="b", plural="labels", column="label", signed=True, squared=True)
CLASS = Question(argument="labels", plural="labels", column="label", signed=True, numeric=False)

_BAD: Any = object()


def too_large(came: Any) -> str:
    """Return how large a number may be that is squared, for the sentence on one that is larger."""
    size = abs(float(came)) if isinstance(came, (float, np.floating)) else 0.0
    return f" and at most {LARGEST:g} in size" if LARGEST < size < math.inf else ""


def told(error: BaseException | None) -> str:
    """Return an exception as part of a sentence, without secrets."""
    return redact(f"{type(error).__name__}: {' '.join(str(error).split())}").rstrip(".: ")


def _each_number(values: Any) -> NDArray[np.float64] | None:
    """Return what numbers a list has, with NaN in the other places; None if it is not a list."""
    if isinstance(values, (str, bytes)) or not isinstance(values, (Sequence, np.ndarray)):
        return None
    found = np.full(len(values), np.nan)
    for place, value in enumerate(values):
        try:
            found[place] = float(value)
        except (TypeError, ValueError, OverflowError):
            continue
    return found


def _label(value: Any) -> Any:
    """Return a label that JSON keeps as it is, None for "cannot tell", or _BAD."""
    value = value.as_py() if hasattr(value, "as_py") else value
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _BAD
    return _BAD  # also the missing value of pandas, which may mean "not yet" as well as "cannot tell"


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _shown(value: Any) -> str:
    return redact(repr(value.item() if isinstance(value, np.generic) else value))[:80]
