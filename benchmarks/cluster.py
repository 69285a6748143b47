"""A selection on a Ray cluster: what it costs beside threads, what the driver holds, and what larger ones would take.

    python -m benchmarks.cluster                    4,000,000 × 128, and the stages of 1,200,000 × 768; ten minutes
    python -m benchmarks.cluster --rows 400000      a smaller selection alone (printed, not written)

The cluster is one node with two workers of one core each, on the machine whose two cores the threads have otherwise;
its start is not counted. Threads and cluster run in processes of their own, which watch their anonymous memory, and
must select the same. The stages of a clustering are timed with threads; from them the report derives what 10 and 100
nodes would take. Writes `results/cluster.json` and `results/cluster.md`.
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
    parser.add_argument("--folder", type=Path, help="where to keep the made-up rows, to use them again")
    parser.add_argument("--only", choices=("local", "ray", "stages"), help="one of the measurements, printed")
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps(measure(arguments.only, arguments)))
        return
    with tempfile.TemporaryDirectory() as folder:
        found = run_all(arguments, arguments.folder or Path(folder))
    print(json.dumps(found, indent=1))
    if arguments.rows == parser.get_default("rows"):
        (RESULTS / "cluster.json").write_text(json.dumps(found, indent=1) + "\n")
        (RESULTS / "cluster.md").write_text(write_report(found))


def run_all(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Make the rows, and measure threads and cluster in turns, each in a process of its own."""
    prepare(folder / "rows", arguments.rows, arguments.dimension)
    words = [sys.executable, "-m", "benchmarks.cluster", "--folder", str(folder)]
    words += [f"--{name}={getattr(arguments, name)}" for name in ("rows", "dimension", "budget")]
    found: dict[str, Any] = {"rows": arguments.rows, "dimension": arguments.dimension, "budget": arguments.budget}
    names = ["local", "ray"]
    if arguments.rows == 4_000_000:
        prepare(folder / "wide", 1_200_000, 768)
        names.append("stages")
    for name in names:
        done = subprocess.run([*words, "--only", name], check=True, capture_output=True, text=True)
        found[name] = json.loads(done.stdout.splitlines()[-1])
    assert found["local"]["digest"] == found["ray"]["digest"], "the cluster selected something else"
    found["ratio"] = found["ray"]["seconds"] / found["local"]["seconds"]
    return found


def prepare(folder: Path, n: int, d: int) -> None:
    """Write rows as four shards, unless they are there."""
    if (folder / "3.npy").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / "all.npy", n, d)
    for number, part in enumerate(np.array_split(np.load(folder / "all.npy", mmap_mode="r"), 4)):
        np.save(folder / f"{number}.npy", part)
    (folder / "all.npy").unlink()


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run one of the measurements in this process."""
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
    """Start one node with two workers, each on a core of its own, and let them import what they need."""
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "RAY_AUTH_MODE": "disabled"}
    os.environ |= quiet
    import ray  # noqa: PLC0415 - only where there is a cluster

    ray.init(num_cpus=2, object_store_memory=STORE, include_dashboard=False, log_to_driver=False)
    engine = cs.engines.Ray(threads=2)
    with engine.open(Progress()) as workers:
        list(workers.map(cs.open_rows(np.zeros((16 * 32_768, 2), np.float32)), lambda start, block: start))
    return engine


def measure_stages(folder: Path, k: int) -> dict[str, Any]:
    """Cluster with two threads, and return the seconds of each stage."""
    rows, stages = cs.open_rows(folder), Stages()
    before = time.perf_counter()
    found = cs.cluster(rows, k, engine=cs.engines.Local(2), progress=stages)
    seconds = time.perf_counter() - before
    blocks = -(-rows.n // block_length(rows.d))
    return {
        "rows": rows.n,
        "dimension": rows.d,
        "clusters": k,
        "blocks": blocks,
        "threads": 2,
        "seconds": seconds,
        "search": found.search,
        "stages": stages.seconds,
    }


class Stages(Progress):
    """Adds up the seconds of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def start(self, stage: str, total: int) -> None:
        """Begin."""
        self._stage, self._begun = stage, time.perf_counter()

    def finish(self) -> None:
        """Add what it took; a stage without a name is none."""
        name = getattr(self, "_stage", "")
        if name:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - self._begun
        self._stage = ""


if __name__ == "__main__":
    main()
