"""How long `select` takes on small and on large inputs, by itself and beside an earlier version.

    python -m benchmarks.speed                                   a minute on two cores
    python -m benchmarks.speed --baseline OLD/src --name dc08093    beside the source of an earlier checkout

Every version runs in processes of its own, in turns; each process first selects once from a few rows, so that imports
do not count. Seconds are the least of several runs, by the clock and of the processor, which a busy machine changes
less. Writes `results/speed.json` and `results/speed.md`.
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

RESULTS = Path(__file__).resolve().parent / "results"
ROOT = Path(__file__).resolve().parent.parent
# Rows, numbers per row, budget, runs per process, processes, and whether rows are in memory or in a file.
CASES = (
    (2_000, 32, 100, 30, 3, "memory"),
    (20_000, 64, 1_000, 15, 3, "memory"),
    (1_000_000, 128, 1_000, 1, 3, "memory"),
    (1_000_000, 128, 1_000, 1, 3, "file"),
    (1_000_000, 128, 5_000, 1, 3, "memory"),
    (1_000_000, 128, 5_000, 1, 3, "file"),
)
Facts = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--baseline", help="the folder `src` of an earlier checkout")
    parser.add_argument("--name", default="baseline", help="what to call it")
    parser.add_argument("--cases", type=int, nargs="*", help="which cases, from 0 (printed, not written)")
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        source, budget, runs, place = arguments.run
        print(json.dumps(run(source, int(budget), int(runs), place)))
        return
    versions = {"now": str(ROOT / "src")} | ({arguments.name: arguments.baseline} if arguments.baseline else {})
    found = []
    for case in CASES if arguments.cases is None else [CASES[which] for which in arguments.cases]:
        found.append(measure(*case, versions))
        print(json.dumps(found[-1]), flush=True)
    found.append(started(versions["now"]))
    print(json.dumps(found[-1]), flush=True)
    if arguments.cases is None:
        (RESULTS / "speed.json").write_text(json.dumps(found, indent=1) + "\n")
        (RESULTS / "speed.md").write_text(report(found))


def measure(n: int, d: int, budget: int, runs: int, processes: int, place: str, versions: dict[str, str]) -> Facts:
    rng = np.random.default_rng(0)
    middles = 2 * rng.standard_normal((300, d), np.float32)
    rows = middles[rng.integers(300, size=n)]
    rows += rng.standard_normal((n, d), np.float32) * np.linspace(1.2, 0.2, d, dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "rows.npy"
        np.save(source, rows)
        del rows
        words = ["--run", str(source), str(budget), str(runs), place]
        times: dict[str, list[list[float]]] = {name: [] for name in versions}
        for _ in range(processes):
            for name, source_of in versions.items():
                times[name].append(child(source_of, words))
    least = {name: [min(one[at] for one in some) for at in (0, 1)] for name, some in times.items()}
    return {"rows": n, "dimension": d, "budget": budget, "place": place, "seconds": least}


def child(source: str, words: list[str]) -> list[float]:
    command = [sys.executable, str(Path(__file__).resolve()), *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": source})
    return json.loads(done.stdout)


def run(source: str, budget: int, runs: int, place: str) -> list[float]:
    """The least seconds of some selections, by the clock and of the processor."""
    import coresift as cs  # noqa: PLC0415

    few = np.random.default_rng(0).standard_normal((500, 4), np.float32)
    cs.select(few, losses, budget=30)
    rows = source if place == "file" else np.load(source)
    times = []
    for _ in range(runs):
        start, processor = time.perf_counter(), time.process_time()
        cs.select(rows, losses, budget=budget)
        times.append((time.perf_counter() - start, time.process_time() - processor))
    return [min(one[at] for one in times) for at in (0, 1)]


def losses(ids: np.ndarray) -> np.ndarray:
    return np.abs(np.sin(ids))


def started(source: str) -> Facts:
    """The least seconds that the command line takes to start."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        command = [sys.executable, "-m", "coresift", "--version"]
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"PYTHONPATH": source})
        times.append(time.perf_counter() - start)
    return {"command": "coresift --version", "seconds": {"now": [min(times), None]}}


def report(found: list[Facts]) -> str:
    names = list(found[0]["seconds"])
    head = [f"{name}, s | {name}, processor s" for name in names]
    text = "# How long `select` takes\n\nThe least of several runs, without imports.\n\n"
    text += f"| what | {' | '.join(head)} | ratio | processor ratio |\n|---|{'---|' * (2 * len(names) + 2)}\n"
    for fact in found:
        what = fact.get("command") or (
            f"{fact['budget']:,} of {fact['rows']:,} × {fact['dimension']}, in {fact['place']}"
        )
        cells, seconds = [], fact["seconds"]
        for name in names:
            cells += [f"{value:.3f}" if value is not None else "" for value in seconds.get(name, (None, None))]
        other = next((seconds[name] for name in names[1:] if name in seconds), None)
        cells += [f"{seconds['now'][at] / other[at]:.2f}" if other else "" for at in (0, 1)]
        text += f"| {what} | {' | '.join(cells)} |\n"
    return text


if __name__ == "__main__":
    main()
