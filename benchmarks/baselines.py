"""Speed and memory of two baselines: greedy k-center beside its own arithmetic, facility location beside apricot's.

    python -m benchmarks.baselines                  both, about three minutes on two cores
    python -m benchmarks.baselines k-center         one of them (the other's figures stay)

*The arithmetic* of k-center is the product of all rows with one chosen row, in blocks on all cores, as often as rows
are chosen. Facility location runs on made-up rows; ours and apricot's choose in processes of their own, apricot's
after its functions were compiled; the least of three and of two runs counts, and both choices are judged by
Σ‖x − nearest chosen row‖². MNIST comes from the data folder. Writes `results/baselines.json` and
`results/baselines.md`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import coresift as cs
from benchmarks.measuring import peak_memory
from benchmarks.problems import data_folder
from coresift.engine import available_cores

RESULTS = Path(__file__).parent / "results"
Facts = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", help=", ".join(SECTIONS))
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        name, source, budget, out = arguments.run
        print(json.dumps(RUNS[name](np.load(source), int(budget), Path(out))))
        return
    path = RESULTS / "baselines.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    for name in arguments.sections or SECTIONS:
        kept[name] = SECTIONS[name]()
        print(json.dumps(kept[name], indent=1))
        path.write_text(json.dumps(kept, indent=1) + "\n")
    (RESULTS / "baselines.md").write_text(report(kept))


# ------------------------------------------------------------------ greedy k-center


def k_center(budget: int = 2_000) -> list[Facts]:
    with np.load(data_folder() / "mnist" / "mnist.npz", allow_pickle=False) as file:
        pixels = file["X_train"]
    rows = (pixels.reshape(len(pixels), -1) / 255.0).astype(np.float32)
    noise = np.random.default_rng(0).standard_normal(rows.shape, np.float32)
    found = []
    for name, values in (("MNIST pixels", rows), ("isotropic noise", noise)):
        start = time.perf_counter()
        picked = cs.baselines.k_center(values, budget)
        seconds = time.perf_counter() - start
        bare = arithmetic(values, values[picked.ids])
        facts = {"rows": name, "n": len(values), "d": values.shape[1], "budget": budget}
        found.append({**facts, "seconds": seconds, "arithmetic": bare, "ratio": seconds / bare})
    return found


def arithmetic(values: np.ndarray, points: np.ndarray) -> float:
    """Seconds of the product of all rows with each of the points, one after the other, in blocks on all cores."""
    blocks = [block() for _, block in cs.open_rows(values).blocks()]
    outs = [np.empty(len(block), np.float32) for block in blocks]
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(available_cores()) as pool:
        start = time.perf_counter()
        for point in points:
            list(pool.map(lambda pair: np.matmul(pair[0], point, out=pair[1]), zip(blocks, outs, strict=True)))  # noqa: B023
        return time.perf_counter() - start


# ------------------------------------------------------------------ facility location


def facility(n: int = 20_000, d: int = 64, budget: int = 1_000) -> list[Facts]:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((n, d), np.float32)
    middles = rng.standard_normal((50, d), np.float32)
    clusters = middles[rng.integers(50, size=n)] + 0.7 * rng.standard_normal((n, d), np.float32)
    found = []
    for name, rows in (("50 clusters", clusters), ("isotropic noise", noise)):
        ours, theirs = (in_a_process(method, rows, budget) for method in RUNS)
        facts = {"rows": name, "n": n, "d": d, "budget": budget}
        found.append({**facts, "ours": ours, "apricot": theirs, "speedup": theirs["seconds"] / ours["seconds"]})
    return found


def in_a_process(method: str, rows: np.ndarray, budget: int) -> Facts:
    """Choose in a fresh process, and judge the choice here."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "rows.npy", Path(folder) / "chosen.npy"
        np.save(source, rows)
        words = [sys.executable, "-m", "benchmarks.baselines", "--run", method, str(source), str(budget), str(out)]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        return {**json.loads(done.stdout), "cost": cost(rows, np.load(out))}


def ours(rows: np.ndarray, budget: int, out: Path) -> Facts:
    return timed(lambda: cs.baselines.facility_location(rows, budget).ids, out, times=3)


def apricot(rows: np.ndarray, budget: int, out: Path) -> Facts:
    from apricot import FacilityLocationSelection  # noqa: PLC0415

    FacilityLocationSelection(5).fit(rows[:100])
    return timed(lambda: FacilityLocationSelection(budget).fit(rows).ranking, out, times=2)


def timed(choose: Callable[[], np.ndarray], out: Path, times: int) -> Facts:
    """The least seconds of a few runs, and the most memory."""
    seconds = []
    with peak_memory() as peak:
        for _ in range(times):
            start = time.perf_counter()
            chosen = choose()
            seconds.append(time.perf_counter() - start)
    np.save(out, chosen)
    return {"seconds": min(seconds), "peak_mb": peak[0] / 1e6, "all_seconds": seconds}


def cost(rows: np.ndarray, chosen: np.ndarray) -> float:
    """Σ‖x − nearest chosen row‖² in float64."""
    from scipy.spatial.distance import cdist  # noqa: PLC0415

    return float(sum(cdist(part, rows[chosen], "sqeuclidean").min(axis=1).sum() for part in np.array_split(rows, 20)))


RUNS = {"ours": ours, "apricot": apricot}
SECTIONS = {"k-center": k_center, "facility": facility}


def report(found: dict[str, list[Facts]]) -> str:
    text = "# Baselines: speed and memory on two cores\n"
    if "k-center" in found:
        text += "\n## Greedy k-center beside its own arithmetic\n\n"
        text += "| rows | n × d | chosen | seconds | arithmetic alone | ratio |\n|---|---|---|---|---|---|\n"
        for fact in found["k-center"]:
            text += f"| {fact['rows']} | {fact['n']:,} × {fact['d']} | {fact['budget']:,} | {fact['seconds']:.1f} "
            text += f"| {fact['arithmetic']:.1f} | {fact['ratio']:.2f} |\n"
    if "facility" in found:
        text += "\n## Facility location beside apricot's\n\n"
        text += "| rows | n × d | chosen | method | seconds | peak memory, MB | cost | times faster |\n"
        text += "|---|---|---|---|---|---|---|---|\n"
        for fact in found["facility"]:
            for method in RUNS:
                one = fact[method]
                text += f"| {fact['rows']} | {fact['n']:,} × {fact['d']} | {fact['budget']:,} | {method} "
                text += f"| {one['seconds']:.2f} | {one['peak_mb']:,.0f} | {one['cost']:,.1f} "
                text += f"| {fact['speedup']:.1f} |\n" if method == "ours" else "| |\n"
    return text


if __name__ == "__main__":
    main()
