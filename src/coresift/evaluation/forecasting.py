"""Forecast how many answers an evaluation will take, from the signals or from a pilot's answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from coresift.checks import InputError, positive, share
from coresift.evaluation.course import Course
from coresift.evaluation.population import Population
from coresift.evaluation.stages import PILOT
from coresift.inclusion import fixed_size_inclusion
from coresift.notebook import card
from coresift.types import Floats

# For how many numbers of answers the half-width is forecast.
STEPS = 12
FEWEST = 50


@dataclass(frozen=True, repr=False)
class EvaluationPlan:
    """How many answers an evaluation will take.

    Attributes:
        rows: How many rows could be asked.
        within: The half-width to reach, if there is one.
        answers: How many answers that takes in total; without `within`, the budget.
        half_width: The half-width that this many answers give.
        price: What the answers cost, if a price was given.
        table: Numbers of answers, and the half-width that each gives.
        basis: What the forecast is based on.
    """

    rows: int
    within: float | None
    answers: int
    half_width: float
    price: float | None
    table: tuple[tuple[int, float], ...]
    basis: str

    def __repr__(self) -> str:
        price = "" if self.price is None else f", price {self.price:,.2f}"
        forecast = f"{self.answers:,} of {self.rows:,} rows for ± {self.half_width:.3g}"
        return f"EvaluationPlan({forecast}{price}, based on {self.basis})"

    def _repr_html_(self) -> str:
        lines = [(f"{answers:,} answers", f"± {half:.3g}") for answers, half in self.table]
        price = () if self.price is None else (f"The answers cost {self.price:,.2f}.",)
        title = f"{self.answers:,} of {self.rows:,} rows give ± {self.half_width:.3g}"
        return card(title, lines, (f"The forecast is based on {self.basis}.", *price))

    def to_pandas(self) -> Any:
        """Return the table as a frame."""
        import pyarrow as pa

        answers, widths = zip(*self.table, strict=True)
        return pa.table({"answers": answers, "half_width": widths}).to_pandas()

    def plot(self, ax: Any = None) -> Any:
        """Draw the half-width against the number of answers, both on logarithmic axes; needs matplotlib."""
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(6, 4)).add_subplot()
        answers, widths = zip(*self.table, strict=True)
        ax.loglog(answers, widths, marker="o")
        if self.within is not None:
            ax.axhline(self.within, linestyle="--", color="gray")
        ax.set_xlabel("answers")
        ax.set_ylabel("half-width")
        return ax


def forecast(
    course: Course, within: float | None, budget: int | None, expected: float | None, cost: float | None
) -> EvaluationPlan:
    """Return how many answers an evaluation will take.

    Args:
        course: How far it is; without answers, the forecast uses only the signals.
        within: The half-width to reach.
        budget: The largest number of answers.
        expected: Before anything is answered: the expected rate.
        cost: The price per answer.
    """
    rows = len(course.setup.population)
    if len(course.sample):
        width_at, least, basis = _from_answers(course), len(course.sample), f"{len(course.sample):,} answers"
        pilot = least
    else:
        width_at, basis = _from_signals(course, expected)
        least, pilot = min(FEWEST, rows), min(PILOT, rows)
    answers = budget if within is None else _answers_for(width_at, within, pilot, rows)
    assert answers is not None
    answers = min(answers if budget is None else min(answers, budget), rows)
    grid = np.unique(np.geomspace(max(least, 2), rows, STEPS).round().astype(int))
    return EvaluationPlan(
        rows,
        within,
        answers,
        width_at(answers),
        None if cost is None else answers * positive("cost", cost, zero=True),
        tuple((int(count), width_at(int(count))) for count in grid),
        basis,
    )


def _answers_for(width_at: Any, within: float, low: int, high: int) -> int:
    if width_at(low) <= within:
        return low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if width_at(middle) <= within else (middle, high)
    return high


def _from_answers(course: Course) -> Any:
    reading = course.reading()
    forecasts = course.forecasts(course.setup, reading, course.density(reading).here)
    return lambda total: max(own.width_at(total, reached) for own, reached in forecasts)


def _from_signals(course: Course, expected: float | None) -> tuple[Any, str]:
    """Return the half-width of a rate, if signals are the probabilities of rows, or if all rows are alike."""
    from scipy.special import ndtri

    setup = course.setup
    low, high = setup.metric.ends
    if not (low >= 0 and high <= 1) and expected is None:
        raise InputError(
            "Before anything is answered, only rates can be planned; "
            "give expected=, the rate that you expect, or answer the first stage and plan again."
        )
    chances, basis = _chances(setup.population, expected)
    deviations, rows = np.sqrt(chances * (1 - chances)), len(setup.population)
    scale = 1.0 if setup.metric.among_relevant else rows / setup.context.n
    quantile = float(ndtri(0.5 + setup.confidence / 2))

    def width_at(total: int) -> float:
        if total >= rows:
            return 0.0
        inclusion = fixed_size_inclusion(np.maximum(deviations, 1e-6), total)
        variance = float(np.sum(deviations**2 * (1 / inclusion - 1))) / rows**2
        return scale * quantile * math.sqrt(variance)

    return width_at, basis


def _chances(population: Population, expected: float | None) -> tuple[Floats, str]:
    if expected is not None:
        rate = share("expected", expected)
        return np.full(len(population), rate), f"a rate of {rate:g}, without signals"
    if population.calibrated.any():
        return np.clip(population.chances[:, 0], 0.01, 0.99), "each row's chance, learned from earlier results"
    inside = [column for column in population.sizes.T if column.max() <= 1]
    if not inside:
        return np.full(len(population), 0.5), "a rate of one half, the worst case, without signals"
    return np.clip(inside[0], 0.01, 0.99), "the first signal, read as each row's probability and trusted"
