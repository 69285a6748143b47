"""Speed of greedy k-center, compared with the time of its arithmetic alone.

    python -m benchmarks.baselines                  about a minute on two cores

*The arithmetic* of k-center is the product of all rows with one chosen row, in blocks on all cores, as often as rows
are chosen. MNIST comes from the data folder. Writes `results/baselines.json` and `results/baselines.md`.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import coresift as cs
from benchmarks.problems import data_folder
from coresift.engine import available_cores

RESULTS = Path(__file__).parent / "results"
Facts = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", help=", ".join(SECTIONS))
    arguments = parser.parse_args()
    path = RESULTS / "baselines.json"
    stored = json.loads(path.read_text()) if path.exists() else {}
    for name in arguments.sections or SECTIONS:
        stored[name] = SECTIONS[name]()
        print(json.dumps(stored[name], indent=1))
        path.write_text(json.dumps(stored, indent=1) + "\n")
    (RESULTS / "baselines.md").write_text(report(stored))


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
    """Return the seconds of multiplying all rows by each of the points, one after another, on all cores."""
    blocks = [block() for _, block in cs.open_rows(values).blocks()]
    outs = [np.empty(len(block), np.float32) for block in blocks]
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(available_cores()) as pool:
        start = time.perf_counter()
        for point in points:
            list(pool.map(lambda pair: np.matmul(pair[0], point, out=pair[1]), zip(blocks, outs, strict=True)))  # noqa: B023
        return time.perf_counter() - start


SECTIONS = {"k-center": k_center}


def report(sections: dict[str, list[Facts]]) -> str:
    text = "# Baselines: speed and memory on two cores\n"
    if "k-center" in sections:
        text += "\n## Greedy k-center, compared with its arithmetic alone\n\n"
        text += "| rows | n × d | chosen | seconds | arithmetic alone | ratio |\n|---|---|---|---|---|---|\n"
        for fact in sections["k-center"]:
            text += f"| {fact['rows']} | {fact['n']:,} × {fact['d']} | {fact['budget']:,} | {fact['seconds']:.1f} "
            text += f"| {fact['arithmetic']:.1f} | {fact['ratio']:.2f} |\n"
    return text


if __name__ == "__main__":
    main()
