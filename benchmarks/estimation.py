"""Error of estimated totals, at an equal number of distinct losses (for their intervals, see `certificates.py`).

For every problem of `benchmarks.problems`: uniform sampling without replacement and the paper's Algorithm 1 at the best
Λ of a grid (k centers asked and s = budget − k draws), both by their exact variances, the paper's on clusterings of
other seeds; and the portfolio, on 20 clusterings × 200 draws. Variants of it: without signals; with the model's own
confidence; with a cheap model's loss; with three useless signals. `rivals` are what users of a signal have otherwise:
`Proxy`, and the earlier default with `Regression`.

    python -m benchmarks.estimation                              all, some hours on two cores; can be interrupted
    python -m benchmarks.estimation --half tuning --draws 20     less of it
    python -m benchmarks.estimation holder --variant default     some of it
    python -m benchmarks.estimation --report                     tables of what has been drawn so far

What has been drawn is kept in `.cache/estimation`, one file per problem, variant and clustering, so a run goes on where
the last one stopped. Writes `results/portfolio.json` and `results/portfolio.md`.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import coresift as cs
from benchmarks.drawing import Stage, components_of
from benchmarks.problems import CACHE, PROBLEMS, Problem, halves, load_problem
from coresift.signal_table import from_probabilities

RESULTS = Path(__file__).parent / "results"
CLUSTERINGS, DRAWS = 20, 200
REFERENCES, REFERENCE_SEED = 5, 1_000_000
# Λ as a multiple of Σℓ̂/Φ, the value at which losses and distances weigh the same.
GRID = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
VARIANTS = ("default", "confidence", "cheap", "useless", "rivals")
VERSION = 2  # raise it when the method changes, so that older draws are not mixed with newer ones


def main() -> None:
    from benchmarks.estimation_report import write  # noqa: PLC0415

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", default=[], help="names of problems; by default all")
    parser.add_argument("--half", choices=("tuning", "held-out"), help="only one half of the problems")
    parser.add_argument("--variant", choices=VARIANTS, action="append", help="by default all that a problem has")
    parser.add_argument("--clusterings", type=int, default=CLUSTERINGS)
    parser.add_argument("--draws", type=int, default=DRAWS, help="draws per clustering")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--report", action="store_true", help="draw nothing, write the tables")
    arguments = parser.parse_args()
    tuning, held_out = halves()
    names = arguments.problems or {"tuning": tuning, "held-out": held_out, None: list(PROBLEMS)}[arguments.half]
    if not arguments.report:
        for name in names:
            load_problem(name)  # built once, here, so that the processes find it in the cache
        tasks = [
            (name, variant, number, arguments.draws)
            for number, name in product(range(arguments.clusterings), names)
            for variant in variants_of(name)
            if not arguments.variant or variant in arguments.variant
        ]
        with ProcessPoolExecutor(arguments.processes) as pool:
            list(pool.map(reference, names))
            for task in pool.map(drawn, tasks):
                print(*task, flush=True)
    write(names, arguments.clusterings, arguments.draws)


def variants_of(name: str) -> list[str]:
    """The variants that a problem can have."""
    problem = load_problem(name)
    found = ["default", "useless"]
    if problem.probabilities is not None:
        found += ["confidence", "rivals"]
    return [*found, "cheap", "rivals"] if problem.proxy is not None else found


def path_of(name: str, variant: str, number: int, draws: int) -> Path:
    """Where the errors of one problem, variant and clustering are kept."""
    return CACHE / "estimation" / f"{name}-{variant}-{number}-{draws}-{VERSION}.npz"


def drawn(task: tuple[str, str, int, int]) -> tuple[str, str, int]:
    """Draw with one clustering, unless that was done before."""
    name, variant, number, draws = task
    path = path_of(*task)
    if not path.exists():
        problem = load_problem(name)
        clustering = cluster_of(problem, number)
        measure = rivals if variant == "rivals" else ours
        errors = measure(problem, clustering, variant, range(number * DRAWS, number * DRAWS + draws))
        aside = path.with_suffix(".part.npz")
        aside.parent.mkdir(parents=True, exist_ok=True)
        np.savez(aside, allow_pickle=False, **errors)
        aside.replace(path)
    return name, variant, number


def ours(problem: Problem, clustering: cs.Clustering, variant: str, seeds: range) -> dict[str, np.ndarray]:
    """Errors of the weighted total and of the learned one."""
    stage = Stage(problem, clustering, signals_of(problem, variant), components_of(problem))
    truth, errors = problem.losses.sum(), np.empty((len(seeds), 2))
    for place, seed in enumerate(seeds):
        draw = stage.portfolio(seed)
        errors[place] = stage.plain(draw) - truth, stage.learned(draw)[0] - truth
    return {"weighted": errors[:, 0], "learned": errors[:, 1]}


def rivals(problem: Problem, clustering: cs.Clustering, variant: str, seeds: range) -> dict[str, np.ndarray]:
    """Errors of `Proxy`, and of the earlier default with and without `Regression`, with the most fitting signal."""
    signal = problem.proxy if problem.proxy is not None else fitting_signal(problem)
    stage = Stage(problem, clustering, None, components_of(problem))
    values, truth = problem.losses, problem.losses.sum()
    errors = np.empty((len(seeds), 3))
    for place, seed in enumerate(seeds):
        by_signal, learned = stage.scored(cs.scores.Proxy(signal), seed), stage.scored(cs.scores.Learned(), seed)
        columns = np.column_stack([np.ones(learned.ids.size), signal[learned.ids]])
        totals = np.array([float(signal.size), signal.sum()])
        root = np.sqrt(learned.weights)
        fit, *_ = np.linalg.lstsq(columns * root[:, None], values[learned.ids] * root, rcond=None)
        residual = learned.weights @ (values[learned.ids] - columns @ fit)
        errors[place] = stage.plain(by_signal), stage.plain(learned), totals @ fit + residual
    return dict(zip(("proxy", "earlier", "earlier with regression"), (errors - truth).T, strict=True))


def signals_of(problem: Problem, variant: str) -> Any:
    """The signals of a variant."""
    rng = np.random.default_rng([7, len(problem.losses)])
    n = len(problem.losses)
    if variant == "useless":
        return {"a": rng.lognormal(size=n), "b": rng.random(n), "c": rng.exponential(size=n)}
    if variant == "confidence":
        assert problem.probabilities is not None
        given = problem.probabilities.astype(np.float64)
        return from_probabilities(given / given.sum(axis=1, keepdims=True))
    return {"cheap loss": problem.proxy} if variant == "cheap" else None


def fitting_signal(problem: Problem) -> np.ndarray:
    """What a user would take for `Proxy`: 1 − max p for right or wrong, the entropy for log losses."""
    right_or_wrong = np.isin(problem.losses, (0.0, 1.0)).all()
    return signals_of(problem, "confidence")["expected_error" if right_or_wrong else "entropy"]


def cluster_of(problem: Problem, seed: int) -> cs.Clustering:
    """A clustering with a tenth of the budget as clusters, kept for later runs."""
    path = CACHE / "clusterings" / f"{problem.name}-{seed}.npz"
    if path.exists():
        return cs.load(path)
    clustering = cs.cluster(
        cs.open_rows(problem.rows), problem.budget // 10, seed=seed, engine=cs.engines.Local(threads=1), progress=False
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    cs.save(clustering, path)
    return clustering


def reference(name: str) -> dict[str, Any]:
    """The exact errors of uniform sampling, and of the paper at the best Λ for each of the reference clusterings."""
    path = CACHE / "estimation" / f"{name}-reference-{VERSION}.json"
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    problem = load_problem(name)
    seeds = range(REFERENCE_SEED, REFERENCE_SEED + REFERENCES)
    squares = np.array([paper_squares(problem, cluster_of(problem, seed)) for seed in seeds])
    best = int(squares.mean(axis=0).argmin())
    result = {"uniform": uniform_rmse(problem), "paper": np.sqrt(squares[:, best]).tolist(), "factor": GRID[best]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result))
    return result


def paper_squares(problem: Problem, clustering: cs.Clustering) -> np.ndarray:
    """The exact mean squared error of Algorithm 1 for each Λ: p ∝ ℓ(c) + Λv, s independent draws."""
    values, powers, draws = problem.losses, clustering.powers, problem.budget - clustering.k
    levels = values[clustering.centers][clustering.labels]
    found = []
    for factor in GRID:
        sizes = levels + factor * levels.sum() / max(powers.sum(), 1e-300) * powers
        reach = sizes > 0
        if not reach.any():
            found.append(values.sum() ** 2)
            continue
        chance, reached = sizes[reach] / sizes.sum(), values[reach]
        variance = ((reached**2 / chance).sum() - reached.sum() ** 2) / draws
        found.append(variance + (values.sum() - reached.sum()) ** 2)
    return np.array(found)


def uniform_rmse(problem: Problem) -> float:
    """The exact error of a uniform sample without replacement, weights n/budget."""
    n, size = len(problem.losses), problem.budget
    return float(n * np.sqrt((1 - size / n) * problem.losses.var(ddof=1) / size))


def pairs(clusterings: list[cs.Clustering], first_seed: int) -> list[tuple[cs.Clustering, int]]:
    """Every clustering with as many seeds of its own as there are draws."""
    seeds = range(first_seed, first_seed + len(clusterings) * DRAWS)
    return [(clusterings[number // DRAWS], seed) for number, seed in enumerate(seeds)]


def ratio(errors: np.ndarray, others: np.ndarray) -> list[float]:
    """Ratio of root mean squared errors with its 95 % bootstrap interval over clusterings, and draws in each.

    A line per clustering; `others` may have fewer lines or columns: an exact error is one number per clustering.
    """
    rng = np.random.default_rng(0)
    squares, other_squares = errors**2, np.atleast_2d(others) ** 2
    ratios = []
    for _ in range(1000):
        means = []
        for part in (squares, other_squares):
            lines = rng.integers(len(part), size=len(part))[:, None]
            means.append(part[lines, rng.integers(part.shape[1], size=part.shape)].mean())
        ratios.append(np.sqrt(means[0] / means[1]))
    low, high = np.quantile(ratios, [0.025, 0.975])
    return [float(np.sqrt(squares.mean() / other_squares.mean())), float(low), float(high)]


if __name__ == "__main__":
    main()
