"""Measure how fast this machine is with these rows, by running the real steps on a few of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from coresift.clustering import learning_axes
from coresift.clustering.nearest import Codebook, distances_to, nearest
from coresift.clustering.refine import step
from coresift.clustering.search import LEAST_CAPTURED, choose_search
from coresift.clustering.searches import Exact
from coresift.clustering.seeding import seed_centers
from coresift.clustering.space import principal_axes
from coresift.engine import Local, Workers
from coresift.progress import Progress
from coresift.rows import Rows, open_rows, refuse_bad_row
from coresift.types import Singles

# How many numbers are read for the measurement, and how many of them are compared with many centers.
READ = 2**23
COMPARED = 2**22
# How many centers the timed seeding has, and how many candidates each step has with that number.
SEEDS, CANDIDATES = 12, 4
# With more centers than this, times are assumed to grow in proportion.
MOST_CENTERS = 2048
# Twice what `cluster` allows, since means of a few rows are poorer centers. It is better to count the memory of a
# search that is not used than to leave out that of one that is.
TOLERANCE = 0.01


@dataclass(frozen=True)
class Rates:
    """Seconds per row on this machine, with all threads.

    `read`: read the row as float32. `compare`: compare it with all centers in full dimension. `move`: the same, and add
    it to the sums of a step. `search`: find its center as a clustering of these rows will. `measure`: its distance to
    one center. `seed`: a step of the seeding. With many centers, `axes` is the total time to find the principal axes,
    and `near` the number of axes that centers are learned on.
    """

    read: float
    compare: float
    move: float
    search: float
    measure: float
    seed: float = 0.0
    axes: float = 0.0
    near: int = 0


def calibrate(rows: Rows, k: int, *, many: bool, threads: int | None = None) -> Rates:
    """Time the steps of a clustering with k centers on a few blocks of the rows; it takes about half a second."""
    rng = np.random.default_rng(0)
    with Local(threads).open(Progress()) as workers:
        blocks, read = _read(rows, workers)
        sample = np.concatenate(blocks)
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.isfinite(np.einsum("ij,ij->i", sample, sample)).all():
                refuse_bad_row(rows)
        compared = sample[: max(1, min(len(sample), COMPARED // rows.d))]
        count = min(k, MOST_CENTERS, len(compared))
        scale = k / count if count == MOST_CENTERS else 1.0
        centers = compared[np.sort(rng.choice(len(compared), count, replace=False))]
        part, labels, codebook = open_rows(compared), np.zeros(len(compared), np.int32), Codebook.of(centers)
        compare = _timed(lambda: _each(part, lambda block: nearest(block, codebook), workers)) / len(compared)
        move = _timed(lambda: step(part, Exact.of(centers), centers, 2.0, workers)) / len(compared)
        ones = _timed(lambda: _each(part, lambda block: distances_to(block, centers, labels[: len(block)]), workers))
        rates = Rates(
            read=read,
            compare=compare * scale,
            move=max(move - compare, 0.0) + compare * scale,
            search=compare * scale,
            measure=ones / len(compared),
        )
        if not many:
            return replace(rates, seed=_seeding(sample, rng, workers))
        others = open_rows(sample[len(compared) :]) if len(sample) > len(compared) else part
        return _with_search(rates, rows, part, others, centers, scale, rng, workers)


def _with_search(
    rates: Rates,
    rows: Rows,
    part: Rows,
    others: Rows,
    centers: Singles,
    scale: float,
    rng: np.random.Generator,
    workers: Workers,
) -> Rates:
    """Time how long a clustering takes to find the axes and to search.

    Centers are means of a part of the rows, and others search for them: rows that made a mean are too close to it.
    """
    start = time.perf_counter()
    axes = principal_axes(rows, rng, workers)
    taken = time.perf_counter() - start
    near = learning_axes(axes)
    if axes.captured[-1] < LEAST_CAPTURED:
        return replace(rates, axes=taken, near=len(near))
    _, means, _ = step(part, Exact.of(centers), centers, 2.0, workers)
    method = choose_search(others, means, 2.0, axes, rng, workers, tolerance=TOLERANCE)
    search = _timed(lambda: list(method.assign(others, _nothing, workers, ""))) / others.n * scale
    return replace(rates, axes=taken, near=len(near), search=search)


def _nothing(*_: object) -> None:
    return None


def _read(rows: Rows, workers: Workers) -> tuple[list[Singles], float]:
    """Read a few blocks in parallel; return them, and the seconds per row."""
    count = max(1, READ // (rows.d * rows.block_rows))
    readers = [read for _, read in islice(rows.blocks(), count)]
    start = time.perf_counter()
    # The sum forces every number to be read, also from a mapped file.
    sums = list(workers.each(readers, lambda read: _summed(read())))
    taken = time.perf_counter() - start
    blocks = [block for block, _ in sums]
    return blocks, taken / sum(map(len, blocks))


def _summed(block: Singles) -> tuple[Singles, float]:
    return block, float(block.sum())


def _each(rows: Rows, function: Callable[[Singles], object], workers: Workers) -> None:
    for _ in workers.map(rows, lambda _, block: function(block)):
        pass


def _seeding(sample: Singles, rng: np.random.Generator, workers: Workers) -> float:
    count = min(SEEDS, len(sample))
    seconds = _timed(lambda: seed_centers(sample, count, 2.0, rng, workers, Progress()))
    return seconds / count / len(sample)


def _timed(task: Callable[[], object]) -> float:
    """Return the shorter of two times; the first run warms up."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return min(times)


def free_memory() -> float | None:
    """Return how many more bytes this process can use, if the system tells."""
    limits = [_meminfo(), _control_group()]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def _meminfo() -> float | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return _pages()
    kilobytes = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return 1024.0 * kilobytes[0] if kilobytes else None


def _pages() -> float | None:
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        return None


def _control_group() -> float | None:
    folder = Path("/sys/fs/cgroup")
    try:
        most, used = ((folder / name).read_text(encoding="ascii").strip() for name in ("memory.max", "memory.current"))
        return None if most == "max" else float(int(most) - int(used))
    except (OSError, ValueError):
        return None
