"""Clustering: the kernel against its slow twin, what must hold of every result, and how good the centers are."""

import sys
import warnings
from dataclasses import fields

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

import coresift as cs
from coresift import clustering as clustering_module
from coresift.checks import CoresiftWarning, InputError
from coresift.clustering import SMALLEST_SAMPLE, attempts, cluster, passes, sample_size
from coresift.clustering.nearest import Codebook, distances_to, nearest, squared_distances
from coresift.clustering.refine import refine, snap
from coresift.clustering.seeding import seed_centers
from coresift.clustering.snapping import Assignment, fill_up
from coresift.clustering.starts import refine_best
from coresift.engine import Local
from coresift.progress import Progress
from coresift.rows import open_rows

POWERS = (0.5, 1.0, 1.5, 2.0, 3.0)


def blobs(n, d, groups, seed, apart=5.0):
    rng = np.random.default_rng(seed)
    middles = apart * rng.normal(size=(groups, d))
    return (middles[rng.integers(groups, size=n)] + rng.normal(size=(n, d))).astype(np.float32)


def away(rows, centers):
    """Exact distances, rows × centers, in double precision."""
    gaps = np.asarray(rows, np.float64)[:, None, :] - np.asarray(centers, np.float64)[None]
    return np.sqrt((gaps**2).sum(axis=-1))


def quietly(rows, k, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoresiftWarning)
        return cluster(rows, k, **options)


def unit(rows):
    wide = np.asarray(rows, np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return (wide / np.where(lengths == 0, 1, lengths)).astype(np.float32)


def distinct_count(rows):
    return len({tuple(row) for row in np.asarray(rows, np.float32).tolist()})


# --- the kernel --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.0, 1000.0, -1e5])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (3, 7), (40, 25)])
def test_nearest_is_the_twin_s(offset, scale, d, k):
    rng = np.random.default_rng(d + k)
    rows = ((rng.normal(size=(200, d)) + offset) * scale).astype(np.float32)
    centers = ((rng.normal(size=(k, d)) + offset) * scale).astype(np.float32)
    labels, distances = nearest(rows, Codebook.of(centers))
    expected, shortest = reference.nearest(rows, centers)
    np.testing.assert_allclose(distances, shortest, rtol=1e-5)
    # Where another center was taken, it is as near as the twin's.
    np.testing.assert_allclose(away(rows, centers)[np.arange(200), labels], shortest, rtol=1e-5)
    assert np.mean(labels == expected) > 0.9


def test_nearest_takes_the_first_of_equal_centers():
    rows = np.array([[0.0, 1.0], [4.0, 4.0]], np.float32)
    centers = np.array([[3.0, 3.0], [1.0, 1.0], [1.0, 1.0], [3.0, 3.0]], np.float32)
    assert nearest(rows, Codebook.of(centers))[0].tolist() == [1, 0]


def test_nearest_is_the_same_whatever_the_chunk(monkeypatch):
    rows = blobs(1000, 12, 20, seed=3)
    whole, shortest = nearest(rows, Codebook.of(rows[:40]))
    for name, size in (("nearest.TILE_ROWS", 96), ("nearest.TILE_CENTERS", 7), ("plain.COMPARED", 12 * 70)):
        monkeypatch.setattr(f"coresift.clustering.{name}", size)
    labels, distances = nearest(rows, Codebook.of(rows[:40]))
    np.testing.assert_allclose(distances, shortest, rtol=1e-5)
    assert np.mean(labels == whole) > 0.99


@pytest.mark.parametrize("scale", [1e-40, 1e-20, 1.0, 1e17])
def test_a_distance_is_zero_for_an_equal_row_and_no_other(scale):
    rows = (np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 3.0]]) * scale).astype(np.float32)
    found = distances_to(rows, rows[:1], np.zeros(3, np.int32))
    np.testing.assert_allclose(found, away(rows, rows[:1])[:, 0], rtol=1e-4)
    assert found[:2].tolist() == [0, 0]
    assert found[2] > 0


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_squared_distances_are_the_twin_s(offset):
    rng = np.random.default_rng(5)
    rows = (rng.normal(size=(300, 9)) + offset).astype(np.float32)
    rows[17] = rows[4]
    rows[18] = np.nextafter(rows[4], np.float32(np.inf))
    norms = np.einsum("ij,ij->i", rows, rows)
    found = squared_distances(rows, norms, rows[:6])
    expected = away(rows[:6], rows) ** 2
    np.testing.assert_allclose(found, expected, rtol=1e-2)
    assert np.all((found == 0) == (expected == 0))


# --- seeding, refining, snapping ---------------------------------------------------------------------------------


@pytest.fixture
def workers():
    with Local(1).open(Progress()) as opened:
        yield opened


def test_seeds_are_distinct_rows_and_no_more_than_there_are(workers):
    rows = np.repeat(blobs(6, 3, 6, seed=0), 5, axis=0)
    seeds = seed_centers(rows, 20, 2.0, np.random.default_rng(0), workers, Progress())
    assert len(seeds) == distinct_count(rows[seeds]) == 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "z", "weights", "expected"),
    [
        # From 0, each of the two candidates is the far row with probability q. It leaves the lower cost, so it is
        # kept if either is: 1 − (1 − q)², q = 4^z/(1 + 4^z).
        ([0, 1, 4], 1.0, None, 24 / 25),
        ([0, 1, 4], 2.0, None, 288 / 289),
        # Both leave the same cost, so the first drawn is kept: q = 2^z/(1 + 2^z).
        ([0, 1, 2], 1.0, None, 2 / 3),
        ([0, 1, 2], 2.0, None, 4 / 5),
        # Both are drawn alike, but the middle row stands for four and leaves the lower cost: (1 − 1/2)².
        ([0, 1, 2], 2.0, np.array([5.0, 4.0, 1.0]), 1 / 4),
    ],
)
def test_the_best_of_candidates_drawn_by_distance_to_the_power_z_is_kept(workers, line, z, weights, expected):
    rows, streams = np.array(line, np.float32)[:, None], map(np.random.default_rng, range(1500))
    seedings = [seed_centers(rows, 2, z, stream, workers, Progress(), weights) for stream in streams]
    hits = np.array([second == 2 for first, second in seedings if first == 0])
    # About 500 seedings from 0; false alarm at 4.5 standard errors: 7 in a million.
    assert abs(hits.mean() - expected) < 4.5 * np.sqrt(expected * (1 - expected) / hits.size)


@pytest.mark.parametrize("z", POWERS)
@pytest.mark.parametrize(("groups", "spread"), [(12, 1.0), (3, 1e-4)])  # products lose the digits of small distances
def test_the_best_of_several_starts_is_the_one_that_refines_to_the_lowest_cost(workers, z, groups, spread):
    rng = np.random.default_rng(5)
    rows = 3 * rng.normal(size=(groups, 6))[rng.integers(groups, size=600)] + spread * rng.normal(size=(600, 6))
    rows = (rows - rows.mean(axis=0)).astype(np.float32)
    winners = set()
    for _ in range(6):
        starts = [rows[rng.choice(600, 9, replace=False)] for _ in range(7)]
        results = [refine(open_rows(rows), start, z, workers, steps=15, gain=1e-2) for start in starts]
        costs = [cost for _, cost in results]
        best = refine_best(rows, starts, z, workers, steps=15, gain=1e-2)
        np.testing.assert_array_equal(best, results[int(np.argmin(costs))][0])
        winners.add(int(np.argmin(costs)))
    assert len(winners) > 1


def test_starts_may_have_different_numbers_of_centers(workers):
    rows = np.random.default_rng(3).normal(size=(200, 3)).astype(np.float32)
    starts = [rows[:2], rows[10:17], rows[30:33]]
    results = [refine(open_rows(rows), start, 2.0, workers, steps=15, gain=1e-2) for start in starts]
    best = refine_best(rows, starts, 2.0, workers, steps=15, gain=1e-2)
    np.testing.assert_array_equal(best, min(results, key=lambda result: result[1])[0])


def test_starts_whose_costs_are_not_as_expected_are_all_refined(workers, monkeypatch):
    rows = blobs(300, 4, 6, seed=2)
    starts = [rows[first : first + 5] for first in (0, 50, 100)]
    costs = [refine(open_rows(rows), start, 2.0, workers, steps=15)[1] for start in starts]
    worst = int(np.argmax(costs))
    monkeypatch.setattr("coresift.clustering.starts._lowest", lambda *_, **__: {worst: costs[worst] * 0.9})
    best = refine_best(rows, starts, 2.0, workers, steps=15, gain=2e-3)
    expected = refine(open_rows(rows), starts[int(np.argmin(costs))], 2.0, workers, steps=15)[0]
    np.testing.assert_array_equal(best, expected)


@pytest.mark.parametrize("z", POWERS)
def test_refining_never_raises_the_cost_and_ends_at_a_fixed_point_for_means(workers, z):
    rows = blobs(400, 3, 6, seed=8)
    start = rows[:6]
    better, measured = refine(open_rows(rows), start, z, workers, steps=60)
    before, after = ((away(rows, centers).min(axis=1) ** z).sum() for centers in (start, better))
    assert after < before
    assert after <= measured * (1 + 1e-6)
    if z == 2:
        labels = away(rows, better).argmin(axis=1)
        means = np.array([rows[labels == j].mean(axis=0) for j in range(6)])
        assert (away(rows, means).min(axis=1) ** 2).sum() >= after * (1 - 1e-3)


@pytest.mark.parametrize("z", [1.0, 1.5, 2.0, 3.0, 5.0])
def test_the_center_of_one_cluster_is_the_best_point(workers, z):
    rows = np.random.default_rng(2).exponential(size=(301, 1)).astype(np.float32)
    center, _ = refine(open_rows(rows), rows[:1], z, workers, steps=200)
    grid = np.linspace(rows.min(), rows.max(), 2001)
    best = (np.abs(rows - grid) ** z).sum(axis=0).min()  # the median for z = 1, the mean for z = 2
    assert (np.abs(rows - center) ** z).sum() <= best * 1.005


def test_a_median_beats_the_mean_where_there_are_outliers():
    rows = blobs(300, 2, 1, seed=1)
    rows[:15] += 500
    found = cluster(rows, 1, z=1)
    mean = away(rows, rows.mean(axis=0, dtype=np.float64)[None]).sum()
    assert found.free_cost < 0.8 * mean
    assert found.snapped_cost < 0.8 * mean


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("missing", [1, 3, 12])
def test_added_centers_take_all_rows_that_are_closer_to_them(seed, missing):
    """Empty clusters are filled: every row is compared with every center, one by one, and belongs to the nearest."""
    rng = np.random.default_rng([seed, missing])
    points = blobs(400, 3, 4, seed=[seed, missing])
    chosen = rng.choice(400, 5, replace=False)
    gaps = away(points, points[chosen])
    labels, distances = gaps.argmin(axis=1).astype(np.int32), gaps.min(axis=1).astype(np.float32)
    free = distances + rng.random(400).astype(np.float32)  # any numbers: they change only where a row moves
    before = Assignment(points[chosen], chosen, labels.copy(), free.copy(), distances.copy(), "")
    with Local(threads=2).open(Progress()) as workers:
        found = fill_up(open_rows(points), 5 + missing, before, workers)
    assert found.chosen.tolist() == [*chosen, *np.argsort(-distances, kind="stable")[:missing]]
    gaps = away(points, points[found.chosen])
    np.testing.assert_array_equal(found.labels, gaps.argmin(axis=1))
    np.testing.assert_allclose(found.distances, gaps.min(axis=1), rtol=1e-5)
    moved = found.labels >= 5
    np.testing.assert_array_equal(found.free_distances[~moved], free[~moved])
    np.testing.assert_array_equal(found.free_distances[moved], found.distances[moved])


def test_snapping_takes_the_first_nearest_row_of_each_cluster():
    labels = np.array([2, 0, 2, 0, 2], np.int32)
    distances = np.array([3.0, 1.0, 0.5, 1.0, 0.5], np.float32)
    assert snap(labels, distances, 4).tolist() == [1, -1, 2, -1]


# --- what must hold of every result ------------------------------------------------------------------------------


def holds(found, rows, k, z):
    """Check all that a clustering promises, from its arrays and the rows as they were clustered."""
    rows = np.asarray(rows, np.float32)
    n, distinct = len(rows), distinct_count(rows)
    assert found.k == min(k, distinct)
    assert found.n == n
    assert found.z == z
    assert np.all((found.labels >= 0) & (found.labels < found.k))
    assert len(set(found.centers.tolist())) == found.k
    assert distinct_count(rows[found.centers]) == found.k
    assert found.labels[found.centers].tolist() == list(range(found.k))
    own = found.centers[found.labels]
    exact = np.sqrt(((rows.astype(np.float64) - rows[own].astype(np.float64)) ** 2).sum(axis=1))
    np.testing.assert_allclose(found.distances, exact, rtol=1e-5)
    assert np.all((found.distances == 0) == (exact == 0))
    assert np.all(found.distances[found.centers] == 0)
    assert found.snapped_cost == pytest.approx((exact**z).sum(), rel=1e-4)
    gaps = rows.astype(np.float64) - found.free_centers[found.labels].astype(np.float64)
    assert found.free_cost == pytest.approx((np.sqrt((gaps**2).sum(axis=1)) ** z).sum(), rel=1e-4)
    if distinct < k:
        assert np.all(found.distances == 0)


@st.composite
def matrices(draw):
    """Small matrices with all that makes trouble: repeated rows, constant columns, offsets, units, few values."""
    n, d = draw(st.integers(1, 40)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    if draw(st.booleans()):
        rows = rng.integers(-2, 3, size=(n, d)).astype(np.float64)
    else:
        rows = rng.normal(size=(n, d)) * np.exp(2 * rng.normal(size=d))
    rows = rows[rng.integers(draw(st.integers(1, n)), size=n)]
    if draw(st.booleans()):
        rows[:, rng.integers(d)] = 3.5
    scale = draw(st.sampled_from([1e-20, 1e-6, 1.0, 1e6]))
    result = ((rows + draw(st.sampled_from([0.0, 100.0, -1000.0]))) * scale).astype(np.float32)
    result[(result == 0) & (rng.random((n, d)) < 0.5)] = -0.0
    return result


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(matrices(), st.integers(1, 45), st.sampled_from(POWERS), st.integers(0, 1000), st.booleans())
def test_every_clustering_keeps_its_promises(rows, k, z, seed, normalize):
    found = quietly(rows, k, z=z, seed=seed, normalize=normalize, engine=Local(1))
    assert (found.seed, found.normalized) == (seed, normalize)
    holds(found, unit(rows) if normalize else rows, k, z)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(matrices(), st.integers(-5, 3), st.integers(0, 1000))
def test_they_hold_even_if_the_kernel_takes_centers_for_one_another(rows, more, seed):
    k, rng = max(1, distinct_count(rows) + more), np.random.default_rng(seed)

    def hazy(block, codebook):
        labels, _ = nearest(block, codebook)
        stray = rng.random(len(block)) < 0.5
        labels[stray] = rng.integers(len(codebook.centers), size=np.count_nonzero(stray))
        return labels, distances_to(block, codebook.centers, labels)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["coresift.clustering.search"], "nearest", hazy)
        found = quietly(rows, k, seed=seed, engine=Local(1))
    holds(found, rows, k, 2.0)


@pytest.mark.parametrize("z", POWERS)
@pytest.mark.parametrize("k", [1, 7, 30])
def test_blobs(z, k):
    rows = blobs(30, 4, 5, seed=4)
    holds(cluster(rows, k, z=z), rows, k, z)


@pytest.mark.parametrize("z", POWERS)
def test_more_clusters_than_distinct_rows_is_a_warning(z):
    rows = np.repeat(blobs(9, 3, 3, seed=0), 4, axis=0)
    with pytest.warns(CoresiftWarning, match="Asked for 20 clusters, but only 9 rows are distinct"):
        holds(cluster(rows, 20, z=z), rows, 20, z)
    with pytest.warns(CoresiftWarning, match="Asked for 50 clusters, but only 9"):
        assert cluster(rows, 50, z=z).k == 9
    assert cluster(rows, 9, z=z).snapped_cost == 0


@pytest.mark.parametrize("value", [0.0, -0.0, 3.7, 1e-30, 1e17])
def test_all_rows_equal(value):
    rows = np.full((25, 3), value, np.float32)
    with pytest.warns(CoresiftWarning, match="only 1 rows are distinct"):
        found = cluster(rows, 4, z=1)
    holds(found, rows, 4, 1.0)
    assert found.free_cost == found.snapped_cost == 0


def test_zeros_of_both_signs_are_one_row():
    rows = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, 2.0]], np.float32)
    assert quietly(rows, 3).k == 2


def test_one_row():
    assert cluster(np.array([[5.0, 6.0]]), 1).centers.tolist() == [0]


@pytest.mark.slow
def test_rows_of_zeros_stay_where_they_are_when_normalized():
    rows = blobs(40, 3, 4, seed=6)
    rows[[3, 20]] = 0
    found = quietly(rows, 40, normalize=True)
    holds(found, unit(rows), 40, 2.0)
    assert found.labels[3] == found.labels[20]
    cosine = cluster(rows, 5, normalize=True)
    np.testing.assert_array_equal(cosine.labels, cluster(unit(rows), 5).labels)
    scaled = cluster(rows * np.float32(4), 5, normalize=True)
    np.testing.assert_array_equal(cosine.labels, scaled.labels)


@pytest.mark.slow
def test_near_twins_far_from_zero_are_told_apart():
    rng = np.random.default_rng(0)
    rows = (100 + 1e-6 * np.arange(60)[:, None] + 1e-5 * rng.integers(0, 3, size=(60, 2))).astype(np.float32)
    distinct = distinct_count(rows)
    assert 20 < distinct < 60  # float32 has steps of 7.6e-6 there
    holds(quietly(rows, 60), rows, 60, 2.0)
    holds(cluster(rows, distinct), rows, distinct, 2.0)
    wide = np.concatenate([rows, -rows, rows * 1000])
    holds(quietly(wide, len(wide)), wide, len(wide), 2.0)


def test_an_offset_or_another_unit_costs_no_quality():
    rows = blobs(2000, 6, 12, seed=2)
    plain = cluster(rows, 12).free_cost
    assert cluster(rows + np.float32(1000), 12).free_cost == pytest.approx(plain, rel=0.02)
    assert cluster(rows * np.float32(2**-40), 12).free_cost == pytest.approx(plain * 2.0**-80, rel=1e-6)
    assert cluster(rows * np.float32(2**40), 12).free_cost == pytest.approx(plain * 2.0**80, rel=1e-6)


# --- what is refused ---------------------------------------------------------------------------------------------


class Stages(Progress):
    def __init__(self):
        self.names = []

    def start(self, stage, total):
        self.names.append(stage)


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, SMALLEST_SAMPLE + 5000])
@pytest.mark.parametrize(
    ("value", "says"),
    [
        (np.nan, "rows must be finite numbers; row {} has NaN at position 1."),
        (np.inf, "row {} has a number that is infinite or too large for float32 at position 1."),
        (-1e30, "rows must have a length of at most 1e+18; row {} is longer."),
    ],
)
@pytest.mark.parametrize("z", [1.0, 2.0])
def test_the_first_bad_row_is_named_in_the_sample_or_not(n, value, says, z):
    rows = np.random.default_rng(0).normal(size=(n, 3)).astype(np.float32)
    sampled = np.random.default_rng([0, 1]).choice(n, sample_size(n, 3), replace=False) if n > 50 else np.arange(50)
    outside = np.setdiff1d(np.arange(n), sampled)
    assert (outside.size > 0) == (n > 50)
    for bad in (outside[[5, 90]], outside[[-1]], np.sort(sampled)[[7, 30]]) if n > 50 else ([7, 30],):
        spoiled = rows.copy()
        spoiled[bad, 1] = value
        with pytest.raises(InputError) as caught:
            cluster(spoiled, 3, z=z, progress=(stages := Stages()))
        assert says.format(bad[0]) in str(caught.value)
        assert "assigning rows" not in stages.names  # the first pass over all rows was enough
    if np.isnan(value):
        with pytest.raises(InputError, match=f"row {bad[0]} has NaN"):
            cluster(spoiled, 3, z=z, normalize=True)


@pytest.mark.slow
@pytest.mark.parametrize("n", [40, SMALLEST_SAMPLE + 100])
def test_a_power_that_no_number_can_hold_is_refused(n):
    rows = np.random.default_rng(0).normal(size=(n, 2)) * 1e15
    with pytest.raises(InputError, match="z must be small enough for distances to the power z to be finite numbers"):
        cluster(rows, 3, z=30)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"k": 0}, "k must be a whole number of at least 1; got 0."),
        ({"k": 2.5}, "k must be a whole number of at least 1; got 2.5."),
        ({"k": 2, "z": 0}, "z must be a finite number above 0; got 0."),
        ({"k": 2, "z": np.inf}, "z must be a finite number above 0; got inf."),
        ({"k": 2, "seed": -1}, "seed must be a whole number of at least 0; got -1."),
        ({"k": 2, "engine": Local(0)}, "threads must be a whole number of at least 1; got 0."),
    ],
)
def test_bad_arguments_are_refused(options, says):
    with pytest.raises(InputError) as caught:
        cluster(np.eye(3), **options)
    assert str(caught.value) == says


# --- repeatable --------------------------------------------------------------------------------------------------


def content(found):
    values = [getattr(found, field.name) for field in fields(found)]
    return [value.tobytes() if isinstance(value, np.ndarray) else value for value in values]


@pytest.mark.slow
@pytest.mark.parametrize("z", [1.0, 2.0])
def test_the_same_bytes_for_any_number_of_threads_and_any_layout(z, tmp_path):
    rows = blobs(SMALLEST_SAMPLE + 4000, 90, 30, seed=7).astype(np.float16)
    assert len(list(open_rows(rows).blocks())) > 1
    np.save(tmp_path / "rows.npy", rows)
    (tmp_path / "shards").mkdir()
    for number, part in enumerate(np.split(rows, [5, 9001])):
        np.save(tmp_path / "shards" / f"{number}.npy", part)
    first = cluster(rows, 40, z=z, seed=3, engine=Local(1))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    others = [
        cluster(source, 40, z=z, seed=3, engine=Local(threads))
        for source, threads in ((rows, 2), (rows, 3), (mapped, 2), (tmp_path / "rows.npy", 3), (tmp_path / "shards", 2))
    ]
    for other in others:
        assert content(other) == content(first)
        assert other == first


@pytest.mark.slow
def test_another_seed_is_another_clustering():
    rows = blobs(500, 3, 1, seed=0)
    assert cluster(rows, 8, seed=0) == cluster(rows, 8, seed=0)
    assert len({cluster(rows, 8, seed=seed).centers.tobytes() for seed in range(5)}) > 1


def test_the_rows_are_left_as_they_are():
    rows = blobs(200, 3, 4, seed=0)
    before = rows.copy()
    cluster(rows, 4)
    np.testing.assert_array_equal(rows, before)


# --- good --------------------------------------------------------------------------------------------------------


def small_case(seed):
    rng = np.random.default_rng([seed, 99])
    n, d, groups = int(rng.integers(8, 60)), int(rng.integers(1, 6)), int(rng.integers(1, 8))
    middles = rng.normal(size=(groups, d)) * rng.uniform(0, 6)
    rows = (middles[rng.integers(groups, size=n)] + rng.normal(size=(n, d))).astype(np.float32)
    return rows, int(rng.integers(1, min(n // 2, 9) + 1)), rng


@pytest.mark.slow
@pytest.mark.parametrize("z", [1.0, 2.0])
def test_small_inputs_come_within_a_tenth_of_the_best_of_twenty_plain_runs(z):
    # Of 1,000 other cases 99.8 % (z = 1) and all (z = 2) come that close. Were the true share 99 %, four or more
    # misses of 60 would have probability 0.3 %; the cases are fixed, so only a change can make this fail.
    ratios = []
    for seed in range(60):
        rows, k, rng = small_case(seed)
        best = min(reference.lloyd(rows, k, z, rng, steps=12) for _ in range(20))
        ratios.append(cluster(rows, k, z=z, seed=seed, engine=Local(1)).free_cost / best)
    assert np.mean(np.array(ratios) <= 1.10) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("z", [1.0, 2.0, 3.0])
def test_learning_from_a_sample_costs_little(z, monkeypatch):
    rows = blobs(3 * SMALLEST_SAMPLE, 8, 40, seed=11)
    assert sample_size(len(rows), 40) == SMALLEST_SAMPLE
    assert passes(len(rows), 40) == 3
    sampled = cluster(rows, 40, z=z)
    holds(sampled, rows, 40, z)
    monkeypatch.setattr(clustering_module, "SMALLEST_SAMPLE", len(rows))
    assert passes(len(rows), 40) == 2
    assert sampled.free_cost <= 1.05 * cluster(rows, 40, z=z).free_cost


def test_few_rows_far_away_get_centers_although_seeding_looks_at_a_part():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(SMALLEST_SAMPLE, 4)).astype(np.float32)
    rows[:12] += 1000 * np.repeat(np.eye(4, dtype=np.float32), 3, axis=0)  # four groups of three rows each
    for seed in range(5):
        found = cluster(rows, 20, seed=seed)
        assert len({int(label) for label in found.labels[:12:3]}) == 4
        assert found.free_cost < 2 * cluster(rows[12:], 16, seed=seed).free_cost


@pytest.mark.slow
def test_rows_that_the_sample_missed_become_centers_where_centers_are_left():
    rows = np.zeros((SMALLEST_SAMPLE * 4, 2), np.float32)
    rows[::5000] = blobs(len(rows[::5000]), 2, 3, seed=0)
    distinct = distinct_count(rows)
    assert 10 < distinct < 20
    holds(quietly(rows, 30, seed=1), rows, 30, 2.0)


def test_many_seedings_are_tried_only_where_they_cost_little():
    assert attempts(50, 5) == 16
    assert attempts(16_384, 10) == 1
    assert attempts(10**6, 10**5) == 1


def test_it_is_the_public_function():
    assert cs.cluster is cluster


def test_no_row_may_be_left_to_compare():
    labels, distances = nearest(np.zeros((0, 3), np.float32), Codebook.of(np.eye(3, dtype=np.float32)))
    assert labels.shape == distances.shape == (0,)
