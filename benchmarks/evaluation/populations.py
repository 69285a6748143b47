"""Populations with known truth: the answer of every row, and what is known about the rows at no cost.

| name | rows | answer | known for every row |
|---|---|---|---|
| banking77, mnist, fashion-mnist, cifar10, sst2 | up to 10,000 | a classifier's error or log loss | its probabilities |
| judges chatgpt, judges gpt4 | 10,940 and 6,273 pairs (AlpacaEval) | the expensive judge's choice | the cheap judge's |
| arc, hellaswag, boolq | multiple-choice items | whether the larger model is right | the smaller model's result |

Design choices were made on the populations whose role is "tuning"; the others are only reported.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import coresift as cs
from benchmarks.features import cache_folder, load
from benchmarks.language_models import LARGE, SMALL, answers_file, fetch_wheel, read_answers
from coresift.heads import LogisticHead

Floats = NDArray[np.float64]
ROWS = 10_000
# How many labels a classifier is trained on; `rival` is a second classifier, for comparisons, trained on other rows.
LABELS = {"banking77": 1_500, "mnist": 1_000, "fashion-mnist": 1_000, "cifar10": 1_000, "sst2": 500}
TUNING = ("banking77", "mnist")
# Expensive and cheap judges, by the names of their folders in the wheel.
JUDGES = {"judges chatgpt": ("claude", "chatgpt_fn"), "judges gpt4": ("gpt4", "claude")}
ITEMS = ("arc", "hellaswag", "boolq")


@dataclass(frozen=True)
class Population:
    """Rows with known answers.

    Attributes:
        name: The name in tables.
        role: "tuning" or "reported".
        values: The answer of every row.
        signals: What is known about every row, by name.
        guess: A prediction of every answer, for methods that use one.
        doubt: The uncertainty of each prediction, for methods that draw in proportion to it.
        binary: Whether answers are 0 or 1.
    """

    name: str
    role: str
    values: Floats
    signals: dict[str, Floats]
    guess: Floats
    doubt: Floats
    binary: bool

    @property
    def truth(self) -> float:
        """The mean answer."""
        return float(self.values.mean())


@dataclass(frozen=True)
class Classification:
    """A classifier's probabilities on rows that it was not trained on, the true classes, and a rival's predictions."""

    probabilities: Floats
    labels: NDArray[np.int64]
    rival: Floats

    @property
    def predictions(self) -> NDArray[np.int64]:
        """The most likely class of each row."""
        return self.probabilities.argmax(axis=1)


def names() -> list[str]:
    """Return the populations that are available on this machine."""
    heads = [f"{name} {kind}" for name in LABELS for kind in ("error", "log loss")]
    return [*heads, *JUDGES, *(name for name in ITEMS if answers_file(name).exists())]


@cache
def population(name: str) -> Population:
    """Return a population by its name."""
    if name in JUDGES:
        return _judges(name)
    if name in ITEMS:
        return _items(name)
    data, _, kind = name.partition(" ")
    return _head(data, kind)


@cache
def classification(name: str) -> Classification:
    """Classify rows with two logistic regressions; the result is cached in a file."""
    path = cache_folder() / "evaluation" / f"head-{name}.npz"
    if not path.exists():
        features, rng = load(name), np.random.default_rng([18, len(name)])
        x, y = np.concatenate([features.x, features.x_test]), np.concatenate([features.y, features.y_test])
        order, count = rng.permutation(len(x)), LABELS[name]
        heads = [
            LogisticHead(penalty=0.1, temperature=1.0).fit(x[rows], y[rows])
            for rows in (order[:count], order[count // 2 : count // 2 + count])
        ]
        rest = order[2 * count :][:ROWS]
        path.parent.mkdir(parents=True, exist_ok=True)
        first, rival = (_all_classes(head, x[rest], int(y.max()) + 1) for head in heads)
        partial = path.with_suffix(".part.npz")
        np.savez(partial, probabilities=first, labels=y[rest], rival=rival)
        partial.replace(path)
    with np.load(path, allow_pickle=False) as file:
        return Classification(file["probabilities"], file["labels"], file["rival"])


def _all_classes(head: LogisticHead, x: Floats, classes: int) -> Floats:
    """Return probabilities with a column for every class, including classes that the head has not seen."""
    probabilities = np.zeros((len(x), classes))
    probabilities[:, head.classes_.astype(np.int64)] = head.predict_proba(x)
    return probabilities


def _head(data: str, kind: str) -> Population:
    head = classification(data)
    chances = head.probabilities
    role = "tuning" if data in TUNING else "reported"
    signals = cs.signals.from_probabilities(chances, log_loss=kind == "log loss")
    if kind == "error":
        wrong = (head.predictions != head.labels).astype(np.float64)
        guess = 1 - chances.max(axis=1)
        return Population(f"{data} error", role, wrong, signals, guess, np.sqrt(guess * (1 - guess)), True)
    logs = -np.log(np.maximum(chances, 1e-6))
    loss = logs[np.arange(len(logs)), head.labels]
    guess = (chances * logs).sum(axis=1)
    spread = np.maximum((chances * logs**2).sum(axis=1) - guess**2, 0.0)
    return Population(f"{data} log loss", role, loss, signals, guess, np.sqrt(spread), False)


def _judges(name: str) -> Population:
    expensive, cheap = (judgments(judge) for judge in JUDGES[name])
    pairs = [pair for pair in expensive if pair in cheap and expensive[pair] in (1, 2)]
    first = np.array([expensive[pair] == 2 for pair in pairs], np.float64)
    second = np.array([{1: 0.0, 2: 1.0}.get(cheap[pair], 0.5) for pair in pairs])
    longer = np.array([np.log((len(pair[2]) + 1) / (len(pair[1]) + 1)) for pair in pairs])
    # The judges agree on about three quarters of the pairs, which would be known from earlier comparisons.
    guess = 0.5 + 0.5 * (second - 0.5)
    signals = {"cheap judge": second, "length": longer}
    return Population(name, "reported", first, signals, guess, np.sqrt(guess * (1 - guess)), True)


@cache
def judgments(judge: str) -> dict[tuple[str, str, str], int]:
    """Read which answer a judge prefers, for each instruction and pair of answers."""
    return {(row["instruction"], row["output_1"], row["output_2"]): row["preference"] for row in annotations(judge)}


@cache
def annotations(judge: str) -> list[dict[str, Any]]:
    """Read a judge's annotations, in the file's order."""
    with zipfile.ZipFile(fetch_wheel("alpaca_eval")) as wheel:
        path = f"alpaca_eval/evaluators_configs/{judge}/annotations_seed0_configs.json"
        rows: list[dict[str, Any]] = json.loads(wheel.read(path))
    return rows


def _items(name: str) -> Population:
    answers = read_answers(name)
    large, small = answers[LARGE], answers[SMALL]
    right = large.right.astype(np.float64)
    chance = small.probabilities[np.arange(right.size), small.gold]
    known, sure = small.right.astype(np.float64), small.probabilities.max(axis=1)
    signals = {"smaller is right": known, "chance of the right choice": chance, "largest chance": sure}
    guess = np.clip(chance, 0.05, 0.95)
    return Population(name, "reported", right, signals, guess, np.sqrt(guess * (1 - guess)), True)
