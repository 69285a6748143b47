"""Is the verdict of `diagnose` right? Held against measured errors, on every estimation problem.

For every problem of `problems.py`, `coresift.diagnose` is called with many seeds, each with its own clustering, probes
and splits, at most 200 probes besides the centers. The measured ratio of errors, ours / uniform, is read from
`results/estimation.json`. The verdict is right when it is

    "use it" where the ratio is below 0.9; "sample uniformly" or "use it with a proxy" where it is above 1.0;
    any of these three where it lies between;
    "cannot tell from this many probes" for the problem whose loss sits in half a percent of the rows.

    python -m benchmarks.diagnosis                 all problems, about ten minutes of one core; can be interrupted
    python -m benchmarks.diagnosis --seeds 5       fewer seeds

Single verdicts are kept in `results/diagnosis.jsonl`, and a run goes on where the last one stopped; all problems get
one seed after the other. Writes `results/diagnosis.json` and `results/diagnosis.md`. The rule (one threshold, halfway
between 0.9 and 1.0, and two on how few rows may carry the loss) was chosen while looking at the first fourteen
problems, with seeds below 1,000; those reported begin at 5,000.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import Any

import numpy as np

import coresift as cs
from benchmarks.estimation import RESULTS
from benchmarks.problems import PROBLEMS, Problem, halves, load_problem
from coresift.diagnosis import CANNOT_TELL, UNIFORM, USE, WITH_PROXY

SEEDS, FIRST_SEED = 20, 5_000
RUNS = RESULTS / "diagnosis.jsonl"
SHORT = {USE: "use", WITH_PROXY: "proxy", UNIFORM: "uniform", CANNOT_TELL: "cannot tell"}
RARE = ("rare-cluster",)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many seeds")
    parser.add_argument("--report", action="store_true", help="ask nothing, write the tables")
    arguments = parser.parse_args()
    done = {(run["problem"], run["seed"]) for run in runs()}
    for seed in () if arguments.report else range(FIRST_SEED, FIRST_SEED + arguments.seeds):
        for name in PROBLEMS:
            if (name, seed) not in done:
                with RUNS.open("a") as file:
                    file.write(json.dumps(diagnosed(load_problem(name), seed)) + "\n")
                print(name, seed, flush=True)
    measured = [summary(name) for name in PROBLEMS if any(run["problem"] == name for run in runs())]
    text = table(measured)
    print(text)
    (RESULTS / "diagnosis.json").write_text(json.dumps(measured, indent=1) + "\n")
    (RESULTS / "diagnosis.md").write_text(text)


def runs() -> list[dict[str, Any]]:
    """The verdicts so far."""
    return [json.loads(line) for line in RUNS.read_text().splitlines()] if RUNS.exists() else []


def diagnosed(problem: Problem, seed: int) -> dict[str, Any]:
    """The verdict with one seed, with a cheap model's losses as a proxy where there are some."""
    rows, engine = cs.open_rows(problem.rows), cs.engines.Local(threads=1)
    options: dict[str, Any] = {"engine": engine, "progress": False}
    clustering = cs.cluster(rows, problem.budget // 10, seed=seed, **options)
    found = cs.diagnose(rows, problem.losses, problem.budget, seed, clusters=clustering, **options)
    run = {
        "problem": problem.name,
        "seed": seed,
        "verdict": SHORT[found.verdict],
        "ratio": [found.ratio.value, found.ratio.low, found.ratio.high],
        "explained": found.explained.value,
        "asked": found.ledger.asked,
        "probes": int(found.probes.size),
    }
    if problem.proxy is not None:
        told = {"clusters": clustering, "proxy": problem.proxy, **options}
        helped = cs.diagnose(rows, problem.losses, problem.budget, seed, **told)
        assert helped.proxy_ratio is not None
        run |= {"proxy": helped.proxy_ratio.value, "advised": helped.verdict == WITH_PROXY}
    return run


def summary(name: str) -> dict[str, Any]:
    """All seeds of one problem."""
    truth, found = measured_ratios()[name], [run for run in runs() if run["problem"] == name]
    ours, ratios = truth["ours/uniform"][0], np.array([run["ratio"] for run in found])
    verdicts = Counter(run["verdict"] for run in found)
    result = {
        "problem": name,
        "half": "tuning" if name in halves()[0] else "held-out",
        "seeds": len(found),
        "measured": ours,
        "right": sum(verdicts[verdict] for verdict in right_verdicts(load_problem(name), ours)) / len(found),
        "verdicts": dict(verdicts),
        "predicted": float(ratios[:, 0].mean()),
        "deviation": float(ratios[:, 0].std()),
        "covered": float(np.mean((ratios[:, 1] <= ours) & (ours <= ratios[:, 2]))),
        "explained": float(np.mean([run["explained"] for run in found])),
        "asked": max(run["asked"] for run in found),
        "probes": max(run["probes"] for run in found),
    }
    if "proxy" in found[0] and "proxy/uniform" in truth:
        result["proxy measured"] = truth["proxy/uniform"][0]
        result["proxy predicted"] = float(np.mean([run["proxy"] for run in found]))
        result["proxy advised"] = float(np.mean([run["advised"] for run in found]))
    return result


def measured_ratios() -> dict[str, dict[str, Any]]:
    """What `benchmarks.estimation` measured, by problem."""
    return {one["problem"]: one for one in json.loads((RESULTS / "estimation.json").read_text())}


def right_verdicts(problem: Problem, ratio: float) -> tuple[str, ...]:
    """The verdicts that agree with the measured ratio."""
    if problem.name in RARE:
        return ("cannot tell",)
    if ratio < 0.9:
        return ("use",)
    return ("uniform", "proxy") if ratio > 1.0 else ("use", "uniform", "proxy")


def table(measured: list[dict[str, Any]]) -> str:
    """The results as Markdown."""
    lines = [
        "# Is the verdict right?",
        "",
        f"`diagnose` with {measured[0]['seeds']} seeds a problem, at most 200 probes besides the centers. Measured:",
        "the ratio of errors, ours / uniform, of `estimation.md`. Predicted: mean and standard deviation of what",
        "`diagnose` says it is; covered: how often its nominal 95 % interval holds the measured one. Right: as defined",
        "in `benchmarks/diagnosis.py`.",
        "",
        "| problem | measured | predicted | covered | use | uniform | cannot tell | right | losses asked |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in measured:
        counts = " | ".join(f"{one['verdicts'].get(verdict, 0)}" for verdict in ("use", "uniform", "cannot tell"))
        predicted = f"{one['predicted']:.3f} ± {one['deviation']:.3f} | {one['covered']:.2f}"
        tail = f"{counts} | {one['right']:.2f} | {one['asked']}"
        lines.append(f"| {one['problem']} | {one['measured']:.3f} | {predicted} | {tail} |")
    enough = sum(one["right"] >= 0.8 for one in measured)
    lines += ["", f"Right in at least 80 % of the seeds: {enough} of {len(measured)} problems.", ""]
    lines += [
        "With a cheap model's losses as a proxy:",
        "",
        "| problem | proxy / uniform, measured | predicted | advised |",
        "|---|---|---|---|",
    ]
    for one in (one for one in measured if "proxy measured" in one):
        lines.append(
            f"| {one['problem']} | {one['proxy measured']:.3f} | {one['proxy predicted']:.3f} | "
            f"{one['proxy advised']:.2f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
