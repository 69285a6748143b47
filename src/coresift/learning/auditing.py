"""What is noted when the rows of an audit are drawn, and the audit once they have labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.audits import Audit, audit_accuracy, audit_error
from coresift.learning.judging import Judgment
from coresift.streams import Stream, generator
from coresift.types import Bools, Floats, Ints

# Fewer answers than this say nothing.
LEAST = 10


@dataclass(frozen=True)
class AuditRecord:
    """What a model said before the rows of its audit were labeled; labels that are corrected later count as corrected.

    Attributes:
        round: Of which round the model is.
        drawn: The rows drawn for the audit.
        known: The rows that the model has learned from.
        drawn_answers: What it says about the drawn rows.
        known_answers: What it says about the rows that it has learned from.
        drawn_sure: How sure it is of its answers on the drawn rows.
        unlabeled_sure: The same on all rows without a label, the drawn ones included.
    """

    round: int
    drawn: Ints
    known: Ints
    drawn_answers: NDArray[Any]
    known_answers: NDArray[Any]
    drawn_sure: Floats
    unlabeled_sure: Floats

    @classmethod
    def of(cls, round: int, judged: Judgment, known: Ints, drawn: Ints, unlabeled: Ints) -> AuditRecord:
        """Keep what an audit needs of a judgment about all rows."""
        answer, sure = judged.answer, judged.sure
        return cls(round, drawn, known, answer[drawn], answer[known], sure[drawn], sure[unlabeled])

    def audit(self, labels: Mapping[int, Any], *, numeric: bool, audits: int, seed: int) -> Audit | None:
        """Compare the answers with the labels; None where nearly all drawn rows were skipped."""
        told = _has_label(self.drawn, labels)
        count, skipped = int(told.sum()), int((~told).sum())
        if count < LEAST:
            return None
        truth = [labels[row] for row in self.drawn[told].tolist()]
        rng = generator(seed, Stream.AUDIT, self.round, 1)
        sure = (self.drawn_sure[told], self.unlabeled_sure)
        still = _has_label(self.known, labels)
        if numeric:
            squares = np.square(np.array(truth, np.float64) - self.drawn_answers[told].astype(np.float64))
            return audit_error(squares, *sure, int(still.sum()), rng, self.round, skipped, audits)
        right = _agree(self.drawn_answers[told], truth)
        learned = _agree(self.known_answers[still], [labels[row] for row in self.known[still].tolist()])
        return audit_accuracy(right, *sure, learned, rng, self.round, skipped, audits)


def _has_label(ids: Ints, labels: Mapping[int, Any]) -> Bools:
    return np.array([labels.get(row) is not None for row in ids.tolist()], np.bool_)


def _agree(answers: NDArray[Any], labels: list[Any]) -> Bools:
    # Models whose labels are of several types learn them as texts.
    pairs = zip(answers, labels, strict=True)
    return np.array([answer == label or str(answer) == str(label) for answer, label in pairs], np.bool_)
