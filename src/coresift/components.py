"""Leading components: where every row lies along the directions in which rows differ most, in few numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from coresift.checks import whole
from coresift.engine import Engine, Local
from coresift.progress import Progress, choose
from coresift.rows import open_rows
from coresift.streams import Stream, generator
from coresift.types import Floats, Singles

# The directions are those of a random part of the rows: more rows would change them little.
PART = 10_000


def leading_components(
    rows: Any,
    count: int = 32,
    *,
    seed: int = 0,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
) -> Floats:
    """Return the first principal components of every row, read block by block.

    Args:
        rows: A matrix of embeddings, or anything that `open_rows` opens.
        count: How many components, at most as many as rows have columns.
        seed: Which 10,000 rows the directions are taken from.
        engine: What reads the blocks.
        progress: Whether a bar shows.

    Returns:
        One line per row, one column per component, the strongest first.

    Example:
        >>> leading_components(np.array([[0.0, 1.0], [4.0, 1.0], [8.0, 1.0]]), count=1).ravel().tolist()
        [-4.0, 0.0, 4.0]
    """
    opened, whole_count = open_rows(rows), whole("count", count)
    some = generator(seed, Stream.COMPONENTS).permutation(opened.n)[:PART]
    sample = opened.take(np.sort(some)).astype(np.float64)
    middle = sample.mean(axis=0)
    _, directions = np.linalg.eigh((sample - middle).T @ (sample - middle))
    leading = directions[:, ::-1][:, :whole_count]
    # Eigenvectors have no sign of their own: the largest entry is made positive, whatever the library returned.
    largest = leading[np.abs(leading).argmax(axis=0), np.arange(leading.shape[1])]
    leading = leading * np.where(largest < 0, -1.0, 1.0)

    def project(start: int, block: Singles) -> Floats:
        projected: Floats = (block - middle) @ leading
        return projected

    with (engine or Local()).open(choose(progress)) as workers:
        return np.concatenate(list(workers.map(opened, project, name="finding components")))
