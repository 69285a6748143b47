"""Designs: inclusion probabilities from sizes, the draw itself, and the variance of its totals.

A row's weight is multiplicity / inclusion under every design, so totals are always unbiased.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coresift.columns import Column, running_sum, spans, stored, total
from coresift.inclusion import CERTAIN, fixed_size_inclusion
from coresift.types import Bools, Design, Floats, Ints, Moments, PhaseSample, Uniforms
from coresift.variance import by_neighbors, independent_draws, independent_rows, spread_terms

__all__ = ["Design", "Independent", "Pivotal", "Poisson", "Systematic"]

NEIGHBORS = "differences from the neighbors in draw order"


@dataclass(frozen=True, eq=False, repr=False)
class Independent(Design):
    """Independent draws with replacement, p ∝ size (the paper's Algorithm 1); repeats are merged.

    Examples:
        >>> Independent().inclusion(np.array([1.0, 3.0]), 8)
        array([2., 6.])
    """

    distinct: ClassVar[bool] = False
    independent: ClassVar[bool] = True
    variance_note: ClassVar[str] = "sample variance of the draws"

    def inclusion(self, sizes: Floats, count: int) -> Floats:
        """Return s·p, the expected count of each row in s draws."""
        whole = total(sizes)
        return stored(sizes.size, lambda rows: count * (sizes[rows] / whole))

    def draw(self, inclusion: Floats, uniforms: Uniforms) -> tuple[Ints, Ints]:
        """Draw Σ inclusion times, and return positions in ascending order."""
        cumulative = running_sum(inclusion)
        positions = uniforms.random(round(cumulative[-1])) * cumulative[-1]
        hits = _hit(cumulative, positions)
        return np.unique(hits, return_counts=True)

    def moments(self, sample: PhaseSample) -> Moments:
        """Return the moments of independent draws."""
        return independent_draws(sample)

    def expected_terms(self, expanded: Floats, inclusion: Floats, left: Floats, strata: Ints) -> Floats:
        """Return the squared differences from the mean of all draws: order does not matter."""
        return spread_terms(expanded, left * inclusion, np.zeros_like(strata))


@dataclass(frozen=True, eq=False, repr=False)
class Systematic(Design):
    """A fixed number of distinct rows at even steps along the sorted order, from one random start.

    Examples:
        >>> Systematic().draw(np.array([0.5, 0.5, 0.5, 0.5]), np.random.default_rng(1))[0].size
        2
    """

    variance_note: ClassVar[str] = NEIGHBORS

    def inclusion(self, sizes: Floats, count: int) -> Floats:
        """Return π = min(1, c·size) with Σ π = count."""
        return fixed_size_inclusion(sizes, count)

    def draw(self, inclusion: Floats, uniforms: Uniforms) -> tuple[Ints, Ints]:
        """Take the certain rows and one row at each step."""
        certain, cumulative = _split(inclusion)
        steps = uniforms.random(1)[0] + np.arange(round(cumulative[-1]))
        return _merge(certain, _hit(cumulative, steps))

    def moments(self, sample: PhaseSample) -> Moments:
        """Return those of a sorted draw."""
        return by_neighbors(sample)

    def expected_terms(self, expanded: Floats, inclusion: Floats, left: Floats, strata: Ints) -> Floats:
        """Return the squared differences from the neighbors' mean."""
        return spread_terms(expanded, left * inclusion * (1 - inclusion), strata)


@dataclass(frozen=True, eq=False, repr=False)
class Pivotal(Design):
    """A fixed number of distinct rows by duels between neighbors in the sorted order (ordered pivotal method).

    As with `Systematic`, neighbors are rarely selected together, but the draw is random enough for a valid variance
    estimate. There is one duel per unit step of Σ π instead of one per row: within a step the survivor is a row drawn
    ∝ π, and the row that crosses the end of the step duels with it (Deville and Tillé 1998; Chauvet 2012 shows that the
    two are equivalent).

    Examples:
        >>> Pivotal().draw(np.array([0.5, 0.5, 0.5, 0.5]), np.random.default_rng(1))[0].size
        2
    """

    variance_note: ClassVar[str] = NEIGHBORS

    def inclusion(self, sizes: Floats, count: int) -> Floats:
        """Return π = min(1, c·size) with Σ π = count."""
        return fixed_size_inclusion(sizes, count)

    def draw(self, inclusion: Floats, uniforms: Uniforms) -> tuple[Ints, Ints]:
        """Take the certain rows and the winner of each step."""
        certain, cumulative = _split(inclusion)
        count = round(cumulative[-1])
        if count == 0:
            return _merge(certain, certain[:0])
        numbers = uniforms.random(2 * count)
        return _merge(certain, _duel(cumulative, count, numbers[:count], numbers[count:]))

    def moments(self, sample: PhaseSample) -> Moments:
        """Return those of a sorted draw."""
        return by_neighbors(sample)

    def expected_terms(self, expanded: Floats, inclusion: Floats, left: Floats, strata: Ints) -> Floats:
        """Return the squared differences from the neighbors' mean."""
        return spread_terms(expanded, left * inclusion * (1 - inclusion), strata)


@dataclass(frozen=True, eq=False, repr=False)
class Poisson(Design):
    """Every row is included independently: distinct rows, a random number of them, `count` on average.

    Examples:
        >>> Poisson().inclusion(np.array([1.0, 1.0]), 1)
        array([0.5, 0.5])
    """

    fixed_size: ClassVar[bool] = False
    variance_note: ClassVar[str] = "Poisson variance"

    def inclusion(self, sizes: Floats, count: int) -> Floats:
        """Return π = min(1, c·size) with Σ π = count."""
        return fixed_size_inclusion(sizes, count)

    def draw(self, inclusion: Floats, uniforms: Uniforms) -> tuple[Ints, Ints]:
        """Include each row with its own probability, independently."""
        drawn = _where(inclusion.size, lambda rows: uniforms.random(rows.stop - rows.start) < inclusion[rows])
        return drawn, np.ones(drawn.size, np.int64)

    def moments(self, sample: PhaseSample) -> Moments:
        """Return the moments of rows that are included independently."""
        return independent_rows(sample)


def _split(inclusion: Floats) -> tuple[Ints, Floats]:
    """Return certain positions, and the cumulative π of all others (ends in an integer)."""
    n = inclusion.size
    certain = _where(n, lambda rows: inclusion[rows] >= CERTAIN)
    cumulative = running_sum(Column(n, lambda rows: np.where(inclusion[rows] < CERTAIN, inclusion[rows], 0.0)))
    if not n or cumulative[-1] == 0:
        return certain, np.zeros(1)
    cumulative *= round(cumulative[-1]) / cumulative[-1]
    return certain, cumulative


def _where(n: int, test: Callable[[slice], Bools]) -> Ints:
    """Return the positions of which the test is true."""
    return np.concatenate([np.zeros(0, np.int64), *(rows.start + np.flatnonzero(test(rows)) for rows in spans(n))])


def _hit(cumulative: Floats, positions: Floats) -> Ints:
    """Return the place where the cumulative sum passes each position; a place of size 0 is never hit."""
    last = np.searchsorted(cumulative, cumulative[-1], side="left")
    return np.asarray(np.minimum(np.searchsorted(cumulative, positions, side="right"), last))


def _merge(certain: Ints, drawn: Ints) -> tuple[Ints, Ints]:
    positions = np.sort(np.concatenate([certain, drawn]))
    return positions, np.ones(positions.size, np.int64)


def _duel(cumulative: Floats, count: int, position_uniforms: Floats, duel_uniforms: Floats) -> Ints:
    """Return the winner of each of `count` unit steps of the cumulative inclusion."""
    borders = np.arange(1, count)
    crossing = np.searchsorted(cumulative, borders, side="left")
    before = np.where(crossing > 0, cumulative[crossing - 1], 0.0)
    crossing_inclusion = cumulative[crossing] - before
    # Within step i, the survivor of the last border has the first `carried`, and rows up to `filled` share the rest.
    carried = np.concatenate([[0.0], cumulative[crossing] - borders])
    filled = np.concatenate([before - (borders - 1), [1.0]])
    position = position_uniforms * filled
    inside = _hit(cumulative, np.arange(count) + position)
    keeps_survivor = position < carried
    survivor_wins = duel_uniforms[:-1] * (2 - filled[:-1] - crossing_inclusion) < 1 - crossing_inclusion
    winners = np.empty(count, np.int64)
    survivor = -1
    for step in range(count):
        contender = survivor if keeps_survivor[step] else int(inside[step])
        if step == count - 1:
            winners[step] = contender
        elif survivor_wins[step]:
            winners[step], survivor = contender, int(crossing[step])
        else:
            winners[step], survivor = int(crossing[step]), contender
    return winners
