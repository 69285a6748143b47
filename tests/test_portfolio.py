"""The portfolio: the mixture against a general solver, closed forms, and weights that stay unbiased."""

import numpy as np
import pytest
from expectations import expected_weights
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import coresift as cs
from coresift.checks import InputError
from coresift.mixtures import least_variance
from coresift.portfolio import candidates, explained_part, mix, pilot_facts
from coresift.prediction import predict
from coresift.testing import TINY
from coresift.types import Evidence, Frame, PilotSample


def objective(theta, densities, stakes, pull, prior):
    return np.sum(stakes / (densities @ theta)) + prior * stakes.mean() * np.sum(pull**2 / theta)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.5, 4.0, 50.0]))
def test_the_mixture_is_the_minimum_that_a_general_solver_finds(seed, prior):
    rng = np.random.default_rng(seed)
    densities = 0.1 + 0.9 * rng.gamma(0.7, size=(60, 5))
    stakes, pull = rng.gamma(0.5, size=60), rng.dirichlet(np.full(5, 3.0))
    found = least_variance(densities, stakes, pull, prior)
    assert found.sum() == pytest.approx(1)

    def slow(free):
        theta = np.exp(free) / np.exp(free).sum()
        return objective(theta, densities, stakes, pull, prior)

    best = minimize(slow, np.zeros(5), method="L-BFGS-B")
    assert objective(found, densities, stakes, pull, prior) <= best.fun * (1 + 1e-3)


def test_without_stakes_the_prior_decides():
    pull = np.array([0.5, 0.3, 0.2])
    np.testing.assert_array_equal(least_variance(np.ones((4, 3)), np.zeros(4), pull, 4.0), pull)
    np.testing.assert_allclose(least_variance(np.ones((4, 3)), np.ones(4), pull, 4.0), pull, atol=1e-9)


def evidence(losses, rows, budget=100, seed=0, excluded=(), k=10):
    clustering = cs.cluster(rows, k, seed=seed)
    frame = Frame(len(rows), np.zeros(0), np.array(excluded))
    plan = cs.pilots.Representatives().plan(clustering, frame, budget)
    rng = np.random.default_rng(seed)
    ids = np.flatnonzero(rng.random(len(rows)) < plan.inclusion)
    return Evidence(clustering, frame, PilotSample(ids, plan), losses[ids])


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(2_000, 6)).astype(np.float32)
    return rows, rng.exponential(size=2_000), rng


def prediction_of(facts):
    """The prediction that the portfolio learns from these answers."""
    clustering = facts.clustering
    labels = clustering.labels[facts.ids].astype(np.int64)
    return predict(facts.features[facts.ids], labels, clustering.k, facts.losses, 1 / facts.inclusion)


def test_every_density_has_mean_1_over_the_open_rows(table):
    rows, noise, _ = table
    excluded = np.arange(0, 2_000, 7)
    facts = pilot_facts(evidence(noise, rows, excluded=excluded), {"a": noise, "b": -noise, "c": rows[:, 0] > 0})
    mixed = mix(facts)
    for name, density in candidates(facts, mixed.predictions, prediction_of(facts)).items():
        assert density.everywhere[facts.open_rows].mean() == pytest.approx(1), name
        assert np.all(density.at_pilot >= 0), name
    assert {"signal a", "root of signal a", "signal c", "root of signal c"} <= set(mixed.names)
    assert "signal b" not in mixed.names
    assert mixed.theta.sum() == pytest.approx(1)
    assert np.all(mixed.sizes >= 0.1 - 1e-12)


def levels(facts):
    mixed = mix(facts)
    return candidates(facts, mixed.predictions, prediction_of(facts))["level"]


@pytest.mark.slow
def test_cluster_levels_and_fits_do_not_see_a_row_s_own_answer(table):
    rows, noise, _ = table
    first = pilot_facts(evidence(noise, rows))
    changed = noise.copy()
    row = first.ids[3]
    changed[row] *= 50
    second = pilot_facts(evidence(changed, rows))
    one = levels(first).at_pilot[3] / first.losses.mean()
    other = levels(second).at_pilot[3] / second.losses.mean()
    # The level is on the scale of the overall mean, which the row is part of; the row's cluster is not.
    assert other < 2 * one


@pytest.mark.slow
def test_a_true_signal_takes_the_mixture_over(table):
    rows, noise, _ = table
    values = noise**3
    told, silent = (mix(pilot_facts(evidence(values, rows, budget=400), given)) for given in ({"truth": values}, None))

    def variance(sizes):
        return (values**2 / sizes).mean() * sizes.mean()

    assert variance(told.sizes) < 0.3 * variance(silent.sizes)


@given(st.integers(0, 10_000), st.integers(3, 40), st.floats(0.01, 100.0))
def test_the_explained_part_is_the_adjusted_share_of_a_regression(seed, count, unit):
    """With equal weights it is the textbook's adjusted R² of a line, or 0 if that line falls or explains nothing."""
    rng = np.random.default_rng(seed)
    signal = rng.exponential(size=count)
    values = rng.normal(size=count) + rng.choice([-1, 0, 1]) * signal
    slope, level = np.polyfit(signal, values, 1)
    left = ((values - level - slope * signal) ** 2).sum() / ((values - values.mean()) ** 2).sum()
    adjusted = 1 - left * (count - 1) / (count - 2)
    expected = max(adjusted, 0.0) if slope > 0 else 0.0
    assert explained_part(unit * signal, values, np.full(count, unit)) == pytest.approx(expected, abs=1e-9)


def test_a_row_that_stands_for_three_counts_like_three_rows():
    signal, values, times = np.arange(30.0), np.sin(np.arange(30.0)) + np.arange(30.0) / 9, np.full(30, 3)
    times[7] = 1
    once = explained_part(signal, values, times)
    often = explained_part(np.repeat(signal, times), np.repeat(values, times), np.ones(88))
    # Only the adjustment for chance differs: it knows how many answers there really are.
    raw = 1 - (1 - once) * (1 - 1 / (times.sum() ** 2 / (times**2).sum() - 1))
    assert raw == pytest.approx(1 - (1 - often) * (1 - 1 / 87))


def test_a_constant_or_opposite_signal_explains_nothing():
    values = np.arange(5.0)
    assert explained_part(np.ones(5), values, np.ones(5)) == 0
    assert explained_part(values, np.ones(5), np.ones(5)) == 0
    assert explained_part(9 - values, values, np.ones(5)) == 0
    assert explained_part(np.arange(2.0), np.arange(2.0), np.ones(2)) == 0  # two answers fit every line


@pytest.mark.slow
def test_few_answers_are_enough_for_a_signal_that_explains_them(table, monkeypatch):
    """From 40 answers alone, a mixture puts less weight on a noisy copy of the values than one whose prior saw them."""
    rows, noise, rng = table
    cheap = noise * rng.lognormal(sigma=0.3, size=noise.size)
    variances = []
    for confirmed in (0.0, 10.0):
        monkeypatch.setattr("coresift.portfolio.CONFIRMED", confirmed)
        found = [mix(pilot_facts(evidence(noise, rows, budget=200, seed=seed), {"cheap": cheap})) for seed in range(20)]
        variances.append(np.mean([(noise**2 / one.sizes).mean() * one.sizes.mean() for one in found]))
    assert variances[1] < 0.97 * variances[0]


@pytest.mark.slow
def test_a_signal_of_the_spread_is_used_where_the_mean_is_everywhere_the_same(table):
    rows, _, _ = table
    better = []
    for seed in range(10):
        rng = np.random.default_rng(100 + seed)
        doubt = rng.uniform(0.05, 1.0, size=2_000) ** 2
        values = 2 + doubt * rng.uniform(-2, 2, size=2_000)
        facts = pilot_facts(evidence(values, rows, budget=500, seed=seed), {"certainty": 1 - doubt})
        mixed = mix(facts)
        density = candidates(facts, mixed.predictions, prediction_of(facts))["spread"].everywhere[:]
        # The variance of a draw in proportion to the density, of what a perfect prediction of the mean leaves.
        better.append(((values - 2) ** 2 / density).mean() * density.mean() / ((values - 2) ** 2).mean())
    # √E[r²|x] would have 1/1.8 of the uniform one's variance; learned from 100 rows it has most of that gain.
    assert np.mean(better) < 0.8
    assert "spread" not in mix(pilot_facts(evidence(values, rows))).names


@pytest.mark.slow
def test_useless_signals_cost_little(table):
    rows, noise, rng = table
    useless = {name: rng.lognormal(size=2_000) for name in "abc"}
    costs = []
    for seed in range(30):
        facts = evidence(noise, rows, budget=400, seed=seed)
        plain, told = (mix(pilot_facts(facts, signals)).sizes for signals in (None, useless))
        costs.append((noise**2 / told).mean() * told.mean() / ((noise**2 / plain).mean() * plain.mean()))
    assert np.exp(np.mean(np.log(costs))) < 1.06


def test_without_any_loss_distances_decide(table):
    rows, _, _ = table
    facts = pilot_facts(evidence(np.zeros(2_000), rows))
    mixed = mix(facts)
    powers = facts.clustering.powers
    np.testing.assert_allclose(mixed.sizes, 0.4 * powers / powers.sum() + 0.6 / 2_000)
    assert not mixed.predictions.any()


def test_rows_stand_by_cluster_and_size(table):
    rows, noise, _ = table
    facts = pilot_facts(evidence(noise, rows))
    mixed = mix(facts)
    labels = facts.clustering.labels[mixed.order]
    assert np.count_nonzero(np.diff(labels)) == facts.clustering.k - 1
    for run in np.split(np.arange(2_000), np.flatnonzero(np.diff(labels)) + 1):
        steps = np.diff(mixed.sizes[mixed.order[run]])
        assert np.all(steps >= -1e-6) or np.all(steps <= 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("design", [cs.designs.Systematic(), cs.designs.Pivotal()], ids=repr)
def test_expected_weights_are_1_by_enumeration(monkeypatch, design):
    """Without signals, the portfolio is among the combinations of test_unbiased."""
    frame = {"exclude": [1], "signals": np.arange(7.0)}
    combination = {"pilot": None, "score": cs.scores.Portfolio(), "design": design}
    expected = np.ones(len(TINY))
    expected[frame.get("exclude", [])] = 0
    np.testing.assert_allclose(expected_weights(monkeypatch, combination, frame, budget=4), expected, atol=1e-7)


@pytest.mark.slow
def test_it_is_a_score_like_any_other(table):
    rows, noise, _ = table
    score = cs.scores.Portfolio(components=3)
    picked = cs.select(rows, losses=noise, budget=100, seed=3, score=score)
    assert picked == cs.select(rows, losses=noise, budget=100, seed=3, score=score)
    assert len(picked) == 100
    assert picked.recipe.score == score
    assert repr(score) == "Portfolio(floor=0.1, prior=4.0, components=3)"


def test_refusals(table):
    rows, noise, _ = table
    with pytest.raises(InputError, match="floor must be a number between 0 and 1"):
        cs.scores.Portfolio(floor=0.0)
    with pytest.raises(InputError, match="components must be a whole number of at least 0"):
        cs.scores.Portfolio(components=-1)
    with pytest.raises(InputError, match="needs the losses of a pilot"):
        pilot_facts(Evidence(**{**vars(evidence(noise, rows)), "losses": np.zeros(0)}))
