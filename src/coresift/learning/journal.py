"""What was asked and answered in a run, and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.audits import Audit
from coresift.checks import refuse, row_numbers
from coresift.types import Bools, Ints


@dataclass(frozen=True)
class Learned:
    """What the steps found: the rows asked in order, the round, reason and label of each, audits, and the last model.

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

    def __init__(self, n: int, excluded: Ints, given: Mapping[int, Any]) -> None:
        known = row_numbers("given", list(given), n)
        both = np.intersect1d(known, excluded)
        if both.size:
            refuse("given", "labels of rows that are not excluded", f"row {both[0]}")
        self.counted = np.ones(n, np.bool_)
        self.counted[excluded] = False
        self._label = {int(row): _plain(given[int(row)]) for row in known}
        self._asked = {int(row): (0, "given") for row in known}
        self._known = len(self._label)

    def open(self) -> Ints:
        """Rows that may be asked, ascending."""
        mask = self.counted.copy()
        mask[list(self._asked)] = False
        return np.flatnonzero(mask)

    def asked(self) -> Ints:
        """Rows that were asked, in their order, without those whose labels were given."""
        return np.array(list(self._asked)[self._known :], np.int64)

    def rounds(self) -> Ints:
        """The round of each of these rows."""
        return np.array([self._asked[row][0] for row in self.asked().tolist()], np.int64)

    def labeled(self) -> Ints:
        """Rows with a label, in the order in which they were asked."""
        return np.array([row for row, label in self._label.items() if label is not None], np.int64)

    def labels(self, ids: Ints) -> NDArray[Any]:
        """Their labels, None where nobody could tell."""
        result = np.empty(ids.size, object)
        result[:] = [self._label.get(int(row)) for row in ids]
        return result

    def write(self, ids: Ints, reason: str, number: int, labels: Any) -> None:
        """Take the answers to a request."""
        if len(labels) != ids.size:
            refuse("labels", f"one answer for each of {ids.size} rows, None for those nobody can tell", len(labels))
        for row, label in zip(ids.tolist(), labels, strict=True):
            self._label[row] = _plain(label)
            self._asked[row] = (number, reason)

    def correct(self, labels: Mapping[int, Any]) -> None:
        """Replace labels of rows that were asked by what they are now."""
        self._label.update({row: _plain(label) for row, label in labels.items()})

    def result(self, audits: tuple[Audit, ...], model: Any) -> Learned:
        """Return all that was asked, without what was known before."""
        ids = self.asked()
        reasons = tuple(self._asked[row][1] for row in ids.tolist())
        return Learned(ids, self.rounds(), reasons, self.labels(ids), audits, model)


def _plain(label: Any) -> Any:
    """Return a label as it came, None for a missing one."""
    return None if isinstance(label, (float, np.floating)) and np.isnan(label) else label
