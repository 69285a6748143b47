"""What several tools share: types, the first rows, the rounds, and the model of all active learning tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Data = Mapping[str, Array]
Tool = Callable[[Data, int, int], dict[str, Array]]
ROUNDS = 8


def draw(n: int, count: int, seed: int) -> Array:
    """Return random rows, the same for all tools."""
    return np.random.default_rng([seed, 11]).permutation(n)[:count]


def first_rows(y: Array, count: int, seed: int) -> Array:
    """Return random first rows of at least two classes, because most models need two."""
    return next(ids for try_ in range(1_000) if np.unique(y[ids := draw(len(y), count, seed + 1_000 * try_)]).size > 1)


def batches(budget: int) -> list[int]:
    """Return the sizes of the rounds: a fifth of the budget first, then equal shares of the rest."""
    first = budget // 5
    cuts = np.linspace(first, budget, ROUNDS).round().astype(int)
    return [first, *np.diff(cuts).tolist()]


def logistic() -> Any:
    """Return the model that all active learning tools train."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    return LogisticRegression(C=10.0, max_iter=200)


def one_thread() -> Any:
    """Return coresift's engine with one thread, like every tool."""
    from coresift.engines import Local  # noqa: PLC0415

    return Local(threads=1)
