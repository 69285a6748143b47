"""Metrics of predictions that are known for every row, from labels of a few: accuracy, precision, recall, F1."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from coresift.checks import InputError
from coresift.evaluation.calibration import Calibration
from coresift.evaluation.densities import MISSES, RIGHT_OR_WRONG, Belief
from coresift.evaluation.errors import Count, Limits, combined, kish
from coresift.evaluation.labels import coded, key_of, never_predicted, right
from coresift.evaluation.metrics import Context, Labels, Linearized, Mean, Smooth, Target, all_pairs
from coresift.evaluation.questions import CLASS, numbers, question_of_numbers
from coresift.oracle.questions import Question
from coresift.types import Bools, Floats, Ints

# The most frequent predicted classes say a little about which predictions are right.
CLASSES = 12
# With fewer effective positives than this, an interval of precision, recall or F1 is only approximate.
FEW_POSITIVES = 30.0
POSITIVE = ("1", "yes", "true", "positive", "pos")


class Classification(Smooth):
    """Base of metrics that compare predictions with labels."""

    labels: ClassVar[bool] = True
    ends: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def question(self, context: Context) -> Question:
        """Ask for the label."""
        return CLASS

    def pairs(self, context: Context) -> list[tuple[int, int]]:
        """Compare all models."""
        return all_pairs(len(context.models))

    def answer_remarks(self, answers: Labels, context: Context) -> tuple[str, ...]:
        """Say which labels are of no predicted class; they may be misspelled."""
        return never_predicted(answers, context) if context.codes else ()


@dataclass(frozen=True)
class Accuracy(Classification):
    """The share of rows that a model predicts correctly; for several models, also their differences."""

    label: ClassVar[str] = "accuracy"
    plain_mean: ClassVar[bool] = True
    belief: ClassVar[Belief] = RIGHT_OR_WRONG

    def features(self, context: Context) -> Floats:
        """Return the most frequent classes that the first model predicts."""
        counts = np.bincount(context.codes[0], minlength=len(context.classes))
        frequent = np.argsort(-counts, kind="stable")[: min(CLASSES, counts.size - 1)]
        same = [(codes == context.codes[0])[:, None] for codes in context.codes[1:]]
        return np.concatenate([context.codes[0][:, None] == frequent, *same], axis=1).astype(np.float64)

    def columns(self, answers: Labels, ids: Ints, context: Context) -> Floats:
        """Return 1 if a model is right, one column per model."""
        return right(answers, ids, context)

    def of(self, totals: Floats, context: Context) -> list[Linearized]:
        """Return the number of right predictions divided by n."""
        return Mean().of(totals, context)

    def extremes(self, columns: Floats, ids: Ints, context: Context) -> tuple[Floats, Floats]:
        """Count missing answers as wrong, and as right."""
        gone = np.isnan(columns)
        return np.where(gone, 0.0, columns), np.where(gone, 1.0, columns)


@dataclass(frozen=True)
class ModelDifference(Classification):
    """How much more often one model is right than another, or the difference of their mean values.

    If predictions are known, only rows on which models differ are asked; the others contribute exactly 0.
    """

    label: ClassVar[str] = "difference"
    nothing: ClassVar[str] = "the models predict the same on all rows, and the difference is 0"
    labels: ClassVar[bool] = True
    ends: ClassVar[tuple[float, float]] = (-np.inf, np.inf)

    def question(self, context: Context) -> Question:
        """Ask for the label, or for one number per model."""
        return CLASS if context.codes else question_of_numbers(len(context.models), context.models)

    def relevant(self, context: Context) -> Bools:
        """Return the rows on which predictions differ, or all rows if there are no predictions."""
        if not context.codes:
            return np.ones(context.n, np.bool_)
        differs: Bools = np.any([codes != context.codes[0] for codes in context.codes[1:]], axis=0)
        return differs

    def features(self, context: Context) -> Floats:
        """Return which pairs of models differ, if there are several pairs."""
        if len(context.codes) < 3:
            return np.zeros((context.n, 0))
        pairs = all_pairs(len(context.codes))
        return np.stack([context.codes[a] != context.codes[b] for a, b in pairs], axis=1).astype(np.float64)

    def columns(self, answers: Labels, ids: Ints, context: Context) -> Floats:
        """Return how much better the first model of each pair is, one column per pair."""
        values = right(answers, ids, context) if context.codes else numbers(answers, len(context.models))
        pairs = np.array(all_pairs(len(context.models)))
        return values[:, pairs[:, 0]] - values[:, pairs[:, 1]]

    def of(self, totals: Floats, context: Context) -> list[Linearized]:
        """Return the mean differences."""
        pairs, each = all_pairs(len(context.models)), np.eye(totals.size) / context.n
        names = [f"{context.models[a]} − {context.models[b]}" for a, b in pairs]
        return [(name, float(totals @ row), row) for name, row in zip(names, each, strict=True)]

    def pairs(self, context: Context) -> list[tuple[int, int]]:
        """Return nothing: all numbers are differences."""
        return []


@dataclass(frozen=True)
class Positives(Classification):
    """Base of metrics of one class against all others.

    Attributes:
        positive: The class that counts as positive; by default 1, yes, true or positive if that is one of two classes.
    """

    positive: Any = None

    def code(self, context: Context) -> int:
        """Return the number of the positive class."""
        names = context.classes
        if self.positive is not None:
            name = key_of(self.positive)
            if name not in names:
                raise InputError(
                    f"positive must be one of the predicted classes, {_listed(names)}; got {self.positive!r}."
                )
            return names.index(name)
        candidates = [place for place, name in enumerate(names) if name.lower() in POSITIVE]
        if len(candidates) != 1 or len(names) > 2:
            raise InputError(
                f"{self.label} needs to know the positive class, as in "
                f"metric=cs.evaluation.{type(self).__name__}(positive=...); the predicted classes are {_listed(names)}."
            )
        return candidates[0]

    def predicted(self, context: Context) -> list[Bools]:
        """Return, for each model, the rows that it predicts to be positive."""
        code = self.code(context)
        return [codes == code for codes in context.codes]

    def features(self, context: Context) -> Floats:
        """Return which rows each model predicts to be positive."""
        return np.stack(self.predicted(context), axis=1).astype(np.float64)

    def columns(self, answers: Labels, ids: Ints, context: Context) -> Floats:
        """Return the true positives of each model, and the positives."""
        truth = coded(answers, context)
        positive = np.where(np.isnan(truth), np.nan, truth == self.code(context))
        predicted = [positive * claimed[ids] for claimed in self.predicted(context)]
        return np.stack([*predicted, positive], axis=1)

    def extremes(self, columns: Floats, ids: Ints, context: Context) -> tuple[Floats, Floats]:
        """Return the labels that most contradict the first model's predictions, and those that agree."""
        gone = np.isnan(columns[:, -1])
        claims = [claimed[ids].astype(np.float64) for claimed in self.predicted(context)]
        worst, best = columns.copy(), columns.copy()
        for target, positive in ((worst, 1 - claims[0]), (best, claims[0])):
            filled = np.stack([*(positive * claim for claim in claims), positive], axis=1)
            target[gone] = filled[gone]
        return worst, best

    def remarks(self, columns: Floats, weights: Floats, context: Context) -> tuple[str, ...]:
        """Warn if few positives were seen."""
        seen = kish(weights[columns[:, len(context.models)] == 1])
        if seen >= FEW_POSITIVES:
            return ()
        return (
            f"The labels are worth only {seen:.0f} positives, so the interval of {self.label} is only approximate.",
        )


@dataclass(frozen=True)
class Precision(Positives):
    """The share of predicted positives that are positive; only predicted positives are asked."""

    label: ClassVar[str] = "precision"
    nothing: ClassVar[str] = "no row is predicted as positive"
    plain_mean: ClassVar[bool] = True
    belief: ClassVar[Belief] = RIGHT_OR_WRONG
    among_relevant: ClassVar[bool] = True

    def relevant(self, context: Context) -> Bools:
        """Return the rows that a model predicts to be positive."""
        claimed: Bools = np.any(self.predicted(context), axis=0)
        return claimed

    def columns(self, answers: Labels, ids: Ints, context: Context) -> Floats:
        """Return the true positives of each model."""
        return super().columns(answers, ids, context)[:, :-1]

    def extremes(self, columns: Floats, ids: Ints, context: Context) -> tuple[Floats, Floats]:
        """Count missing labels as negative, and as positive."""
        gone = np.isnan(columns)
        claims = np.stack([claimed[ids] for claimed in self.predicted(context)], axis=1)
        return np.where(gone, 0.0, columns), np.where(gone, claims, columns)

    def remarks(self, columns: Floats, weights: Floats, context: Context) -> tuple[str, ...]:
        """Return nothing, since precision is a plain rate."""
        return ()

    def of(self, totals: Floats, context: Context) -> list[Linearized]:
        """Return TP/PP."""
        sizes = [max(int(claimed.sum()), 1) for claimed in self.predicted(context)]
        each = np.diag([1 / size for size in sizes])
        return [(name, float(totals @ row), row) for name, row in zip(context.models, each, strict=True)]


@dataclass(frozen=True)
class ErrorCounts(Positives):
    """Base of metrics that fall with the number of missed positives and of wrong predictions of the positive class."""

    belief: ClassVar[Belief] = MISSES

    def columns(self, answers: Labels, ids: Ints, context: Context) -> Floats:
        """Return the true positives of each model, the positives, and the predicted positives of each model."""
        claims = [claimed[ids].astype(np.float64) for claimed in self.predicted(context)]
        return np.column_stack([super().columns(answers, ids, context), *claims])

    def known_columns(self, context: Context) -> int:
        """Return the number of columns of predicted positives."""
        return len(context.models)

    def extremes(self, columns: Floats, ids: Ints, context: Context) -> tuple[Floats, Floats]:
        """Return the labels that most contradict the first model's predictions, and those that agree."""
        models = len(context.models)
        both = super().extremes(columns[:, : models + 1], ids, context)
        worst, best = (np.concatenate([part, columns[:, models + 1 :]], axis=1) for part in both)
        return worst, best

    @abstractmethod
    def at(self, predicted: int, wrong: float, missed: float) -> float:
        """Return the metric, from the number of predicted positives and of errors."""

    def targets(self, columns: Floats, context: Context, calibration: Calibration) -> list[Target]:
        """Estimate each number; its limits are those of the counts of errors."""
        found, models = super().targets(columns, context, calibration), len(context.models)
        for place, claimed in enumerate(self.predicted(context)):
            limits = self._limits(columns[:, [place, models, models + 1 + place]], claimed, calibration, found[place])
            found[place] = replace(found[place], limits=limits)
        return found

    def _limits(self, columns: Floats, claimed: Bools, calibration: Calibration, target: Target) -> Limits:
        sample, predicted = calibration.sample, int(np.count_nonzero(claimed))
        hit, positive, claim = columns.T
        right, every = (calibration.fit(column, target.fit.penalty) for column in (hit, positive))
        miss, false = (calibration.fit(column, target.fit.penalty) for column in (positive - hit, claim - hit))
        yes = claim == 1
        others = sample.population - predicted
        wrong = Count.of(sample, predicted - right.total, false.moments, yes & (hit == 0), yes, predicted)
        missed = Count.of(sample, every.total - right.total, miss.moments, ~yes & (positive == 1), ~yes, others)
        return lambda sure: combined(lambda more, lost: self.at(predicted, more, lost), wrong, missed, sure)


@dataclass(frozen=True)
class Recall(ErrorCounts):
    """The share of positives that are predicted: TP/P."""

    label: ClassVar[str] = "recall"

    def of(self, totals: Floats, context: Context) -> list[Linearized]:
        """Return TP/P."""
        positives = max(float(totals[-1]), 1e-9)
        linearized = []
        for place, name in enumerate(context.models):
            value = float(totals[place]) / positives
            gradient = np.zeros(2 * len(context.models) + 1)
            gradient[place], gradient[len(context.models)] = 1 / positives, -value / positives
            linearized.append((name, value, gradient))
        return linearized

    def at(self, predicted: int, wrong: float, missed: float) -> float:
        """Return TP/(TP + FN)."""
        hits = max(predicted - wrong, 0.0)
        return hits / max(hits + max(missed, 0.0), 1e-9)


@dataclass(frozen=True)
class F1(ErrorCounts):
    """2TP/(PP + P) with known PP; its influence is (2tp − F1·(pp + p))/(PP + P) (Sawade, Landwehr, Scheffer 2010)."""

    label: ClassVar[str] = "F1"

    def of(self, totals: Floats, context: Context) -> list[Linearized]:
        """Return 2TP/(PP + P)."""
        linearized, models = [], len(context.models)
        for place, (name, claimed) in enumerate(zip(context.models, self.predicted(context), strict=True)):
            below = max(int(claimed.sum()) + float(totals[models]), 1e-9)
            value = 2 * float(totals[place]) / below
            gradient = np.zeros(2 * models + 1)
            gradient[place], gradient[models], gradient[models + 1 + place] = 2 / below, -value / below, -value / below
            linearized.append((name, value, gradient))
        return linearized

    def at(self, predicted: int, wrong: float, missed: float) -> float:
        """Return 2TP/(PP + TP + FN)."""
        hits = max(predicted - wrong, 0.0)
        return 2 * hits / max(predicted + hits + max(missed, 0.0), 1e-9)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
