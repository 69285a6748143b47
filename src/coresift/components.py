"""Leading principal components of every row."""

from __future__ import annotations

import numpy as np

from coresift.checks import whole
from coresift.columns import fill
from coresift.engine import SINGLE_THREADED, Engine, Local
from coresift.progress import Progress, choose
from coresift.rows import RowsLike, open_rows, refuse_bad_row
from coresift.scratch import empty
from coresift.streams import Stream, generator
from coresift.types import Ints, Singles

# The directions are computed from this many random rows; more rows would hardly change them.
SAMPLE = 10_000
# Rows are float32, so a direction with less than this fraction of the largest variance is rounding noise.
ROUNDING = 1e-10


def leading_components(
    rows: RowsLike,
    count: int = 16,
    *,
    seed: int = 0,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
) -> Singles:
    """Return the first principal components of every row, each with mean 0 and standard deviation 1.

    Args:
        rows: A matrix of embeddings, or anything that `open_rows` opens.
        count: How many components, at most as many as rows have columns.
        seed: Draws the 10,000 rows that the directions are computed from.
        engine: What runs the row blocks.
        progress: Whether to show a progress bar.

    Returns:
        One line per row, one column per component, largest variance first. Mean and standard deviation are those of the
        sampled rows. Directions without variance are left out.

    Examples:
        >>> leading_components(np.array([[0.0, 1.0], [4.0, 1.0], [8.0, 1.0]])).shape
        (3, 1)
    """
    opened, whole_count = open_rows(rows), whole("count", count)
    sample = opened.take(_sampled(opened.n, seed)).astype(np.float64)
    if not np.isfinite(sample).all():
        refuse_bad_row(opened)
    mean = sample.mean(axis=0)
    sample -= mean
    with SINGLE_THREADED:  # for products this small, threads cost more than they save
        # The product of an array with itself is computed in another way, with other last digits.
        strengths, directions = np.linalg.eigh(sample.T @ sample.copy() / len(sample))
    varies = np.flatnonzero(strengths > ROUNDING * max(float(strengths[-1]), 1e-300))[::-1][:whole_count]
    leading = directions[:, varies]
    # Eigenvectors are unique only up to sign, so make the largest entry positive to get the same bytes everywhere.
    largest = leading[np.abs(leading).argmax(axis=0), np.arange(varies.size)]
    leading = leading * np.where(largest < 0, -1.0, 1.0) / np.sqrt(strengths[varies])
    scaled, offset = leading.astype(np.float32), (mean @ leading).astype(np.float32)

    def project(start: int, block: Singles) -> Singles:
        projected: Singles = block @ scaled - offset
        return projected

    with (engine or Local()).open(choose(progress)) as workers:
        components, done = empty((opened.n, varies.size), np.float32), 0
        for block in workers.map(opened, project, name="finding components"):
            if not np.isfinite(block).all():
                refuse_bad_row(opened)
            components[done : done + len(block)] = block
            done += len(block)
    return components


def _sampled(n: int, seed: int) -> Ints:
    """Return the first rows of a permutation of all, in row order."""
    rows = fill(empty(n, np.int64), lambda rows: np.arange(rows.start, rows.stop))
    generator(seed, Stream.COMPONENTS).shuffle(rows)
    return np.sort(rows[:SAMPLE])
