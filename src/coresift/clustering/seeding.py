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
    return seed_several(sample, k, z, 1, rng, workers, progress, weights)[0]


def seed_several(
    sample: Singles,
    k: int,
    z: float,
    tries: int,
    rng: np.random.Generator,
    workers: Workers,
    progress: Progress,
    weights: Floats | None = None,
) -> list[Ints]:
    """Return several seedings, each as `seed_centers` makes it; all of them advance together, which saves calls."""
    rows, norms, lines = open_rows(sample), np.einsum("ij,ij->i", sample, sample), np.arange(tries)
    candidates_per_step = 2 + int(np.log(k))
    chosen, draws = np.empty((tries, k), np.int64), np.empty((k - 1, tries, candidates_per_step))
    for attempt in range(tries):
        first = rng.integers(len(sample)) if weights is None else rng.choice(len(sample), p=parts(weights))
        chosen[attempt, 0] = first
        draws[:, attempt] = rng.random((k - 1, candidates_per_step))
    nothing = np.full((1, 1, len(sample)), np.inf, np.float32)
    # One at a time: a product with a single column is rounded differently.
    closest = np.concatenate(
        [_update(sample, rows, norms, workers, nothing, sample[[first]]) for first in chosen[:, 0]]
    )
    lengths = np.ones(tries, np.int64)
    with stage(progress, "seeding centers", k):
        for step, shares in enumerate(draws, start=1):
            cumulative = np.cumsum(_weighted(closest[:, 0], z, weights), axis=1)
            left = cumulative[:, -1] > 0  # otherwise every row equals a center
            if not left.any():
                break
            lengths += left
            places = zip(cumulative, shares, strict=True)
            found = np.array([np.searchsorted(line, share * line[-1], side="right") for line, share in places])
            candidates = np.minimum(found, len(sample) - 1)
            options = _update(sample, rows, norms, workers, closest, sample[candidates.ravel()])
            best = _weighted(options, z, weights).sum(axis=2).argmin(axis=1)
            chosen[:, step], closest = candidates[lines, best], options[lines, best][:, None]
            progress.advance(1)
    return [line[:length] for line, length in zip(chosen, lengths, strict=True)]


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
    """Return the squared distances to the nearest center if a candidate is added: for each seeding, whose distances so
    far are in `closest`, one line for each of its candidates."""

    def squared(start: int, block: Singles) -> Singles:
        here = slice(start, start + len(block))
        distances = squared_distances(block, norms[here], centers)
        return np.minimum(distances.reshape(len(closest), -1, len(block)), closest[:, :, here])

    if rows.n <= rows.block_rows:
        return squared(0, sample)
    return np.concatenate(list(workers.map(rows, squared)), axis=2)
