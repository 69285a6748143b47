"""Error of estimated totals if no cluster crosses a class, at an equal number of distinct losses.

For every problem of `problems.py` that has classes: our default with `strata=` the classes, against the paper's
Algorithm 1 at the best Λ of a grid and our default, both on clusters of all rows. Those two are not drawn again: their
errors are in `results/estimation.json`, with the same seeds, number of draws and exact error of uniform sampling.

    python -m benchmarks.strata                 all problems, about ten minutes on two cores
    python -m benchmarks.strata mnist-loss      some of them (printed, not written)

Writes `results/strata.json` and `results/strata.md`.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

import coresift as cs
from benchmarks.estimation import CLUSTERINGS, DRAWS, RESULTS, pairs, ratio, uniform_rmse
from benchmarks.estimation_report import shown
from benchmarks.problems import SOURCES, Problem, load_problem
from coresift.rows import Rows

Z95 = 1.959964
RATIOS = ("strata/paper", "strata/ours", "strata/uniform")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", default=[], help="names of problems; by default all with classes")
    parser.add_argument("--seed", type=int, default=0, help="first seed of the reported draws")
    arguments = parser.parse_args()
    names = arguments.problems or [name for name, source in SOURCES.items() if source.classes is not None]
    for name in names:
        load_problem(name)  # built once, here, so that the processes find it in the cache
    measured = []
    with ProcessPoolExecutor(2) as pool:
        for one in pool.map(measure, names, [arguments.seed] * len(names)):
            print(one["problem"], one["strata/paper"], flush=True)
            measured.append(one)
    text = table(measured)
    print(text)
    if not arguments.problems and arguments.seed == 0:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "strata.json").write_text(json.dumps(measured, indent=1) + "\n")
        (RESULTS / "strata.md").write_text(text)


def measure(name: str, first_seed: int) -> dict[str, Any]:
    """Our default within classes, on one problem."""
    problem, engine = load_problem(name), cs.engines.Local(threads=1)
    assert problem.classes is not None
    rows, classes = cs.open_rows(problem.rows), len(np.unique(problem.classes))
    clusters = cs.plan(rows, problem.budget, strata=problem.classes).clusters  # the default
    seeds = range(first_seed, first_seed + CLUSTERINGS)
    clusterings = [cs.cluster(rows, clusters, seed=seed, strata=problem.classes, engine=engine) for seed in seeds]
    drawn = [draw(problem, rows, clustering, seed) for clustering, seed in pairs(clusterings, first_seed)]
    errors = np.array([one["error"] for one in drawn]).reshape(CLUSTERINGS, DRAWS)
    uniform = uniform_rmse(problem)
    to_uniform = ratio(errors, np.full_like(errors, uniform))
    known = next(one for one in json.loads((RESULTS / "estimation.json").read_text()) if one["problem"] == name)
    return {
        "problem": name,
        "rows": len(problem.losses),
        "budget": problem.budget,
        "classes": classes,
        "clusters": clusters,
        "strata/uniform": to_uniform,
        "strata/paper": divide(to_uniform, known["paper/uniform"]),
        "strata/ours": divide(to_uniform, known["ours/uniform"]),
        "coverage": float(np.mean([one["covered"] for one in drawn])),
        "width/uniform": float(np.mean([one["width"] for one in drawn]) / (2 * Z95 * uniform)),
    }


def draw(problem: Problem, rows: Rows, clustering: cs.Clustering, seed: int) -> dict[str, float]:
    """The error of one selection's estimate of the total loss, and its 95 % interval."""
    picked = cs.select(rows, problem.losses, problem.budget, seed, clusters=clustering)
    total, truth = cs.estimate(picked, problem.losses[picked.ids]).total, problem.losses.sum()
    covered = total.low <= truth <= total.high
    return {"error": total.value - truth, "covered": covered, "width": total.high - total.low}


def divide(one: list[float], other: list[float]) -> list[float]:
    """The quotient of two independent ratios, and its interval: squared half-widths of the logarithms add up."""
    value = one[0] / other[0]
    low = np.hypot(np.log(one[0] / one[1]), np.log(other[2] / other[0]))
    high = np.hypot(np.log(one[2] / one[0]), np.log(other[0] / other[1]))
    return [value, float(value * np.exp(-low)), float(value * np.exp(high))]


def table(measured: list[dict[str, Any]]) -> str:
    """The results as Markdown."""
    lines = [
        "# Error of an estimated total, with clusters within classes",
        "",
        f"Root mean squared error over {CLUSTERINGS} clusterings × {DRAWS} draws, as a ratio, with its 95 % bootstrap",
        "interval. Ours and the paper's (Λ the best of a grid, chosen on other seeds) cluster all rows together;",
        "strata is our default with `strata=` the classes. Coverage and width are those of its nominal 95 %",
        "interval; width is relative to an exact interval of uniform sampling.",
        "",
        f"| problem | classes | clusters | {' | '.join(RATIOS)} | coverage | width |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in measured:
        ratios = " | ".join(shown(one[name]) for name in RATIOS)
        tail = f"{one['coverage']:.3f} | {one['width/uniform']:.2f}"
        lines.append(f"| {one['problem']} | {one['classes']} | {one['clusters']} | {ratios} | {tail} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
