"""Active learning in the paper's protocol for images: it chooses 2,000 images to label, for training a network.

`active_learning` chooses all rows with its defaults, including audits; there are no first uniform rows. Rows are the
first 100 principal components of the pixels. Uncertainty is that of the default head, or that of the protocol's
network, trained from scratch on all labels in every round. Networks have the same initialization and order of batches
as in the other methods' run with the same number, so differences to uniform are paired. No network is trained for the
audits: what they find is not reported here, and changes no batch.
"""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from scipy.linalg import eigh

import coresift as cs
from repro.data import images
from repro.images import AT_ONCE, DATASETS, QUICK_ROWS, Ints, Split, journal_of
from repro.networks import CLASSES, accuracy, train
from repro.results import Entry, Floats, Journal, Key, Setting

NAMES = {
    "learning-head": "active learning, default head",
    "learning-network": "active learning, the network's probabilities",
}
COMPONENTS = 100
# The accuracies of each kind of uncertainty, and uniform's accuracies in the same runs.
Runs: TypeAlias = dict[str, tuple[Floats, Floats]]


def one_run(split: Split, rows: Floats, key: Key) -> Entry:
    """Return the test accuracy of one run, with each kind of uncertainty."""
    budget, seed = key
    selections = [choose(split, rows, budget, seed, by_network=by_network) for by_network in (False, True)]
    accuracies = [accuracy(network, split.test) for network in train(split.train, selections, seed)]
    return {"accuracy": dict(zip(NAMES, accuracies, strict=True))}


def choose(split: Split, rows: Floats, budget: int, seed: int, *, by_network: bool) -> Ints:
    """Return the rows that active learning labels."""
    classes = split.train.classes.numpy()

    def probabilities(round: int, ids: Ints, labels: Ints) -> Floats:
        before = sum(run.plan.batches[: round - 1]) + sum(run.plan.audits[: round - 1])
        if ids.size > before:  # the round's batch is labeled, so this is for its audit
            return np.full((len(rows), CLASSES), 1 / CLASSES)
        return chances(split, ids, seed)

    options = {"probabilities": probabilities} if by_network else {}
    run = cs.active_learning(rows, budget, labels=lambda ids: classes[ids], seed=seed, progress=False, **options)
    return run.complete().ids.copy()


def chances(split: Split, ids: Ints, seed: int) -> Floats:
    """Train a network on these rows, and return its class probabilities for every row."""
    network = train(split.train, [np.sort(ids)], seed)[0].eval()
    with torch.inference_mode():
        batches = [network(pixels).softmax(1) for pixels in split.train.pixels.split(2 * AT_ONCE)]
    return torch.cat(batches).double().numpy()


def principal_components(split: Split) -> Floats:
    """Return the first principal components of the pixels."""
    pixels = split.train.pixels.reshape(len(split.train), -1).numpy()
    shifted = pixels - pixels.mean(axis=0)
    last = pixels.shape[1] - 1
    return shifted @ eigh(shifted.T @ shifted, subset_by_index=[last + 1 - COMPONENTS, last])[1]


def study(setting: Setting, runs: dict[tuple[str, int], int]) -> None:
    """Do the missing runs of each data set and budget."""
    torch.set_num_threads(1)
    for (dataset, budget), count in runs.items():
        keys: list[Key] = [(budget, number) for number in range(setting.runs or count)]
        journal = learning_journal(setting, dataset)
        if all(key in journal.read() for key in keys) or not setting.time_left():
            continue
        split = Split.of(images(dataset, setting.where, QUICK_ROWS if setting.quick else None))
        run = partial(one_run, split, principal_components(split))
        journal.fill(setting, f"{DATASETS[dataset]}, active learning", keys, run)


def learning_journal(setting: Setting, dataset: str) -> Journal:
    """Return the runs of one data set."""
    return Journal(setting.out / f"images-learning-{dataset}.jsonl")


def accuracies(setting: Setting, dataset: str, budget: int) -> Runs:
    """Return the accuracies of the stored runs, and uniform's accuracies in the same runs."""
    runs, others = learning_journal(setting, dataset).read(), journal_of(setting, dataset).read()
    keys = [key for key in sorted(runs) if key[0] == budget and key in others]
    if not keys:
        return {}
    base = np.array([others[key]["accuracy"]["uniform"] for key in keys])
    return {name: (np.array([runs[key]["accuracy"][name] for key in keys]), base) for name in NAMES}
