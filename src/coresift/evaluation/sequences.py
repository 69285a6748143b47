"""Intervals that hold at any time: look after every answer, and stop when you like.

This is a confidence sequence of Waudby-Smith and Ramdas (2020) for rows drawn without replacement. With the stated
probability the mean is in *all* of its intervals, so you may stop because of any of them. The price is width: it needs
several times the answers of an evaluation in stages, and rows are equally likely, so signals do not help.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from coresift.checks import InputError
from coresift.evaluation.course import Course, Steps
from coresift.evaluation.estimating import Setup
from coresift.evaluation.result import Evaluation, Figure
from coresift.evaluation.stages import Wish
from coresift.types import Floats

# The largest bet; with a larger one, a surprising answer would cost too much.
MOST_BET = 0.5
# By which factor the number of answers grows between two looks, and the number before the first look.
GROWTH, FIRST = 1.1, 50


def confidence_sequence(values: Any, n: int, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Return the ends of the interval after every answer; each interval is within the earlier ones.

    Args:
        values: Answers from 0 to 1, of rows in a random order, without replacement.
        n: How many rows there are.
        confidence: The probability that the mean of all n rows is in every interval.

    Returns:
        The lower and upper ends.

    Examples:
        >>> low, high = confidence_sequence([0.0] * 300, 1_000)
        >>> low[-1], bool(high[-1] < 0.05)
        (np.float64(0.0), True)
    """
    answers = np.asarray(values, np.float64)
    step = np.arange(1, answers.size + 1)
    sums = np.cumsum(answers)
    means = (0.5 + sums) / (step + 1)
    before = np.concatenate([[0.5], means[:-1]])
    variances = (0.25 + np.cumsum((answers - means) ** 2)) / (step + 1)
    spread = np.concatenate([[0.25], variances[:-1]])
    doubt = math.log(2 / (1 - confidence))
    bets = np.minimum(np.sqrt(2 * doubt / (spread * step * np.log(1 + step))), MOST_BET)
    left = n - step + 1
    weight = np.cumsum(bets * n / left)
    centers = np.cumsum(bets * (answers + (sums - answers) / left)) / weight
    reach = (np.cumsum((answers - before) ** 2 * (-np.log1p(-bets) - bets)) + doubt) / weight
    # Answers that were seen are certain, whatever the others are.
    low = np.maximum.accumulate(np.maximum(centers - reach, sums / n))
    high = np.minimum.accumulate(np.minimum(centers + reach, (sums + n - step) / n))
    return low, high


class AnytimeCourse(Course):
    """An evaluation whose interval holds at any time: equally likely rows, asked in a random order."""

    def __init__(self, setup: Setup, seed: int) -> None:
        super().__init__(setup, seed)
        single = len(setup.context.models) == 1 and len(setup.population.groups) == 1
        if not (single and setup.metric.plain_mean):
            raise InputError("anytime works with the rate, accuracy or precision of one model, without groups.")

    def drive(self, wish: Wish) -> Steps:
        """Ask equally likely rows until the interval is short enough."""
        rows = len(self.setup.population)
        most = rows if wish.budget is None else min(wish.budget, rows)
        while len(self.sample) < most and not self.stopped:
            more = next_look(len(self.sample), most) - len(self.sample)
            yield from self.ask(np.array([more]), np.ones(rows), np.ones(rows), "looking")
            low, high = self.ends()
            if wish.within is not None and (high - low) / 2 <= wish.within:
                break
        return self.evaluation()

    def ends(self) -> tuple[float, float]:
        """Return the interval after the answers so far; missing answers count as 0, and as 1."""
        setup = self.setup
        columns = setup.metric.columns(self.answers, setup.population.rows[self.sample.ids], setup.context)[:, 0]
        n = len(setup.population)
        low = confidence_sequence(np.where(np.isnan(columns), 0.0, columns), n, setup.confidence)[0][-1]
        high = confidence_sequence(np.where(np.isnan(columns), 1.0, columns), n, setup.confidence)[1][-1]
        return float(low), float(high)

    def evaluation(self) -> Evaluation:
        """Return the evaluation from the answers so far, with the interval of the sequence."""
        result = super().evaluation()
        low, high = self.ends()
        value = min(max(result.value, low), high)
        parts = {**vars(result), "value": value, "low": low, "high": high}
        names = ("value", "low", "high", "standard_error", "confidence", "rows", "asked", "effective_sample_size")
        figure = Figure(**{name: parts[name] for name in names})
        return Evaluation(**{**parts, "figures": {"": figure}})


def next_look(asked: int, most: int) -> int:
    """Return after how many answers to look next.

    Examples:
        >>> next_look(0, 1_000), next_look(100, 1_000), next_look(990, 1_000)
        (50, 110, 1000)
    """
    return min(max(FIRST, math.ceil(round(asked * GROWTH, 6)), asked + 1), most)
