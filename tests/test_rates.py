"""Intervals of rates: closed forms, a slow twin, and simulated coverage where normal intervals fail."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from coresift.checks import InputError
from coresift.estimation.rates import (
    clopper_pearson,
    constant_interval,
    effective_trials,
    is_binary,
    rate_interval,
    within,
)
from coresift.types import Interval


@pytest.mark.parametrize(("positives", "trials"), [(0, 5), (5, 5), (1, 7), (3, 200), (199, 200)])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_whole_counts_agree_with_the_exact_binomial_test(positives, trials, confidence):
    expected = binomtest(positives, trials).proportion_ci(confidence, method="exact")
    low, high = clopper_pearson(positives, trials, confidence)
    assert (float(low), float(high)) == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(st.floats(0.5, 500), st.floats(0, 1))
def test_ends_surround_the_rate_and_mirror_each_other(trials, rate):
    low, high = clopper_pearson(rate * trials, trials)
    assert 0 <= low <= rate + 1e-9
    assert rate - 1e-9 <= high <= 1
    other_low, other_high = clopper_pearson(trials - rate * trials, trials)
    assert (float(low), float(high)) == pytest.approx((1 - float(other_high), 1 - float(other_low)), abs=1e-6)


def test_effective_trials_is_the_least_of_three():
    assert effective_trials(0.5, 0.25 / 80, 100, 90.0) == pytest.approx(80)
    assert effective_trials(0.5, 0.25 / 300, 100, 90.0) == 90
    assert effective_trials(0.5, 0.0, 100, 120.0) == 100
    assert effective_trials(0.5, 10.0, 100, 90.0) == 1


def test_equal_probabilities_give_the_plain_exact_interval():
    values = np.zeros(200)
    values[:7] = 1
    variance = 0.035 * 0.965 / 200
    found = rate_interval(values, np.full(200, 50.0), variance, population=10_000, least_inclusion=0.02)
    expected = binomtest(7, 200).proportion_ci(0.95, method="exact")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.standard_error == pytest.approx(math.sqrt(variance))


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_sample_without_differences_has_an_interval_as_wide_as_its_least_likely_row_asks(value):
    found = rate_interval(np.full(200, value), np.full(200, 50.0), 0.0, population=10_000, least_inclusion=0.005)
    low, high = clopper_pearson(50 * value, 50)
    assert found.value == value
    assert found.low == pytest.approx(float(low) if value else 0.0)
    assert found.high == pytest.approx(1.0 if value else float(high))
    assert found.high - found.low > 0.05


def test_seen_rows_are_certain():
    half = np.array([1.0] * 40 + [0.0] * 40)
    found = rate_interval(half, np.full(80, 1.25), 0.002, population=100, least_inclusion=0.8)
    assert found.low >= 0.4
    assert found.high <= 0.6
    everything = rate_interval(half, np.ones(80), 0.0, population=80, least_inclusion=1.0)
    assert (everything.low, everything.value, everything.high) == (0.5, 0.5, 0.5)


@pytest.mark.slow
@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=40), st.floats(1, 50), st.floats(0, 0.2))
def test_a_rate_stays_within_0_and_1_and_never_has_zero_width(values, weight, variance):
    weights = np.linspace(1, weight, len(values))
    found = rate_interval(values, weights, variance, population=1_000, least_inclusion=0.001)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.high > found.low


def test_equal_values_use_the_known_range():
    options = {"rows": 200, "population": 10_000, "least_inclusion": 0.02}
    _, others = clopper_pearson(0, 200)
    found = constant_interval(2.0, (0.0, 5.0), **options)
    assert (found.low, found.high) == pytest.approx((2 - 2 * float(others), 2 + 3 * float(others)))
    assert constant_interval(0.0, (0.0, math.inf), **options).low == 0
    assert constant_interval(0.0, (0.0, math.inf), **options).high == math.inf
    every = constant_interval(2.0, (0.0, 5.0), rows=50, population=50, least_inclusion=1.0)
    assert every.low == every.high == 2
    with pytest.raises(InputError, match="a range that contains 2"):
        constant_interval(2.0, (3.0, 5.0), **options)


def test_within_cuts_value_and_ends():
    assert within(Interval(-0.1, -0.5, 0.2, 0.3), (0.0, 1.0)) == Interval(0.0, 0.0, 0.2, 0.3)
    assert within(Interval(5.0, -2.0, 12.0, 3.0), (0.0, math.inf)) == Interval(5.0, 0.0, 12.0, 3.0)


def test_refusals():
    with pytest.raises(InputError, match="0 or 1 for each sampled row"):
        rate_interval([0.0, 0.5], [1.0, 1.0], 0.1, population=5, least_inclusion=0.1)
    with pytest.raises(InputError, match="from 0 to the number of trials"):
        clopper_pearson(3, 2)
    assert is_binary(np.zeros(0))


# ------------------------------------------------------------------- coverage

POPULATION, RUNS = 10_000, 4_000
RATES = (0.001, 0.002, 0.005, 0.01, 0.02)


def levels(design, rows):
    """The inclusion probability of each of 10,000 rows: one level, or three with the smallest a sixth of the mean."""
    factors = {"equal": (1.0, 1.0, 1.0), "unequal": (1 / 6, 1.0, 17 / 6)}[design]
    size = POPULATION // 10
    counts = np.array([3 * size, 6 * size, POPULATION - 9 * size])
    sizes = np.repeat(factors, counts)
    return np.minimum(sizes * rows / sizes.sum(), 0.95), counts


def sampled_counts(rng, inclusion, counts, positives):
    """How many positives and how many rows are drawn from each level by a stratified draw, a line per run."""
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    taken = np.round(inclusion[starts] * counts).astype(int)
    hits = np.stack(
        [rng.hypergeometric(p, c - p, t, RUNS) for p, c, t in zip(positives, counts, taken, strict=True)], axis=1
    )
    return hits, taken


def covered(hits, taken, counts, truth):
    """In how many runs the interval covers; the variance is that of a draw with replacement."""
    weights, rows = counts / taken, taken.sum()
    least = float((taken / counts).min())
    good = 0
    unique, times = np.unique(hits, axis=0, return_counts=True)
    for line, repeated in zip(unique, times, strict=True):
        values = np.concatenate([np.repeat([1.0, 0.0], [h, t - h]) for h, t in zip(line, taken, strict=True)])
        spread = np.repeat(weights, taken)
        parts = spread * values / POPULATION
        variance = rows / (rows - 1) * ((parts - parts.mean()) ** 2).sum()
        found = rate_interval(values, spread, variance, population=POPULATION, least_inclusion=least)
        good += repeated * (found.low <= truth <= found.high)
    return good / RUNS


@pytest.mark.slow
@pytest.mark.parametrize("where", ["anywhere", "least likely"])
@pytest.mark.parametrize("design", ["equal", "unequal"])
@pytest.mark.parametrize("rows", [200, 500, 2_000])
@pytest.mark.parametrize("rate", RATES)
def test_rates_are_covered(rate, rows, design, where):
    """At least 93.5 %, but for the noise of 4,000 runs (a false alarm once in ten thousand)."""
    rng = np.random.default_rng([round(1e4 * rate), rows, design == "equal", where == "anywhere"])
    inclusion, counts = levels(design, rows)
    total = round(rate * POPULATION)
    spots = rng.choice(POPULATION, total, replace=False) if where == "anywhere" else np.arange(total)
    positives = np.histogram(spots, np.concatenate([[0], np.cumsum(counts)]))[0]
    hits, taken = sampled_counts(rng, inclusion, counts, positives)
    assert covered(hits, taken, counts, rate) >= binom.ppf(1e-4, RUNS, 0.935) / RUNS


def test_the_simulation_can_fail():
    """The normal interval covers a rate of .2 % with 200 rows in a third of the runs."""
    rng = np.random.default_rng(1)
    hits = rng.hypergeometric(20, 9_980, 200, RUNS)
    rate = hits / 200
    reach = 1.96 * np.sqrt(rate * (1 - rate) / 200)
    assert np.mean((rate - reach <= 0.002) & (rate + reach >= 0.002)) < 0.4
