"""Write the evaluation benchmark's report: tables and a plot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.evaluation import history_limits, history_study, oracle, published_factors
from benchmarks.evaluation.peers import NAMES
from benchmarks.evaluation.study import OURS, OURS_UNIFORM, RESULTS, Runs, read

Facts = dict[str, Any]
Floats = NDArray[np.float64]
# The coverage of an interval is acceptable within these limits.
LEAST_COVERAGE, MOST_COVERAGE = 0.93, 0.97
METHODS = (OURS, OURS_UNIFORM, *NAMES)


def write_report(folder: Path) -> str:
    """Write `evaluation.md`, `.json` and `.svg` from the stored runs."""
    all_cases = cases()
    text = f"# How many answers does it take to measure a model's accuracy?\n\n{ABOUT}\n"
    for role, title in (("reported", "Populations not used for tuning"), ("tuning", "Populations used for tuning")):
        in_role = [case for case in all_cases if case["role"] == role]
        if in_role:
            text += f"## {title}\n\n{verdict(in_role)}\n\n" + "".join(map(table, in_role))
    text += oracle.text()
    past = history_study.cases()
    if past:
        text += f"## With the results of earlier models\n\n{PAST}\n"
        text += f"{SIMULATED}\n" if any(case["table"] == "simulated" for case in past) else ""
        text += f"{history_study.table_text(past)}\n{history_study.halves()}\n"
        text += f"{LIMITS}\n{history_study.ceilings()}{history_limits.text()}\n{published_factors.text()}\n"
    text += "![RMSE by method](evaluation.svg)\n"
    (folder / "evaluation.md").write_text(text)
    (folder / "evaluation.json").write_text(json.dumps({"cases": all_cases, "history": past}, indent=1) + "\n")
    plot(all_cases, folder / "evaluation.svg")
    return verdict([case for case in all_cases if case["role"] == "reported"])


ABOUT = """All methods get the same number of answers on the same population, and the truth is known. (Active inference
and glide's active sampler get that number on average.) RMSE and width are multiplied by 100. Coverage is that of 95 %
intervals. The effective sample size (ESS) says how many times as many uniform rows would have had the same RMSE. The
RMSE of uniform rows is known exactly, √(S²/m·(1 − m/n)), so the ESS of the line *uniform* differs from 1 only by
chance. *Coresift, uniform rows* is our interval when nothing is known about the rows. Bold marks the smallest RMSE
among methods whose intervals cover the truth in 93–97 % of the runs. `python -m benchmarks.evaluation` runs what is
missing and writes this page; single runs are in `evaluation/`. Classifiers are fit on the machine that runs the study,
and a few of 10,000 answers depend on its processor; runs of other methods are kept when that happens.
"""

PAST = """Each model takes a turn as the new one. Its answers cost money, and the other models' answers are known. The
figures are medians over the new models, with 500 runs for each on AlpacaEval and 40 on the simulated table. Every new
model has seeds of its own, so that the luck of a seed does not hit all models alike. AlpacaEval has 805 instructions
and 57 models, and a judge says whether it prefers the model's answer to the reference answer. *ESS by error* and *ESS
by width* are relative to a textbook interval from uniform rows. *ESS by the paper's width* is relative to the uniform
baseline of FAQ's paper (arXiv 2601.20251), which is wider, because it uses Horvitz–Thompson weights and independent
draws. FAQ is our implementation of the paper. It has the same options for all budgets (τ = 0.25, ρ = 0.05), not
options tuned for each budget. How it does with the options and the factors that its authors published is in a table of
its own below.

The table mixes two judges and two reference models. The lines with *kinds* know who judged each model against which
reference (`cs.signals.history(results, kinds=…)`), and *FAQ, same kind* learns its factors only from models that were
judged in the same way. *Kinds and texts* also knows the texts of all answers, which exist before they are judged.
"""

LIMITS = """What is the most that any method could gain? A ridge regression on all other models sees nine tenths of
*all* answers of the new model, and explains a share R² of the variance of the rest. With this prediction, uniform rows
have an ESS by error of 1/(1 − R²):
"""

SIMULATED = """*Simulated* draws 12,032 items and 200 models from factors. Their spread was chosen so that FAQ comes
close to its published 4.3 at 5 % of the items; the other three numbers of answers are then a check. The methods do not
know these factors; they learn factors from the other models' answers.
"""


def cases() -> list[Facts]:
    """Return the figures of all cases that have runs of uniform rows and of at least one other method."""
    all_cases = []
    for path in sorted(RESULTS.glob("runs-*.npz")):
        runs = read(path)
        for budget in sorted({key[0] for key in runs.lines}):
            by_method = {name: lines for name in METHODS if len(lines := runs.most(budget, name)[0])}
            if "uniform" in by_method and len(by_method) > 1:
                all_cases.append(_case(runs, budget, by_method))
    return all_cases


def _case(runs: Runs, budget: int, by_method: dict[str, Floats]) -> Facts:
    case: Facts = {"population": runs.name, "role": runs.role, "rows": runs.rows, "answers": budget}
    case |= {"truth": runs.truth, "version": runs.most(budget, OURS)[1], "methods": {}}
    for method, lines in by_method.items():
        figures: Facts = measures(lines, runs.truth)
        figures["effective_sample_size"] = (runs.uniform_error(budget) / figures["rmse"]) ** 2
        case["methods"][method] = figures
    return case


def measures(lines: Floats, truth: float) -> dict[str, float]:
    """Return the RMSE, bias, mean width and coverage, and the number of seeds."""
    value, low, high = lines.T
    return {
        "seeds": len(lines),
        "rmse": float(np.sqrt(np.mean((value - truth) ** 2))),
        "bias": float(np.mean(value) - truth),
        "width": float(np.mean(high - low)),
        "coverage": float(np.mean((low <= truth) & (truth <= high))),
    }


def best(case: Facts) -> str | None:
    """Return the method with the smallest RMSE among those with acceptable coverage."""
    acceptable = {
        name: figures
        for name, figures in case["methods"].items()
        if LEAST_COVERAGE <= figures["coverage"] <= MOST_COVERAGE
    }
    return min(acceptable, key=lambda name: acceptable[name]["rmse"]) if acceptable else None


def verdict(cases: list[Facts]) -> str:
    """Return in how many cases coresift is best, how far it is behind in the others, and how wide its intervals are."""
    ours = [case for case in cases if OURS in case["methods"]]
    if not ours:
        return "There are no runs of coresift yet."
    won = [case for case in ours if best(case) == OURS]
    text = f"Coresift has the smallest RMSE with a coverage of .93–.97 in {len(won)} of {len(ours)} cases"
    lost = [f"{case['population']} at {case['answers']:,} ({best(case)})" for case in ours if best(case) != OURS]
    text += f". The exceptions (with the best method): {'; '.join(lost)}." if lost else "."
    if lost:
        excess, noise = 100 * max(map(_excess, ours)), 100 * _noise(ours)
        text += f" There, coresift's RMSE is at most {excess:.1f} % above the smallest."
        text += f" A ratio of two such RMSEs has a standard error of {noise:.1f} %,"
        clear = sum(_excess(case) > 2 * _noise([case]) for case in ours)
        text += f" and the difference is above two standard errors in {clear or 'none'} of the cases."
    text += f" {_whatever_coverage(ours)} {_on_average(ours)}"
    sizes = {_title(case): float(case["methods"][OURS].get("effective_sample_size", np.nan)) for case in ours}
    least = min(sizes, key=lambda name: sizes[name])
    text += f" Coresift's ESS is at least {sizes[least]:.2f} ({least})."
    with_uniform = [case for case in ours if OURS_UNIFORM in case["methods"]]
    if with_uniform:
        ratios = {_title(case): _width_ratio(case) for case in with_uniform}
        worst = max(ratios, key=lambda name: ratios[name])
        text += f" Its width is at most {ratios[worst]:.3f} times that of the same interval on uniform rows ({worst})."
    return text


def _whatever_coverage(cases: list[Facts]) -> str:
    """Say how often another method has a smaller RMSE, also if its intervals cover too often or too rarely."""
    ratios = {}
    for case in cases:
        errors = {name: case["methods"][name]["rmse"] for name in NAMES if name in case["methods"]}
        name = min(errors, key=lambda peer: errors[peer])
        ratios[f"{case['population']} at {case['answers']:,}, {name}"] = case["methods"][OURS]["rmse"] / errors[name]
    behind = {name: ratio for name, ratio in ratios.items() if ratio > 1}
    if not behind:
        return "No method has a smaller RMSE with any coverage."
    worst = max(behind, key=lambda name: behind[name])
    return (
        f"Whatever the coverage, other methods have a smaller RMSE in {len(behind)} of {len(cases)} cases; coresift's "
        f"is at most {100 * (behind[worst] - 1):.1f} % above it ({worst})."
    )


def _on_average(cases: list[Facts]) -> str:
    """Return the geometric mean over the cases of our RMSE relative to each peer's, which chance moves little."""
    logs: dict[str, list[float]] = {}
    for case in cases:
        for name in NAMES:
            if name in case["methods"]:
                ratio = case["methods"][OURS]["rmse"] / case["methods"][name]["rmse"]
                logs.setdefault(name, []).append(float(np.log(ratio)))
    means = ", ".join(f"{np.exp(np.mean(ratios)):.3f} ({name})" for name, ratios in logs.items())
    return f"On average over the cases (geometric mean), coresift's RMSE relative to others is {means}."


def _excess(case: Facts) -> float:
    """Return by what share our RMSE is above the smallest."""
    winner = best(case)
    return 0.0 if winner is None else float(case["methods"][OURS]["rmse"] / case["methods"][winner]["rmse"] - 1)


def _noise(cases: list[Facts]) -> float:
    """Return the standard error of the ratio of two independent RMSEs of n runs each: √(1/2n + 1/2n)."""
    return float(1 / np.sqrt(min(case["methods"][OURS].get("seeds", 1) for case in cases)))


def _width_ratio(case: Facts) -> float:
    return float(case["methods"][OURS]["width"] / case["methods"][OURS_UNIFORM]["width"])


def _title(case: Facts) -> str:
    return f"{case['population']}, {case['answers']:,} of {case['rows']:,}"


def table(case: Facts) -> str:
    """Return one case as a table."""
    winner = best(case)
    lines = ["| method | RMSE | width | coverage | ESS | seeds |", "|---|---|---|---|---|---|"]
    for name, figures in case["methods"].items():
        error = f"{100 * figures['rmse']:.3f}"
        error = f"**{error}**" if name == winner else error
        lines.append(
            f"| {name} | {error} | {100 * figures['width']:.2f} | {figures['coverage']:.3f} "
            f"| {figures['effective_sample_size']:.2f} | {figures['seeds']:,} |"
        )
    return (
        f"### {_title(case)} (truth {case['truth']:.4f}, version {case['version']} of coresift's runs)\n\n"
        + "\n".join(lines)
        + "\n\n"
    )


def plot(cases: list[Facts], path: Path) -> None:
    """Plot the RMSE relative to that of uniform rows, one line of dots per case."""
    import matplotlib  # noqa: PLC0415

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "coresift"  # the same figures give the same file
    from matplotlib import pyplot  # noqa: PLC0415

    names = [name for name in METHODS if name not in ("uniform", OURS_UNIFORM)]
    figure, panel = pyplot.subplots(figsize=(8, 1.2 + 0.28 * len(cases)), layout="constrained")
    for number, name in enumerate(names):
        lines = [line for line, case in enumerate(cases) if name in case["methods"]]
        ratios = [cases[line]["methods"][name]["rmse"] / cases[line]["methods"]["uniform"]["rmse"] for line in lines]
        style = {"s": 60, "color": "tab:blue", "zorder": 3} if name == OURS else {"s": 25, "color": f"C{number}"}
        panel.scatter(ratios, lines, label=name, **style)
    panel.axvline(1.0, color="0.5", linewidth=0.8)
    suffixes = {"tuning": " (tuning)", "reported": ""}
    labels = [f"{case['population']}, {case['answers']:,}{suffixes[case['role']]}" for case in cases]
    panel.set_yticks(range(len(cases)), labels)
    panel.set_ylim(len(cases) - 0.5, -0.5)
    panel.set_xlabel("RMSE relative to uniform rows")
    panel.grid(alpha=0.25)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, metadata={"Date": None})
