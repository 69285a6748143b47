"""Choose the rows that a model is least sure about. Each method asks the model about every row it can select."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from coresift.baselines.making import BaselineTask, ProgressLike, begin
from coresift.baselines.probabilities import REASON, ask_probabilities
from coresift.checks import named_options
from coresift.engine import Engine
from coresift.rows import RowsLike
from coresift.types import Floats, Ledger, Selection


@named_options
def margin(
    rows: RowsLike,
    budget: int,
    *,
    seed: int = 0,
    given: Any = None,
    exclude: Any = None,
    probabilities: Any = None,
    batch: int = 1024,
    engine: Engine | None = None,
    progress: ProgressLike = None,
) -> Selection:
    """Choose the rows whose two likeliest classes are closest: smallest p₁ − p₂ first.

    Rows that are equally uncertain come in random order.

    Cost: one model call for every row that is neither given nor excluded. Memory: 16 bytes per row and one batch.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows to select, including the given ones.
        seed: The seed.
        given: Rows that are always selected.
        exclude: Rows that are never selected, and that the selection does not represent.
        probabilities: An array with one line per row and one column per class, or a callable that takes row numbers
            and returns such lines.
        batch: How many rows to pass to the callable at a time.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        The chosen rows, without weights.

    Examples:
        >>> margin(np.zeros((3, 1)), 1, probabilities=[[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]).ids
        array([1])
    """
    task = begin("margin", rows, budget, seed, given, exclude, engine, progress)
    return _least_sure(task, probabilities, batch, margin_of)


@named_options
def least_confidence(
    rows: RowsLike,
    budget: int,
    *,
    seed: int = 0,
    given: Any = None,
    exclude: Any = None,
    probabilities: Any = None,
    batch: int = 1024,
    engine: Engine | None = None,
    progress: ProgressLike = None,
) -> Selection:
    """Choose the rows whose likeliest class is least likely: smallest p₁ first.

    Cost: one model call for every row that is neither given nor excluded. Memory: 16 bytes per row and one batch.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows to select, including the given ones.
        seed: The seed.
        given: Rows that are always selected.
        exclude: Rows that are never selected, and that the selection does not represent.
        probabilities: An array with one line per row and one column per class, or a callable that takes row numbers
            and returns such lines.
        batch: How many rows to pass to the callable at a time.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        The chosen rows, without weights.

    Examples:
        >>> least_confidence(np.zeros((2, 1)), 1, probabilities=[[0.6, 0.4, 0.0], [0.5, 0.3, 0.2]]).ids
        array([1])
    """
    task = begin("least-confidence", rows, budget, seed, given, exclude, engine, progress)
    return _least_sure(task, probabilities, batch, confidence_of)


@named_options
def entropy(
    rows: RowsLike,
    budget: int,
    *,
    seed: int = 0,
    given: Any = None,
    exclude: Any = None,
    probabilities: Any = None,
    batch: int = 1024,
    engine: Engine | None = None,
    progress: ProgressLike = None,
) -> Selection:
    """Choose the rows whose class probabilities have the largest entropy −Σ p ln p.

    Cost: one model call for every row that is neither given nor excluded. Memory: 16 bytes per row and one batch.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows to select, including the given ones.
        seed: The seed.
        given: Rows that are always selected.
        exclude: Rows that are never selected, and that the selection does not represent.
        probabilities: An array with one line per row and one column per class, or a callable that takes row numbers
            and returns such lines.
        batch: How many rows to pass to the callable at a time.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        The chosen rows, without weights.

    Examples:
        >>> entropy(np.zeros((2, 1)), 1, probabilities=[[0.5, 0.5, 0.0], [0.4, 0.3, 0.3]]).ids
        array([1])
    """
    task = begin("entropy", rows, budget, seed, given, exclude, engine, progress)
    return _least_sure(task, probabilities, batch, order_of)


def margin_of(probabilities: Floats) -> Floats:
    """Return p₁ − p₂, the margin between the two likeliest classes."""
    highest = np.partition(probabilities, -2, axis=1)[:, -2:]
    return np.asarray(highest[:, 1] - highest[:, 0])


def confidence_of(probabilities: Floats) -> Floats:
    """Return p₁, the probability of the likeliest class."""
    return np.asarray(probabilities.max(axis=1))


def order_of(probabilities: Floats) -> Floats:
    """Return Σ p ln p, the negative entropy, which is small if the model is unsure."""
    return np.asarray((probabilities * np.log(np.where(probabilities > 0, probabilities, 1.0))).sum(axis=1))


def _least_sure(
    task: BaselineTask, probabilities: Any, batch: int, confidence_measure: Callable[[Floats], Floats]
) -> Selection:
    ids = task.open
    confidence = np.empty(ids.size)
    for positions, answers in ask_probabilities(task, probabilities, ids, batch):
        confidence[positions] = confidence_measure(answers)
    order = np.lexsort((task.rng.random(ids.size), confidence))[: task.room]
    return task.choose(ids[order], Ledger(((1, REASON, int(ids.size)),) if ids.size else ()))
