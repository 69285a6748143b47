"""Orders: every row once, neighbors alike."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import coresift as cs
from coresift.order import _sorted, outward, snake, tour


def slow_tour(points):
    """The walk by exhaustive search; equal distances go to whoever comes, so points in the test are generic."""
    here, seen, place = 0, {0}, {0: 0}
    while len(seen) < len(points):
        gaps = [(np.linalg.norm(points[here] - point), i) for i, point in enumerate(points) if i not in seen]
        here = min(gaps)[1]
        place[here] = len(seen)
        seen.add(here)
    return [place[i] for i in range(len(points))]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 40))
def test_tour_goes_to_the_nearest_unseen_point(seed, count):
    points = np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32)
    assert tour(points).tolist() == slow_tour(points.astype(float))


def test_tour_leaves_its_input_alone():
    points = np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)
    before = points.copy()
    tour(points)
    np.testing.assert_array_equal(points, before)


def test_snake_walks_clusters_along_the_tour_and_turns():
    rows = np.random.default_rng(1).normal(size=(200, 2)).astype(np.float32)
    clustering = cs.cluster(rows, 7, seed=1)
    order = snake(clustering)
    assert sorted(order.tolist()) == list(range(200))
    stops = tour(clustering.free_centers)[clustering.labels[order]]
    assert np.all(np.diff(stops) >= 0)
    for stop in range(7):
        away = clustering.distances[order[stops == stop]]
        steps = np.diff(away) if stop % 2 == 0 else -np.diff(away)
        assert np.all(steps >= 0)


def test_outward_walks_clusters_by_level():
    rows = np.random.default_rng(2).normal(size=(150, 2)).astype(np.float32)
    clustering = cs.cluster(rows, 5, seed=1)
    level = np.array([3.0, 1.0, 2.0, 5.0, 4.0])
    order = outward(clustering, level)
    assert sorted(order.tolist()) == list(range(150))
    assert np.all(np.diff(level[clustering.labels[order]]) >= 0)
    for cluster in range(5):
        assert np.all(np.diff(clustering.distances[order[clustering.labels[order] == cluster]]) >= 0)


def test_rows_that_are_all_equal_have_an_order_too():
    clustering = cs.cluster(np.ones((6, 2)), 1)
    assert snake(clustering).tolist() == list(range(6))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 300), st.sampled_from([1, 7, 2**17]), st.sampled_from([1, 7]))
def test_dealing_to_stops_is_sorting_by_stop_distance_and_place(seed, n, stops, digits):
    rng = np.random.default_rng(seed)
    stop, labels = rng.permutation(stops), rng.integers(stops, size=n).astype(np.int32)
    away = rng.random(n).round(digits).astype(np.float32)
    expected = sorted(range(n), key=lambda row: (stop[labels[row]], away[row], row))
    assert _sorted(stop, labels, lambda rows: away[rows]).tolist() == expected
