"""How close are the estimates of Λ to the truth, on the problems of `problems/`?

    python -m benchmarks.holder                     all problems, some minutes
    python -m benchmarks.holder holder pareto       only these problems (printed, not written)

For every problem and ten clusterings (k = 50 and 200), this measures the 80th percentile of the ratios that `free` and
`robust` saw, divided by that of the true ratios of all rows; the same for their Λ, one per cluster; the probability
mass of the rows above the robust Λ (the paper's remark allows 1/k); and in how many clusterings the lemma's Λ bounds
every cluster. The table has geometric means over the clusterings, and the range. Writes `results/holder.json` and
`results/holder.md`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import coresift as cs
from benchmarks.problems import SOURCES, Problem, load_problem

RESULTS = Path(__file__).parent / "results"
CLUSTERINGS = 10
SIZES = (50, 200)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", help="names of problems; by default all")
    names = parser.parse_args().problems
    cases = [measure(load_problem(name), k) for name in names or SOURCES for k in SIZES]
    text = table(cases)
    print(text)
    if not names:
        (RESULTS / "holder.json").write_text(json.dumps(cases, indent=1) + "\n")
        (RESULTS / "holder.md").write_text(text)


def measure(problem: Problem, k: int) -> dict[str, Any]:
    rows = cs.open_rows(problem.rows)
    runs = [compare(rows, problem.losses, k, seed) for seed in range(CLUSTERINGS)]
    facts = {name: [run[name] for run in runs] for name in runs[0]}
    return {"problem": problem.name, "kind": problem.kind, "k": k, **facts}


def compare(rows: cs.rows.Rows, losses: np.ndarray, k: int, seed: int) -> dict[str, float]:
    clustering = cs.cluster(rows, k, seed=seed)
    levels, powers = losses[clustering.centers][clustering.labels], clustering.powers
    away = powers > 0
    true = np.abs(losses - levels)[away] / powers[away]
    free, robust, lemma = (
        cs.theory.estimate_holder(clustering, losses, rows, method, seed=seed)
        for method in ("free", "robust", "estimate")
    )
    mass = levels + robust.values[clustering.labels] * powers
    above = np.abs(losses - levels) > robust.values[clustering.labels] * powers
    largest = np.zeros(clustering.k)
    np.maximum.at(largest, clustering.labels[away], true)
    truth = float(np.percentile(true, 80))
    return {
        "free": ratio(free.percentile(80), truth),
        "robust": ratio(robust.percentile(80), truth),
        "free Λ": ratio(float(np.percentile(free.values, 80)), truth),
        "robust Λ": ratio(float(np.percentile(robust.values, 80)), truth),
        "mass above robust × k": float(mass[above].sum() / mass.sum() * k),
        "lemma bounds all": float(np.all(lemma.values >= largest)),
        "losses of the lemma": float(lemma.queries),
    }


def ratio(estimate: float, truth: float) -> float:
    """Return the estimate divided by the truth; 1 if both are zero."""
    if estimate == truth == 0:
        return 1.0
    return estimate / truth if truth else float("inf")


def table(cases: list[dict[str, Any]]) -> str:
    """Return the figures as a page."""
    lines = [
        "# Estimates of Λ",
        "",
        "80th percentiles of the estimates, divided by the 80th percentile of the true ratios of all rows: the",
        f"geometric mean of {CLUSTERINGS} clusterings (or the median, if a value is 0), and the range. *Ratios* are",
        "those of the rows whose losses were asked for; *Λ* is one number per cluster. Rows with 1/k of the",
        "probability mass should exceed the robust Λ, and no row the lemma's. The lemma's assumption, p = ½, holds on",
        "few of these problems.",
        "",
        "| problem | k | free, ratios | robust, ratios | free, Λ | robust, Λ | mass above robust Λ × k | lemma holds "
        "| lemma's losses |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for facts in cases:
        cells = [spread(facts[name]) for name in ("free", "robust", "free Λ", "robust Λ")]
        cells += [f"{np.mean(facts['mass above robust × k']):.2f}", f"{np.mean(facts['lemma bounds all']):.0%}"]
        cells += [f"{np.mean(facts['losses of the lemma']):,.0f}"]
        lines.append(f"| {facts['problem']} | {facts['k']} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def spread(values: list[float]) -> str:
    if not np.all(np.isfinite(values)):
        return "the truth is 0"
    if min(values) <= 0:
        return f"{np.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"
    return f"{np.exp(np.mean(np.log(values))):.2f} ({min(values):.2f}–{max(values):.2f})"


if __name__ == "__main__":
    main()
