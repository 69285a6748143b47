"""The error of estimated totals if rows are clustered within classes, with the same number of losses.

For every problem of `problems/` that has classes, this compares our default with `strata=classes` with two methods that
cluster all rows together: our default, and the paper's Algorithm 1 with the best Λ of a grid. Those two are not run
again: `results/estimation.json` has their errors, with the same seeds and number of draws, and the exact error of
uniform sampling.

    python -m benchmarks.strata                 all problems, about ten minutes on two cores
    python -m benchmarks.strata mnist-loss      only these problems (printed, not written)

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
    parser.add_argument("--seed", type=int, default=0, help="the first seed of the draws")
    arguments = parser.parse_args()
    names = arguments.problems or [name for name, source in SOURCES.items() if source.classes is not None]
    for name in names:
        load_problem(name)  # build it once, so that the processes find it in the cache
    facts = []
    with ProcessPoolExecutor(2) as pool:
        for fact in pool.map(measure, names, [arguments.seed] * len(names)):
            print(fact["problem"], fact["strata/paper"], flush=True)
            facts.append(fact)
    text = table(facts)
    print(text)
    if not arguments.problems and arguments.seed == 0:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "strata.json").write_text(json.dumps(facts, indent=1) + "\n")
        (RESULTS / "strata.md").write_text(text)


def measure(name: str, first_seed: int) -> dict[str, Any]:
    """Measure our default with clusters within classes, on one problem."""
    problem, engine = load_problem(name), cs.engines.Local(threads=1)
    assert problem.classes is not None
    rows, classes = cs.open_rows(problem.rows), len(np.unique(problem.classes))
    clusters = cs.plan(rows, problem.budget, strata=problem.classes).clusters  # the default
    seeds = range(first_seed, first_seed + CLUSTERINGS)
    clusterings = [cs.cluster(rows, clusters, seed=seed, strata=problem.classes, engine=engine) for seed in seeds]
    draws = [draw(problem, rows, clustering, seed) for clustering, seed in pairs(clusterings, first_seed)]
    errors = np.array([fact["error"] for fact in draws]).reshape(CLUSTERINGS, DRAWS)
    uniform = uniform_rmse(problem)
    to_uniform = ratio(errors, np.full_like(errors, uniform))
    estimation = json.loads((RESULTS / "estimation.json").read_text())
    others = next(fact for fact in estimation if fact["problem"] == name)
    return {
        "problem": name,
        "rows": len(problem.losses),
        "budget": problem.budget,
        "classes": classes,
        "clusters": clusters,
        "strata/uniform": to_uniform,
        "strata/paper": divide(to_uniform, others["paper/uniform"]),
        "strata/ours": divide(to_uniform, others["ours/uniform"]),
        "coverage": float(np.mean([fact["covered"] for fact in draws])),
        "width/uniform": float(np.mean([fact["width"] for fact in draws]) / (2 * Z95 * uniform)),
    }


def draw(problem: Problem, rows: Rows, clustering: cs.Clustering, seed: int) -> dict[str, float]:
    """Return the error of the total loss estimated from one selection, and its 95 % interval's coverage and width."""
    picked = cs.select(rows, problem.losses, problem.budget, seed, clusters=clustering)
    total, truth = cs.estimate(picked, problem.losses[picked.ids]).total, problem.losses.sum()
    covered = total.low <= truth <= total.high
    return {"error": total.value - truth, "covered": covered, "width": total.high - total.low}


def divide(numerator: list[float], denominator: list[float]) -> list[float]:
    """Return the quotient of two independent ratios, and its interval; squared half-widths of the logarithms add up."""
    value = numerator[0] / denominator[0]
    low = np.hypot(np.log(numerator[0] / numerator[1]), np.log(denominator[2] / denominator[0]))
    high = np.hypot(np.log(numerator[2] / numerator[0]), np.log(denominator[0] / denominator[1]))
    return [value, float(value * np.exp(-low)), float(value * np.exp(high))]


def table(facts: list[dict[str, Any]]) -> str:
    """Return the results as Markdown."""
    lines = [
        "# The error of an estimated total, with clusters within classes",
        "",
        f"Ratios of the root mean squared error over {CLUSTERINGS} clusterings × {DRAWS} draws, with 95 % bootstrap",
        "intervals. *Strata* is our default with `strata=classes`. *Ours* (our default) and *paper* (Algorithm 1 with",
        "the best Λ of a grid, chosen on other seeds) cluster all rows together. Coverage and width are those of the",
        "nominal 95 % interval of *strata*; the width is relative to an exact interval of uniform sampling.",
        "",
        f"| problem | classes | clusters | {' | '.join(RATIOS)} | coverage | width |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for fact in facts:
        ratios = " | ".join(shown(fact[name]) for name in RATIOS)
        interval = f"{fact['coverage']:.3f} | {fact['width/uniform']:.2f}"
        lines.append(f"| {fact['problem']} | {fact['classes']} | {fact['clusters']} | {ratios} | {interval} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
