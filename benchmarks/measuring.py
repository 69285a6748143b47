"""Tools of the clustering benchmark: the limit, interleaved timing, costs, memory, and synthetic rows."""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import coresift as cs
from coresift.clustering.nearest import distances_to
from coresift.clustering.refine import snap
from coresift.clustering.searches import Exact
from coresift.clustering.snapping import assign_rows
from coresift.engine import available_cores
from coresift.progress import Progress

Matrix = NDArray[np.float32]
CHUNK = 512


def processor_name() -> str:
    """Return the model of the processor, since ratios of times depend on it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def limit(n: int, k: int, d: int) -> float:
    """Return the seconds of multiplying an n×d by a d×k matrix, in chunks of rows on all cores."""
    chunk, centers = np.ones((CHUNK, d), np.float32), np.ones((k, d), np.float32)
    local = threading.local()

    def multiply(_: int) -> None:
        if not hasattr(local, "out"):
            local.out = np.empty((CHUNK, k), np.float32)
        np.matmul(chunk, centers.T, out=local.out)

    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(available_cores()) as pool:
        start = time.perf_counter()
        list(pool.map(multiply, range(round(n / CHUNK))))
        return time.perf_counter() - start


def side_by_side(tasks: dict[str, Callable[[], object]], times: int) -> dict[str, float]:
    """Return the smallest seconds of each task by the clock."""
    return both_times(tasks, times)[0]


def both_times(tasks: dict[str, Callable[[], object]], times: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the smallest seconds of each task by the clock, and by the processor, which counts all threads.

    Tasks take turns, so that a busy moment affects all of them.
    """
    clock, processor = dict.fromkeys(tasks, np.inf), dict.fromkeys(tasks, np.inf)
    for _ in range(times):
        for name, task in tasks.items():
            start, used = time.perf_counter(), time.process_time()
            task()
            clock[name] = min(clock[name], time.perf_counter() - start)
            processor[name] = min(processor[name], time.process_time() - used)
    return clock, processor


def assign(rows: cs.rows.Rows, centers: Matrix) -> tuple[NDArray[np.int32], Matrix]:
    """Return the nearest center of every row and its distance, by comparing every row with every center."""
    with cs.engines.Local().open(Progress()) as workers:
        return assign_rows(rows, Exact.of(centers), workers)


def costs(rows: cs.rows.Rows, centers: Matrix, z: float = 2.0) -> tuple[float, float]:
    """Return the cost of free centers, and that of the centers snapped to the nearest rows of their clusters."""
    labels, distances = assign(rows, centers)
    chosen = snap(labels, distances, len(centers))
    points = rows.take(np.maximum(chosen, 0))
    snapped = (distances_to(block(), points, labels[start : start + rows.block_rows]) for start, block in rows.blocks())
    return powers(distances, z), sum(powers(some, z) for some in snapped)


def powers(distances: Matrix, z: float) -> float:
    """Return Σ distance^z in float64."""
    return float((distances.astype(np.float64) ** z).sum())


@contextmanager
def peak_memory() -> Iterator[list[float]]:
    """Watch this process's anonymous memory; the list's only entry is its peak in bytes."""
    peak, stop = [0.0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.02):
            peak[0] = max(peak[0], anonymous_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        stop.set()
        watcher.join()


def anonymous_bytes() -> int:
    """Return the memory of this process without mapped files, as the kernel counts it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("This system does not count anonymous memory; run the benchmark on Linux.")


def write_rows(path: Path, n: int, d: int, clusters: int = 3000) -> None:
    """Write float16 rows: clusters and their spread on 128 hidden axes of decaying variance, plus noise on all."""
    rng = np.random.default_rng(0)
    hidden = min(128, d)
    decay = (1 + np.arange(hidden, dtype=np.float32)) ** -0.5
    basis = np.linalg.qr(rng.standard_normal((d, hidden)))[0].T.astype(np.float32)
    middles = rng.standard_normal((clusters, hidden), np.float32) * decay
    rows = np.lib.format.open_memmap(path, "w+", np.float16, (n, d))
    size = 16_384

    def fill(task: tuple[int, np.random.Generator]) -> None:
        start, own = task
        count = min(size, n - start)
        codes = middles[own.integers(clusters, size=count)]
        codes += 0.7 * decay * own.standard_normal((count, hidden), np.float32)
        rows[start : start + count] = codes @ basis + 0.02 * own.standard_normal((count, d), np.float32)

    starts = range(0, n, size)
    with ThreadPoolExecutor(available_cores()) as pool:
        list(pool.map(fill, zip(starts, rng.spawn(len(starts)), strict=True)))
    rows.flush()
