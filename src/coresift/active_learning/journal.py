"""What was asked and answered in a run, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.audits import Audit
from coresift.checks import refuse, row_numbers
from coresift.types import Bools, Ints


@dataclass(frozen=True)
class Request:
    """Rows whose labels are wanted, and why: "coverage", "uncertainty" or "audit"."""

    ids: Ints
    reason: str
    round: int


@dataclass(frozen=True)
class Reply:
    """One label for each row of a request, None for "cannot tell", and corrections of earlier labels by row number."""

    labels: Any
    corrections: dict[int, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Learned:
    """What a run found: the rows asked in order, the round, reason and label of each, audits, and the last model.

    `model` has learned from all labels, those of audit rows included; an audit is about the model before it.
    """

    ids: Ints
    rounds: Ints
    reasons: tuple[str, ...]
    labels: NDArray[Any]
    audits: tuple[Audit, ...]
    model: Any

    @property
    def labeled(self) -> Bools:
        """Which rows have a label: all but those that nobody could tell."""
        return np.array([label is not None for label in self.labels], np.bool_)


class Journal:
    """Every row asked so far and its label, in order; what was known before counts as asked in round 0."""

    def __init__(self, n: int, excluded: Ints, labels: dict[int, Any], classes: Any = None) -> None:
        self._classes = None if classes is None else set(classes)
        known = row_numbers("labels", list(labels), n)
        self.counted = np.ones(n, np.bool_)
        self.counted[excluded] = False
        self._label = {int(row): self._checked(labels[int(row)], int(row)) for row in known}
        self._asked = {int(row): (0, "known") for row in known}
        self._known = len(self._label)

    def open(self) -> Ints:
        """Rows that may be asked, ascending."""
        mask = self.counted.copy()
        mask[list(self._asked)] = False
        return np.flatnonzero(mask)

    def labeled(self) -> Ints:
        """Rows with a label, in the order in which they were asked."""
        return np.array([row for row, label in self._label.items() if label is not None], np.int64)

    def labels(self, ids: Ints) -> NDArray[Any]:
        """Their labels, None where nobody could tell."""
        result = np.empty(ids.size, object)
        result[:] = [self._label.get(int(row)) for row in ids]
        return result

    def write(self, ids: Ints, reason: str, number: int, reply: Reply) -> None:
        """Take the answers to a request, and corrections."""
        if len(reply.labels) != ids.size:
            refuse(
                "labels", f"one answer for each of {ids.size} rows, None for those nobody can tell", len(reply.labels)
            )
        for row, label in zip(ids.tolist(), reply.labels, strict=True):
            self._label[row] = self._checked(label, row)
            self._asked[row] = (number, reason)
        for row, label in reply.corrections.items():
            if int(row) not in self._label:
                refuse("corrections", "about rows that were asked before", f"row {row}")
            self._label[int(row)] = self._checked(label, int(row))

    def _checked(self, label: Any, row: int) -> Any:
        """Return a label as it came, None for a missing one; a class that is not among the given ones is refused."""
        if label is None or (isinstance(label, (float, np.floating)) and np.isnan(label)):
            return None
        if self._classes is not None and label not in self._classes:
            refuse("labels", f"one of the {len(self._classes)} classes", f"{label!r} for row {row}")
        return label

    def result(self, audits: tuple[Audit, ...], model: Any) -> Learned:
        """Return all that was asked, without what was known before."""
        ids = np.array(list(self._asked)[self._known :], np.int64)
        asked = [self._asked[int(row)] for row in ids]
        rounds = np.array([number for number, _ in asked], np.int64)
        return Learned(ids, rounds, tuple(reason for _, reason in asked), self.labels(ids), audits, model)
