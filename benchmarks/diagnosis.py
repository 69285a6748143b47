"""Is the verdict of `diagnose` right? It is compared with measured errors, on every estimation problem.

For every problem of `problems.py`, `coresift.diagnose` is called with many seeds, each with its own clustering, probes
and splits, and with at most 200 probes besides the centers. The measured ratio of errors, ours / uniform, and its 95 %
bootstrap interval come from `results/estimation.json`. A verdict is wrong if it costs something:

    "use it" although ours is worse than uniform: the ratio is above 1.0;
    "sample uniformly" (or "with a proxy") although ours has at least a tenth less error: the ratio is below 0.9;
    "cannot tell from this many probes", unless the problem is hard: the textbook interval of a uniform sample covers
    the truth in less than 93 % of ten thousand samples (the same rule as in `estimation.md`).

The ratio is itself an estimate, so it counts as above or below a limit only if its whole interval is. The table also
says how often verdicts are right if the measured ratio is taken as exact and "cannot tell" is always wrong.

    python -m benchmarks.diagnosis                 all problems, about ten minutes of one core; can be interrupted
    python -m benchmarks.diagnosis --seeds 5       fewer seeds
    python -m benchmarks.diagnosis --half tuning   one half of the problems

Single verdicts are kept in `results/diagnosis.jsonl`, each with the version of the method. A run continues where the
last one of its version stopped, seed by seed over all problems. Writes `results/diagnosis.json` and
`results/diagnosis.md`. Two thresholds on how few rows may carry the loss were chosen while looking at the first
fourteen problems. The threshold on the ratio and which rows to probe were chosen on the tuning half, with seeds below
5,000; those reported begin there.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import Any

import numpy as np

import coresift as cs
from benchmarks.estimation import RESULTS, reference
from benchmarks.estimation_report import UNTRUSTED
from benchmarks.problems import PROBLEMS, Problem, halves, load_problem
from coresift.diagnosis import CANNOT_TELL, UNIFORM, USE, WITH_PROXY

SEEDS, FIRST_SEED = 20, 5_000
VERSION = 3  # increase this when verdicts change, so that those of different versions are not mixed
RUNS = RESULTS / "diagnosis.jsonl"
SHORT = {USE: "use", WITH_PROXY: "proxy", UNIFORM: "uniform", CANNOT_TELL: "cannot tell"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many seeds")
    parser.add_argument("--half", choices=("tuning", "held-out"), help="only one half of the problems")
    parser.add_argument("--report", action="store_true", help="only write the tables")
    arguments = parser.parse_args()
    tuning, held_out = halves()
    names = {"tuning": tuning, "held-out": held_out, None: list(PROBLEMS)}[arguments.half]
    done = {(run["problem"], run["seed"]) for run in runs()}
    for seed in () if arguments.report else range(FIRST_SEED, FIRST_SEED + arguments.seeds):
        for name in names:
            if (name, seed) not in done:
                with RUNS.open("a") as file:
                    file.write(json.dumps(run_once(load_problem(name), seed)) + "\n")
                print(name, seed, flush=True)
    measured = [summary(name) for name in PROBLEMS if any(run["problem"] == name for run in runs())]
    text = table(measured)
    print(text)
    (RESULTS / "diagnosis.json").write_text(json.dumps(measured, indent=1) + "\n")
    (RESULTS / "diagnosis.md").write_text(text)


def runs() -> list[dict[str, Any]]:
    """Return the stored verdicts of this version."""
    lines = [json.loads(line) for line in RUNS.read_text().splitlines()] if RUNS.exists() else []
    return [run for run in lines if run.get("version", 1) == VERSION]


def run_once(problem: Problem, seed: int) -> dict[str, Any]:
    """Return the verdict with one seed, and with a cheap model's losses as a proxy, if there are any."""
    rows, engine = cs.open_rows(problem.rows), cs.engines.Local(threads=1)
    options: dict[str, Any] = {"engine": engine, "progress": False}
    clustering = cs.cluster(rows, problem.budget // 10, seed=seed, **options)
    diagnosis = cs.diagnose(rows, problem.losses, problem.budget, seed, clusters=clustering, **options)
    run = {
        "version": VERSION,
        "problem": problem.name,
        "seed": seed,
        "verdict": SHORT[diagnosis.verdict],
        "ratio": [diagnosis.ratio.value, diagnosis.ratio.low, diagnosis.ratio.high],
        "explained": diagnosis.explained.value,
        "asked": diagnosis.ledger.asked,
        "probes": int(diagnosis.probes.size),
    }
    if problem.proxy is not None:
        with_proxy = {"clusters": clustering, "proxy": problem.proxy, **options}
        advice = cs.diagnose(rows, problem.losses, problem.budget, seed, **with_proxy)
        assert advice.proxy_ratio is not None
        run |= {"proxy": advice.proxy_ratio.value, "advised": advice.verdict == WITH_PROXY}
    return run


def summary(name: str) -> dict[str, Any]:
    """Return the figures of one problem over all seeds."""
    truth, verdict_runs = measured_ratios()[name], [run for run in runs() if run["problem"] == name]
    (ours, low, high), ratios = truth["ours/uniform"], np.array([run["ratio"] for run in verdict_runs])
    verdicts = Counter(run["verdict"] for run in verdict_runs)
    hard = reference(load_problem(name))["uniform covers"] < UNTRUSTED
    result = {
        "problem": name,
        "half": "tuning" if name in halves()[0] else "held-out",
        "seeds": len(verdict_runs),
        "measured": ours,
        "interval": [low, high],
        "hard": hard,
        "right": sum(verdicts[verdict] for verdict in right_verdicts(low, high, hard)) / len(verdict_runs),
        "right, strictly": sum(verdicts[verdict] for verdict in right_verdicts(ours, ours, False)) / len(verdict_runs),
        "verdicts": dict(verdicts),
        "predicted": float(ratios[:, 0].mean()),
        "deviation": float(ratios[:, 0].std()),
        "covered": float(np.mean((ratios[:, 1] <= ours) & (ours <= ratios[:, 2]))),
        "explained": float(np.mean([run["explained"] for run in verdict_runs])),
        "asked": max(run["asked"] for run in verdict_runs),
        "probes": max(run["probes"] for run in verdict_runs),
    }
    if "proxy" in verdict_runs[0] and "proxy/uniform" in truth:
        result["proxy measured"] = truth["proxy/uniform"][0]
        result["proxy predicted"] = float(np.mean([run["proxy"] for run in verdict_runs]))
        result["proxy advised"] = float(np.mean([run["advised"] for run in verdict_runs]))
    return result


def measured_ratios() -> dict[str, dict[str, Any]]:
    """Return the figures of `benchmarks.estimation`, by problem."""
    return {problem["problem"]: problem for problem in json.loads((RESULTS / "estimation.json").read_text())}


def right_verdicts(low: float, high: float, hard: bool) -> list[str]:
    """Return the verdicts that agree with a measured ratio between `low` and `high`."""
    use = ["use"] if low <= 1.0 else []
    uniform = ["uniform", "proxy"] if high >= 0.9 else []
    return [*use, *uniform, *(["cannot tell"] if hard else [])]


def table(measured: list[dict[str, Any]]) -> str:
    """Return the results as Markdown."""
    lines = [
        "# Is the verdict right?",
        "",
        f"`diagnose` ran with {measured[0]['seeds']} seeds per problem, and at most 200 probes in addition to the",
        "centers. *Measured* is the ratio of errors, ours / uniform, in `estimation.md`. *Predicted* is the mean and",
        "standard deviation of the ratio that `diagnose` predicts, and *covered* is how often its nominal 95 %",
        "interval contains the measured ratio. *Right* is defined in `benchmarks/diagnosis.py`. *Strictly* takes the",
        "measured ratio as exact, and counts “cannot tell” as wrong.",
        "",
        "| problem | half | measured | predicted | covered | use | uniform | cannot tell | right | strictly | asked |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for problem in measured:
        counts = " | ".join(f"{problem['verdicts'].get(verdict, 0)}" for verdict in ("use", "uniform", "cannot tell"))
        predicted = f"{problem['predicted']:.3f} ± {problem['deviation']:.3f} | {problem['covered']:.2f}"
        results = f"{counts} | {problem['right']:.2f} | {problem['right, strictly']:.2f} | {problem['asked']}"
        name = f"{problem['problem']}{' (hard)' if problem['hard'] else ''} | {problem['half']}"
        truth = "{:.3f} ({:.3f}–{:.3f})".format(problem["measured"], *problem["interval"])
        lines.append(f"| {name} | {truth} | {predicted} | {results} |")
    lines.append("")
    for label, problems in (
        ("All problems", measured),
        *(
            (f"{half} half", [problem for problem in measured if problem["half"] == half])
            for half in ("tuning", "held-out")
        ),
    ):
        enough, strictly = (sum(problem[key] >= 0.8 for problem in problems) for key in ("right", "right, strictly"))
        lines.append(
            f"{label}: right in at least 80 % of the seeds on {enough} of {len(problems)} (strictly: {strictly})."
        )
    lines.append("")
    lines += [
        "With a cheap model's losses as a proxy:",
        "",
        "| problem | proxy / uniform, measured | predicted | advised |",
        "|---|---|---|---|",
    ]
    for problem in (problem for problem in measured if "proxy measured" in problem):
        lines.append(
            f"| {problem['problem']} | {problem['proxy measured']:.3f} | {problem['proxy predicted']:.3f} | "
            f"{problem['proxy advised']:.2f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
