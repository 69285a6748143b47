"""The tables of the estimation benchmark, from what has been drawn so far; halves of the problems apart."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from benchmarks.estimation import RESULTS, VARIANTS, path_of, ratio, reference
from benchmarks.problems import halves, load_problem

WIDE = ("ours/best", "weighted/best", "ours/uniform", "ours/paper", "paper/uniform")
# The promises, as (variant, ratio, half, the most that the geometric mean may be).
AIMS = (
    ("default", "ours/best", "tuning", 0.85),
    ("default", "ours/best", "held-out", 0.93),
    ("confidence", "ours/uniform", "", 0.85),
    ("cheap", "ours/paper", "", 0.36),
    ("useless", "ours/default", "", 1.03),
)


def write(names: list[str], clusterings: int, draws: int) -> None:
    """Write results/portfolio.json and .md if all problems were asked for; print the tables in any case."""
    measured = [found for name in names if (found := summary(name, clusterings, draws)) is not None]
    text = tables(measured, clusterings, draws)
    print(text)
    if len(measured) == sum(len(half) for half in halves()):
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "portfolio.json").write_text(json.dumps(measured, indent=1) + "\n")
        (RESULTS / "portfolio.md").write_text(text)


def summary(name: str, clusterings: int, draws: int) -> dict[str, Any] | None:
    """All ratios of one problem, or None if it was not drawn without signals."""
    problem, known = load_problem(name), reference(name)
    drawn = {variant: errors_of(name, variant, clusterings, draws) for variant in VARIANTS}
    if drawn["default"] is None:
        return None
    uniform, paper = np.array([[known["uniform"]]]), np.array(known["paper"])[:, None]
    best = uniform if known["uniform"] <= np.sqrt((paper**2).mean()) else paper
    found: dict[str, Any] = {
        "problem": name,
        "half": "tuning" if name in halves()[0] else "held-out",
        "world": problem.world,
        "kind": problem.kind,
        "hard": problem.hard,
        "rows": len(problem.losses),
        "budget": problem.budget,
        "clusters": problem.budget // 10,
        "uniform": known["uniform"] / problem.losses.sum(),
        "paper_factor": known["factor"],
        "paper/uniform": ratio(paper, uniform),
    }
    for variant, errors in drawn.items():
        if errors is None:
            continue
        if variant == "rivals":
            for method, values in errors.items():
                found[f"{method}/uniform"] = ratio(values, uniform)
                found[f"{method}/paper"] = ratio(values, paper)
            continue
        learned = errors["learned"]
        part = {
            "draws": int(learned.size),
            "ours/best": ratio(learned, best),
            "weighted/best": ratio(errors["weighted"], best),
            "ours/uniform": ratio(learned, uniform),
            "ours/paper": ratio(learned, paper),
            "bias/error": float(learned.mean() / np.sqrt((learned**2).mean())),
        }
        if variant != "default":
            part["ours/default"] = ratio(learned, drawn["default"]["learned"])
        found.update(part if variant == "default" else {variant: part})
    return found


def errors_of(name: str, variant: str, clusterings: int, draws: int) -> dict[str, np.ndarray] | None:
    """Errors by method, a line per clustering that has been drawn."""
    paths = [path_of(name, variant, number, draws) for number in range(clusterings)]
    parts = [dict(np.load(path, allow_pickle=False)) for path in paths if path.exists()]
    return {method: np.stack([part[method] for part in parts]) for method in parts[0]} if parts else None


def tables(measured: list[dict[str, Any]], clusterings: int, draws: int) -> str:
    """The results as Markdown."""
    lines = [
        "# Error of an estimated total",
        "",
        f"Root mean squared error over up to {clusterings} clusterings × {draws} draws, as a ratio, with its 95 %",
        "bootstrap interval. Best: the better of uniform sampling and the paper at its best Λ, both exact. Ours: the",
        "learned estimate on the draw of the portfolio; weighted: the plain weighted total of that draw. Choices were",
        "made on the tuning half; the held-out half was not looked at before they were made.",
    ]
    for half in ("tuning", "held-out"):
        members = [one for one in measured if one["half"] == half]
        if members:
            lines += ["", f"## Without signals, {half} half", "", *_table(members, WIDE)]
    for variant, title in (
        ("confidence", "The model's own confidence as signal"),
        ("cheap", "A cheap model's loss as signal"),
        ("useless", "Three useless signals"),
    ):
        members = [one | one[variant] for one in measured if variant in one]
        if members:
            columns = ["ours/uniform", "ours/paper", "ours/default"]
            columns += [] if variant == "useless" else ["proxy/uniform", "earlier with regression/uniform"]
            lines += ["", f"## {title}", "", *_table(members, tuple(columns))]
    return "\n".join([*lines, "", "## Aims", "", *_aims(measured)]) + "\n"


def _table(members: list[dict[str, Any]], columns: tuple[str, ...]) -> list[str]:
    lines = [f"| problem | rows | draws | {' | '.join(columns)} |", "|---|---|---|" + "---|" * len(columns)]
    for one in sorted(members, key=lambda member: member["problem"]):
        name = one["problem"] + (" (hard)" if one["hard"] else "")
        cells = [shown(one.get(column)) for column in columns]
        lines.append(f"| {name} | {one['rows']:,} | {one['draws']:,} | {' | '.join(cells)} |")
    means = []
    for column in columns:
        values = [one[column][0] for one in members if column in one]
        means.append(f"**{geometric_mean(values):.3f}**, worst {max(values):.3f}" if values else "")
    return [*lines, f"| geometric mean | | | {' | '.join(means)} |"]


def _aims(measured: list[dict[str, Any]]) -> list[str]:
    lines = ["| what | aim | measured |", "|---|---|---|"]
    for variant, name, half, most in AIMS:
        members = [one if variant == "default" else one.get(variant) for one in measured if half in ("", one["half"])]
        values = [one[name][0] for one in members if one is not None]
        if values:
            title = f"{variant}, {name}{', ' + half + ' half' if half else ''}, {len(values)} problems"
            lines.append(f"| {title} | ≤ {most} | {geometric_mean(values):.3f} |")
    for name, most in (("ours/uniform", 1.05), ("ours/paper", 1.15)):
        broken = [one["problem"] for one in measured if one[name][1] > (1.5 if "rare" in one["problem"] else most)]
        lines.append(f"| {name} above {most} on | no problem | {', '.join(broken) or 'no problem'} |")
    bias = max(abs(one["bias/error"]) for one in measured)
    return [*lines, f"| largest bias, in errors (its noise is 1/√draws) | ≤ 0.1 | {bias:.3f} |"]


def geometric_mean(values: list[float]) -> float:
    """exp of the mean logarithm."""
    return float(np.exp(np.mean(np.log(values))))


def shown(value: list[float] | None) -> str:
    """A ratio with its interval."""
    return "" if value is None else f"{value[0]:.3f} ({value[1]:.3f}–{value[2]:.3f})"
