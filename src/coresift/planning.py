"""What a selection will cost, before anything runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from coresift.arguments import Options, Settled, settle
from coresift.clustering import passes, sample_numbers, sample_size
from coresift.clustering.strata import HELD, share_centers
from coresift.holder import most_queries
from coresift.holder import plan as plan_probes
from coresift.score import Sensitivity
from coresift.types import Clustering, Ints

# What the steps after the clustering keep of every row: labels, distances, probabilities, keys, orders.
BYTES_A_ROW = 120
BYTES_OF_LIBRARIES = 120e6


@dataclass(frozen=True)
class Plan:
    """What will be asked, read and computed.

    `losses_for_estimate` counts the distinct rows whose loss is needed for an estimate of the total loss
    afterwards. `passes` are full readings of the rows; `arithmetic` is in floating-point operations, as
    many as it takes without a reduced search; `memory` in bytes, besides pages of mapped files. The losses that an
    estimate of Λ takes are counted; before the clusters are known, this is the most that it can take.
    """

    rows: int
    dimension: int
    budget: int
    clusters: int
    losses_asked: int
    losses_for_estimate: int
    passes: int
    arithmetic: float
    memory: float


def plan(rows: Any, budget: int | None = None, seed: int = 0, **options: Unpack[Options]) -> Plan:
    """Say what `select` with the same arguments will cost; `losses` are taken to be there.

    >>> import numpy as np
    >>> plan(np.zeros((100_000, 64), np.float32), budget=2_000).losses_asked
    400
    """
    settled = settle(rows, budget, seed, asking=True, **options)
    n, d = settled.rows.n, settled.rows.d
    k = settled.clusters.k if isinstance(settled.clusters, Clustering) else min(settled.clusters, n)
    room = settled.budget - settled.frame.given.size
    asked = settled.pilot.size(k, room) if settled.pilot else 0
    beside = 0 if getattr(settled.pilot, "keep", True) else asked
    if isinstance(settled.clusters, Clustering):
        effort = _Effort(0, 0.0, 0.0)
    elif settled.strata is None:
        effort = _effort(n, d, k)
    else:
        effort = _effort_within(np.bincount(settled.strata), d, k)
    probes = _probes(settled, k)
    asked, beside = asked + probes, beside + probes
    return Plan(
        rows=n,
        dimension=d,
        budget=settled.budget,
        clusters=k,
        losses_asked=asked,
        losses_for_estimate=min(settled.budget + beside, n),
        passes=effort.passes,
        arithmetic=effort.arithmetic,
        memory=BYTES_OF_LIBRARIES + BYTES_A_ROW * n + 4.0 * effort.numbers,
    )


@dataclass(frozen=True)
class _Effort:
    """What clustering takes: readings of all rows, operations, and numbers of four bytes that are held."""

    passes: int
    arithmetic: float
    numbers: float


def _effort(n: int, d: int, k: int) -> _Effort:
    work = n * (passes(n, k) - 1) + 12.0 * sample_size(n, k)
    return _Effort(passes(n, k), 2.0 * k * d * work, 2.0 * sample_numbers(n, d, k) + 3 * k * d)


def _effort_within(sizes: Ints, d: int, k: int) -> _Effort:
    """Add up the classes as if centers were shared by size alone: how far they spread is not known yet."""
    n, held = int(sizes.sum()), sizes * d <= HELD
    shares = share_centers(sizes.astype(np.float64), sizes, k)
    each = [_effort(size, d, share) for size, share in zip(sizes.tolist(), shares.tolist(), strict=True)]
    readings = np.where(held, 1, [one.passes for one in each])
    largest = max((one.numbers for one, small in zip(each, held, strict=True) if not small), default=0.0)
    return _Effort(
        passes=2 + math.ceil(float(sizes @ readings) / n),  # two to measure the classes
        arithmetic=4.0 * n * d + sum(one.arithmetic for one in each),
        numbers=3.0 * min(HELD, int(sizes[held].sum()) * d) + largest + 3 * k * d,
    )


def _probes(settled: Settled, k: int) -> int:
    score = settled.score
    if settled.pilot is None or not isinstance(score, Sensitivity) or not isinstance(score.holder, str):
        return 0
    if isinstance(settled.clusters, Clustering):
        return plan_probes(settled.clusters, score.holder, exclude=settled.frame.excluded, seed=settled.seed).ids.size
    return min(most_queries(k, score.holder), max(settled.rows.n - k, 0))
