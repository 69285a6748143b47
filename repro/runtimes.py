"""The paper's figure of runtimes: seconds to select against the budget, on MNIST and CIFAR-10.

    python -m repro runtimes

Cost: three minutes; nothing else should run beside it. The paper plots seconds on 24 cores in TensorFlow and says that
the loss-based algorithm is the fastest of loss, gradient and k-center. Here: the least of three on this machine, from
the embedded rows on (both sides need them), with the clustering, the losses or gradients of the centers, and the draw;
the seconds of the clustering alone stand beside it, since the paper counts on one made before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import coresift as cs
from repro.data import images
from repro.images import BUDGETS, DATASETS, QUICK_BUDGET, QUICK_ROWS, SHARE, Split, Task
from repro.results import (
    Entry,
    Experiment,
    Journal,
    Key,
    Line,
    Report,
    Setting,
    degree,
    pyplot,
    save_plot,
    there,
    write_table,
)

SETS = ("mnist", "cifar10")
TIMES = 3
NAMES = {"loss": "Algorithm 1, loss", "gradient": "Algorithm 1, gradient", "k-center": "k-center"}


def run(setting: Setting) -> None:
    """Time what is missing."""
    times = 1 if setting.quick else setting.runs or TIMES
    budgets = (QUICK_BUDGET,) if setting.quick else BUDGETS
    for dataset in SETS[:1] if setting.quick else SETS:
        keys: list[Key] = [(dataset, budget) for budget in budgets]
        journal = Journal(setting.out / "runtimes.jsonl")
        if all(key in journal.read() for key in keys) or not setting.time_left():
            continue
        split = Split.of(images(dataset, setting.where, QUICK_ROWS if setting.quick else None))
        journal.fill(setting, DATASETS[dataset], keys, partial(timed, split, times))


def timed(split: Split, times: int, key: Key) -> Entry:
    """Return the least seconds of each method, in turns so that a busy moment hits none alone."""
    budget = key[1]
    task = Task(split, budget, 0)
    rows = cs.open_rows(task.rows.take(np.arange(task.rows.n)))
    task.rows = rows
    tasks: dict[str, Callable[[], Any]] = {
        "clustering": lambda: cs.cluster(rows, round(SHARE * budget), seed=0, progress=False),
        "loss": task.recipe,
        "gradient": lambda: task.recipe(gradient=True),
        "k-center": lambda: task.baseline("k-center"),
    }
    best = dict.fromkeys(tasks, np.inf)
    for _ in range(times):
        for name, one in tasks.items():
            start = time.perf_counter()
            one()
            best[name] = min(best[name], time.perf_counter() - start)
    return {"seconds": best, "times": times}


def report(setting: Setting) -> Report:
    """Write the seconds and draw them."""
    found = there(Journal(setting.out / "runtimes.jsonl").read())
    found = {key: found[key] for key in sorted(found, key=lambda key: (SETS.index(key[0]), key[1]))}
    cells = [
        [*key, name, seconds, entry["times"]]
        for key, entry in found.items()
        for name, seconds in entry["seconds"].items()
    ]
    write_table(setting.out / "runtimes.csv", ["dataset", "budget", "method", "seconds", "least_of"], cells)
    lines = []
    for (dataset, budget), entry in found.items():
        seconds = entry["seconds"]
        for name, title in NAMES.items():
            what = f"{DATASETS[dataset]}, {budget:,} rows, {title}"
            shown = f"×{seconds[name] / seconds['k-center']:.2f} of k-center"
            if name != "k-center":
                shown += f"; {seconds[name] - seconds['clustering']:.2f} s beside the clustering"
            lines.append(Line(what, "plot only", f"{seconds[name]:.2f} s", entry["times"], shown))
    return Report(tuple(lines), verdict(found), (plot(setting, found),), glance="MNIST, 8,000 rows")


def verdict(found: dict[Key, Entry]) -> str:
    """Say where the loss-based algorithm is the fastest of the three, with the clustering and without it."""
    words, fastest = [], []
    for dataset in dict.fromkeys(key[0] for key in found):
        of = {key[1]: entry["seconds"] for key, entry in found.items() if key[0] == dataset}
        first = [f"{budget:,}" for budget, s in of.items() if s["loss"] <= min(s["gradient"], s["k-center"])]
        fastest += [s["loss"] <= min(s["gradient"], s["k-center"]) for s in of.values()]
        made = [f"{b:,}" for b, s in of.items() if s["loss"] - s["clustering"] < s["k-center"]]
        words.append(
            f"{DATASETS[dataset]}: loss is the fastest at {', '.join(first) or 'no'} rows of "
            f"{', '.join(f'{budget:,}' for budget in of)}; given the clustering, it is faster than k-center at "
            f"{', '.join(made) or 'no'} rows"
        )
    return f"{degree(fastest)} (loss the fastest). {'. '.join(words)}."


def plot(setting: Setting, found: dict[Key, Entry]) -> str:
    """Draw seconds against the budget."""
    plots = pyplot()
    names = list(dict.fromkeys(key[0] for key in found))
    figure, panels = plots.subplots(1, len(names), figsize=(5 * len(names), 4), layout="constrained", squeeze=False)
    styles = {"loss": ("tab:blue", "-"), "gradient": ("tab:blue", "--"), "k-center": ("tab:orange", "-")}
    for panel, dataset in zip(panels[0], names, strict=True):
        of = {key[1]: entry["seconds"] for key, entry in found.items() if key[0] == dataset}
        for name, (color, dash) in styles.items():
            panel.plot(list(of), [s[name] for s in of.values()], dash, marker="o", color=color, label=NAMES[name])
        panel.plot(list(of), [s["clustering"] for s in of.values()], ":", color="0.5", label="the clustering alone")
        panel.set_title(DATASETS[dataset])
        panel.set_xlabel("rows selected")
        panel.set_ylabel("seconds")
        panel.legend(frameon=False)
        panel.grid(alpha=0.25)
    return save_plot(figure, setting.out / "runtimes")


EXPERIMENT = Experiment(
    "runtimes",
    "Seconds to select, against the budget",
    "Loss, gradient and k-center on MNIST and CIFAR-10. Cost: three minutes.",
    run,
    report,
)
