"""How many answers are needed, and in which stages they are asked.

With a fixed budget, an evaluation asks a first part, learns from it where answers are uncertain, and asks the rest
there. To reach a half-width, there are three stages: a pilot of at least 200 answers, 70 % of the number that it
predicts to be needed, and the rest. There are no other looks: if you look after every answer and stop as soon as the
interval is short enough, you stop too early too often.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from coresift.evaluation.sampling import Sample
from coresift.types import Floats, Value

PILOT = 200
# If every group has its own half-width, the pilot has this many answers per group on average.
GROUP_PILOT = 40
SECOND = 0.7
# The last stage aims at a slightly smaller half-width, since the need is an estimate.
LAST_AIM = 0.97
# The size of the first part of a fixed budget.
FIRST = 0.3
# If more than this part of all rows is needed, all rows are asked.
NEARLY_ALL = 0.95


@dataclass(frozen=True)
class Forecast:
    """The variance that is left after more answers.

    Attributes:
        sample: The rows asked so far.
        variance: The variance of the estimate from them.
        sizes: The sizes that the asked rows would have in the next draw.
        squares: Their squared residuals.
        half_width: The half-width of the interval from them, as it would be reported.
    """

    sample: Sample
    variance: float
    sizes: Floats
    squares: Floats
    half_width: float = 0.0

    @property
    def answering(self) -> float:
        """The share of the rows asked so far that have an answer."""
        return len(self.sample) / max(self.sample.asked, 1)

    def variance_at(self, total: int) -> float:
        """Return the predicted variance of the estimate if `total` rows are asked."""
        asked, population = self.sample.asked, self.sample.population
        more = min(total, population) - asked
        if more <= 0:
            return self.variance
        left = population - asked
        if more >= left and self.answering == 1:
            return 0.0
        stands_for = self.sample.weights * (left / self.sample.weights.sum())
        sizes = self.sizes / (stands_for @ self.sizes / left)
        chances, response = self.sample.chances, self.sample.response
        missed = 0.0 if more >= left else 1 - np.minimum(more / left * sizes, 1.0)
        # As many of the rows that are asked later have an answer.
        later = response * (1 - (1 - chances / response) * missed)
        now, then = (float(self.squares @ ((1 - drawn) / (chances * drawn))) for drawn in (chances, later))
        return self.variance * then / now if now > 0 else self.variance

    def width_at(self, total: int, reached: Callable[[float, int], float]) -> float:
        """Return the predicted half-width if `total` rows are asked.

        Args:
            total: The number of rows.
            reached: The half-width by large-sample theory, from the variance and the number of answers. As far as the
                interval so far is wider, the difference shrinks with the number of answers: it comes from events that
                are too few, or were not seen at all.
        """
        asked, population = self.sample.asked, self.sample.population
        if total >= population and self.answering == 1:
            return 0.0
        more = max(self.half_width - reached(self.variance, len(self.sample)), 0.0)
        rest = max(population - total, 0) / max(population - asked, 1)
        answers = round(self.answering * total)
        return reached(self.variance_at(total), answers) + more * asked / max(total, 1) * rest

    def answers_for(self, half_width: float, reached: Callable[[float, int], float]) -> int:
        """Return the total number of rows to ask for a half-width, at most all of them."""
        low, high = self.sample.asked, self.sample.population
        if self.width_at(low, reached) <= half_width:
            return low
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.width_at(middle, reached) <= half_width else (middle, high)
        return high


@dataclass(frozen=True, eq=False)
class Wish(Value):
    """What the user wants: a half-width overall or in each group, and a largest number of answers.

    `earlier` has the wishes that the run fulfilled before.
    """

    budget: int | None
    within: float | None
    group_within: Floats = field(default_factory=lambda: np.zeros(0))
    earlier: tuple[Wish, ...] = ()

    @property
    def decided(self) -> float | None:
        """The part of the answers whose variance decides how many there are; None if the number is fixed."""
        wishes = (*self.earlier, self)
        return SECOND if any(wish.within is not None or wish.group_within.size for wish in wishes) else None


def first_stage(population: int, groups: int, wish: Wish, per_root: float = math.inf) -> int:
    """Return the size of the first stage; with a fixed budget, at most `per_root` times its root."""
    if wish.within is None and not wish.group_within.size:
        assert wish.budget is not None
        first = min(FIRST * wish.budget, per_root * math.sqrt(wish.budget))
        return min(population, wish.budget if wish.budget < 2 / FIRST else max(round(first), 2))
    first = max(PILOT, GROUP_PILOT * groups if wish.group_within.size else 0)
    return min(population, first if wish.budget is None else min(first, wish.budget))
