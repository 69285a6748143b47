"""Predictions from few answers: leave-one-out by brute force, and what must never happen."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coresift as cs
from coresift.components import leading_components
from coresift.prediction import (
    CLUSTER_PENALTIES,
    PENALTIES,
    feature_columns,
    predict,
    ridge,
    shrunken_means,
    standardized,
)
from coresift.spectra import axes_of_wide, wide


def slow_ridge(features, values, weights, penalty):
    """Weighted ridge with a free intercept, by the normal equations."""
    columns = np.column_stack([np.ones(len(features)), features])
    gram = (columns * weights[:, None]).T @ columns
    gram[1:, 1:] += penalty * np.eye(features.shape[1])
    return np.linalg.solve(gram, columns.T @ (weights * values))


def case(seed, count=30, width=4):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(count, width))
    weights = rng.uniform(0.5, 2, size=count)
    values = features @ rng.normal(size=width) + rng.normal(size=count)
    return features, values, weights / weights.mean()


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_ridge_is_the_penalty_that_brute_force_picks(seed):
    features, values, weights = case(seed)
    best = None
    for penalty in PENALTIES:
        left_out = np.empty(values.size)
        for row in range(values.size):
            others = np.arange(values.size) != row
            fit = slow_ridge(features[others], values[others], weights[others], penalty * values.size)
            left_out[row] = fit[0] + features[row] @ fit[1:]
        error = weights @ (values - left_out) ** 2
        if best is None or error < best[0]:
            best = (error, slow_ridge(features, values, weights, penalty * values.size), left_out)
    intercept, slopes, out_of_fold = ridge(features, values, weights)
    np.testing.assert_allclose([intercept, *slopes], best[1], atol=1e-9)
    np.testing.assert_allclose(out_of_fold, best[2], atol=1e-8)


def test_shrunken_means_by_brute_force():
    rng = np.random.default_rng(3)
    labels, weights = rng.integers(4, size=25), rng.uniform(0.5, 2, size=25)
    residuals = rng.normal(size=25) + np.array([0.0, 2, -1, 0])[labels]
    tried = []
    for penalty in CLUSTER_PENALTIES:
        others = [
            sum(r for j, r in enumerate(residuals) if labels[j] == labels[i] and j != i)
            / (sum(labels[j] == labels[i] for j in range(25) if j != i) + penalty)
            for i in range(25)
        ]
        tried.append((sum(weights * (residuals - others) ** 2), penalty, others))
    _, penalty, others = min(tried)
    means, found = shrunken_means(labels, 5, residuals, weights)
    np.testing.assert_allclose(found, others)
    slow = [residuals[labels == c].sum() / ((labels == c).sum() + penalty) for c in range(5)]
    np.testing.assert_allclose(means, slow)


def test_features_without_meaning_become_a_constant():
    """Over 200 cases the prediction of noise explains nothing, and costs at most 3 % of the variance."""
    costs = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        features, labels = rng.normal(size=(300, 16)), rng.integers(30, size=300)
        values = rng.exponential(size=300)
        found = predict(features[:100], labels[:100], 30, values[:100], np.ones(100))
        missed = values[100:] - found.at(features[100:], labels[100:])
        costs.append(np.mean((missed - missed.mean()) ** 2) / values[100:].var())
    assert np.mean(costs) < 1.03


def test_what_can_be_learned_is_learned():
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(600, 5)), rng.integers(10, size=600)
    values = 3 * features[:, 0] + rng.normal(size=10)[labels] * 4 + 0.5 * rng.normal(size=600)
    found = predict(features[:100], labels[:100], 10, values[:100], np.ones(100))
    missed = values[100:] - found.at(features[100:], labels[100:])
    assert missed.var() < 0.05 * values.var()


def test_equal_values_are_predicted_as_such():
    found = predict(np.random.default_rng(0).normal(size=(20, 3)), np.zeros(20, int), 1, np.full(20, 7.0), np.ones(20))
    np.testing.assert_allclose(found.at(np.ones((2, 3)), np.zeros(2, int)), 7.0)


def test_standardized_columns():
    rng = np.random.default_rng(0)
    columns = np.column_stack([rng.normal(5, 3, size=500), np.full(500, 2.0), np.r_[1e6, np.zeros(499)]])
    found = standardized(columns)
    assert found[:, 0].mean() == pytest.approx(0, abs=1e-2)
    assert not found[:, 1].any()
    assert found[:, 2].max() == 4


def test_features_know_distances_places_and_signals():
    rows = np.random.default_rng(0).normal(size=(300, 5)).astype(np.float32)
    clustering = cs.cluster(rows, 12, seed=0)
    assert feature_columns(clustering)[:].shape == (300, 1 + 5)
    components = leading_components(rows, 3)
    assert feature_columns(clustering, components, np.arange(300.0)[:, None])[:].shape == (300, 1 + 3 + 2)


def test_components_are_those_of_a_plain_decomposition():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(400, 6)) * [5, 1, 3, 0.5, 2, 0.1]
    centered = rows.astype(np.float32).astype(float) - rows.astype(np.float32).mean(axis=0, dtype=float)
    left, _, _ = np.linalg.svd(centered, full_matrices=False)
    found = leading_components(rows, 3)
    np.testing.assert_allclose(np.abs(found), np.abs(left[:, :3]) * np.sqrt(400), atol=1e-3)
    assert leading_components(rows, 50).shape == (400, 6)
    assert leading_components(np.column_stack([rows, rows[:, 0]])).shape == (400, 6)
    np.testing.assert_array_equal(found, leading_components(rows, 3, engine=cs.engines.Local(threads=3)))


def test_many_more_columns_than_rows_give_the_same_ridge():
    features, values, weights = case(3, count=25, width=300)
    assert wide(features)
    wide_ones = ridge(features, values, weights)
    # Twice the rows, each with half of the weight, is the same problem, and not wide for so many rows.
    many = np.tile(features, (7, 1))
    assert not wide(many)
    intercept, slopes, _ = ridge(many, np.tile(values, 7), np.tile(weights, 7))
    penalties = [slow_ridge(features, values, weights, penalty * 25) for penalty in PENALTIES]
    assert any(np.allclose([wide_ones[0], *wide_ones[1]], solved, atol=1e-8) for solved in penalties)
    assert any(np.allclose([intercept, *slopes], solved, atol=1e-8) for solved in penalties)


def test_directions_of_wide_rows_are_those_of_all_products():
    rows = np.random.default_rng(0).normal(size=(6, 400))
    rows[5] = rows[4]
    rows -= rows.mean(axis=0)
    variances, directions = axes_of_wide(rows, 6)
    expected, vectors = np.linalg.eigh(rows.T @ rows / 6)
    np.testing.assert_allclose(variances, expected[-4:], rtol=1e-9)
    np.testing.assert_allclose(np.abs((vectors[:, -4:] * directions).sum(axis=0)), 1, rtol=1e-9)
