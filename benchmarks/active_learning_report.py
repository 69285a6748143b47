"""The report of the active learning benchmark: gains over uniform rows, tests, labels saved, and a plot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_rel

OURS, BASE = "active learning", "uniform"
# Variants of our method, which do not count among the other methods.
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
    """Return every method's gain over uniform rows for each data set and budget, paired by seed."""
    table: dict[tuple[str, int], dict[str, dict[int, Facts]]] = {}
    for run in runs:
        table.setdefault((run["data"], run["budget"]), {}).setdefault(run["method"], {})[run["seed"]] = run
    complete = {key: runs_of for key, runs_of in table.items() if OURS in runs_of and BASE in runs_of}
    pairs = [_pair(data, budget, runs_of, table) for (data, budget), runs_of in complete.items()]
    pairs.sort(key=lambda pair: (pair["data"], pair["budget"]))
    _holm(pairs, "below_uniform")
    _holm(pairs, "below_best")
    return pairs


def _pair(data: str, budget: int, runs_of: dict[str, dict[int, Facts]], table: Any) -> Facts:
    methods = {}
    for method, by_seed in runs_of.items():
        seeds = sorted(by_seed.keys() & runs_of.get(BASE, {}).keys())
        if not seeds:
            continue
        gains = np.array([by_seed[seed]["accuracy"] - runs_of[BASE][seed]["accuracy"] for seed in seeds])
        methods[method] = {
            "seeds": len(seeds),
            "accuracy": float(np.mean([by_seed[seed]["accuracy"] for seed in seeds])),
            "gain": float(gains.mean()),
            "error": float(gains.std(ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else float("nan"),
            "cpu": float(np.median([by_seed[seed]["cpu"] for seed in seeds])),
        }
    others = {name: figures["gain"] for name, figures in methods.items() if name not in (OURS, BASE, *VARIANTS)}
    best = max(others, key=others.__getitem__, default=BASE)
    curve = {b: list(by.get(BASE, {}).values()) for (name, b), by in table.items() if name == data and BASE in by}
    return {
        "data": data,
        "budget": budget,
        "best_other": best,
        "methods": methods,
        "below_uniform": {"p": _below(runs_of[OURS], runs_of[BASE])},
        "below_best": {"p": _below(runs_of[OURS], runs_of[best])},
        "labels": _labels(runs_of[OURS], curve),
    }


def _below(ours: dict[int, Facts], other: dict[int, Facts]) -> float:
    """Return the p-value of a paired one-sided test that our accuracy is below the other's."""
    seeds = sorted(ours.keys() & other.keys())
    pairs = [[runs[seed]["accuracy"] for seed in seeds] for runs in (ours, other)]
    return float(ttest_rel(*pairs, alternative="less").pvalue) if len(seeds) > 1 and pairs[0] != pairs[1] else 1.0


def _holm(pairs: list[Facts], name: str) -> None:
    """Add to every pair whether its test rejects, by Holm's procedure."""
    order = sorted(pairs, key=lambda pair: pair[name]["p"])
    rejected = True
    for rank, pair in enumerate(order):
        rejected = rejected and pair[name]["p"] <= LEVEL / (len(pairs) - rank)
        pair[name]["rejected"] = bool(rejected)


def _labels(ours: dict[int, Facts], curve: dict[int, list[Facts]]) -> Facts:
    """Return how many uniform labels are needed for our accuracy, with a bootstrap interval over seeds."""
    rng = np.random.default_rng(0)
    budgets = np.array(sorted(curve), np.float64)
    accuracies = [np.array([run["accuracy"] for run in curve[int(budget)]]) for budget in budgets]
    reached = np.array([run["accuracy"] for run in ours.values()])

    def needed(accuracy: float, means: list[float]) -> float:
        rising = np.maximum.accumulate(means)
        keep = np.concatenate([[True], np.diff(rising) > 0])
        return float(np.exp(np.interp(accuracy, rising[keep], np.log(budgets[keep]))))

    value = needed(float(reached.mean()), [float(values.mean()) for values in accuracies])
    draws = [
        needed(
            float(rng.choice(reached, reached.size).mean()),
            [float(rng.choice(values, values.size).mean()) for values in accuracies],
        )
        for _ in range(BOOTSTRAPS)
    ]
    low, high = np.quantile(draws, [0.025, 0.975])
    return {"value": value, "low": float(low), "high": float(high), "most": float(budgets[-1])}


def to_markdown(facts: list[Facts]) -> str:
    """Return tables of gains, labels and times."""
    names = sorted({name for pair in facts for name in pair["methods"]} - {OURS, BASE})
    head = ["data, budget", BASE, OURS, *names]
    lines = [
        "# Rows to train on",
        "",
        "Test accuracy of a linear classifier on frozen embeddings, trained on uniform rows, and the gain of other",
        "methods: mean ± one standard error over paired seeds. Bold: the largest gain. The study is described in",
        "`benchmarks/active_learning.py`.",
        "",
        _seeds(facts, [OURS, *names]),
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
    ]
    for pair in facts:
        most = max(figures["gain"] for name, figures in pair["methods"].items() if name not in (BASE, *VARIANTS))
        cells = [f"{pair['data']}, {pair['budget']:,}", f"{pair['methods'][BASE]['accuracy']:.3f}"]
        cells += [_gain(pair["methods"].get(name), most) for name in (OURS, *names)]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "## In labels",
        "",
        "How many uniform labels it takes to reach the accuracy of active learning, with a 95 % interval.",
        "",
    ]
    lines += ["| data | labels | uniform labels for the same accuracy | seeds |", "|---|---|---|---|"]
    for pair in facts:
        labels, seeds = pair["labels"], pair["methods"][OURS]["seeds"]
        more = "at least " if labels["value"] >= 0.99 * labels["most"] else ""
        value = f"{more}{labels['value']:,.0f} ({labels['low']:,.0f} to {labels['high']:,.0f})"
        if labels["most"] <= pair["budget"]:
            value = "there are no runs with more uniform labels yet"
        lines.append(f"| {pair['data']} | {pair['budget']:,} | {value} | {seeds} |")
    lines += ["", *_verdicts(facts), "", "## CPU seconds to choose the rows (median)", ""]
    lines += ["| " + " | ".join(["data, budget", OURS, *names]) + " |", "|" + "---|" * (len(names) + 2)]
    for pair in facts:
        times = [pair["methods"].get(name) for name in (OURS, *names)]
        cells = [f"{figures['cpu']:.1f}" if figures else "" for figures in times]
        lines.append("| " + " | ".join([f"{pair['data']}, {pair['budget']:,}", *cells]) + " |")
    return "\n".join(lines) + "\n"


def _seeds(facts: list[Facts], names: list[str]) -> str:
    """Return a sentence with each method's number of paired seeds, or their range over the pairs."""
    texts = []
    for name in names:
        counts = [pair["methods"][name]["seeds"] for pair in facts if name in pair["methods"]]
        span = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
        pairs = "" if len(counts) == len(facts) else f" on {len(counts)} of {len(facts)} pairs"
        texts.append(f"{name} {span}{pairs}")
    return f"Seeds: {', '.join(texts)}."


def _gain(figures: Facts | None, most: float) -> str:
    if figures is None:
        return ""
    spread = f" ± {figures['error']:.3f}" if figures["seeds"] > 1 else " (one seed)"
    text = f"{figures['gain']:+.3f}{spread}"
    return f"**{text}**" if figures["gain"] == most else text


def _verdicts(facts: list[Facts]) -> list[str]:
    below = [f"{pair['data']} {pair['budget']}" for pair in facts if pair["below_uniform"]["rejected"]]
    compared = [pair for pair in facts if pair["best_other"] != BASE]
    beaten = [
        f"{pair['data']} {pair['budget']} ({pair['best_other']})" for pair in compared if pair["below_best"]["rejected"]
    ]
    others = f"{', '.join(beaten) or 'nowhere'} ({len(compared)} pairs)" if compared else "no other method has runs yet"
    return [
        f"Active learning is significantly below uniform rows (paired test, Holm, {LEVEL:.0%}): "
        f"{', '.join(below) or 'nowhere'}.",
        f"It is significantly below the best other method: {others}.",
    ]


def plot(facts: list[Facts], path: Path) -> None:
    """Plot the gain of every method on every pair."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "coresift"  # the same figures give the same file
    from matplotlib import pyplot as plt  # noqa: PLC0415

    names = [OURS, *sorted({name for pair in facts for name in pair["methods"]} - {OURS, BASE})]
    figure, axes = plt.subplots(2, -(-len(facts) // 2) or 1, figsize=(14, 7), squeeze=False, layout="constrained")
    for axis, pair in zip(axes.ravel(), facts, strict=False):
        for line, name in enumerate(names):
            figures = pair["methods"].get(name)
            if figures:
                color = "tab:blue" if name == OURS else "tab:gray"
                axis.errorbar(figures["gain"], -line, xerr=2 * np.nan_to_num(figures["error"]), fmt="o", color=color)
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set_yticks([-line for line in range(len(names))], names, fontsize=7)
        axis.set_title(f"{pair['data']}, {pair['budget']:,} labels", fontsize=9)
    figure.supxlabel("test accuracy minus that of uniform rows (± 2 standard errors)")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
