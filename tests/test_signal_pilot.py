"""The pilot that knows signals: its plan's sums, what it is without signals, and unbiased weights."""

import numpy as np
import pytest
from expectations import expected_weights

import coresift as cs
from coresift.signal_pilot import InformedRepresentatives, mean_signal, within_clusters
from coresift.signal_table import signal_table
from coresift.testing import TINY
from coresift.types import Frame


@pytest.fixture(scope="module")
def clustering():
    rows = np.random.default_rng(0).normal(size=(900, 4)).astype(np.float32)
    return cs.cluster(rows, 25, seed=0)


def frame(excluded=()):
    return Frame(900, np.zeros(0), np.array(excluded))


def test_every_cluster_is_heard_and_larger_signals_more_often(clustering):
    signal = np.random.default_rng(1).lognormal(size=900)
    plan = InformedRepresentatives(signal).plan(clustering, frame(range(0, 900, 9)), 200)
    sums = np.bincount(clustering.labels, plan.inclusion, 25)
    np.testing.assert_allclose(sums, np.round(sums), atol=1e-9)
    assert sums.min() >= 1 - 1e-9
    assert sums.sum() == pytest.approx(40)
    assert not plan.inclusion[::9].any()
    inside = plan.inclusion[clustering.labels == 3]
    open_rows = np.flatnonzero(clustering.labels == 3) % 9 > 0
    assert np.corrcoef(inside[open_rows], signal[clustering.labels == 3][open_rows])[0, 1] > 0.9


@pytest.mark.parametrize("signals", [None, np.full(900, 3.0), -np.arange(900.0)])
def test_without_sizes_it_is_the_plain_pilot_in_another_order(clustering, signals):
    plain = cs.pilots.Representatives().plan(clustering, frame(), 200)
    found = InformedRepresentatives(signals).plan(clustering, frame(), 200)
    np.testing.assert_allclose(found.inclusion, plain.inclusion)
    # The share of distances in what is expected of the second draw differs by the part that signals would have.
    assert np.abs(found.share - plain.share).max() < 0.2
    exact = InformedRepresentatives(signals, trust=0.0).plan(clustering, frame(), 200)
    np.testing.assert_allclose(exact.share, plain.share)


def test_the_mean_signal_has_mean_1_over_open_rows():
    open_rows = np.arange(6) > 0
    found = mean_signal(
        signal_table({"a": [9.0, 1, 2, 3, 4, 5], "b": [9.0, 0, 0, 0, 0, 5], "c": list("xyxyxy")}, 6), open_rows
    )
    assert found[0] == 0
    assert found[1:].mean() == pytest.approx(1)
    assert found[5] == pytest.approx((5 / 3 + 5) / 2)


def test_within_clusters_no_row_is_more_than_certain():
    found = within_clusters(np.array([3, 0]), np.array([0, 0, 1, 0, 0]), np.array([100.0, 1, 1, 1, 1]))
    assert found.tolist() == pytest.approx([1, 2 / 3, 0, 2 / 3, 2 / 3])


@pytest.mark.parametrize("exclude", [[], [1]])
@pytest.mark.parametrize("score", [cs.scores.Portfolio(), cs.scores.Portfolio(components=0)], ids=repr)
def test_expected_weights_are_1_by_enumeration(monkeypatch, score, exclude):
    pilot = cs.pilots.Informed(trust=0.5)
    combination = {"pilot": pilot, "score": score, "design": cs.designs.Systematic()}
    expected = np.ones(len(TINY))
    expected[exclude] = 0
    known = {"signals": np.arange(7.0)} | ({"exclude": exclude} if exclude else {})
    found = expected_weights(monkeypatch, combination, known, budget=4)
    np.testing.assert_allclose(found, expected, atol=1e-7)
