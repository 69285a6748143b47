"""Error of estimated totals, at an equal number of distinct losses (for their intervals, see `certificates.py`).

For every problem of `problems.py`: uniform sampling without replacement (its exact error), the paper's Algorithm 1
at the best Λ of a grid (k centers asked and s = budget − k draws; Λ is chosen on other seeds), our default, and
`Proxy` where a cheap model's losses are at hand. Every draw is a call of `coresift.select`.

    python -m benchmarks.estimation                 all problems, about half an hour on two cores
    python -m benchmarks.estimation mnist-loss      some of them (printed, not written)

Writes `results/estimation.json` and `results/estimation.md`. Seeds of the reported draws begin at 0, those for the
choice of Λ at 1,000,000.
"""

from __future__ import annotations

import argparse
import json
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import coresift as cs
from benchmarks.problems import SOURCES, Problem, load_problem

RESULTS = Path(__file__).parent / "results"
CLUSTERINGS, DRAWS, TUNING_DRAWS = 20, 100, 15
TUNING_SEED = 1_000_000
# Λ as a multiple of Σℓ̂/Φ, the value at which losses and distances weigh the same.
GRID = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
RATIOS = ("paper/uniform", "ours/uniform", "ours/paper", "proxy/paper")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", default=[], help="names of problems; by default all")
    parser.add_argument("--seed", type=int, default=0, help="first seed of the reported draws")
    arguments = parser.parse_args()
    names = arguments.problems or list(SOURCES)
    for name in names:
        load_problem(name)  # built once, here, so that the processes find it in the cache
    with ProcessPoolExecutor(2) as pool:
        measured = list(pool.map(measure, names, [arguments.seed] * len(names)))
    text = table(measured)
    print(text)
    if not arguments.problems and arguments.seed == 0:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "estimation.json").write_text(json.dumps(measured, indent=1) + "\n")
        (RESULTS / "estimation.md").write_text(text)


def measure(name: str, first_seed: int) -> dict[str, Any]:
    """All methods on one problem."""
    problem = load_problem(name)
    clusters = problem.budget // 10
    rows = cs.open_rows(problem.rows)
    engine = cs.Local(threads=1)
    seeds = [first_seed + number for number in range(CLUSTERINGS)]
    clusterings = [cs.cluster(rows, clusters, seed=seed, engine=engine) for seed in seeds]
    tuning = [cs.cluster(rows, clusters, seed=TUNING_SEED + seed, engine=engine) for seed in range(CLUSTERINGS)]
    best = min(GRID, key=lambda factor: np.mean(paper_errors(problem, tuning, factor, TUNING_SEED, TUNING_DRAWS) ** 2))
    uniform = uniform_rmse(problem)
    ours = [draw(problem, rows, clustering, seed) for clustering, seed in pairs(clusterings, first_seed)]
    found: dict[str, Any] = {
        "problem": name,
        "kind": problem.kind,
        "hard": problem.hard,
        "rows": len(problem.losses),
        "budget": problem.budget,
        "clusters": clusters,
        "uniform": uniform / problem.losses.sum(),
        "paper_factor": best,
    }
    errors = {
        "paper": paper_errors(problem, clusterings, best, first_seed, DRAWS),
        "ours": np.array(ours).reshape(CLUSTERINGS, DRAWS),
    }
    if problem.proxy is not None:
        score = cs.Proxy(problem.proxy)
        proxied = [draw(problem, rows, one, seed, score=score) for one, seed in pairs(clusterings, first_seed)]
        errors["proxy"] = np.array(proxied).reshape(CLUSTERINGS, DRAWS)
    for method, values in errors.items():
        found[f"{method}/uniform"] = ratio(values, np.full_like(values, uniform))
    for method in errors.keys() - {"paper"}:
        found[f"{method}/paper"] = ratio(errors[method], errors["paper"])
    return found


def pairs(clusterings: list[cs.Clustering], first_seed: int) -> list[tuple[cs.Clustering, int]]:
    """Every clustering with as many seeds of its own as there are draws."""
    seeds = range(first_seed, first_seed + len(clusterings) * DRAWS)
    return [(clusterings[number // DRAWS], seed) for number, seed in enumerate(seeds)]


def draw(problem: Problem, rows: cs.Rows, clustering: cs.Clustering, seed: int, **options: Any) -> float:
    """The error of one selection's estimate of the total loss."""
    picked = cs.select(rows, problem.losses, problem.budget, seed, clusters=clustering, **options)
    assert len(picked) == problem.budget
    return float(picked.weights @ problem.losses[picked.ids] - problem.losses.sum())


def paper_errors(
    problem: Problem, clusterings: list[cs.Clustering], factor: float, first_seed: int, draws: int
) -> np.ndarray:
    """Errors of Algorithm 1, a line for each clustering; k + s losses are needed for one estimate."""
    rows, errors = cs.open_rows(problem.rows), np.empty((len(clusterings), draws))
    for number, clustering in enumerate(clusterings):
        predicted = problem.losses[clustering.centers][clustering.labels].sum()
        holder = factor * predicted / clustering.powers.sum()
        parts = {"pilot": cs.Centers(), "score": cs.Sensitivity(holder=holder), "design": cs.Independent()}
        for turn in range(draws):
            seed = first_seed + number * draws + turn
            budget = problem.budget - clustering.k
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", cs.CoresiftWarning)
                picked = cs.select(rows, problem.losses, budget, seed, clusters=clustering, **parts)
            errors[number, turn] = picked.weights @ problem.losses[picked.ids] - problem.losses.sum()
    return errors


def uniform_rmse(problem: Problem) -> float:
    """The exact error of a uniform sample without replacement, weights n/budget."""
    n, size = len(problem.losses), problem.budget
    return float(n * np.sqrt((1 - size / n) * problem.losses.var(ddof=1) / size))


def ratio(errors: np.ndarray, others: np.ndarray) -> list[float]:
    """Ratio of root mean squared errors with its 95 % bootstrap interval over clusterings, and draws in each."""
    rng = np.random.default_rng(0)
    squares, other_squares = errors**2, others**2
    ratios = []
    for _ in range(2000):
        lines = rng.integers(CLUSTERINGS, size=CLUSTERINGS)[:, None]
        columns = rng.integers(DRAWS, size=(2, CLUSTERINGS, DRAWS))
        ratios.append(np.sqrt(squares[lines, columns[0]].mean() / other_squares[lines, columns[1]].mean()))
    low, high = np.quantile(ratios, [0.025, 0.975])
    return [float(np.sqrt(squares.mean() / other_squares.mean())), float(low), float(high)]


def table(measured: list[dict[str, Any]]) -> str:
    """The results as Markdown."""
    lines = [
        "# Error of an estimated total",
        "",
        f"Root mean squared error over {CLUSTERINGS} clusterings × {DRAWS} draws, as a ratio, with its 95 % bootstrap",
        "interval. Uniform's error is exact. The paper's Λ is the best of a grid, chosen on other seeds. Proxy: sizes",
        "from a cheap model's losses.",
        "",
        f"| problem | rows | budget | {' | '.join(RATIOS)} |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in measured:
        ratios = [shown(one.get(name)) for name in RATIOS]
        name = one["problem"] + (" (hard)" if one["hard"] else "")
        lines.append(f"| {name} | {one['rows']:,} | {one['budget']} | {' | '.join(ratios)} |")
    for name in ("ours/uniform", "ours/paper"):
        values = np.array([one[name][0] for one in measured])
        lines.append("")
        lines.append(f"{name}: geometric mean {np.exp(np.log(values).mean()):.3f}, worst {values.max():.3f}.")
    return "\n".join(lines) + "\n"


def shown(value: list[float] | None) -> str:
    return "" if value is None else f"{value[0]:.3f} ({value[1]:.3f}–{value[2]:.3f})"


if __name__ == "__main__":
    main()
