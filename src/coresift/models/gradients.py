"""Squared gradient norms of rows: ‖∇_θ ℓ(e)‖² over all parameters, the paper's gradient-based loss.

Three ways give the same numbers. `layers` never forms a row's gradient: the gradient of a linear or convolution layer
is a product of its input and its output gradient, and its norm follows from theirs. `vmap` forms the gradients of many
rows at once. `loop` takes one row after the other. The default is the first way that works for the model and agrees
with the loop on the first rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from coresift.checks import CoresiftError, InputError, refuse
from coresift.models.encoders import call, last_linear, layer_name, logits_of, tapped
from coresift.models.losses import ClassifierLoss, RowLoss, RowValues, TextClassifierLoss

WAYS = ("layers", "vmap", "loop")
AGREE = 1e-3  # the largest relative difference from the loop on the rows of the trial
TRIED = 2
AT_ONCE = 2**26  # the most numbers in the gradients of several rows


def gradient_norms(loss: RowLoss, *, way: str | None = None, batch: int | None = None) -> RowValues:
    """Return the squared gradient norm ‖∇_θ ℓ(e)‖² of each row over all trained parameters, for `select(losses=...)`.

    Args:
        loss: The result of `classifier_loss` or `text_loss`.
        way: "layers", "vmap" or "loop"; by default the first of these that agrees with the loop on two rows.
        batch: How many rows at a time, by default as for the loss.

    Returns:
        A callable that takes row numbers and returns one number per row.

    Examples:
        >>> from coresift.models import classifier_loss
        >>> network = torch.nn.Linear(4, 3)
        >>> norms = gradient_norms(classifier_loss(network, (torch.ones(10, 4), torch.zeros(10, dtype=torch.long))))
        >>> norms(np.array([2, 7])).shape
        (2,)
    """
    if way is not None and way not in WAYS:
        refuse("way", f"one of {', '.join(WAYS)}", repr(way))
    if not any(parameter.requires_grad for parameter in loss.model.parameters()):
        refuse("loss", "that of a model with parameters that are trained", "a frozen model")
    return GradientNorms(loss, way, batch or loss.batch)


def last_layer_gradient_norms(loss: RowLoss, *, layer: Any = None, batch: int | None = None) -> RowValues:
    """Return the squared gradient norm of each row over the last linear layer only, without a backward pass.

    For cross-entropy it is ‖p − y‖²·(‖h‖² + 1), where p are the predicted probabilities, y the class, and h the input
    of the layer; the 1 is for the bias, if there is one. It is much cheaper than the norm over all parameters, but it
    is not the same number.

    Args:
        loss: The result of `classifier_loss`, or of `text_loss` for a classifier.
        layer: The layer, by default the last linear one.
        batch: How many rows at a time, by default as for the loss.

    Returns:
        A callable that takes row numbers and returns one number per row.

    Examples:
        >>> from coresift.models import classifier_loss
        >>> loss = classifier_loss(torch.nn.Linear(4, 3), (torch.ones(10, 4), torch.zeros(10, dtype=torch.long)))
        >>> last_layer_gradient_norms(loss)(np.array([2, 7])).shape
        (2,)
    """
    if not isinstance(loss, ClassifierLoss | TextClassifierLoss):
        refuse("loss", "that of a classifier", type(loss).__name__)
    layer = layer or last_linear(loss.model)
    layer_name(loss.model, layer)

    def compute(some: dict[str, Any]) -> Any:
        with tapped(layer) as seen:
            logits = logits_of(call(loss.model, some["inputs"])).float()
        if len(seen) != 1 or seen[0].ndim != 2 or layer.weight.shape[0] != logits.shape[-1]:
            raise InputError("layer must be the linear layer that computes the logits, used once per row.")
        error = logits.softmax(1)
        error[torch.arange(len(error)), some["labels"]] -= 1
        return error.square().sum(1) * (seen[0].float().square().sum(1) + (layer.bias is not None))

    return RowValues(loss, "last-layer gradient norm", compute, batch=batch or loss.batch)


class GradientNorms(RowValues):
    """Squared gradient norms; after the first rows, `way` says how they are computed."""

    def __init__(self, loss: RowLoss, way: str | None, batch: int) -> None:
        super().__init__(loss, "gradient norm", self._norms, batch=batch, grad=True)
        self.way = way

    def _norms(self, some: dict[str, Any]) -> Any:
        if self.way is None:
            self.way = self._choose(some)
        return NORMS[self.way](self.loss, some)

    def _choose(self, some: dict[str, Any]) -> str:
        """Return the first way that agrees with the loop on a few rows of this batch."""
        few = rows_of(some, slice(0, TRIED))
        truth = by_loop(self.loss, few)
        for way in WAYS[:-1]:
            try:
                norms = NORMS[way](self.loss, few)
            except CoresiftError:
                continue
            except (RuntimeError, ValueError, TypeError, NotImplementedError, AttributeError, IndexError):
                continue  # torch cannot transform this model; try the next way
            if torch.allclose(norms, truth, rtol=AGREE, atol=1e-12):
                return way
        return "loop"


def by_loop(loss: RowLoss, batch: dict[str, Any]) -> Any:
    """Compute the norms with one backward pass per row."""
    parameters = [parameter for parameter in loss.model.parameters() if parameter.requires_grad]
    norms = []
    for row in range(len(batch["labels"])):
        value = loss.compute(loss.model, rows_of(batch, slice(row, row + 1)))[0]
        gradients = torch.autograd.grad(value, parameters, allow_unused=True)
        norms.append(sum(gradient.double().square().sum() for gradient in gradients if gradient is not None))
    return torch.stack(norms)


def by_vmap(loss: RowLoss, batch: dict[str, Any]) -> Any:
    """Compute the gradients of several rows at once, as many as fit into `AT_ONCE` numbers."""
    model = loss.model
    trained = {name: value.detach() for name, value in model.named_parameters() if value.requires_grad}
    fixed = {name: value.detach() for name, value in model.named_parameters() if not value.requires_grad}
    fixed |= dict(model.named_buffers())

    def value(parameters: dict[str, Any], row: dict[str, Any]) -> Any:
        single = _map(row, lambda tensor: tensor.unsqueeze(0))
        return loss.compute(_Functional(model, {**fixed, **parameters}), single)[0]

    def norm(row: dict[str, Any]) -> Any:
        gradients = torch.func.grad(value)(trained, row)
        return sum(gradient.square().sum() for gradient in gradients.values())

    size = sum(tensor.numel() for tensor in trained.values())
    step = max(1, min(len(batch["labels"]), AT_ONCE // max(size, 1)))
    return torch.func.vmap(norm, chunk_size=step)(batch).double()


class _Functional:
    """A model with other parameters."""

    def __init__(self, model: Any, parameters: dict[str, Any]) -> None:
        self._model, self._parameters = model, parameters

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        return torch.func.functional_call(self._model, self._parameters, inputs, named)


def by_layers(loss: RowLoss, batch: dict[str, Any]) -> Any:
    """Compute the norms with one backward pass for all rows, from the inputs and output gradients of each layer."""
    owners = [module for module in loss.model.modules() if any(p.requires_grad for p in module.parameters(False))]
    for module in owners:
        if type(module) not in LAYERS or not _usable(module):
            raise InputError(f"There is no closed form for {type(module).__name__}.")
    with _watched(owners) as seen:
        losses = loss.compute(loss.model, batch)
        used = [module for module in owners if seen[module]]
        if any(len(seen[module]) > 1 for module in used):
            raise InputError("There is no closed form for a layer that is used twice.")
        outputs = [seen[module][0][1] for module in used]
        returned = torch.autograd.grad(losses.sum(), outputs)
    total = torch.zeros(len(losses), dtype=torch.float64, device=losses.device)
    for module, back in zip(used, returned, strict=True):
        total += LAYERS[type(module)](module, seen[module][0][0].detach(), back.detach())
    return total


@contextmanager
def _watched(modules: list[Any]) -> Iterator[dict[Any, list[tuple[Any, Any]]]]:
    seen: dict[Any, list[tuple[Any, Any]]] = {module: [] for module in modules}
    handles = [
        module.register_forward_hook(lambda module, inputs, output: seen[module].append((inputs[0], output)))
        for module in modules
    ]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _usable(module: Any) -> bool:
    if isinstance(module, torch.nn.Conv2d):
        return bool(module.groups == 1 and module.padding_mode == "zeros" and not isinstance(module.padding, str))
    return True


def _linear(module: Any, came: Any, back: Any) -> Any:
    """‖Σ_t δ_t a_tᵀ‖² + ‖Σ_t δ_t‖² over the positions t of each row."""
    came, back = came.flatten(1, -2) if came.ndim > 2 else came.unsqueeze(1), _positions(back)
    return _product_norms(module, came, back)


def _convolution(module: Any, came: Any, back: Any) -> Any:
    """Treat it as a linear layer on the patch of each output position."""
    patches = torch.nn.functional.unfold(
        came, module.kernel_size, dilation=module.dilation, padding=module.padding, stride=module.stride
    )
    return _product_norms(module, patches.transpose(1, 2), back.flatten(2).transpose(1, 2))


def _product_norms(module: Any, came: Any, back: Any) -> Any:
    positions, wide, deep = came.shape[1], came.shape[2], back.shape[2]
    total = torch.zeros(len(came), dtype=torch.float64, device=came.device)
    if module.weight.requires_grad and positions == 1:
        total += came.square().sum((1, 2)).double() * back.square().sum((1, 2)).double()
    elif module.weight.requires_grad and positions**2 < wide * deep:
        total += ((came @ came.transpose(1, 2)) * (back @ back.transpose(1, 2))).sum((1, 2)).double()
    elif module.weight.requires_grad:
        total += (back.transpose(1, 2) @ came).square().sum((1, 2)).double()
    if module.bias is not None and module.bias.requires_grad:
        total += back.sum(1).square().sum(1).double()
    return total


def _normalization(module: Any, came: Any, back: Any) -> Any:
    """The gradient of a scale is Σ_t δ_t·x̂_t, that of a shift Σ_t δ_t."""
    plain = torch.nn.functional.layer_norm(came, module.normalized_shape, eps=module.eps)
    count = len(module.normalized_shape)
    total = torch.zeros(len(came), dtype=torch.float64, device=came.device)
    for parameter, gradient in ((module.weight, back * plain), (module.bias, back)):
        if parameter is not None and parameter.requires_grad:
            shape = (len(came), -1, int(np.prod(module.normalized_shape)))
            total += gradient.flatten(-count).reshape(shape).sum(1).square().sum(1).double()
    return total


def _positions(back: Any) -> Any:
    return back.flatten(1, -2) if back.ndim > 2 else back.unsqueeze(1)


# A subclass may compute something else, so a layer must have exactly one of these types.
LAYERS: dict[type, Callable[[Any, Any, Any], Any]] = {
    torch.nn.Linear: _linear,
    torch.nn.Conv2d: _convolution,
    torch.nn.LayerNorm: _normalization,
}
NORMS: dict[str, Callable[[RowLoss, dict[str, Any]], Any]] = {"layers": by_layers, "vmap": by_vmap, "loop": by_loop}


def rows_of(batch: Any, rows: slice) -> Any:
    """Return some rows of every tensor of a batch."""
    return _map(batch, lambda tensor: tensor[rows])


def _map(batch: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(batch, dict):
        return {name: _map(value, function) for name, value in batch.items()}
    if isinstance(batch, list | tuple):
        return [_map(value, function) for value in batch]
    return function(batch) if isinstance(batch, torch.Tensor) else batch
