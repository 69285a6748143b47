"""Is a selection that grew as good as a new one of the same size?

On every problem with at least 10,000 rows, a selection of 500 rows grows to 2,000 in three steps of 500, with the
clusters of the first selection. A new selection of 2,000 rows has its own clusters. The goal is a mean width of the
interval of the estimated total of at most 1.08 times the new one's over all problems, and at most 1.25 times on each.
A goal is missed if the whole 95 % bootstrap interval of the ratio is above it: where a few rows have much of the total,
widths differ a lot from seed to seed.

    python -m benchmarks.growing                   all problems, about five minutes of one core; can be interrupted
    python -m benchmarks.growing --seeds 4         fewer seeds
    python -m benchmarks.growing holder            only these problems

Single runs are stored in `results/growing.jsonl` with the version of the method. A run continues where the last one of
its version stopped. Writes `results/growing.md`.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

import coresift as cs
from benchmarks.estimation import RESULTS, cluster_of
from benchmarks.problems import CACHE, PROBLEMS, Problem, halves, load_problem

STEPS = (500, 1_000, 1_500, 2_000)
SEEDS, LEAST_ROWS = 20, 10_000
VERSION = 8  # increase this when selections or intervals change, so that runs of different versions are not mixed
RUNS = RESULTS / "growing.jsonl"


class Keeping(cs.engines.Local):
    """One thread, and a folder for the split clusters of growth steps, which do not depend on a selection's seed."""

    keep = CACHE / "splits"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "problems", nargs="*", default=[], help="names of problems; by default all that are large enough"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS)
    arguments = parser.parse_args()
    done = {(run["problem"], run["seed"]) for run in runs()}
    names = arguments.problems or PROBLEMS
    problems = [problem for name in names if len((problem := load_problem(name)).losses) >= LEAST_ROWS]
    for seed in range(arguments.seeds):
        for problem in problems:
            if (problem.name, seed) not in done:
                run = measure(problem, seed)
                with RUNS.open("a") as file:
                    file.write(json.dumps(run) + "\n")
                print(json.dumps(run), flush=True)
    text = report(runs())
    print(text)
    (RESULTS / "growing.md").write_text(text)


def measure(problem: Problem, seed: int) -> dict[str, Any]:
    """Return relative errors and widths of both selections."""
    engine, rows, losses = Keeping(threads=1), cs.open_rows(problem.rows), problem.losses
    first = cluster_of(problem, 0, STEPS[0] // 10)
    grown = cs.select(rows, losses, STEPS[0], seed, clusters=first, engine=engine, progress=False)
    for budget in STEPS[1:]:
        grown = cs.grow(grown, losses, budget, rows=rows, clusters=first, engine=engine, progress=False)
    second = cluster_of(problem, 0, STEPS[-1] // 10)
    fresh = cs.select(rows, losses, STEPS[-1], seed, clusters=second, engine=engine, progress=False)
    figures: dict[str, Any] = {"version": VERSION, "problem": problem.name, "seed": seed}
    for name, selection in (("grown", grown), ("fresh", fresh)):
        total = cs.estimate(selection, losses[selection.ids]).total
        figures[f"{name} error"] = float(total.value / losses.sum() - 1)
        figures[f"{name} width"] = float((total.high - total.low) / losses.sum())
    return figures


def runs() -> list[dict[str, Any]]:
    """Return the stored runs of this version."""
    lines = [json.loads(line) for line in RUNS.read_text().splitlines()] if RUNS.exists() else []
    return [run for run in lines if run.get("version", 1) == VERSION]


def report(measured: list[dict[str, Any]]) -> str:
    """Return the results as Markdown."""
    lines = [
        "# A selection that grew from 500 to 2,000 rows in three steps, compared with a new one of 2,000 rows",
        "",
        "*Width* is the mean width of the nominal 95 % interval of the total after growing, divided by that of the new",
        "selection, with a 95 % bootstrap interval over seeds. *Error* is the same ratio of root mean squared errors.",
        "*Covered* is how often the interval after growing contains the truth. *Bias* is the mean error after growing,",
        "divided by the root mean squared error.",
        "",
        "| problem | half | seeds | width, grown/fresh | error, grown/fresh | covered | bias |",
        "|---|---|---|---|---|---|---|",
    ]
    ratios, covered, missed = [], [], []
    for name in sorted({run["problem"] for run in measured}):
        runs = [run for run in measured if run["problem"] == name]
        errors, widths, new_errors, new_widths = (
            np.array([run[f"{which} {key}"] for run in runs])
            for which in ("grown", "fresh")
            for key in ("error", "width")
        )
        ratios.append(widths.mean() / new_widths.mean())
        low, high = ratio_interval(widths, new_widths)
        if low > 1.25:
            missed.append(name)
        # Intervals are a little skewed, but half of the width on each side is accurate enough for few seeds.
        contains_truth = np.abs(errors) <= widths / 2
        covered.append(contains_truth.mean())
        half = "tuning" if name in halves()[0] else "held-out"
        bias = errors.mean() / max(float(np.sqrt((errors**2).mean())), 1e-300)
        width = f"{ratios[-1]:.3f} ({low:.3f}–{high:.3f})"
        error = float(np.sqrt((errors**2).mean() / (new_errors**2).mean()))
        lines.append(f"| {name} | {half} | {len(runs)} | {width} | {error:.2f} | {covered[-1]:.2f} | {bias:+.2f} |")
    mean = float(np.exp(np.mean(np.log(ratios))))
    summary = f"Over all {len(ratios)} problems, the ratio of widths is {mean:.3f} on average (goal: at most 1.08) "
    summary += f"and at most {max(ratios):.3f} (goal: 1.25; its whole interval is above that on: "
    summary += f"{', '.join(missed) or 'none'}). The coverage is {np.mean(covered):.3f}."
    lines += ["", summary]
    return "\n".join(lines) + "\n"


def ratio_interval(grown: np.ndarray, fresh: np.ndarray) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the ratio of two means over the same seeds."""
    lines = np.random.default_rng(0).integers(grown.size, size=(2_000, grown.size))
    low, high = np.quantile(grown[lines].mean(axis=1) / fresh[lines].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


if __name__ == "__main__":
    main()
