"""The data that ships with the package: Banking77 questions with embeddings and a classifier's losses."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files

import numpy as np
from numpy.typing import NDArray

from coresift.tables import open_table
from coresift.types import Floats


@dataclass(frozen=True)
class DemoData:
    """10,003 customer questions: 64 numbers, a text, an intent and a loss each."""

    embeddings: NDArray[np.float16]
    texts: NDArray[np.str_]
    intents: NDArray[np.str_]
    losses: Floats


def load_demo() -> DemoData:
    """Read the demo data (CC-BY-4.0; `coresift/data/README.md` has source and attribution).

    >>> load_demo().embeddings.shape
    (10003, 64)
    """
    folder = files("coresift") / "data"
    with as_file(folder / "banking77.parquet") as path:
        table = open_table(path)
        texts, intents, losses = (table.whole(name).to_pylist() for name in ("text", "label", "loss"))
    with as_file(folder / "banking77_embeddings.npy") as path:
        embeddings = np.load(path, allow_pickle=False)
    return DemoData(
        embeddings=embeddings,
        texts=np.array(texts),
        intents=np.array(intents),
        losses=np.array(losses, np.float64),
    )
