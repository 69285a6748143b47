"""The paper's table of Hölder constants: percentiles of |ℓ(e) − ℓ(c)| / ‖e − c‖² on MNIST and the gas sensor data.

    python -m repro holder-table

Cost: less than ten CPU minutes. The paper, at the percentiles 20/40/60/80/99: MNIST (loss of
the 784-128-10 network) .00111 .00320 .00663 .01416 .05935; gas (the concentration) .02286 .04488 .07158 .12589 .86976.
It states neither how the inputs are scaled, nor the number of clusters, nor on what and for how long the network was
trained; λ depends on all of them. So several of each are tried, and the ones nearest to the paper (by the mean absolute
log ratio over the five percentiles) are named, with the spread over all of them in the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch

import coresift as cs
from coresift.models import classifier_loss, last_layer
from repro.data import gas, images
from repro.networks import EPOCHS, Images, train
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
    claim_and_parts,
    pyplot,
    require_runs,
    save_plot,
    write_table,
)

PERCENTILES = (20, 40, 60, 80, 99)
SCALED = "pixels 0 to 255"
PAPER = {
    "mnist": (0.00111, 0.00320, 0.00663, 0.01416, 0.05935),
    "gas": (0.02286, 0.04488, 0.07158, 0.12589, 0.86976),
}
TITLES = {"mnist": "MNIST", "gas": "gas sensors"}
ROWS = {
    "mnist": {
        "pixels 0 to 1": "pixels divided by 255",
        SCALED: "pixels as they are",
        "last layer": "the network's last hidden layer, pixels divided by 255",
        "one epoch": "pixels divided by 255, the network after one epoch",
    },
    "gas": {
        "standardized": "features standardized, the concentration as it is",
        "both standardized": "features and concentration standardized",
        "features 0 to 1": "features scaled to between 0 and 1, the concentration as it is",
        "both 0 to 1": "features and concentration scaled to between 0 and 1",
        "16 standardized": "the first feature of each sensor, standardized, the concentration as it is",
        "16, both standardized": "the first feature of each sensor and the concentration, standardized",
        "raw": "as they are",
        "16, class standardized": "the first feature of each sensor and the gas's number, standardized, of all rows",
    },
}
CLUSTERS = {"mnist": (1, 100, 400), "gas": (1, 2, 5, 20, 80, 400, 795)}
SEEN = (400, 2_000, 60_000)
SEEDS = 3
SHOWN = 50  # the plot's range: this factor below and above the paper's percentiles
FLOOR = 1e-6  # replaces a ratio of 0 before taking logarithms

Problem = tuple[Any, Floats]  # rows and a number for each
Problems = dict[str, Callable[[], dict[int, Problem]]]  # by kind of rows, then by the network's training images


def run(setting: Setting) -> None:
    """Compute the missing percentiles, for every scaling, number of clusters and training set."""
    torch.set_num_threads(1)  # layers this small gain nothing from a second thread, and lose much on a busy machine
    journal = Journal(setting.out / "holder-table.jsonl")
    for seed in range(setting.runs or (1 if setting.quick else SEEDS)):
        fill(setting, journal, "gas", seed, partial(gas_problems, setting))
        fill(setting, journal, "mnist", seed, partial(mnist_problems, setting, seed))


def fill(setting: Setting, journal: Journal, data: str, seed: int, make: Callable[[], Any]) -> None:
    """Do the missing runs of one seed."""
    clusters = CLUSTERS[data][:1] if setting.quick else CLUSTERS[data]
    keys: list[Key] = [(data, rows, k, seed) for rows in ROWS[data] if rows != SCALED for k in clusters]
    if all(key in journal.read() for key in keys) or not setting.time_left():
        return
    journal.fill(setting, f"{TITLES[data]}, seed {seed}", keys, partial(percentiles, make()))


def mnist_problems(setting: Setting, seed: int) -> Problems:
    """Return rows of each kind, with the losses of networks that were trained on so many random rows."""
    arrays = images("mnist", setting.where, 2_000 if setting.quick else None)
    data = Images.of(arrays["X_train"], arrays["y_train"])
    pixels, counts = data.pixels.numpy(), SEEN[:1] if setting.quick else SEEN

    @cache
    def network(seen: int, epochs: int) -> Any:
        ids = np.random.default_rng([seed, 8]).permutation(len(data))[:seen]
        return train(data, [ids], seed, epochs)[0]

    def losses(seen: int, epochs: int) -> Floats:
        loss = classifier_loss(network(seen, epochs), (data.pixels, data.classes), batch=2048)
        return np.asarray(loss(np.arange(len(data))))

    def hidden(seen: int) -> Any:
        return last_layer(network(seen, EPOCHS), data.pixels, batch=2048, progress=False)

    return {
        "pixels 0 to 1": lambda: {seen: (pixels, losses(seen, EPOCHS)) for seen in counts},
        "last layer": lambda: {seen: (hidden(seen), losses(seen, EPOCHS)) for seen in counts},
        "one epoch": lambda: {seen: (pixels, losses(seen, 1)) for seen in counts},
    }


def gas_problems(setting: Setting) -> Problems:
    """Return features of each scaling with the concentration, of the rows that have one."""
    arrays = gas(setting.where)
    known = np.isfinite(arrays["concentration"])
    features, target = arrays["X"][known].astype(np.float64), arrays["concentration"][known].astype(np.float64)
    standard, unit = standardized(features), (features - features.min(0)) / np.ptp(features, 0)
    normal, share = standardized(target), (target - target.min()) / np.ptp(target)
    made = {
        "standardized": (standard, target),
        "both standardized": (standard, normal),
        "features 0 to 1": (unit, target),
        "both 0 to 1": (unit, share),
        "16 standardized": (standard[:, ::8], target),
        "16, both standardized": (standard[:, ::8], normal),
        "raw": (features, target),
        "16, class standardized": (standardized(arrays["X"][:, ::8]), standardized(arrays["gas_class"])),
    }
    found = {name: {0: (rows.astype(np.float32), values)} for name, (rows, values) in made.items()}
    return {name: partial(found.get, name, {}) for name in found}


def standardized(values: Any) -> Floats:
    """Return columns with mean 0 and standard deviation 1."""
    wide = np.asarray(values, np.float64)
    return (wide - wide.mean(0)) / wide.std(0)


def percentiles(made: Problems, key: Key) -> Entry:
    """Cluster, and return the percentiles of the ratio over all rows that are not centers, for each network."""
    _, name, k, seed = key
    found, clustered = {}, None
    for seen, (rows, losses) in made[name]().items():
        if rows is not clustered:
            clustering, clustered = cs.cluster(rows, k, z=2.0, seed=seed, progress=False), rows
        gaps = np.abs(losses - losses[clustering.centers][clustering.labels])
        away = clustering.distances > 0
        ratios = gaps[away] / clustering.distances[away].astype(np.float64) ** 2
        found[str(seen)] = np.percentile(ratios, PERCENTILES).tolist()
    return {"percentiles": found}


# ------------------------------------------------------------------ report


def report(setting: Setting) -> Report:
    """Write the percentiles of all settings, and name the setting that is nearest to the paper."""
    by_setting: dict[Key, list[Floats]] = {}
    for (data, rows, k, _), entry in require_runs(Journal(setting.out / "holder-table.jsonl").read()).items():
        for seen, values in entry["percentiles"].items():
            by_setting.setdefault((data, rows, k, int(seen)), []).append(np.array(values))
            if rows == "pixels 0 to 1":  # distances are 255 times as large without the division, clusters the same
                by_setting.setdefault((data, SCALED, k, int(seen)), []).append(np.array(values) / 255**2)
    means = {key: np.exp(np.mean(np.log(np.maximum(seeds, FLOOR)), axis=0)) for key, seeds in by_setting.items()}
    runs = {key: len(seeds) for key, seeds in by_setting.items()}
    cells = [[*key, runs[key], *values, distance(key, values)] for key, values in sorted(means.items())]
    head = ["data", "rows", "clusters", "seen", "runs", *(f"p{p}" for p in PERCENTILES), "mean_abs_log_ratio"]
    write_table(setting.out / "holder-table.csv", head, cells)
    lines, words, best = [], [], {}
    for data in PAPER:
        every = {key: values for key, values in means.items() if key[0] == data}
        if every:
            best[data] = min(every, key=lambda key: distance(key, every[key]))
            lines += lines_of(best[data], every[best[data]], runs[best[data]])
            words.append(verdict_of(best[data], every[best[data]]))
        else:
            words.append(f"{TITLES[data]}: not run yet")
    near = {data: within(key, means[key]) for data, key in best.items()}
    ratios = (f"{spread(key, means[key])} ({TITLES[data]})" for data, key in best.items())
    number = f"percentiles are {' and '.join(ratios)} of the paper's"
    words_of = [YES if count == 5 else PARTLY if count >= 3 else NO for count in near.values()]
    word = words_of[0] if len(set(words_of)) == 1 else PARTLY
    text = claim_and_parts("the percentiles of the ratio are those of the paper's table", words)
    return Report(word, number, tuple(lines), text, (plot(setting, means, best),), NOTES)


NOTES = """The lines show the scaling, number of clusters and training set that are nearest to the paper, out of all in
`results/holder-table.csv` (geometric means over seeds). Centers are left out, because their ratio is 0/0.
Concentrations are known for 7,946 of the 13,910 rows.

**Cause, gas sensors.** Multiplying features or concentrations by a constant multiplies all five percentiles by the same
factor, so their shape, 1 : 2.0 : 3.1 : 5.5 : 38 in the paper, does not depend on units. Concentrations have only 52
values. In most configurations with two or more clusters, a fifth of the rows have exactly their center's concentration,
and the 20th percentile is 0, which the paper's is not. With a single cluster, the shape agrees. With the first feature
of each sensor (the paper mentions 16 dimensions), and with features and concentration standardized, the numbers agree
too. So "the observed value for Λ across the whole dataset" seems to mean one center for all rows. We found this by a
search. We first looked for the shape, among 560 combinations of target, features, number of clusters and exponent. This
combination had the second nearest shape; the nearest, the mean of each sensor's features with one cluster, hardly
differs. Then we computed the 56 configurations of the table with their constants. Such a wide search can find a match
by chance, but this match has the paper's 16 dimensions and needs no constant that we chose.

**Cause, MNIST.** The longer a network is trained, the more of its losses are almost 0, and the wider the percentiles
spread. The paper's percentiles are those of a network that was hardly trained, like ours after one epoch over 2,000
images. After ten epochs, which the paper uses elsewhere, the spread is too wide with 400, 2,000 and 60,000 training
images. We found this among 13 combinations of training images and epochs, with one seed on a quarter of the rows. On
all rows, it holds for each of three seeds, two of which are new.
"""


def distance(key: Key, values: Floats) -> float:
    """Return the mean absolute log ratio to the paper's percentiles."""
    return float(np.mean(np.abs(np.log(values / np.array(PAPER[key[0]])))))


def described(key: Key) -> str:
    """Return a description of the setting."""
    seen = f", {key[3]:,} training images" if key[3] else ""
    clusters = "one cluster" if key[2] == 1 else f"{key[2]:,} clusters"
    return f"{ROWS[key[0]][key[1]]}, {clusters}{seen}"


def lines_of(key: Key, values: Floats, runs: int) -> list[Line]:
    """Return a line for each percentile."""
    lines = []
    for percent, paper, ours in zip(PERCENTILES, PAPER[key[0]], values, strict=True):
        what = f"{TITLES[key[0]]}, {percent}th percentile"
        lines.append(Line(what, f"{paper:.5f}", f"{ours:.5f}", runs, f"×{ours / paper:.2f}"))
    lines[0] = replace(lines[0], what=f"{lines[0].what} ({described(key)})")
    return lines


def within(key: Key, values: Floats) -> int:
    """Return how many percentiles are within a factor of two of the paper's."""
    ratios = values / np.array(PAPER[key[0]])
    return int(np.count_nonzero((ratios > 0.5) & (ratios < 2)))


def verdict_of(key: Key, values: Floats) -> str:
    """Return a sentence about whether the magnitudes are reproduced."""
    return (
        f"{TITLES[key[0]]}: with {described(key)}, {within(key, values)} of 5 percentiles are within a factor of two "
        f"({spread(key, values)} of the paper's)"
    )


def spread(key: Key, values: Floats) -> str:
    """Return the smallest and the largest ratio to the paper's percentiles."""
    ratios = values / np.array(PAPER[key[0]])
    return f"×{ratios.min():.2f} to ×{ratios.max():.2f}"


def plot(setting: Setting, means: dict[Key, Floats], best: dict[str, Key]) -> str:
    """Plot the percentiles of all settings in gray, and the nearest setting next to the paper's."""
    plots = pyplot()
    figure, panels = plots.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for panel, data in zip(panels, PAPER, strict=True):
        every = [values for key, values in means.items() if key[0] == data]
        for number, values in enumerate(every):
            label = f"{len(every)} configurations" if number == 0 else None
            panel.plot(PERCENTILES, values, color="0.75", linewidth=0.7, label=label)
        if data in best:
            panel.plot(PERCENTILES, means[best[data]], color="tab:blue", linewidth=2.5, label="the nearest")
        panel.plot(PERCENTILES, PAPER[data], "o--", color="black", label="the paper")
        panel.set_yscale("log")
        panel.set_ylim(PAPER[data][0] / SHOWN, PAPER[data][-1] * SHOWN)
        panel.set_xticks(PERCENTILES)
        panel.set_title(TITLES[data])
        panel.set_xlabel("percentile")
        panel.set_ylabel("|ℓ(e) − ℓ(c)| / ‖e − c‖²")
        panel.legend(fontsize=8, edgecolor="none", framealpha=0.9, loc="upper left")
        panel.grid(alpha=0.25)
    return save_plot(figure, setting.out / "holder-table")


EXPERIMENT = Experiment(
    "holder-table",
    "Percentiles of the Hölder ratio with z = 2",
    "MNIST (a network's loss) and gas sensors (the concentration), under several scalings. Cost: ten CPU minutes.",
    run,
    report,
)
