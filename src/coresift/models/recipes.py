"""The paper's two training recipes as functions: you pass functions that train and embed, and every cost is counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, Unpack

import numpy as np

from coresift.checks import refuse, share, whole
from coresift.recipes import paper_training
from coresift.recipes.arguments import Options, merge_recipe
from coresift.rows import Rows, open_rows
from coresift.selection import select
from coresift.streams import Stream, generator
from coresift.types import Floats, Ints, WeightedSelection

Train: TypeAlias = Callable[[Ints, Floats | None], Any]


@dataclass(frozen=True)
class Costs:
    """What a recipe cost.

    A row needs one label, whether its loss was asked, it was trained on, or both. The exception: rows that were
    asked to estimate Λ count again if they are drawn later.

    Attributes:
        labels: How many rows needed a label.
        model_calls: How many losses were computed.
        embedded: How many rows were embedded.
        rows: How many rows there are.
        trainings: How often a model was trained.
    """

    labels: int
    model_calls: int
    embedded: int
    rows: int
    trainings: int

    @property
    def embedding_passes(self) -> float:
        """How often all rows were embedded."""
        return self.embedded / self.rows


@dataclass(frozen=True)
class Trained:
    """The result of a training recipe.

    Attributes:
        model: The trained model.
        selection: The selection that it was trained on.
        costs: What it cost.
        warm: The model that was trained on the warm rows, if there was one.
    """

    model: Any
    selection: WeightedSelection
    costs: Costs
    warm: Any = None


def image_recipe(
    n: int,
    budget: int,
    *,
    train: Train,
    embed: Callable[[Any], Any],
    losses: Callable[[Any], Callable[[Ints], Any]],
    holder: float | str = "free",
    warm: float = 0.2,
    centers: float = 0.2,
    weighted: bool = False,
    seed: int = 0,
    **options: Unpack[Options],
) -> Trained:
    """Train on a few uniform rows, use that model to select the rest of the budget, and train again on all of them.

    This is the paper's recipe for image classification. First, a model is trained on `warm`·budget uniform rows. That
    model embeds all rows, which are clustered into `centers`·budget clusters, and the losses of the centers are asked.
    The rest is drawn ∝ ℓ(c) + Λ‖e − c‖². Warm rows and centers are part of the budget and of the training set.

    Args:
        n: How many rows there are.
        budget: How many rows to train on.
        train: A function of row numbers and their weights (None: unweighted) that returns a trained model. It must
            start from the same initial model each time.
        embed: A function of the warm model that returns the rows, such as `lambda model: last_layer(model, images)`.
        losses: A function of the warm model that returns losses, such as `lambda model: classifier_loss(model, data)`.
        holder: Λ, a number, or a word as in `Sensitivity`.
        warm: The share of the budget for the first training.
        centers: The number of clusters, as a share of the budget.
        weighted: Whether the final training gets the weights.
        seed: The seed.
        options: Options of `select`. `pilot`, `score` and `design` replace the paper's parts;
            `recipe=cs.recipes.default()` uses coresift's default recipe.

    Returns:
        The model, the selection, and the costs.

    Examples:
        >>> points = np.random.default_rng(0).normal(size=(500, 3))
        >>> result = image_recipe(500, 50, train=lambda ids, weights: points[ids].mean(0),
        ...                       embed=lambda model: points, losses=lambda model: lambda ids: points[ids, 0] ** 2)
        >>> len(result.selection), result.costs.labels, result.costs.model_calls, result.costs.embedding_passes
        (50, 50, 10, 1.0)
    """
    whole("n", n)
    budget = whole("budget", budget, least=5)
    warm_count = round(share("warm", warm) * budget)
    if budget > n:
        refuse("budget", f"at most the {n} rows", budget)
    warm_rows = np.sort(generator(seed, Stream.TRAINING).choice(n, warm_count, replace=False))
    model = train(warm_rows, None)
    rows = open_rows(embed(model))
    _check_rows(rows, n)
    clusters = max(1, round(share("centers", centers) * budget))
    options.setdefault("recipe", merge_recipe(paper_training(holder), {"clusters": clusters}))
    options.setdefault("given", warm_rows)
    selection = select(rows, losses(model), budget, seed, **options)
    final = train(*_training_set(selection, weighted))
    labels = selection.ids.size + _asked_only(selection)
    return Trained(final, selection, Costs(labels, selection.ledger.asked, n, n, 2), warm=model)


def fine_tuning_recipe(
    budget: int,
    *,
    embed: Callable[[], Any],
    losses: Callable[[Ints], Any] | Any,
    fine_tune: Train,
    weighted: bool = False,
    seed: int = 0,
    **options: Unpack[Options],
) -> Trained:
    """Embed all rows, compute a few losses, select, and fine-tune on the selection.

    Args:
        budget: How many rows to fine-tune on.
        embed: A function that returns the rows, such as
            `lambda: embed("corpus.parquet", "all-MiniLM-L6-v2", "embeddings", text="en")`.
        losses: Losses as `select` takes them, such as
            `text_loss("t5-small", "corpus.parquet", text="en", target="de")`.
        fine_tune: A function of row numbers and their weights (None: unweighted) that returns the model.
        weighted: Whether fine-tuning gets the weights.
        seed: The seed.
        options: Options of `select`, with its defaults. The paper's recipe is
            `recipe=cs.recipes.paper_training(holder=0.1)`.

    Returns:
        The model, the selection, and the costs.

    Examples:
        >>> points = np.random.default_rng(0).normal(size=(500, 3))
        >>> result = fine_tuning_recipe(50, embed=lambda: points, losses=lambda ids: points[ids, 0] ** 2,
        ...                             fine_tune=lambda ids, weights: points[ids].mean(0))
        >>> len(result.selection), result.costs.labels, result.costs.model_calls
        (50, 50, 10)
    """
    rows = open_rows(embed())
    selection = select(rows, losses, budget, seed, **options)
    model = fine_tune(*_training_set(selection, weighted))
    labels = selection.ids.size + _asked_only(selection)
    return Trained(model, selection, Costs(labels, selection.ledger.asked, rows.n, rows.n, 1))


def _training_set(selection: WeightedSelection, weighted: bool) -> tuple[Ints, Floats | None]:
    """Return writable copies of rows and weights: torch warns about read-only arrays."""
    return selection.ids.copy(), selection.weights.copy() if weighted else None


def _asked_only(selection: WeightedSelection) -> int:
    """Return how many rows were asked but not selected."""
    return selection.ledger.asked - int(np.count_nonzero(~np.isnan(selection.losses)))


def _check_rows(rows: Rows, n: int) -> None:
    if rows.n != n:
        refuse("embed", f"a function that returns {n} rows", f"one that returns {rows.n}")
