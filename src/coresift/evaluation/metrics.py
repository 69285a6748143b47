"""What is to be known: a mean, a total, a rate, a ratio, precision, recall, F1, a quantile, or differences of models.

A metric says which rows matter to it, turns answers into columns of numbers, and says what it is of the columns' totals
over all rows. Its linearization at the estimated totals gives one number per row, z, whose total has the same error to
first order; the interval is that of Σz, and rows are drawn by how far z is likely to be off.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from coresift.checks import refuse
from coresift.evaluation.calibration import Calibration, Fit
from coresift.evaluation.questions import numbers, question_of_numbers
from coresift.oracle.questions import Question
from coresift.types import Bools, Floats, Ints, Value

Labels = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Context(Value):
    """What a metric knows before anything is asked.

    Attributes:
        n: How many rows there are.
        models: The names of the models, in order.
        predictions: Their predictions for every row, one array per model; empty if none were given.
    """

    n: int
    models: tuple[str, ...] = ()
    predictions: tuple[Labels, ...] = ()


@dataclass(frozen=True, eq=False)
class Target(Value):
    """One number that is estimated.

    Attributes:
        name: What it is called; empty for a metric that has only one.
        value: The estimate.
        linear: z of every answered row: the error of Σz is that of the value, to first order.
        fit: Its total over all rows that matter.
        event: What z is of a positive row, where every row is positive or 0; 0 for other answers.
    """

    name: str
    value: float
    linear: Floats
    fit: Fit
    event: float = 0.0


class Metric(ABC):
    """Base of all metrics; each says what it needs, and what it is of answers and weights."""

    label: ClassVar[str]
    needs_labels: ClassVar[bool] = False

    @abstractmethod
    def question(self, context: Context) -> Question:
        """Return what is asked about a row."""

    def relevant(self, context: Context) -> Bools:
        """Return the rows whose answer matters; what the others add is known."""
        return np.ones(context.n, np.bool_)

    def features(self, context: Context) -> Floats:
        """Return what the metric itself knows of every row, as columns for predictions."""
        return np.zeros((context.n, 0))

    @abstractmethod
    def columns(self, answers: Labels, ids: Ints, context: Context) -> Floats:
        """Return the columns of answered rows; NaN in the lines of rows that nobody could tell."""

    @abstractmethod
    def targets(self, columns: Floats, context: Context, calibration: Calibration) -> list[Target]:
        """Return the estimates, the main one first."""

    def extremes(self, columns: Floats, ids: Ints, context: Context) -> tuple[Floats, Floats]:
        """Return the columns with the worst, and with the best, that rows without an answer could have."""
        gone = np.isnan(columns)
        low, high = np.nanmin(columns, axis=0), np.nanmax(columns, axis=0)
        return np.where(gone, low, columns), np.where(gone, high, columns)


class Smooth(Metric):
    """A metric that is a smooth function of totals."""

    @abstractmethod
    def of(self, totals: Floats, context: Context) -> list[tuple[str, float, Floats]]:
        """Return name, value and gradient of each number, at these totals of the columns."""

    rate: ClassVar[bool] = False

    def targets(self, columns: Floats, context: Context, calibration: Calibration) -> list[Target]:
        """Linearize at the estimated totals, and let the linear form choose how far predictions count."""
        totals = np.array([calibration.fit(column).total for column in columns.T])
        binary = self.rate and bool(np.all((columns == 0) | (columns == 1)))
        found = []
        for place, (name, _, gradient) in enumerate(self.of(totals, context)):
            linear = columns @ gradient
            fit = calibration.fit(linear)
            again = np.array([calibration.fit(column, fit.penalty).total for column in columns.T])
            event = float(gradient[0]) if binary else 0.0
            found.append(Target(name, self.of(again, context)[place][1], linear, fit, event))
        return found


@dataclass(frozen=True)
class Mean(Smooth):
    """The mean of the values over all rows."""

    label: ClassVar[str] = "mean"
    rate: ClassVar[bool] = True

    def question(self, context: Context) -> Question:
        """Ask for one number."""
        return question_of_numbers()

    def columns(self, answers: Labels, ids: Ints, context: Context) -> Floats:
        """Return the values."""
        return numbers(answers, 1)

    def of(self, totals: Floats, context: Context) -> list[tuple[str, float, Floats]]:
        """Return total/n."""
        return [("", float(totals[0]) / context.n, np.array([1 / context.n]))]


@dataclass(frozen=True)
class Total(Mean):
    """The total of the values over all rows."""

    label: ClassVar[str] = "total"

    def of(self, totals: Floats, context: Context) -> list[tuple[str, float, Floats]]:
        """Return the total."""
        return [("", float(totals[0]), np.ones(1))]


@dataclass(frozen=True)
class Rate(Mean):
    """The mean of values from 0 to 1, such as right or wrong."""

    label: ClassVar[str] = "rate"

    def question(self, context: Context) -> Question:
        """Ask for one number from 0 to 1."""
        return question_of_numbers(ends=(0.0, 1.0))

    def extremes(self, columns: Floats, ids: Ints, context: Context) -> tuple[Floats, Floats]:
        """Return 0, and 1."""
        gone = np.isnan(columns)
        return np.where(gone, 0.0, columns), np.where(gone, 1.0, columns)


METRICS: dict[str, type[Metric]] = {"mean": Mean, "total": Total, "rate": Rate}


def metric_of(metric: Any) -> Metric:
    """Return the metric of a name, or the metric itself."""
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str) and metric in METRICS:
        return METRICS[metric]()
    names = ", ".join(METRICS)
    refuse("metric", f"one of {names}, or one of the classes of cs.evaluation", repr(metric))
