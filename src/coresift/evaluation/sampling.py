"""Rows drawn in phases without replacement, each phase from the rows that are left.

Phase k draws a row that is left with probability πₖ, so all phases together draw it with probability
D = 1 − Πₖ(1 − πₖ), and its weight is 1/D, as in a single draw. No other combination of the phases has a smaller
variance (this is the balance heuristic of Veach and Guibas 1995): a row that one phase draws rarely has no large
weight if another phase would draw it often. For this, πₖ must be known even for rows that an earlier phase drew: it is
what it would be if the row had not been drawn. Later phases depend on earlier answers, and a row's own answer is one of
many that determine its πₖ. This adds a bias of a small part of the standard error, as regressions do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from coresift.inclusion import CERTAIN, fixed_size_inclusion
from coresift.recipes import SPREAD_DRAW
from coresift.types import Bools, Floats, Ints, Value

# Strata with fewer answers than this are merged where answers stand for missing ones.
FEWEST_ANSWERS = 5


@dataclass(frozen=True, eq=False)
class Sample(Value):
    """The rows drawn so far.

    Attributes:
        ids: Their numbers, phase by phase.
        phase: The phase that drew each, from 1.
        inclusion: The probability with which each phase draws it if no earlier phase did, one line per phase.
        strata: The stratum of each.
        sizes: How many rows each stratum has.
        counts: How many rows each phase drew from each stratum, one line per phase.
        response: For each, the weighted share of drawn rows like it that have an answer, or one number for all; rows
            without an answer are left out of the arrays.
        surplus: By how much the probabilities of all rows of a stratum, D, sum to more than its number of drawn rows,
            relative to that number; one line per phase. It is not 0 because later probabilities depend on which rows
            earlier phases drew.
        places: The place of each among the rows that its phase drew, stratum by stratum, in the order that the draw was
            spread over; empty if it is not known.
    """

    ids: Ints
    phase: Ints
    inclusion: Floats
    strata: Ints
    sizes: Ints
    counts: Ints
    response: Floats = field(default_factory=lambda: np.ones(1))
    surplus: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    places: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def empty(cls, sizes: Ints) -> Sample:
        """Return a sample of no rows from strata of these sizes."""
        none = np.zeros(0, np.int64)
        counts = np.zeros((0, sizes.size), np.int64)
        return cls(none, none, np.zeros((0, 0)), none, sizes, counts, surplus=np.zeros((0, sizes.size)))

    def __len__(self) -> int:
        return self.ids.size

    @property
    def population(self) -> int:
        """The number of rows."""
        return int(self.sizes.sum())

    @property
    def complete(self) -> bool:
        """Whether all rows were drawn."""
        return len(self) >= self.population

    @cached_property
    def chances(self) -> Floats:
        """The probability that a row is drawn in one of the phases and has an answer."""
        chances: Floats = (1 - np.prod(1 - self.inclusion, axis=0)) * self.response
        return chances

    @cached_property
    def weights(self) -> Floats:
        """The number of rows that each row stands for."""
        return 1 / self.chances

    @cached_property
    def neighbors(self) -> tuple[Ints, Ints]:
        """The rows that were drawn next to each other in the order of a draw: the first and the second of each pair.

        Rows with a missing answer between them are no neighbors. So if half of the rows have an answer, about half of
        the pairs remain. That is right, because how many answers a stretch of the order has is then partly chance.
        """
        if self.places.size < len(self):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        order = np.lexsort((self.places, self.phase))
        first, second = order[:-1], order[1:]
        together = (self.phase[first] == self.phase[second]) & (self.strata[first] == self.strata[second])
        together &= self.places[second] == self.places[first] + 1
        return first[together], second[together]

    @property
    def asked(self) -> int:
        """The number of rows drawn, also of those without an answer."""
        return int(self.counts.sum())

    def answered(self, answered: Bools) -> Sample:
        """Return the rows with an answer, which stand for those of their stratum without; small strata are merged."""
        if answered.all():
            return self
        few = np.bincount(self.strata[answered], minlength=self.sizes.size) < FEWEST_ANSWERS
        cells = np.where(few, self.sizes.size, np.arange(self.sizes.size))[self.strata]
        every = np.bincount(cells, self.weights, self.sizes.size + 1)
        there = np.bincount(cells[answered], self.weights[answered], self.sizes.size + 1)
        # If nobody in a cell has an answer, those in the others stand for it.
        represented = float(every[there > 0].sum() / every.sum())
        response = represented * (there / np.where(every > 0, every, 1.0))[cells[answered]]
        parts = (self.ids[answered], self.phase[answered], self.inclusion[:, answered], self.strata[answered])
        return Sample(*parts, self.sizes, self.counts, response, self.surplus, self._places_of(answered))

    def within(self, stratum: int) -> Sample:
        """Return the rows of one stratum."""
        own = self.strata == stratum
        parts = (self.ids[own], self.phase[own], self.inclusion[:, own], np.zeros(np.count_nonzero(own), np.int64))
        column = slice(stratum, stratum + 1)
        response = self.response[own] if self.response.size == len(self) else self.response
        surplus, places = self.surplus[:, column], self._places_of(own)
        return Sample(*parts, self.sizes[column], self.counts[:, column], response, surplus, places)

    def until(self, phase: int) -> Sample:
        """Return the sample as it was after a phase."""
        own = self.phase <= phase
        parts = (self.ids[own], self.phase[own], self.inclusion[:phase, own], self.strata[own])
        every = np.ones(1)
        return Sample(*parts, self.sizes, self.counts[:phase], every, self.surplus[:phase], self._places_of(own))

    def _places_of(self, chosen: Bools) -> Ints:
        return self.places[chosen] if self.places.size else self.places

    def grown(
        self,
        ids: Ints,
        strata: Ints,
        inclusion: Floats,
        all_strata: Ints | None = None,
        places: Ints | None = None,
    ) -> Sample:
        """Return the sample with one more phase.

        Args:
            ids: The rows that it drew.
            strata: Their strata.
            inclusion: One line for each phase and one column for every row.
            all_strata: The stratum of every row, if there are several.
            places: Their places in the order of the draw; by default, `ids` are in this order.
        """
        number = len(self.counts) + 1
        counts = np.bincount(strata, minlength=self.sizes.size)[None]
        every = np.concatenate([self.ids, ids])
        all_strata = np.zeros(inclusion.shape[1], np.int64) if all_strata is None else all_strata
        expected = np.bincount(all_strata, 1 - np.prod(1 - inclusion, axis=0), self.sizes.size)
        drawn = self.counts.sum(axis=0) + counts[0]
        surplus = np.divide(expected, drawn, out=np.ones(drawn.size), where=drawn > 0) - 1
        return Sample(
            every,
            np.concatenate([self.phase, np.full(ids.size, number, np.int64)]),
            inclusion[:, every],
            np.concatenate([self.strata, strata]),
            self.sizes,
            np.concatenate([self.counts, counts]),
            surplus=np.concatenate([self.surplus, surplus[None]]),
            places=np.concatenate([self.places, np.arange(ids.size) if places is None else places]),
        )


def draw_phase(
    sizes: Floats, order: Floats, left: Bools, strata: Ints, counts: Ints, rng: np.random.Generator
) -> tuple[Ints, Ints, Floats]:
    """Draw a fixed number of rows from every stratum, in proportion to their sizes.

    Neighbors in the order of what is expected of them compete (ordered pivotal method), so every level of it has its
    due number of rows, as if there were many thin strata. A systematic draw has that, too, but all of it hangs on one
    random start, so its variance depends on the population and may be above the estimate.

    Args:
        sizes: One size per row, above 0, also for rows that were drawn already.
        order: What the rows are sorted by; ties are in random order.
        left: The rows that were not drawn yet.
        strata: The stratum of every row.
        counts: How many rows to draw from each stratum.
        rng: Determines the order of ties, and where the draw starts.

    Returns:
        Row numbers in this order, their strata, and the inclusion probability of every row; that of a row that was
        drawn already is what it would be if it had not been drawn.
    """
    ids, chances = [np.zeros(0, np.int64)], np.zeros(sizes.size)
    for stratum in np.flatnonzero(counts):
        own = strata == stratum
        rows = np.flatnonzero(left & own)
        rows = rows[rng.permutation(rows.size)]
        rows = rows[np.argsort(order[rows], kind="stable")]
        inclusion = fixed_size_inclusion(sizes[rows], int(counts[stratum]))
        drawn, _ = SPREAD_DRAW.draw(inclusion, rng)
        ids.append(rows[drawn])
        chances[rows] = np.where(inclusion >= CERTAIN, 1.0, inclusion)
        earlier = np.flatnonzero(own & ~left)
        chances[earlier] = np.minimum(_factor(inclusion, sizes[rows]) * sizes[earlier], 1.0)
    drawn_ids = np.concatenate(ids)
    return drawn_ids, strata[drawn_ids], chances


def _factor(inclusion: Floats, sizes: Floats) -> float:
    """Return c, if inclusion is min(1, c·size); infinite if all rows are certain."""
    uncertain = np.flatnonzero(inclusion < CERTAIN)
    return float(inclusion[uncertain[0]] / sizes[uncertain[0]]) if uncertain.size else math.inf
