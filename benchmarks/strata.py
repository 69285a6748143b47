"""Error of estimated totals when clusters keep to a class, at an equal number of distinct losses.

For every problem of `problems.py` that has classes: the paper's Algorithm 1 at the best Λ of a grid on clusters of all
rows, our default on the same clusters, and our default with `strata=` the classes. Draws, seeds and ratios are those
of `estimation.py`.

    python -m benchmarks.strata                 all problems, about half an hour on two cores
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
from benchmarks.estimation import (
    CLUSTERINGS,
    DRAWS,
    GRID,
    RESULTS,
    TUNING_DRAWS,
    TUNING_SEED,
    Z95,
    draw,
    pairs,
    paper_errors,
    ratio,
    shown,
    uniform_rmse,
)
from benchmarks.problems import SOURCES, load_problem

RATIOS = ("ours/paper", "strata/paper", "strata/ours", "strata/uniform")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", default=[], help="names of problems; by default all with classes")
    parser.add_argument("--seed", type=int, default=0, help="first seed of the reported draws")
    arguments = parser.parse_args()
    names = arguments.problems or [name for name, source in SOURCES.items() if source.classes is not None]
    for name in names:
        load_problem(name)  # built once, here, so that the processes find it in the cache
    with ProcessPoolExecutor(2) as pool:
        measured = list(pool.map(measure, names, [arguments.seed] * len(names)))
    text = table(measured)
    print(text)
    if not arguments.problems and arguments.seed == 0:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "strata.json").write_text(json.dumps(measured, indent=1) + "\n")
        (RESULTS / "strata.md").write_text(text)


def measure(name: str, first_seed: int) -> dict[str, Any]:
    """The paper's, ours, and ours within classes, on one problem."""
    problem = load_problem(name)
    assert problem.classes is not None
    rows, engine, budget = cs.open_rows(problem.rows), cs.Local(threads=1), problem.budget
    classes = len(np.unique(problem.classes))
    within = max(budget // 10, classes)  # what `select` takes by default
    seeds = range(first_seed, first_seed + CLUSTERINGS)
    plain = [cs.cluster(rows, budget // 10, seed=seed, engine=engine) for seed in seeds]
    strata = [cs.cluster(rows, within, seed=seed, strata=problem.classes, engine=engine) for seed in seeds]
    tuning = [cs.cluster(rows, budget // 10, seed=TUNING_SEED + seed, engine=engine) for seed in range(CLUSTERINGS)]
    best = min(GRID, key=lambda factor: np.mean(paper_errors(problem, tuning, factor, TUNING_SEED, TUNING_DRAWS) ** 2))
    drawn = {
        "ours": [draw(problem, rows, clustering, seed) for clustering, seed in pairs(plain, first_seed)],
        "strata": [draw(problem, rows, clustering, seed) for clustering, seed in pairs(strata, first_seed)],
    }
    errors = {
        method: np.array([one["error"] for one in some]).reshape(CLUSTERINGS, DRAWS) for method, some in drawn.items()
    }
    errors["paper"] = paper_errors(problem, plain, best, first_seed, DRAWS)
    uniform = uniform_rmse(problem)
    errors["uniform"] = np.full((CLUSTERINGS, DRAWS), uniform)
    found: dict[str, Any] = {
        "problem": name,
        "rows": len(problem.losses),
        "budget": budget,
        "classes": classes,
        "clusters": within,
        "paper_factor": best,
    }
    for one, other in (name.split("/") for name in (*RATIOS, "paper/uniform", "ours/uniform")):
        found[f"{one}/{other}"] = ratio(errors[one], errors[other])
    found["coverage"] = float(np.mean([one["covered"] for one in drawn["strata"]]))
    found["width/uniform"] = float(np.mean([one["width"] for one in drawn["strata"]]) / (2 * Z95 * uniform))
    return found


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
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in measured:
        ratios = " | ".join(shown(one[name]) for name in RATIOS)
        tail = f"{one['coverage']:.3f} | {one['width/uniform']:.2f}"
        lines.append(f"| {one['problem']} | {one['classes']} | {one['clusters']} | {ratios} | {tail} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
