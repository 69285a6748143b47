"""A pilot that uses signals: representatives of every cluster, more of them where signals are large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import share
from coresift.columns import add_up, every, fill, spans, stored, total
from coresift.inclusion import FLAT, deal, fixed_size_inclusion, spread
from coresift.order import by_cluster, serpentine
from coresift.scratch import empty
from coresift.signal_table import signal_table
from coresift.types import Bools, Clustering, Floats, Frame, Ints, PilotPlan, SignalTable, Strategy


@dataclass(frozen=True, eq=False, repr=False)
class InformedRepresentatives(Strategy):
    """Ask a spread-out random part of the budget, and keep it; like `Representatives`, with signals.

    A part `trust` of the allocation to clusters, and of π₁ inside each cluster, follows the mean of the signals (each
    scaled to mean 1), and rows are sorted by that mean within their cluster. The signals are not confirmed yet. With a
    trust of about a third, misleading signals cost little, because every row keeps the other two thirds, and good ones
    make the pilot's part of the error small. With trust=0, or if no signal can be used as a size, this is
    `Representatives` in another order.

    Args:
        signals: Values that are known for every row, in any form that `signal_table` accepts; or None.
        part: The part of the budget to ask; at least one row per cluster.
        balance: From 0, allocate to clusters by their sizes, to 1, allocate to all clusters equally.
        trust: How much the signals count, from 0 to 1.
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
        """Allocate the first part of the budget to the open rows."""
        open_rows, labels, n, k = frame.open(), clustering.labels, clustering.n, clustering.k
        expected = mean_signal(signal_table(self.signals, n), open_rows)
        trust = self.trust if _differ(expected, open_rows) else 0.0
        members = add_up(n, lambda rows: np.bincount(labels[rows][open_rows[rows]], minlength=k))
        occupied = int(np.count_nonzero(members))
        first = min(self.size(occupied, budget), int(members.sum()))
        cluster_signals = add_up(n, lambda rows: np.bincount(labels[rows], expected[rows], k).astype(np.float64))
        counts = deal(self._target_counts(members, first, cluster_signals, trust), members, first)
        within = stored(n, lambda rows: (1 - trust) * open_rows[rows] + trust * expected[rows])
        inclusion = within_clusters(counts, labels, within)
        away, whole = spread(clustering.power_column, open_rows, FLAT), total(expected)
        sizes = stored(n, lambda rows: (1 - trust) * away[rows] + trust * expected[rows] / whole)
        others = fixed_size_inclusion(sizes, budget - first)
        times_smaller = np.maximum(1.0, members.sum() / (max(occupied, 1) * np.maximum(members, 1)))

        def carried(rows: slice) -> Floats:
            now, later, smaller = inclusion[rows], others[rows], times_smaller[labels[rows]]
            chance = now * (1 - np.minimum(now + later, 1.0))
            # If the second draw cannot draw a row, the first draw carries its whole total.
            return np.where(later > 0, chance / np.where(later > 0, chance + later * smaller**2, 1.0), 1.0)

        order = serpentine(clustering, expected)
        return PilotPlan(inclusion, stored(n, carried), order, keep=True, origin="pilot")

    def _target_counts(self, members: Ints, first: int, expected: Floats, trust: float) -> Floats:
        occupied = members > 0
        even = occupied / max(int(np.count_nonzero(occupied)), 1)
        by_size = (1 - self.balance) * members / max(int(members.sum()), 1) + self.balance * even
        by_signal = expected / max(float(expected.sum()), 1e-300)
        targets: Floats = first * ((1 - trust) * by_size + trust * by_signal)
        return targets


def mean_signal(table: SignalTable, open_rows: Bools) -> Floats:
    """Return the mean of the signals that can be sizes, each scaled to mean 1 over the open rows; 1 if there are none.

    Rows that are not open get 0.
    """
    n, usable = len(table), np.flatnonzero(table.sizes)
    sums = add_up(n, lambda rows: open_rows[rows] @ table.columns[rows][:, usable])
    means = sums / max(int(np.count_nonzero(open_rows)), 1)
    usable, means = usable[means > 0], means[means > 0]
    if not means.size:
        return stored(n, open_rows.__getitem__)

    def scaled(rows: slice) -> Floats:
        return np.where(open_rows[rows], (table.columns[rows][:, usable] / means).mean(axis=1), 0.0)

    return stored(n, scaled)


def _differ(signal: Floats, open_rows: Bools) -> bool:
    """Say whether the open rows have different signals; the same signal for all carries no information."""
    n = signal.size
    lowest = min((signal[rows][open_rows[rows]].min(initial=np.inf) for rows in spans(n)), default=np.inf)
    return not every(n, lambda rows: signal[rows][open_rows[rows]] <= lowest)


def within_clusters(counts: Ints, labels: NDArray[np.integer[Any]], sizes: Floats) -> Floats:
    """Return π of each row: proportional to its size within its cluster, with the cluster's count as their sum.

    Examples:
        >>> within_clusters(np.array([1, 2]), np.array([0, 0, 1, 1, 1]), np.array([1.0, 3.0, 9.0, 1.0, 1.0])).tolist()
        [0.25, 0.75, 1.0, 0.5, 0.5]
    """
    inclusion = fill(empty(sizes.size, np.float64), lambda rows: 0.0)
    order, ends = by_cluster(labels, counts.size)
    for count, member in zip(counts.tolist(), np.split(order, ends[:-1]), strict=True):
        if count:
            inclusion[member] = fixed_size_inclusion(sizes[member], count)
    inclusion.setflags(write=False)
    return inclusion
