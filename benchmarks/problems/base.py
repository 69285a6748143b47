"""The type of a problem, how problems are built, and the cache of arrays that take long to compute."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float32]
Labels: TypeAlias = NDArray[np.int64]
Arrays: TypeAlias = dict[str, NDArray[Any]]

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
VERSION = 1  # increase this when a builder changes, so that old caches are not read


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows, their losses, and the number of losses that an estimate of the total may use."""

    name: str
    rows: Matrix
    losses: Floats
    budget: int
    kind: str  # "real" or "synthetic"
    hard: bool = False  # heavy-tailed, zero-inflated or rare-cluster: no sample-based interval can be trusted
    proxy: Floats | None = None  # a cheap model's loss on every row
    classes: Labels | None = None  # the classes that the model predicts
    world: str = ""  # problems of one world are similar: one is in the tuning half, the other is held out
    probabilities: Matrix | None = None  # the model's probability of each class


@dataclass(frozen=True)
class Source:
    """How a problem is built: its arrays, and which of them is the loss."""

    build: Callable[[], Arrays]
    kind: str = "real"
    loss: str = "losses"
    budget: int = 500
    hard: bool = False
    classes: Callable[[], Labels] | None = None
    world: str = ""


def data_folder() -> Path:
    """Return the data folder: `CORESIFT_DATA`, or `../shared/data` next to the project's root."""
    return Path(os.environ.get("CORESIFT_DATA", ROOT.parent.parent / "shared" / "data"))


def cached(build: Callable[[], Arrays]) -> Arrays:
    """Return the arrays that `build` returns, from the cache if possible."""
    path = CACHE / f"{build.__name__}-{VERSION}.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    arrays = build()
    CACHE.mkdir(exist_ok=True)
    aside = path.with_suffix(".part.npz")
    np.savez(aside, allow_pickle=False, **arrays)
    aside.replace(path)
    return arrays


def make(name: str, source: Source) -> Problem:
    """Build a problem, or read it from the cache."""
    arrays = cached(source.build)
    has_proxy = source.loss == "losses" and "proxy" in arrays
    return Problem(
        name=name,
        rows=np.ascontiguousarray(arrays["rows"], dtype=np.float32),
        losses=np.asarray(arrays[source.loss], dtype=np.float64),
        budget=source.budget,
        kind=source.kind,
        hard=source.hard,
        proxy=np.asarray(arrays["proxy"], dtype=np.float64) if has_proxy else None,
        classes=None if source.classes is None else source.classes(),
        world=source.world,
        probabilities=arrays.get("probabilities"),
    )


def cross_entropy(probabilities: Floats, labels: Labels) -> Floats:
    """Return the loss of each row, from predicted class probabilities."""
    chosen = probabilities[np.arange(len(labels)), labels]
    return np.asarray(-np.log(np.clip(chosen, 1e-12, 1.0)))


def head(rows: Matrix, labels: Labels, seen: int, seed: int, strength: float = 1.0) -> Arrays:
    """Return the losses and errors of a linear classifier trained on `seen` random rows, at least one per class."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    part = np.random.default_rng(seed).permutation(len(rows))[:seen]
    part = np.union1d(part, np.unique(labels, return_index=True)[1])
    model = LogisticRegression(C=strength, max_iter=500).fit(rows[part], labels[part])
    rest = np.setdiff1d(np.arange(len(rows)), part)
    probabilities = model.predict_proba(rows[rest])
    return {
        "rows": rows[rest],
        "losses": cross_entropy(probabilities, labels[rest]),
        "errors": (probabilities.argmax(1) != labels[rest]).astype(np.float64),
        "probabilities": probabilities.astype(np.float32),
    }
