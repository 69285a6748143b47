"""What an evaluation asks about a row: a number, several numbers, or a label; None means that nobody can tell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import AnswerError
from coresift.oracle.questions import CLASS, LARGEST, Question, too_large
from coresift.types import Bools, Floats, Ints

__all__ = ["CLASS", "NumberQuestion", "numbers", "question_of_numbers"]


@dataclass(frozen=True)
class NumberQuestion(Question):
    """Asks for one number per row, or for a fixed number of them; None means that nobody can tell.

    Attributes:
        width: How many numbers each answer has.
        names: Their names, if answers may be a mapping of these names.
        ends: The smallest and largest possible number.

    Examples:
        >>> question_of_numbers().read([0.5, None, float("nan")], np.array([7, 3, 4]))[1].tolist()
        [True, True, False]
    """

    width: int = 1
    names: tuple[str, ...] = ()
    ends: tuple[float, float] = (-math.inf, math.inf)

    def read(self, values: Any, ids: Ints) -> tuple[NDArray[Any], Bools]:
        """Return one answer per row, and which of them can be used."""
        if isinstance(values, Mapping):
            values = self._columns(values)
        answers = np.empty(ids.size, object)
        numeric = self.width == 1 and isinstance(values, np.ndarray) and values.dtype.kind in "biuf"
        if numeric and values.shape == ids.shape:
            plain = values.astype(np.float64)
            answers[:] = plain.tolist()
            return answers, (self.ends[0] <= plain) & (plain <= self.ends[1]) & (np.abs(plain) <= LARGEST)
        listed = values.tolist() if isinstance(values, np.ndarray) else values
        if isinstance(listed, str) or not hasattr(listed, "__len__") or len(listed) != ids.size:
            got = f"{len(listed)}" if hasattr(listed, "__len__") else type(values).__name__
            raise AnswerError(f"{self.argument} must be {self._kind} for each of {ids.size} rows; got {got}.")
        read = [self._answer(answer) for answer in listed]
        answers[:] = [answer for answer, _ in read]
        return answers, np.array([good for _, good in read], np.bool_)

    def refusal(self, source: str | None, row: Any, came: Any) -> str:
        """Return the beginning of the error about an answer that cannot be used."""
        low, high = self.ends
        span = f" from {low:g} to {high:g}" if math.isfinite(high) else ""
        allowed = f"{self._kind}{span or too_large(came)} per row, or None if nobody can tell"
        return f"{source or self.argument} must be {allowed}; row {row} has {came}"

    def shown(self, answer: Any) -> Any:
        """Return an answer that cannot be used, for an error message."""
        return answer if isinstance(answer, (float, list)) else "something else"

    @property
    def _kind(self) -> str:
        return "one finite number" if self.width == 1 else f"{self.width} finite numbers"

    @property
    def singular(self) -> str:
        """The word for one answer."""
        return "number" if self.width == 1 else "line of numbers"

    def _columns(self, values: Mapping[str, Any]) -> Any:
        missing = [name for name in self.names if name not in values]
        if missing or not self.names:
            allowed = f"numbers under {', '.join(self.names)}" if self.names else "numbers, not a mapping"
            raise AnswerError(f"{self.argument} must be {allowed}; got {', '.join(map(str, values))}.")
        return list(zip(*(list(values[name]) for name in self.names), strict=True))

    def _answer(self, answer: Any) -> tuple[Any, bool]:
        """Return an answer as JSON keeps it, and whether it can be used."""
        if answer is None:
            return None, True
        if self.width == 1:
            number = _number(answer)
            return number, self._usable(number)
        try:
            line = [_number(part) for part in answer]
        except TypeError:
            return answer, False
        return line, len(line) == self.width and all(map(self._usable, line))

    def _usable(self, number: float) -> bool:
        return self.ends[0] <= number <= self.ends[1] and abs(number) <= LARGEST


def question_of_numbers(
    width: int = 1, names: tuple[str, ...] = (), ends: tuple[float, float] = (-math.inf, math.inf)
) -> NumberQuestion:
    """Return the question for numbers."""
    return NumberQuestion("values", "values", "value", True, False, width, names, ends, squared=True)


def numbers(answers: NDArray[Any], width: int) -> Floats:
    """Return answers as a matrix of `width` columns, with NaN for rows that nobody could tell."""
    blank = [math.nan] * width
    lines = [blank if answer is None else [answer] if width == 1 else answer for answer in answers]
    return np.array(lines, np.float64).reshape(len(answers), width)


def _number(value: Any) -> float:
    """Return a number, or NaN for anything else."""
    value = value.as_py() if hasattr(value, "as_py") else value
    if isinstance(value, (list, tuple, dict, np.ndarray)):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
