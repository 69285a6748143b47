"""From sizes to inclusion probabilities and whole numbers."""

from __future__ import annotations

import numpy as np

from coresift.types import Bools, Floats, Ints

# Closer to 1 than this is certain: it keeps cumulative sums from stepping over a row twice.
CERTAIN = 1 - 1e-9

# How much of what is said without any loss is uniform; the rest goes by distance.
FLAT = 0.6


def fixed_size_inclusion(sizes: Floats, count: int) -> Floats:
    """Return π = min(1, c·size) with c such that Σ π = count (rows of size 0 keep π = 0).

    >>> fixed_size_inclusion(np.array([8.0, 1.0, 1.0]), 2)
    array([1. , 0.5, 0.5])
    """
    left = sizes > 0
    inclusion = np.zeros(sizes.size)
    if count >= left.sum():
        inclusion[left] = 1.0
        return inclusion
    while True:
        wanted = max(count - inclusion.sum(), 0.0)
        factor = wanted / sizes[left].sum()
        certain = left & (factor * sizes >= CERTAIN)
        if wanted == 0 or not certain.any():
            inclusion[left] = factor * sizes[left]
            return inclusion
        inclusion[certain] = 1.0
        left &= ~certain


def parts(values: Floats) -> Floats:
    """Return values as parts of their total; equal parts when all are zero.

    >>> parts(np.array([1.0, 3.0]))
    array([0.25, 0.75])
    """
    total = float(values.sum())
    return values / total if total > 0 else np.full(values.size, 1.0 / max(values.size, 1))


def spread(powers: Floats, allowed: Bools, floor: float) -> Floats:
    """Return (1 − floor)·v/Φ + floor/n over the allowed rows: what distances alone say a row is worth."""
    sizes = np.zeros(powers.size)
    sizes[allowed] = (1 - floor) * parts(powers[allowed]) + floor / max(int(np.count_nonzero(allowed)), 1)
    return sizes


def deal(wishes: Floats, limits: Ints, total: int) -> Ints:
    """Return whole numbers near the wishes that sum to the total, within limits, and at least 1 if the total allows.

    >>> deal(np.array([2.6, 0.2, 1.2]), np.array([9, 9, 0]), 4)
    array([3, 1, 0])
    """
    total = min(total, int(limits.sum()))
    least = np.minimum(limits, 1) if total >= np.count_nonzero(limits) else np.zeros_like(limits)
    dealt = np.clip(np.floor(wishes).astype(np.int64), least, limits)
    while (missing := total - int(dealt.sum())) != 0:
        step = int(np.sign(missing))
        movable = dealt < limits if missing > 0 else dealt > least
        gap = np.where(movable, step * (wishes - dealt), -np.inf)
        furthest = np.argsort(-gap, kind="stable")[: min(abs(missing), int(movable.sum()))]
        dealt[furthest] += step
    return dealt
