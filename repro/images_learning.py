"""Active learning in the paper's protocol for images: which 2,000 are labeled, network from scratch.

`active_learning` with its defaults, audits included, chooses all rows; nothing is drawn uniformly to begin with. Rows
are the first 100 principal components of the pixels. Uncertainty is that of the default head, or that of the protocol's
network, trained anew in every round on the labels so far. Networks have the start and the order of batches of the other
methods' runs of the same number, so differences to uniform are paired.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from scipy.linalg import eigh

import coresift as cs
from repro.data import images
from repro.images import AT_ONCE, DATASETS, QUICK_ROWS, Ints, Split, journal_of
from repro.networks import accuracy, train
from repro.results import Entry, Floats, Journal, Key, Setting

NAMES = {
    "learning-head": "active learning, default head",
    "learning-network": "active learning, the network's probabilities",
}
COMPONENTS = 100


def one_run(split: Split, rows: Floats, key: Key) -> Entry:
    """Return the test accuracy with either uncertainty in one run."""
    budget, seed = key
    sets = [choose(split, rows, budget, seed, own=own) for own in (False, True)]
    found = [accuracy(network, split.test) for network in train(split.train, sets, seed)]
    return {"accuracy": dict(zip(NAMES, found, strict=True))}


def choose(split: Split, rows: Floats, budget: int, seed: int, *, own: bool) -> Ints:
    """Return the rows that active learning labels."""
    classes = split.train.classes.numpy()

    def probabilities(round: int, ids: Ints, labels: Ints) -> Floats:
        return chances(split, ids, seed)

    options = {"probabilities": probabilities} if own else {}
    run = cs.active_learning(rows, budget, labels=lambda ids: classes[ids], seed=seed, progress=False, **options)
    return run.complete().ids.copy()


def chances(split: Split, ids: Ints, seed: int) -> Floats:
    """Return the probabilities of a network trained on these rows, for every row."""
    network = train(split.train, [np.sort(ids)], seed)[0].eval()
    with torch.inference_mode():
        parts = [network(some).softmax(1) for some in split.train.pixels.split(8 * AT_ONCE)]
    return torch.cat(parts).double().numpy()


def principal_components(split: Split) -> Floats:
    """Return the first components of the pixels."""
    pixels = split.train.pixels.reshape(len(split.train), -1).numpy()
    shifted = pixels - pixels.mean(axis=0)
    last = pixels.shape[1] - 1
    return shifted @ eigh(shifted.T @ shifted, subset_by_index=[last + 1 - COMPONENTS, last])[1]


def study(setting: Setting, wanted: dict[tuple[str, int], int]) -> None:
    """Do the missing runs of each data set and budget."""
    torch.set_num_threads(1)
    for (dataset, budget), count in wanted.items():
        keys: list[Key] = [(budget, number) for number in range(setting.runs or count)]
        journal = learning_journal(setting, dataset)
        if all(key in journal.read() for key in keys) or not setting.time_left():
            continue
        split = Split.of(images(dataset, setting.where, QUICK_ROWS if setting.quick else None))
        one = partial(one_run, split, principal_components(split))
        journal.fill(setting, f"{DATASETS[dataset]}, active learning", keys, one)


def learning_journal(setting: Setting, dataset: str) -> Journal:
    """Return the runs of one data set."""
    return Journal(setting.out / f"images-learning-{dataset}.jsonl")


def accuracies(setting: Setting, dataset: str, budget: int) -> dict[str, tuple[Floats, Floats]]:
    """Return the accuracies of the kept runs, and uniform's in the same runs."""
    found, others = learning_journal(setting, dataset).read(), journal_of(setting, dataset).read()
    keys = [key for key in sorted(found) if key[0] == budget and key in others]
    if not keys:
        return {}
    base = np.array([others[key]["accuracy"]["uniform"] for key in keys])
    return {name: (np.array([found[key]["accuracy"][name] for key in keys]), base) for name in NAMES}
