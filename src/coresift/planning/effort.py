"""What a clustering takes, added up from its steps: passes, operations, seconds and bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from coresift.clustering import (
    MANY_CENTERS,
    PART,
    SMALLEST_SAMPLE,
    attempts,
    passes,
    sample_numbers,
    sample_size,
)
from coresift.clustering.search import SCAN, TOGETHER
from coresift.clustering.strata import HELD, share_centers
from coresift.planning.calibration import Rates
from coresift.rows import Rows
from coresift.types import Ints

# The usual number of steps until few centers settle: on the rows that are looked at first, then on the whole sample.
FEW_STEPS, LATER_STEPS = 9, 3
# Over all steps, each row of a sample is compared with this many centers; gathering them takes as long as this many
# axes.
SETTLING, GATHERING = 2000, 160
# Bytes per thread, per row while rows are assigned, per row afterwards, for libraries, and for reading tables.
A_THREAD, ASSIGNED, AFTER, LIBRARIES, TABLES = 19e6, 16.0, 113.0, 57e6, 60e6


@dataclass(frozen=True)
class Effort:
    """What a clustering takes: passes over all rows, operations, seconds, and peak bytes."""

    passes: int
    arithmetic: float
    seconds: float
    memory: float


NONE = Effort(0, 0.0, 0.0, 0.0)


def effort(rows: Rows, k: int, rates: Rates, threads: int, n: int | None = None) -> Effort:
    """Add up the steps of a clustering with k centers, of all rows or of n of them."""
    n = rows.n if n is None else n
    d, size = rows.d, sample_size(n, k)
    arithmetic = 2.0 * k * d * (n * (passes(n, k) - 1) + 12.0 * size)
    if k < MANY_CENTERS:
        return Effort(passes(n, k), arithmetic, _few_seconds(n, k, size, rates), _few_memory(n, d, size, threads))
    # To settle the centers of a sample, rows are compared many times with the centers near their own, on the axes.
    settle = SETTLING * (rates.near + GATHERING) * rates.compare / (k * (d + SCAN))
    seconds = rates.axes + size * (2 * rates.read + settle)
    seconds += n * (2 * rates.read + rates.move - rates.compare + (0.0 if size == n else rates.search))
    seconds += n * (2 * rates.read + rates.search + rates.measure)
    held = 4.0 * sample_numbers(n, rates.near, k)
    if rates.together:
        numbers = 2 * (rates.together + 1) + (d if rates.copied else 0)
        held += 4.0 * numbers * min(n, TOGETHER * rows.block_rows)
    return Effort(passes(n, k), arithmetic, seconds, held + A_THREAD * threads / 2 + ASSIGNED * n)


def effort_within(rows: Rows, sizes: Ints, k: int, rates: Rates, threads: int) -> Effort:
    """Add up the classes as if centers were shared by size; the spread of classes is not known yet."""
    n, held = int(sizes.sum()), sizes * rows.d <= HELD
    shares = share_centers(sizes.astype(np.float64), sizes, k)
    each = [
        effort(rows, share, _scaled(rates, share / k), threads, size)
        for size, share in zip(sizes.tolist(), shares.tolist(), strict=True)
    ]
    readings = np.where(held, 1, [part.passes for part in each])
    largest = max((part.memory for part, small in zip(each, held, strict=True) if not small), default=0.0)
    numbers = 3.0 * min(HELD, int(sizes[held].sum()) * rows.d) + 3 * k * rows.d
    return Effort(
        passes=2 + math.ceil(float(sizes @ readings) / n),  # two to measure the classes
        arithmetic=4.0 * n * rows.d + sum(part.arithmetic for part in each),
        seconds=2 * n * rates.read + sum(part.seconds for part in each),
        memory=4.0 * numbers + max(largest, A_THREAD * threads),
    )


def _few_seconds(n: int, k: int, size: int, rates: Rates) -> float:
    tries, seen = attempts(size, k), _seen_first(size)
    # A step of the seeding looks at 2 + ln k candidates; it was timed with four.
    seeding = tries * k * seen * rates.seed * (3 + math.log(k)) / 5
    seconds = 2 * size * rates.read + seeding + tries * FEW_STEPS * seen * rates.move
    if seen < size:
        seconds += LATER_STEPS * size * rates.move
    if size < n:
        seconds += n * (rates.read + rates.move)
    return seconds + n * (rates.read + rates.compare) + n * (rates.read + rates.measure)


def _few_memory(n: int, d: int, size: int, threads: int) -> float:
    held = size if _seen_first(size) == size else size + 2 * _seen_first(size)
    return 4.0 * held * d + A_THREAD * threads + ASSIGNED * n


def _seen_first(size: int) -> int:
    """Return how many rows of a sample the seeding and the first steps look at."""
    return size if size < SMALLEST_SAMPLE else size // PART


def _scaled(rates: Rates, part: float) -> Rates:
    """Return the rates for a part of the centers."""
    compare = rates.compare * part
    return replace(
        rates, compare=compare, move=rates.move - rates.compare + compare, search=rates.search * part, axes=0.0
    )
