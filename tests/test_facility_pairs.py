"""The choice from a list of pairs: its parts and the whole against slow twins, and when groups choose instead."""

import numpy as np
import pytest
from coverings import blobs, kernel_of, run, slow_greedy, slow_weakest, sum_of

from coresift.engine import SerialWorkers
from coresift.facility import Groupings, choose_rows
from coresift.facility.kernel import Computed
from coresift.facility.pairs import choose_first, choose_from_pairs, count_pairs
from coresift.facility.weakest import find_weakest
from coresift.progress import Progress
from coresift.rows import open_rows


def pair_arguments(seed, n=150, bandwidth=2.0):
    """Rows with importance, some of which are covered and some must not be chosen; and κ in double precision."""
    points, rng = blobs(n, seed=seed), np.random.default_rng(seed)
    importance, free = rng.random(n).astype(np.float32), rng.random(n) < 0.8
    importance[rng.integers(n, size=20)] = 0
    values = kernel_of(points, bandwidth)
    return Computed.of(points, bandwidth), values, importance, free, values[:, :2].max(axis=1).astype(np.float32)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("count", [1, 4, 20])
def test_the_weakest_choices_are_those_of_the_slow_twin(seed, count):
    kernel, values, importance, _, covered = pair_arguments(seed)
    chosen = np.random.default_rng(seed).choice(150, 30, replace=False)
    weakest = find_weakest(kernel, importance, covered, chosen, count, SerialWorkers())
    twin, losses = slow_weakest(values, importance, covered, chosen, count)
    np.testing.assert_array_equal(weakest, twin)
    if count <= 4:  # they are independent, so what they add together is the sum of what each adds
        levels = [np.maximum(values[:, ids].max(axis=1), covered) for ids in (chosen, np.delete(chosen, weakest))]
        assert importance @ (levels[0] - levels[1]) == pytest.approx(losses[weakest].sum(), abs=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_first_choices_are_good_ones_and_say_what_they_add(seed):
    kernel, values, importance, free, covered = pair_arguments(seed)
    ids, gains, after = choose_first(
        kernel, importance, free, covered, 16 * 6, np.random.default_rng(seed), SerialWorkers()
    )
    assert free[ids].all()
    assert len(set(ids)) == 6
    levels = np.maximum.accumulate(np.column_stack([covered, values[:, ids]]), axis=1)
    np.testing.assert_allclose(after, levels[:, -1], atol=1e-5)
    np.testing.assert_allclose(gains, importance @ np.diff(levels), atol=1e-4)
    # The sample has every row that counts about as often as it counts.
    twin = slow_greedy(np.maximum(values, covered[:, None]), importance, 6, free=free & (importance > 0))
    best = importance @ (np.maximum(values[:, twin].max(axis=1), covered) - covered)
    assert gains.sum() > 0.97 * best


@pytest.mark.parametrize("seed", range(6))
def test_a_choice_from_pairs_is_that_of_its_slow_twin(seed, monkeypatch):
    monkeypatch.setattr("coresift.facility.pairs.SIDE", 32)
    kernel, values, importance, free, covered = pair_arguments(seed)
    first = choose_first(kernel, importance, free, covered, 40, np.random.default_rng(seed), SerialWorkers())[0]
    reached = np.maximum(values, covered[:, None])
    chosen = [*first, *slow_greedy(reached, importance, 40, first, free)]
    dropped = slow_weakest(values, importance, covered, chosen, first.size)[0]
    rng = np.random.default_rng(seed)
    ids, gains = choose_from_pairs(kernel, importance, free, covered, 40, rng, SerialWorkers(), Progress())
    np.testing.assert_array_equal(ids, np.delete(chosen, dropped))
    sums = [sum_of(reached, importance, chosen[:i]) if i else importance @ covered for i in range(len(chosen) + 1)]
    np.testing.assert_allclose(gains, np.delete(np.diff(sums), dropped), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_the_number_of_pairs_is_that_of_the_formula(seed):
    kernel, values, importance, _, covered = pair_arguments(seed)
    floor = np.where(importance > 0, np.log(covered + 2e-6), np.inf).astype(np.float32)
    above = np.log(values) > np.minimum(floor[:, None], floor)
    assert count_pairs(kernel, floor) == pytest.approx(np.count_nonzero(np.triu(above, 1)), rel=1e-3)


@pytest.mark.slow
def test_starting_from_a_sample_loses_next_to_nothing(monkeypatch):
    points = blobs(4000, k=40)
    exact = run(points, 320, bandwidth=1.2)
    monkeypatch.setattr("coresift.facility.MOST_STORED", 0)
    listed = run(points, 320, bandwidth=1.2)
    assert "starting from a sample" in listed.method
    assert listed.kernel().sum() > 0.999 * exact.kernel().sum()


def test_groups_choose_where_all_pairs_would_take_too_long_or_too_much_memory(monkeypatch):
    points = blobs(300)
    monkeypatch.setattr("coresift.facility.MOST_STORED", 299)
    assert "starting from a sample" in run(points, 20).method
    monkeypatch.setattr("coresift.facility.MOST_PAIRS", 10)
    assert "groups" in run(points, 20).method
    assert "starting from a sample" in run(points, 20, grouped=False).method
    assert "groups" in run(points, 20, grouped=True).method
    monkeypatch.setattr("coresift.facility.MOST_PAIRS", 300**2)
    monkeypatch.setattr("coresift.facility.MOST_COMPARED", 300**2)
    assert "groups" in run(points, 20).method
    monkeypatch.setattr("coresift.facility.MOST_STORED", 300)
    assert "exact" in run(points, 20).method


@pytest.mark.parametrize(("most_stored", "word"), [(299, "groups"), (300, "exact")])
def test_groups_that_are_kept_for_later_choices_are_used(most_stored, word, monkeypatch):
    monkeypatch.setattr("coresift.facility.MOST_STORED", most_stored)
    rng, none = np.random.default_rng(0), np.zeros(0, np.int64)
    rows = open_rows(blobs(300))
    choice = choose_rows(rows, 20, SerialWorkers(), rng, given=none, distances=None, groupings=Groupings())
    assert word in choice.method


def test_where_all_is_covered_no_rounding_error_is_a_gain(monkeypatch):
    monkeypatch.setattr("coresift.facility.MOST_STORED", 0)
    points = np.repeat(blobs(12, k=12), 10, axis=0)
    chosen = run(points, 20, bandwidth=0.5)
    assert chosen.method.endswith("starting from a sample; 8 random rows, as nothing more could be covered")
    assert len(np.unique(points[chosen.ids[:12]], axis=0)) == 12
