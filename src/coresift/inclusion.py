"""Inclusion probabilities and integer allocations from sizes."""

from __future__ import annotations

import numpy as np

from coresift.types import Bools, Floats, Ints

# Inclusion this close to 1 counts as certain; otherwise rounding could let a systematic draw hit a row twice.
CERTAIN = 1 - 1e-9
# Sizes that are all below this are scaled first.
SMALLEST = 1e-250

# The uniform share of sizes that are made without losses; the rest is proportional to distance.
FLAT = 0.6


def fixed_size_inclusion(sizes: Floats, count: int) -> Floats:
    """Return π = min(1, c·size), with c such that Σ π = count (rows of size 0 keep π = 0).

    >>> fixed_size_inclusion(np.array([8.0, 1.0, 1.0]), 2)
    array([1. , 0.5, 0.5])
    """
    largest = float(sizes.max(initial=0.0))
    if 0 < largest < SMALLEST:
        sizes = sizes / largest  # only ratios matter, and the factor must stay finite
    undecided = sizes > 0
    inclusion = np.zeros(sizes.size)
    if count >= undecided.sum():
        inclusion[undecided] = 1.0
        return inclusion
    while True:
        remaining = max(count - inclusion.sum(), 0.0)
        factor = remaining / sizes[undecided].sum()
        certain = undecided & (factor * sizes >= CERTAIN)
        if remaining == 0 or not certain.any():
            inclusion[undecided] = factor * sizes[undecided]
            return inclusion
        inclusion[certain] = 1.0
        undecided &= ~certain


def parts(values: Floats) -> Floats:
    """Return values divided by their total; equal shares if all are zero.

    >>> parts(np.array([1.0, 3.0]))
    array([0.25, 0.75])
    """
    total = float(values.sum())
    return values / total if total > 0 else np.full(values.size, 1.0 / max(values.size, 1))


def spread(powers: Floats, allowed: Bools, floor: float) -> Floats:
    """Return (1 − floor)·v/Φ + floor/n over the allowed rows: sizes from distances alone."""
    sizes = np.zeros(powers.size)
    sizes[allowed] = (1 - floor) * parts(powers[allowed]) + floor / max(int(np.count_nonzero(allowed)), 1)
    return sizes


def deal(wishes: Floats, limits: Ints, total: int) -> Ints:
    """Round wishes to whole numbers that sum to the total, within limits, and to at least 1 if the total allows.

    This is largest-remainder rounding with lower and upper limits.

    >>> deal(np.array([2.6, 0.2, 1.2]), np.array([9, 9, 0]), 4)
    array([3, 1, 0])
    """
    total = min(total, int(limits.sum()))
    least = np.minimum(limits, 1) if total >= np.count_nonzero(limits) else np.zeros_like(limits)
    allocation = np.clip(np.floor(wishes).astype(np.int64), least, limits)
    while (missing := total - int(allocation.sum())) != 0:
        step = int(np.sign(missing))
        adjustable = allocation < limits if missing > 0 else allocation > least
        gap = np.where(adjustable, step * (wishes - allocation), -np.inf)
        largest_gaps = np.argsort(-gap, kind="stable")[: min(abs(missing), int(adjustable.sum()))]
        allocation[largest_gaps] += step
    return allocation
