"""What a model trained on the labels so far says about every row."""

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
from coresift.learning.skill import random_share, skill
from coresift.rows import Rows
from coresift.types import Floats, Ints, Singles

# One probability per row and class: a function of the round, the labeled rows and their labels, or an array per round.
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
    """A model's uncertainty about every row, its answer, and its confidence in that answer."""

    uncertainty: Floats
    answer: NDArray[Any]
    confidence: Floats


class Model:
    """The head, or the user's own probabilities."""

    def __init__(self, head: Any, probabilities: Probabilities | None, numeric: bool, classes: Any) -> None:
        if head is not None and probabilities is not None:
            raise InputError("head and probabilities exclude each other; give only one of them.")
        needed = ("fit", "predict_spread") if numeric else ("fit", "predict_proba")
        if head is not None and not all(callable(getattr(head, name, None)) for name in needed):
            refuse("head", f"a model with {needed[0]} and {needed[1]}", type(head).__name__)
        self._head = head if head is not None else RidgeHead() if numeric else LogisticHead(cautious=True)
        self._default = head is None and probabilities is None
        self.probabilities, self.numeric, self._classes = probabilities, numeric, classes

    def ready(self, journal: Journal, number: int) -> bool:
        """Return whether uncertainty can be measured: there are labels, or the user's probabilities for this round."""
        if self.probabilities is None:
            return journal.labeled().size > 0
        return number > 1

    def fit(self, rows: Rows, ids: Ints, labels: NDArray[Any]) -> Any:
        """Return a model fit to these labels; None if there are no labels, or if the user supplies probabilities."""
        if not ids.size or self.probabilities is not None:
            return None
        model = copy.deepcopy(self._head)
        return (
            model.fit(rows.take(ids), labels.astype(np.float64) if self.numeric else _as_typed_array(labels)) or model
        )

    def random_share(self, rows: Rows, journal: Journal, model: Any) -> float:
        """Return the share of the next batch that is random: more, the less rows say about their classes.

        This is about the rows, whatever the model: the default head measures it, on labels whose rows were not chosen
        for being hard.
        """
        ids = journal.labeled()
        if self.numeric or not ids.size:
            return 0.0
        labels = _as_typed_array(journal.labels(ids))
        head = model if self._default else LogisticHead(cautious=True).fit(rows.take(ids), labels)
        typical = journal.reasons(ids) != "uncertainty"
        return random_share(skill(head.held_out_[typical], labels[typical]))

    def judge(self, rows: Rows, journal: Journal, number: int, workers: Workers, model: Any = None) -> Judgment:
        """Apply the model to all rows, block by block; `model` is the head if it was already fit to the labels."""
        if self.probabilities is not None:
            return self._name_classes(_judge_probabilities(self._user_probabilities(journal, number, rows.n)))
        ids = journal.labeled()
        model = self.fit(rows, ids, journal.labels(ids)) if model is None else model
        if model is None:
            return Judgment(np.ones(rows.n), np.empty(rows.n, object), np.zeros(rows.n))
        return self.apply(model, rows, workers)

    def apply(self, model: Any, rows: Rows, workers: Workers) -> Judgment:
        """Apply a fitted head to all rows, block by block."""
        judge_block = _judge_numbers if self.numeric else _judge_classes

        def judge(_: int, block: Singles) -> Judgment:
            return judge_block(model, block)

        judgments = list(workers.here.map(rows, judge, name="asking the model"))
        columns = (
            np.concatenate([getattr(judgment, name) for judgment in judgments])
            for name in ("uncertainty", "answer", "confidence")
        )
        uncertainty, answer, confidence = columns
        if self.numeric and uncertainty.max() > 0:
            uncertainty = uncertainty / uncertainty.max()
        return Judgment(uncertainty, answer, confidence)

    def _name_classes(self, judgment: Judgment) -> Judgment:
        """Replace column numbers of the user's probabilities with class names, if classes were given."""
        if self._classes is None:
            return judgment
        if judgment.answer.max() >= len(self._classes):
            refuse("probabilities", f"a column for each of the {len(self._classes)} classes", "more columns")
        names = np.empty(len(self._classes), object)
        names[:] = list(self._classes)
        return Judgment(judgment.uncertainty, names[judgment.answer], judgment.confidence)

    def _user_probabilities(self, journal: Journal, number: int, n: int) -> Floats:
        ids = journal.labeled()
        if callable(self.probabilities):
            values = self.probabilities(number, ids, journal.labels(ids))
        else:
            assert self.probabilities is not None
            if number - 2 >= len(self.probabilities):
                refuse("probabilities", "an array for each round after the first", f"{len(self.probabilities)} arrays")
            values = self.probabilities[max(number - 2, 0)]
        matrix = np.asarray(values, np.float64)
        if matrix.ndim != 2 or len(matrix) != n or not np.isfinite(matrix).all() or matrix.min() < 0:
            refuse(
                "probabilities",
                f"a finite number of at least 0 per class for each of the {n} rows",
                f"shape {matrix.shape}",
            )
        return matrix


def _as_typed_array(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels as an array of their common type, as models expect, or as text if the types differ.

    Texts stay Python objects: a NumPy array of strings gives each one the room of the longest.
    """
    types = {type(label) for label in labels.tolist()}
    if len(types) == 1 and str not in types:
        return np.array(labels.tolist())
    texts = np.empty(labels.size, object)
    texts[:] = [str(label) for label in labels.tolist()]
    return texts


def _judge_classes(model: Any, block: Singles) -> Judgment:
    probabilities = np.asarray(model.predict_proba(block), np.float64)
    judgment = _judge_probabilities(probabilities)
    classes = np.asarray(model.classes_).astype(object)
    return Judgment(judgment.uncertainty, classes[judgment.answer], judgment.confidence)


def _judge_probabilities(probabilities: Floats) -> Judgment:
    answer = probabilities.argmax(axis=1)
    if probabilities.shape[1] == 1:
        return Judgment(np.ones(len(probabilities)), answer, probabilities[:, 0])
    top = np.partition(probabilities, -2, axis=1)[:, -2:]
    return Judgment(1 - (top[:, 1] - top[:, 0]), answer, top[:, 1])


def _judge_numbers(model: Any, block: Singles) -> Judgment:
    spread = np.asarray(model.predict_spread(block), np.float64)
    return Judgment(spread, np.asarray(model.predict(block), np.float64), spread)
