"""The paper's two training recipes as functions: the model and its trainer are callables, every cost is counted."""

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
    """What a recipe used.

    A row counts once among the labels, whether its loss was asked, it was trained on, or both; only rows that an
    estimate of Λ asked count again if they are drawn later.

    Attributes:
        labels: How many rows needed a label.
        model_calls: How many losses a model was asked for.
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
    """What a recipe returns.

    Attributes:
        model: The trained model.
        selection: The selection that it was trained on.
        costs: What it cost.
        warm: The model that was trained first, if there was one.
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
    """Train on a few uniform rows, select the rest of the budget by that model, and train again on all of them.

    This is the paper's recipe for image classification. `warm`·budget rows are drawn uniformly and trained on. Rows
    are then embedded by that model and clustered into `centers`·budget clusters, the losses of the centers are asked,
    and the rest is drawn ∝ ℓ(c) + Λ‖e − c‖². Warm rows and centers are part of the budget and of the training set.

    Args:
        n: How many rows there are.
        budget: How many rows to train on.
        train: Takes row numbers and their weights (None: unweighted), and returns a model, from the same start each
            time.
        embed: Takes the warm model and returns rows, such as `lambda model: last_layer(model, images)`.
        losses: Takes the warm model and returns a function of row numbers, such as `classifier_loss(model, data)`.
        holder: Λ, a number or a word as in `Sensitivity`.
        warm: The part of the budget that is trained on first.
        centers: The part of the budget that is centers.
        weighted: Whether the final training gets the weights.
        seed: The seed.
        options: Those of `select`. `pilot`, `score` and `design` replace the paper's parts;
            `recipe=cs.recipes.default()` is this package's own recipe.

    Returns:
        The model, the selection and what it cost.

    Examples:
        >>> points = np.random.default_rng(0).normal(size=(500, 3))
        >>> found = image_recipe(500, 50, train=lambda ids, weights: points[ids].mean(0),
        ...                      embed=lambda model: points, losses=lambda model: lambda ids: points[ids, 0] ** 2)
        >>> len(found.selection), found.costs.labels, found.costs.model_calls, found.costs.embedding_passes
        (50, 50, 10, 1.0)
    """
    whole("n", n)
    budget = whole("budget", budget, least=5)
    first = round(share("warm", warm) * budget)
    if budget > n:
        refuse("budget", f"at most the {n} rows", budget)
    begun = np.sort(generator(seed, Stream.TRAINING).choice(n, first, replace=False))
    model = train(begun, None)
    rows = open_rows(embed(model))
    _check_rows(rows, n)
    clusters = max(1, round(share("centers", centers) * budget))
    options.setdefault("recipe", merge_recipe(paper_training(holder), {"clusters": clusters}))
    options.setdefault("given", begun)
    selection = select(rows, losses(model), budget, seed, **options)
    final = train(*_training_set(selection, weighted))
    labels = selection.ids.size + _asked_but_left(selection)
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
    """Embed, cluster, ask a model for a few losses, select, and fine-tune on the selection.

    Args:
        budget: How many rows to fine-tune on.
        embed: Returns the rows, such as `lambda: embed("corpus.parquet", "all-MiniLM-L6-v2", "embeddings", text="en")`.
        losses: What `select` takes, such as `text_loss("t5-small", "corpus.parquet", text="en", target="de")`.
        fine_tune: Takes row numbers and their weights (None: unweighted), and returns the model.
        weighted: Whether fine-tuning gets the weights.
        seed: The seed.
        options: Those of `select`, with this package's own defaults. The paper's run is
            `recipe=cs.recipes.paper_training(holder=0.1)`.

    Returns:
        The model, the selection and what it cost.

    Examples:
        >>> points = np.random.default_rng(0).normal(size=(500, 3))
        >>> found = fine_tuning_recipe(50, embed=lambda: points, losses=lambda ids: points[ids, 0] ** 2,
        ...                            fine_tune=lambda ids, weights: points[ids].mean(0))
        >>> len(found.selection), found.costs.labels, found.costs.model_calls
        (50, 50, 10)
    """
    rows = open_rows(embed())
    selection = select(rows, losses, budget, seed, **options)
    model = fine_tune(*_training_set(selection, weighted))
    labels = selection.ids.size + _asked_but_left(selection)
    return Trained(model, selection, Costs(labels, selection.ledger.asked, rows.n, rows.n, 1))


def _training_set(selection: WeightedSelection, weighted: bool) -> tuple[Ints, Floats | None]:
    """Return rows and weights that may be written to: torch warns of arrays that may not."""
    return selection.ids.copy(), selection.weights.copy() if weighted else None


def _asked_but_left(selection: WeightedSelection) -> int:
    """Return how many rows were asked and are not part of the selection."""
    return selection.ledger.asked - int(np.count_nonzero(~np.isnan(selection.losses)))


def _check_rows(rows: Rows, n: int) -> None:
    if rows.n != n:
        refuse("embed", f"a function that returns {n} rows", f"one that returns {rows.n}")
