"""Pilots: which rows' losses to ask for first, and which share of every total those rows estimate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from coresift.checks import refuse, share
from coresift.columns import add_up, stored
from coresift.inclusion import FLAT, deal, fixed_size_inclusion, spread
from coresift.order import snake
from coresift.scratch import copied
from coresift.signal_pilot import InformedRepresentatives
from coresift.types import Clustering, Floats, Frame, Ints, Moments, PhaseSample, Pilot, PilotPlan
from coresift.variance import within_clusters

__all__ = ["Centers", "Informed", "Pilot", "Representatives"]


@dataclass(frozen=True, eq=False, repr=False)
class Centers(Pilot):
    """Ask for the losses of the centers, as the paper does.

    An excluded center is replaced by the nearest row of its cluster that is not excluded.

    Args:
        keep: If False, only drawn rows are selected (Algorithm 1). If True, the centers are selected too, with weight
            1, and the rest are drawn from the other rows.

    Examples:
        >>> Centers(keep=True)
        Centers(keep=True)
    """

    keep: bool = False
    asks_centers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.keep, bool):
            refuse("keep", "True or False", repr(self.keep))

    def size(self, clusters: int, budget: int) -> int:
        """Return the number of centers."""
        return clusters

    def plan(self, clustering: Clustering, frame: Frame, budget: int) -> PilotPlan:
        """Plan to ask every cluster's center with certainty."""
        plan = PilotPlan.of_none(frame.n)
        inclusion = copied(plan.inclusion, np.float64)
        inclusion[_stand_ins(clustering, frame)] = 1.0
        return replace(plan, inclusion=inclusion, keep=self.keep, origin="center")

    def moments(self, sample: PhaseSample) -> Moments:
        """Return zero moments, since the centers are certain."""
        return Moments()


@dataclass(frozen=True, eq=False, repr=False)
class Representatives(Pilot):
    """Ask for the losses of a random, spread-out share of the budget, and keep those rows (the default).

    A share `part` of the budget, and at least one row per cluster, is allocated to the clusters in proportion to
    (1 − balance)·size/n + balance/k, by largest-remainder rounding, so that small clusters are sampled too; within a
    cluster all rows have the same π₁. A row's share is α = π₁(1−π)/(π₁(1−π) + π₀·b²) with π = π₁ + π₀: π₀ is the
    inclusion that the rest of the budget would give it from distances alone, and b ≥ 1 is how many times smaller than
    average its cluster is. For equal probabilities this split minimizes the variance; b keeps the few pilot rows of a
    small cluster from estimating it alone, since the second draw can sample it heavily once their losses are known.

    Args:
        part: The share of the budget to ask first.
        balance: How evenly the pilot is spread over the clusters: 0 is in proportion to size, 1 is equal numbers.

    Examples:
        >>> Representatives().size(clusters=50, budget=500)
        100
    """

    part: float = 0.2
    balance: float = 0.4
    variance_note: ClassVar[str] = "variance inside the clusters for the pilot"

    def __post_init__(self) -> None:
        share("part", self.part)
        share("balance", self.balance, ends=True)

    def size(self, clusters: int, budget: int) -> int:
        """Return the pilot's size: its share of the budget, but at least one row per cluster, up to half the budget."""
        return max(round(self.part * budget), min(clusters, budget // 2))

    def plan(self, clustering: Clustering, frame: Frame, budget: int) -> PilotPlan:
        """Allocate the pilot's rows to clusters."""
        open_rows, labels, n, k = frame.open(), clustering.labels, frame.n, clustering.k
        members = add_up(n, lambda rows: np.bincount(labels[rows][open_rows[rows]], minlength=k))
        occupied = int(np.count_nonzero(members))
        first = min(self.size(occupied, budget), int(members.sum()))
        rates = deal(self._quotas(members, first), members, first) / np.maximum(members, 1)
        inclusion = stored(n, lambda rows: np.where(open_rows[rows], rates[labels[rows]], 0.0))
        others = fixed_size_inclusion(spread(clustering.power_column, open_rows, FLAT), budget - first)
        times_smaller = np.maximum(1.0, members.sum() / (max(occupied, 1) * np.maximum(members, 1)))

        def pilot_share(rows: slice) -> Floats:
            now, later, smaller = inclusion[rows], others[rows], times_smaller[labels[rows]]
            chance = now * (1 - np.minimum(now + later, 1.0))
            # A row that the second draw cannot reach is estimated by the pilot alone.
            return np.where(later > 0, chance / np.where(later > 0, chance + later * smaller**2, 1.0), 1.0)

        return PilotPlan(inclusion, stored(n, pilot_share), snake(clustering), keep=True, origin="pilot", tour=True)

    def moments(self, sample: PhaseSample) -> Moments:
        """Return the moments of a stratified draw."""
        return within_clusters(sample)

    def _quotas(self, members: Ints, first: int) -> Floats:
        occupied = members > 0
        equal_shares = occupied / max(int(np.count_nonzero(occupied)), 1)
        quotas: Floats = first * (
            (1 - self.balance) * members / max(int(members.sum()), 1) + self.balance * equal_shares
        )
        return quotas


@dataclass(frozen=True, eq=False, repr=False)
class Informed(Representatives):
    """`Representatives` that favor rows with large signals (the default with `signals`).

    A share `trust` of each cluster's allocation, and of π₁ within the cluster, is proportional to the mean signal.

    Attributes:
        part: The share of the budget to ask first; at least one row per cluster.
        balance: How evenly the pilot is spread over the clusters: 0 is in proportion to size, 1 is equal numbers.
        trust: How much the signals count, from 0 to 1. No answer has confirmed them yet, so no row drops to 0.
    """

    trust: float = 0.35
    variance_note: ClassVar[str] = "variance from neighbors for the pilot"

    def __post_init__(self) -> None:
        super().__post_init__()
        share("trust", self.trust, ends=True)

    def plan(self, clustering: Clustering, frame: Frame, budget: int) -> PilotPlan:
        """Allocate the pilot's rows to clusters, favoring large signals."""
        pilot = InformedRepresentatives(frame.signals, self.part, self.balance, self.trust)
        return pilot.plan(clustering, frame, budget)


def _stand_ins(clustering: Clustering, frame: Frame) -> Ints:
    """Return the centers; the nearest allowed row of its cluster replaces an excluded one."""
    centers = clustering.centers
    excluded_centers = np.flatnonzero(np.isin(centers, frame.excluded))
    if not excluded_centers.size:
        return centers
    candidates = np.setdiff1d(np.flatnonzero(np.isin(clustering.labels, excluded_centers)), frame.excluded)
    candidates = candidates[np.lexsort((clustering.distances[candidates], clustering.labels[candidates]))]
    _, first = np.unique(clustering.labels[candidates], return_index=True)
    return np.concatenate([np.delete(centers, excluded_centers), candidates[first]])
