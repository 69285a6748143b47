"""The paper's figures of image classification: test accuracy against the number of training images.

    python -m repro images-curves

Cost: a run takes 3 to 27 CPU seconds on MNIST and Fashion-MNIST and 38 to 315 on CIFAR-10, growing with the budget; one
of active learning or cover takes 2 to 10 and 3 to 27. This is three CPU hours beside those at 2,000, which are the runs
of `images-table`. The paper plots means with bands of one standard deviation over 100 runs and gives only the numbers
at 2,000. Here: 30 runs per budget from 500 to 8,000 on MNIST and Fashion-MNIST, 10 on CIFAR-10, and 10 of active
learning and cover.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from repro import images_causes, images_pixels
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
from repro.images_pixels import Runs, contrasts, next_to
from repro.results import (
    Experiment,
    Floats,
    Line,
    Report,
    Setting,
    claim_and_parts,
    degree,
    outcome,
    paired,
    pyplot,
    require_runs,
    save_plot,
    write_table,
)

TRIED = {"cifar10": "2,000 images", "fashion_mnist": "500 images"}
PAPER_GAIN = 0.0003  # of loss over uniform on CIFAR-10, at 2,000 images
RUNS = {"mnist": 30, "fashion_mnist": 30, "cifar10": 10}
PIXEL_RUNS = {"mnist": 10, "fashion_mnist": 10, "cifar10": 10}  # of active learning and cover
TITLES = NAMES | images_pixels.NAMES
STYLES = {
    "uniform": ("black", "-", "o"),
    "k-center": ("tab:orange", "-", "o"),
    "loss": ("tab:blue", "-", "o"),
    "gradient": ("tab:blue", "--", "o"),
    "margin": ("tab:red", "-", "o"),
    "least-confidence": ("tab:red", "--", "o"),
    "entropy": ("tab:red", ":", "o"),
    "ours": ("tab:green", "-", "o"),
    "learning-head": ("tab:purple", "-", "*"),
    "learning-network": ("tab:pink", "none", "*"),  # at 2,000 images only
    "cover": ("tab:olive", "-", "s"),
}
SIZES = {"o": 4, "s": 4, "*": 8}
# In the lower panels and on the page.
COMPARED = ("loss", "gradient", "ours", "margin", "learning-head", "learning-network", "cover")
# By data set and budget.
Curves: TypeAlias = dict[str, dict[int, Runs]]


def run(setting: Setting) -> None:
    """Do the runs at every budget."""
    budgets = (QUICK_BUDGET // 2, QUICK_BUDGET) if setting.quick else BUDGETS
    datasets = ["mnist"] if setting.quick else list(RUNS)
    study(quicker(setting), {(dataset, budget): RUNS[dataset] for dataset in datasets for budget in budgets})
    of_pixels = {(dataset, budget): PIXEL_RUNS[dataset] for dataset in datasets for budget in budgets}
    images_pixels.study(quicker(setting), dict.fromkeys(images_pixels.JOURNALS, of_pixels))
    (images_causes.quick if setting.quick else images_causes.study)(setting)


def report(setting: Setting) -> Report:
    """Write all means and the plots."""
    by_dataset = require_runs(all_runs(setting))
    lines, cells = [], []
    for dataset, budgets in by_dataset.items():
        for budget, pairs in budgets.items():
            for method, (values, base) in pairs.items():
                gap, error = paired(values, base)
                spread = float(values.std(ddof=1)) if values.size > 1 else float("nan")
                cells.append([dataset, budget, method, values.size, values.mean(), spread, gap, error])
            if budget != TABLE:
                lines += [line(dataset, budget, pairs, name) for name in COMPARED if name in pairs]
    head = ["dataset", "budget", "method", "runs", "mean", "sd", "minus_uniform", "standard_error"]
    require_runs(lines)
    write_table(setting.out / "images-curves.csv", head, cells)
    word, number, text = verdict(by_dataset)
    notes = NOTES + pixel_notes(setting, by_dataset) + causes(setting, by_dataset)
    return Report(word, number, tuple(lines), text, (plot(setting, by_dataset),), notes)


def all_runs(setting: Setting) -> Curves:
    """Return the accuracies of all methods, each with uniform's in the same runs."""
    by_dataset: Curves = {}
    for dataset in DATASETS:
        for budget, methods in accuracies(setting, dataset).items():
            by_dataset.setdefault(dataset, {})[budget] = next_to(methods, setting, dataset, budget)
    return by_dataset


NOTES = """Differences are to uniform, paired by run, ± one standard error. The upper panels are those of the paper,
with bands of one standard deviation for uniform and loss; the lower ones have differences with two standard errors. All
methods and budgets are in `results/images-curves.csv`, and the numbers at 2,000 images in `images-table`. Active
learning and cover have fewer runs than the others at some budgets; their numbers of runs are in parentheses, from the
smallest budget to the largest."""
ABOUT_PIXELS = {
    "learning-head": "**Active learning**, with its default head, is",
    "cover": "**Cover**, which knows no labels, is",
}
CONTRAST = """**Cause, active learning and cover on CIFAR-10.** Coverage prefers images that are near many others, and
of photos these are the smooth ones. The mean difference of neighboring pixels, relative to all images, is:

{0}

Both lose most at 500 images, where theirs are smoothest. With more labels, active learning notices that pixels say
little about the classes, and takes random images (`run.random_share`). Its runs at 2,000 images did not store this
number. Cover loses with 8,000 images too, where its images have more contrast than the average, so smoothness does not
explain that."""


def pixel_notes(setting: Setting, by_dataset: Curves) -> str:
    """Return where active learning and cover beat uniform, and how smooth their images of CIFAR-10 are."""
    text = ""
    for name, about in ABOUT_PIXELS.items():
        parts = []
        for dataset, budgets in by_dataset.items():
            of = {budget: pairs[name] for budget, pairs in budgets.items() if name in pairs}
            runs = ", ".join(str(values.size) for values, _ in of.values())
            gaps = sorted(paired(*pair)[0] for pair in of.values())
            if of:
                spread = f"from {gaps[0]:+.4f} to {gaps[-1]:+.4f}"
                parts.append(f"- {DATASETS[dataset]} ({runs} runs): {compared(of)} ({spread}).")
        text += "\n\n".join(["", about, "\n".join(parts)]) if parts else ""
    smooth = []
    for name in ABOUT_PIXELS:
        ratios = sorted(contrasts(setting, name, "cifar10").items())
        shown = ", ".join(f"×{ratio:.2f} at {budget:,}" for budget, ratio in ratios)
        smooth += [f"- {TITLES[name]}: {shown}."] if ratios else []
    return text + ("\n\n" + CONTRAST.format("\n".join(smooth)) if smooth else "")


def causes(setting: Setting, by_dataset: Curves) -> str:
    """Return why some points of the curves are not reproduced, as far as the runs show it."""
    text = ""
    if "cifar10" in by_dataset and TABLE in by_dataset["cifar10"]:
        values, base = by_dataset["cifar10"][TABLE]["loss"]
        _, error = paired(values, base)
        needed = values.size * (2 * error / PAPER_GAIN) ** 2
        text += (
            f"\n\n**Cause, Algorithm 1 on CIFAR-10.** The paper's own gain is {PAPER_GAIN:+.4f} at {TABLE:,} images. "
            f"The standard error of the paired difference is {error:.4f} after {values.size} runs. To distinguish "
            f"{PAPER_GAIN:.4f} from 0 by two standard errors takes about {needed:,.0f} runs, so the paper's 100 runs "
            "could not show it either. Both here and in the paper, Algorithm 1 and uniform do not differ measurably on "
            f"CIFAR-10. Uniform has {base.mean():.4f} here."
        )
        text += tried(setting, "cifar10")
    if "fashion_mnist" in by_dataset and min(BUDGETS) in by_dataset["fashion_mnist"]:
        first = [
            entry["first"]
            for key, entry in journal_of(setting, "fashion_mnist").read().items()
            if key[0] == min(BUDGETS)
        ]
        text += (
            f"\n\n**Possible cause, Algorithm 1 on Fashion-MNIST at {min(BUDGETS)} images.** The network whose "
            f"gradients are used was trained on only {round(SHARE * min(BUDGETS))} images, and is right on "
            f"{np.mean(first):.0%} of the test images. If it is trained on more images, the difference to uniform is "
            "smaller but does not become a gain, so this is at most part of the cause."
        )
        text += tried(setting, "fashion_mnist")
    return text


def tried(setting: Setting, dataset: str) -> str:
    """Return the variants that were tried on a data set, and their results."""
    table = images_causes.markdown(images_causes.journal_of(setting).read(), dataset)
    return f" We tried these variants, at {TRIED[dataset]}:\n\n{table}" if table else ""


def line(dataset: str, budget: int, pairs: Runs, name: str) -> Line:
    """Return a method's mean at a budget and its paired difference to uniform."""
    values, base = pairs[name]
    gap, error = paired(values, base)
    what = f"{DATASETS[dataset]}, {budget:,} rows, {TITLES[name]}"
    return Line(what, "plot only", f"{values.mean():.4f}", values.size, f"{gap:+.4f} ± {error:.4f} to uniform")


def verdict(by_dataset: Curves) -> tuple[str, str, str]:
    """Return the verdict, the number, and the budgets at which Algorithm 1 beats uniform by two standard errors."""
    parts, held = [], []
    for dataset, budgets in by_dataset.items():
        words = []
        for method in ("loss", "gradient"):
            of = {budget: pairs[method] for budget, pairs in budgets.items()}
            held += [gap > 2 * error for gap, error in (paired(*pair) for pair in of.values())]
            words.append(f"{method.capitalize()} is {compared(of)}")
        parts.append(f"{DATASETS[dataset]}. {'. '.join(words)}")
    number = f"Algorithm 1 above uniform at {sum(held)} of {len(held)} points of the curves"
    return degree(held), number, claim_and_parts("Algorithm 1 is above uniform", parts)


def compared(of: dict[int, tuple[Floats, Floats]]) -> str:
    """Return at which budgets a method beats uniform by two standard errors, and at which it loses to it."""
    outcomes = {budget: outcome(*paired(*pair)) for budget, pair in of.items()}
    parts = []
    for word in dict.fromkeys(outcomes.values()):
        budgets = [f"{budget:,}" for budget in of if outcomes[budget] == word]
        where = "at every budget" if len(budgets) == len(of) > 1 else f"at {', '.join(budgets)}"
        parts.append(f"{word} uniform {where}")
    return "; ".join(parts)


def plot(setting: Setting, by_dataset: Curves) -> str:
    """Draw accuracy against the budget, and below it the difference to uniform of the methods that are compared."""
    plots = pyplot()
    size = (5 * len(by_dataset), 8)
    figure, panels = plots.subplots(2, len(by_dataset), figsize=size, layout="constrained", squeeze=False)
    for (upper, lower), (dataset, budgets) in zip(panels.T, by_dataset.items(), strict=True):
        for name in STYLES:
            of = {budget: pairs[name] for budget, pairs in budgets.items() if name in pairs}
            draw_accuracies(upper, name, of)
            if name in COMPARED:
                draw_differences(lower, name, of)
        lower.axhline(0, color="black", linewidth=1.5)
        upper.set_title(DATASETS[dataset])
        for panel, what in ((upper, "test accuracy"), (lower, "accuracy minus uniform's")):
            panel.set_xscale("log")
            panel.set_xticks(list(budgets), [f"{budget:,}" for budget in budgets])
            panel.minorticks_off()
            panel.set_xlabel("training images")
            panel.set_ylabel(what)
            panel.grid(alpha=0.25)
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return save_plot(figure, setting.out / "images-curves")


def draw_accuracies(panel: Any, name: str, of: dict[int, tuple[Floats, Floats]]) -> None:
    """Draw a method's mean accuracy; uniform and loss have bands of one standard deviation."""
    color, dash, marker = STYLES[name]
    mean = np.array([values.mean() for values, _ in of.values()])
    style = {"linestyle": dash, "color": color, "marker": marker, "markersize": SIZES[marker]}
    panel.plot(list(of), mean, linewidth=1.5, label=TITLES[name], **style)
    if name in ("uniform", "loss"):
        spread = np.array([values.std(ddof=1) if values.size > 1 else 0.0 for values, _ in of.values()])
        panel.fill_between(list(of), mean - spread, mean + spread, color=color, alpha=0.12, linewidth=0)


def draw_differences(panel: Any, name: str, of: dict[int, tuple[Floats, Floats]]) -> None:
    """Draw a method's mean difference to uniform with two standard errors; methods stand next to each other."""
    color, dash, marker = STYLES[name]
    gaps = np.array([paired(*pair) for pair in of.values()]).reshape(-1, 2)
    at = np.array(list(of)) * 1.025 ** (COMPARED.index(name) - len(COMPARED) // 2)
    style = {"linestyle": dash, "color": color, "marker": marker, "markersize": SIZES[marker]}
    panel.errorbar(at, gaps[:, 0], np.nan_to_num(2 * gaps[:, 1]), linewidth=1.3, elinewidth=0.8, **style)


EXPERIMENT = Experiment(
    "images-curves",
    "Test accuracy against the number of training images",
    "The same protocol at 500 to 8,000 images. Cost: three CPU hours beside the table's.",
    run,
    report,
)
