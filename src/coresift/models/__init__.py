"""Embeddings, losses and gradients of torch models, and training on a selection.

These need the extra `models`: run `pip install ".[models]"` in a clone of coresift. `import coresift` does not import
torch; the first use of `coresift.models` does.
"""

from coresift.models.extra import MissingExtraError, need

need("torch")

# isort: split
from coresift.models.embedding import embed, last_layer
from coresift.models.gradients import gradient_norms, last_layer_gradient_norms
from coresift.models.losses import classifier_loss, text_loss
from coresift.models.recipes import Costs, Trained, fine_tuning_recipe, image_recipe
from coresift.models.training import (
    Resampler,
    Selected,
    fit,
    select_dataset,
    subset,
    training_weights,
    weighing,
    weighted_sampler,
    weighted_trainer,
)

__all__ = [
    "Costs",
    "MissingExtraError",
    "Resampler",
    "Selected",
    "Trained",
    "classifier_loss",
    "embed",
    "fine_tuning_recipe",
    "fit",
    "gradient_norms",
    "image_recipe",
    "last_layer",
    "last_layer_gradient_norms",
    "select_dataset",
    "subset",
    "text_loss",
    "training_weights",
    "weighing",
    "weighted_sampler",
    "weighted_trainer",
]
