"""What is recorded when audit rows are drawn, and the audit itself once they are labeled."""

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

# With fewer answers than this, no audit is reported.
FEWEST_ANSWERS = 10


@dataclass(frozen=True)
class AuditRecord:
    """A model's predictions from before its audit rows were labeled; corrected labels count as corrected.

    Attributes:
        round: The model's round.
        drawn: The rows drawn for the audit.
        known: The rows that the model was trained on.
        drawn_answers: Its predictions for the drawn rows.
        known_answers: Its predictions for the rows it was trained on.
        drawn_confidence: Its confidence in its predictions for the drawn rows.
        unlabeled_confidence: Its confidence on all rows without a label, including the drawn ones.
    """

    round: int
    drawn: Ints
    known: Ints
    drawn_answers: NDArray[Any]
    known_answers: NDArray[Any]
    drawn_confidence: Floats
    unlabeled_confidence: Floats

    @classmethod
    def of(cls, round: int, judgment: Judgment, known: Ints, drawn: Ints, unlabeled: Ints) -> AuditRecord:
        """Keep the part of a judgment about all rows that an audit needs."""
        answer, confidence = judgment.answer, judgment.confidence
        return cls(round, drawn, known, answer[drawn], answer[known], confidence[drawn], confidence[unlabeled])

    def audit(self, labels: Mapping[int, Any], *, numeric: bool, audits: int, seed: int) -> Audit | None:
        """Compare predictions and labels; None if fewer than `FEWEST_ANSWERS` drawn rows were answered."""
        answered = _has_label(self.drawn, labels)
        count, skipped = int(answered.sum()), int((~answered).sum())
        if count < FEWEST_ANSWERS:
            return None
        truth = [labels[row] for row in self.drawn[answered].tolist()]
        rng = generator(seed, Stream.AUDIT, self.round, 1)
        confidences = (self.drawn_confidence[answered], self.unlabeled_confidence)
        labeled = _has_label(self.known, labels)
        if numeric:
            squares = np.square(np.array(truth, np.float64) - self.drawn_answers[answered].astype(np.float64))
            return audit_error(squares, *confidences, int(labeled.sum()), rng, self.round, skipped, audits)
        correct = _agree(self.drawn_answers[answered], truth)
        known_correct = _agree(self.known_answers[labeled], [labels[row] for row in self.known[labeled].tolist()])
        return audit_accuracy(correct, *confidences, known_correct, rng, self.round, skipped, audits)


def _has_label(ids: Ints, labels: Mapping[int, Any]) -> Bools:
    return np.array([labels.get(row) is not None for row in ids.tolist()], np.bool_)


def _agree(answers: NDArray[Any], labels: list[Any]) -> Bools:
    # Labels of mixed types are passed to the model as text, so its answers come back as text.
    pairs = zip(answers, labels, strict=True)
    return np.array([answer == label or str(answer) == str(label) for answer, label in pairs], np.bool_)
