"""Which labels are valid: any, those of given classes, or numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError, refuse
from coresift.oracle.questions import LARGEST, Question, too_large
from coresift.types import Bools, Ints

# How many classes an error message lists.
LISTED = 6


@dataclass(frozen=True)
class LabelQuestion(Question):
    """Asks for the label of a row: a class or a number, or None for "cannot tell".

    Attributes:
        classes: All classes; None for any text or number. Text, as read from a file, means the class that is written
            that way.
        numbers: Whether labels are numbers.

    Examples:
        >>> question_of(classes=[1, 2]).read(["2", None], np.array([7, 3]))[0].tolist()
        [2, None]
    """

    classes: tuple[Any, ...] | None = None
    numbers: bool = False

    def read(self, values: Any, ids: Ints) -> tuple[NDArray[Any], Bools]:
        """Return one label per row, and which of them are valid."""
        labels, valid = super().read(values, ids)
        for index, label in enumerate(labels.tolist()):
            if valid[index] and label is not None:
                labels[index], valid[index] = self._read(label)
        return labels, valid

    def refusal(self, source: str | None, row: Any, came: Any) -> str:
        """Return the error message for an invalid label, without its final period."""
        allowed = f"{self._allowed()}{too_large(came) if self.numbers else ''}, or None if nobody can tell"
        return f"{source or self.argument} must be {allowed}; row {row} has {came}"

    def _allowed(self) -> str:
        if self.numbers:
            return "finite numbers"
        if self.classes is None:
            return "non-empty text, or numbers"
        names = ", ".join(map(str, self.classes[:LISTED])) + (", …" if len(self.classes) > LISTED else "")
        return f"one of the {len(self.classes)} classes ({names})"

    def _read(self, label: Any) -> tuple[Any, bool]:
        if self.numbers:
            try:
                number = float(label)
            except (ValueError, OverflowError):
                return label, False
            return number, abs(number) <= LARGEST  # models and audits square it
        if self.classes is None:
            return label, label != ""
        matches = [name for name in self.classes if name == label] or [
            name for name in self.classes if str(name) == str(label)
        ]
        return (matches[0], True) if matches else (label, False)


def question_of(*, classes: Any = None, numeric: bool = False) -> LabelQuestion:
    """Return the question that active learning asks.

    Args:
        classes: All classes, or None.
        numeric: Whether labels are numbers.
    """
    if classes is not None and numeric:
        raise InputError("classes and numeric exclude each other: numbers have no classes.")
    if classes is None:
        return LabelQuestion("labels", "labels", "label", True, False, None, numeric)
    if isinstance(classes, str) or not hasattr(classes, "__iter__"):
        refuse("classes", "a list of classes", repr(classes))
    class_names = tuple(name.item() if isinstance(name, np.generic) else name for name in classes)
    if len({str(name) for name in class_names}) < max(len(class_names), 1):
        refuse("classes", "at least one class, all of them distinct", repr(list(class_names)[:LISTED]))
    return LabelQuestion("labels", "labels", "label", True, False, class_names, False)
