"""k rows as centers for all rows: seeding and refinement on a sample, then passes over everything."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import CoresiftWarning, positive, whole
from coresift.clustering.nearest import Codebook, distances_to, nearest
from coresift.clustering.refine import cost_of, refine, refuse_infinite, snap
from coresift.clustering.seeding import seed_centers
from coresift.engine import Engine, Local, Workers
from coresift.progress import Progress, choose
from coresift.rows import Rows, open_rows, refuse_bad_row
from coresift.types import Clustering, Ints, Singles

SAMPLE_A_CENTER = 50
SMALLEST_SAMPLE = 16_384
SAMPLE_STEPS = 15
MOST_ATTEMPTS = 16


def cluster(
    rows: Any,
    k: int,
    *,
    z: float = 2.0,
    seed: int = 0,
    normalize: bool = False,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
) -> Clustering:
    """Cluster rows around k of them, for the cost Σ ‖e − c(e)‖^z (z = 2: k-means, z = 1: k-median).

    `normalize` gives every row length 1 first, for embeddings that are compared by cosine. Fewer centers come
    out, with a warning, when there are fewer distinct rows.

    >>> import numpy as np
    >>> found = cluster(np.array([[0.0], [0.1], [5.0], [5.1], [5.2]]), k=2, seed=1)
    >>> found.k, sorted(found.sizes.tolist())
    (2, [2, 3])
    """
    rows = open_rows(rows)
    k, z, seed = whole("k", k), positive("z", z), whole("seed", seed, least=0)
    view = rows.normalized() if normalize else rows
    progress = choose(progress)
    with (engine or Local()).open(progress) as workers:
        free = _free_centers(view, min(k, view.n), z, np.random.default_rng([seed, 1]), workers, progress)
        found = _fill_up(view, k, _snapped(view, free, workers), workers)
    if len(found.chosen) < k:
        message = f"Asked for {k} clusters, but only {len(found.chosen)} rows are distinct: that many centers."
        warnings.warn(message, CoresiftWarning, stacklevel=2)
    free_cost, snapped_cost = cost_of(found.free_distances, z), cost_of(found.distances, z)
    if not np.isfinite(free_cost + snapped_cost):
        refuse_infinite(view, z)
    return Clustering(
        centers=found.chosen,
        labels=found.labels,
        distances=found.distances,
        free_centers=found.free,
        z=z,
        free_cost=free_cost,
        snapped_cost=snapped_cost,
        seed=seed,
        normalized=bool(normalize),
        fingerprint=rows.fingerprint(),
    )


def sample_size(n: int, k: int) -> int:
    """Return how many rows the centers are learned from."""
    return min(n, max(SMALLEST_SAMPLE, SAMPLE_A_CENTER * k))


def attempts(rows: int, k: int) -> int:
    """Return how many seedings are tried: many where they cost little, as few rows leave most to luck."""
    return min(MOST_ATTEMPTS, max(1, 2**18 // (rows * k)))


def passes(n: int, k: int) -> int:
    """Return how often all rows are read: once more when the centers come from a sample."""
    return 2 if sample_size(n, k) == n else 3


@dataclass(frozen=True)
class _Found:
    free: Singles
    chosen: Ints
    labels: NDArray[np.int32]
    free_distances: Singles
    distances: Singles


def _free_centers(
    rows: Rows, k: int, z: float, rng: np.random.Generator, workers: Workers, progress: Progress
) -> Singles:
    size = sample_size(rows.n, k)
    whole_data = size == rows.n
    ids = np.arange(rows.n) if whole_data else np.sort(rng.choice(rows.n, size, replace=False))
    sample = rows.take(ids)
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(np.einsum("ij,ij->i", sample, sample)).all():
            refuse_bad_row(rows)
    mean, scale = _standardize(sample)
    tries = (_try(sample, k, z, rng, workers, progress) for _ in range(attempts(size, k)))
    found, _ = min(tries, key=lambda result: result[1])
    centers = (found.astype(np.float64) * scale + mean).astype(np.float32)
    if whole_data:
        return centers
    return refine(rows, centers, z, workers, steps=1)[0]


def _standardize(sample: Singles) -> tuple[Singles, float]:
    """Shift and scale a sample in place, so that neither offset nor unit costs digits; return what undoes it."""
    mean = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
    sample -= mean
    largest = float(max(sample.max(), -sample.min()))
    scale = 2.0 ** np.frexp(largest)[1]  # a power of two changes no digit
    sample /= np.float32(scale)
    return mean, scale


def _try(
    sample: Singles, k: int, z: float, rng: np.random.Generator, workers: Workers, progress: Progress
) -> tuple[Singles, float]:
    seeds = seed_centers(sample, k, z, rng, workers, progress)
    return refine(open_rows(sample), sample[seeds], z, workers, steps=SAMPLE_STEPS)


def _snapped(rows: Rows, free: Singles, workers: Workers) -> _Found:
    labels, free_distances = _assign(rows, free, workers)
    chosen = snap(labels, free_distances, len(free))
    filled = np.flatnonzero(chosen >= 0)
    twins = _first_equal(rows.take(chosen[filled]))
    distinct = filled[twins == np.arange(len(twins))]
    if len(distinct) < len(filled):  # rounding gave two equal rows to different centers
        return _snapped(rows, free[distinct], workers)
    numbers = np.full(len(free), -1, np.int32)
    numbers[filled] = np.arange(len(filled))
    labels = numbers[labels]
    distances = _measure(rows, chosen[filled], labels, workers)
    return _Found(free[filled], chosen[filled], labels, free_distances, distances)


def _assign(rows: Rows, centers: Singles, workers: Workers) -> tuple[NDArray[np.int32], Singles]:
    codebook = Codebook.of(centers)
    labels, distances = np.empty(rows.n, np.int32), np.empty(rows.n, np.float32)
    start = 0
    for found, away in workers.map(rows, lambda _, block: nearest(block, codebook), name="assigning rows"):
        if not np.isfinite(away).all():
            refuse_bad_row(rows)
        labels[start : start + len(found)] = found
        distances[start : start + len(found)] = away
        start += len(found)
    return labels, distances


def _measure(rows: Rows, chosen: Ints, labels: NDArray[np.int32], workers: Workers) -> Singles:
    centers = rows.take(chosen)

    def away(start: int, block: Singles) -> Singles:
        return distances_to(block, centers, labels[start : start + len(block)])

    return np.concatenate(list(workers.map(rows, away, name="measuring distances")))


def _fill_up(rows: Rows, k: int, found: _Found, workers: Workers) -> _Found:
    """Make up for empty clusters: the rows farthest from their centers become centers, as long as any differs."""
    while len(found.chosen) < k and found.distances.max() > 0:
        known, missing = len(found.chosen), k - len(found.chosen)
        far = np.argsort(-found.distances, kind="stable")[: 2 * missing]
        far = far[found.distances[far] > 0]
        points = rows.take(far)
        twins = _first_equal(np.concatenate([rows.take(found.chosen), points]))[known:]
        added = np.flatnonzero(twins == known + np.arange(len(far)))[:missing]
        if not added.size:
            found = _join(found, far, points, twins.astype(np.int32))
            continue
        labels, distances = _assign(rows, points[added], workers)
        # Rounding may send a new center to its near twin; it belongs to itself.
        labels[far[added]], distances[far[added]] = np.arange(len(added)), 0
        closer = distances < found.distances
        found = _Found(
            free=np.concatenate([found.free, points[added]]),
            chosen=np.concatenate([found.chosen, far[added]]),
            labels=np.where(closer, labels + np.int32(known), found.labels),
            free_distances=np.where(closer, distances, found.free_distances),
            distances=np.where(closer, distances, found.distances),
        )
    return found


def _join(found: _Found, rows: Ints, points: Singles, labels: NDArray[np.int32]) -> _Found:
    """Give rows to the centers that they equal, which rounding had kept from them."""
    joined = replace(
        found,
        labels=found.labels.copy(),
        free_distances=found.free_distances.copy(),
        distances=found.distances.copy(),
    )
    joined.labels[rows], joined.distances[rows] = labels, 0
    joined.free_distances[rows] = distances_to(points, found.free, labels)
    return joined


def _first_equal(points: Singles) -> Ints:
    """Return for each row the position of the first row that equals it."""
    plain = np.ascontiguousarray(points + np.float32(0))  # −0 becomes 0
    _, first, inverse = np.unique(plain.view(f"V{plain[0].nbytes}").ravel(), return_index=True, return_inverse=True)
    return first[inverse]
