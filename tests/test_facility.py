"""Coverage: the fast choice against its slow twin, against the optimum, and against chance."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from coverings import blobs, kernel_of, run, slow_greedy, sum_of

import coresift as cs
from coresift.covering import cover
from coresift.engine import SerialWorkers
from coresift.facility import Groupings, Nearest
from coresift.facility.groups import _without_negligible, form_groups
from coresift.facility.kernel import Computed, Stored, neighbor_distance
from coresift.facility.pool import Pool
from coresift.progress import Progress
from coresift.rows import open_rows


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("way", ["stored", "pairs"])
def test_the_exact_choice_is_that_of_its_slow_twin(seed, way, monkeypatch):
    rng = np.random.default_rng(seed)
    points, importance = blobs(120, seed=seed), rng.exponential(size=120)
    importance[rng.integers(120, size=20)] = 0
    given, free = np.sort(rng.choice(120, 5, replace=False)), rng.random(120) < 0.8
    if way == "pairs":  # with no first choices for a sample, every choice is greedy
        monkeypatch.setattr("coresift.facility.MOST_STORED", 0)
        monkeypatch.setattr("coresift.facility.pairs.SHARE", 1000)
        monkeypatch.setattr("coresift.facility.pairs.SIDE", 32)
        monkeypatch.setattr("coresift.facility.pairs.MEASURED_ROWS", 50)
    chosen = run(points, 25, importance=importance, given=given, free=free, bandwidth=1.5, seed=seed)
    kernel = kernel_of(points, 1.5)
    twin = slow_greedy(kernel, importance, 25, given, free)
    assert ("exact greedy" in chosen.method) == (way == "stored")
    np.testing.assert_array_equal(chosen.ids, twin)
    sums = [sum_of(kernel, importance, [*given, *twin[:i]]) for i in range(26)]
    np.testing.assert_allclose(chosen.gains, np.diff(sums), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("seed", range(20))
def test_the_sum_is_at_least_1_minus_1_over_e_of_the_largest(seed):
    rng = np.random.default_rng(seed)
    points, importance = rng.normal(size=(11, 2)).astype(np.float32), rng.exponential(size=11)
    kernel = kernel_of(points, 0.7)
    best = max(sum_of(kernel, importance, some) for some in itertools.combinations(range(11), 4))
    reached = sum_of(kernel, importance, run(points, 4, importance=importance, bandwidth=0.7).ids)
    assert (1 - 1 / np.e) * best <= reached <= best * (1 + 1e-6)


@pytest.mark.slow
def test_groups_lose_little_and_say_what_they_did(monkeypatch):
    monkeypatch.setattr("coresift.facility.groups.GROUP", 128)
    monkeypatch.setattr("coresift.facility.groups.LARGEST_GROUP", 256)
    points, importance = blobs(3000, k=40), np.random.default_rng(1).exponential(size=3000)
    exact = run(points, 150, importance=importance, bandwidth=1.2)
    grouped = run(points, 150, importance=importance, bandwidth=1.2, grouped=True)
    kernel = kernel_of(points, 1.2)
    chance = np.random.default_rng(2).choice(3000, 150, replace=False)
    random, full, close = (sum_of(kernel, importance, ids) for ids in (chance, exact.ids, grouped.ids))
    assert close - random > 0.93 * (full - random)
    assert len(set(grouped.ids)) == 150
    assert "groups of neighbors, in 3 stages" in grouped.method


def test_only_rows_that_matter_least_are_passed_over():
    left = np.array([0.01, 0.02, 1.0, 1.0, 1.0, 0.03, 0.0], np.float32)
    free, groups = np.ones(7, np.bool_), [np.array([0, 1, 2]), np.array([3, 4]), np.array([5, 6])]
    kept = [group.tolist() for group in _without_negligible(groups, left, free, 2)]
    assert kept == [[2], [3, 4]]  # 0.06 of 3.06 is below a twentieth
    assert _without_negligible(groups, left, free, 4) is groups  # too few candidates would remain
    alike = _without_negligible(groups, np.ones(7, np.float32), free, 1)
    assert [group.tolist() for group in alike] == [[0, 1, 2], [3, 4], [5, 6]]
    assert np.concatenate(_without_negligible(groups, np.zeros(7, np.float32), free, 1)).size == 7


def test_groups_have_every_row_once_and_none_is_too_large(monkeypatch):
    monkeypatch.setattr("coresift.facility.groups.GROUP", 64)
    monkeypatch.setattr("coresift.facility.groups.LARGEST_GROUP", 100)
    points = np.concatenate([np.zeros((500, 3)), blobs(700, d=3)]).astype(np.float32)  # 500 rows that no mean can part
    rng, ones = np.random.default_rng(0), np.ones(1200)
    free, covered = ones > 0, np.zeros(1200, np.float32)
    pool = Pool.of(open_rows(points), 10, ones, free, covered, 0, 1.0, rng, SerialWorkers())
    groups = form_groups(pool, rng, SerialWorkers(), Progress())
    np.testing.assert_array_equal(np.sort(np.concatenate(groups)), np.arange(1200))
    assert max(map(len, groups)) <= 100


@pytest.mark.slow
def test_a_sample_stands_for_rows_that_do_not_fit(monkeypatch):
    monkeypatch.setattr("coresift.facility.pool.MOST_HALF", 6 * 1500)
    monkeypatch.setattr("coresift.facility.pool.MOST_SINGLE", 100)
    points, importance = blobs(6000), np.random.default_rng(1).exponential(size=6000)
    chosen = run(points, 60, importance=importance, bandwidth=1.5, grouped=True)
    assert "of a sample of 1,500 rows" in chosen.method
    reached = importance @ chosen.kernel()
    twin = run(points, 60, importance=importance, bandwidth=1.5)
    assert reached > 0.9 * (importance @ twin.kernel())
    # What the sample says was gained is, up to its own chance, what was gained on all rows.
    assert abs(chosen.gains.sum() / reached - 1) < 0.15


def test_every_row_has_its_nearest_member():
    points = blobs(500)
    chosen = run(points, 20, given=np.array([3, 77]))
    gaps = np.linalg.norm(points[:, None] - points[chosen.members], axis=2)
    np.testing.assert_array_equal(chosen.members[:2], [3, 77])
    np.testing.assert_allclose(chosen.distances, gaps.min(axis=1), atol=1e-5)
    np.testing.assert_allclose(gaps[np.arange(500), chosen.labels], gaps.min(axis=1), atol=1e-5)
    np.testing.assert_array_equal(chosen.labels[chosen.members], np.arange(22))
    assert chosen.counts.sum() == 500


@pytest.mark.slow
def test_many_members_are_searched_for_and_found(monkeypatch):
    monkeypatch.setattr("coresift.facility.members.FEW_PRODUCTS", 0)
    rng = np.random.default_rng(0)
    points = (rng.normal(size=(4000, 32)) / (1 + np.arange(32))).astype(np.float32)
    chosen = run(points, 600)
    gaps = np.linalg.norm(points[:, None] - points[chosen.members], axis=2).min(axis=1)
    assert (chosen.distances**2).sum() <= 1.01 * (gaps**2).sum()


@pytest.mark.slow
@pytest.mark.parametrize(("grouped", "most_stored"), [(False, 8192), (False, 0), (True, 8192)])
def test_same_seed_same_bytes_whatever_the_threads(grouped, most_stored, monkeypatch):
    monkeypatch.setattr("coresift.facility.MOST_STORED", most_stored)
    points, importance = blobs(5000, seed=3), np.random.default_rng(0).random(5000)
    one, other = (run(points, 80, importance=importance, threads=threads, grouped=grouped) for threads in (1, 3))
    assert one == other
    assert one != run(points, 80, importance=importance, grouped=grouped, seed=1)


def test_stored_and_computed_values_are_those_of_the_formula():
    points = blobs(50)
    expected = kernel_of(points, 2.0)
    np.testing.assert_allclose(Stored.of(points, 2.0, SerialWorkers()).values, expected, atol=1e-5)
    kernel, some = Computed.of(points, 2.0), np.array([4, 9, 9])
    np.testing.assert_allclose(kernel.values(slice(5, 9), slice(None)), expected[5:9], atol=1e-5)
    np.testing.assert_allclose(kernel.values(some, some), expected[np.ix_(some, some)], atol=1e-5)
    np.testing.assert_allclose(
        kernel.take(some).values(slice(2), slice(None)), expected[np.ix_(some[:2], some)], atol=1e-5
    )


def test_the_bandwidth_is_half_the_median_distance_of_neighbors_and_shrinks():
    anchors = blobs(300)
    gaps = np.linalg.norm(anchors[:, None] - anchors, axis=2)
    np.fill_diagonal(gaps, np.inf)
    measured = neighbor_distance(anchors, np.random.default_rng(0), SerialWorkers())
    assert measured == pytest.approx(np.median(gaps.min(axis=1)), rel=1e-4)
    widths = [run(anchors, count).bandwidth for count in (3, 30, 290)]
    assert widths[0] > widths[1] > widths[2] > 0


@pytest.mark.parametrize("copies", [1, 50])
def test_near_duplicates_and_equal_rows_leave_a_bandwidth(copies):
    points = np.repeat(blobs(4), copies * 10, axis=0)
    chosen = run(points, 30)
    assert chosen.bandwidth > 1
    assert len(set(chosen.ids)) == 30
    assert set(chosen.labels[: copies * 10]) <= set(range(30))
    assert "26 random rows" in chosen.method


class TestCover:
    def test_given_rows_come_out_and_excluded_ones_do_not(self):
        points = blobs(400)
        selection = cover(points, 30, given=[1, 2, 3], exclude=np.arange(100, 400))
        assert len(selection) == 30
        assert {1, 2, 3} <= set(selection.ids) <= set(range(100))
        assert selection.recipe is None
        assert selection.provenance.options["choice"].startswith("exact greedy; bandwidth")

    def test_importance_moves_the_choice(self):
        points = blobs(1000)
        heavy = np.zeros(1000)
        heavy[:100] = 1
        chosen = set(cover(points, 50, importance=heavy).ids)
        assert len(chosen & set(range(100))) > 40
        assert len(set(cover(points, 50).ids) & set(range(100))) < 20

    def test_importance_may_be_a_function_of_row_numbers(self):
        points, sizes, asked = blobs(200), np.arange(200.0), []

        def importance(ids):
            asked.append(ids)
            return sizes[ids]

        assert cover(points, 20, importance=importance) == cover(points, 20, importance=sizes)
        np.testing.assert_array_equal(asked, [np.arange(200)])

    def test_excluded_rows_do_not_need_to_be_covered(self):
        points = blobs(400)
        selection = cover(points, 30, exclude=[0])
        assert selection.representative[0] == -1
        assert selection.represents.sum() == 399

    @pytest.mark.parametrize("given", [None, [5, 17]])
    def test_every_row_is_represented_by_the_nearest_selected_row(self, given):
        points = blobs(300)
        selection = cover(points, 25, given=given, exclude=[0, 1])
        gaps = np.linalg.norm(points[:, None].astype(float) - points[selection.ids][None], axis=2)
        found = np.searchsorted(selection.ids, selection.representative[2:])
        np.testing.assert_allclose(gaps[np.arange(2, 300), found], gaps[2:].min(axis=1), rtol=1e-5, atol=1e-6)
        for row, count in zip(selection.ids, selection.represents, strict=True):
            members = selection.members(row)
            assert row in members
            assert len(members) == count

    def test_copies_stand_for_themselves(self):
        selection = cover(np.zeros((10, 2)), 4)
        assert selection.represents.sum() == 10
        assert all(selection.representative[row] == row for row in selection.ids)

    @pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
    def test_files_keep_how_many_rows_each_row_stands_for(self, tmp_path, suffix):
        selection = cover(blobs(100), 8)
        loaded = cs.load(cs.save(selection, tmp_path / f"cover{suffix}"))
        assert loaded == selection
        np.testing.assert_array_equal(loaded.represents, selection.represents)
        with pytest.raises(cs.InputError, match="A file does not store which rows a row stands for; run cover again"):
            loaded.members(int(selection.ids[0]))
        with pytest.raises(cs.InputError, match=r"row must be one of the 8 selected rows; got -3\."):
            selection.members(-3)

    def test_the_budget_may_be_all_rows(self):
        assert cover(blobs(20), 20).ids.tolist() == list(range(20))
        with pytest.warns(cs.CoresiftWarning, match="only 20 rows to choose from: all of them are selected"):
            assert cover(blobs(20), 25, given=[0]).ids.tolist() == list(range(20))

    @pytest.mark.parametrize(
        ("importance", "sentence"),
        [
            (np.ones(7), "importance must be 20 numbers, one per row"),
            (-np.ones(20), "importance must be numbers of at least 0; got -1 for row 0"),
            (np.zeros(20), "importance must be above 0 for some row that is not excluded"),
            (np.full(20, np.nan), "importance must be finite numbers"),
        ],
    )
    def test_bad_importance_is_refused(self, importance, sentence):
        with pytest.raises(cs.InputError, match=sentence):
            cover(blobs(20), 5, importance=importance)

    def test_a_bad_row_is_named(self):
        points = blobs(40)
        points[7, 2] = np.nan
        with pytest.raises(cs.InputError, match="row 7 has NaN at position 2"):
            cover(points, 5)


def test_distances_to_ever_more_members_are_those_to_all_of_them():
    points, rng = blobs(400), np.random.default_rng(0)
    near = Nearest(open_rows(points))
    assert near.distances(np.zeros(0, np.int64), rng, SerialWorkers()) is None
    # Members come in any order, and one of them may leave.
    for members in ([5, 3], [5, 3, 399, 20], [5, 3, 399, 20], [3, 399, 8]):
        found = near.distances(np.array(members), rng, SerialWorkers())
        gaps = np.linalg.norm(points[:, None] - points[members], axis=2)
        np.testing.assert_allclose(found, gaps.min(axis=1), atol=1e-5)


def test_groups_are_formed_for_three_stages_and_then_used_again(monkeypatch):
    monkeypatch.setattr("coresift.facility.groups.GROUP", 64)
    points, rng, groupings = blobs(600), np.random.default_rng(0), Groupings()
    ones, covered = np.ones(600), np.zeros(600, np.float32)
    pool = Pool.of(open_rows(points), 10, ones, ones > 0, covered, 0, 1.0, rng, SerialWorkers())
    made = [groupings.next(pool, rng, SerialWorkers(), Progress()) for _ in range(5)]
    assert made[3] is made[0]
    assert made[4] is made[1]
    assert not np.array_equal(made[0][0], made[1][0])
    part = replace(pool, population=6000)
    assert groupings.next(part, rng, SerialWorkers(), Progress()) is not made[2]
