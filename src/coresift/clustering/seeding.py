"""Choose the first centers by greedy D^z sampling: each one is the best of a few candidates far from the others."""

from __future__ import annotations

import numpy as np

from coresift.clustering.kernels import COMPILED, compiled
from coresift.clustering.nearest import squared_distances
from coresift.engine import Workers
from coresift.inclusion import parts
from coresift.progress import Progress, stage
from coresift.rows import Rows, open_rows
from coresift.types import Floats, Ints, Singles


def seed_centers(
    sample: Singles,
    k: int,
    z: float,
    rng: np.random.Generator,
    workers: Workers,
    progress: Progress,
    weights: Floats | None = None,
) -> Ints:
    """Return the positions of k distinct rows of the sample, or of fewer if it has fewer distinct rows.

    Each step draws 2 + ⌊ln k⌋ candidates with probability ∝ D(x)^z, the z-th power of the distance to the
    nearest center so far, and keeps the one that lowers Σ D^z the most (greedy k-means++ for z = 2). `weights` say how
    many rows each row of the sample stands for.
    """
    rows, tries = open_rows(sample), 2 + int(np.log(k))
    first = rng.integers(len(sample)) if weights is None else rng.choice(len(sample), p=parts(weights))
    draws = rng.random((k - 1, tries))
    with stage(progress, "seeding centers", k):
        if COMPILED and rows.n <= rows.block_rows and tries <= compiled.MOST_LISTED:
            return compiled.place_seeds(sample, int(first), draws, z, weights)
        return place_by_products(sample, int(first), draws, z, weights, workers, progress)


def place_by_products(
    sample: Singles,
    first: int,
    draws: Floats,
    z: float,
    weights: Floats | None,
    workers: Workers,
    progress: Progress,
) -> Ints:
    """Return the positions of seeds: the first one, and one for each line of `draws`.

    Distances come from products of matrices, block by block, which is faster for a large sample.
    """
    rows, norms, chosen = open_rows(sample), np.einsum("ij,ij->i", sample, sample), [first]
    nothing = np.full(len(sample), np.inf, np.float32)
    closest = _update(sample, rows, norms, workers, nothing, sample[[first]])[0]
    for shares in draws:
        cumulative = np.cumsum(_weighted(closest, z, weights))
        if not cumulative[-1] > 0:  # every row equals a center
            break
        found = np.searchsorted(cumulative, shares * cumulative[-1], side="right")
        candidates = np.minimum(found, len(sample) - 1)
        options = _update(sample, rows, norms, workers, closest, sample[candidates])
        best = _weighted(options, z, weights).sum(axis=1).argmin()
        closest = options[best]
        chosen.append(int(candidates[best]))
        progress.advance(1)
    return np.array(chosen)


def _weighted(squared: Singles, z: float, weights: Floats | None) -> Floats:
    values = powers(squared, z)
    return values if weights is None else values * weights


def powers(squared: Singles, z: float) -> Floats:
    """Return D^z from D²; overflow gives infinity, which is refused once the cost is known."""
    wide = squared.astype(np.float64)
    if z == 2:
        return wide
    with np.errstate(over="ignore"):
        return np.asarray(wide ** (z / 2))


def _update(
    sample: Singles, rows: Rows, norms: Singles, workers: Workers, closest: Singles, centers: Singles
) -> Singles:
    """Return one line per candidate: the squared distances to the nearest center if it is added."""

    def squared(start: int, block: Singles) -> Singles:
        here = slice(start, start + len(block))
        return np.minimum(squared_distances(block, norms[here], centers), closest[here])

    if rows.n <= rows.block_rows:
        return squared(0, sample)
    return np.concatenate(list(workers.map(rows, squared)), axis=1)
