"""Error and intervals of estimated totals, at an equal number of distinct losses.

Three methods run on every problem of `benchmarks.problems`. Uniform sampling without replacement, and the paper's
Algorithm 1 at the best Λ of a grid (k centers asked and s = budget − k draws), have exact variances, the paper's on
clusterings of other seeds. The defaults of `select` and `estimate` run on up to 20 clusterings × 200 draws, in several
variants: without signals; with the model's own confidence; with a cheap model's loss; with three useless signals.
`rivals` are other ways to use a signal: `Proxy`, and the earlier default (`Learned`) with `GeneralizedRegression`.

    python -m benchmarks.estimation                              all, about an hour of one core; can be interrupted
    python -m benchmarks.estimation --half tuning --clusterings 2    less of it
    python -m benchmarks.estimation holder --variant default     some of it
    python -m benchmarks.estimation --report                     only write the tables

Draws are kept in `results/estimation`, one file per problem and variant, so a run continues where the last one stopped.
It goes clustering by clustering over all problems, so an interrupted run has about as many draws of each.
Writes `results/estimation.json` and `results/estimation.md`.
"""

from __future__ import annotations

import argparse
import json
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import coresift as cs
from benchmarks.drawing import Stage, components_of
from benchmarks.problems import CACHE, PROBLEMS, Problem, halves, load_problem
from coresift.signal_table import from_probabilities

RESULTS = Path(__file__).parent / "results"
DRAWS_FOLDER = RESULTS / "estimation"
CLUSTERINGS, DRAWS = 20, 200
REFERENCES, REFERENCE_SEED = 5, 1_000_000
# Λ as a multiple of Σℓ̂/Φ, the value at which losses and distances weigh the same.
GRID = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
VARIANTS = ("default", "confidence", "cheap", "useless", "rivals")
# Problems that are drawn with useless signals: the first ones of each half, by name.
USELESS = 6
# Increase a variant's version when its method changes, so that draws of different versions are not mixed.
VERSIONS = {"default": 6, "confidence": 7, "cheap": 7, "useless": 7, "rivals": 4}
Arrays = dict[str, np.ndarray]


def main() -> None:
    from benchmarks.estimation_report import write  # noqa: PLC0415

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", default=[], help="names of problems; by default all")
    parser.add_argument("--half", choices=("tuning", "held-out"), help="only one half of the problems")
    parser.add_argument("--variant", choices=VARIANTS, action="append", help="by default all that a problem has")
    parser.add_argument("--clusterings", type=int, default=CLUSTERINGS, help=f"{DRAWS} draws each")
    parser.add_argument("--report", action="store_true", help="only write the tables, without new draws")
    arguments = parser.parse_args()
    tuning, held_out = halves()
    names = arguments.problems or {"tuning": tuning, "held-out": held_out, None: list(PROBLEMS)}[arguments.half]
    for number, name in product(() if arguments.report else range(arguments.clusterings), names):
        problem = load(name)
        reference(problem)
        for variant in variants_of(problem):
            if not arguments.variant or variant in arguments.variant:
                draw(problem, variant, number)
        print(name, number, flush=True)
    write(names)


@cache
def load(name: str) -> Problem:
    """Return a problem; all of them fit into memory, and every clustering uses them again."""
    return load_problem(name)


def variants_of(problem: Problem) -> list[str]:
    """Return the variants of a problem."""
    useless = [name for half in halves() for name in sorted(half)[:USELESS]]
    variants = ["default"]
    variants += ["useless"] if problem.name in useless else []
    variants += ["confidence"] if problem.probabilities is not None else []
    variants += ["cheap"] if problem.proxy is not None else []
    return [*variants, "rivals"] if {"confidence", "cheap"} & set(variants) else variants


def draw(problem: Problem, variant: str, number: int) -> None:
    """Draw with one clustering and store the results, unless they are stored already."""
    path, stored = DRAWS_FOLDER / f"{problem.name}-{variant}.npz", read(problem.name, variant)
    if stored and len(next(iter(stored.values()))) > number:
        return
    measure = rivals if variant == "rivals" else ours
    new = measure(problem, cluster_of(problem, number), variant, range(number * DRAWS, (number + 1) * DRAWS))
    joined = {name: np.concatenate([*([stored[name]] if stored else []), values[None]]) for name, values in new.items()}
    DRAWS_FOLDER.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part.npz")
    np.savez_compressed(partial, allow_pickle=False, version=np.array(VERSIONS[variant]), **joined)
    partial.replace(path)


def read(name: str, variant: str) -> Arrays:
    """Return the stored draws, one line per clustering; none if they are of an earlier version of the method."""
    path = DRAWS_FOLDER / f"{name}-{variant}.npz"
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as file:
        if file["version"] != VERSIONS[variant]:
            return {}
        return {part: file[part] for part in file.files if part != "version"}


def ours(problem: Problem, clustering: cs.Clustering, variant: str, seeds: range) -> Arrays:
    """Return relative errors of the default estimate and the weighted total, and the ends of the 95 % interval."""
    stage = Stage(problem, clustering, signals_of(problem, variant), components_of(problem))
    truth, figures = problem.losses.sum(), np.empty((4, len(seeds)))
    for column, seed in enumerate(seeds):
        picked = stage.select(seed)
        values = problem.losses[picked.ids]
        total = cs.estimate(picked, values).total
        figures[:, column] = total.value, picked.weights @ values, total.low, total.high
    error, weighted, low, high = figures / truth - 1
    arrays = {"error": error.astype(np.float32), "weighted": weighted.astype(np.float32)}
    # The signs of the ends say whether the truth is covered; half precision keeps them, and three digits of widths.
    return arrays | {"low": low.astype(np.float16), "high": high.astype(np.float16)}


def rivals(problem: Problem, clustering: cs.Clustering, variant: str, seeds: range) -> Arrays:
    """Return relative errors of `Proxy`, and of the earlier default with regression, with the best signal."""
    signal = problem.proxy if problem.proxy is not None else fitting_signal(problem)
    stage = Stage(problem, clustering, None, components_of(problem))
    values, truth = problem.losses, problem.losses.sum()
    totals = np.array([float(signal.size), signal.sum()])
    errors = np.empty((2, len(seeds)))
    for column, seed in enumerate(seeds):
        by_signal, learned = stage.scored(cs.scores.Proxy(signal), seed), stage.scored(cs.scores.Learned(), seed)
        columns = np.column_stack([np.ones(learned.ids.size), signal[learned.ids]])
        root = np.sqrt(learned.weights)
        fit, *_ = np.linalg.lstsq(columns * root[:, None], values[learned.ids] * root, rcond=None)
        residual = learned.weights @ (values[learned.ids] - columns @ fit)
        errors[:, column] = by_signal.weights @ values[by_signal.ids], totals @ fit + residual
    proxy, regression = (errors / truth - 1).astype(np.float32)
    return {"proxy": proxy, "earlier with regression": regression}


def signals_of(problem: Problem, variant: str) -> Any:
    """Return the signals of a variant."""
    rng = np.random.default_rng([7, len(problem.losses)])
    n = len(problem.losses)
    if variant == "useless":
        return {"a": rng.lognormal(size=n), "b": rng.random(n), "c": rng.exponential(size=n)}
    if variant == "confidence":
        assert problem.probabilities is not None
        probabilities = problem.probabilities.astype(np.float64)
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        return from_probabilities(probabilities, log_loss=not right_or_wrong(problem))
    return {"cheap loss": problem.proxy} if variant == "cheap" else None


def fitting_signal(problem: Problem) -> np.ndarray:
    """Return the signal that a user would give to `Proxy`: 1 − max p for errors, the entropy for log losses."""
    return signals_of(problem, "confidence")["expected_error" if right_or_wrong(problem) else "entropy"]


def right_or_wrong(problem: Problem) -> bool:
    """Return whether the losses are only 0 and 1."""
    return bool(np.isin(problem.losses, (0.0, 1.0)).all())


def cluster_of(problem: Problem, seed: int, count: int | None = None) -> cs.Clustering:
    """Return a clustering with `count` clusters, by default a tenth of the budget; it is stored for later runs."""
    path = CACHE / "clusterings" / f"{problem.name}-{seed}{'' if count is None else f'-{count}'}.npz"
    if path.exists():
        return cs.load(path)
    rows, engine = cs.open_rows(problem.rows), cs.engines.Local(threads=1)
    clustering = cs.cluster(rows, count or problem.budget // 10, seed=seed, engine=engine, progress=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    cs.save(clustering, path)
    return clustering


def reference(problem: Problem) -> dict[str, Any]:
    """Return exact relative errors of uniform sampling, and of the paper's method at its best Λ."""
    path = DRAWS_FOLDER / "references.json"
    stored: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    if problem.name not in stored:
        seeds = range(REFERENCE_SEED, REFERENCE_SEED + REFERENCES)
        squares = np.array([paper_squares(problem, cluster_of(problem, seed)) for seed in seeds])
        best, truth = int(squares.mean(axis=0).argmin()), problem.losses.sum()
        paper = (np.sqrt(squares[:, best]) / truth).tolist()
        stored[problem.name] = {
            "uniform": uniform_rmse(problem) / truth,
            "paper": paper,
            "factor": GRID[best],
            "uniform covers": uniform_coverage(problem),
        }
        DRAWS_FOLDER.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(dict(sorted(stored.items())), indent=1) + "\n")
    return stored[problem.name]


def paper_squares(problem: Problem, clustering: cs.Clustering) -> np.ndarray:
    """Return the exact mean squared error of Algorithm 1 for each Λ: p ∝ ℓ(c) + Λv, s independent draws."""
    values, powers, draws = problem.losses, clustering.powers, problem.budget - clustering.k
    levels = values[clustering.centers][clustering.labels]
    squares = []
    for factor in GRID:
        sizes = levels + factor * levels.sum() / max(powers.sum(), 1e-300) * powers
        reach = sizes > 0
        if not reach.any():
            squares.append(values.sum() ** 2)
            continue
        chance, reached = sizes[reach] / sizes.sum(), values[reach]
        variance = ((reached**2 / chance).sum() - reached.sum() ** 2) / draws
        squares.append(variance + (values.sum() - reached.sum()) ** 2)
    return np.array(squares)


def uniform_rmse(problem: Problem) -> float:
    """Return the exact error of a uniform sample without replacement, with weights n/budget."""
    n, size = len(problem.losses), problem.budget
    return float(n * np.sqrt((1 - size / n) * problem.losses.var(ddof=1) / size))


def uniform_coverage(problem: Problem, draws: int = 10_000) -> float:
    """Return how often a uniform sample's textbook interval, mean ± 1.96 standard errors, covers the truth."""
    rng, values, size = np.random.default_rng(3), problem.losses, problem.budget
    covered = 0
    for _ in range(draws):
        sample = values[rng.choice(values.size, size, replace=False, shuffle=False)]
        error = 1.96 * np.sqrt((1 - size / values.size) * sample.var(ddof=1) / size)
        covered += abs(sample.mean() - values.mean()) <= error
    return covered / draws


def pairs(clusterings: list[cs.Clustering], first_seed: int) -> list[tuple[cs.Clustering, int]]:
    """Return pairs of a clustering and a seed: every clustering with its own seeds, one per draw."""
    seeds = range(first_seed, first_seed + len(clusterings) * DRAWS)
    return [(clusterings[number // DRAWS], seed) for number, seed in enumerate(seeds)]


def ratio(errors: np.ndarray, others: np.ndarray) -> list[float]:
    """Return the ratio of root mean squared errors with its 95 % bootstrap interval over clusterings and draws.

    There is one line per clustering. `others` may have fewer lines or columns: an exact error is one number.
    """
    low, high = np.quantile(ratios(errors, others), [0.025, 0.975])
    whole = np.sqrt((errors.astype(np.float64) ** 2).mean() / (np.atleast_2d(others).astype(np.float64) ** 2).mean())
    return [float(whole), float(low), float(high)]


def ratios(errors: np.ndarray, others: np.ndarray, seed: int = 0, count: int = 400) -> np.ndarray:
    """Return bootstrap replicates of the ratio of root mean squared errors; other seeds give independent ones."""
    rng, means = np.random.default_rng(seed), []
    for part in (errors, np.atleast_2d(others)):
        squares = part.astype(np.float64) ** 2
        lines = rng.integers(len(squares), size=(count, len(squares)))[:, :, None]
        columns = rng.integers(squares.shape[1], size=(count, *squares.shape))
        means.append(squares[lines, columns].mean(axis=(1, 2)))
    return np.sqrt(means[0] / means[1])


if __name__ == "__main__":
    main()
