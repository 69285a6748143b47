"""Coverage and width of the certificates' intervals, and the error of the estimators, over many seeds per problem.

For every problem of `problems/` and each design, this draws many selections with our default pilot and score. Uniform
sampling without replacement gets the same kind of interval, on 2,000 samples; its error is exact. If a cheap model's
losses are available, the difference and the regression estimator use them, on the same selections and on those of
`Proxy`. The paper's error comes from `results/estimation.json`.

    python -m benchmarks.certificates                 all problems, about half an hour on two cores
    python -m benchmarks.certificates holder          only these problems (printed, not written)

Writes `results/certificates.json` and `results/certificates.md`.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

import coresift as cs
from benchmarks.estimation import CLUSTERINGS, DRAWS, RESULTS, pairs, ratio, uniform_rmse
from benchmarks.problems import SOURCES, Problem, load_problem
from coresift.types import Frame, PilotPlan, Provenance

DESIGNS = {
    "Independent": cs.designs.Independent(),
    "Systematic": cs.designs.Systematic(),
    "Pivotal": cs.designs.Pivotal(),
}
Z95 = 1.959964
LEAST_COVERAGE, WIDTH_MARGIN, PROXY_GOAL = 0.93, 0.05, 0.45


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", default=[], help="names of problems; by default all")
    parser.add_argument("--seed", type=int, default=0, help="the first seed of the draws")
    arguments = parser.parse_args()
    names = arguments.problems or list(SOURCES)
    for name in names:
        load_problem(name)  # build it once, so that the processes find it in the cache
    with ProcessPoolExecutor(2) as pool:
        problems = list(pool.map(measure, names, [arguments.seed] * len(names)))
    text = table(problems)
    print(text)
    if not arguments.problems and arguments.seed == 0:
        (RESULTS / "certificates.json").write_text(json.dumps(problems, indent=1) + "\n")
        (RESULTS / "certificates.md").write_text(text)


def measure(name: str, first_seed: int) -> dict[str, Any]:
    """Measure every design and estimator on one problem."""
    problem = load_problem(name)
    rows, engine = cs.open_rows(problem.rows), cs.engines.Local(threads=1)
    seeds = range(first_seed, first_seed + CLUSTERINGS)
    clusterings = [cs.cluster(rows, problem.budget // 10, seed=seed, engine=engine) for seed in seeds]
    uniform = uniform_rmse(problem)
    samples = [facts(problem, uniform_selection(problem, seed)) for seed in range(first_seed, first_seed + 2000)]
    width = float(np.mean([sample["width"] for sample in samples]))
    figures: dict[str, Any] = {
        "problem": name,
        "hard": problem.hard,
        "rows": len(problem.losses),
        "budget": problem.budget,
        "uniform coverage": float(np.mean([sample["covered"] for sample in samples])),
        "uniform width/exact": width / (2 * Z95 * uniform),
    }
    pilots = [PilotWithPlan(clustering, problem.budget) for clustering in clusterings]
    strategies: dict[str, dict[str, Any]] = {
        label: {"pilot": pilots, "design": design} for label, design in DESIGNS.items()
    }
    if problem.proxy is not None:
        strategies["Proxy"] = {"score": cs.scores.Proxy(problem.proxy)}
    for label, options in strategies.items():
        for method, runs in draws(problem, rows, clusterings, first_seed, options).items():
            errors = np.array([run["error"] for run in runs]).reshape(CLUSTERINGS, DRAWS)
            figures[f"{label}, {method}"] = {
                "rmse/uniform": ratio(errors, np.full_like(errors, uniform)),
                "bias/rmse": float(errors.mean() / np.sqrt((errors**2).mean())),
                "width/uniform": float(np.mean([run["width"] for run in runs])) / width,
                "width/exact": float(np.mean([run["width"] for run in runs])) / (2 * Z95 * uniform),
                "coverage": float(np.mean([run["covered"] for run in runs])),
                "warned": float(np.mean([run["warned"] for run in runs])),
            }
    return figures


class PilotWithPlan(cs.pilots.Representatives):
    """Our default pilot, planned once per clustering: the plan is deterministic and takes most of the time."""

    def __init__(self, clustering: cs.Clustering, budget: int) -> None:
        super().__init__()
        plan = super().plan(clustering, Frame(clustering.n, np.zeros(0), np.zeros(0)), budget)
        object.__setattr__(self, "_plan", plan)

    def plan(self, *_: Any) -> PilotPlan:
        """Return the stored plan."""
        return self._plan


def draws(
    problem: Problem, rows: cs.rows.Rows, clusterings: list[cs.Clustering], first_seed: int, options: dict[str, Any]
) -> dict[str, list[dict[str, float]]]:
    """Return the results of every estimator on all selections."""
    methods: dict[str, Any] = {"weighted": cs.estimators.HorvitzThompson()}
    if problem.proxy is not None:
        methods |= {
            "difference": cs.estimators.Difference(problem.proxy),
            "regression": cs.estimators.GeneralizedRegression(problem.proxy),
        }
    results: dict[str, list[dict[str, float]]] = {name: [] for name in methods}
    fixed = {name: part for name, part in options.items() if name != "pilot"}
    pilots = options.get("pilot", [None] * len(clusterings))
    for number, (clustering, seed) in enumerate(pairs(clusterings, first_seed)):
        picked = cs.select(
            rows, problem.losses, problem.budget, seed, clusters=clustering, pilot=pilots[number // DRAWS], **fixed
        )
        for name, method in methods.items():
            results[name].append(facts(problem, picked, method))
    return results


def facts(problem: Problem, picked: cs.WeightedSelection, method: Any = None) -> dict[str, float]:
    """Return what a certificate says, and how it compares with the truth."""
    certificate = cs.certify(picked, problem.losses[picked.ids], method=method)
    total, truth = certificate.statistical.estimate.total, problem.losses.sum()
    return {
        "error": total.value - truth,
        "covered": total.low <= truth <= total.high,
        "width": total.high - total.low,
        "warned": bool(certificate.warnings),
    }


def uniform_selection(problem: Problem, seed: int) -> cs.WeightedSelection:
    """Return a uniform sample without replacement: a systematic draw along a random order."""
    n, size = len(problem.losses), problem.budget
    rng = np.random.default_rng([seed, 7])
    return cs.WeightedSelection(
        ids=np.sort(rng.choice(n, size, replace=False)),
        weights=np.full(size, n / size),
        inclusion=np.full(size, size / n),
        share=np.zeros(size),
        clusters=np.zeros(size),
        distances=np.zeros(size),
        origin=np.full(size, 3),
        phase=np.full(size, 2),
        order=rng.permutation(size),
        multiplicity=np.ones(size),
        losses=np.full(size, np.nan),
        n=n,
        population=n,
        seed=seed,
        z=2.0,
        phases=(None, cs.designs.Systematic()),
        provenance=Provenance("uniform", size, None, Frame(n, np.zeros(0), np.zeros(0)).record(), None, {}),
        ledger=cs.types.Ledger(),
    )


def table(problems: list[dict[str, Any]]) -> str:
    """Return the results as Markdown."""
    return "\n".join([*interval_lines(problems), "", *estimator_lines(problems)]) + "\n"


def interval_lines(problems: list[dict[str, Any]]) -> list[str]:
    lines = [
        "# Certificates",
        "",
        f"Nominal 95 % intervals over {CLUSTERINGS} clusterings × {DRAWS} draws, with our default pilot and score.",
        "*Error* is our error divided by that of uniform sampling, with a 95 % bootstrap interval. *Width* is our",
        "width divided by that of the same interval on uniform samples (in parentheses: by the exact width for uniform",
        "sampling). The goals below do not count hard problems, which should get a warning instead: intervals cannot",
        "account for kinds of rows that were never drawn.",
        "",
        "| problem | design | error | width | width − error | coverage | share with a warning | uniform's coverage |",
        "|---|---|---|---|---|---|---|---|",
    ]
    covered, narrow = [], []
    for problem in problems:
        for label in DESIGNS:
            figures = problem[f"{label}, weighted"]
            error, low, high = figures["rmse/uniform"]
            gap = figures["width/uniform"] - error
            name = problem["problem"] + (" (hard)" if problem["hard"] else "")
            lines.append(
                f"| {name} | {label} | {error:.3f} ({low:.3f}–{high:.3f}) | {figures['width/uniform']:.3f} "
                f"({figures['width/exact']:.3f}) | {gap:+.3f} | {figures['coverage']:.3f} | {figures['warned']:.2f} "
                f"| {problem['uniform coverage']:.3f} |"
            )
            if not problem["hard"]:
                covered += [figures["coverage"] >= LEAST_COVERAGE]
                narrow += [abs(gap) <= WIDTH_MARGIN]
    lines.append("")
    lines.append(
        f"Without hard problems, coverage is at least {LEAST_COVERAGE:.0%} in {sum(covered)} of {len(covered)} cases, "
        f"and the width is within {WIDTH_MARGIN} of the error in {sum(narrow)} of {len(narrow)}."
    )
    return lines


def estimator_lines(problems: list[dict[str, Any]]) -> list[str]:
    estimation = json.loads((RESULTS / "estimation.json").read_text())
    paper = {problem["problem"]: problem["paper/uniform"][0] for problem in estimation}
    lines = [
        "# Estimators",
        "",
        "A cheap model's losses are the predictions of the difference, or the column of the regression. Errors are",
        "divided by the paper's error (in `estimation.json`), and biases by the estimator's own error.",
        "",
        "| problem | selection | estimator | error / paper's error | bias / error | coverage |",
        "|---|---|---|---|---|---|",
    ]
    for problem in problems:
        for key, figures in problem.items():
            if not isinstance(figures, dict) or "Proxy, weighted" not in problem:
                continue
            selection, method = key.split(", ")
            error = figures["rmse/uniform"][0] / paper[problem["problem"]]
            cells = f"{error:.3f} | {figures['bias/rmse']:+.3f} | {figures['coverage']:.3f}"
            lines.append(f"| {problem['problem']} | {selection} | {method} | {cells} |")
    lines += ["", f"The goal for Proxy with difference or regression on MNIST and Fashion-MNIST is {PROXY_GOAL}."]
    return lines


if __name__ == "__main__":
    main()
