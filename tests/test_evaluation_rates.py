"""Limits of rates with few events: closed forms, a slow twin, and simulated coverage."""

import numpy as np
import pytest
from scipy.stats import beta, binom

import coresift as cs
from coresift.evaluation.rates import rate_limits
from coresift.evaluation.sampling import Sample

RNG = np.random.default_rng(3)


def sample_of(chances, rows):
    """Return a sample of so many rows, drawn with these probabilities."""
    asked = chances.size
    zeros = np.zeros(asked, np.int64)
    return Sample(np.arange(asked), zeros + 1, chances[None], zeros, np.array([rows]), np.array([[asked]]))


@pytest.mark.parametrize(("seen", "asked"), [(1, 7), (3, 200), (30, 80), (50, 80), (199, 200)])
def test_limits_with_equal_weights_are_the_rates_that_a_mid_p_test_does_not_reject(seen, asked):
    rate, grid = seen / asked, np.linspace(0, 1, 200_001)
    above = binom.sf(seen, asked, grid) + binom.pmf(seen, asked, grid) / 2
    kept = grid[(above >= 0.025) & (above <= 0.975)]
    sample = sample_of(np.full(asked, asked / 1e9), 10**9)
    found = rate_limits(sample, np.arange(asked) < seen, rate, rate * (1 - rate) / asked, 0.975)
    assert found == pytest.approx((kept[0], kept[-1]), abs=1e-5)


@pytest.mark.parametrize("rate", [0.01, 0.02, 0.05])
def test_limits_with_equal_weights_cover_about_as_often_as_they_say(rate):
    """The chance of every count from 1 to 40 of 200; without events, the interval is another one."""
    counts, sample = np.arange(1, 41), sample_of(np.full(200, 2e-7), 10**9)
    found = [rate_limits(sample, np.arange(200) < k, k / 200, k * (200 - k) / 200**3, 0.975) for k in counts]
    holds = np.array([low <= rate <= high for low, high in found])
    covered = binom.pmf(counts, 200, rate) @ holds + binom.pmf(0, 200, rate)
    assert 0.93 < covered < 0.985


@pytest.mark.parametrize(("rate", "error"), [(0.04, 0.01), (0.04, 0.03), (0.3, 0.02)])
def test_limits_match_a_slow_twin(rate, error):
    """Half of the distribution from the events seen, and half of that with one more, on a grid."""
    chances = RNG.uniform(0.02, 0.4, 60)
    steps, events = np.sqrt(1 - chances) / chances, np.arange(60) < 8
    average = sum(step * step for step in steps) / sum(steps)
    like_seen = sum(step * step for step in steps[events]) / sum(steps[events])
    count = sum(steps[events]) ** 2 / sum(step * step for step in steps[events])
    more = average ** (10 / (10 + count)) * like_seen ** (count / (10 + count)) / 1_000
    grid, below = np.linspace(0, 1, 400_001), 0.0
    least = max(error**2, more**2 * (1 - rate))
    both = ((rate, least), (rate + more, least + more**2 * (1 - 2 * rate - more)))
    for middle, variance in both:
        trials = middle * (1 - middle) / variance
        below = below + beta.cdf(grid, middle * trials, (1 - middle) * trials + 1) / 2
    expected = grid[np.searchsorted(below, [0.025, 0.975])]
    sample = sample_of(chances, 1_000)
    found = rate_limits(sample, events, rate, error**2, 0.975)
    assert found == pytest.approx(expected, abs=1e-5)
    others = rate_limits(sample, ~events, 1 - rate, error**2, 0.975)
    assert others == pytest.approx((1 - found[1], 1 - found[0]))


def test_limits_without_variance_allow_for_one_event_more_or_less():
    sample = sample_of(np.full(100, 0.1), 1_000)
    found = rate_limits(sample, np.arange(100) < 5, 0.05, 0.0, 0.975)
    assert 0.02 < found[0] < 0.04
    assert 0.06 < found[1] < 0.09


@pytest.mark.slow
@pytest.mark.parametrize(("flagged", "precise", "missed"), [(250, 0.9, 0.0), (100, 0.9, 0.0), (250, 0.8, 0.002)])
def test_intervals_cover_if_a_signal_points_to_all_events(flagged, precise, missed):
    """Often all flagged rows that are asked are events, so the variance seems to be 0. False alarms: 1e-4 each."""
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        signal = np.zeros(5_000)
        signal[:flagged] = 1
        values = (rng.random(5_000) < np.where(signal, precise, missed)).astype(float)
        result = cs.evaluate(values=values, signals={"judge": signal}, metric="rate", budget=100, seed=seed).complete()
        covered += result.low <= values.mean() <= result.high
    assert covered >= binom.ppf(1e-4, 200, 0.95)


@pytest.mark.slow
@pytest.mark.parametrize(("missed", "most"), [(0.0, 0.8), (0.3, 1.0)])
def test_good_signals_make_intervals_shorter_that_still_cover(missed, most):
    """Some 15 of 300 errors are asked; the signals miss a part of them. False alarms: 1e-4 each."""
    rng = np.random.default_rng(11)
    risk = rng.beta(0.1, 3.2, 10_000)
    wrong = rng.random(risk.size) < risk
    swapped = np.flatnonzero(wrong & (rng.random(risk.size) < missed))
    risk[swapped] = rng.permutation(risk)[: swapped.size]
    options = {"values": wrong.astype(float), "signals": {"risk": risk}, "metric": "rate", "budget": 150}
    found = [cs.evaluate(seed=seed, **options).complete() for seed in range(400)]
    covered = sum(result.low <= wrong.mean() <= result.high for result in found)
    assert binom.ppf(1e-4, 400, 0.95) <= covered
    uniform = 1.96 * np.sqrt(wrong.mean() * (1 - wrong.mean()) / 150)
    assert np.mean([result.half_width for result in found]) < most * uniform
