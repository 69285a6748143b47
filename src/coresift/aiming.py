"""How a selection that grows draws: new rows make up for what a new selection of the larger size would have.

If every draw had its own budget alone, four draws of 500 rows would never make a row certain that one draw of 2,000
makes certain, and such rows may have most of the total. So a growth step aims at both together. With sizes q from all
answers so far, a selection of the old size would have included a row with probability p = min(1, b·q), and one of the
new size with u = min(1, c·q). A row that no phase has drawn yet is drawn with probability

    π = max((u − p)/(1 − p), FLOOR·u),

so that it is in the selection with probability u if it was there with probability p before. The real probabilities of
earlier phases came from fewer answers, so a floor keeps π near u where p was too optimistic.

Both probabilities also say how an estimate should divide a row's total between the earlier phases and the new one: by
the balance heuristic of `coresift.shares`, p·(1 − π)/(p + π − p·π). As there, the division used is the geometric mean
of that and the fixed one, which planned sizes decide. Rows that the new phase draws for certain are estimated by it
alone.

What is fixed when: b, c and π depend only on planned sizes and on answers of earlier phases, so they are fixed before
the new draw, and weights stay exactly unbiased. An estimate's division depends on those answers, too, but for a row
drawn earlier it is made without the row's own answer; `benchmarks.growing` measures what bias is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from coresift.columns import Column, Values, largest, stored, total
from coresift.inclusion import fixed_size_inclusion
from coresift.shares import balanced_share
from coresift.types import Design, Floats

# π is at least this part of u. Chosen among .1 to .5 by widths on tuning problems and on tables of no benchmark.
FLOOR = 0.3
# The factor from sizes to probabilities if all rows are certain; it is finite, so that a size of 0 stays 0.
MOST = 1e30
# How precisely the factor c is found, relative to itself; the design then corrects the sum exactly.
PRECISION = 1e-6


@dataclass(frozen=True)
class Aim:
    """The factors from sizes to probabilities: b for the old size, c for the new one, and the design's correction.

    Examples:
        >>> aim = Aim(before=0.5, after=1.0)
        >>> aim.inclusion(np.array([0.2, 0.8, 3.0])).round(3).tolist()
        [0.111, 0.667, 1.0]
        >>> aim.kept(np.array([0.2, 0.8, 3.0]), fixed=0.4).round(3).tolist()
        [0.422, 0.267, 0.0]
    """

    before: float
    after: float
    correction: float = 1.0

    @classmethod
    def at(cls, everywhere: Floats, undrawn: Floats, planned: int, added: int) -> Aim:
        """Return the aim of a growth step.

        Args:
            everywhere: The sizes of all rows that can be or could have been drawn, and 0 for all others.
            undrawn: The sizes of the rows that are left.
            planned: How many rows the selection was planned to draw so far.
            added: How many rows the new phase draws.
        """
        before = _factor(everywhere, fixed_size_inclusion(everywhere, planned))
        return cls(before, _solve(before, undrawn, added))

    def inclusion(self, sizes: Floats) -> Floats:
        """Return π of rows that were not drawn before."""
        earlier, target = np.minimum(self.before * sizes, 1.0), np.minimum(self.after * sizes, 1.0)
        missing = (target - earlier) / np.maximum(1 - earlier, 1e-12)
        chance: Floats = np.where(target < 1, np.maximum(missing, FLOOR * target), 1.0)
        return np.minimum(self.correction * chance, 1.0)

    def kept(self, sizes: Floats, fixed: float) -> Floats:
        """Return the part of each row's total that an estimate leaves to earlier phases; `fixed` is that of weights."""
        balanced = balanced_share(np.minimum(self.before * sizes, 1.0), self.inclusion(sizes))
        earlier, new = np.sqrt(fixed * balanced), np.sqrt((1 - fixed) * (1 - balanced))
        part: Floats = earlier / (earlier + new)
        return part

    def drawn_by(self, design: Design, sizes: Floats, count: int) -> tuple[Aim, Floats]:
        """Return the design's inclusion probabilities, which sum to `count`, and the aim corrected by it."""
        chances = stored(sizes.size, lambda rows: self.inclusion(sizes[rows]))
        inclusion = design.inclusion(chances, count)
        return replace(self, correction=_factor(chances, inclusion)), inclusion


def _factor(sizes: Values, inclusion: Values) -> float:
    """Return the factor from sizes to inclusion probabilities: the same for all rows that are not certain."""

    def ratio(rows: slice) -> Floats:
        uncertain = (inclusion[rows] < 1) & (sizes[rows] > 0)
        ratios: Floats = np.divide(inclusion[rows], sizes[rows], out=np.zeros(uncertain.size), where=uncertain)
        return ratios

    return largest(Column(len(sizes), ratio)) or MOST


def _solve(before: float, undrawn: Floats, added: int) -> float:
    """Return the largest c, up to `PRECISION`, with which at most `added` rows are drawn on average."""

    def expected(after: float) -> float:
        aim = Aim(before, after)
        return float(total(Column(undrawn.size, lambda rows: aim.inclusion(undrawn[rows]))))

    low = high = before
    while expected(low) > added:
        low /= 2
    while expected(high) <= added and high < MOST:
        high *= 2
    while high > (1 + PRECISION) * low:
        middle = float(np.sqrt(low) * np.sqrt(high))
        low, high = (low, middle) if expected(middle) > added else (middle, high)
    return low
