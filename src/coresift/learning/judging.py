"""What a model of the labels so far says about every row."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError, refuse
from coresift.engine import Workers
from coresift.heads import LogisticHead, RidgeHead
from coresift.learning.journal import Journal
from coresift.rows import Rows
from coresift.types import Floats, Ints, Singles

# One probability per row and class: of the round, the labeled rows and their labels; or an array for each round.
Probabilities: TypeAlias = "Callable[[int, Ints, NDArray[Any]], Any] | Sequence[Any]"


class Head(Protocol):
    """A classifier that learns from labeled rows; `classes_` are the columns of its probabilities."""

    def fit(self, X: Any, y: Any) -> Any:
        """Learn from rows and labels."""
        ...

    def predict_proba(self, X: Any) -> Any:
        """Return a probability per row and class."""
        ...


@dataclass(frozen=True)
class Judgment:
    """What a model says about every row: how unsure it is, its answer, and how sure it is of that answer."""

    unsure: Floats
    answer: NDArray[Any]
    sure: Floats


class Model:
    """The head, or the user's own probabilities."""

    def __init__(self, head: Any, probabilities: Probabilities | None, numeric: bool, classes: Any) -> None:
        if head is not None and probabilities is not None:
            raise InputError("head and probabilities are two ways to say the same; give one of them.")
        needed = ("fit", "predict_spread") if numeric else ("fit", "predict_proba")
        if head is not None and not all(callable(getattr(head, name, None)) for name in needed):
            refuse("head", f"a model with {needed[0]} and {needed[1]}", type(head).__name__)
        self._head = head if head is not None else RidgeHead() if numeric else LogisticHead()
        self.probabilities, self.numeric, self._classes = probabilities, numeric, classes

    def ready(self, journal: Journal, number: int) -> bool:
        """Say whether there is anything to be unsure about: labels, or the user's probabilities for this round."""
        if self.probabilities is None:
            return journal.labeled().size > 0
        return number > 1

    def fit(self, rows: Rows, ids: Ints, labels: NDArray[Any]) -> Any:
        """Return a model of these labels; None if there are none, or where the probabilities are the user's own."""
        if not ids.size or self.probabilities is not None:
            return None
        model = copy.deepcopy(self._head)
        return model.fit(rows.take(ids), labels.astype(np.float64) if self.numeric else _plain(labels)) or model

    def judge(self, rows: Rows, journal: Journal, number: int, workers: Workers) -> Judgment:
        """Ask the model about all rows, block by block."""
        if self.probabilities is not None:
            return self._named(_judge_all(self._own(journal, number, rows.n)))
        ids = journal.labeled()
        model = self.fit(rows, ids, journal.labels(ids))
        if model is None:
            return Judgment(np.ones(rows.n), np.empty(rows.n, object), np.zeros(rows.n))
        of_block = _judge_numbers if self.numeric else _judge_classes

        def judge(_: int, block: Singles) -> Judgment:
            return of_block(model, block)

        parts = list(workers.here.map(rows, judge, name="asking the model"))
        joined = (np.concatenate([getattr(part, name) for part in parts]) for name in ("unsure", "answer", "sure"))
        unsure, answer, sure = joined
        if self.numeric and unsure.max() > 0:
            unsure = unsure / unsure.max()
        return Judgment(unsure, answer, sure)

    def _named(self, judged: Judgment) -> Judgment:
        """Replace columns of the user's probabilities by the classes that they are about, where these were given."""
        if self._classes is None:
            return judged
        if judged.answer.max() >= len(self._classes):
            refuse("probabilities", f"a column for each of the {len(self._classes)} classes", "more columns")
        names = np.empty(len(self._classes), object)
        names[:] = list(self._classes)
        return Judgment(judged.unsure, names[judged.answer], judged.sure)

    def _own(self, journal: Journal, number: int, n: int) -> Floats:
        ids = journal.labeled()
        if callable(self.probabilities):
            values = self.probabilities(number, ids, journal.labels(ids))
        else:
            assert self.probabilities is not None
            if number - 2 >= len(self.probabilities):
                refuse("probabilities", "an array for each round after the first", f"{len(self.probabilities)} arrays")
            values = self.probabilities[max(number - 2, 0)]
        found = np.asarray(values, np.float64)
        if found.ndim != 2 or len(found) != n or not np.isfinite(found).all() or found.min() < 0:
            refuse(
                "probabilities", f"a finite number of at least 0 for each of {n} rows and class", f"shape {found.shape}"
            )
        return found


def _plain(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels as an array of their own type where they have one in common, which models expect."""
    kinds = {type(label) for label in labels.tolist()}
    return np.array(labels.tolist()) if len(kinds) == 1 else labels.astype(str)


def _judge_classes(model: Any, block: Singles) -> Judgment:
    probabilities = np.asarray(model.predict_proba(block), np.float64)
    judged = _judge_all(probabilities)
    return Judgment(judged.unsure, np.asarray(model.classes_)[judged.answer].astype(object), judged.sure)


def _judge_all(probabilities: Floats) -> Judgment:
    answer = probabilities.argmax(axis=1)
    if probabilities.shape[1] == 1:
        return Judgment(np.ones(len(probabilities)), answer, probabilities[:, 0])
    top = np.partition(probabilities, -2, axis=1)[:, -2:]
    return Judgment(1 - (top[:, 1] - top[:, 0]), answer, top[:, 1])


def _judge_numbers(model: Any, block: Singles) -> Judgment:
    spread = np.asarray(model.predict_spread(block), np.float64)
    return Judgment(spread, np.asarray(model.predict(block), np.float64), spread)
