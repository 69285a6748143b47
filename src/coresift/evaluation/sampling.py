"""Rows drawn in phases without replacement, each phase from the rows that are left, with weights that stay unbiased.

The law of weights is that of `coresift.phases`, applied to every stratum. A phase's share of the total is in proportion
to its precision, as far as that follows from the planned numbers of rows: if a phase draws m of the r rows that are
left with equal probabilities, its total has a variance ∝ r(r − m)/m. With equal probabilities in every phase, this is
as good as a single draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from coresift.inclusion import CERTAIN, fixed_size_inclusion
from coresift.phases import phase_weights
from coresift.recipes import EVEN_DRAW
from coresift.types import Bools, Floats, Ints, Value


@dataclass(frozen=True, eq=False)
class Sample(Value):
    """The rows drawn so far.

    Attributes:
        ids: Their numbers, phase by phase.
        phase: The phase that drew each, from 1.
        inclusion: The probability with which it was drawn, given the earlier phases.
        strata: The stratum of each.
        sizes: How many rows each stratum has.
        counts: How many rows each phase drew from each stratum, one line per phase.
        response: The weighted share of the drawn rows that have an answer; the others are left out of the arrays.
    """

    ids: Ints
    phase: Ints
    inclusion: Floats
    strata: Ints
    sizes: Ints
    counts: Ints
    response: float = 1.0

    @classmethod
    def empty(cls, sizes: Ints) -> Sample:
        """Return a sample of no rows from strata of these sizes."""
        none = np.zeros(0, np.int64)
        return cls(none, none, np.zeros(0), none, sizes, np.zeros((0, sizes.size), np.int64))

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
    def shares(self) -> Floats:
        """Each phase's share of a stratum's total, one line per phase."""
        return shares(self.counts, self.sizes)

    @cached_property
    def own_shares(self) -> Floats:
        """The share of the phase that drew it, for each row."""
        own: Floats = self.shares[self.phase - 1, self.strata]
        return own

    @cached_property
    def weights(self) -> Floats:
        """The number of rows that each row stands for."""
        if not len(self):
            return np.zeros(0)
        return phase_weights(self.phase, self.inclusion, self.shares.T[self.strata]) / self.response

    @property
    def chances(self) -> Floats:
        """The probability that a row was drawn in its phase and has an answer."""
        return self.inclusion * self.response

    def answered(self, answered: Bools) -> Sample:
        """Return the rows with an answer, which stand for those without."""
        if answered.all():
            return self
        response = float(self.weights[answered].sum() / self.weights.sum())
        parts = (self.ids[answered], self.phase[answered], self.inclusion[answered], self.strata[answered])
        return Sample(*parts, self.sizes, self.counts, response)

    def within(self, stratum: int) -> Sample:
        """Return the rows of one stratum."""
        own = self.strata == stratum
        parts = (self.ids[own], self.phase[own], self.inclusion[own], np.zeros(np.count_nonzero(own), np.int64))
        column = slice(stratum, stratum + 1)
        return Sample(*parts, self.sizes[column], self.counts[:, column], self.response)

    def grown(self, ids: Ints, inclusion: Floats, strata: Ints) -> Sample:
        """Return the sample with one more phase."""
        number = len(self.counts) + 1
        counts = np.bincount(strata, minlength=self.sizes.size)[None]
        return Sample(
            np.concatenate([self.ids, ids]),
            np.concatenate([self.phase, np.full(ids.size, number, np.int64)]),
            np.concatenate([self.inclusion, inclusion]),
            np.concatenate([self.strata, strata]),
            self.sizes,
            np.concatenate([self.counts, counts]),
        )


def shares(counts: Ints, sizes: Ints) -> Floats:
    """Return each phase's share of every stratum's total, from the numbers of rows alone.

    Examples:
        >>> shares(np.array([[20], [20]]), np.array([100])).ravel().round(3).tolist()
        [0.375, 0.625]
        >>> shares(np.array([[20], [80]]), np.array([100])).ravel().tolist()
        [0.0, 1.0]
    """
    left = sizes - np.concatenate([np.zeros_like(counts[:1]), np.cumsum(counts, axis=0)[:-1]])
    after = left - counts
    # A phase that draws all remaining rows knows the total, so its share is 1.
    whole = (after == 0) & (counts > 0)
    precision = np.where(after > 0, counts / np.maximum(left * after, 1), 0.0)
    precision = np.where(whole.any(axis=0), whole, precision)
    total = precision.sum(axis=0)
    # Strata without drawn rows have no weights, so any shares will do.
    first = np.zeros_like(precision)
    first[:1] = 1.0
    return np.where(total > 0, precision / np.where(total > 0, total, 1.0), first)


def draw_phase(
    sizes: Floats, order: Floats, left: Bools, strata: Ints, counts: Ints, rng: np.random.Generator
) -> tuple[Ints, Floats, Ints]:
    """Draw a fixed number of rows from every stratum, in proportion to their sizes.

    Rows are drawn systematically in the order of what is expected of them, so every level of it has its due number of
    rows, as if there were many thin strata. The variance is estimated as if they were in random order, which is at most
    a little too large.

    Args:
        sizes: One size per row, above 0 where `left`.
        order: What the rows are sorted by; ties are in random order.
        left: The rows that were not drawn yet.
        strata: The stratum of every row.
        counts: How many rows to draw from each stratum.
        rng: Determines the order of ties, and where the draw starts.

    Returns:
        Row numbers, their inclusion probabilities, and their strata.
    """
    ids, chances = [], []
    for stratum in np.flatnonzero(counts):
        rows = np.flatnonzero(left & (strata == stratum))
        rows = rows[rng.permutation(rows.size)]
        rows = rows[np.argsort(order[rows], kind="stable")]
        inclusion = fixed_size_inclusion(sizes[rows], int(counts[stratum]))
        drawn, _ = EVEN_DRAW.draw(inclusion, rng)
        ids.append(rows[drawn])
        chances.append(np.where(inclusion[drawn] >= CERTAIN, 1.0, inclusion[drawn]))
    drawn_ids = np.concatenate(ids) if ids else np.zeros(0, np.int64)
    return drawn_ids, np.concatenate(chances) if chances else np.zeros(0), strata[drawn_ids]
