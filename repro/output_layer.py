"""The cross-entropy of an output layer with a large vocabulary, and its gradient, without copies of the logits.

With 32,128 words, the logits of a batch are the largest array of fine-tuning. Only positions with a label are
multiplied, and softmax and its gradient are computed in place, a few rows at a time, so that they stay in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

ROWS_AT_ONCE, EVALUATED_AT_ONCE = 32, 128


def backward(layer: torch.nn.Linear, hidden: torch.Tensor, labels: torch.Tensor, dtype: torch.dtype) -> float:
    """Backpropagate the mean cross-entropy through the layer and everything that `hidden` was computed from.

    Args:
        layer: the output layer, without a bias; its weight may also be the embedding.
        hidden: one state per row.
        labels: one word number per row.
        dtype: the type of the matrix products.

    Returns:
        The mean cross-entropy.
    """
    with torch.no_grad():
        weight, states = layer.weight.to(dtype), hidden.to(dtype)
        slopes = states @ weight.T
        loss = sum(_to_slopes(logits, words, len(labels)) for logits, words in _chunks(slopes, labels, ROWS_AT_ONCE))
        by_state, by_weight = (slopes @ weight).to(hidden.dtype), (slopes.T @ states).to(layer.weight.dtype)
    hidden.backward(by_state)
    layer.weight.grad = by_weight if layer.weight.grad is None else layer.weight.grad.add_(by_weight)
    return loss / len(labels)


def _to_slopes(logits: torch.Tensor, labels: torch.Tensor, count: int) -> float:
    """Replace logits by the gradient of the mean loss over `count` rows; return the sum of these rows' losses."""
    values = logits.float()
    values -= values.amax(1, keepdim=True)
    chosen = values.gather(1, labels[:, None])
    totals = values.exp_().sum(1, keepdim=True)
    values /= totals * count
    values.scatter_add_(1, labels[:, None], torch.full_like(chosen, -1 / count))
    logits.copy_(values)
    return float((totals.log() - chosen).sum())


def correct_and_loss(layer: torch.nn.Linear, hidden: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Return which labels have the largest logit of their row, and the total cross-entropy."""
    right, loss = [], 0.0
    for states, words in _chunks(hidden, labels, EVALUATED_AT_ONCE):
        logits = layer(states)
        right.append(logits.argmax(1) == words)
        loss += float(torch.nn.functional.cross_entropy(logits, words, reduction="sum"))
    return torch.cat(right), loss


def _chunks(values: torch.Tensor, labels: torch.Tensor, size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    return zip(values.split(size), labels.split(size), strict=True)
