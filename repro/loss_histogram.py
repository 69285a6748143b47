"""The paper's histogram of losses: is a pair's loss nearer to its center's than to that of a random pair?

    python -m repro loss-histogram

Cost: two CPU minutes, and 17 for the model that is made first (`translation` uses the same). The paper shows |ℓ(e) −
ℓ(random)| against |ℓ(e) − ℓ(c_e)| for T5 losses on WMT pairs, clustered by BERT embeddings, as a plot, and says that
the second are much smaller on average. Here: 20,000 Europarl pairs that a small T5 was not trained on, with MiniLM
and with static embeddings (`plans.py` says what is smaller than the paper's), a center for every ten pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import coresift as cs
from repro.plans import QUICK, SMALL
from repro.results import Entry, Experiment, Journal, Key, Line, Report, Setting, pyplot, save_plot, there, write_table
from repro.seq2seq import Study, kept_array

PAIRS = 20_000
A_CENTER_FOR = 10
SEEDS = 5
EDGES = np.linspace(0, 4, 41)


def run(setting: Setting) -> None:
    """Find the losses of the pairs once, then both distributions for each embedding and seed."""
    plan = QUICK if setting.quick else SMALL
    seeds = setting.runs or (1 if setting.quick else SEEDS)
    keys: list[Key] = [(encoder, seed) for seed in range(seeds) for encoder in plan.encoders]
    journal = Journal(setting.out / "loss-histogram.jsonl")
    if all(key in journal.read() for key in keys):
        return
    study = Study(setting, plan)
    count = min(PAIRS, len(study.pool["en"]))
    ids = np.sort(np.random.default_rng(6).permutation(len(study.pool["en"]))[:count])
    losses = kept_array(study.work / "losses.npy", lambda: study.losses(ids))
    journal.fill(
        setting, "clustering", keys, lambda key: gaps(study.rows(key[0]).take(ids), np.asarray(losses), key[1])
    )


def gaps(rows: Any, losses: Any, seed: int) -> Entry:
    """Return the two means, medians and histograms of one clustering."""
    found = cs.cluster(rows, len(rows) // A_CENTER_FOR, seed=seed, progress=False)
    others = np.ones(len(rows), bool)
    others[found.centers] = False
    mine = np.flatnonzero(others)
    partner = np.random.default_rng([seed, 9]).integers(len(rows) - 1, size=mine.size)
    partner += partner >= mine  # anyone but oneself
    apart = {
        "center": np.abs(losses[mine] - losses[found.centers[found.labels[mine]]]),
        "random": np.abs(losses[mine] - losses[partner]),
    }
    return {
        name: {
            "mean": float(values.mean()),
            "median": float(np.median(values)),
            "histogram": (np.histogram(np.minimum(values, EDGES[-1]), EDGES)[0] / values.size).tolist(),
        }
        for name, values in apart.items()
    }


def report(setting: Setting) -> Report:
    """Write means and medians and draw the histograms."""
    found: dict[str, list[Entry]] = {}
    for (encoder, _), entry in sorted(there(Journal(setting.out / "loss-histogram.jsonl").read()).items()):
        found.setdefault(encoder, []).append(entry)
    lines, cells, words = [], [], []
    for encoder, runs in found.items():
        means = {name: np.array([run[name]["mean"] for run in runs]) for name in ("center", "random")}
        ratio = means["center"] / means["random"]
        shown = f"×{ratio.mean():.3f} of random's {means['random'].mean():.3f}"
        what = f"{encoder}, mean difference to the center's loss"
        lines.append(Line(what, "plot only: much smaller", f"{means['center'].mean():.3f}", len(runs), shown))
        words.append(f"{encoder} {1 - ratio.mean():.1%} smaller")
        for seed, run in enumerate(runs):
            cells += [[encoder, seed, name, run[name]["mean"], run[name]["median"]] for name in ("center", "random")]
    write_table(setting.out / "loss-histogram.csv", ["embedding", "seed", "partner", "mean", "median"], cells)
    ratios = [
        float(np.mean([run["center"]["mean"] / run["random"]["mean"] for run in runs])) for runs in found.values()
    ]
    word = "Reproduced" if max(ratios) < 0.8 else "Partly reproduced" if max(ratios) < 1 else "Not reproduced"
    verdict = f"{word}: differences to the center's loss are, on average, {', '.join(words)} than to a random pair's."
    return Report(tuple(lines), verdict, (plot(setting, found),))


def plot(setting: Setting, found: dict[str, list[Entry]]) -> str:
    """Draw both histograms for each embedding."""
    plots = pyplot()
    figure, panels = plots.subplots(1, len(found), figsize=(5 * len(found), 3.8), layout="constrained", squeeze=False)
    for panel, (encoder, runs) in zip(panels[0], found.items(), strict=True):
        for name, color in (("random", "tab:orange"), ("center", "tab:blue")):
            shares = np.mean([run[name]["histogram"] for run in runs], axis=0)
            label = "a random pair" if name == "random" else "the cluster's center"
            panel.stairs(shares, EDGES, fill=True, alpha=0.45, color=color, label=label)
        panel.set_title(f"{encoder} embeddings")
        panel.set_xlabel("difference of losses to that of …")
        panel.set_ylabel("share of pairs")
        panel.legend(frameon=False)
    return save_plot(figure, setting.out / "loss-histogram")


EXPERIMENT = Experiment(
    "loss-histogram",
    "Differences of losses to the center's and to a random pair's",
    "20,000 Europarl pairs under a small T5. Cost: two CPU minutes, and 17 for the T5.",
    run,
    report,
)
