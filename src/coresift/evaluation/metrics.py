"""The base of all metrics, and the metrics of numbers: means, totals, rates, ratios.

A metric says which rows are relevant, turns answers into columns of numbers, and is a function of the columns' totals
over all rows. Its linearization at the estimated totals gives one number per row, z, whose total has the same error to
first order. The interval is that of Σz, and rows are drawn by how uncertain z is.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from coresift.evaluation.calibration import Calibration, Fit
from coresift.evaluation.densities import COUNTS, NUMBERS, RIGHT_OR_WRONG, Belief
from coresift.evaluation.errors import Limits, difference_limits
from coresift.evaluation.questions import numbers, question_of_numbers
from coresift.oracle.questions import Question
from coresift.types import Bools, Floats, Ints, Value

Labels = NDArray[Any]
# Name, value and gradient of a number, at given totals.
Linearized = tuple[str, float, Floats]
ANY = (-math.inf, math.inf)
# What separates the names of two models that are compared.
SIGN = " − "
# If there are more models than this, each one is compared only with the first.
ALL_PAIRS = 6


@dataclass(frozen=True, eq=False)
class Context(Value):
    """What a metric knows before anything is asked.

    Attributes:
        n: How many rows there are.
        models: The names of the models, in order; by default one with an empty name.
        codes: Each model's prediction for every row, as numbers of `classes`; empty without predictions.
        classes: The classes that were predicted, as texts.
        repeats: How many answers each row gets.
    """

    n: int
    models: tuple[str, ...] = ("",)
    codes: tuple[Ints, ...] = ()
    classes: tuple[str, ...] = ()
    repeats: int = 1

    def within(self, rows: Bools) -> Context:
        """Return the context of these rows."""
        codes = tuple(own[rows] for own in self.codes)
        return Context(int(np.count_nonzero(rows)), self.models, codes, self.classes, self.repeats)


@dataclass(frozen=True, eq=False)
class Target(Value):
    """One number that is estimated.

    Attributes:
        name: Its name; empty for a metric that has only one number.
        value: The estimate.
        linear: z of every answered row: the error of Σz is that of the value, to first order.
        influence: The influence of each row on the value: z and its known part.
        fit: The total of z over all relevant rows.
        event: If answers are 0 or 1, the z of the answer 1; 0 for other answers.
        difference: Whether it compares two models.
        gradient: The derivative of z by each column; empty if z is not a sum of columns.
        read: Converts an end of the linear interval to the scale of the value, if that is not linear.
        limits: The lower and the upper limit, each of which holds with the given probability, if the interval is not
            that of a sum.
    """

    name: str
    value: float
    linear: Floats
    influence: Floats
    fit: Fit
    event: float = 0.0
    difference: bool = False
    gradient: Floats = field(default_factory=lambda: np.zeros(0))
    read: Callable[[float], float] | None = field(default=None, compare=False)
    limits: Limits | None = field(default=None, compare=False)


class Metric(ABC):
    """Base of all metrics; each says what it needs, and how it is computed."""

    label: ClassVar[str]
    # Whether answers are labels, which predictions are compared with, or numbers.
    labels: ClassVar[bool] = False
    ends: ClassVar[tuple[float, float]] = ANY
    # Whether the number is about the relevant rows only, as precision is.
    among_relevant: ClassVar[bool] = False
    # Whether it is the plain mean of its first column over the relevant rows.
    plain_mean: ClassVar[bool] = False
    # Why there may be no rows to ask.
    nothing: ClassVar[str] = "no row is relevant to this metric"
    # What is assumed about signals before there are answers.
    belief: ClassVar[Belief] = COUNTS

    @abstractmethod
    def question(self, context: Context) -> Question:
        """Return what is asked about a row."""

    def relevant(self, context: Context) -> Bools:
        """Return the relevant rows; the contribution of the others is known without an answer."""
        return np.ones(context.n, np.bool_)

    def features(self, context: Context) -> Floats:
        """Return what the metric itself knows about every row, as columns for predictions."""
        return np.zeros((context.n, 0))

    @abstractmethod
    def columns(self, answers: Labels, ids: Ints, context: Context) -> Floats:
        """Return the columns of answered rows; NaN in the lines of rows that nobody could tell."""

    @abstractmethod
    def targets(self, columns: Floats, context: Context, calibration: Calibration) -> list[Target]:
        """Return the estimates, the main one first."""

    def extremes(self, columns: Floats, ids: Ints, context: Context) -> tuple[Floats, Floats]:
        """Return the columns with missing answers at their worst, and at their best."""
        gone = np.isnan(columns)
        low, high = np.nanmin(columns, axis=0), np.nanmax(columns, axis=0)
        return np.where(gone, low, columns), np.where(gone, high, columns)

    def noise(self, answers: Labels, context: Context) -> Floats:
        """Return the variance of the mean of repeated answers, for each column."""
        return np.zeros((len(answers), 1))

    def remarks(self, columns: Floats, weights: Floats, context: Context) -> tuple[str, ...]:
        """Return what to know about the estimate, in full sentences."""
        return ()

    def answer_remarks(self, answers: Labels, context: Context) -> tuple[str, ...]:
        """Return what to know about the answers, in full sentences."""
        return ()


class Smooth(Metric):
    """A metric that is a smooth function of totals."""

    @abstractmethod
    def of(self, totals: Floats, context: Context) -> list[Linearized]:
        """Return name, value and gradient of each number, at these totals of the columns.

        Totals are those of the columns that are asked; the gradient is that of all columns.
        """

    def known_columns(self, context: Context) -> int:
        """Return how many of the last columns have totals that are known."""
        return 0

    def pairs(self, context: Context) -> list[tuple[int, int]]:
        """Return which numbers are compared with each other."""
        return []

    def targets(self, columns: Floats, context: Context, calibration: Calibration) -> list[Target]:
        """Linearize at the estimated totals; the linear form determines the penalty of the regression."""
        asked, targets = columns.shape[1] - self.known_columns(context), []
        totals = np.array([calibration.fit(column).total for column in columns[:, :asked].T])
        for place, (name, _, gradient) in enumerate(self._all(totals, context)):
            linear = columns[:, :asked] @ gradient[:asked]
            fit = calibration.fit(linear)
            again = np.array([calibration.fit(column, fit.penalty).total for column in columns[:, :asked].T])
            value = self._all(again, context)[place][1]
            difference = SIGN in name
            event = 0.0 if difference else _event(columns, gradient)
            target = Target(name, value, linear, columns @ gradient, fit, event, difference, gradient[:asked])
            targets.append(_with_limits(target, columns[:, :asked], context, calibration) if difference else target)
        return targets

    def _all(self, totals: Floats, context: Context) -> list[Linearized]:
        """Return every number, and then the differences."""
        singles = self.of(totals, context)
        pairs = [(singles[first], singles[second]) for first, second in self.pairs(context)]
        return singles + [(f"{a}{SIGN}{b}", x - y, u - v) for (a, x, u), (b, y, v) in pairs]


def _event(columns: Floats, gradient: Floats) -> float:
    """Return the contribution of a positive row, if only one column counts and it is 0 or 1."""
    used = np.flatnonzero(gradient)
    if used.size != 1 or not np.all((columns[:, used[0]] == 0) | (columns[:, used[0]] == 1)):
        return 0.0
    return float(gradient[used[0]])


def _with_limits(target: Target, columns: Floats, context: Context, calibration: Calibration) -> Target:
    """Give a difference of two models its limits, if answers are right or wrong and few rows differ."""
    gradient = target.gradient
    unit, used = float(np.abs(gradient).max(initial=0.0)), np.flatnonzero(gradient)
    if unit == 0 or not np.isin(columns[:, used], (-1, 0, 1)).all() or np.any(np.abs(gradient[used]) != unit):
        return target
    signs = np.round(target.linear / unit)
    if np.abs(signs).max(initial=0.0) > 1:
        return target
    limits = difference_limits(calibration, signs, target.fit.penalty, _differing(target.name, context))
    return target if limits is None else replace(target, limits=partial(_scaled, limits, unit))


def _scaled(limits: Limits, unit: float, sure: float) -> tuple[float, float]:
    low, high = limits(sure)
    return unit * low, unit * high


def _differing(name: str, context: Context) -> int:
    """Return how many rows can differ between two models: those with different predictions, if these are known."""
    if not context.codes:
        return context.n
    names = {f"{context.models[a]}{SIGN}{context.models[b]}": (a, b) for a, b in all_pairs(len(context.models))}
    first, second = names[name]
    return int(np.count_nonzero(context.codes[first] != context.codes[second]))


def all_pairs(count: int) -> list[tuple[int, int]]:
    """Return which pairs of models are compared.

    Examples:
        >>> all_pairs(3)
        [(0, 1), (0, 2), (1, 2)]
    """
    if count > ALL_PAIRS:
        return [(0, other) for other in range(1, count)]
    return list(itertools.combinations(range(count), 2))


@dataclass(frozen=True)
class Mean(Smooth):
    """The mean of the values over all rows; for several models, also the differences of their means."""

    label: ClassVar[str] = "mean"
    belief: ClassVar[Belief] = NUMBERS

    def question(self, context: Context) -> Question:
        """Ask for one number per model and repeat."""
        names = context.models if len(context.models) > 1 and context.repeats == 1 else ()
        return question_of_numbers(len(context.models) * context.repeats, names, self.ends)

    def columns(self, answers: Labels, ids: Ints, context: Context) -> Floats:
        """Return the values, or the means of repeated values."""
        means: Floats = _repeated(answers, context).mean(axis=2)
        return means

    def noise(self, answers: Labels, context: Context) -> Floats:
        """Return the variance of the mean of repeated answers."""
        if context.repeats == 1:
            return np.zeros((len(answers), len(context.models)))
        variance: Floats = _repeated(answers, context).var(axis=2, ddof=1) / context.repeats
        return variance

    def of(self, totals: Floats, context: Context) -> list[Linearized]:
        """Return total/n."""
        each = np.eye(len(context.models)) / context.n
        return [(name, float(totals @ row), row) for name, row in zip(context.models, each, strict=True)]

    def pairs(self, context: Context) -> list[tuple[int, int]]:
        """Compare all models."""
        return all_pairs(len(context.models))


@dataclass(frozen=True)
class Total(Mean):
    """The total of the values over all rows."""

    label: ClassVar[str] = "total"

    def of(self, totals: Floats, context: Context) -> list[Linearized]:
        """Return the total."""
        each = np.eye(len(context.models))
        return [(name, float(totals @ row), row) for name, row in zip(context.models, each, strict=True)]


@dataclass(frozen=True)
class Rate(Mean):
    """The mean of values from 0 to 1, such as right or wrong."""

    label: ClassVar[str] = "rate"
    plain_mean: ClassVar[bool] = True
    belief: ClassVar[Belief] = RIGHT_OR_WRONG
    ends: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def extremes(self, columns: Floats, ids: Ints, context: Context) -> tuple[Floats, Floats]:
        """Count missing answers as 0, and as 1."""
        gone = np.isnan(columns)
        return np.where(gone, 0.0, columns), np.where(gone, 1.0, columns)


@dataclass(frozen=True)
class Ratio(Smooth):
    """Σ numerator / Σ denominator over all rows; an answer is a pair of numbers."""

    label: ClassVar[str] = "ratio"
    belief: ClassVar[Belief] = NUMBERS

    def question(self, context: Context) -> Question:
        """Ask for a pair of numbers."""
        return question_of_numbers(2, ("numerator", "denominator"))

    def columns(self, answers: Labels, ids: Ints, context: Context) -> Floats:
        """Return numerator and denominator."""
        return numbers(answers, 2)

    def of(self, totals: Floats, context: Context) -> list[Linearized]:
        """Return the ratio of the totals."""
        above, below = float(totals[0]), float(totals[1])
        if below == 0:
            return [("", math.nan, np.zeros(2))]
        return [("", above / below, np.array([1.0, -above / below]) / below)]


def _repeated(answers: Labels, context: Context) -> Floats:
    """Return answers as rows × models × repeats."""
    models = len(context.models)
    return numbers(answers, models * context.repeats).reshape(len(answers), models, context.repeats)
