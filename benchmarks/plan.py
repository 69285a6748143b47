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
    parser.add_argument("--sizes", type=int, nargs="*", help="numbers of sizes, from 0 (printed, not written)")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--budget", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(TASKS[arguments.run.split(":")[0]](arguments.run.split(":")[1], arguments.budget)))
        return
    facts = []
    for number in range(len(SIZES)) if arguments.sizes is None else arguments.sizes:
        facts.append(measure(*SIZES[number], arguments.repeat))
        print(json.dumps(facts[-1]), flush=True)
    if arguments.sizes is None:
        (RESULTS / "plan.json").write_text(json.dumps(facts, indent=1) + "\n")
        (RESULTS / "plan.md").write_text(table(facts))


def measure(n: int, d: int, budget: int, kind: str, repeat: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        write_rows(path, n, d)
        if kind == "float32":
            np.save(path, np.load(path).astype(np.float32))
        np.load(path).sum()  # read the file once, so that it is in the system's file cache
        planned = [in_process("plan", path, budget) for _ in range(repeat)]
        taken = [in_process("select", path, budget) for _ in range(repeat)]
    facts: dict[str, Any] = {"rows": n, "dimension": d, "budget": budget, "type": kind}
    for name in ("seconds", "memory"):
        facts[f"planned_{name}"] = statistics.median(run[name] for run in planned)
        facts[f"taken_{name}"] = statistics.median(run[name] for run in taken)
        facts[f"{name}_ratio"] = facts[f"planned_{name}"] / facts[f"taken_{name}"]
    return facts | {"calibration": statistics.median(run["calibration"] for run in planned)}


def in_process(task: str, path: Path, budget: int) -> dict[str, float]:
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


def table(facts: list[dict[str, Any]]) -> str:
    """Return the figures as a page."""
    lines = [
        f"| {fact['rows']:,} × {fact['dimension']} {fact['type']} | {fact['budget']:,} | {fact['planned_seconds']:.1f} "
        f"| {fact['taken_seconds']:.1f} | {fact['seconds_ratio']:.2f} | {fact['planned_memory'] / 1e6:.0f} "
        f"| {fact['taken_memory'] / 1e6:.0f} | {fact['memory_ratio']:.2f} | {fact['calibration']:.2f} |"
        for fact in facts
    ]
    return "\n".join(
        [
            "# Plan",
            "",
            "The time and memory that `plan` predicts, and those that `select` takes, each in its own process. Ratios",
            "are predicted / measured. The last column is the time of `plan` itself.",
            "",
            "| rows | budget | predicted s | measured s | ratio | predicted MB | measured MB | ratio | plan's s |",
            "|---|---|---|---|---|---|---|---|---|",
            *lines,
            "",
        ]
    )


if __name__ == "__main__":
    main()
