"""The time and memory that `plan` predicts, compared with those of `select`, at several sizes.

    python -m benchmarks.plan              every size, about two minutes
    python -m benchmarks.plan --repeat 3   the median of several predictions and times

Every prediction and every selection runs in its own process, as a user's would; memory is the peak of `RssAnon`,
read fifty times a second. Rows are float16 or float32 files of clusters on axes of decaying variance. Writes
`results/plan.json` and `results/plan.md`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import coresift as cs
from benchmarks.measuring import peak_memory, write_rows

RESULTS = Path(__file__).parent / "results"
# Rows, numbers per row, budget, type.
SIZES = (
    (100_000, 64, 1_000, "float16"),
    (300_000, 256, 2_000, "float16"),
    (60_000, 768, 4_000, "float32"),
    (1_000_000, 128, 5_000, "float16"),
    (300_000, 384, 20_000, "float16"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="*", help="which sizes, from 0 (printed, not written)")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--budget", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(TASKS[arguments.run.split(":")[0]](arguments.run.split(":")[1], arguments.budget)))
        return
    found = []
    for which in range(len(SIZES)) if arguments.sizes is None else arguments.sizes:
        found.append(measure(*SIZES[which], arguments.repeat))
        print(json.dumps(found[-1]), flush=True)
    if arguments.sizes is None:
        (RESULTS / "plan.json").write_text(json.dumps(found, indent=1) + "\n")
        (RESULTS / "plan.md").write_text(table(found))


def measure(n: int, d: int, budget: int, kind: str, repeat: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        write_rows(path, n, d)
        if kind == "float32":
            np.save(path, np.load(path).astype(np.float32))
        np.load(path).sum()  # from now on the system has the file in memory
        planned = [child("plan", path, budget) for _ in range(repeat)]
        taken = [child("select", path, budget) for _ in range(repeat)]
    found: dict[str, Any] = {"rows": n, "dimension": d, "budget": budget, "type": kind}
    for name in ("seconds", "memory"):
        found[f"planned_{name}"] = statistics.median(one[name] for one in planned)
        found[f"taken_{name}"] = statistics.median(one[name] for one in taken)
        found[f"{name}_ratio"] = found[f"planned_{name}"] / found[f"taken_{name}"]
    return found | {"calibration": statistics.median(one["calibration"] for one in planned)}


def child(task: str, path: Path, budget: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.plan", "--run", f"{task}:{path}", "--budget", str(budget)]
    result: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result


def run_plan(path: str, budget: int) -> dict[str, float]:
    start = time.perf_counter()
    planned = cs.plan(path, budget)
    return {"seconds": planned.seconds, "memory": planned.memory, "calibration": time.perf_counter() - start}


def run_select(path: str, budget: int) -> dict[str, float]:
    start = time.perf_counter()
    with peak_memory() as peak:
        cs.select(path, losses=lambda ids: np.abs(np.sin(ids)), budget=budget)
    return {"seconds": time.perf_counter() - start, "memory": peak[0]}


TASKS = {"plan": run_plan, "select": run_select}


def table(found: list[dict[str, Any]]) -> str:
    lines = [
        f"| {one['rows']:,} × {one['dimension']} {one['type']} | {one['budget']:,} | {one['planned_seconds']:.1f} | "
        f"{one['taken_seconds']:.1f} | {one['seconds_ratio']:.2f} | {one['planned_memory'] / 1e6:.0f} | "
        f"{one['taken_memory'] / 1e6:.0f} | {one['memory_ratio']:.2f} | {one['calibration']:.2f} |"
        for one in found
    ]
    return "\n".join(
        [
            "# Plan",
            "",
            "What `plan` predicts against what `select` takes, each in a process of its own. Seconds, MB, and the",
            "prediction over what was taken; the last column is how long `plan` itself took.",
            "",
            "| rows | budget | s planned | s taken | ratio | MB planned | MB taken | ratio | plan |",
            "|---|---|---|---|---|---|---|---|---|",
            *lines,
            "",
        ]
    )


if __name__ == "__main__":
    main()
