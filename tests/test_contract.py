"""What every choice of pilot, score and design promises."""

import numpy as np
import pytest
from parts import combinations, pairs, pairwise, show

import coresift as cs

N = 400


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(8)
    rows = cs.open_rows((rng.normal(size=(8, 4)) * 3)[rng.integers(8, size=N)] + rng.normal(size=(N, 4)))
    return rows, rng.exponential(size=N), cs.cluster(rows, 9, seed=2)


every = pytest.mark.parametrize("combination", list(combinations(N)), ids=show)
every_pair = pytest.mark.parametrize("combination", list(pairwise(N)), ids=show)


def test_every_two_parts_that_can_meet_are_among_the_pairs():
    some, whole = list(pairwise(N)), list(combinations(N))
    assert {pair for one in some for pair in pairs(one)} == {pair for one in whole for pair in pairs(one)}
    assert all(one in whole for one in some)
    assert len(some) < len(whole) / 2


@every
def test_size_origin_and_ledger(data, combination):
    rows, losses, clustering = data
    asked = []

    def loss_of(ids):
        asked.extend(ids.tolist())
        return losses[ids]

    picked = cs.select(rows, loss_of, 60, 1, clusters=clustering, **combination)
    assert len(asked) == len(set(asked)) == picked.ledger.asked <= 60
    assert len(asked) == cs.plan(rows, 60, clusters=clustering, **combination).losses_asked
    design = combination["design"]
    if isinstance(design, cs.designs.Independent):
        assert picked.multiplicity.sum() == 60
    elif not isinstance(design, cs.designs.Poisson):
        assert len(picked) == 60
        assert np.all(picked.multiplicity == 1)
    kept = picked.phase == 1
    if getattr(combination["pilot"], "keep", combination["pilot"] is not None):
        assert set(picked.ids[kept].tolist()) == set(asked)
        assert not np.isnan(picked.losses[kept]).any()
    else:
        assert not kept.any()
    known = ~np.isnan(picked.losses)
    assert set(picked.ids[known].tolist()) <= set(asked)
    np.testing.assert_array_equal(picked.losses[known], losses[picked.ids[known]])
    np.testing.assert_array_equal(picked.clusters, clustering.labels[picked.ids])
    np.testing.assert_array_equal(picked.distances, clustering.distances[picked.ids])


@every
def test_the_law_of_weights(data, combination):
    rows, losses, clustering = data
    picked = cs.select(rows, losses, 60, 2, clusters=clustering, given=[7], **combination)
    alpha, pi, weight = picked.share, picked.inclusion, picked.weights
    for i, phase in enumerate(picked.phase):
        expected = [1.0, 1 - alpha[i] + alpha[i] / pi[i], picked.multiplicity[i] * (1 - alpha[i]) / pi[i]][phase]
        assert weight[i] == pytest.approx(expected)


@every
def test_the_seed_decides_and_nothing_else(data, combination):
    rows, losses, clustering = data
    first, again, other = (cs.select(rows, losses, 60, s, clusters=clustering, **combination) for s in (3, 3, 4))
    assert first == again
    assert first != other


@every
def test_given_rows_come_out_with_weight_one_and_excluded_ones_do_not(data, combination):
    rows, losses, clustering = data
    given, excluded = [3, int(clustering.centers[1])], [5, int(clustering.centers[0])]
    asked = []

    def loss_of(ids):
        asked.extend(ids.tolist())
        return losses[ids]

    picked = cs.select(rows, loss_of, 60, 5, clusters=clustering, given=given, exclude=excluded, **combination)
    place = np.searchsorted(picked.ids, np.sort(given))
    np.testing.assert_array_equal(picked.ids[place], np.sort(given))
    assert np.all(picked.weights[place] == 1)
    assert np.all(picked.origin[place] == 0)
    assert not set(excluded) & set(picked.ids.tolist())
    assert not set(excluded) & set(asked)
    assert picked.population == N - 2
    if not isinstance(combination["design"], (cs.designs.Independent, cs.designs.Poisson)):
        assert len(picked) == 60


@every_pair
def test_a_loaded_file_is_equal_and_gives_the_same_interval(data, combination, tmp_path):
    rows, losses, clustering = data
    picked = cs.select(rows, losses, 60, 6, clusters=clustering, **combination)
    for suffix in ("parquet", "csv", "jsonl"):
        loaded = cs.load(cs.save(picked, tmp_path / f"picked.{suffix}"))
        assert loaded == picked
        assert cs.estimate(loaded, losses[loaded.ids]) == cs.estimate(picked, losses[picked.ids])


@every_pair
def test_all_losses_zero_and_all_rows_equal_are_no_problem(combination):
    rows = np.ones((N, 2))
    with pytest.warns(cs.CoresiftWarning):
        clustering = cs.cluster(rows, 3)
    picked = cs.select(rows, np.zeros(N), 40, 1, clusters=clustering, **combination)
    assert np.all(np.isfinite(picked.weights))
    total = cs.estimate(picked, np.ones(len(picked))).total
    if isinstance(combination["design"], cs.designs.Poisson) or isinstance(combination["score"], cs.scores.Proxy):
        assert abs(total.value - N) <= 4 * total.standard_error  # their weights differ, or their number
    else:
        assert total.value == pytest.approx(N)
