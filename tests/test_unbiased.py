"""The promise: the expected weight of every row is 1, under every pilot, score and design."""

import warnings

import numpy as np
import pytest
from expectations import expected_weights, tiny_clustering
from parts import DESIGNS, combinations, pairwise, show

import coresift as cs
from coresift.testing import TINY

FRAMES = {"plain": {}, "given": {"given": [4]}, "excluded": {"exclude": [1]}, "both": {"given": [0], "exclude": [6]}}


def enumerated():
    """Every combination in every frame; where rows are both given and excluded, pairs of parts are quick."""
    quick = [show(one) for one in pairwise(len(TINY))]
    for one in combinations(len(TINY)):
        for frame in FRAMES:
            mark = () if frame == "both" and show(one) in quick else pytest.mark.slow
            yield pytest.param(one, frame, marks=mark, id=f"{show(one)}-{frame}")


@pytest.mark.parametrize(("combination", "frame"), list(enumerated()))
def test_expected_weight_is_one_by_enumeration(monkeypatch, combination, frame):
    expected = np.ones(len(TINY))
    expected[FRAMES[frame].get("exclude", [])] = 0
    found = expected_weights(monkeypatch, combination, FRAMES[frame], budget=4)
    np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [1, 2, 3, 5, 6, 7])
@pytest.mark.parametrize("design", DESIGNS[1:], ids=lambda design: type(design).__name__)
def test_the_default_is_unbiased_for_every_budget(monkeypatch, budget, design):
    combination = {"pilot": None, "score": None, "design": design}
    np.testing.assert_allclose(expected_weights(monkeypatch, combination, {}, budget), 1, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("combination", list(combinations(len(TINY))), ids=show)
def test_expected_weight_is_one_within_classes(monkeypatch, combination):
    clustering = tiny_clustering(3, strata=tuple("abababb"))
    found = expected_weights(monkeypatch, combination, FRAMES["both"], 4, clustering)
    np.testing.assert_allclose(found, [1, 1, 1, 1, 1, 1, 0], atol=1e-7)


N = 2000
# Enumeration has proved all combinations on seven rows. Simulation shows that nothing else happens on many rows, for
# every pair of parts, and longer for what the documentation names.
NAMED = [
    {"pilot": cs.pilots.Representatives(), "score": cs.scores.Portfolio(), "design": cs.designs.Systematic()},
    {
        "pilot": cs.pilots.Centers(keep=False),
        "score": cs.scores.Sensitivity(holder=0.3),
        "design": cs.designs.Independent(),
    },
    {"pilot": None, "score": cs.scores.Distance(), "design": cs.designs.Pivotal()},
]


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(11)
    middles = rng.normal(size=(12, 6)) * 4
    rows = (middles[rng.integers(12, size=N)] + rng.normal(size=(N, 6))).astype(np.float32)
    clustering = cs.cluster(rows, 20, seed=3)
    losses = np.abs(rows[:, 0]) * rng.exponential(size=N)
    vectors = np.stack([losses, np.ones(N), rows[:, 1] ** 3, rng.normal(size=N), rng.random(N) < 0.01])
    return rows, clustering, losses, vectors.astype(float)


SIMULATED = NAMED + [one for one in pairwise(N) if one not in NAMED]


@pytest.mark.slow
@pytest.mark.parametrize("combination", SIMULATED, ids=show)
def test_totals_are_unbiased_in_simulation(problem, combination):
    """|z| < 4 for five fixed vectors over 100 seeds, or 600; a check raises a false alarm 6 times in 100,000."""
    seeds = 600 if combination in NAMED else 100
    rows, clustering, losses, vectors = problem
    given = {"given": [5, 17], "exclude": [3, int(clustering.centers[0])]} if combination["pilot"] else {}
    truth = np.delete(vectors, given.get("exclude", []), axis=1).sum(axis=1)
    rows = cs.open_rows(rows)
    estimates = np.empty((seeds, len(vectors)))
    for seed in range(seeds):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            picked = cs.select(rows, losses, 60, seed, clusters=clustering, **combination, **given)
        estimates[seed] = vectors[:, picked.ids] @ picked.weights
    errors = estimates.mean(axis=0) - truth
    assert np.all(np.abs(errors) < 4 * estimates.std(axis=0) / np.sqrt(seeds) + 1e-9)


@pytest.mark.slow
def test_paper_mode_is_unbiased_where_it_can_draw_and_warns_where_it_cannot(problem):
    """With Λ = 0 and zero losses at some centers, whole clusters have p = 0; vectors that are 0 there stay unbiased."""
    rows, clustering, losses, vectors = problem
    silent = np.isin(clustering.labels, [2, 5])
    losses = np.where(silent, 0.0, losses)
    vectors = np.where(silent, 0.0, vectors)
    paper = {
        "pilot": cs.pilots.Centers(),
        "score": cs.scores.Sensitivity(holder=0.0),
        "design": cs.designs.Independent(),
    }
    seeds = 150
    estimates = np.empty((seeds, len(vectors)))
    for seed in range(seeds):
        with pytest.warns(cs.CoresiftWarning, match=f"{silent.sum()} of {N} rows have probability 0"):
            picked = cs.select(rows, losses, 60, seed, clusters=clustering, **paper)
        assert not silent[picked.ids].any()
        estimates[seed] = vectors[:, picked.ids] @ picked.weights
    errors = estimates.mean(axis=0) - vectors.sum(axis=1)
    assert np.all(np.abs(errors) < 4 * estimates.std(axis=0) / np.sqrt(seeds) + 1e-9)
