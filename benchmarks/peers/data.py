"""What the tools are given, and how their results are judged.

| name | rows | what is known of them |
|---|---|---|
| questions | 10,003 questions to a bank, 64 numbers each; ships with coresift | 77 intents |
| digits | 1,797 images, 64 pixels each; ships with scikit-learn | 10 classes |
| tumors | 569 tumors, 30 measurements each, standardized; ships with scikit-learn | 2 classes |
| images | 10,000 test images of Fashion-MNIST, 50 principal components each; in `CORESIFT_DATA` | 10 classes |

All of them are scaled to a mean squared length of 1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics import pairwise_distances_argmin_min

from benchmarks.peers.shared import Array, Data, logistic
from coresift.demo import load_demo

# Defaults of coresift were chosen on these; what is said about a job leaves them out.
TUNED = ("questions",)
# The budget of each job on each data set; those that coresift was tuned on come last.
BUDGETS = {
    "label": {"digits": 100, "tumors": 40, "images": 200, "questions": 300},
    "evaluate": {"digits": 200, "images": 300, "questions": 500},
    "summarize": {"digits": 100, "images": 300, "questions": 500},
    "cover": {"digits": 100, "tumors": 40, "images": 200, "questions": 200},
    "cluster": {"digits": 50, "tumors": 20, "images": 100, "questions": 100},
}
# How many rows are kept out of the pool, and how many of those teach a model whose losses or answers are estimated.
OUTSIDE = {"questions": 2_000, "digits": 500, "tumors": 200, "images": 2_000}
TAUGHT = {"questions": 800, "digits": 100, "images": 500}
POPULATION = {"questions": 4_000, "digits": 1_000, "images": 4_000}
COMPONENTS = 50
# A class that a model never saw has a loss, too.
LEAST_PROBABILITY = 1e-4

Judge = Callable[[Data, int, int], dict[str, Any]]
Maker = Callable[[str, list[int]], tuple[Mapping[str, Array], Judge]]


def images_path() -> Path:
    """Return where Fashion-MNIST is looked for."""
    home = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    return Path(os.environ.get("CORESIFT_DATA", home)) / "fashion_mnist" / "fashion_mnist.npz"


def available(name: str) -> bool:
    """Say whether a data set is here."""
    return name != "images" or images_path().exists()


@cache
def rows(name: str) -> tuple[Array, Array]:
    """Return vectors whose mean squared length is 1, as embeddings have it, and classes from 0 on."""
    x, y = _SOURCES[name]()
    return (x / _length(name)).astype(np.float32), y.astype(np.int64)


@cache
def _length(name: str) -> float:
    """Return the root mean squared length of the rows as they come."""
    x = _SOURCES[name]()[0].astype(np.float64)
    return float(np.sqrt(np.einsum("ij,ij->", x, x) / len(x)))


def _questions() -> tuple[Array, Array]:
    demo = load_demo()
    return demo.embeddings, np.unique(demo.intents, return_inverse=True)[1]


def _digits() -> tuple[Array, Array]:
    return load_digits(return_X_y=True)


def _tumors() -> tuple[Array, Array]:
    x, y = load_breast_cancer(return_X_y=True)
    return (x - x.mean(axis=0)) / x.std(axis=0), y


def _images() -> tuple[Array, Array]:
    pixels, y = _pixels("test")
    return _project(pixels), y


@cache
def _pixels(part: str) -> tuple[Array, Array]:
    with np.load(images_path(), allow_pickle=False) as file:
        pixels, y = file[f"X_{part}"], file[f"y_{part}"]
    return pixels.reshape(len(pixels), -1), y


@cache
def _axes() -> tuple[Array, Array]:
    """Return the mean and the leading principal axes of the test images."""
    x = _pixels("test")[0].astype(np.float32)
    return x.mean(axis=0), np.linalg.eigh(np.cov(x, rowvar=False))[1][:, ::-1][:, :COMPONENTS]


def _project(pixels: Array) -> Array:
    mean, axes = _axes()
    return (pixels.astype(np.float32) - mean) @ axes


_SOURCES: dict[str, Callable[[], tuple[Array, Array]]] = {
    "questions": _questions,
    "digits": _digits,
    "tumors": _tumors,
    "images": _images,
}


@cache
def split(name: str) -> tuple[Array, Array]:
    """Return the rows outside, and the pool."""
    outside, pool = np.split(np.random.default_rng(42).permutation(len(rows(name)[0])), [OUTSIDE[name]])
    return outside, pool


def check_ids(ids: Array, budget: int) -> None:
    """Refuse a choice of a row twice, or of too many rows."""
    distinct = len(np.unique(ids))
    if distinct != len(ids) or len(ids) > budget:
        raise ValueError(f"a tool chose {len(ids)} rows, {distinct} different ones, for a budget of {budget}")


def accuracy(x: Array, y: Array, known: Array, others: Array) -> float:
    """Return how many of the other rows a model of the known ones gets right."""
    return float((logistic().fit(x[known], y[known]).predict(x[others]) == y[others]).mean())


def label(name: str, seeds: list[int]) -> tuple[Mapping[str, Array], Judge]:
    """Choose rows of the pool for labeling; a model of them is tested on the rows outside."""
    x, y = rows(name)
    outside, pool = split(name)

    def judge(found: Data, budget: int, seed: int) -> dict[str, Any]:
        check_ids(found["ids"], budget)
        return {"quality": accuracy(x, y, pool[found["ids"]], outside)}

    return {"x": x[pool], "y": y[pool]}, judge


@cache
def _answers(name: str) -> tuple[Array, Array, Array]:
    """Return a model's probabilities and predictions of the rows that it was not trained on, and the truth."""
    x, y = rows(name)
    taught, rest = np.split(np.random.default_rng(43).permutation(len(x)), [TAUGHT[name]])
    model = logistic().fit(x[taught], y[taught])
    probabilities = model.predict_proba(x[rest])
    return probabilities, model.classes_[probabilities.argmax(axis=1)], y[rest]


def evaluate(name: str, seeds: list[int]) -> tuple[Mapping[str, Array], Judge]:
    """Estimate a model's accuracy from a few labels and the model's probabilities of all rows."""
    probabilities, predicted, y = _answers(name)
    truth = (y == predicted).mean()

    def judge(found: Data, budget: int, seed: int) -> dict[str, Any]:
        value, low, high = found["interval"].tolist()
        covered = bool(low <= truth <= high)
        return {"quality": abs(value - truth), "half_width": (high - low) / 2, "covered": covered}

    return {"y": y, "predicted": predicted, "probabilities": probabilities}, judge


def population(name: str, seed: int) -> tuple[Array, Array]:
    """Return the rows whose losses are summed: others for each seed, so that no choice is lucky each time."""
    rng = np.random.default_rng([45, seed])
    if name == "images":  # of the 60,000 training images, so that hardly any is there twice
        pixels, classes = _pixels("train")
        ids = rng.permutation(len(pixels))[: POPULATION[name]]
        return (_project(pixels[ids]) / _length(name)).astype(np.float32), classes[ids].astype(np.int64)
    x, y = rows(name)
    pool = split(name)[1]
    ids = pool[rng.permutation(len(pool))[: POPULATION[name]]]
    return x[ids], y[ids]


@cache
def losses(name: str, seed: int) -> Array:
    """Return the log losses in the population of a model that learned from some of the rows outside."""
    x, y = rows(name)
    taught = np.random.default_rng([44, seed]).choice(split(name)[0], TAUGHT[name], replace=False)
    model = logistic().fit(x[taught], y[taught])
    others, classes = population(name, seed)
    probabilities = np.zeros((len(others), y.max() + 1))
    probabilities[:, model.classes_] = model.predict_proba(others)
    return -np.log(np.maximum(probabilities[np.arange(len(others)), classes], LEAST_PROBABILITY))


def summarize(name: str, seeds: list[int]) -> tuple[Mapping[str, Array], Judge]:
    """Estimate a model's total loss; model and rows differ from seed to seed."""

    def judge(found: Data, budget: int, seed: int) -> dict[str, Any]:
        check_ids(found["ids"], budget)
        values = losses(name, seed)
        total = float(found["total"]) if "total" in found else float(found["weights"] @ values[found["ids"]])
        error = float(total / values.sum() - 1)
        return {"quality": abs(error), "signed": error}

    x = np.array([population(name, seed)[0] for seed in seeds])
    return {"own x": x, "own losses": np.array([losses(name, seed) for seed in seeds])}, judge


def cover(name: str, seeds: list[int]) -> tuple[Mapping[str, Array], Judge]:
    """Choose rows that are near to all rows; beside it, the accuracy of a model of them on the others."""
    x, y = rows(name)

    def judge(found: Data, budget: int, seed: int) -> dict[str, Any]:
        check_ids(found["ids"], budget)
        distances = pairwise_distances_argmin_min(x, x[found["ids"]])[1]
        others = np.setdiff1d(np.arange(len(x)), found["ids"])
        return {"quality": float(distances.mean()), "accuracy": accuracy(x, y, found["ids"], others)}

    return {"x": x}, judge


def cluster(name: str, seeds: list[int]) -> tuple[Mapping[str, Array], Judge]:
    """Find centers with a small mean squared distance to the nearest one."""
    x = rows(name)[0]

    def judge(found: Data, budget: int, seed: int) -> dict[str, Any]:
        if len(found["centers"]) > budget:
            raise ValueError(f"a tool found {len(found['centers'])} centers for {budget} clusters")
        return {"quality": float((pairwise_distances_argmin_min(x, found["centers"].astype(x.dtype))[1] ** 2).mean())}

    return {"x": x}, judge


MAKERS: dict[str, Maker] = {
    "label": label,
    "evaluate": evaluate,
    "summarize": summarize,
    "cover": cover,
    "cluster": cluster,
}
