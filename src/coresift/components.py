"""Leading components: where every row lies along the directions in which rows differ most, in few numbers."""

from __future__ import annotations

import numpy as np

from coresift.checks import whole
from coresift.engine import SINGLE_THREADED, Engine, Local
from coresift.progress import Progress, choose
from coresift.rows import RowsLike, open_rows, refuse_bad_row
from coresift.streams import Stream, generator
from coresift.types import Singles

# The directions are those of a random part of the rows: more rows would change them little.
PART = 10_000
# Rows are float32: a direction with less than this part of the strongest one's variance is rounding noise.
ROUNDING = 1e-10


def leading_components(
    rows: RowsLike,
    count: int = 16,
    *,
    seed: int = 0,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
) -> Singles:
    """Return the first principal components of every row, each with mean 0 and deviation 1, read block by block.

    Args:
        rows: A matrix of embeddings, or anything that `open_rows` opens.
        count: How many components, at most as many as rows have columns.
        seed: Which 10,000 rows the directions are taken from.
        engine: What reads the blocks.
        progress: Whether a bar shows.

    Returns:
        One line per row, one column per component, the strongest first. Mean and deviation are those of the rows that
        the directions were taken from. Directions in which these do not differ are left out.

    Examples:
        >>> leading_components(np.array([[0.0, 1.0], [4.0, 1.0], [8.0, 1.0]])).shape
        (3, 1)
    """
    opened, whole_count = open_rows(rows), whole("count", count)
    some = generator(seed, Stream.COMPONENTS).permutation(opened.n)[:PART]
    sample = opened.take(np.sort(some)).astype(np.float64)
    if not np.isfinite(sample).all():
        refuse_bad_row(opened)
    middle = sample.mean(axis=0)
    with SINGLE_THREADED:  # threads that wait for each other take longer than these few products
        strengths, directions = np.linalg.eigh((sample - middle).T @ (sample - middle) / len(sample))
    varies = np.flatnonzero(strengths > ROUNDING * max(float(strengths[-1]), 1e-300))[::-1][:whole_count]
    leading = directions[:, varies]
    # Eigenvectors have no sign of their own: the largest entry is made positive, whatever the library returned.
    largest = leading[np.abs(leading).argmax(axis=0), np.arange(varies.size)]
    leading = leading * np.where(largest < 0, -1.0, 1.0) / np.sqrt(strengths[varies])
    scaled, offset = leading.astype(np.float32), (middle @ leading).astype(np.float32)

    def project(start: int, block: Singles) -> Singles:
        projected: Singles = block @ scaled - offset
        return projected

    with (engine or Local()).open(choose(progress)) as workers:
        components = np.concatenate(list(workers.map(opened, project, name="finding components")))
    if not np.isfinite(components).all():
        refuse_bad_row(opened)
    return components
