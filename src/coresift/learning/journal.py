"""The questions and answers of a run, and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.audits import Audit
from coresift.checks import refuse, row_numbers
from coresift.types import Bools, Ints


@dataclass(frozen=True)
class Learned:
    """The result of `steps`: the rows asked, in order, with round, reason and label; the audits; and the last model.

    `model` is trained on all labels, including those of audit rows; an audit measures the model before that.
    """

    ids: Ints
    rounds: Ints
    reasons: tuple[str, ...]
    labels: NDArray[Any]
    audits: tuple[Audit, ...]
    model: Any

    @property
    def labeled(self) -> Bools:
        """Which rows have a label; the others were answered with "cannot tell"."""
        return np.array([label is not None for label in self.labels], np.bool_)


class Journal:
    """Every row asked so far and its label, in order; given labels count as asked in round 0."""

    def __init__(self, n: int, excluded: Ints, given: Mapping[int, Any]) -> None:
        given_rows = row_numbers("given", list(given), n)
        conflicts = np.intersect1d(given_rows, excluded)
        if conflicts.size:
            refuse("given", "labels of rows that are not excluded", f"row {conflicts[0]}")
        self.counted = np.ones(n, np.bool_)
        self.counted[excluded] = False
        self._labels = {int(row): _none_if_nan(given[int(row)]) for row in given_rows}
        self._asked = {int(row): (0, "given") for row in given_rows}
        self._known = len(self._labels)

    def open(self) -> Ints:
        """Rows that may still be asked, ascending."""
        mask = self.counted.copy()
        mask[list(self._asked)] = False
        return np.flatnonzero(mask)

    def asked(self) -> Ints:
        """Rows that were asked, in order; rows with given labels are not among them."""
        return np.array(list(self._asked)[self._known :], np.int64)

    def rounds(self) -> Ints:
        """The round of each row in `asked()`."""
        return np.array([self._asked[row][0] for row in self.asked().tolist()], np.int64)

    def labeled(self) -> Ints:
        """Rows with a label, in the order in which they were asked."""
        return np.array([row for row, label in self._labels.items() if label is not None], np.int64)

    def labels(self, ids: Ints) -> NDArray[Any]:
        """Return the labels of these rows; None means "cannot tell"."""
        result = np.empty(ids.size, object)
        result[:] = [self._labels.get(int(row)) for row in ids]
        return result

    def reasons(self, ids: Ints) -> NDArray[Any]:
        """Return why each of these rows was asked; "given" if its label was given."""
        return np.array([self._asked[row][1] for row in ids.tolist()], object)

    def write(self, ids: Ints, reasons: Sequence[str], number: int, labels: Any) -> None:
        """Record the answers to a request, and why each row was asked."""
        if len(labels) != ids.size:
            refuse("labels", f"one answer for each of {ids.size} rows, None if nobody can tell", len(labels))
        for row, reason, label in zip(ids.tolist(), reasons, labels, strict=True):
            self._labels[row] = _none_if_nan(label)
            self._asked[row] = (number, reason)

    def correct(self, labels: Mapping[int, Any]) -> None:
        """Replace the labels of rows that were asked."""
        self._labels.update({row: _none_if_nan(label) for row, label in labels.items()})

    def result(self, audits: tuple[Audit, ...], model: Any) -> Learned:
        """Return everything that was asked, without the given labels."""
        ids = self.asked()
        reasons = tuple(self.reasons(ids).tolist())
        return Learned(ids, self.rounds(), reasons, self.labels(ids), audits, model)


def _none_if_nan(label: Any) -> Any:
    """Return the label unchanged, or None if it is NaN."""
    return None if isinstance(label, (float, np.floating)) and np.isnan(label) else label
