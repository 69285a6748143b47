"""Choose the first centers by greedy D^z sampling: each one is the best of a few candidates far from the others."""

from __future__ import annotations

import numpy as np

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
    rows, norms = open_rows(sample), np.einsum("ij,ij->i", sample, sample)
    candidates_per_step = 2 + int(np.log(k))
    chosen = [int(rng.integers(len(sample)) if weights is None else rng.choice(len(sample), p=parts(weights)))]
    nothing = np.full(len(sample), np.inf, np.float32)
    closest = _update(sample, rows, norms, workers, nothing, sample[chosen])[0]
    with stage(progress, "seeding centers", k):
        while len(chosen) < k:
            cumulative = np.cumsum(_weighted(closest, z, weights))
            if cumulative[-1] <= 0:
                break
            spots = rng.random(candidates_per_step) * cumulative[-1]
            candidates = np.minimum(np.searchsorted(cumulative, spots, side="right"), len(sample) - 1)
            options = _update(sample, rows, norms, workers, closest, sample[candidates])
            best = int(_weighted(options, z, weights).sum(axis=1).argmin())
            chosen.append(int(candidates[best]))
            closest = options[best]
            progress.advance(1)
    return np.array(chosen, np.int64)


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
    """Return the squared distances to the nearest center if a candidate is added, one line per candidate."""

    def squared(start: int, block: Singles) -> Singles:
        here = slice(start, start + len(block))
        return np.minimum(squared_distances(block, norms[here], centers), closest[here])

    if rows.n <= rows.block_rows:
        return squared(0, sample)
    return np.concatenate(list(workers.map(rows, squared)), axis=1)
