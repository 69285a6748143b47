"""Variants of the image networks, for the cases in which Algorithm 1 does not beat uniform here.

    python -m repro images-curves          does these runs after its own

The paper does not give the widths of its network for CIFAR-10, nor whether it augments images. `VARIANTS` has one entry
per guess. For Fashion-MNIST with 500 images, there are entries in which the network that scores the rows was trained on
more of them. Each variant trains uniform and both forms of Algorithm 1.

Cost: 2 CPU minutes on Fashion-MNIST; on CIFAR-10, an estimated 1 to 3 CPU minutes per run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from torch import nn

from repro.data import images
from repro.images import DATASETS, METHODS, NAMES, QUICK_BUDGET, QUICK_ROWS, SHARE, TABLE, Ints, Split, Task
from repro.networks import EPOCHS, Shape, accuracy, train
from repro.results import Entry, Floats, Journal, Key, Setting, paired

COMPARED = ("uniform", "loss", "gradient")


@dataclass(frozen=True)
class Variant:
    """A variant of the protocol; the default values are those of `images-curves`.

    scored_by: the number of uniform rows that the scoring network is trained on; by default a fifth of the budget.
    """

    title: str
    dataset: str
    budget: int = TABLE
    shape: Shape | None = None
    epochs: int = EPOCHS
    mirrored: bool = False
    scored_by: int | None = None
    runs: int = 10


VARIANTS = {
    "fashion, seen 500": Variant(
        "scored by a network trained on 500 images", "fashion_mnist", 500, scored_by=500, runs=30
    ),
    "fashion, seen 2000": Variant(
        "scored by a network trained on 2,000 images", "fashion_mnist", 500, scored_by=2_000, runs=30
    ),
    "cifar, mirrored": Variant("images mirrored at random", "cifar10", mirrored=True),
    "cifar, 30 epochs": Variant("30 epochs instead of 10", "cifar10", epochs=30),
    "cifar, wide": Variant("layers twice as wide", "cifar10", shape=Shape((32, 64, 128), (256, 128))),
    "cifar, seen 2000": Variant("scored by a network trained on 2,000 images", "cifar10", scored_by=2_000),
}


class VariantTask(Task):
    """One run of a variant."""

    def __init__(self, split: Split, variant: Variant, seed: int) -> None:
        super().__init__(split, variant.budget, seed)
        self.variant = variant

    @cached_property
    def network(self) -> nn.Module:
        """The scoring network, trained as the variant says."""
        n = len(self.images)
        self.first_rows = np.sort(
            np.random.default_rng([self.seed, 7]).choice(n, round(SHARE * self.budget), replace=False)
        )
        training = self.first_rows
        if self.variant.scored_by is not None:
            others = np.random.default_rng([self.seed, 8]).permutation(np.setdiff1d(np.arange(n), self.first_rows))
            training = np.sort(
                np.concatenate([self.first_rows, others[: self.variant.scored_by - len(self.first_rows)]])
            )
        return self.fit([training])[0]

    def fit(self, selections: list[Ints]) -> list[nn.Module]:
        """Train one network per selection."""
        variant = self.variant
        options = {"shape": variant.shape, "epochs": variant.epochs, "mirrored": variant.mirrored}
        return train(self.images, selections, self.seed, **options)


def one_run(split: Split, variant: Variant, seed: int) -> Entry:
    """Return the test accuracy of each method's network in one run."""
    task = VariantTask(split, variant, seed)
    first = accuracy(task.network, split.test)
    networks = task.fit([METHODS[name](task) for name in COMPARED])
    accuracies = [accuracy(network, split.test) for network in networks]
    return {"accuracy": dict(zip(COMPARED, accuracies, strict=True)), "first": first}


def study(setting: Setting) -> None:
    """Do the missing runs, data set by data set and seed by seed."""
    journal = journal_of(setting)
    for dataset in dict.fromkeys(variant.dataset for variant in VARIANTS.values()):
        variants = {name: variant for name, variant in VARIANTS.items() if variant.dataset == dataset}
        keys: list[Key] = [(name, seed) for name in variants for seed in range(setting.runs or variants[name].runs)]
        keys.sort(key=lambda key: key[1])
        if all(key in journal.read() for key in keys) or not setting.time_left():
            continue
        split = Split.of(images(dataset, setting.where))
        journal.fill(setting, f"{DATASETS[dataset]}, variants", keys, lambda key, split=split: one_run_of(split, key))


def one_run_of(split: Split, key: Key) -> Entry:
    """Do the run of a key."""
    return one_run(split, VARIANTS[key[0]], key[1])


def quick(setting: Setting) -> None:
    """Do one short run of every kind of variant."""
    split = Split.of(images("cifar10", setting.where, QUICK_ROWS))
    small = Shape((2, 3, 4), (8, 6))
    variant = Variant("quick", "cifar10", QUICK_BUDGET, small, epochs=1, mirrored=True, scored_by=QUICK_BUDGET)
    journal_of(setting).fill(setting, "variants", [("cifar, mirrored", 0)], lambda key: one_run(split, variant, 0))


def journal_of(setting: Setting) -> Journal:
    """Return the runs of all variants."""
    return Journal(setting.out / "images-causes.jsonl")


def markdown(entries: dict[Key, Entry], dataset: str) -> str:
    """Return a table of a data set's variants, with uniform's accuracy and the paired differences to it."""
    text = ""
    for name, variant in VARIANTS.items():
        runs = [entry for key, entry in sorted(entries.items()) if key[0] == name]
        if variant.dataset != dataset or not runs:
            continue
        values: dict[str, Floats] = {method: np.array([run["accuracy"][method] for run in runs]) for method in COMPARED}
        first = float(np.mean([run["first"] for run in runs]))
        gaps = [paired(values[method], values["uniform"]) for method in COMPARED[1:]]
        cells = [f"{gap:+.4f} ± {error:.4f}" for gap, error in gaps]
        row = [variant.title, str(len(runs)), f"{first:.3f}", f"{values['uniform'].mean():.4f}", *cells]
        text += f"| {' | '.join(row)} |\n"
    if not text:
        return ""
    head = ["variant", "runs", "accuracy of the scoring network", "uniform"]
    head += [f"{NAMES[method]}, minus uniform" for method in COMPARED[1:]]
    return f"| {' | '.join(head)} |\n|{' --- |' * len(head)}\n{text}"
