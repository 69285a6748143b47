"""The evaluation benchmark's figures as tables and a plot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.evaluation import history_limits, history_study
from benchmarks.evaluation.peers import NAMES
from benchmarks.evaluation.study import OURS, OURS_UNIFORM, RESULTS, Runs, read

Facts = dict[str, Any]
Floats = NDArray[np.float64]
# A coverage that holds.
LEAST, MOST = 0.93, 0.97
WIDEST = 1.05
METHODS = (OURS, OURS_UNIFORM, *NAMES)


def write_report(folder: Path) -> str:
    """Write `evaluation.md`, `.json` and `.svg` from the runs that are kept."""
    found = cases()
    text = f"# How few answers tell a model's accuracy?\n\n{ABOUT}\n"
    for role, title in (("reported", "Populations that nothing was tuned on"), ("tuning", "Tuning populations")):
        some = [case for case in found if case["role"] == role]
        if some:
            text += f"## {title}\n\n{verdict(some)}\n\n" + "".join(map(table, some))
    past = history_study.cases()
    if past:
        text += f"## With the results of earlier models\n\n{PAST}\n"
        text += f"{SIMULATED}\n" if any(case["table"] == "simulated" for case in past) else ""
        text += f"{history_study.table_text(past)}\n{LIMITS}\n{history_study.ceilings()}{history_limits.text()}\n"
    text += "![error by method](evaluation.svg)\n"
    (folder / "evaluation.md").write_text(text)
    (folder / "evaluation.json").write_text(json.dumps({"cases": found, "history": past}, indent=1) + "\n")
    plot(found, folder / "evaluation.svg")
    return verdict([case for case in found if case["role"] == "reported"])


ABOUT = """Every method gets the same number of answers on the same population (active inference and glide's active
sampler get it on average), and the truth is known. RMSE and width are in points (hundredths); coverage is that of 95 %
intervals; the effective sample size (ESS) is relative to uniform rows: how many times as many uniform rows would have
had the same RMSE. The RMSE of uniform rows is known exactly, √(S²/m·(1 − m/n)), so the line *uniform* shows how far
chance moves such a figure. *Coresift, uniform rows* is our interval without anything known of the rows. The best RMSE
among intervals that cover the truth in 93–97 % of the runs is bold. `python -m benchmarks.evaluation` runs what is
missing and writes this page; single runs are in `evaluation/`.
"""

PAST = """Each model in turn is the new one; its answers cost something, and those of the others are known. Medians over
the new models. AlpacaEval: does a judge prefer the model's answer to the reference's, 805 instructions and 57 models.
*ESS by error* and *by width* compare with a textbook interval from uniform rows; *by the paper's width* compares with
what FAQ's paper (arXiv 2601.20251) takes as uniform, which is wider (Horvitz–Thompson weights, independent draws). FAQ
is written from the paper, with one setting of its options (τ = .25, ρ = .05), not those tuned for each budget. Its
published factors of MMLU-Pro are not in any package, so that its 3.6, 4.3, 4.9 and 4.9 could not be repeated on them.
"""

LIMITS = """What is at most possible? A ridge regression on all other models, given nine tenths of *all* answers of the
new one, explains a part R² of the variance of the rest, and 1/(1 − R²) is the ESS by error of uniform rows with that
prediction:
"""

SIMULATED = """*Simulated* draws 12,032 items and 200 models from factors whose spread was set so that FAQ is near its
published 4.3 at 5 % of the items; the other three numbers of answers are then a check. Factors are always learned again
from the other models' answers.
"""


def cases() -> list[Facts]:
    """All measures of all cases that uniform rows and at least one other method have runs of."""
    found = []
    for path in sorted(RESULTS.glob("runs-*.npz")):
        runs = read(path)
        for budget in sorted({key[0] for key in runs.lines}):
            kept = {name: lines for name in METHODS if len(lines := runs.most(budget, name)[0])}
            if "uniform" in kept and len(kept) > 1:
                found.append(_case(runs, budget, kept))
    return found


def _case(runs: Runs, budget: int, kept: dict[str, Floats]) -> Facts:
    case: Facts = {"population": runs.name, "role": runs.role, "rows": runs.rows, "answers": budget}
    case |= {"truth": runs.truth, "version": runs.most(budget, OURS)[1], "methods": {}}
    for method, lines in kept.items():
        own: Facts = measures(lines, runs.truth)
        own["effective_sample_size"] = (runs.uniform_error(budget) / own["rmse"]) ** 2
        case["methods"][method] = own
    return case


def measures(lines: Floats, truth: float) -> dict[str, float]:
    """RMSE, bias, mean width, coverage, and the number of seeds."""
    value, low, high = lines.T
    return {
        "seeds": len(lines),
        "rmse": float(np.sqrt(np.mean((value - truth) ** 2))),
        "bias": float(np.mean(value) - truth),
        "width": float(np.mean(high - low)),
        "coverage": float(np.mean((low <= truth) & (truth <= high))),
    }


def best(case: Facts) -> str | None:
    """The method of the smallest RMSE among those whose coverage holds."""
    holding = {name: own for name, own in case["methods"].items() if LEAST <= own["coverage"] <= MOST}
    return min(holding, key=lambda name: holding[name]["rmse"]) if holding else None


def verdict(some: list[Facts]) -> str:
    """In how many cases ours is best, and its largest width over that on uniform rows."""
    own = [case for case in some if OURS in case["methods"]]
    if not own:
        return "No runs of ours yet."
    won = [case for case in own if best(case) == OURS]
    text = f"Ours has the smallest RMSE with a coverage of .93–.97 in {len(won)} of {len(own)} cases"
    lost = [f"{case['population']} at {case['answers']:,} ({best(case)})" for case in own if best(case) != OURS]
    text += f" (not in: {'; '.join(lost)})." if lost else "."
    if lost:
        excess, noise = 100 * max(map(_excess, own)), 100 * _noise(own)
        text += f" There it is at most {excess:.1f} % above the smallest"
        text += f" (a ratio of two such RMSEs has a standard error of {noise:.1f} %);"
        clear = sum(_excess(case) > 2 * _noise([case]) for case in own)
        text += f" by more than two standard errors {'in none' if not clear else f'in {clear}'} of them."
    sizes = {_title(case): float(case["methods"][OURS].get("effective_sample_size", np.nan)) for case in own}
    least = min(sizes, key=lambda name: sizes[name])
    text += f" Its ESS is at least {sizes[least]:.2f} ({least})."
    plain = [case for case in own if OURS_UNIFORM in case["methods"]]
    if plain:
        ratios = {_title(case): _wider(case) for case in plain}
        worst = max(ratios, key=lambda name: ratios[name])
        text += f" Its width is at most {ratios[worst]:.3f} times that of the same interval on uniform rows ({worst})."
    return text


def _excess(case: Facts) -> float:
    """How far our RMSE is above that of the best, as a part of it."""
    winner = best(case)
    return 0.0 if winner is None else float(case["methods"][OURS]["rmse"] / case["methods"][winner]["rmse"] - 1)


def _noise(some: list[Facts]) -> float:
    """The standard error of the ratio of two independent RMSEs, each from so many runs: √(1/2n + 1/2n)."""
    return float(1 / np.sqrt(min(case["methods"][OURS].get("seeds", 1) for case in some)))


def _wider(case: Facts) -> float:
    return float(case["methods"][OURS]["width"] / case["methods"][OURS_UNIFORM]["width"])


def _title(case: Facts) -> str:
    return f"{case['population']}, {case['answers']:,} of {case['rows']:,}"


def table(case: Facts) -> str:
    """One case as a table."""
    winner = best(case)
    lines = ["| method | RMSE | width | coverage | ESS | seeds |", "|---|---|---|---|---|---|"]
    for name, own in case["methods"].items():
        error = f"{100 * own['rmse']:.3f}"
        error = f"**{error}**" if name == winner else error
        lines.append(
            f"| {name} | {error} | {100 * own['width']:.2f} | {own['coverage']:.3f} "
            f"| {own['effective_sample_size']:.2f} | {own['seeds']:,} |"
        )
    return (
        f"### {_title(case)} (truth {case['truth']:.4f}, version {case['version']} of ours)\n\n"
        + "\n".join(lines)
        + "\n\n"
    )


def plot(found: list[Facts], path: Path) -> None:
    """RMSE over that of uniform rows, one line of dots per case."""
    import matplotlib  # noqa: PLC0415

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "coresift"  # the same figures give the same file
    from matplotlib import pyplot  # noqa: PLC0415

    names = [name for name in METHODS if name not in ("uniform", OURS_UNIFORM)]
    figure, panel = pyplot.subplots(figsize=(8, 1.2 + 0.28 * len(found)), layout="constrained")
    for number, name in enumerate(names):
        at = [place for place, case in enumerate(found) if name in case["methods"]]
        over = [found[place]["methods"][name]["rmse"] / found[place]["methods"]["uniform"]["rmse"] for place in at]
        front = {"s": 60, "color": "tab:blue", "zorder": 3} if name == OURS else {"s": 25, "color": f"C{number}"}
        panel.scatter(over, at, label=name, **front)
    panel.axvline(1.0, color="0.5", linewidth=0.8)
    tuned = {"tuning": " (tuning)", "reported": ""}
    labels = [f"{case['population']}, {case['answers']:,}{tuned[case['role']]}" for case in found]
    panel.set_yticks(range(len(found)), labels)
    panel.set_ylim(len(found) - 0.5, -0.5)
    panel.set_xlabel("RMSE over that of uniform rows")
    panel.grid(alpha=0.25)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, metadata={"Date": None})
