"""Does a model learn more from chosen rows than from uniform rows? Test accuracy of a linear head on frozen embeddings.

    pip install '.[benchmarks]'
    python -m benchmarks.active_learning               do the missing runs and write the report; hours on two cores
    python -m benchmarks.active_learning --seeds 5     only the first five seeds
    python -m benchmarks.active_learning --report      only write the report

There are five data sets with two budgets each, and 20 paired seeds. The same head is trained on the rows of each
method: a multinomial logistic regression whose penalty is cross-validated on those labels. Our method uses its defaults
on all pairs, and the budget includes its audits. The defaults were chosen on Banking77 and MNIST, with seeds starting
at 1000 (`benchmarks.active_learning_tuning`); the other data sets are only reported.

Single runs are stored in `results/active_learning.jsonl` and are not repeated. Times are CPU time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.active_learning_report import OURS, VARIANTS, write_report
from benchmarks.features import Features, load
from benchmarks.keeping import append, read
from benchmarks.teaching import METHODS, learn, uniform
from coresift.heads import LogisticHead

RESULTS = Path(__file__).resolve().parent / "results"
RUNS_FILE = RESULTS / "active_learning.jsonl"
PAIRS = {
    "banking77": (300, 1000),
    "mnist": (500, 2000),
    "fashion-mnist": (500, 2000),
    "cifar10": (200, 1000),
    "sst2": (100, 500),
}
SEEDS = 20
HELD_OUT = VARIANTS[1]
# Uniform rows also run with these multiples of the labels, to find how many are worth as much as chosen rows.
CURVE = "uniform, more labels"
MORE = (2.0, 4.0)


@dataclass(frozen=True)
class Run:
    """One method's test accuracy with one seed; `asked` is the number of labels that the head was trained on."""

    data: str
    budget: int
    method: str
    seed: int
    asked: int
    accuracy: float
    cpu: float

    @property
    def key(self) -> tuple[str, int, str, int]:
        """Return the key that identifies the run."""
        return self.data, self.budget, self.method, self.seed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--methods", nargs="+", default=[*METHODS, CURVE], choices=[*METHODS, CURVE])
    parser.add_argument("--data", nargs="+", default=list(PAIRS), choices=list(PAIRS))
    parser.add_argument("--report", action="store_true", help="only write the report")
    options = parser.parse_args()
    runs = [Run(**facts) for facts in read(RUNS_FILE)]
    if not options.report:
        for run in missing({run.key for run in runs}, options.methods, options.data, options.seeds):
            runs.append(run)
            append(RUNS_FILE, asdict(run))
            print(f"{run.data} {run.budget} {run.method} {run.seed}: {run.accuracy:.4f}, {run.cpu:.1f} s", flush=True)
    write_report([asdict(run) for run in runs], RESULTS)


def missing(done: set[tuple[str, int, str, int]], methods: list[str], data: list[str], seeds: int) -> Iterator[Run]:
    """Do the missing runs: seed by seed, and within a seed method by method."""
    for method in methods:
        if method == CURVE:
            yield from _uniform_curve(done, data, seeds)
            continue
        for seed, name in product(range(seeds), data):
            for budget in PAIRS[name]:
                if (name, budget, method, seed) not in done:
                    yield from run_method(name, budget, method, seed)


def run_method(name: str, budget: int, method: str, seed: int) -> list[Run]:
    """Choose rows by a method, and train a head on them."""
    features = features_of(name)
    start = time.process_time()
    if method == OURS:
        learned = learn(features.x, lambda rows: features.y[rows], budget, seed)
        ids, audited = learned.ids, np.array(learned.reasons) == "audit"
    else:
        ids = METHODS[method](features.x, lambda rows: features.y[rows], budget, seed)
        audited = np.zeros(len(ids), np.bool_)
    seconds = round(time.process_time() - start, 2)
    assert len(set(ids.tolist())) == len(ids) <= budget, f"{method} asked more than its budget"
    runs = [Run(name, budget, method, seed, len(ids), accuracy(features, ids), seconds)]
    if audited.any():
        others = ids[~audited]
        runs.append(Run(name, budget, HELD_OUT, seed, len(others), accuracy(features, others), seconds))
    return runs


def _uniform_curve(done: set[tuple[str, int, str, int]], data: list[str], seeds: int) -> Iterator[Run]:
    """Do the missing runs of uniform rows with more labels than the budgets."""
    for name in data:
        features = features_of(name)
        budgets = {round(budget * factor) for budget in PAIRS[name] for factor in MORE}
        for budget in sorted(budgets - set(PAIRS[name])):
            if budget > len(features.x) / 2:
                continue
            for seed in range(seeds):
                if (name, budget, "uniform", seed) not in done:
                    ids = uniform(features.x, lambda rows: features.y[rows], budget, seed)  # noqa: B023 - called here
                    yield Run(name, budget, "uniform", seed, budget, accuracy(features, ids), 0.0)


def accuracy(features: Features, ids: np.ndarray) -> float:
    """Return the test accuracy of a head trained on these rows."""
    head = LogisticHead().fit(features.x[ids], features.y[ids])
    return round(float((head.predict(features.x_test) == features.y_test).mean()), 5)


@cache
def features_of(name: str) -> Features:
    """Return a data set's vectors and classes."""
    return load(name)


if __name__ == "__main__":
    main()
