"""The cross-entropy behind an output layer of many thousand words, and its gradient, without copies of the logits.

With 32,128 words the logits of a batch are the largest array of a fine-tuning. Only the positions that have a label are
multiplied, and softmax and its gradient are taken in place, a few rows at a time so that they stay in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

ROWS_AT_ONCE, JUDGED_AT_ONCE = 32, 128


def backward(layer: torch.nn.Linear, hidden: torch.Tensor, labels: torch.Tensor, dtype: torch.dtype) -> float:
    """Add the gradients of the mean cross-entropy to the layer and to all that `hidden` was computed from.

    Args:
        layer: the output layer, without a bias; its weight may also be the embedding.
        hidden: one state per row.
        labels: one word number per row.
        dtype: what the products are computed in.

    Returns:
        The mean cross-entropy.
    """
    with torch.no_grad():
        weight, states = layer.weight.to(dtype), hidden.to(dtype)
        slopes = states @ weight.T
        loss = sum(_to_slopes(some, words, len(labels)) for some, words in _parts(slopes, labels, ROWS_AT_ONCE))
        by_state, by_weight = (slopes @ weight).to(hidden.dtype), (slopes.T @ states).to(layer.weight.dtype)
    hidden.backward(by_state)
    layer.weight.grad = by_weight if layer.weight.grad is None else layer.weight.grad.add_(by_weight)
    return loss / len(labels)


def _to_slopes(logits: torch.Tensor, labels: torch.Tensor, count: int) -> float:
    """Replace logits by the gradient of the mean loss over `count` rows, and return the sum of these rows' losses."""
    values = logits.float()
    values -= values.amax(1, keepdim=True)
    chosen = values.gather(1, labels[:, None])
    totals = values.exp_().sum(1, keepdim=True)
    values /= totals * count
    values.scatter_add_(1, labels[:, None], torch.full_like(chosen, -1 / count))
    logits.copy_(values)
    return float((totals.log() - chosen).sum())


def judged(layer: torch.nn.Linear, hidden: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Return which labels have the largest logit of their row, and the sum of the cross-entropies."""
    right, loss = [], 0.0
    for states, words in _parts(hidden, labels, JUDGED_AT_ONCE):
        logits = layer(states)
        right.append(logits.argmax(1) == words)
        loss += float(torch.nn.functional.cross_entropy(logits, words, reduction="sum"))
    return torch.cat(right), loss


def _parts(values: torch.Tensor, labels: torch.Tensor, size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    return zip(values.split(size), labels.split(size), strict=True)
