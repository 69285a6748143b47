"""BADGE: diverse rows with large gradients, by k-means++ on gradient embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from coresift.baselines.making import BaselineTask, ProgressLike, begin, by_block
from coresift.baselines.probabilities import REASON, ask_probabilities
from coresift.checks import named_options
from coresift.engine import Engine, Workers
from coresift.progress import stage
from coresift.rows import Rows, RowsLike, refuse_bad_row
from coresift.types import Floats, Ints, Ledger, Selection, Singles


@named_options
def badge(
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
    """Draw rows by k-means++ on the gradients of the last layer (Ash et al. 2020).

    If the likeliest class were the true one, the gradient would be (p − e) ⊗ h, where h is the input of the last layer
    and e that class's unit vector; it is long if the model is uncertain. The row with the longest gradient comes first
    (unless rows are given); then each row is drawn ∝ the squared distance of its gradient to the nearest chosen one.

    Cost: one model call for every row that is not excluded, and one pass per chosen row. Memory: 4 bytes per row and
    class, and 20 bytes per row; the gradients themselves, classes × d numbers per row, are never stored.

    Args:
        rows: The inputs h of the model's last layer, as anything that `open_rows` takes.
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
        >>> rows = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
        >>> badge(rows, 2, probabilities=[[0.5, 0.5], [0.5, 0.5], [0.9, 0.1]]).ids.size
        2
    """
    task = begin("badge", rows, budget, seed, given, exclude, engine, progress)
    ids = task.counted
    errors = _errors(task, probabilities, batch, ids)
    free = np.flatnonzero(task.frame.open()[ids])
    with task.workers() as workers:
        gradients = _Gradients(task.view(ids), errors, workers)
        chosen = _kmeans_plus_plus(task, gradients, np.searchsorted(ids, task.frame.given), free)
    return task.choose(ids[chosen], Ledger(((1, REASON, int(ids.size)),)))


def _errors(task: BaselineTask, probabilities: Any, batch: int, ids: Ints) -> Singles:
    """Return p − e for these rows."""
    errors: Singles | None = None
    for positions, answers in ask_probabilities(task, probabilities, ids, batch):
        if errors is None:
            errors = np.empty((ids.size, answers.shape[1]), np.float32)
        errors[positions] = answers
        errors[positions][np.arange(len(answers)), answers.argmax(axis=1)] -= 1
    assert errors is not None
    return errors


def _kmeans_plus_plus(task: BaselineTask, gradients: _Gradients, given: Ints, free: Ints) -> Ints:
    """Return positions drawn by k-means++; fewer if all remaining gradients equal a chosen one."""
    closest = np.full(gradients.squares.size, np.inf)
    for row in given:
        np.minimum(closest, gradients.distances(int(row)), out=closest)
    chosen: list[int] = []
    with stage(task.progress, "choosing rows", task.room):
        while len(chosen) < task.room:
            if chosen or given.size:
                cumulative = np.cumsum(closest[free])
                if cumulative[-1] <= 0:
                    break
                hit = np.searchsorted(cumulative, task.rng.random() * cumulative[-1], side="right")
                row = int(free[min(int(hit), free.size - 1)])
            else:
                row = int(free[gradients.squares[free].argmax()])
            chosen.append(row)
            np.minimum(closest, gradients.distances(row), out=closest)
            closest[row] = 0
            task.progress.advance(1)
    return np.array(chosen, np.int64)


class _Gradients:
    """Outer products of errors and rows, stored implicitly: ⟨a ⊗ x, b ⊗ y⟩ = ⟨a, b⟩⟨x, y⟩."""

    def __init__(self, rows: Rows, errors: Singles, workers: Workers) -> None:
        self._rows, self._errors, self._workers = rows, errors, workers
        self.squares: Floats = by_block(workers.map(rows, _squared, beside=[errors])).astype(np.float64)
        if not np.isfinite(self.squares).all():
            refuse_bad_row(rows)

    def distances(self, row: int) -> Floats:
        """Return the squared distance of every gradient to that of one row, in one pass."""
        point, error = self._rows.take([row])[0], self._errors[row]

        def products(_: int, block: Singles, errors: Singles) -> Singles:
            return np.asarray((block @ point) * (errors @ error))

        inner = by_block(self._workers.map(self._rows, products, beside=[self._errors])).astype(np.float64)
        return np.asarray(np.maximum(self.squares + self.squares[row] - 2 * inner, 0.0))


def _squared(_: int, block: Singles, errors: Singles) -> Singles:
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.einsum("ij,ij->i", block, block)
        return np.asarray(lengths * np.einsum("ij,ij->i", errors, errors))
