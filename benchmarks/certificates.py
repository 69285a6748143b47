"""Coverage and width of the certificates' intervals, and the error of the estimators, over 2,000 seeds per problem.

For every problem of `problems.py` and each design, it draws with our default pilot and score, 20 clusterings × 100
draws. Uniform sampling without replacement gets the same kind of interval, on as many samples; its error is exact. If a
cheap model's losses are available, the difference and the regression estimator use them, on the same selections and on
those of `Proxy`. The paper's error comes from `results/estimation.json`.

    python -m benchmarks.certificates                 all problems, about a quarter of an hour on two cores
    python -m benchmarks.certificates holder          some of them (printed, not written)

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
LEAST_COVERAGE, WIDTH_MARGIN, PROXY_AIM = 0.93, 0.05, 0.45


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", default=[], help="names of problems; by default all")
    parser.add_argument("--seed", type=int, default=0, help="first seed of the draws")
    arguments = parser.parse_args()
    names = arguments.problems or list(SOURCES)
    for name in names:
        load_problem(name)  # built once, here, so that the processes find it in the cache
    with ProcessPoolExecutor(2) as pool:
        measured = list(pool.map(measure, names, [arguments.seed] * len(names)))
    text = table(measured)
    print(text)
    if not arguments.problems and arguments.seed == 0:
        (RESULTS / "certificates.json").write_text(json.dumps(measured, indent=1) + "\n")
        (RESULTS / "certificates.md").write_text(text)


def measure(name: str, first_seed: int) -> dict[str, Any]:
    """Every design and estimator on one problem."""
    problem = load_problem(name)
    rows, engine = cs.open_rows(problem.rows), cs.engines.Local(threads=1)
    seeds = range(first_seed, first_seed + CLUSTERINGS)
    clusterings = [cs.cluster(rows, problem.budget // 10, seed=seed, engine=engine) for seed in seeds]
    uniform = uniform_rmse(problem)
    by_chance = [facts(problem, uniform_selection(problem, seed)) for seed in range(first_seed, first_seed + 2000)]
    width = float(np.mean([one["width"] for one in by_chance]))
    found: dict[str, Any] = {
        "problem": name,
        "hard": problem.hard,
        "rows": len(problem.losses),
        "budget": problem.budget,
        "uniform coverage": float(np.mean([one["covered"] for one in by_chance])),
        "uniform width/exact": width / (2 * Z95 * uniform),
    }
    pilots = [Planned(clustering, problem.budget) for clustering in clusterings]
    parts: dict[str, dict[str, Any]] = {label: {"pilot": pilots, "design": one} for label, one in DESIGNS.items()}
    if problem.proxy is not None:
        parts["Proxy"] = {"score": cs.scores.Proxy(problem.proxy)}
    for label, options in parts.items():
        for method, runs in draws(problem, rows, clusterings, first_seed, options).items():
            errors = np.array([run["error"] for run in runs]).reshape(CLUSTERINGS, DRAWS)
            found[f"{label}, {method}"] = {
                "rmse/uniform": ratio(errors, np.full_like(errors, uniform)),
                "bias/rmse": float(errors.mean() / np.sqrt((errors**2).mean())),
                "width/uniform": float(np.mean([run["width"] for run in runs])) / width,
                "width/exact": float(np.mean([run["width"] for run in runs])) / (2 * Z95 * uniform),
                "coverage": float(np.mean([run["covered"] for run in runs])),
                "warned": float(np.mean([run["warned"] for run in runs])),
            }
    return found


class Planned(cs.pilots.Representatives):
    """Our default pilot, planned once per clustering: a plan has no randomness in it, and takes most of the time."""

    def __init__(self, clustering: cs.Clustering, budget: int) -> None:
        super().__init__()
        planned = super().plan(clustering, Frame(clustering.n, np.zeros(0), np.zeros(0)), budget)
        object.__setattr__(self, "_plan", planned)

    def plan(self, *_: Any) -> PilotPlan:
        """The plan made before."""
        return self._plan


def draws(
    problem: Problem, rows: cs.rows.Rows, clusterings: list[cs.Clustering], first_seed: int, options: dict[str, Any]
) -> dict[str, list[dict[str, float]]]:
    """The outcome of every estimator on 2,000 selections."""
    methods: dict[str, Any] = {"weighted": cs.estimators.HorvitzThompson()}
    if problem.proxy is not None:
        methods |= {
            "difference": cs.estimators.Difference(problem.proxy),
            "regression": cs.estimators.GeneralizedRegression(problem.proxy),
        }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in methods}
    fixed = {name: part for name, part in options.items() if name != "pilot"}
    pilots = options.get("pilot", [None] * len(clusterings))
    for number, (clustering, seed) in enumerate(pairs(clusterings, first_seed)):
        picked = cs.select(
            rows, problem.losses, problem.budget, seed, clusters=clustering, pilot=pilots[number // DRAWS], **fixed
        )
        for name, method in methods.items():
            found[name].append(facts(problem, picked, method))
    return found


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


def table(measured: list[dict[str, Any]]) -> str:
    """The results as Markdown."""
    return "\n".join([*interval_lines(measured), "", *estimator_lines(measured)]) + "\n"


def interval_lines(measured: list[dict[str, Any]]) -> list[str]:
    lines = [
        "# Certificates",
        "",
        f"Nominal 95 % intervals over {CLUSTERINGS} clusterings × {DRAWS} draws, default pilot and score. Error: ours",
        "over uniform's, with its 95 % bootstrap interval. Width: ours over that of the same interval on uniform",
        "samples; in brackets, over uniform's exact one. Hard problems have a warning instead of an aim: intervals",
        "cannot account for rows of a kind that was never drawn.",
        "",
        "| problem | design | error | width | width − error | coverage | warned | uniform's coverage |",
        "|---|---|---|---|---|---|---|---|",
    ]
    covered, narrow, asked = [], [], 0
    for one in measured:
        for label in DESIGNS:
            found = one[f"{label}, weighted"]
            error, low, high = found["rmse/uniform"]
            gap = found["width/uniform"] - error
            name = one["problem"] + (" (hard)" if one["hard"] else "")
            lines.append(
                f"| {name} | {label} | {error:.3f} ({low:.3f}–{high:.3f}) | {found['width/uniform']:.3f} "
                f"({found['width/exact']:.3f}) | {gap:+.3f} | {found['coverage']:.3f} | {found['warned']:.2f} "
                f"| {one['uniform coverage']:.3f} |"
            )
            if not one["hard"]:
                asked += 1
                covered += [found["coverage"] >= LEAST_COVERAGE]
                narrow += [abs(gap) <= WIDTH_MARGIN]
    lines.append("")
    lines.append(
        f"Coverage of at least {LEAST_COVERAGE:.0%}: {sum(covered)} of {asked} that are not hard. "
        f"Width within {WIDTH_MARGIN} of the error: {sum(narrow)} of {asked}."
    )
    return lines


def estimator_lines(measured: list[dict[str, Any]]) -> list[str]:
    paper = {one["problem"]: one["paper/uniform"][0] for one in json.loads((RESULTS / "estimation.json").read_text())}
    lines = [
        "# Estimators",
        "",
        "A cheap model's losses as predictions, or as the column of a regression. Error over the paper's (that of",
        "`estimation.json`); bias over error.",
        "",
        "| problem | selection | estimator | error / paper's | bias | coverage |",
        "|---|---|---|---|---|---|",
    ]
    for one in measured:
        for key, found in one.items():
            if not isinstance(found, dict) or "Proxy, weighted" not in one:
                continue
            selection, method = key.split(", ")
            error = found["rmse/uniform"][0] / paper[one["problem"]]
            tail = f"{error:.3f} | {found['bias/rmse']:+.3f} | {found['coverage']:.3f}"
            lines.append(f"| {one['problem']} | {selection} | {method} | {tail} |")
    lines += ["", f"The aim for Proxy with difference or regression on MNIST and Fashion-MNIST is {PROXY_AIM}."]
    return lines


if __name__ == "__main__":
    main()
