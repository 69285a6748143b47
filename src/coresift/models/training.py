"""Training on a selection, with or without weights: torch, the transformers Trainer, datasets and scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from coresift.checks import InputError, real_vector, refuse, row_numbers
from coresift.models.extra import need
from coresift.models.losses import IGNORED, token_means
from coresift.recipes.arguments import Options
from coresift.selection import select
from coresift.types import Floats, Ints, Selection, WeightedSelection

WEIGHT = "weight"
NO_WEIGHTS = "Weighted training needs weights, and this selection has none; use weighted=False (with a sampler: none)."


def training_weights(selection: Selection) -> Floats:
    """Return the weights for training: w·s/N if s of N rows are selected, which is about 1 on average.

    The mean over the s rows of this weight times the row's gradient is an unbiased estimate of the mean gradient over
    all N rows, so you can keep your learning rate.

    Args:
        selection: A selection with weights.

    Returns:
        One weight per selected row.

    Raises:
        InputError: If the selection has no weights.

    Examples:
        >>> from coresift import select
        >>> picked = select(np.random.default_rng(0).normal(size=(100, 2)), budget=10)
        >>> round(float(training_weights(picked).mean()), 1)
        1.0
    """
    if not isinstance(selection, WeightedSelection):
        raise InputError(NO_WEIGHTS)
    scaled: Floats = selection.weights * (len(selection) / selection.population)
    return scaled


class Selected(torch.utils.data.Subset):  # type: ignore[misc]
    """Some rows of a data set as a torch `Subset`, with one weight per row.

    Each entry is a pair (item, weight), and `weighing(collate)` makes batches of such pairs. `weights` is a tensor of
    all weights.

    Args:
        dataset: A torch data set.
        ids: Row numbers.
        weights: One number per row; None means 1 for every row.

    Examples:
        >>> Selected(torch.arange(5), [1, 3], [2.0, 0.5])[1]
        (tensor(3), tensor(0.5000))
    """

    def __init__(self, dataset: Any, ids: Any, weights: Any = None) -> None:
        ids = np.asarray(ids)
        row_numbers("ids", ids, len(dataset))
        super().__init__(dataset, ids.tolist())
        numbers = np.ones(ids.size) if weights is None else real_vector("weights", weights, ids.size)
        self.weights = torch.as_tensor(numbers, dtype=torch.float32)

    def __getitem__(self, place: Any) -> Any:
        return self.dataset[self.indices[place]], self.weights[place]

    def __getitems__(self, places: list[int]) -> list[Any]:
        return [self[place] for place in places]


def subset(dataset: Any, selection: Selection, *, weighted: bool = True) -> Any:
    """Return the selected rows of a torch data set.

    Args:
        dataset: The data set that the rows were selected from.
        selection: The selection.
        weighted: Whether to add the `training_weights` to the items.

    Returns:
        A `Selected`, or a plain torch `Subset` if unweighted.

    Examples:
        >>> from coresift import select
        >>> rows = np.random.default_rng(0).normal(size=(100, 2))
        >>> len(subset(torch.as_tensor(rows), select(rows, budget=10)))
        10
    """
    _check_length(dataset, selection)
    if weighted:
        return Selected(dataset, selection.ids, training_weights(selection))
    return torch.utils.data.Subset(dataset, selection.ids.tolist())


def weighing(collate: Callable[[list[Any]], Any] | None = None) -> Callable[[list[Any]], Any]:
    """Return a collate function for items of `Selected`.

    Args:
        collate: A function that turns a list of items into a batch; by default torch's `default_collate`.

    Returns:
        A function that adds the weights to a batch; a dict gets the key "weight", and a tuple gets one more entry.

    Examples:
        >>> batch, weights = weighing()([(torch.tensor(3), torch.tensor(0.5)), (torch.tensor(4), torch.tensor(2.0))])
        >>> batch.tolist(), weights.tolist()
        ([3, 4], [0.5, 2.0])
    """
    inner = collate or torch.utils.data.default_collate

    def run(items: list[Any]) -> Any:
        batch = inner([item for item, _ in items])
        weights = torch.stack([weight for _, weight in items])
        if isinstance(batch, dict):
            return {**batch, WEIGHT: weights}
        return (*batch, weights) if isinstance(batch, list | tuple) else (batch, weights)

    return run


def weighted_sampler(selection: Selection, draws: int | None = None, *, seed: int = 0) -> Any:
    """Return a torch sampler that draws places of the selection with probabilities ∝ weight, with replacement.

    Use it with the unweighted subset: `DataLoader(subset(data, picked, weighted=False), sampler=...)`. The expected
    gradient of a draw is Σwg/Σw. Multiply the loss by the sampler's `scale`, Σw/N, to get Σwg/N, an unbiased estimate
    of the mean gradient over all rows.

    Args:
        selection: A selection with weights.
        draws: How many draws per epoch; by default the number of selected rows.
        seed: The seed.

    Returns:
        A torch `WeightedRandomSampler` with the attribute `scale`.

    Examples:
        >>> from coresift import select
        >>> len(weighted_sampler(select(np.random.default_rng(0).normal(size=(100, 2)), budget=10), draws=30))
        30
    """
    weights = training_weights(selection)
    generator = torch.Generator().manual_seed(seed)
    count = len(selection) if draws is None else draws
    sampler = torch.utils.data.WeightedRandomSampler(torch.as_tensor(weights), count, True, generator)
    sampler.scale = float(weights.mean())
    return sampler


def select_dataset(dataset: Any, selection: Selection, *, weighted: bool = True, column: str = WEIGHT) -> Any:
    """Return the selected rows of a `datasets.Dataset`.

    Args:
        dataset: The data set that the rows were selected from.
        selection: The selection.
        weighted: Whether to add the `training_weights` as a column.
        column: The name of that column.

    Returns:
        A `datasets.Dataset`.
    """
    _check_length(dataset, selection)
    picked = dataset.select(selection.ids)
    if not weighted:
        return picked
    if column in picked.column_names:
        refuse("column", "one that the data set does not have yet", repr(column))
    return picked.add_column(column, training_weights(selection).astype(np.float32))


def fit(estimator: Any, inputs: Any, targets: Any, selection: Selection, *, weighted: bool = True) -> Any:
    """Fit a scikit-learn estimator on the selected rows.

    Args:
        estimator: The estimator.
        inputs: The inputs of all rows.
        targets: The targets of all rows.
        selection: The selection.
        weighted: Whether to pass the weights as `sample_weight`. Their sum is about N, so a penalty is as strong as it
            would be on all rows.

    Returns:
        The fitted estimator.

    Examples:
        >>> import coresift as cs
        >>> from sklearn.linear_model import Ridge
        >>> rows = np.random.default_rng(0).normal(size=(200, 3))
        >>> fit(Ridge(), rows, rows.sum(1), cs.select(rows, budget=50)).coef_.round(1).tolist()
        [1.0, 1.0, 1.0]
    """
    _check_length(inputs, selection)
    _check_length(targets, selection)
    X, y = take(inputs, selection.ids), take(targets, selection.ids)
    if not weighted:
        return estimator.fit(X, y)
    if not isinstance(selection, WeightedSelection):
        raise InputError(NO_WEIGHTS)
    if not need("sklearn.utils.validation").has_fit_parameter(estimator, "sample_weight"):
        refuse("estimator", "one that takes sample_weight, or weighted=False", type(estimator).__name__)
    return estimator.fit(X, y, sample_weight=selection.weights)


class Resampler:
    """Selection in the style of imbalanced-learn: `fit_resample(X, y)` returns the selected rows.

    Afterwards `selection_` has the selection, `sample_indices_` its row numbers and `sample_weight_` its weights.

    Args:
        budget: How many rows to select.
        losses: Losses as `select` takes them, or a function of (X, y) that returns them.
        seed: The seed.
        by_class: Whether to keep clusters within the classes of y.
        options: Other options of `select`.

    Examples:
        >>> rows = np.random.default_rng(0).normal(size=(200, 3))
        >>> few, labels = Resampler(budget=20).fit_resample(rows, np.arange(200))
        >>> few.shape, labels.shape
        ((20, 3), (20,))
    """

    def __init__(
        self,
        budget: int = 100,
        losses: Any = None,
        seed: int = 0,
        by_class: bool = False,
        options: Options | None = None,
    ) -> None:
        self.budget, self.losses, self.seed, self.by_class, self.options = budget, losses, seed, by_class, options

    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return the selected rows of X and y."""
        options: Options = {**(self.options or {})}
        if self.by_class:
            options["strata"] = np.asarray(y)
        losses = self.losses(X, y) if callable(self.losses) else self.losses
        rows = np.asarray(X, np.float32)
        self.selection_ = select(rows, losses, self.budget, self.seed, **options)
        self.sample_indices_: Ints = self.selection_.ids
        self.sample_weight_ = self.selection_.weights
        return take(X, self.selection_.ids), take(y, self.selection_.ids)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the options, for scikit-learn's `clone`."""
        return {name: getattr(self, name) for name in ("budget", "losses", "seed", "by_class", "options")}

    def set_params(self, **params: Any) -> Resampler:
        """Set options, as scikit-learn's estimators do."""
        for name, value in params.items():
            if name not in self.get_params():
                refuse("params", f"among {', '.join(self.get_params())}", repr(name))
            setattr(self, name, value)
        return self


def take(values: Any, ids: Ints) -> Any:
    """Return the rows with these numbers of an array, a list, or a table with `iloc`."""
    if hasattr(values, "iloc"):
        return values.iloc[ids]
    return [values[i] for i in ids] if isinstance(values, list | tuple) else values[ids]


def row_losses(outputs: Any, labels: Any, *, causal: bool) -> Any:
    """Return the loss of each row: the mean over its tokens, its cross-entropy, or its squared error."""
    logits = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
    if logits.ndim == 3:
        return token_means(logits[:, :-1], labels[:, 1:]) if causal else token_means(logits, labels)
    if logits.ndim == 2 and not labels.is_floating_point():
        return torch.nn.functional.cross_entropy(logits.float(), labels, reduction="none", ignore_index=IGNORED)
    errors = logits.squeeze(-1).float() - labels.float()
    return errors.square().reshape(len(labels), -1).mean(1)


def weighted_trainer(base: Any = None) -> Any:
    """Return a transformers `Trainer` class whose loss is weighted by the column "weight".

    The loss of a batch is the mean of weight times row loss. A row's loss is the mean over its tokens, its
    cross-entropy, or its squared error. Rows without the column have weight 1, as in evaluation. The column is
    passed to the collator; a collator that pads texts must keep numbers as they are, as those of transformers do.

    Args:
        base: A subclass of `Trainer` to extend, by default `Trainer` itself.

    Returns:
        A subclass of `base`.
    """
    base = base or need("transformers").Trainer

    class WeightedTrainer(base):  # type: ignore[misc]
        loss_is_scaled_for_ga = False  # the loss is a mean over the batch, so the Trainer must divide by its steps

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.model_accepts_loss_kwargs = False

        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
            inputs = dict(inputs)
            weights, labels = inputs.pop(WEIGHT, None), inputs["labels"]
            outputs = model(**inputs)
            causal = not getattr(self.accelerator.unwrap_model(model).config, "is_encoder_decoder", False)
            losses = row_losses(outputs, labels, causal=causal)
            loss = (losses if weights is None else losses * weights.to(losses)).mean()
            return (loss, outputs) if return_outputs else loss

        def _set_signature_columns_if_needed(self) -> None:
            super()._set_signature_columns_if_needed()
            if WEIGHT not in self._signature_columns:
                self._signature_columns.append(WEIGHT)

    return WeightedTrainer


def _check_length(values: Any, selection: Selection) -> None:
    count = values.shape[0] if hasattr(values, "shape") else len(values)
    if count != selection.n:
        refuse("The data", f"the {selection.n} rows that were selected from", f"{count} rows")
