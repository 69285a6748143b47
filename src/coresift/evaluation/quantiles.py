"""Quantiles, with intervals by Woodruff's method (1952): invert the interval of the share of rows below."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coresift.checks import share
from coresift.evaluation.calibration import Calibration
from coresift.evaluation.metrics import Context, Labels, Metric, Target
from coresift.evaluation.questions import numbers, question_of_numbers
from coresift.oracle.questions import Question
from coresift.types import Floats, Ints

# Shares are sums of weights, so shares that differ by less than this are equal.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Quantile(Metric):
    """The value that a given share of all rows does not exceed.

    Attributes:
        share: That share, between 0 and 1.
    """

    share: float = 0.5
    label: ClassVar[str] = "quantile"

    def __post_init__(self) -> None:
        share("share", self.share)

    def question(self, context: Context) -> Question:
        """Ask for one number."""
        return question_of_numbers()

    def columns(self, answers: Labels, ids: Ints, context: Context) -> Floats:
        """Return the values."""
        return numbers(answers, 1)

    def targets(self, columns: Floats, context: Context, calibration: Calibration) -> list[Target]:
        """Find the quantile, and linearize it: the share of rows below it, divided by the density there."""
        values, n = columns[:, 0], calibration.sample.population
        known = np.sort(values)
        first = calibration.fit((values <= np.quantile(values, self.share)) / n)

        def below(value: float) -> float:
            return calibration.fit((values <= value) / n, first.penalty).total

        def quantile(part: float) -> float:
            low, high = 0, known.size - 1
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if below(float(known[middle])) >= part - ROUNDING else (middle + 1, high)
            return float(known[low])

        value = quantile(self.share)
        fit = calibration.fit((values <= value) / n)
        step = max(1.96 * math.sqrt(max(fit.moments.variance, 0.0)), 1 / n)
        top, bottom = min(self.share + step, 1.0), max(self.share - step, 0.0)
        # How far the quantile moves with the share, over the range of the interval.
        slope = max(quantile(top) - quantile(bottom), 1e-12 * max(abs(value), 1.0)) / (top - bottom)
        linear = -slope * (values <= value) / n

        def read(end: float) -> float:
            return quantile(min(max(self.share + (end - value) / slope, 0.0), 1.0))

        return [Target("", value, linear, linear, calibration.fit(linear, fit.penalty), read=read)]
