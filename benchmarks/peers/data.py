"""The data that the tools get, and how their results are judged.

| name | rows | labels |
|---|---|---|
| questions | 10,003 questions to a bank, 64 numbers each; part of coresift | 77 intents |
| digits | 1,797 images, 64 pixels each; part of scikit-learn | 10 classes |
| tumors | 569 tumors, 30 measurements each, standardized; part of scikit-learn | 2 classes |
| images | 10,000 test images of Fashion-MNIST, 50 principal components each; in `CORESIFT_DATA` | 10 classes |

All are scaled to a mean squared length of 1.
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

# Defaults of coresift were chosen on these data, so the summary of a job does not count them.
TUNED = ("questions",)
# The budget of each job on each data set; data that coresift was tuned on come last.
BUDGETS = {
    "label": {"digits": 100, "tumors": 40, "images": 200, "questions": 300},
    "evaluate": {"digits": 200, "images": 300, "questions": 500},
    "summarize": {"digits": 100, "images": 300, "questions": 500},
    "cover": {"digits": 100, "tumors": 40, "images": 200, "questions": 200},
    "cluster": {"digits": 50, "tumors": 20, "images": 100, "questions": 100},
}
# The number of held-out rows, and how many rows train the model whose losses or accuracy are estimated.
OUTSIDE = {"questions": 2_000, "digits": 500, "tumors": 200, "images": 2_000}
TRAINING = {"questions": 800, "digits": 100, "images": 500}
POPULATION = {"questions": 4_000, "digits": 1_000, "images": 4_000}
COMPONENTS = 50
# The probability of a class that a model never saw, for a finite loss.
LEAST_PROBABILITY = 1e-4

Judge = Callable[[Data, int, int], dict[str, Any]]
Maker = Callable[[str, list[int]], tuple[Mapping[str, Array], Judge]]


def images_path() -> Path:
    """Return the file of Fashion-MNIST."""
    home = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    return Path(os.environ.get("CORESIFT_DATA", home)) / "fashion_mnist" / "fashion_mnist.npz"


def available(name: str) -> bool:
    """Return whether a data set is available on this machine."""
    return name != "images" or images_path().exists()


@cache
def rows(name: str) -> tuple[Array, Array]:
    """Return vectors with a mean squared length of 1, like embeddings, and class numbers from 0."""
    x, y = _SOURCES[name]()
    return (x / _length(name)).astype(np.float32), y.astype(np.int64)


@cache
def _length(name: str) -> float:
    """Return the root mean squared length of the original rows."""
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
    """Return the held-out rows, and the pool."""
    outside, pool = np.split(np.random.default_rng(42).permutation(len(rows(name)[0])), [OUTSIDE[name]])
    return outside, pool


def check_ids(ids: Array, budget: int) -> None:
    """Refuse a choice of a row twice, or of too many rows."""
    distinct = len(np.unique(ids))
    if distinct != len(ids) or len(ids) > budget:
        raise ValueError(f"a tool chose {len(ids)} rows, {distinct} different ones, for a budget of {budget}")


def accuracy(x: Array, y: Array, training: Array, others: Array) -> float:
    """Return the accuracy on other rows of a model that was trained on the training rows."""
    return float((logistic().fit(x[training], y[training]).predict(x[others]) == y[others]).mean())


def label(name: str, seeds: list[int]) -> tuple[Mapping[str, Array], Judge]:
    """Choose rows of the pool to label; a model trained on them is tested on the held-out rows."""
    x, y = rows(name)
    outside, pool = split(name)

    def judge(result: Data, budget: int, seed: int) -> dict[str, Any]:
        check_ids(result["ids"], budget)
        return {"quality": accuracy(x, y, pool[result["ids"]], outside)}

    return {"x": x[pool], "y": y[pool]}, judge


@cache
def _answers(name: str) -> tuple[Array, Array, Array]:
    """Return a model's probabilities and predictions for rows that it was not trained on, and the true labels."""
    x, y = rows(name)
    training, rest = np.split(np.random.default_rng(43).permutation(len(x)), [TRAINING[name]])
    model = logistic().fit(x[training], y[training])
    probabilities = model.predict_proba(x[rest])
    return probabilities, model.classes_[probabilities.argmax(axis=1)], y[rest]


def evaluate(name: str, seeds: list[int]) -> tuple[Mapping[str, Array], Judge]:
    """Estimate a model's accuracy from a few labels and the model's probabilities for all rows."""
    probabilities, predicted, y = _answers(name)
    truth = (y == predicted).mean()

    def judge(result: Data, budget: int, seed: int) -> dict[str, Any]:
        value, low, high = result["interval"].tolist()
        covered = bool(low <= truth <= high)
        return {"quality": abs(value - truth), "half_width": (high - low) / 2, "covered": covered}

    return {"y": y, "predicted": predicted, "probabilities": probabilities}, judge


def population(name: str, seed: int) -> tuple[Array, Array]:
    """Return the rows whose losses are added up; each seed has other rows, so no tool is lucky every time."""
    rng = np.random.default_rng([45, seed])
    if name == "images":  # there are 60,000 training images, so populations hardly overlap
        pixels, classes = _pixels("train")
        ids = rng.permutation(len(pixels))[: POPULATION[name]]
        return (_project(pixels[ids]) / _length(name)).astype(np.float32), classes[ids].astype(np.int64)
    x, y = rows(name)
    pool = split(name)[1]
    ids = pool[rng.permutation(len(pool))[: POPULATION[name]]]
    return x[ids], y[ids]


@cache
def losses(name: str, seed: int) -> Array:
    """Return the population's log losses, by a model that was trained on some of the held-out rows."""
    x, y = rows(name)
    training = np.random.default_rng([44, seed]).choice(split(name)[0], TRAINING[name], replace=False)
    model = logistic().fit(x[training], y[training])
    others, classes = population(name, seed)
    probabilities = np.zeros((len(others), y.max() + 1))
    probabilities[:, model.classes_] = model.predict_proba(others)
    return -np.log(np.maximum(probabilities[np.arange(len(others)), classes], LEAST_PROBABILITY))


def summarize(name: str, seeds: list[int]) -> tuple[Mapping[str, Array], Judge]:
    """Estimate a model's total loss; each seed has another model and other rows."""

    def judge(result: Data, budget: int, seed: int) -> dict[str, Any]:
        check_ids(result["ids"], budget)
        values = losses(name, seed)
        total = float(result["total"]) if "total" in result else float(result["weights"] @ values[result["ids"]])
        error = float(total / values.sum() - 1)
        return {"quality": abs(error), "signed": error}

    x = np.array([population(name, seed)[0] for seed in seeds])
    return {"own x": x, "own losses": np.array([losses(name, seed) for seed in seeds])}, judge


def cover(name: str, seeds: list[int]) -> tuple[Mapping[str, Array], Judge]:
    """Choose rows that are close to all rows; also report the accuracy of a model trained on them."""
    x, y = rows(name)

    def judge(result: Data, budget: int, seed: int) -> dict[str, Any]:
        check_ids(result["ids"], budget)
        distances = pairwise_distances_argmin_min(x, x[result["ids"]])[1]
        others = np.setdiff1d(np.arange(len(x)), result["ids"])
        return {"quality": float(distances.mean()), "accuracy": accuracy(x, y, result["ids"], others)}

    return {"x": x}, judge


def cluster(name: str, seeds: list[int]) -> tuple[Mapping[str, Array], Judge]:
    """Find centers such that rows have a small mean squared distance to the nearest one."""
    x = rows(name)[0]

    def judge(result: Data, budget: int, seed: int) -> dict[str, Any]:
        if len(result["centers"]) > budget:
            raise ValueError(f"a tool returned {len(result['centers'])} centers for {budget} clusters")
        return {"quality": float((pairwise_distances_argmin_min(x, result["centers"].astype(x.dtype))[1] ** 2).mean())}

    return {"x": x}, judge


MAKERS: dict[str, Maker] = {
    "label": label,
    "evaluate": evaluate,
    "summarize": summarize,
    "cover": cover,
    "cluster": cluster,
}
