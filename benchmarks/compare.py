"""Compare eight methods on MNIST losses, with three budgets and 20 seeds.

    python -m benchmarks.compare                    a few minutes on two cores; continues where it stopped
    python -m benchmarks.compare --fresh            start over
    python -m benchmarks.compare fashion-loss       another problem of `problems/` (written to a temporary folder)

Writes `results/compare/`: the verdict and the table as text, all runs as JSON, the table as CSV, and a plot.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import coresift as cs
from benchmarks.problems import SOURCES, load_problem

RESULTS = Path(__file__).parent / "results" / "compare"
BUDGETS, SEEDS = (250, 500, 1000), 20
METHODS = {
    "coresift": "coresift",
    "paper, Λ balanced": "paper",
    "mixture": "mixture",
    "distance": "distance",
    "cluster-stratified": "cluster-stratified",
    "leverage": "leverage",
    "deduplicated": "deduplicated",
    "uniform": "uniform",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem", nargs="?", default="mnist-loss", choices=SOURCES)
    parser.add_argument("--fresh", action="store_true", help="delete the stored runs first")
    arguments = parser.parse_args()
    in_repository = arguments.problem == "mnist-loss"
    out = RESULTS if in_repository else Path(tempfile.gettempdir()) / f"coresift-compare-{arguments.problem}"
    if arguments.fresh and out.exists():
        shutil.rmtree(out)
    problem = load_problem(arguments.problem)
    start = time.perf_counter()
    comparison = cs.compare_methods(problem.rows, problem.losses, METHODS, BUDGETS, SEEDS, out=out, plot=True)
    print(comparison)
    print(f"{len(comparison.runs)} selections are in {out}; this call took {time.perf_counter() - start:.0f} seconds.")


if __name__ == "__main__":
    main()
