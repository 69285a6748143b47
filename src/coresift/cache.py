"""One cache of clusterings: a file is named by all that its clustering depends on, so a stale one is never reused."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from coresift.rows import Rows
from coresift.storage import load, save
from coresift.types import Clustering, digest
from coresift.version import __version__


def cached(
    folder: str | os.PathLike[str], rows: Rows, k: int, options: Mapping[str, Any], make: Callable[[], Clustering]
) -> Clustering:
    """Return the clustering that the folder has, or make it and keep it there."""
    path = cache_path(folder, rows, k, options)
    if path.is_file():
        kept = load(path)
        assert isinstance(kept, Clustering)
        return kept
    made = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    save(made, path)
    return made


def cache_path(folder: str | os.PathLike[str], rows: Rows, k: int, options: Mapping[str, Any]) -> Path:
    """Return where a clustering of these rows with these options is kept; the version is part of the key."""
    known = {name: digest(value) if isinstance(value, np.ndarray) else value for name, value in options.items()}
    key = repr((rows.fingerprint(), k, sorted(known.items()), __version__))
    return Path(folder) / f"clustering-{digest(np.frombuffer(key.encode(), np.uint8))}.npz"
