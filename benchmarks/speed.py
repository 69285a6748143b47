"""How long does `select` take on small and large inputs, alone and compared with an earlier version?

    python -m benchmarks.speed                                      a minute on two cores
    python -m benchmarks.speed --baseline OLD/src --name dc08093    also measure the source of an earlier checkout

The versions take turns, each in its own process. Each process first selects from a few rows, so that imports do not
count. Seconds are the smallest of several runs: wall-clock time, and processor time, which depends less on what else
the machine does. Writes `results/speed.json` and `results/speed.md`.
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
# Rows, numbers per row, budget, runs per process, processes, and whether the rows are in memory or in a file.
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
    parser.add_argument("--baseline", help="the `src` folder of an earlier checkout")
    parser.add_argument("--name", default="baseline", help="the name of the earlier version in the table")
    parser.add_argument("--cases", type=int, nargs="*", help="numbers of cases, from 0 (printed, not written)")
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        source, budget, runs, place = arguments.run
        print(json.dumps(run(source, int(budget), int(runs), place)))
        return
    versions = {"now": str(ROOT / "src")} | ({arguments.name: arguments.baseline} if arguments.baseline else {})
    facts = []
    for case in CASES if arguments.cases is None else [CASES[number] for number in arguments.cases]:
        facts.append(measure(*case, versions))
        print(json.dumps(facts[-1]), flush=True)
    facts.append(measure_startup(versions["now"]))
    print(json.dumps(facts[-1]), flush=True)
    if arguments.cases is None:
        (RESULTS / "speed.json").write_text(json.dumps(facts, indent=1) + "\n")
        (RESULTS / "speed.md").write_text(report(facts))


def measure(n: int, d: int, budget: int, runs: int, processes: int, place: str, versions: dict[str, str]) -> Facts:
    rng = np.random.default_rng(0)
    means = 2 * rng.standard_normal((300, d), np.float32)
    rows = means[rng.integers(300, size=n)]
    rows += rng.standard_normal((n, d), np.float32) * np.linspace(1.2, 0.2, d, dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "rows.npy"
        np.save(source, rows)
        del rows
        arguments = ["--run", str(source), str(budget), str(runs), place]
        times: dict[str, list[list[float]]] = {name: [] for name in versions}
        for _ in range(processes):
            for name, package in versions.items():
                times[name].append(run_child(package, arguments))
    least = {name: _smallest(pairs) for name, pairs in times.items()}
    return {"rows": n, "dimension": d, "budget": budget, "place": place, "seconds": least}


def run_child(source: str, arguments: list[str]) -> list[float]:
    command = [sys.executable, str(Path(__file__).resolve()), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": source})
    return json.loads(done.stdout)


def run(source: str, budget: int, runs: int, place: str) -> list[float]:
    """Return the smallest wall-clock and processor seconds of several selections."""
    import coresift as cs  # noqa: PLC0415

    few = np.random.default_rng(0).standard_normal((500, 4), np.float32)
    cs.select(few, losses, budget=30)
    rows = source if place == "file" else np.load(source)
    times = []
    for _ in range(runs):
        start, processor = time.perf_counter(), time.process_time()
        cs.select(rows, losses, budget=budget)
        times.append([time.perf_counter() - start, time.process_time() - processor])
    return _smallest(times)


def _smallest(pairs: list[list[float]]) -> list[float]:
    """Return the smallest wall-clock seconds and the smallest processor seconds."""
    return [min(column) for column in zip(*pairs, strict=True)]


def losses(ids: np.ndarray) -> np.ndarray:
    return np.abs(np.sin(ids))


def measure_startup(source: str) -> Facts:
    """Return the smallest number of seconds that the command line takes to start."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        command = [sys.executable, "-m", "coresift", "--version"]
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"PYTHONPATH": source})
        times.append(time.perf_counter() - start)
    return {"command": "coresift --version", "seconds": {"now": [min(times), None]}}


def report(facts: list[Facts]) -> str:
    """Return the figures as a page."""
    names = list(facts[0]["seconds"])
    head = [f"{name}, s | {name}, processor s" for name in names]
    text = "# How long `select` takes\n\nThe smallest of several times, without imports.\n\n"
    text += f"| case | {' | '.join(head)} | ratio | processor ratio |\n|---|{'---|' * (2 * len(names) + 2)}\n"
    for fact in facts:
        place = f"in {'a ' if fact.get('place') == 'file' else ''}{fact.get('place')}"
        case = fact.get("command") or f"{fact['budget']:,} of {fact['rows']:,} × {fact['dimension']}, {place}"
        cells, seconds = [], fact["seconds"]
        for name in names:
            cells += [f"{value:.3f}" if value is not None else "" for value in seconds.get(name, (None, None))]
        other = next((seconds[name] for name in names[1:] if name in seconds), None)
        cells += [f"{seconds['now'][unit] / other[unit]:.2f}" if other else "" for unit in (0, 1)]
        text += f"| {case} | {' | '.join(cells)} |\n"
    return text


if __name__ == "__main__":
    main()
