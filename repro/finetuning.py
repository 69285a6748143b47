"""Fine-tuning on a CPU, and judging by tokens: the same for a T5 and for a language model.

What makes it cheap, by CPU time on a Zen 4 processor with one thread: products in bfloat16 take .45 of the time of
float32; batches of like length in both languages have 4 % padding instead of 23 %; see also `adafactor` and
`output_layer`. Weights, their updates, sums, and the logits that are judged stay in float32.
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
from repro.output_layer import backward, judged
from repro.plans import Ints, Plan, Table, taken
from repro.results import Setting

IGNORED = -100
BATCHES_SORTED = 128  # so many batches' worth of pairs are sorted by length at a time
JUDGED_AT_ONCE = 32
TOKENS_ALIKE = 3  # lengths that count as the same when pairs are sorted by their other side

Batch = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """How a kind of model is given texts.

    count: returns how many tokens each row has, one column per side.
    batch: returns a padded batch with labels.
    states: returns what the output layer is given at every position, and the position's label, or `IGNORED`.
    """

    count: Callable[[Any, Table, Plan], Ints]
    batch: Callable[[Any, Table, Plan], Batch]
    states: Callable[[Any, Batch], tuple[torch.Tensor, torch.Tensor]]


def device() -> str:
    """Return where a model runs."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def precision(plan: Plan) -> Any:
    """Return the context in which products are computed in bfloat16, if the plan says so."""
    return torch.autocast(device(), torch.bfloat16, enabled=plan.bfloat16)


def keep_memory() -> None:
    """Have the C library keep the memory of large arrays for the next ones; else a sixth of the time is page faults."""
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        if hasattr(library, "mallopt"):
            library.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
            library.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD


def train(model: Any, tokenizer: Any, table: Table, kind: Kind, plan: Plan, seed: int, setting: Setting) -> None:
    """Fine-tune on all rows of a table, without weights."""
    optimizer = Adafactor(model.parameters(), plan.rate)
    sizes = kind.count(tokenizer, table, plan)
    dtype = torch.bfloat16 if plan.bfloat16 else torch.float32
    model.train()
    with stage(setting.progress, "fine-tuning", plan.epochs * len(sizes)):
        for epoch in range(plan.epochs):
            rng = np.random.default_rng([seed, 3, epoch])
            torch.manual_seed(int(rng.integers(2**62)))
            for ids in batches_of_like_length(sizes, plan.batch, rng):
                with precision(plan):
                    hidden, labels = kind.states(model, kind.batch(tokenizer, taken(table, ids), plan))
                wanted = labels != IGNORED
                backward(model.lm_head, hidden[wanted], labels[wanted], dtype)
                optimizer.step()
                setting.progress.advance(len(ids))
    model.eval()


@dataclass(frozen=True)
class Judgment:
    """How many tokens of every row are predicted rightly from those before them, of how many, and the sum of losses."""

    right: Ints
    tokens: Ints
    loss: float

    def means(self) -> dict[str, float]:
        """Return the accuracy and the loss per token."""
        return {"accuracy": float(self.right.sum() / self.tokens.sum()), "loss": self.loss / int(self.tokens.sum())}


@torch.no_grad()
def judge_tokens(model: Any, tokenizer: Any, table: Table, kind: Kind, plan: Plan) -> Judgment:
    """Predict every token of a table from those before it."""
    order = short_to_long(kind.count(tokenizer, table, plan))
    right, tokens = np.zeros(len(order), np.int64), np.zeros(len(order), np.int64)
    loss = 0.0
    for start in range(0, len(order), JUDGED_AT_ONCE):
        ids = order[start : start + JUDGED_AT_ONCE]
        with precision(plan):
            hidden, labels = kind.states(model, kind.batch(tokenizer, taken(table, ids), plan))
        wanted = labels != IGNORED
        # The output layer's product is not in bfloat16, in which logits would tie.
        hits, losses = judged(model.lm_head, hidden[wanted].float(), labels[wanted])
        tokens[ids] = wanted.sum(1).numpy(force=True)
        right[ids] = [int(some.sum()) for some in hits.split(tokens[ids].tolist())]
        loss += losses
    return Judgment(right, tokens, loss)


# ------------------------------------------------------------------ batches


def batches_of_like_length(sizes: Ints, batch: int, rng: np.random.Generator) -> list[Ints]:
    """Return every row once, in batches in a random order; random groups of rows are sorted, to pad little.

    Example:
        >>> made = batches_of_like_length(np.array([[50], [10], [10], [50]]), 2, np.random.default_rng(0))
        >>> sorted(sorted(ids.tolist()) for ids in made)
        [[0, 3], [1, 2]]
    """
    order = rng.permutation(len(sizes))
    batches: list[Ints] = []
    for start in range(0, len(order), batch * BATCHES_SORTED):
        group = order[start : start + batch * BATCHES_SORTED]
        group = group[short_to_long(sizes[group])]
        batches += [group[place : place + batch] for place in range(0, len(group), batch)]
    return [batches[place] for place in rng.permutation(len(batches))]


def short_to_long(sizes: Ints) -> Ints:
    """Return rows in the order of their last side, and those that are alike in it up and down by their first.

    Example:
        >>> short_to_long(np.array([[9, 3], [8, 0], [5, 4], [7, 1]])).tolist()
        [3, 1, 2, 0]
    """
    first, last = sizes[:, 0], sizes[:, -1] // TOKENS_ALIKE
    return np.lexsort((np.where(last % 2, -first, first), last))


def by_length(table: Table, sizes: Ints) -> Table:
    """Return the rows from short to long, so that those of like length share a batch."""
    return taken(table, short_to_long(sizes))


def chunks(table: Table, size: int) -> Iterator[Table]:
    """Yield a table's rows, so many at a time."""
    for start in range(0, len(table["en"]), size):
        yield {name: texts[start : start + size] for name, texts in table.items()}
