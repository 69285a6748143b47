"""The loops of clustering, compiled and in numpy, against what they say they do, one row at a time."""

import shutil
import sys

import numpy as np
import pytest

import coresift as cs
from coresift.clustering import compiled, kernels, plain
from coresift.clustering.plain import Listing
from coresift.clustering.seeding import place_by_products
from coresift.engine import SerialWorkers
from coresift.progress import Progress

BOTH = [plain, *([compiled] if compiled.LIBRARY is not None else [])]
LOOPS = ("add_rows", "add_scores", "follow_lists", "nearest_of", "pick_few", "score_listed")
either = pytest.mark.parametrize("loops", BOTH, ids=lambda module: module.__name__.rsplit(".", 1)[-1])


def test_the_loops_are_compiled_where_there_is_a_compiler():
    assert kernels.COMPILED or shutil.which("cc") is None


def numbers(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


@either
@pytest.mark.parametrize("d", [1, 3, 16, 33, 100])
@pytest.mark.parametrize("count", [1, 4])
def test_the_nearest_of_a_few_centers(loops, d, count):
    rows, centers = numbers(70, d), numbers(9, d, seed=1)
    options = np.random.default_rng(2).integers(9, size=(70, count)).astype(np.int32)
    labels, distances = loops.nearest_of(rows, centers, options)
    for row, own, label, distance in zip(rows, options, labels, distances, strict=True):
        away = np.linalg.norm(row.astype(np.float64) - centers[own], axis=1)
        assert label == own[away.argmin()]
        assert distance == pytest.approx(away.min(), rel=1e-5)


@either
def test_of_equally_near_centers_the_first_one_is_taken(loops):
    rows = np.zeros((3, 20), np.float32)
    centers = np.stack([np.full(20, 1.0), np.full(20, -1.0), np.full(20, 5.0)]).astype(np.float32)
    assert loops.nearest_of(rows, centers, np.array([[1, 0], [0, 1], [2, 1]], np.int32))[0].tolist() == [1, 0, 1]


@either
def test_distances_are_zero_only_for_equal_rows_and_infinite_where_they_overflow(loops):
    rows = np.array([[1e-30, 0], [1, 2], [3e38, 0], [np.nan, 0]], np.float32)
    centers = np.array([[0, 0], [1, 2], [-3e38, 0]], np.float32)
    distances = loops.nearest_of(rows, centers, np.array([[0], [1], [2], [0]], np.int32))[1]
    assert 0 < distances[0] < 1e-29
    assert distances[1] == 0
    assert np.isinf(distances[2])
    assert np.isnan(distances[3])


@either
def test_rows_may_be_a_part_of_a_matrix_turned_or_not_aligned(loops):
    wide, centers = numbers(40, 30), numbers(6, 8, seed=1)
    options = np.random.default_rng(2).integers(6, size=(40, 3)).astype(np.int32)
    raw = np.zeros(40 * 8 * 4 + 1, np.uint8)
    odd = raw[1:].view(np.float32).reshape(40, 8)
    odd[:] = wide[:, :8]
    expected = loops.nearest_of(np.ascontiguousarray(wide[:, :8]), centers, options)
    for rows in (wide[:, :8], np.asfortranarray(wide[:, :8]), odd, wide[::-1, :8][::-1]):
        for one, other in zip(loops.nearest_of(rows, centers, options), expected, strict=True):
            np.testing.assert_array_equal(one, other)


@either
@pytest.mark.parametrize("d", [2, 17, 64])
def test_scores_of_listed_centers_are_plain_products(loops, d):
    points, table = numbers(50, d), numbers(30, d, seed=1)
    ids = np.random.default_rng(2).permutation(50)[:20]
    lists = np.random.default_rng(3).integers(30, size=(20, 6)).astype(np.int32)
    expected = np.einsum("ij,ikj->ik", points[ids].astype(np.float64), table[lists].astype(np.float64))
    np.testing.assert_allclose(loops.score_listed(points, ids, table, lists), expected, rtol=1e-4, atol=1e-5)


@either
def test_rows_follow_their_lists_to_the_two_best_centers(loops):
    rng = np.random.default_rng(4)
    points, table, drift = numbers(60, 21), numbers(12, 21, seed=5), rng.random(12).astype(np.float32)
    lists = np.stack([rng.permutation(12)[:5] for _ in range(60)]).astype(np.int32)
    norms, ids = np.einsum("ij,ij->i", points, points) + np.float32(50), np.sort(rng.permutation(60)[:40])
    listing = Listing(
        lists, *np.full((2, 60), -1, np.int32), np.zeros((60, 2), np.float32), *np.zeros((2, 60), np.float32)
    )
    loops.follow_lists(points, norms, ids, table, drift, listing)
    assert np.all(np.delete(listing.labels, ids) == -1)
    for i in ids:
        scores = points[i].astype(np.float64) @ table[lists[i]].T.astype(np.float64)
        ranked = np.argsort(-scores)
        assert [listing.labels[i], listing.second[i]] == lists[i, ranked[:2]].tolist()
        np.testing.assert_allclose(listing.scores[i], scores[ranked[:2]], rtol=1e-4, atol=1e-5)
        near, far = np.sqrt(norms[i] - 2 * scores[ranked[:2]])
        assert listing.margins[i] == pytest.approx(far - near, abs=1e-4)
        assert listing.since[i] == drift[listing.labels[i]]


@either
@pytest.mark.parametrize("ids", [None, np.array([3, 3, 0, 8])])
def test_rows_are_added_to_the_sums_of_their_labels(loops, ids):
    rows, rng = numbers(10, 19), np.random.default_rng(6)
    count = 10 if ids is None else len(ids)
    labels, weights = rng.integers(4, size=count).astype(np.int32), rng.normal(size=count)
    sums = rng.normal(size=(4, 19))
    expected = sums.copy()
    for place, label in enumerate(labels):
        expected[label] += weights[place] * rows[place if ids is None else ids[place]]
    loops.add_rows(rows, labels, weights, sums, ids)
    np.testing.assert_allclose(sums, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(compiled.LIBRARY is None, reason="needs a C compiler")
@pytest.mark.parametrize("z", [1.0, 2.0, 3.5])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "d"), [(40, 3), (64, 16), (300, 20)])
def test_compiled_seeds_are_those_of_products_of_matrices(n, d, z, weighted):
    rows, rng = numbers(n, d), np.random.default_rng(7)
    weights, draws = rng.random(n) if weighted else None, rng.random((11, 4))
    expected = place_by_products(rows, 5, draws, z, weights, SerialWorkers(), Progress())
    np.testing.assert_array_equal(compiled.place_seeds(rows, 5, draws, z, weights), expected)


@pytest.mark.skipif(compiled.LIBRARY is None, reason="needs a C compiler")
def test_compiled_seeds_end_when_every_row_equals_one():
    rows = np.repeat(numbers(4, 5), 6, axis=0)
    seeds = compiled.place_seeds(rows, 0, np.random.default_rng(0).random((9, 3)), 2.0, None)
    assert sorted(seeds // 6) == [0, 1, 2, 3]


@pytest.mark.parametrize(("k", "z"), [(60, 2.0), (300, 2.0), (300, 1.0)])
def test_clusterings_without_compiled_loops_cost_the_same(monkeypatch, k, z):
    rng = np.random.default_rng(9)
    rows = numbers(300, 12, seed=8)[rng.integers(300, size=6000)] + 0.3 * numbers(6000, 12, seed=10)
    cost = cs.cluster(rows, k, z=z).free_cost
    use_plain_loops(monkeypatch)
    assert cs.cluster(rows, k, z=z).free_cost == pytest.approx(cost, rel=0.01)


def use_plain_loops(monkeypatch):
    """Use the loops in numpy everywhere, as an installation without compiled ones does."""
    for name, module in list(sys.modules.items()):
        if name.startswith("coresift.clustering.") and module not in (plain, compiled):
            for loop in LOOPS:
                if hasattr(module, loop):
                    monkeypatch.setattr(module, loop, getattr(plain, loop))
            if hasattr(module, "COMPILED"):
                monkeypatch.setattr(module, "COMPILED", False)
