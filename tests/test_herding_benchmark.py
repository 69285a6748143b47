"""The fast choices of MaxHerding and ProbCover, against ones that recompute everything for each row."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.herding import max_herding, prob_cover, unit


def mixture(seed: int, n: int = 150, d: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (4 * rng.normal(size=(6, d))[rng.integers(0, 6, n)] + rng.normal(size=(n, d))).astype(np.float32)


@pytest.mark.parametrize("gamma", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("seed", range(5))
def test_max_herding_chooses_the_row_of_largest_gain_each_time(seed: int, gamma: float) -> None:
    x = mixture(seed)
    points = unit(x).astype(np.float64)
    kernel = np.exp(-gamma * np.square(points[:, None] - points).sum(axis=2))
    best, chosen = np.zeros(len(x)), []
    for row in max_herding(x, 40, gamma):
        gains = np.maximum(kernel - best, 0).sum(axis=1)
        gains[chosen] = -1
        assert gains[row] >= gains.max() - 1e-4 * max(gains.max(), gamma)
        best = np.maximum(best, kernel[row])
        chosen.append(int(row))
    assert len(set(chosen)) == 40


@pytest.mark.parametrize("seed", range(5))
def test_prob_cover_chooses_a_row_with_the_most_uncovered_neighbors_each_time(seed: int) -> None:
    x = mixture(seed)
    points = unit(x).astype(np.float64)
    near = np.sqrt(np.square(points[:, None] - points).sum(axis=2)) <= 0.4
    chosen: list[int] = []
    for row in prob_cover(x, 30, seed, radii=[0.4]):
        covered = near[chosen].any(axis=0)
        fresh = (near & ~covered).sum(axis=1)
        fresh[chosen] = -1
        assert fresh[row] == fresh.max()
        chosen.append(int(row))


def test_prob_cover_takes_the_largest_radius_with_pure_balls() -> None:
    # Two clusters at a right angle are √2 apart: balls of radius 1.2 are pure, those of radius 1.6 hold everything.
    rng = np.random.default_rng(0)
    x = np.repeat(np.eye(2), 60, axis=0).astype(np.float32) + 0.01 * rng.normal(size=(120, 2)).astype(np.float32)
    first, second, *_ = prob_cover(x, 2, 0)
    assert (first < 60) != (second < 60)
    assert prob_cover(x, 3, 0, radii=[1.6]).size == 3
