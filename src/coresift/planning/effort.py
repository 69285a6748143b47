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
from coresift.clustering.strata import HELD, share_centers
from coresift.columns import BLOCK
from coresift.components import SAMPLE
from coresift.planning.calibration import Rates
from coresift.rows import Rows
from coresift.scratch import IN_MEMORY
from coresift.types import Ints

# The usual number of steps until few centers settle: on the rows that are looked at first, then on the whole sample.
FEW_STEPS, LATER_STEPS = 9, 3
# About how often each row of a sample is compared with all centers, as in the search; and with how many centers on its
# list.
# Getting one of these takes as long as this many axes, and finding the best of all products as SCAN axes each.
LISTS, FOLLOWED, GATHERING, SCAN = 2.5, 120, 160, 16
# Bytes per thread, for libraries, and for reading tables.
A_THREAD, LIBRARIES, TABLES = 19e6, 46e6, 60e6
# Bytes per row of a sample, for the list of its nearest centers and what is known about them.
A_LIST = 48.0
# Arrays with one number per row that exist at a time: of 4 bytes while rows are assigned, of 4 and of 8 bytes when rows
# are drawn; and bytes per row of a block that is scored.
ASSIGNED, SINGLES, DOUBLES, A_ROW = 4, 2, 11, 100.0


@dataclass(frozen=True)
class Effort:
    """What a clustering takes: passes over all rows, operations, seconds, and peak bytes."""

    passes: int
    arithmetic: float
    seconds: float
    memory: float


NONE = Effort(0, 0.0, 0.0, 0.0)


def effort(rows: Rows, k: int, rates: Rates, threads: int, n: int | None = None, *, nodes: int = 0) -> Effort:
    """Add up the steps of a clustering with k centers, of all rows or of n of them.

    With `nodes`, that many cores of other machines, as fast as those here, read and process the blocks of rows.
    """
    n = rows.n if n is None else n
    d, size, speed = rows.d, sample_size(n, k), nodes / threads if nodes else 1.0
    arithmetic = 2.0 * k * d * (n * (passes(n, k) - 1) + 12.0 * size)
    if k < MANY_CENTERS:
        seconds = _few_seconds(n, k, size, rates, speed)
        return Effort(passes(n, k), arithmetic, seconds, _few_memory(n, d, size, threads))
    # To settle the centers of a sample, rows are compared many times with the centers near their own, on the axes.
    settle = LISTS * rates.search + FOLLOWED * (rates.near + GATHERING) * rates.compare / (k * (d + SCAN))
    seconds = rates.axes + size * (2 * rates.read + settle)
    all_rows = 2 * rates.read + rates.move - rates.compare + (0.0 if size == n else rates.search)
    all_rows += 2 * rates.read + rates.search + rates.measure
    memory = _many_memory(rows, k, rates, threads, n)
    return Effort(passes(n, k), arithmetic, seconds + n * all_rows / speed, memory)


def effort_within(rows: Rows, sizes: Ints, k: int, rates: Rates, threads: int, *, nodes: int = 0) -> Effort:
    """Add up the classes as if centers were shared by size; the spread of classes is not known yet."""
    n, held = int(sizes.sum()), sizes * rows.d <= HELD
    shares = share_centers(sizes.astype(np.float64), sizes, k)
    each = [
        effort(rows, share, _scaled(rates, share / k), threads, size, nodes=nodes)
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


def _few_seconds(n: int, k: int, size: int, rates: Rates, speed: float) -> float:
    tries, seen = attempts(size, k), _seen_first(size)
    # A step of the seeding looks at 2 + ln k candidates; it was timed with four.
    seeding = tries * k * seen * rates.seed * (3 + math.log(k)) / 5
    seconds = 2 * size * rates.read + seeding + tries * FEW_STEPS * seen * rates.move
    if seen < size:
        seconds += LATER_STEPS * size * rates.move
    all_rows = 2 * rates.read + rates.compare + rates.measure + (rates.read + rates.move if size < n else 0.0)
    return seconds + n * all_rows / speed


def _few_memory(n: int, d: int, size: int, threads: int) -> float:
    held = size if _seen_first(size) == size else size + 2 * _seen_first(size)
    return 4.0 * held * d + A_THREAD * threads + ASSIGNED * in_memory(n, 4)


def _many_memory(rows: Rows, k: int, rates: Rates, threads: int, n: int) -> float:
    sample = sample_numbers(n, rates.near, k) * (4.0 + A_LIST / rates.near)
    # Every task converts its block to double precision and returns its sums. At two levels, the sums of several blocks
    # are joined, with the first two of them at hand.
    sums = 8.0 * rows.d * ((2 * threads + 1) * min(k, rows.block_rows) + 7 * k + threads * rows.block_rows)
    return sample + sums + A_THREAD * threads / 2 + ASSIGNED * in_memory(n, 4)


def in_memory(n: int, width: int) -> float:
    """Return how many bytes of an array with `width` bytes per row are in memory: none if it is in a file.

    >>> in_memory(1000, 8), in_memory(10**8, 8)
    (8000.0, 0.0)
    """
    return float(n * width) if n * width <= IN_MEMORY else 0.0


def file_bytes(n: int, components: int) -> float:
    """Return how many bytes the arrays that are not in memory take in temporary files when rows are drawn.

    >>> file_bytes(1000, 16), file_bytes(10**8, 16) / 1e9
    (0.0, 16.0)
    """
    arrays = [4] * SINGLES + [8] * DOUBLES + [4 * components]
    return float(sum(n * width for width in arrays if not in_memory(n, width)))


def memory_afterwards(n: int, d: int, components: int, threads: int) -> float:
    """Return the peak bytes of what follows the clustering: components, scores and draws."""
    clustered = A_THREAD * threads + SINGLES * in_memory(n, 4)
    directions = 16.0 * min(n, SAMPLE) * d if components else 0.0
    scored = DOUBLES * in_memory(n, 8) + in_memory(n, 4 * components) + A_ROW * min(n, BLOCK)
    return clustered + max(directions, scored)


def _seen_first(size: int) -> int:
    """Return how many rows of a sample the seeding and the first steps look at."""
    return size if size < SMALLEST_SAMPLE else size // PART


def _scaled(rates: Rates, part: float) -> Rates:
    """Return the rates for a part of the centers."""
    compare = rates.compare * part
    return replace(
        rates, compare=compare, move=rates.move - rates.compare + compare, search=rates.search * part, axes=0.0
    )
