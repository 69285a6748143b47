"""Active learning and cover in the paper's protocol for images: they choose images by their pixels.

Both choose all rows with their defaults, active learning including audits; there are no first uniform rows. Rows are
the first 100 principal components of the pixels. Active learning takes uncertainty from its default head; at the
table's budget also from the protocol's network, trained from scratch on all labels in every round. Networks have the
same initialization and order of batches as in the other methods' run with the same number, so differences to uniform
are paired. No network is trained for the audits: what they find is not reported here, and changes no batch.
"""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from scipy.linalg import eigh

import coresift as cs
from repro.data import images
from repro.images import AT_ONCE, DATASETS, QUICK_BUDGET, QUICK_ROWS, TABLE, Ints, Split, journal_of
from repro.networks import CLASSES, Images, accuracy, train
from repro.results import Entry, Floats, Journal, Key, Setting

NAMES = {
    "learning-head": "active learning, default head",
    "learning-network": "active learning, the network's probabilities",
    "cover": "cover",
}
JOURNALS = {"learning": "active learning", "cover": "cover"}
COMPONENTS = 100
# By journal: the number of runs at each data set and budget.
Counts: TypeAlias = dict[str, dict[tuple[str, int], int]]
# The accuracies of each method, and uniform's accuracies in the same runs.
Runs: TypeAlias = dict[str, tuple[Floats, Floats]]


def methods(journal: str, budget: int) -> list[str]:
    """Return the methods of a journal; the network's probabilities, which are expensive, are in the table only."""
    if journal == "cover":
        return ["cover"]
    return ["learning-head", "learning-network"] if budget in (TABLE, QUICK_BUDGET) else ["learning-head"]


def one_run(split: Split, rows: Floats, contrast: Floats, journal: str, key: Key) -> Entry:
    """Return the test accuracy of each method of a journal, and the mean contrast of its images (1 for all images)."""
    budget, seed = key
    names = methods(journal, budget)
    selections = [choose(name, split, rows, budget, seed) for name in names]
    accuracies = [accuracy(network, split.test) for network in train(split.train, selections, seed)]
    contrasts = [round(float(contrast[ids].mean() / contrast.mean()), 4) for ids in selections]
    return {
        "accuracy": dict(zip(names, accuracies, strict=True)),
        "contrast": dict(zip(names, contrasts, strict=True)),
    }


def choose(name: str, split: Split, rows: Floats, budget: int, seed: int) -> Ints:
    """Return the rows that a method chooses."""
    if name == "cover":
        return cs.cover(rows, budget, seed=seed, progress=False).ids.copy()
    classes = split.train.classes.numpy()

    def probabilities(round: int, ids: Ints, labels: Ints) -> Floats:
        before = sum(run.plan.batches[: round - 1]) + sum(run.plan.audits[: round - 1])
        if ids.size > before:  # the round's batch is labeled, so this is for its audit
            return np.full((len(rows), CLASSES), 1 / CLASSES)
        return chances(split, ids, seed)

    options = {"probabilities": probabilities} if name == "learning-network" else {}
    run = cs.active_learning(rows, budget, labels=lambda ids: classes[ids], seed=seed, progress=False, **options)
    return run.complete().ids.copy()


def chances(split: Split, ids: Ints, seed: int) -> Floats:
    """Train a network on these rows, and return its class probabilities for every row."""
    network = train(split.train, [np.sort(ids)], seed)[0].eval()
    with torch.inference_mode():
        batches = [network(pixels).softmax(1) for pixels in split.train.pixels.split(2 * AT_ONCE)]
    return torch.cat(batches).double().numpy()


def principal_components(images: Images) -> Floats:
    """Return the first principal components of the pixels."""
    pixels = images.pixels.reshape(len(images), -1).numpy()
    shifted = pixels - pixels.mean(axis=0)
    last = pixels.shape[1] - 1
    return shifted @ eigh(shifted.T @ shifted, subset_by_index=[last + 1 - COMPONENTS, last])[1]


def local_contrast(images: Images) -> Floats:
    """Return how much neighboring pixels differ in each image, on average; it is small in smooth images."""
    pixels = images.pixels
    if pixels.ndim == 2:
        side = round(pixels.shape[1] ** 0.5)
        pixels = pixels.reshape(-1, 1, side, side)
    steps = [pixels.diff(dim=axis).abs().mean((1, 2, 3)).double() for axis in (2, 3)]
    mean: Floats = ((steps[0] + steps[1]) / 2).numpy()
    return mean


def study(setting: Setting, counts: Counts) -> None:
    """Do the missing runs, data set by data set."""
    torch.set_num_threads(1)
    for dataset in DATASETS:
        todo = []
        for name, of_journal in counts.items():
            journal = pixel_journal(setting, name, dataset)
            budgets = {budget: count for (other, budget), count in of_journal.items() if other == dataset}
            keys: list[Key] = [(budget, seed) for budget in budgets for seed in range(setting.runs or budgets[budget])]
            if not all(key in journal.read() for key in keys):
                todo.append((name, journal, keys))
        if not todo or not setting.time_left():
            continue
        split = Split.of(images(dataset, setting.where, QUICK_ROWS if setting.quick else None))
        rows, contrast = principal_components(split.train), local_contrast(split.train)
        for name, journal, keys in todo:
            run = partial(one_run, split, rows, contrast, name)
            journal.fill(setting, f"{DATASETS[dataset]}, {JOURNALS[name]}", keys, run)


def pixel_journal(setting: Setting, journal: str, dataset: str) -> Journal:
    """Return the runs of one data set."""
    return Journal(setting.out / f"images-{journal}-{dataset}.jsonl")


def accuracies(setting: Setting, dataset: str, budget: int) -> Runs:
    """Return the accuracies of the stored runs, and uniform's accuracies in the same runs."""
    others, found = journal_of(setting, dataset).read(), {}
    for journal in JOURNALS:
        runs = pixel_journal(setting, journal, dataset).read()
        keys = [key for key in sorted(runs) if key[0] == budget and key in others]
        for name in methods(journal, budget) if keys else []:
            values = np.array([runs[key]["accuracy"][name] for key in keys])
            found[name] = values, np.array([others[key]["accuracy"]["uniform"] for key in keys])
    return found


def next_to(others: dict[str, Floats], setting: Setting, dataset: str, budget: int) -> Runs:
    """Return the accuracies of the paper's methods and of these, each with uniform's in the same runs."""
    pairs = {name: (values, others["uniform"]) for name, values in others.items()}
    return pairs | accuracies(setting, dataset, budget)


def contrasts(setting: Setting, name: str, dataset: str) -> dict[int, float]:
    """Return the mean contrast of the images that a method chose, by budget; 1 is that of all images."""
    by_budget: dict[int, list[float]] = {}
    for journal in JOURNALS:
        for (budget, _), run in sorted(pixel_journal(setting, journal, dataset).read().items()):
            if name in run.get("contrast", {}):
                by_budget.setdefault(budget, []).append(run["contrast"][name])
    return {budget: float(np.mean(values)) for budget, values in by_budget.items()}
