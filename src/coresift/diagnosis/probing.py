"""The rows that a diagnosis asks besides the centers, and their probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coresift.checks import InputError
from coresift.errors import warn
from coresift.recipes import EVEN_DRAW
from coresift.selection import Draft
from coresift.types import Bools, Floats, Ints

# With fewer probes than this, clusters cannot be distinguished from noise.
FEWEST = 20


@dataclass(frozen=True)
class ProbeRows:
    """The probes in the order of the draw.

    Attributes:
        ids: Their row numbers.
        even: Which of them were drawn with equal probability from the rows that the pilot did not take.
        chance: The probability of being a probe, for all n rows.
        centers: The centers, which are always asked; some of them may be rows of the pilot.
    """

    ids: Ints
    even: Bools
    chance: Floats
    centers: Ints

    @property
    def new(self) -> Ints:
        """The probes that are not centers and have to be asked."""
        return self.ids[~np.isin(self.ids, self.centers)]

    def losses(self, of_centers: Floats, of_new: Floats) -> Floats:
        """Return the loss of every probe."""
        known, sort = np.concatenate([self.centers, self.new]), np.concatenate([of_centers, of_new])
        order = np.argsort(known, kind="stable")
        losses: Floats = sort[order][np.searchsorted(known[order], self.ids)]
        return losses


def draw_probes(draft: Draft, count: int, rng: np.random.Generator) -> ProbeRows:
    """Draw `count` rows besides the centers: half of them from the pilot of `select`, the others uniformly.

    The pilot has rows of every cluster, however small. Probes of equal probability would miss the few outlying rows
    that often carry the variance of a uniform sample, and so underestimate the gain. And `select` asks the pilot
    anyway. A pilot that has only centers adds nothing.
    """
    clustering, plan = draft.clustering, draft.pilot.plan
    open_rows = np.ones(clustering.n, np.bool_)
    open_rows[clustering.centers] = False
    open_rows[draft.job.frame.excluded] = False
    order = plan.order[open_rows[plan.order]]
    if order.size < FEWEST:
        raise InputError(
            f"There must be at least {FEWEST} rows besides the {clustering.k} centers to probe; there are {order.size}."
        )
    if count >= order.size:
        warn("The centers and probes are all rows, so every loss is asked; to avoid that, give fewer probes.")
    count = min(count, order.size)
    pilot = draft.pilot.ids if open_rows[draft.pilot.ids].any() else draft.pilot.ids[:0]
    part = min(count // 2, pilot.size) / max(pilot.size, 1)
    drawn, _ = EVEN_DRAW.draw(np.full(pilot.size, part), rng)
    early = pilot[drawn]
    rest = order[~np.isin(order, early)]
    left = (count - np.count_nonzero(open_rows[early])) / rest.size
    drawn, _ = EVEN_DRAW.draw(np.full(rest.size, left), rng)
    later = rest[drawn]
    place = np.empty(clustering.n, np.int64)
    place[plan.order] = np.arange(plan.order.size)
    ids = np.concatenate([early, later])
    sort = np.argsort(place[ids], kind="stable")
    chance = part * plan.inclusion
    chance = chance + (1 - chance) * left * open_rows
    return ProbeRows(ids[sort], sort >= early.size, chance, clustering.centers)
