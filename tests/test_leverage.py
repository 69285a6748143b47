"""Leverage scores against the definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coresift as cs


def by_definition(A, ridge=0.0, intercept=False):
    """hᵢ = aᵢᵀ(AᵀA + ridge·I)⁺aᵢ, the ones' column first and without a ridge."""
    A = np.asarray(A, np.float64)
    penalty = ridge * np.eye(A.shape[1])
    if intercept:
        A = np.column_stack([np.ones(len(A)), A])
        penalty = np.pad(penalty, ((1, 0), (1, 0)))
    inverse = np.linalg.pinv(A.T @ A + penalty, rcond=1e-12, hermitian=True)
    return np.array([row @ inverse @ row for row in A])


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 9999),
    n=st.integers(1, 60),
    d=st.integers(1, 8),
    ridge=st.sampled_from([0.0, 0.3, 100.0]),
    intercept=st.booleans(),
)
def test_scores_equal_the_definition(seed, n, d, ridge, intercept):
    A = np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
    found = cs.theory.leverage_scores(A, ridge, intercept=intercept)
    np.testing.assert_allclose(found, by_definition(A, ridge, intercept), rtol=1e-6, atol=1e-7)
    assert found.dtype == np.float64


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 2.0])
def test_blocks_and_threads_change_nothing(ridge, intercept):
    A = np.random.default_rng(1).normal(size=(1000, 5)).astype(np.float32) * [1, 10, 100, 0.1, 3] + 4
    found = []
    for threads in (1, 2):
        rows = cs.open_rows(A)
        rows.block_rows = 64
        found.append(cs.theory.leverage_scores(rows, ridge, intercept=intercept, engine=cs.engines.Local(threads)))
    assert found[0].tobytes() == found[1].tobytes()
    np.testing.assert_allclose(found[0], by_definition(A.astype(np.float32), ridge, intercept), rtol=1e-6)


@pytest.mark.parametrize("intercept", [False, True])
def test_the_sum_is_the_rank_whatever_repeats(intercept):
    rng = np.random.default_rng(2)
    core = rng.normal(size=(80, 3)).astype(np.float32)
    A = np.column_stack([core, core[:, 0] * 7, core[:, 0] + core[:, 1], np.full(80, 5.0), np.zeros(80)])
    found = cs.theory.leverage_scores(A, intercept=intercept)
    assert found.sum() == pytest.approx(4)  # three columns, and the constant once
    expected = by_definition(np.column_stack([core, np.ones(80)]))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_fewer_rows_than_columns_have_full_say():
    A = np.random.default_rng(3).normal(size=(5, 20))
    np.testing.assert_allclose(cs.theory.leverage_scores(A), 1)
    assert cs.theory.leverage_scores(A, ridge=1.0).max() < 1


def test_units_do_not_matter_and_a_large_mean_does_not_hide_a_column():
    A = np.random.default_rng(4).normal(size=(200, 3)).astype(np.float32)
    scaled = A * np.float32([2.0**20, 1.0, 2.0**-20])
    np.testing.assert_allclose(cs.theory.leverage_scores(scaled), cs.theory.leverage_scores(A), rtol=1e-9)
    moved = np.round(A * 64) / 64 + np.float32([4096, 0, 0])
    np.testing.assert_allclose(
        cs.theory.leverage_scores(moved, intercept=True),
        cs.theory.leverage_scores(np.round(A * 64) / 64, intercept=True),
        rtol=1e-6,
    )


def test_all_zeros_have_no_say():
    np.testing.assert_array_equal(cs.theory.leverage_scores(np.zeros((4, 2))), 0)


@pytest.mark.parametrize(
    ("A", "ridge", "says"),
    [
        (np.array([[1.0], [np.nan]]), 0.0, "rows must be finite numbers; row 1 has NaN at position 0."),
        (np.ones((2, 2)), -1.0, "ridge must be a finite number of at least 0; got -1.0."),
        (np.ones(3), 0.0, "rows must be a 2-D array"),
    ],
)
def test_bad_input_is_one_sentence(A, ridge, says):
    with pytest.raises(cs.InputError) as error:
        cs.theory.leverage_scores(A, ridge)
    assert str(error.value).startswith(says)
