"""The paper's protocol for image classification, shared by its table, its curves and its runtimes.

Of a budget of k rows, k' = k/5 are drawn uniformly, and a network is trained on them. Its last hidden layer embeds all
rows. The losses (or squared gradient norms) of k'' = k/5 centers of a k-means clustering, snapped to rows, are
computed, and the remaining rows are drawn ∝ ℓ(c) + λ‖e − c‖², with λ estimated from the centers' losses. A network is
then trained on all k rows, without weights, from the same initialization. All methods of a run share the k' rows, the
initialization and the order of batches, so differences are paired. The paper does not give the widths of its layers
for CIFAR-10; here there are convolutions with 16, 32 and 64 channels, and dense layers of 128, 64 and 10.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import coresift as cs
from coresift.models import classifier_loss, gradient_norms, image_recipe, last_layer
from repro.data import Arrays, images
from repro.networks import AT_ONCE, Images, accuracy, train
from repro.results import Entry, Floats, Journal, Key, Setting

Ints = NDArray[np.int64]

DATASETS = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}
TABLE = 2_000
BUDGETS = (500, 1_000, 2_000, 4_000, 8_000)
SHARE = 0.2  # the share of the budget for the first uniform rows, and that for centers
NAMES = {
    "uniform": "uniform",
    "k-center": "k-center",
    "loss": "Algorithm 1, loss",
    "gradient": "Algorithm 1, gradient",
    "margin": "margin",
    "least-confidence": "least confidence",
    "entropy": "entropy",
    "ours": "coresift's default",
}
OURS = {
    "pilot": cs.pilots.Representatives(),
    "score": cs.scores.Learned(),
    "design": cs.designs.Systematic(),
    "clusters": None,
}
QUICK_ROWS, QUICK_BUDGET = 600, 60


@dataclass(frozen=True)
class Split:
    """Training and test images."""

    train: Images
    test: Images

    @classmethod
    def of(cls, arrays: Arrays) -> Split:
        """Return the images as tensors."""
        return cls(*(Images.of(arrays[f"X_{name}"], arrays[f"y_{name}"]) for name in ("train", "test")))


class Task:
    """One run: the network trained on the first uniform rows, and what is computed from it."""

    def __init__(self, split: Split, budget: int, seed: int) -> None:
        self.images, self.budget, self.seed = split.train, budget, seed
        self.first_rows: Ints = np.zeros(0, np.int64)

    @cached_property
    def network(self) -> nn.Module:
        """The network that was trained on the first rows, which are those that `image_recipe` draws."""
        n, first = len(self.images), round(SHARE * self.budget)
        self.first_rows = np.sort(np.random.default_rng([self.seed, 7]).choice(n, first, replace=False))
        return train(self.images, [self.first_rows], self.seed)[0]

    @cached_property
    def rows(self) -> cs.rows.Rows:
        """The inputs of the network's last layer."""
        return last_layer(self.network, self.images.pixels, batch=AT_ONCE, progress=False)

    @cached_property
    def clustering(self) -> cs.Clustering:
        """The clusters of Algorithm 1."""
        return cs.cluster(self.rows, round(SHARE * self.budget), seed=self.seed, progress=False)

    @cached_property
    def probabilities(self) -> Floats:
        """The network's class probabilities for every row."""
        last = [layer for layer in self.network.modules() if isinstance(layer, nn.Linear)][-1]
        with torch.no_grad():
            return last(torch.from_numpy(self.rows.take(np.arange(len(self.images))))).softmax(1).double().numpy()

    def recipe(self, gradient: bool = False, **options: Any) -> Ints:
        """Return the rows that the library's recipe trains on; no network is trained on them here."""
        self.network  # noqa: B018

        def network_or_ids(ids: Ints, weights: Floats | None) -> Any:
            return self.network if np.array_equal(ids, self.first_rows) else ids

        def losses(network: nn.Module) -> Callable[[Ints], Floats]:
            loss = classifier_loss(network, (self.images.pixels, self.images.classes))
            return gradient_norms(loss) if gradient else loss

        result = image_recipe(
            len(self.images),
            self.budget,
            train=network_or_ids,
            embed=lambda network: self.rows,
            losses=losses,
            seed=self.seed,
            **options,
        )
        ids: Ints = result.model
        return ids

    def baseline(self, name: str, **options: Any) -> Ints:
        """Return the rows of another method, including the first rows."""
        method = cs.baselines.METHODS[name]
        rows = self.rows
        return method(rows, self.budget, seed=self.seed, given=self.first_rows, progress=False, **options).ids.copy()


METHODS: dict[str, Callable[[Task], Ints]] = {
    "uniform": lambda task: task.baseline("uniform"),
    "k-center": lambda task: task.baseline("k-center"),
    "loss": lambda task: task.recipe(clusters=task.clustering),
    "gradient": lambda task: task.recipe(gradient=True, clusters=task.clustering),
    "margin": lambda task: task.baseline("margin", probabilities=task.probabilities),
    "least-confidence": lambda task: task.baseline("least-confidence", probabilities=task.probabilities),
    "entropy": lambda task: task.baseline("entropy", probabilities=task.probabilities),
    "ours": lambda task: task.recipe(**OURS),
}


def one_run(split: Split, key: Key) -> Entry:
    """Return the test accuracy of each method's network in one run."""
    budget, number = key
    task = Task(split, budget, number)
    first = accuracy(task.network, split.test)
    selections = [method(task) for method in METHODS.values()]
    accuracies = [accuracy(network, split.test) for network in train(split.train, selections, number)]
    return {"accuracy": dict(zip(METHODS, accuracies, strict=True)), "first": first}


def study(setting: Setting, runs: dict[tuple[str, int], int]) -> None:
    """Do the missing runs of each data set and budget."""
    torch.set_num_threads(1)  # layers this small gain nothing from a second thread, and lose much on a busy machine
    for (dataset, budget), count in runs.items():
        keys: list[Key] = [(budget, number) for number in range(setting.runs or count)]
        journal = journal_of(setting, dataset)
        if all(key in journal.read() for key in keys) or not setting.time_left():
            continue
        split = Split.of(images(dataset, setting.where, QUICK_ROWS if setting.quick else None))
        title = f"{DATASETS[dataset]}, {budget:,} rows"
        journal.fill(setting, title, keys, partial(one_run, split))


def journal_of(setting: Setting, dataset: str) -> Journal:
    """Return the runs of one data set."""
    return Journal(setting.out / f"images-{dataset}.jsonl")


def accuracies(setting: Setting, dataset: str) -> dict[int, dict[str, Floats]]:
    """Return the accuracies of all runs by budget and method, in the order of the runs, so that they pair."""
    by_budget: dict[int, dict[str, list[float]]] = {}
    for (budget, _), entry in sorted(journal_of(setting, dataset).read().items()):
        by_method = by_budget.setdefault(budget, {name: [] for name in METHODS})
        for name in METHODS:
            by_method[name].append(entry["accuracy"][name])
    return {
        budget: {name: np.array(values) for name, values in by_method.items()}
        for budget, by_method in sorted(by_budget.items())
    }


def quicker(setting: Setting) -> Setting:
    """Return the setting, with one run if it is quick and has no number of runs."""
    return replace(setting, runs=setting.runs or 1) if setting.quick else setting
