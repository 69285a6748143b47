"""What the runs of the benchmark of active learning say: gains over uniform rows, tests, labels saved, a plot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_rel

OURS, BASE = "active learning", "uniform"
# Not methods of others: what the best of those is goes without them.
VARIANTS = ("coverage alone", "audit rows held out")
LEVEL = 0.05
BOOTSTRAPS = 2000

Facts = dict[str, Any]
Floats = NDArray[np.float64]


def write_report(runs: list[Facts], folder: Path) -> None:
    """Write `active_learning.json`, `.md` and `.svg`."""
    facts = summarize(runs)
    folder.mkdir(exist_ok=True)
    (folder / "active_learning.json").write_text(json.dumps(facts, indent=1) + "\n")
    (folder / "active_learning.md").write_text(to_markdown(facts))
    plot(facts, folder / "active_learning.svg")


def summarize(runs: list[Facts]) -> list[Facts]:
    """Return for each pair of data set and budget what every method gains, paired by seed."""
    table: dict[tuple[str, int], dict[str, dict[int, Facts]]] = {}
    for run in runs:
        table.setdefault((run["data"], run["budget"]), {}).setdefault(run["method"], {})[run["seed"]] = run
    both = {key: found for key, found in table.items() if OURS in found and BASE in found}
    pairs = [_pair(data, budget, found, table) for (data, budget), found in both.items()]
    pairs.sort(key=lambda one: (one["data"], one["budget"]))
    _holm(pairs, "below_uniform")
    _holm(pairs, "below_best")
    return pairs


def _pair(data: str, budget: int, found: dict[str, dict[int, Facts]], table: Any) -> Facts:
    methods = {}
    for method, by_seed in found.items():
        seeds = sorted(by_seed.keys() & found.get(BASE, {}).keys())
        if not seeds:
            continue
        gains = np.array([by_seed[seed]["accuracy"] - found[BASE][seed]["accuracy"] for seed in seeds])
        methods[method] = {
            "seeds": len(seeds),
            "accuracy": float(np.mean([by_seed[seed]["accuracy"] for seed in seeds])),
            "gain": float(gains.mean()),
            "error": float(gains.std(ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else float("nan"),
            "cpu": float(np.median([by_seed[seed]["cpu"] for seed in seeds])),
        }
    others = {name: one["gain"] for name, one in methods.items() if name not in (OURS, BASE, *VARIANTS)}
    best = max(others, key=others.__getitem__, default=BASE)
    curve = {b: list(by.get(BASE, {}).values()) for (name, b), by in table.items() if name == data and BASE in by}
    return {
        "data": data,
        "budget": budget,
        "best_other": best,
        "methods": methods,
        "below_uniform": {"p": _below(found[OURS], found[BASE])},
        "below_best": {"p": _below(found[OURS], found[best])},
        "labels": _labels(found[OURS], curve),
    }


def _below(ours: dict[int, Facts], other: dict[int, Facts]) -> float:
    """Return the p-value of a paired one-sided test that ours is below the other."""
    seeds = sorted(ours.keys() & other.keys())
    pairs = [[one[seed]["accuracy"] for seed in seeds] for one in (ours, other)]
    return float(ttest_rel(*pairs, alternative="less").pvalue) if len(seeds) > 1 and pairs[0] != pairs[1] else 1.0


def _holm(pairs: list[Facts], name: str) -> None:
    """Say which of the pairs' tests reject by Holm's procedure."""
    order = sorted(pairs, key=lambda pair: pair[name]["p"])
    rejected = True
    for place, pair in enumerate(order):
        rejected = rejected and pair[name]["p"] <= LEVEL / (len(pairs) - place)
        pair[name]["rejected"] = bool(rejected)


def _labels(ours: dict[int, Facts], curve: dict[int, list[Facts]]) -> Facts:
    """Return how many uniform labels give the same accuracy, with a bootstrap interval over seeds."""
    rng = np.random.default_rng(0)
    budgets = np.array(sorted(curve), np.float64)
    accuracies = [np.array([run["accuracy"] for run in curve[int(budget)]]) for budget in budgets]
    reached = np.array([run["accuracy"] for run in ours.values()])

    def needed(own: float, means: list[float]) -> float:
        rising = np.maximum.accumulate(means)
        keep = np.concatenate([[True], np.diff(rising) > 0])
        return float(np.exp(np.interp(own, rising[keep], np.log(budgets[keep]))))

    value = needed(float(reached.mean()), [float(some.mean()) for some in accuracies])
    draws = [
        needed(
            float(rng.choice(reached, reached.size).mean()),
            [float(rng.choice(some, some.size).mean()) for some in accuracies],
        )
        for _ in range(BOOTSTRAPS)
    ]
    low, high = np.quantile(draws, [0.025, 0.975])
    return {"value": value, "low": float(low), "high": float(high), "most": float(budgets[-1])}


def to_markdown(facts: list[Facts]) -> str:
    """Return tables of gains, of labels and of times."""
    names = sorted({name for pair in facts for name in pair["methods"]} - {OURS, BASE})
    head = ["data, budget", BASE, OURS, *names]
    lines = [
        "# Rows to train on",
        "",
        "Test accuracy of a linear head on frozen embeddings with uniform rows, and what other rows gain over that:",
        "mean ± one standard error over paired seeds. Bold: the most. `python -m benchmarks.active_learning` says how.",
        "",
        _seeds(facts, [OURS, *names]),
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
    ]
    for pair in facts:
        most = max(one["gain"] for name, one in pair["methods"].items() if name not in (BASE, *VARIANTS))
        cells = [f"{pair['data']}, {pair['budget']:,}", f"{pair['methods'][BASE]['accuracy']:.3f}"]
        cells += [_gain(pair["methods"].get(name), most) for name in (OURS, *names)]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "## In labels",
        "",
        "How many uniform labels give the accuracy of active learning, with a 95 % interval.",
        "",
    ]
    lines += ["| data | labels | uniform labels for the same | seeds |", "|---|---|---|---|"]
    for pair in facts:
        labels, seeds = pair["labels"], pair["methods"][OURS]["seeds"]
        more = "at least " if labels["value"] >= 0.99 * labels["most"] else ""
        value = f"{more}{labels['value']:,.0f} ({labels['low']:,.0f} to {labels['high']:,.0f})"
        if labels["most"] <= pair["budget"]:
            value = "uniform rows have no runs with more labels yet"
        lines.append(f"| {pair['data']} | {pair['budget']:,} | {value} | {seeds} |")
    lines += ["", *_verdicts(facts), "", "## CPU seconds to choose the rows (median)", ""]
    lines += ["| " + " | ".join(["data, budget", OURS, *names]) + " |", "|" + "---|" * (len(names) + 2)]
    for pair in facts:
        times = [pair["methods"].get(name) for name in (OURS, *names)]
        shown = [f"{one['cpu']:.1f}" if one else "" for one in times]
        lines.append("| " + " | ".join([f"{pair['data']}, {pair['budget']:,}", *shown]) + " |")
    return "\n".join(lines) + "\n"


def _seeds(facts: list[Facts], names: list[str]) -> str:
    """Say how many paired seeds each method has: all the same, or from the fewest to the most of a pair."""
    counts = []
    for name in names:
        found = [pair["methods"][name]["seeds"] for pair in facts if name in pair["methods"]]
        span = f"{min(found)}" if min(found) == max(found) else f"{min(found)} to {max(found)}"
        pairs = "" if len(found) == len(facts) else f" on {len(found)} of {len(facts)} pairs"
        counts.append(f"{name} {span}{pairs}")
    return f"Seeds: {', '.join(counts)}."


def _gain(one: Facts | None, most: float) -> str:
    if one is None:
        return ""
    spread = f" ± {one['error']:.3f}" if one["seeds"] > 1 else " (one seed)"
    text = f"{one['gain']:+.3f}{spread}"
    return f"**{text}**" if one["gain"] == most else text


def _verdicts(facts: list[Facts]) -> list[str]:
    below = [f"{pair['data']} {pair['budget']}" for pair in facts if pair["below_uniform"]["rejected"]]
    compared = [pair for pair in facts if pair["best_other"] != BASE]
    beaten = [
        f"{pair['data']} {pair['budget']} ({pair['best_other']})" for pair in compared if pair["below_best"]["rejected"]
    ]
    others = f"{', '.join(beaten) or 'nowhere'} ({len(compared)} pairs)" if compared else "no other method has runs yet"
    return [
        f"Significantly below uniform rows (paired, Holm, {LEVEL:.0%}): {', '.join(below) or 'nowhere'}.",
        f"Significantly below the best other method: {others}.",
    ]


def plot(facts: list[Facts], path: Path) -> None:
    """Draw the gain of every method on every pair."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "coresift"  # the same figures give the same file
    from matplotlib import pyplot as plt  # noqa: PLC0415

    names = [OURS, *sorted({name for pair in facts for name in pair["methods"]} - {OURS, BASE})]
    figure, axes = plt.subplots(2, -(-len(facts) // 2) or 1, figsize=(14, 7), squeeze=False, layout="constrained")
    for axis, pair in zip(axes.ravel(), facts, strict=False):
        for place, name in enumerate(names):
            one = pair["methods"].get(name)
            if one:
                color = "tab:blue" if name == OURS else "tab:gray"
                axis.errorbar(one["gain"], -place, xerr=2 * np.nan_to_num(one["error"]), fmt="o", color=color)
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set_yticks([-place for place in range(len(names))], names, fontsize=7)
        axis.set_title(f"{pair['data']}, {pair['budget']:,} labels", fontsize=9)
    figure.supxlabel("test accuracy minus that of uniform rows (± 2 standard errors)")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
