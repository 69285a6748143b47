"""Draw rows for regression by leverage scores or Lewis weights; 1/π weights keep totals unbiased."""

from __future__ import annotations

from typing import Any

import numpy as np

from coresift.baselines.lewis import lewis_weights
from coresift.baselines.making import BaselineTask, ProgressLike, begin
from coresift.baselines.sketching import sketched_scores
from coresift.checks import named_options, positive, refuse, whole
from coresift.engine import Engine
from coresift.leverage import leverage_scores
from coresift.rows import RowsLike, refuse_bad_row
from coresift.types import Design, Floats, Selection, Singles


@named_options
def leverage(
    rows: RowsLike,
    budget: int,
    *,
    seed: int = 0,
    given: Any = None,
    exclude: Any = None,
    design: Design | None = None,
    engine: Engine | None = None,
    progress: ProgressLike = None,
) -> Selection:
    """Draw rows ∝ their exact leverage scores aᵀ(AᵀA)⁺a, computed by QR in double precision; weights are 1/π.

    Excluded rows are not part of A. A row of zeros has no leverage and is never drawn, with a warning.

    Cost: no model call; two passes, 2nd² operations in the first. Memory: 24 bytes per row, and a few d×d matrices.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows to select, including the given ones.
        seed: The seed.
        given: Rows that are always selected.
        exclude: Rows that are never selected, and that the selection does not represent.
        design: How rows are drawn, by default a fixed number of distinct rows; `cs.designs.Independent()` draws with
            replacement, as in the theory.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        The drawn rows, with weights.

    Examples:
        >>> leverage(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]), 2).weights.round(6)
        array([1., 3.])
    """
    task = begin("leverage", rows, budget, seed, given, exclude, engine, progress, design=_check_design(design))
    scores = leverage_scores(task.view(task.counted), engine=task.engine, progress=task.progress)
    return _draw(task, scores, design)


@named_options
def leverage_sketched(
    rows: RowsLike,
    budget: int,
    *,
    seed: int = 0,
    given: Any = None,
    exclude: Any = None,
    sketch: int = 8,
    directions: int = 64,
    design: Design | None = None,
    engine: Engine | None = None,
    progress: ProgressLike = None,
) -> Selection:
    """Draw rows ∝ approximate leverage scores, from a sketch of A and random projections; weights are 1/π.

    A sparse sketch replaces A, and random directions replace its column space (Drineas et al. 2012; Clarkson and
    Woodruff 2013). Scores are usually within a factor of two of the exact ones, and totals are still unbiased. With 64
    columns or fewer, `leverage` is just as cheap.

    Cost: no model call; two passes, n·d·directions operations instead of n·d². Memory: 24 bytes per row, and about
    six matrices of sketch·d × d.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows to select, including the given ones.
        seed: The seed.
        given: Rows that are always selected.
        exclude: Rows that are never selected, and that the selection does not represent.
        sketch: How many rows the sketch has, as a multiple of the number of columns.
        directions: How many random directions.
        design: How rows are drawn, by default a fixed number of distinct rows; `cs.designs.Independent()` draws with
            replacement, as in the theory.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        The drawn rows, with weights.

    Examples:
        >>> leverage_sketched(np.random.default_rng(0).normal(size=(200, 3)), 20)
        WeightedSelection(20 of 200 rows, 0 losses asked, seed=0)
    """
    sketch, directions = whole("sketch", sketch, least=2), whole("directions", directions)
    options = {"sketch": sketch, "directions": directions, "design": _check_design(design)}
    task = begin("leverage-sketched", rows, budget, seed, given, exclude, engine, progress, **options)
    with task.workers() as workers:
        scores = sketched_scores(task.view(task.counted), sketch * task.rows.d, directions, task.seed, workers)
    return _draw(task, scores, design)


@named_options
def ridge_leverage(
    rows: RowsLike,
    budget: int,
    *,
    seed: int = 0,
    given: Any = None,
    exclude: Any = None,
    ridge: float | None = None,
    design: Design | None = None,
    engine: Engine | None = None,
    progress: ProgressLike = None,
) -> Selection:
    """Draw rows ∝ their ridge leverage scores aᵀ(AᵀA + λI)⁻¹a; weights are 1/π.

    Cost and memory: as for `leverage`, plus one pass for the default λ.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows to select, including the given ones.
        seed: The seed.
        given: Rows that are always selected.
        exclude: Rows that are never selected, and that the selection does not represent.
        ridge: λ, by default ‖A‖²/budget (Frobenius norm). The scores then sum to at most the budget, and directions
            that so few rows could not resolve count for little.
        design: How rows are drawn, by default a fixed number of distinct rows; `cs.designs.Independent()` draws with
            replacement, as in the theory.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        The drawn rows, with weights.

    Examples:
        >>> ridge_leverage(np.eye(4), 2, ridge=1.0).weights
        array([2., 2.])
    """
    ridge = None if ridge is None else positive("ridge", ridge)
    options = {"ridge": ridge, "design": _check_design(design)}
    task = begin("ridge-leverage", rows, budget, seed, given, exclude, engine, progress, **options)
    # For a matrix of zeros any ridge will do, since all leverages are 0.
    ridge = ridge or _squared_norm(task) / task.budget or 1.0
    scores = leverage_scores(task.view(task.counted), ridge, engine=task.engine, progress=task.progress)
    return _draw(task, scores, design)


@named_options
def lewis(
    rows: RowsLike,
    budget: int,
    *,
    seed: int = 0,
    given: Any = None,
    exclude: Any = None,
    tolerance: float = 1e-3,
    design: Design | None = None,
    engine: Engine | None = None,
    progress: ProgressLike = None,
) -> Selection:
    """Draw rows ∝ their ℓ₁ Lewis weights, for least absolute deviations; weights are 1/π.

    The Lewis weights are the w with wᵢ² = aᵢᵀ(AᵀW⁻¹A)⁺aᵢ. They are found by fixed-point iteration (Cohen and Peng
    2015), which halves the error in each step.

    Cost: no model call; about ten passes, 2nd² operations each. Memory: 32 bytes per row, and a few d×d matrices.

    Args:
        rows: Anything that `open_rows` takes.
        budget: How many rows to select, including the given ones.
        seed: The seed.
        given: Rows that are always selected.
        exclude: Rows that are never selected, and that the selection does not represent.
        tolerance: The iteration stops when no weight changes by more than this relative amount.
        design: How rows are drawn, by default a fixed number of distinct rows; `cs.designs.Independent()` draws with
            replacement, as in the theory.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        The drawn rows, with weights.

    Examples:
        >>> lewis(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]), 2).weights.round(1)
        array([1., 3.])
    """
    tolerance = positive("tolerance", tolerance)
    options = {"tolerance": tolerance, "design": _check_design(design)}
    task = begin("lewis", rows, budget, seed, given, exclude, engine, progress, **options)
    with task.workers() as workers:
        weights = lewis_weights(task.view(task.counted), tolerance, workers)
    return _draw(task, weights, design)


def _draw(task: BaselineTask, scores: Floats, design: Design | None) -> Selection:
    """Draw open rows in random order; `scores` are the sizes of all rows that are not excluded."""
    sizes = np.zeros(task.rows.n)
    sizes[task.counted] = scores
    order = task.rng.permutation(task.open)
    return task.draw(order, sizes[order], design=design)


def _squared_norm(task: BaselineTask) -> float:
    def squares(_: int, block: Singles) -> float:
        return float(np.einsum("ij,ij->", block, block, dtype=np.float64))

    view = task.view(task.counted)
    with task.workers() as workers:
        total = sum(workers.map(view, squares))
    if not np.isfinite(total):
        refuse_bad_row(view)
    return total


def _check_design(design: Design | None) -> Design | None:
    if design is not None and not isinstance(design, Design):
        refuse("design", "one of coresift's designs, such as Independent()", repr(design))
    return design
