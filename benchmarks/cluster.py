"""A selection on a Ray cluster: its time relative to threads, the driver's memory, and estimates for larger clusters.

    python -m benchmarks.cluster                    4,000,000 × 128, and the stages of 1,200,000 × 768; ten minutes
    python -m benchmarks.cluster --rows 400000      only a smaller selection (printed, not written)
    python -m benchmarks.cluster --report           only write the page, from the stored figures

The cluster is one node with two workers of one core each, on the same two cores that the threads use. Starting it is
not counted. Threads and cluster run in separate processes, which measure their peak anonymous memory, and must select
the same rows. The stages of a clustering are timed with threads; from these times the report estimates how long 10 and
100 nodes would take. Writes `results/cluster.json` and `results/cluster.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import coresift as cs
from benchmarks.cluster_report import write_report
from benchmarks.measuring import peak_memory, write_rows
from coresift.progress import Progress
from coresift.rows.base import block_length
from coresift.types import digest

RESULTS = Path(__file__).parent / "results"
STORE = 1 << 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--budget", type=int, default=40_000)
    parser.add_argument("--folder", type=Path, help="where to store the synthetic rows, to reuse them")
    parser.add_argument("--only", choices=("local", "ray", "stages"), help="print one of the measurements")
    parser.add_argument("--report", action="store_true", help="only write the page, from the stored figures")
    arguments = parser.parse_args()
    if arguments.report:
        (RESULTS / "cluster.md").write_text(write_report(json.loads((RESULTS / "cluster.json").read_text())))
        return
    if arguments.only:
        print(json.dumps(measure(arguments.only, arguments)))
        return
    with tempfile.TemporaryDirectory() as folder:
        figures = run_all(arguments, arguments.folder or Path(folder))
    print(json.dumps(figures, indent=1))
    if arguments.rows == parser.get_default("rows"):
        (RESULTS / "cluster.json").write_text(json.dumps(figures, indent=1) + "\n")
        (RESULTS / "cluster.md").write_text(write_report(figures))


def run_all(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Create the rows, and measure threads and cluster, each in its own process."""
    prepare(folder / "rows", arguments.rows, arguments.dimension)
    command = [sys.executable, "-m", "benchmarks.cluster", "--folder", str(folder)]
    command += [f"--{name}={getattr(arguments, name)}" for name in ("rows", "dimension", "budget")]
    figures: dict[str, Any] = {"rows": arguments.rows, "dimension": arguments.dimension, "budget": arguments.budget}
    names = ["local", "ray"]
    if arguments.rows == 4_000_000:
        prepare(folder / "wide", 1_200_000, 768)
        names.append("stages")
    for name in names:
        done = subprocess.run([*command, "--only", name], check=True, capture_output=True, text=True)
        figures[name] = json.loads(done.stdout.splitlines()[-1])
    assert figures["local"]["digest"] == figures["ray"]["digest"], "the cluster selected other rows"
    figures["ratio"] = figures["ray"]["seconds"] / figures["local"]["seconds"]
    return figures


def prepare(folder: Path, n: int, d: int) -> None:
    """Write rows as four shards, unless they exist."""
    if (folder / "3.npy").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / "all.npy", n, d)
    for number, part in enumerate(np.array_split(np.load(folder / "all.npy", mmap_mode="r"), 4)):
        np.save(folder / f"{number}.npy", part)
    (folder / "all.npy").unlink()


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run one measurement in this process."""
    if name == "stages":
        return measure_stages(arguments.folder / "wide", 4_500)
    engine: Any = cs.engines.Local(2)
    if name == "ray":
        engine = start_cluster()
    rows = cs.open_rows(arguments.folder / "rows")
    before, stages = time.perf_counter(), Stages()
    with peak_memory() as peak:
        picked = cs.select(rows, lambda ids: np.abs(np.sin(ids)), arguments.budget, engine=engine, progress=stages)
    seconds = time.perf_counter() - before
    return {
        "seconds": seconds,
        "peak_mb": peak[0] / 1e6,
        "digest": digest(picked.ids, picked.weights),
        "stages": stages.seconds,
    }


def start_cluster() -> cs.engines.Ray:
    """Start one node with two workers of one core each, and let them import what they need."""
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "RAY_AUTH_MODE": "disabled"}
    os.environ |= quiet
    import ray  # noqa: PLC0415 - only if there is a cluster

    ray.init(num_cpus=2, object_store_memory=STORE, include_dashboard=False, log_to_driver=False)
    engine = cs.engines.Ray(threads=2)
    with engine.open(Progress()) as workers:
        list(workers.map(cs.open_rows(np.zeros((16 * 32_768, 2), np.float32)), lambda start, block: start))
    return engine


def measure_stages(folder: Path, k: int) -> dict[str, Any]:
    """Cluster with two threads, and return the seconds of each stage."""
    rows, stages = cs.open_rows(folder), Stages()
    before = time.perf_counter()
    clustering = cs.cluster(rows, k, engine=cs.engines.Local(2), progress=stages)
    seconds = time.perf_counter() - before
    blocks = -(-rows.n // block_length(rows.d))
    return {
        "rows": rows.n,
        "dimension": rows.d,
        "clusters": k,
        "blocks": blocks,
        "threads": 2,
        "seconds": seconds,
        "search": clustering.search,
        "stages": stages.seconds,
    }


class Stages(Progress):
    """The seconds that each stage takes in total."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def start(self, stage: str, total: int) -> None:
        """Note the start of a stage."""
        self._stage, self._started = stage, time.perf_counter()

    def finish(self) -> None:
        """Add the stage's time; there may be no stage to finish."""
        name = getattr(self, "_stage", "")
        if name:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - self._started
        self._stage = ""


if __name__ == "__main__":
    main()
