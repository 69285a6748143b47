"""The paper's histogram of losses: is a pair's loss nearer to its center's than to that of a random pair?

    python -m repro loss-histogram

The paper shows |ℓ(e) − ℓ(random)| against |ℓ(e) − ℓ(c_e)| for T5 losses on WMT pairs, clustered by BERT embeddings, as
a plot, and says that the second are much smaller on average. Here: 2,000 Europarl pairs under flan-t5-small (see
`translation`), with MiniLM embeddings and those of the model's own encoder, with one center per ten pairs, and per
hundred.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import coresift as cs
from repro.plans import QUICK, SMALL
from repro.results import (
    NO,
    PARTLY,
    YES,
    Entry,
    Experiment,
    Floats,
    Journal,
    Key,
    Line,
    Report,
    Setting,
    pyplot,
    save_plot,
    there,
    write_table,
)
from repro.seq2seq import Study

PAIRS = 2_000
PER_CENTER = (10, 100)  # pairs
SEEDS = 5
EDGES = np.linspace(0, 4, 41)
MUCH = 0.8  # of a random pair's difference: what passes for much smaller


def run(setting: Setting) -> None:
    """Find the losses of the pairs once, then both distributions for each embedding and seed."""
    plan = QUICK if setting.quick else SMALL
    seeds = setting.runs or (1 if setting.quick else SEEDS)
    keys: list[Key] = [
        (encoder, per_center, seed)
        for encoder in plan.encoders
        for per_center in (PER_CENTER[:1] if setting.quick else PER_CENTER)
        for seed in range(seeds)
    ]
    journal = Journal(setting.out / "loss-histogram.jsonl")
    if all(key in journal.read() for key in keys):
        return
    study = Study(setting, replace(plan, name=f"{plan.name}-histogram", pool=min(PAIRS, plan.pool or PAIRS)))

    def one_run(key: Key) -> Entry:
        encoder, per_center, seed = key
        rows = study.rows(encoder)
        return {"model": plan.model, **gaps(rows, study.losses(np.arange(rows.n)), rows.n // per_center, seed)}

    journal.fill(setting, "clustering", keys, one_run)


def gaps(rows: cs.rows.Rows, losses: Floats, clusters: int, seed: int) -> Entry:
    """Return the two means, medians and histograms of one clustering."""
    found = cs.cluster(rows, clusters, seed=seed, progress=False)
    others = np.ones(rows.n, bool)
    others[found.centers] = False
    mine = np.flatnonzero(others)
    partner = np.random.default_rng([seed, 9]).integers(rows.n - 1, size=mine.size)
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
    kept = there(Journal(setting.out / "loss-histogram.jsonl").read())
    found: dict[tuple[str, int], list[Entry]] = {}
    for (encoder, per_center, _), entry in sorted(kept.items()):
        found.setdefault((encoder, per_center), []).append(entry)
    lines, cells, ratios = [], [], {}
    for (encoder, per_center), runs in found.items():
        means = {name: np.array([run[name]["mean"] for run in runs]) for name in ("center", "random")}
        ratios[encoder, per_center] = float((means["center"] / means["random"]).mean())
        shown = f"×{ratios[encoder, per_center]:.3f} of random's {means['random'].mean():.3f}"
        what = f"{encoder}, one center per {per_center} pairs, mean difference to the center's loss"
        lines.append(Line(what, "plot only: much smaller", f"{means['center'].mean():.3f}", len(runs), shown))
        for run in runs:
            cells += [[*run["key"], name, run[name]["mean"], run[name]["median"]] for name in ("center", "random")]
    head = ["embedding", "pairs_per_center", "seed", "partner", "mean", "median"]
    write_table(setting.out / "loss-histogram.csv", head, cells)
    word, number, text = verdict(ratios)
    model = " and ".join(sorted({entry["model"] for entry in kept.values()}))
    return Report(word, number, tuple(lines), text, (plot(setting, found),), f"Model: {model}.")


def verdict(ratios: dict[tuple[str, int], float]) -> tuple[str, str, str]:
    """Say how much nearer a center's loss is: much (a fifth or more) with every embedding, or a little."""
    small = {key: ratio for key, ratio in ratios.items() if key[1] == min(per for _, per in ratios)}
    words = ", ".join(f"{1 - ratio:.1%} smaller ({key[0]}, {key[1]} pairs per center)" for key, ratio in ratios.items())
    word = YES if max(small.values()) < MUCH else PARTLY if max(small.values()) < 1 else NO
    best = min(small, key=lambda key: small[key])
    number = f"differences to the center's loss are {1 - small[best]:.0%} smaller than to a random pair's ({best[0]})"
    return (
        word,
        number,
        f"The claim: differences to the center's loss are much smaller than to a random pair's: {words}.",
    )


def plot(setting: Setting, found: dict[tuple[str, int], list[Entry]]) -> str:
    """Draw both histograms for each embedding."""
    plots = pyplot()
    figure, panels = plots.subplots(1, len(found), figsize=(5 * len(found), 3.8), layout="constrained", squeeze=False)
    for panel, ((encoder, per_center), runs) in zip(panels[0], found.items(), strict=True):
        for name, color in (("random", "tab:orange"), ("center", "tab:blue")):
            shares = np.mean([run[name]["histogram"] for run in runs], axis=0)
            label = "a random pair" if name == "random" else "the cluster's center"
            panel.stairs(shares, EDGES, fill=True, alpha=0.45, color=color, label=label)
        panel.set_title(f"{encoder}, {per_center} pairs per center", fontsize=10)
        panel.set_xlabel("difference of losses to that of …")
        panel.set_ylabel("share of pairs")
        panel.legend(frameon=False)
    return save_plot(figure, setting.out / "loss-histogram")


EXPERIMENT = Experiment(
    "loss-histogram",
    "Differences of losses to the center's and to a random pair's",
    "2,000 Europarl pairs under flan-t5-small, with two embeddings and two sizes of clusters.",
    run,
    report,
)
