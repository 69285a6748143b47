"""Coverage: rows to cover, slow and obvious versions of what `coresift.facility` does, and a way to run it."""

import numpy as np

from coresift.engine import Local
from coresift.facility import cover_rows
from coresift.progress import Progress
from coresift.rows import open_rows


def kernel_of(points, bandwidth):
    """All n² values, from differences in double precision."""
    gaps = points[:, None, :].astype(float) - points[None].astype(float)
    return np.exp(-(gaps**2).sum(axis=2) / (2 * bandwidth**2))


def sum_of(kernel, importance, chosen):
    """Σ u·max over the chosen rows of κ."""
    return float(importance @ kernel[:, list(chosen)].max(axis=1)) if len(chosen) else 0.0


def slow_greedy(kernel, importance, count, given=(), free=None):
    """Try every candidate at every choice."""
    free = set(range(len(kernel))) - set(given) if free is None else set(np.flatnonzero(free)) - set(given)
    chosen = list(given)
    for _ in range(count):
        sums = {one: sum_of(kernel, importance, [*chosen, one]) for one in sorted(free)}
        best = max(sums, key=sums.get)
        chosen.append(best)
        free.remove(best)
    return np.array(chosen[len(given) :])


def run(points, count, *, seed=0, threads=2, **options):
    with Local(threads=threads).open(Progress()) as workers:
        rng = np.random.default_rng(seed)
        return cover_rows(open_rows(points), count, workers, rng, **options)


def blobs(n, d=6, k=20, seed=0):
    rng = np.random.default_rng(seed)
    middles = 4 * rng.normal(size=(k, d))
    return (middles[rng.integers(k, size=n)] + rng.normal(size=(n, d))).astype(np.float32)


def slow_weakest(values, importance, covered, chosen, count):
    """Drop the chosen row that adds the least of all if no row loses the next best because of it, and so on."""
    two = np.argsort(-values[:, chosen], axis=1)[:, :2]
    reached = np.maximum(values[:, chosen].max(axis=1), covered)
    losses = [
        importance @ (reached - np.maximum(np.delete(values[:, chosen], i, 1).max(1), covered))
        for i in range(len(chosen))
    ]
    dropped = []
    for place in np.argsort(losses):
        both = [*dropped, place]
        lost = np.isin(two, both).all(axis=1) & (importance > 0) & (reached > covered)
        if len(dropped) < count and not lost.any():
            dropped = both
    last = [place for place in range(len(chosen))[::-1] if place not in dropped]
    return np.sort([*dropped, *last[: count - len(dropped)]]), np.array(losses)
