"""Which rows are asked for their loss first, and which share of every total they carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from coresift.checks import share
from coresift.inclusion import fixed_size_inclusion, spread
from coresift.types import Bools, Clustering, Floats, Frame, Ints, PilotPlan, Singles, Strategy


class PilotStrategy(Protocol):
    """A way to choose the rows that are asked first."""

    def size(self, clusters: int, budget: int) -> int:
        """Return how many rows will be asked."""
        ...

    def plan(self, clustering: Clustering, frame: Frame, budget: int) -> PilotPlan:
        """Plan the first draw from the frame's open rows; `budget` rows are to come out of both draws."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Centers(Strategy):
    """Ask the centers, as the paper does.

    With keep=False only the draws come out (Algorithm 1); with keep=True the centers come out too, with weight
    1, and the draw is among the other rows. An excluded center is replaced by the nearest row of its cluster
    that may come out.
    """

    keep: bool = False

    def size(self, clusters: int, budget: int) -> int:
        """Return the number of centers."""
        return clusters

    def plan(self, clustering: Clustering, frame: Frame, budget: int) -> PilotPlan:
        """Take every cluster's center with certainty."""
        inclusion = np.zeros(frame.n)
        inclusion[_stand_ins(clustering, frame)] = 1.0
        return PilotPlan(inclusion, share=np.zeros(frame.n), key=np.zeros(frame.n), keep=self.keep, origin="center")


@dataclass(frozen=True, eq=False, repr=False)
class Representatives(Strategy):
    """Ask a spread-out random part of the budget, and keep it (our default).

    `part` of the budget is drawn with π₁ ∝ (1 − balance)/n + balance/(k·cluster size), along a tour through the
    clusters. Row e's share α(e) = π₁(1−π)/(π₁(1−π) + π₀) with π = π₁ + π₀ compares that with the π₀ that the
    rest of the budget would give it from distances alone. For equal probabilities this is the split of least
    variance, whatever part of all rows the budget is.
    """

    part: float = 0.3
    balance: float = 0.3

    def __post_init__(self) -> None:
        share("part", self.part)
        share("balance", self.balance, ends=True)

    def size(self, clusters: int, budget: int) -> int:
        """Return the first part of the budget."""
        return round(self.part * budget)

    def plan(self, clustering: Clustering, frame: Frame, budget: int) -> PilotPlan:
        """Spread the first part of the budget over the open rows."""
        open_rows = frame.open()
        first = self.size(clustering.k, budget)
        now = fixed_size_inclusion(self._sizes(clustering, open_rows), first)
        later = fixed_size_inclusion(spread(clustering.powers, open_rows, floor=0.5), budget - first)
        key = tour(clustering.free_centers)[clustering.labels]
        return PilotPlan(now, share=_share(now, later), key=key, keep=True, origin="pilot")

    def _sizes(self, clustering: Clustering, open_rows: Bools) -> Floats:
        members = np.bincount(clustering.labels[open_rows], minlength=clustering.k)
        occupied = max(np.count_nonzero(members), 1)
        sizes = (1 - self.balance) / max(members.sum(), 1) + self.balance / (occupied * np.maximum(members, 1))
        return np.where(open_rows, sizes[clustering.labels], 0.0)


def nobody(frame: Frame) -> PilotPlan:
    """Return the plan that asks nobody."""
    nothing = np.zeros(frame.n)
    return PilotPlan(nothing, share=nothing, key=nothing, keep=False, origin="pilot")


def tour(points: Singles) -> Floats:
    """Return each point's place on a walk that always goes to the nearest point not yet seen."""
    centered = points - points.mean(axis=0)
    norms = np.einsum("ij,ij->i", centered, centered)
    place = np.empty(len(points))
    unseen = np.ones(len(points), np.bool_)
    here = 0
    for step in range(len(points)):
        place[here] = step
        unseen[here] = False
        away = norms - 2 * (centered @ centered[here])
        here = int(np.where(unseen, away, np.inf).argmin())
    return place


def _share(now: Floats, later: Floats) -> Floats:
    chance = now * (1 - np.minimum(now + later, 1.0))
    # Where nothing comes later, the first draw carries the row alone.
    return np.where(later > 0, chance / np.where(later > 0, chance + later, 1.0), 1.0)


def _stand_ins(clustering: Clustering, frame: Frame) -> Ints:
    centers = clustering.centers
    lost = np.flatnonzero(np.isin(centers, frame.excluded))
    if not lost.size:
        return centers
    candidates = np.setdiff1d(np.flatnonzero(np.isin(clustering.labels, lost)), frame.excluded)
    candidates = candidates[np.lexsort((clustering.distances[candidates], clustering.labels[candidates]))]
    _, first = np.unique(clustering.labels[candidates], return_index=True)
    return np.concatenate([np.delete(centers, lost), candidates[first]])
