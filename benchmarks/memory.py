"""Peak anonymous memory of a selection from a memory-mapped file that is much larger.

    python -m benchmarks.memory                     2,000,000 × 768 float32 (6.1 GB), a few minutes
    python -m benchmarks.memory --rows 200000       a smaller file (printed, not written)

The selection runs in its own process, which reads its `RssAnon` fifty times a second: pages of the mapped file
are not counted, as the system takes them back when it needs them. Writes `results/memory.json`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import coresift as cs
from benchmarks.measuring import peak_memory

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--dimension", type=int, default=768)
    parser.add_argument("--budget", type=int, default=10_000)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(measure(arguments.run, arguments.budget)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        write_rows(path, arguments.rows, arguments.dimension)
        command = [sys.executable, "-m", "benchmarks.memory", "--run", str(path), "--budget", str(arguments.budget)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        found |= {"rows": arguments.rows, "dimension": arguments.dimension, "file_gb": path.stat().st_size / 1e9}
    print(json.dumps(found, indent=1))
    if arguments.rows == parser.get_default("rows"):
        (RESULTS / "memory.json").write_text(json.dumps(found, indent=1) + "\n")


def write_rows(path: Path, n: int, d: int) -> None:
    """Clustered rows, a block at a time."""
    rng = np.random.default_rng(0)
    middles = rng.normal(size=(500, d)).astype(np.float32)
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
    for start in range(0, n, 20_000):
        count = min(20_000, n - start)
        rows[start : start + count] = middles[rng.integers(500, size=count)]
        rows[start : start + count] += rng.standard_normal((count, d), np.float32)
    rows.flush()


def measure(path: str, budget: int) -> dict[str, float]:
    """Select from the file, and watch this process's anonymous memory meanwhile."""
    start = time.perf_counter()
    with peak_memory() as peak:
        picked = cs.select(path, losses=lambda ids: np.abs(np.sin(ids)), budget=budget)
    seconds = time.perf_counter() - start
    planned = cs.plan(path, budget=budget).memory
    return {"selected": len(picked), "peak_mb": peak[0] / 1e6, "planned_mb": planned / 1e6, "seconds": seconds}


if __name__ == "__main__":
    main()
