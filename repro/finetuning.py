"""Fine-tuning on a CPU and evaluation by tokens, for a T5 and for a language model.

It is fast for these reasons (CPU time of one thread on a Zen 4 processor): matrix products in bfloat16 take 0.45 of the
time of float32, and batches of similar length in both languages have 4 % padding instead of 23 %; see also `adafactor`
and `output_layer`. Weights, their updates, sums, and the logits for evaluation stay in float32.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from coresift.progress import stage
from repro.adafactor import Adafactor
from repro.output_layer import backward, correct_and_loss
from repro.plans import Ints, Plan, Table, taken
from repro.results import Setting

IGNORED = -100
BATCHES_SORTED = 128  # the number of batches whose pairs are sorted by length together
EVALUATED_AT_ONCE = 32
SIMILAR_TOKENS = 3  # lengths within this many tokens count as equal, and are sorted by the other side

Batch = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """How a kind of model gets its texts.

    count: returns the number of tokens of each row, one column per side.
    batch: returns a padded batch with labels.
    states: returns the input of the output layer at every position, and the position's label, or `IGNORED`.
    """

    count: Callable[[Any, Table, Plan], Ints]
    batch: Callable[[Any, Table, Plan], Batch]
    states: Callable[[Any, Batch], tuple[torch.Tensor, torch.Tensor]]


def device() -> str:
    """Return the device that models run on."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def precision(plan: Plan) -> Any:
    """Return a context that computes matrix products in the type of `products`."""
    return torch.autocast(device(), torch.bfloat16, enabled=products(plan) == torch.bfloat16)


def products(plan: Plan) -> torch.dtype:
    """Return the type of matrix products: bfloat16 if the plan allows it and the device has instructions for it.

    A processor without them emulates bfloat16, which takes three times as long as float32.
    """
    return torch.bfloat16 if plan.bfloat16 and has_bfloat16() else torch.float32


def has_bfloat16() -> bool:
    """Return whether the device has instructions for products in bfloat16."""
    if device() == "cuda":
        return torch.cuda.is_bf16_supported()
    known = getattr(torch.cpu, "get_capabilities", dict)()
    return any(known.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def reuse_memory() -> None:
    """Make the C library reuse the memory of large arrays; otherwise a sixth of the time goes into page faults."""
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        if hasattr(library, "mallopt"):
            library.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
            library.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD


def train(model: Any, tokenizer: Any, table: Table, kind: Kind, plan: Plan, seed: int, setting: Setting) -> None:
    """Fine-tune on all rows of a table, without weights."""
    optimizer = Adafactor(model.parameters(), plan.rate)
    sizes = kind.count(tokenizer, table, plan)
    model.train()
    with stage(setting.progress, "fine-tuning", plan.epochs * len(sizes)):
        for epoch in range(plan.epochs):
            rng = np.random.default_rng([seed, 3, epoch])
            torch.manual_seed(int(rng.integers(2**62)))
            for ids in batches_of_similar_length(sizes, plan.batch, rng):
                with precision(plan):
                    hidden, labels = kind.states(model, kind.batch(tokenizer, taken(table, ids), plan))
                counts = labels != IGNORED
                backward(model.lm_head, hidden[counts], labels[counts], products(plan))
                optimizer.step()
                setting.progress.advance(len(ids))
    model.eval()


@dataclass(frozen=True)
class TokenResults:
    """The number of correctly predicted tokens of every row, its number of tokens, and the total loss."""

    right: Ints
    tokens: Ints
    loss: float

    def means(self) -> dict[str, float]:
        """Return the accuracy and the loss per token."""
        return {"accuracy": float(self.right.sum() / self.tokens.sum()), "loss": self.loss / int(self.tokens.sum())}


@torch.no_grad()
def evaluate_tokens(model: Any, tokenizer: Any, table: Table, kind: Kind, plan: Plan) -> TokenResults:
    """Predict every token of a table from the tokens before it."""
    order = short_to_long(kind.count(tokenizer, table, plan))
    right, tokens = np.zeros(len(order), np.int64), np.zeros(len(order), np.int64)
    loss = 0.0
    for start in range(0, len(order), EVALUATED_AT_ONCE):
        ids = order[start : start + EVALUATED_AT_ONCE]
        with precision(plan):
            hidden, labels = kind.states(model, kind.batch(tokenizer, taken(table, ids), plan))
        counts = labels != IGNORED
        # The output layer does not use bfloat16, because logits would tie.
        hits, losses = correct_and_loss(model.lm_head, hidden[counts].float(), labels[counts])
        tokens[ids] = counts.sum(1).numpy(force=True)
        right[ids] = [int(row.sum()) for row in hits.split(tokens[ids].tolist())]
        loss += losses
    return TokenResults(right, tokens, loss)


# ------------------------------------------------------------------ batches


def batches_of_similar_length(sizes: Ints, batch: int, rng: np.random.Generator) -> list[Ints]:
    """Return every row once, in batches in random order; random groups of rows are sorted by length to reduce padding.

    Example:
        >>> batches = batches_of_similar_length(np.array([[50], [10], [10], [50]]), 2, np.random.default_rng(0))
        >>> sorted(sorted(ids.tolist()) for ids in batches)
        [[0, 3], [1, 2]]
    """
    order = rng.permutation(len(sizes))
    batches: list[Ints] = []
    for start in range(0, len(order), batch * BATCHES_SORTED):
        group = order[start : start + batch * BATCHES_SORTED]
        group = group[short_to_long(sizes[group])]
        batches += [group[first : first + batch] for first in range(0, len(group), batch)]
    return [batches[number] for number in rng.permutation(len(batches))]


def short_to_long(sizes: Ints) -> Ints:
    """Return rows sorted by the length of their last side; rows of similar length are sorted by the first side.

    The order of the first side alternates between ascending and descending.

    Example:
        >>> short_to_long(np.array([[9, 3], [8, 0], [5, 4], [7, 1]])).tolist()
        [3, 1, 2, 0]
    """
    first, last = sizes[:, 0], sizes[:, -1] // SIMILAR_TOKENS
    return np.lexsort((np.where(last % 2, -first, first), last))


def by_length(table: Table, sizes: Ints) -> Table:
    """Return the rows from short to long, so that rows of similar length share a batch."""
    return taken(table, short_to_long(sizes))


def chunks(table: Table, size: int) -> Iterator[Table]:
    """Yield a table's rows, `size` at a time."""
    for start in range(0, len(table["en"]), size):
        yield {name: texts[start : start + size] for name, texts in table.items()}
