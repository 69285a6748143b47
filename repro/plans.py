"""The sizes of translation studies: the paper's, one for two cores, and a quick one.

The paper fine-tunes T5-Small (77 million parameters, batches of 128, a constant rate of 0.001, dropout 0.1) on 45,000
of 4,592,289 English–German pairs. `PAPER` is that, for a machine with a GPU and a network. `SMALL` is a model of the
same size, flan-t5-small from a package (see `flan_t5.py`), on 2,000 of 100,000 Europarl pairs, seen once in batches of
16. `QUICK` is the path of both with a tiny T5 of random weights, which needs no package.

The optimizer is Adafactor with steps relative to a parameter's size, T5's own; the paper names none. `SMALL` has no
dropout: in a single epoch over 2,000 pairs it only adds noise to the paired differences.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Table = dict[str, list[str]]

FLAN, TINY = "flan-t5-small", "a tiny T5 with random weights"
PREFIX = "translate English to German: "


@dataclass(frozen=True)
class Plan:
    """The sizes of a study."""

    name: str
    model: str  # `FLAN`, `TINY`, or a folder or hub name
    budget: int
    centers: int
    encoders: dict[str, str]  # "minilm", "own" for the model's own encoder, or a folder or hub name
    prefix: str = PREFIX
    holder: float = 0.1
    batch: int = 128
    rate: float = 1e-3
    dropout: float = 0.1
    bfloat16: bool = False  # whether matrix products are computed in bfloat16, if the device can
    epochs: int = 5
    tokens: int = 128
    read: int | None = None  # how many lines of each data set are read; None: all
    pool: int | None = None  # how many pairs to select from; None: all
    held: int = 3_000
    translated: int | None = None  # how many held-out pairs count for BLEU; None: all
    domain: int = 1_000  # how many sentences show what the test domain is like
    seeds: int = 5
    shape: dict[str, int] = field(default_factory=dict)  # of the tiny model


PAPER = Plan(
    name="paper",
    model="google-t5/t5-small",
    budget=45_000,
    centers=4_500,
    encoders={"BERT": "google-bert/bert-base-uncased", "Sentence-T5": "sentence-transformers/sentence-t5-base"},
)
SMALL = Plan(
    name="europarl-44-tokens",
    model=FLAN,
    budget=2_000,
    centers=200,
    encoders={"MiniLM": "minilm", "its own encoder": "own"},
    batch=16,
    dropout=0.0,
    bfloat16=True,
    epochs=1,
    tokens=44,
    pool=100_000,
    held=500,
    translated=300,
)
QUICK = replace(
    SMALL,
    name="quick",
    model=TINY,
    budget=40,
    centers=4,
    encoders={"its own encoder": "own"},
    tokens=16,
    read=600,
    pool=500,
    held=24,
    translated=8,
    domain=20,
    seeds=1,
    shape={"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2},
)


def taken(table: Table, ids: Ints) -> Table:
    """Return the pairs of a table with these numbers."""
    return {name: [texts[i] for i in ids] for name, texts in table.items()}
