"""Designs: exact inclusion probabilities by enumeration, sizes, and agreement with slow twins."""

import numpy as np
import pytest
from enumeration import distribution
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from reference import fixed_size_inclusion as slow_inclusion
from reference import ordered_pivotal, systematic

from coresift.designs import Independent, Pivotal, Poisson, Systematic
from coresift.inclusion import fixed_size_inclusion

DESIGNS = [Independent(), Systematic(), Pivotal(), Poisson()]
sizes = st.lists(st.floats(0.001, 1000), min_size=2, max_size=7).map(np.array)


@settings(max_examples=60, deadline=None)
@given(sizes, st.integers(1, 3), st.sampled_from(DESIGNS))
def test_expected_count_is_the_inclusion(sizes, count, design):
    inclusion = design.inclusion(sizes, min(count, sizes.size - 1))
    expected = np.zeros(sizes.size)
    for sample, probability in distribution(design, inclusion).items():
        for position, times in sample:
            expected[position] += times * probability
    np.testing.assert_allclose(expected, inclusion, atol=1e-7)


@pytest.mark.parametrize(("design", "twin"), [(Systematic(), systematic), (Pivotal(), ordered_pivotal)])
@settings(max_examples=60, deadline=None)
@given(weights=st.lists(st.integers(1, 12), min_size=3, max_size=7), count=st.integers(1, 3))
@example(weights=[1, 1, 7, 2, 5, 8, 3], count=3)  # the first three fill a step to the last digit but one
def test_the_whole_distribution_is_the_twin_s(design, twin, weights, count):
    from fractions import Fraction

    total = sum(weights)
    exact = [Fraction(weight * count, total) for weight in weights]
    assume(max(exact) <= 1)
    expected = {frozenset((i, 1) for i in sample): float(p) for sample, p in twin(exact).items() if p}
    found = {sample: p for sample, p in distribution(design, [float(p) for p in exact]).items() if p > 1e-9}
    assert found.keys() == expected.keys()
    for sample, probability in expected.items():
        assert found[sample] == pytest.approx(probability, abs=1e-9)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1e6)), min_size=1, max_size=40), st.integers(0, 45))
def test_inclusion_is_the_twin_s(sizes, count):
    sizes = np.array(sizes)
    found = fixed_size_inclusion(sizes, count)
    reachable = np.count_nonzero(sizes)
    assert found.sum() == pytest.approx(min(count, reachable))
    assert np.all(found <= 1)
    assert np.all(found[sizes == 0] == 0)
    if count < reachable:
        np.testing.assert_allclose(found, slow_inclusion(sizes, count), atol=1e-6)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.integers(1, 400), st.integers(0, 2**32), st.sampled_from([Systematic(), Pivotal()]), st.floats(0, 4))
def test_fixed_size_designs_give_exactly_the_size_in_distinct_rows(n, seed, design, spread):
    rng = np.random.default_rng(seed)
    sizes = np.exp(spread * rng.normal(size=n))
    count = int(rng.integers(0, n + 1))
    drawn, times = design.draw(design.inclusion(sizes, count), rng)
    assert len(np.unique(drawn)) == len(drawn) == count
    assert np.all(times == 1)
    assert np.all(np.diff(drawn) > 0)


def test_independent_draws_the_stated_number_and_merges_repeats():
    design = Independent()
    drawn, times = design.draw(design.inclusion(np.array([1.0, 1.0, 0.0]), 50), np.random.default_rng(0))
    assert drawn.tolist() == [0, 1]
    assert times.sum() == 50


def test_poisson_has_the_stated_size_on_average():
    design, rng = Poisson(), np.random.default_rng(0)
    inclusion = design.inclusion(np.arange(1.0, 101.0), 20)
    counts = [design.draw(inclusion, rng)[0].size for _ in range(2000)]
    spread = np.sqrt((inclusion * (1 - inclusion)).sum() / 2000)
    assert abs(np.mean(counts) - 20) < 4 * spread  # false alarm: 6 in 100,000


def test_rows_of_size_zero_never_come_out():
    for design in DESIGNS:
        inclusion = design.inclusion(np.array([0.0, 2.0, 1.0, 0.0, 3.0]), 2)
        for sample in distribution(design, inclusion):
            assert {position for position, _ in sample} <= {1, 2, 4}
