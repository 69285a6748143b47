"""Inclusion probabilities and integer allocations from sizes."""

from __future__ import annotations

import numpy as np

from coresift.columns import Column, Values, add_up, every, fill, spans, stored, total
from coresift.scratch import empty
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
    n, largest = sizes.size, float(sizes.max(initial=0.0))
    if 0 < largest < SMALLEST:
        unscaled = sizes
        sizes = stored(n, lambda rows: unscaled[rows] / largest)  # only ratios matter, and the factor must stay finite
    if count >= add_up(n, lambda rows: np.count_nonzero(sizes[rows] > 0)):
        return fill(empty(n, np.float64), lambda rows: sizes[rows] > 0)
    inclusion = fill(empty(n, np.float64), lambda rows: 0.0)

    def undecided(rows: slice) -> Bools:
        return np.asarray((sizes[rows] > 0) & (inclusion[rows] == 0))

    while True:
        remaining = max(count - total(inclusion), 0.0)
        factor = remaining / add_up(n, lambda rows: sizes[rows][undecided(rows)].sum())

        def certain(rows: slice, factor: float = factor) -> Bools:
            return undecided(rows) & (factor * sizes[rows] >= CERTAIN)

        if remaining == 0 or every(n, lambda rows: ~certain(rows)):
            for rows in spans(n):
                np.multiply(factor, sizes[rows], out=inclusion[rows], where=undecided(rows))
            return inclusion
        for rows in spans(n):
            inclusion[rows][certain(rows)] = 1.0


def parts(values: Floats) -> Floats:
    """Return values divided by their total; equal shares if all are zero.

    >>> parts(np.array([1.0, 3.0]))
    array([0.25, 0.75])
    """
    return stored(values.size, part_column(values).__getitem__)


def part_column(values: Values) -> Column[np.float64]:
    """Return the same, computed for a few rows at a time.

    >>> part_column(np.array([1.0, 3.0]))[:1]
    array([0.25])
    """
    n, whole = len(values), float(total(values))
    column = Column(n, values.__getitem__)
    return column.divided(whole) if whole > 0 else column.then(lambda some: np.full(some.size, 1.0 / n))


def spread(powers: Values, allowed: Bools, floor: float) -> Floats:
    """Return (1 − floor)·v/Φ + floor/n over the allowed rows: sizes from distances alone."""
    n, count = len(powers), max(int(np.count_nonzero(allowed)), 1)
    cost = float(add_up(n, lambda rows: powers[rows][allowed[rows]].sum()))

    def sizes(rows: slice) -> Floats:
        shares = powers[rows] / cost if cost > 0 else 1.0 / count
        return np.where(allowed[rows], (1 - floor) * shares + floor / count, 0.0)

    return stored(n, sizes)


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
