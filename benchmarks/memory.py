"""Peak anonymous memory of a selection from a memory-mapped file that is much larger, and of one from very many rows.

    python -m benchmarks.memory                     2,000,000 × 768 float32 (6.1 GB), a few minutes
    python -m benchmarks.memory --rows 200000       a smaller file (printed, not written)
    python -m benchmarks.memory rows                10⁶, 10⁷ and 10⁸ generated rows × 128 float16, hours
    python -m benchmarks.memory rows --sizes 1e7    only this many; --threads 1 and --ray say what runs the blocks

Every selection runs in its own process, which reads its `RssAnon` fifty times a second: pages of mapped files are not
counted, as the system takes them back when it needs them. Writes `results/memory.json`, and adds to
`results/memory_rows.json`, from which `results/memory_rows.md` is made.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import coresift as cs
from benchmarks.generated import generated_rows
from benchmarks.measuring import peak_memory
from coresift.engine import available_cores
from coresift.types import digest

RESULTS = Path(__file__).parent / "results"
# Generated rows: how many, numbers per row, and the budget.
SIZES, DIMENSION, BUDGET = (10**6, 10**7, 10**8), 128, 5_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=("file", "rows"), default="file")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--dimension", type=int, default=768)
    parser.add_argument("--budget", type=int, default=10_000)
    parser.add_argument("--sizes", type=float, nargs="*", default=SIZES)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--ray", action="store_true", help="use the Ray cluster of RAY_ADDRESS")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run and arguments.what == "rows":
        print(json.dumps(measure_rows(int(arguments.run), arguments.threads, ray=arguments.ray)))
    elif arguments.run:
        print(json.dumps(measure(arguments.run, arguments.budget)))
    elif arguments.what == "rows":
        for size in arguments.sizes:
            add_result(in_process(int(size), arguments.threads, ray=arguments.ray))
    else:
        from_file(parser, arguments)


def from_file(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Measure a selection from a file, in its own process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        write_rows(path, arguments.rows, arguments.dimension)
        command = [sys.executable, "-m", "benchmarks.memory", "--run", str(path), "--budget", str(arguments.budget)]
        facts = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        facts |= {"rows": arguments.rows, "dimension": arguments.dimension, "file_gb": path.stat().st_size / 1e9}
    print(json.dumps(facts, indent=1))
    if arguments.rows == parser.get_default("rows"):
        (RESULTS / "memory.json").write_text(json.dumps(facts, indent=1) + "\n")


def write_rows(path: Path, n: int, d: int) -> None:
    """Write clustered rows, a block at a time."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(500, d)).astype(np.float32)
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
    for start in range(0, n, 20_000):
        count = min(20_000, n - start)
        rows[start : start + count] = means[rng.integers(500, size=count)]
        rows[start : start + count] += rng.standard_normal((count, d), np.float32)
    rows.flush()


def measure(path: str, budget: int) -> dict[str, float]:
    """Select from the file, and measure the peak of this process's anonymous memory."""
    start = time.perf_counter()
    with peak_memory() as peak:
        picked = cs.select(path, losses=lambda ids: np.abs(np.sin(ids)), budget=budget)
    seconds = time.perf_counter() - start
    planned = cs.plan(path, budget=budget).memory
    return {"selected": len(picked), "peak_mb": peak[0] / 1e6, "planned_mb": planned / 1e6, "seconds": seconds}


def in_process(n: int, threads: int | None, *, ray: bool) -> dict[str, Any]:
    """Measure a selection from generated rows, in its own process."""
    command = [sys.executable, "-m", "benchmarks.memory", "rows", "--run", str(n)]
    command += [] if threads is None else ["--threads", str(threads)]
    command += ["--ray"] if ray else []
    result: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return result


def measure_rows(n: int, threads: int | None, *, ray: bool) -> dict[str, Any]:
    """Select from rows that are generated when they are read, and measure the peak of anonymous memory."""
    rows = generated_rows(n, DIMENSION)
    engine = cs.engines.Ray(threads=threads) if ray else cs.engines.Local(threads)
    start = time.perf_counter()
    with peak_memory() as peak:
        picked = cs.select(rows, losses=lambda ids: np.abs(np.sin(ids)), budget=BUDGET, engine=engine)
    return {
        "rows": n,
        "dimension": DIMENSION,
        "budget": BUDGET,
        "engine": "Ray" if ray else "Local",
        "workers": ray_workers() if ray else threads or available_cores(),
        "peak_mb": peak[0] / 1e6,
        "seconds": time.perf_counter() - start,
        "digest": digest(picked.ids, picked.weights),
    }


def ray_workers() -> int:
    """Return the number of CPUs of the cluster that this process is connected to."""
    import ray  # noqa: PLC0415 - needs the extra

    return int(ray.cluster_resources()["CPU"])


def add_result(fact: dict[str, Any]) -> None:
    """Store a result with those of other sizes and engines; it replaces an earlier one of the same size and engine."""
    print(json.dumps(fact), flush=True)
    path = RESULTS / "memory_rows.json"
    stored = json.loads(path.read_text()) if path.exists() else []
    others = [other for other in stored if (other["rows"], other["engine"]) != (fact["rows"], fact["engine"])]
    results = sorted([*others, fact], key=lambda fact: (fact["engine"], fact["rows"]))
    path.write_text(json.dumps(results, indent=1) + "\n")
    lines = [
        f"| {fact['rows']:,} | {fact['engine']}, {fact['workers']} | {fact['peak_mb']:,.0f} | {fact['seconds']:,.0f} |"
        for fact in results
    ]
    (RESULTS / "memory_rows.md").write_text(
        "\n".join(
            [
                "# Memory for very many rows",
                "",
                f"Peak anonymous memory of `select` for {BUDGET:,} of n × {DIMENSION} float16 rows, which are",
                "generated when they are read (`python -m benchmarks.memory rows`). With Ray, it is the driver's. The",
                "seconds include the time to generate the rows.",
                "",
                "| rows | engine, threads or workers | MB | seconds |",
                "|---|---|---|---|",
                *lines,
                "",
            ]
        )
    )


if __name__ == "__main__":
    main()
