"""A pilot that knows signals: representatives of every cluster, oftener where signals are large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from coresift.checks import share
from coresift.inclusion import FLAT, deal, fixed_size_inclusion, spread
from coresift.order import serpentine
from coresift.signal_table import signal_table
from coresift.types import Bools, Clustering, Floats, Frame, Ints, PilotPlan, SignalTable, Strategy


@dataclass(frozen=True, eq=False, repr=False)
class InformedRepresentatives(Strategy):
    """Ask a spread-out random part of the budget, and keep it; like `Representatives`, with signals.

    Of the wishes for each cluster, and of π₁ inside it, `trust` goes by the mean of the signals (each with mean 1), and
    rows stand in the order of that mean inside their cluster. Nothing has confirmed the signals yet: with a
    third of the wishes misleading ones cost little, since every row keeps the other two thirds, and good ones keep the
    pilot's part of the error small. With trust=0 or without signals that can be sizes, this is `Representatives` with
    another order.

    Args:
        signals: Whatever is known for every row, as `signal_table` takes it; or None.
        part: The part of the budget to ask; at least one row per cluster.
        balance: How far the clusters are heard equally instead of by their sizes, from 0 to 1.
        trust: How far the signals count, from 0 to 1.
    """

    signals: Any = None
    part: float = 0.2
    balance: float = 0.4
    trust: float = 0.35

    def __post_init__(self) -> None:
        share("part", self.part)
        share("balance", self.balance, ends=True)
        share("trust", self.trust, ends=True)
        if self.signals is not None and not isinstance(self.signals, SignalTable):
            first = next(iter(self.signals.values())) if hasattr(self.signals, "values") else self.signals
            object.__setattr__(self, "signals", signal_table(self.signals, len(first)))

    def size(self, clusters: int, budget: int) -> int:
        """Return the first part of the budget, one row per cluster if half of the budget allows it."""
        return max(round(self.part * budget), min(clusters, budget // 2))

    def plan(self, clustering: Clustering, frame: Frame, budget: int) -> PilotPlan:
        """Deal the first part of the budget out over the open rows."""
        open_rows, labels = frame.open(), clustering.labels.astype(np.int64)
        expected = mean_signal(signal_table(self.signals, clustering.n), open_rows)
        # Signals that say the same of all rows say nothing.
        trust = self.trust if np.ptp(expected[open_rows]) > 0 else 0.0
        members = np.bincount(labels[open_rows], minlength=clustering.k)
        occupied = int(np.count_nonzero(members))
        first = min(self.size(occupied, budget), int(members.sum()))
        of_clusters: Floats = np.bincount(labels, expected, clustering.k).astype(np.float64)
        dealt = deal(self._wishes(members, first, of_clusters, trust), members, first)
        now = within_clusters(dealt, labels, (1 - trust) * open_rows + trust * expected)
        sizes = (1 - trust) * spread(clustering.powers, open_rows, FLAT) + trust * expected / expected.sum()
        later = fixed_size_inclusion(sizes, budget - first)
        smaller = np.maximum(1.0, members.sum() / (max(occupied, 1) * np.maximum(members, 1)))[labels]
        chance = now * (1 - np.minimum(now + later, 1.0))
        # Where nothing comes later, the first draw carries the row alone.
        carried = np.where(later > 0, chance / np.where(later > 0, chance + later * smaller**2, 1.0), 1.0)
        return PilotPlan(now, carried, serpentine(clustering, expected), keep=True, origin="pilot")

    def _wishes(self, members: Ints, first: int, expected: Floats, trust: float) -> Floats:
        occupied = members > 0
        even = occupied / max(int(np.count_nonzero(occupied)), 1)
        by_size = (1 - self.balance) * members / max(int(members.sum()), 1) + self.balance * even
        by_signal = expected / max(float(expected.sum()), 1e-300)
        wishes: Floats = first * ((1 - trust) * by_size + trust * by_signal)
        return wishes


def mean_signal(table: SignalTable, open_rows: Bools) -> Floats:
    """Return the mean of the signals that can be sizes, each with mean 1 over the open rows; 1 if there are none.

    Rows that are not open have 0.
    """
    columns = table.columns[:, table.sizes]
    means = open_rows @ columns / max(int(np.count_nonzero(open_rows)), 1)
    columns, means = columns[:, means > 0], means[means > 0]
    if not means.size:
        return open_rows.astype(np.float64)
    return np.where(open_rows, (columns / means).mean(axis=1), 0.0)


def within_clusters(dealt: Ints, labels: Ints, sizes: Floats) -> Floats:
    """Return π for every row: in proportion to its size inside its cluster, with the dealt number as the cluster's sum.

    Examples:
        >>> within_clusters(np.array([1, 2]), np.array([0, 0, 1, 1, 1]), np.array([1.0, 3.0, 9.0, 1.0, 1.0])).tolist()
        [0.25, 0.75, 1.0, 0.5, 0.5]
    """
    inclusion = np.zeros(sizes.size)
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=dealt.size))
    for count, member in zip(dealt.tolist(), np.split(order, ends[:-1]), strict=True):
        if count:
            inclusion[member] = fixed_size_inclusion(sizes[member], count)
    return inclusion
