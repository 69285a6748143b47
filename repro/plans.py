"""The sizes of a translation study: the paper's, that of two cores, and a quick one.

The paper fine-tunes T5-Small (batches of 128, a constant rate of 0.001, dropout 0.1) on 45,000 of 4,592,289
English–German pairs. `PAPER` is that, for a machine with a GPU and a network. `SMALL` is the same study at the size of
two cores: 200,000 Europarl pairs, a small T5 that is first trained on a random tenth of them, 2,000 pairs selected
from the rest. `QUICK` is the path of either with tiny models.

The optimizer is Adafactor with steps relative to a parameter's size, T5's own; the paper names none. The small model's
first training, which the paper has no counterpart of, is by Adam with small batches: of the ways that were tried it
came farthest in a minute. It is without dropout, and so is its fine-tuning: with the paper's 0.1, a random 2,000 pairs
made the loss of held-out pairs worse (4.240 to 4.254 in an epoch; 4.226 without).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Table = dict[str, list[str]]


@dataclass(frozen=True)
class Plan:
    """The sizes of a study."""

    name: str
    budget: int
    centers: int
    encoders: dict[str, str]
    model: str | None = None  # a folder or hub name; None: one is made here, and trained on a tenth of the pairs
    prefix: str = ""
    holder: float = 0.1
    batch: int = 128
    rate: float = 1e-3
    dropout: float = 0.1
    epochs: int = 5
    tokens: int = 128
    pairs: int | None = None
    held: int = 3_000
    translated: int | None = None  # how many held-out pairs count for BLEU; None: all
    seeds: int = 5
    shape: dict[str, int] = field(default_factory=dict)  # of the model that is made here
    words: int = 4_000
    base_epochs: int = 6
    base_batch: int = 32
    base_rate: float = 5e-3


PAPER = Plan(
    name="paper",
    budget=45_000,
    centers=4_500,
    encoders={"BERT": "google-bert/bert-base-uncased", "Sentence-T5": "sentence-transformers/sentence-t5-base"},
    model="google-t5/t5-small",
    prefix="translate English to German: ",
)
SMALL = Plan(
    name="small",
    budget=2_000,
    centers=200,
    encoders={"MiniLM": "minilm", "static": "static"},
    dropout=0.0,
    epochs=2,
    tokens=40,
    held=1_000,
    translated=300,
    shape={"d_model": 128, "d_kv": 32, "d_ff": 512, "num_layers": 2, "num_heads": 4},
)
QUICK = replace(
    SMALL,
    name="quick",
    budget=40,
    centers=4,
    encoders={"static": "static"},
    batch=16,
    epochs=1,
    tokens=16,
    pairs=600,
    held=24,
    translated=8,
    seeds=1,
    shape={"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2},
    words=300,
    base_epochs=1,
)


def taken(table: Table, ids: Ints) -> Table:
    """Return some pairs of a table."""
    return {name: [texts[i] for i in ids] for name, texts in table.items()}
