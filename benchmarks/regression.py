"""R² of least squares fits on few labels: Algorithm 2 in our mode and the paper's, leverage scores, uniform.

The gas sensor data have 7,946 rows with a known concentration, and 16 features (the first of each sensor) or all 128.
18 rows with a feature beyond 20 standard deviations are left out: with 128 features they ruin every fit, even the one
on all rows. A run splits the rows 80:20, standardizes by the first part, selects from it, and fits with an intercept
and a ridge penalty. All methods have the same penalty: 0.1, 1, 10 or 100, whichever is best for the fit on all rows.
Rows are drawn by leverage scores in two ways: independently, as in the literature, and as distinct rows.

    python -m benchmarks.regression                 all missing runs, about an hour on two cores
    python -m benchmarks.regression --features 16   one of the two tasks
    python -m benchmarks.regression --times         seconds and memory of a selection, on a quiet machine
    python -m benchmarks.regression --report        only write tables and plot

Every run is kept in `.cache/regression-FEATURES.jsonl` as soon as it is done, so a stopped study continues where it
stopped. Writes `results/regression.json`, `.md` and `.svg`.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import coresift as cs
from benchmarks.problems import CACHE, data_folder
from benchmarks.regression_report import write_report
from coresift.inclusion import parts
from coresift.progress import choose, stage
from coresift.regression import least_squares

Floats = NDArray[np.float64]
Matrix = NDArray[np.float32]
Sample = tuple[NDArray[np.int64], Floats, int]  # rows, weights, labels that were asked

RESULTS = Path(__file__).parent / "results"
RUNS = 100
OUTLIER = 20.0  # standard deviations
GRID = (0.1, 1.0, 10.0, 100.0)
SHARES = (0.1, 0.125, 0.15, 0.175, 0.2)  # of the training rows
FEW = {16: (32, 64, 80, 96, 128, 160, 320, 480), 128: (128, 256, 384, 512, 576)}
DISTANCE = cs.scores.Distance(floor=0.3, power=2.0)
PAPER = {"score": cs.scores.Sensitivity(holder=np.inf), "design": cs.designs.Independent(), "intercept": False}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=int, choices=(16, 128), help="one task; by default both")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--times", action="store_true", help="measure seconds and memory instead")
    parser.add_argument("--report", action="store_true", help="only write tables and plot")
    arguments = parser.parse_args()
    tasks = [arguments.features] if arguments.features else [16, 128]
    if arguments.times:
        save_times()
    elif not arguments.report:
        for features in tasks:
            study(features, arguments.runs)
    tasks = {str(features): read(features) for features in (16, 128)}
    write_report({name: runs for name, runs in tasks.items() if runs}, read_times(), RESULTS)


def study(features: int, runs: int) -> None:
    """Do the missing runs, and append one line per run."""
    done = {entry["run"] for entry in read(features)}
    missing = [run for run in range(runs) if run not in done]
    bar = choose(None)
    CACHE.mkdir(exist_ok=True)
    with stage(bar, f"{features} features", len(missing)), threadpool_limits(2):
        for number in missing:
            entry = one_run(features, number)
            with (CACHE / f"regression-{features}.jsonl").open("a") as file:
                file.write(json.dumps(entry) + "\n")
            bar.advance(1)


def read(features: int) -> list[dict[str, Any]]:
    """Return the stored runs; an incomplete line is ignored, and its run is repeated."""
    path = CACHE / f"regression-{features}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    by_run = {}
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        by_run[entry["run"]] = entry
    return [by_run[run] for run in sorted(by_run)]


def gas(features: int) -> tuple[Floats, Floats]:
    """Return features and concentrations of the rows with a known concentration and no outlying feature."""
    with np.load(data_folder() / "gas_drift" / "gas_drift.npz", allow_pickle=False) as file:
        rows, concentration = file["X"].astype(np.float64), file["concentration"].astype(np.float64)
    known = np.isfinite(concentration)
    rows, concentration = rows[known], concentration[known]
    usual = np.abs((rows - rows.mean(0)) / rows.std(0)).max(1) <= OUTLIER
    return rows[usual][:, :: 128 // features], concentration[usual]


def one_run(features: int, number: int) -> dict[str, Any]:
    """Run all methods with all sizes on one split."""
    rows, target = gas(features)
    order = np.random.default_rng([number, 1]).permutation(len(rows))
    train, held = np.split(order, [round(0.8 * len(rows))])
    mean, deviation = rows[train].mean(0), rows[train].std(0)
    A, V = (((rows[ids] - mean) / deviation).astype(np.float32) for ids in (train, held))
    b, c = target[train], target[held]
    sizes = [*FEW[features], *(round(share * len(train)) for share in SHARES)]
    every = {
        str(ridge): judge(least_squares(A, b, np.ones(len(A)), ridge, intercept=True), A, b, V, c) for ridge in GRID
    }
    task = Task(A, b, number)
    results = []
    for size in sizes:
        for method, choose_rows in METHODS.items():
            ids, weights, labels = choose_rows(task, size)
            fits = {
                str(ridge): judge(least_squares(A[ids], b[ids], weights, ridge, intercept=True), A, b, V, c)
                for ridge in GRID
            }
            results.append({"method": method, "size": size, "labels": labels, "r2": fits})
    return {"run": number, "rows": len(train), "all": every, "results": results}


def judge(fit: cs.regression.Fit, A: Matrix, b: Floats, V: Matrix, c: Floats) -> list[float]:
    """Return R² on the held-out and on the training rows."""
    return [1 - float(((fit.predict(X) - y) ** 2).sum() / ((y - y.mean()) ** 2).sum()) for X, y in ((V, c), (A, b))]


class Task:
    """Training rows, their labels, and what several methods need from them."""

    def __init__(self, A: Matrix, b: Floats, seed: int) -> None:
        self.A, self.b, self.seed = A, b, seed
        self.leverage = cs.theory.leverage_scores(A, intercept=True)
        self.tenth = cs.cluster(A, len(A) // 10, z=1.0, seed=seed)

    def ours(self, size: int, **options: Any) -> Sample:
        """Return the rows and weights of `cs.regression.select` with these options."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cs.CoresiftWarning)  # the paper's rows of probability 0 are known
            found = cs.regression.select(self.A, self.b, size, self.seed, **options)
        return found.selection.ids, np.asarray(found.selection.weights), found.asked.size

    def generator(self, size: int, method: int) -> np.random.Generator:
        """Return a separate generator for each method and size."""
        return np.random.default_rng([self.seed, size, method])


def uniform(task: Task, size: int) -> Sample:
    n = len(task.A)
    return task.generator(size, 2).permutation(n)[:size], np.full(size, n / size), size


def leverage(task: Task, size: int) -> Sample:
    return drawn(task.leverage, cs.designs.Independent(), size, task.generator(size, 3))


def distinct_leverage(task: Task, size: int) -> Sample:
    return drawn(task.leverage, cs.designs.Pivotal(), size, task.generator(size, 4))


def drawn(
    scores: Floats, design: cs.designs.Independent | cs.designs.Pivotal, size: int, rng: np.random.Generator
) -> Sample:
    order = rng.permutation(scores.size)
    inclusion = design.inclusion(parts(scores[order]), size)
    places, counts = design.draw(inclusion, rng)
    return order[places], counts / inclusion[places], places.size


METHODS: dict[str, Callable[[Task, int], Sample]] = {
    "uniform": uniform,
    "leverage": leverage,
    "leverage, distinct rows": distinct_leverage,
    "distance (ours)": lambda task, size: task.ours(size, score=DISTANCE),
    "leverage mixture (ours)": lambda task, size: task.ours(size),
    "the paper's": lambda task, size: task.ours(
        size, clusters=task.tenth, pilot=cs.pilots.Centers(keep=False), **PAPER
    ),
    "the paper's, medoids kept": lambda task, size: task.ours(
        size + task.tenth.k, clusters=task.tenth, pilot=cs.pilots.Centers(keep=True), **PAPER
    ),
}


# ------------------------------------------------------------------ times


def save_times() -> None:
    entries = [timed(features, rows) for features, rows in ((16, 7_946), (128, 7_946), (128, 13_910))]
    CACHE.mkdir(exist_ok=True)
    (CACHE / "regression-times.json").write_text(json.dumps(entries))


def read_times() -> list[dict[str, Any]]:
    path = CACHE / "regression-times.json"
    return json.loads(path.read_text()) if path.exists() else []


def timed(features: int, count: int) -> dict[str, Any]:
    """Return the smallest of three times for selecting a fifth of the rows, and the paper's peak memory."""
    from benchmarks.measuring import peak_memory, side_by_side  # noqa: PLC0415

    with np.load(data_folder() / "gas_drift" / "gas_drift.npz", allow_pickle=False) as file:
        rows, known = file["X"].astype(np.float64), np.isfinite(file["concentration"])
    rows = rows if count == len(rows) else rows[known]
    rows = rows[:, :: 128 // features]
    A = np.clip((rows - rows.mean(0)) / rows.std(0), -OUTLIER, OUTLIER).astype(np.float32)
    b = A.sum(1)  # times do not depend on the labels, which some of these rows lack
    size, n = len(A) // 5, len(A)
    paper = {"clusters": n // 10, "pilot": cs.pilots.Centers(keep=False), **PAPER}

    def by_leverage() -> None:
        drawn(cs.theory.leverage_scores(A, intercept=True), cs.designs.Pivotal(), size, np.random.default_rng(0))

    tasks: dict[str, Callable[[], object]] = {
        "leverage": by_leverage,
        "distance (ours)": lambda: cs.regression.select(A, b, size, score=DISTANCE),
        "leverage mixture (ours)": lambda: cs.regression.select(A, b, size),
        "the paper's": lambda: cs.regression.select(A, b, size, **paper),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.CoresiftWarning)
        seconds = side_by_side(tasks, times=3)
        with peak_memory() as peak:
            tasks["the paper's"]()
    return {
        "rows": n,
        "features": features,
        "size": size,
        "seconds": seconds,
        "peak_megabytes": peak[0] / 1e6,
    }


if __name__ == "__main__":
    main()
