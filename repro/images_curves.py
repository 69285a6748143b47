"""The paper's figures of image classification: test accuracy against the number of training images.

    python -m repro images-curves

Cost: a run takes 3 to 27 CPU seconds on MNIST and Fashion-MNIST and 38 to 300 on CIFAR-10, growing with the budget:
two and a half CPU hours beside those at 2,000, which are the runs of `images-table`. The paper plots means with bands
of one standard deviation over 100 runs and gives only the numbers at 2,000. Here: 30 runs per budget from 500 to 8,000
on MNIST and Fashion-MNIST, 10 on CIFAR-10.
"""

from __future__ import annotations

import numpy as np

from repro import images_causes, images_learning
from repro.images import (
    BUDGETS,
    DATASETS,
    NAMES,
    QUICK_BUDGET,
    SHARE,
    TABLE,
    accuracies,
    journal_of,
    quicker,
    study,
)
from repro.results import (
    Experiment,
    Floats,
    Line,
    Report,
    Setting,
    degree,
    paired,
    pyplot,
    require_runs,
    save_plot,
    write_table,
)

TRIED = {"cifar10": "2,000 images", "fashion_mnist": "500 images"}
PAPER_GAIN = 0.0003  # of loss over uniform on CIFAR-10, at 2,000 images
RUNS = {"mnist": 30, "fashion_mnist": 30, "cifar10": 10}
STYLES = {
    "uniform": ("black", "-"),
    "k-center": ("tab:orange", "-"),
    "loss": ("tab:blue", "-"),
    "gradient": ("tab:blue", "--"),
    "margin": ("tab:red", "-"),
    "least-confidence": ("tab:red", "--"),
    "entropy": ("tab:red", ":"),
    "ours": ("tab:green", "-"),
}
STARS = {"learning-head": "tab:olive", "learning-network": "tab:purple"}


def run(setting: Setting) -> None:
    """Do the runs at every budget."""
    budgets = (QUICK_BUDGET // 2, QUICK_BUDGET) if setting.quick else BUDGETS
    datasets = ["mnist"] if setting.quick else list(RUNS)
    study(quicker(setting), {(dataset, budget): RUNS[dataset] for dataset in datasets for budget in budgets})
    (images_causes.quick if setting.quick else images_causes.study)(setting)


def report(setting: Setting) -> Report:
    """Write all means and the plots."""
    by_dataset = {dataset: accuracies(setting, dataset) for dataset in DATASETS}
    by_dataset = require_runs({dataset: budgets for dataset, budgets in by_dataset.items() if budgets})
    lines, cells = [], []
    for dataset, budgets in by_dataset.items():
        for budget, methods in budgets.items():
            for method, values in methods.items():
                gap, error = paired(values, methods["uniform"])
                spread = float(values.std(ddof=1)) if values.size > 1 else float("nan")
                cells.append([dataset, budget, method, values.size, values.mean(), spread, gap, error])
            if budget != TABLE:
                lines += [line(dataset, budget, methods, name) for name in ("loss", "gradient", "ours", "margin")]
    head = ["dataset", "budget", "method", "runs", "mean", "sd", "minus_uniform", "standard_error"]
    require_runs(lines)
    write_table(setting.out / "images-curves.csv", head, cells)
    word, number, text = verdict(by_dataset)
    learning = {dataset: images_learning.accuracies(setting, dataset, TABLE) for dataset in by_dataset}
    notes = NOTES + (LEARNING_NOTES if any(learning.values()) else "") + causes(setting, by_dataset)
    return Report(word, number, tuple(lines), text, (plot(setting, by_dataset, learning),), notes)


NOTES = """Differences are to uniform, paired by run, ± one standard error. Bands in the plot are one standard
deviation, as in the paper. All methods and budgets are in `results/images-curves.csv`."""
LEARNING_NOTES = " Active learning, the stars in the plot, has runs at 2,000 images only; they are in `images-table`."


def causes(setting: Setting, by_dataset: dict[str, dict[int, dict[str, Floats]]]) -> str:
    """Return why some points of the curves are not reproduced, as far as the runs show it."""
    text = ""
    if "cifar10" in by_dataset and TABLE in by_dataset["cifar10"]:
        methods = by_dataset["cifar10"][TABLE]
        _, error = paired(methods["loss"], methods["uniform"])
        needed = methods["loss"].size * (2 * error / PAPER_GAIN) ** 2
        text += (
            f"\n\n**Cause, CIFAR-10.** The paper's own gain is {PAPER_GAIN:+.4f} at {TABLE:,} images. The standard "
            f"error of the paired difference is {error:.4f} after {methods['loss'].size} runs. To distinguish "
            f"{PAPER_GAIN:.4f} from 0 by two standard errors takes {needed:,.0f} runs, so the paper's 100 runs could "
            "not show it either. Both here and in the paper, Algorithm 1 and uniform are the same on CIFAR-10."
        )
        text += tried(setting, "cifar10")
    if "fashion_mnist" in by_dataset and min(BUDGETS) in by_dataset["fashion_mnist"]:
        first = [
            entry["first"]
            for key, entry in journal_of(setting, "fashion_mnist").read().items()
            if key[0] == min(BUDGETS)
        ]
        text += (
            f"\n\n**Cause, Fashion-MNIST at {min(BUDGETS)} images.** The network whose gradients are used was trained "
            f"on only {round(SHARE * min(BUDGETS))} images, and is right on {np.mean(first):.0%} of the test images."
        )
        text += tried(setting, "fashion_mnist")
    return text


def tried(setting: Setting, dataset: str) -> str:
    """Return the variants that were tried on a data set, and their results."""
    table = images_causes.markdown(images_causes.journal_of(setting).read(), dataset)
    return f" We tried these variants, at {TRIED[dataset]}:\n\n{table}" if table else ""


def line(dataset: str, budget: int, methods: dict[str, Floats], name: str) -> Line:
    """Return a method's mean at a budget and its paired difference to uniform."""
    gap, error = paired(methods[name], methods["uniform"])
    what = f"{DATASETS[dataset]}, {budget:,} rows, {NAMES[name]}"
    values = methods[name]
    return Line(what, "plot only", f"{values.mean():.4f}", values.size, f"{gap:+.4f} ± {error:.4f} to uniform")


def verdict(by_dataset: dict[str, dict[int, dict[str, Floats]]]) -> tuple[str, str, str]:
    """Return the verdict, the number, and the budgets at which Algorithm 1 beats uniform by two standard errors."""
    parts, held = [], []
    for dataset, budgets in by_dataset.items():
        words = []
        for method in ("loss", "gradient"):
            gaps = {budget: paired(of[method], of["uniform"]) for budget, of in budgets.items()}
            better = [f"{budget:,}" for budget, (gap, error) in gaps.items() if gap > 2 * error]
            worse = [f"{budget:,}" for budget, (gap, error) in gaps.items() if gap < -2 * error]
            held += [gap > 2 * error for gap, error in gaps.values()]
            words.append(f"{method} beats uniform at {listed(better)} and loses to it at {listed(worse)}")
        parts.append(f"{DATASETS[dataset]} ({', '.join(f'{budget:,}' for budget in budgets)} rows): {'; '.join(words)}")
    number = f"Algorithm 1 above uniform at {sum(held)} of {len(held)} points of the curves"
    return degree(held), number, f"The claim: Algorithm 1 is above uniform. {'. '.join(parts)}."


def listed(words: list[str]) -> str:
    """Return the words as a list in a sentence, or "none"."""
    return ", ".join(words) if words else "none"


def plot(
    setting: Setting,
    by_dataset: dict[str, dict[int, dict[str, Floats]]],
    learning: dict[str, images_learning.Runs],
) -> str:
    """Draw accuracy against the budget, with bands of one standard deviation, and active learning as stars."""
    plots = pyplot()
    figure, panels = plots.subplots(
        1, len(by_dataset), figsize=(5 * len(by_dataset), 4.4), layout="constrained", squeeze=False
    )
    for panel, (dataset, budgets) in zip(panels[0], by_dataset.items(), strict=True):
        at = list(budgets)
        for name, (color, dash) in STYLES.items():
            values = [budgets[budget][name] for budget in at]
            mean = [float(runs.mean()) for runs in values]
            spread = [float(runs.std(ddof=1)) if runs.size > 1 else 0.0 for runs in values]
            panel.plot(at, mean, dash, color=color, marker="o", markersize=3, linewidth=1.5, label=NAMES[name])
            if name in ("uniform", "loss"):
                low, high = ([m + sign * s for m, s in zip(mean, spread, strict=True)] for sign in (-1, 1))
                panel.fill_between(at, low, high, color=color, alpha=0.12, linewidth=0)
        for name, color in STARS.items():
            mean = [float(learning[dataset][name][0].mean())] if name in learning[dataset] else []
            panel.plot([TABLE] * len(mean), mean, "*", color=color, markersize=9, label=images_learning.NAMES[name])
        panel.set_xscale("log")
        panel.set_xticks(at, [f"{budget:,}" for budget in at])
        panel.minorticks_off()
        panel.set_title(DATASETS[dataset])
        panel.set_xlabel("training images")
        panel.set_ylabel("test accuracy")
        panel.grid(alpha=0.25)
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return save_plot(figure, setting.out / "images-curves")


EXPERIMENT = Experiment(
    "images-curves",
    "Test accuracy against the number of training images",
    "The same protocol at 500 to 8,000 images. Cost: two and a half CPU hours beside the table's.",
    run,
    report,
)
