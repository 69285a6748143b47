"""Which of several seedings leads to the lowest cost? All of them take their steps together.

A seeding of a small data set has few centers, so most of the time would go into many short calls. Here, one product of
matrices compares the rows with the centers of all seedings.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from coresift.clustering.nearest import with_bias
from coresift.clustering.refine import go_beyond, pull, refine
from coresift.clustering.seeding import powers
from coresift.engine import Workers
from coresift.rows import open_rows
from coresift.types import Floats, Singles

# If squared distances are this share of the squared lengths, products of matrices keep five of their digits.
ENOUGH = 1e-2
# Costs that differ by a smaller share may differ by rounding alone.
ROUNDING = 1e-4


def refine_best(
    rows: Singles, starts: list[Singles], z: float, workers: Workers, *, steps: int, gain: float
) -> Singles:
    """Refine the start that leads to the lowest cost, the first one if several lead to the same cost.

    Their costs come from products of matrices. Only those that rounding could confuse are then refined one by one, or
    all of them if the true costs are not as expected.
    """

    def refined(numbers: Iterable[int]) -> list[tuple[Singles, float]]:
        return [refine(held, starts[number], z, workers, steps=steps, gain=gain) for number in numbers]

    held, everyone = open_rows(rows), range(len(starts))
    expected = _lowest(rows, starts, z, steps=steps, gain=gain) if len(starts) > 1 else {}
    results = refined(expected or everyone)
    wrong = (abs(true - cost) > ROUNDING * cost for (_, true), cost in zip(results, expected.values(), strict=False))
    if any(wrong):
        results = refined(everyone)
    return min(results, key=lambda result: result[1])[0]


def _lowest(rows: Singles, starts: list[Singles], z: float, *, steps: int, gain: float) -> dict[int, float]:
    """Return the starts of lowest cost, which may be equal but for rounding; none if costs have lost their digits."""
    most = max(len(start) for start in starts)
    # A start among few distinct rows has fewer centers; repeating some changes no cost.
    centers = np.stack([np.resize(start, (most, rows.shape[1])) for start in starts])
    with np.errstate(over="ignore", invalid="ignore"):
        costs = costs_after(rows, centers, z, steps=steps, gain=gain)
        total = powers(np.einsum("ij,ij->i", rows, rows), z).sum()
        if not costs.min() > ENOUGH ** (z / 2) * total or not np.isfinite(costs).all():
            return {}
    close = np.flatnonzero(costs <= costs.min() * (1 + ROUNDING))
    return dict(zip(close.tolist(), costs[close].tolist(), strict=True))


def costs_after(rows: Singles, centers: Singles, z: float, *, steps: int, gain: float) -> Floats:
    """Return the lowest cost that `refine` measures from each start; `centers` is starts × centers × dimensions."""
    points = np.column_stack([rows, np.ones(len(rows), np.float32)])
    norms = np.einsum("ij,ij->i", rows, rows)
    lowest, going = np.full(len(centers), np.inf), np.arange(len(centers))
    for step in range(steps):
        table = with_bias(centers.reshape(-1, rows.shape[1]))
        scores = (table @ points.T).reshape(*centers.shape[:2], len(rows))
        best = scores.max(axis=1)
        squares = np.maximum(norms - 2 * best, 0)
        costs = powers(squares, z).sum(axis=1)
        better = costs < lowest[going] * (1 - gain)
        lowest[going] = np.minimum(costs, lowest[going])
        going, centers = going[better], centers[better]
        if not going.size:
            break
        own = (scores[better] == best[better][:, None]).astype(np.float32)
        if z != 2:
            away = np.sqrt(squares[better].astype(np.float64))
            own *= np.stack([pull(line, z) for line in away])[:, None].astype(np.float32)
        sums = (own.reshape(-1, len(rows)) @ points).reshape(*centers.shape[:2], -1)
        weights = sums[..., -1:]
        means = np.where(weights > 0, sums[..., :-1] / np.where(weights > 0, weights, 1), centers)
        moved = centers + (means - centers) / np.float32(max(1.0, z - 1.0))
        centers = go_beyond(centers, moved, z) if step else moved
    return lowest
