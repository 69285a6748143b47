"""Pilots: who is asked, with which probability, and with which share of the totals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coresift as cs
from coresift.inclusion import deal
from coresift.types import Frame


def frame(n, given=(), exclude=()):
    return Frame(n, np.array(given, int), np.array(exclude, int))


def clustered(seed=0, n=300, k=10, d=3):
    rows = np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
    return cs.cluster(rows, k, seed=seed)


def test_centers_asks_the_centers_and_replaces_excluded_ones_by_the_nearest_member():
    clustering = clustered()
    lost = int(clustering.centers[3])
    members = np.flatnonzero((clustering.labels == 3) & (np.arange(clustering.n) != lost))
    nearest = members[np.argmin(clustering.distances[members])]
    plan = cs.pilots.Centers().plan(clustering, frame(clustering.n, exclude=[lost]), 50)
    asked = np.flatnonzero(plan.inclusion)
    assert set(asked) == (set(clustering.centers.tolist()) - {lost}) | {int(nearest)}
    assert np.all(plan.share == 0)


def test_a_cluster_without_any_open_row_is_not_asked():
    clustering = clustered()
    gone = np.flatnonzero(clustering.labels == 2)
    plan = cs.pilots.Centers().plan(clustering, frame(clustering.n, exclude=gone), 50)
    assert np.count_nonzero(plan.inclusion) == clustering.k - 1
    plan = cs.pilots.Representatives().plan(clustering, frame(clustering.n, exclude=gone), 50)
    assert np.all(plan.inclusion[gone] == 0)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 300), st.integers(1, 30), st.sampled_from([0.1, 0.2, 0.5, 0.9]))
def test_representatives_deals_whole_rows_to_clusters(seed, budget, k, part):
    clustering = clustered(seed, k=k)
    strategy = cs.pilots.Representatives(part=part)
    plan = strategy.plan(clustering, frame(clustering.n), budget)
    size = min(strategy.size(clustering.k, budget), clustering.n)
    by_cluster = np.bincount(clustering.labels, plan.inclusion, clustering.k)
    np.testing.assert_allclose(by_cluster, by_cluster.round(), atol=1e-9)
    assert plan.inclusion.sum() == pytest.approx(size)
    assert size <= budget
    if size >= clustering.k:
        assert np.all(by_cluster.round() >= 1)
    assert np.all((plan.share >= 0) & (plan.share <= 1))
    assert np.all(plan.share[plan.inclusion == 0] == 0) or budget == size


def test_equal_probabilities_and_a_large_part_of_the_rows_give_uniform_s_own_variance():
    """With one cluster and no distances the two phases together must not lose to one uniform draw."""
    n, budget = 1000, 800
    clustering = cs.Clustering(
        centers=np.array([0]), labels=np.zeros(n), distances=np.zeros(n), free_centers=np.zeros((1, 1)),
        z=2.0, free_cost=0.0, snapped_cost=0.0, seed=0, normalized=False, fingerprint="",
    )  # fmt: skip
    strategy = cs.pilots.Representatives()
    plan = strategy.plan(clustering, frame(n), budget)
    first = strategy.size(1, budget)
    share, pilot, rest = plan.share[0], first / n, (budget - first) / (n - first)
    variance = share**2 * (1 - pilot) / pilot + (1 - share) ** 2 * (1 - pilot) * (1 - rest) / rest
    assert variance == pytest.approx((1 - budget / n) / (budget / n), rel=1e-9)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 30), st.integers(0, 20)), min_size=1, max_size=12), st.data())
def test_dealing_stays_within_limits_and_sums_to_the_total(pairs, data):
    wishes, limits = (np.array(column) for column in zip(*pairs, strict=True))
    total = data.draw(st.integers(0, int(limits.sum())))
    dealt = deal(wishes.astype(float), limits, total)
    assert dealt.sum() == total
    assert np.all((dealt >= 0) & (dealt <= limits))
    if total >= np.count_nonzero(limits):
        assert np.all(dealt >= np.minimum(limits, 1))


def test_keep_is_yes_or_no():
    with pytest.raises(cs.InputError, match="keep must be True or False; got 'no'"):
        cs.pilots.Centers(keep="no")


@pytest.mark.parametrize("options", [{"part": 0}, {"part": 1.0}, {"balance": 2}, {"part": "half"}, {"balance": -0.1}])
def test_options_are_checked(options):
    with pytest.raises(cs.InputError, match=next(iter(options))):
        cs.pilots.Representatives(**options)
