"""Which labels can be used: any, those of given classes, or numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError, refuse
from coresift.oracle.questions import Question
from coresift.types import Bools, Ints

# So many classes are named in a sentence.
NAMED = 6


@dataclass(frozen=True)
class LabelQuestion(Question):
    """Asks for the label of a row: a class, or a number, and None for "cannot tell".

    Attributes:
        classes: The classes there are; None for any text or number. A class that comes as text, as from a file, is
            the class that is written like that.
        numbers: Whether labels are numbers.

    Examples:
        >>> question_of(classes=[1, 2]).read(["2", None], np.array([7, 3]))[0].tolist()
        [2, None]
    """

    classes: tuple[Any, ...] | None = None
    numbers: bool = False

    def read(self, values: Any, ids: Ints) -> tuple[NDArray[Any], Bools]:
        """Return one label per row, and which of them can be used."""
        labels, good = super().read(values, ids)
        for place, label in enumerate(labels.tolist()):
            if good[place] and label is not None:
                labels[place], good[place] = self._read(label)
        return labels, good

    def refusal(self, source: str | None, row: Any, came: Any) -> str:
        """Return the sentence on a label that cannot be used, without its end."""
        allowed = f"{self._allowed()}, or None for a row nobody can tell"
        return f"{source or self.argument} must be {allowed}; row {row} has {came}"

    def _allowed(self) -> str:
        if self.numbers:
            return "finite numbers"
        if self.classes is None:
            return "texts that are not empty, or numbers"
        named = ", ".join(map(str, self.classes[:NAMED])) + (", …" if len(self.classes) > NAMED else "")
        return f"one of the {len(self.classes)} classes ({named})"

    def _read(self, label: Any) -> tuple[Any, bool]:
        if self.numbers:
            try:
                number = float(label)
            except ValueError:
                return label, False
            return number, math.isfinite(number)
        if self.classes is None:
            return label, label != ""
        alike = [known for known in self.classes if known == label] or [
            known for known in self.classes if str(known) == str(label)
        ]
        return (alike[0], True) if alike else (label, False)


def question_of(*, classes: Any = None, numeric: bool = False) -> LabelQuestion:
    """Return the question that active learning asks.

    Args:
        classes: The classes there are, or None.
        numeric: Whether labels are numbers.
    """
    if classes is not None and numeric:
        raise InputError("classes and numeric exclude each other: numbers have no classes.")
    if classes is None:
        return LabelQuestion("labels", "labels", "label", True, False, None, numeric)
    if isinstance(classes, str) or not hasattr(classes, "__iter__"):
        refuse("classes", "a list of classes", repr(classes))
    known = tuple(name.item() if isinstance(name, np.generic) else name for name in classes)
    if len({str(name) for name in known}) < max(len(known), 1):
        refuse("classes", "different texts or numbers, at least one", repr(list(known)[:NAMED]))
    return LabelQuestion("labels", "labels", "label", True, False, known, False)
