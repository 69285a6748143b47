"""A cache of clusterings. A file's name is a digest of everything it depends on, so stale files are never reused."""

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
    """Return the clustering from the cache folder, or compute it and store it there."""
    path = cache_path(folder, rows, k, options)
    if path.is_file():
        loaded = load(path)
        assert isinstance(loaded, Clustering)
        return loaded
    clustering = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    save(clustering, path)
    return clustering


def cache_path(folder: str | os.PathLike[str], rows: Rows, k: int, options: Mapping[str, Any]) -> Path:
    """Return the path of the clustering of these rows with these options; coresift's version is part of the key."""
    parts = {name: digest(value) if isinstance(value, np.ndarray) else value for name, value in options.items()}
    key = repr((rows.fingerprint(), k, sorted(parts.items()), __version__))
    return Path(folder) / f"clustering-{digest(np.frombuffer(key.encode(), np.uint8))}.npz"
