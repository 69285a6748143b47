"""A plain k-median: D¹ seeding on all rows, then assignments and Weiszfeld's iteration for each cluster."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]


def weiszfeld(rows: Matrix, k: int, rounds: int = 20, steps: int = 10) -> Matrix:
    """Return the centers after `rounds` rounds with `steps` Weiszfeld steps per cluster."""
    centers = seed(rows, k, np.random.default_rng(0))
    for _ in range(rounds):
        labels = squared(rows, centers).argmin(axis=1)
        for cluster in range(k):
            members = rows[labels == cluster]
            if len(members):
                centers[cluster] = median(members, steps)
    return centers


def seed(rows: Matrix, k: int, rng: np.random.Generator) -> Matrix:
    """Return seeds by greedy D¹ sampling: each is the best of 2 + ln k candidates."""
    chosen = [int(rng.integers(len(rows)))]
    closest = np.sqrt(squared(rows, rows[chosen])[:, 0])
    while len(chosen) < k:
        candidates = rng.choice(len(rows), 2 + int(np.log(k)), p=closest / closest.sum())
        options = np.minimum(np.sqrt(squared(rows, rows[candidates])), closest[:, None])
        best = options.sum(axis=0).argmin()
        chosen.append(int(candidates[best]))
        closest = options[:, best]
    return rows[chosen].copy()


def median(members: Matrix, steps: int) -> Matrix:
    """Return the point with the smallest sum of distances, by Weiszfeld's iteration from the mean."""
    point = members.mean(axis=0)
    for _ in range(steps):
        weights = 1 / np.maximum(np.linalg.norm(members - point, axis=1), 1e-6)
        point = weights @ members / weights.sum()
    return point


def squared(rows: Matrix, centers: Matrix) -> NDArray[np.float64]:
    """Return squared distances of all rows to all centers, in double precision."""
    wide, others = rows.astype(np.float64), centers.astype(np.float64)
    gaps = (wide**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2 * wide @ others.T
    return np.maximum(gaps, 0)
