"""Intervals that cannot be silly: no zero width after a sample, no rate outside [0, 1], no crash at large numbers."""

import warnings

import numpy as np
import pytest

import coresift as cs
from coresift.assembly import PhaseDraw, assemble
from coresift.estimation.intervals import unit_of
from coresift.inclusion import fixed_size_inclusion
from coresift.types import Frame, Ledger, Provenance

N = 10_000
ROWS, FRAME, DESIGN = cs.open_rows(np.zeros((N, 1))), Frame(N), cs.designs.Systematic()
NOTHING = PhaseDraw(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64), None)


def sample(sizes, budget, rng):
    """Return a selection of rows drawn with these sizes, in an order that says nothing."""
    return sampled(DESIGN.inclusion(sizes, budget), budget, rng)


def sampled(inclusion, budget, rng):
    order = rng.permutation(N)
    drawn, multiplicity = DESIGN.draw(inclusion[order], rng)
    second = PhaseDraw(order[drawn], inclusion[order[drawn]], multiplicity, DESIGN)
    made = Provenance("select", budget, None, FRAME.record())
    phases = (NOTHING, second)
    least = float(inclusion.min())
    return assemble(ROWS, FRAME, phases, provenance=made, seed=0, ledger=Ledger(), least_inclusion=least)


@pytest.fixture(scope="module")
def equal():
    return sample(np.ones(N), 200, np.random.default_rng(0))


def test_no_positive_in_200_rows_is_no_certainty(equal):
    found = cs.estimate(equal, np.zeros(200))
    assert found.total.value == found.total.low == 0
    assert found.mean.high == pytest.approx(1 - 0.025 ** (1 / 200))
    assert found.total.high == pytest.approx(N * found.mean.high)
    assert any("0 or 1" in remark for remark in found.warnings)
    assert cs.estimate(equal, np.ones(200)).mean.low == pytest.approx(0.025 ** (1 / 200))
    # With the range told, nothing has to be supposed.
    told = cs.estimate(equal, np.zeros(200), ends=(0, 5))
    assert told.mean.high == pytest.approx(5 * found.mean.high)
    assert not any("0 or 1" in remark for remark in told.warnings)


def test_equal_values_of_unknown_range_have_an_open_end(equal):
    found = cs.estimate(equal, np.full(200, 3.0))
    assert (found.mean.value, found.mean.high) == (pytest.approx(3), np.inf)
    assert 2.9 < found.mean.low < 3
    told = cs.estimate(equal, np.full(200, 3.0), ends=(1, 5)).mean
    assert 2.9 < told.low < 3 < told.high < 3.1
    with pytest.raises(cs.InputError, match="ends must be the smallest and largest value that a row can have"):
        cs.estimate(equal, np.full(200, 3.0), ends=(0, 1))


def test_a_perfect_prediction_is_no_certainty_either(equal):
    values = np.random.default_rng(1).exponential(size=N)
    found = cs.estimate(equal, values[equal.ids], method=cs.estimators.Difference(values)).mean
    assert found.low < values.mean() < found.high
    assert found.value == pytest.approx(values.mean())
    proportional = sample(values, 300, np.random.default_rng(2))
    found = cs.estimate(proportional, values[proportional.ids]).total
    assert found.low < values.sum() < found.high
    assert found.value == pytest.approx(values.sum())


def test_ends_stay_within_what_is_possible(equal):
    values = np.zeros(200)
    values[:3] = 1
    found = cs.estimate(equal, values)
    assert 0 < found.mean.low < found.mean.value < found.mean.high < 1
    values[:3] = [1, 50, 0.5]
    assert cs.estimate(equal, values).total.low >= 0
    values[0] = -100
    assert cs.estimate(equal, values).total.low < 0
    heavy = sample(np.linspace(0.1, 2, N), 200, np.random.default_rng(3))
    some = np.ones(200)
    some[0] = 0
    assert cs.estimate(heavy, some).mean.high <= 1


def test_groups_have_limits_of_their_own(equal):
    labels, values = np.repeat(["a", "b"], 100), np.zeros(200)
    values[:40] = 1
    found = cs.estimate(equal, values, groups=labels)
    assert found["b"].mean.low == found["b"].mean.value == 0 < found["b"].mean.high < 0.06
    assert 0.3 < found["a"].mean.low < found["a"].mean.value < found["a"].mean.high < 0.51
    assert 0 < found["b"].total.high < 0.02 * N


def test_all_rows_leave_no_doubt():
    rows = np.arange(60.0).reshape(30, 2)
    picked = cs.select(rows, budget=30)
    found = cs.estimate(picked, np.zeros(30))
    assert (found.total.low, found.total.high, found.warnings) == (0, 0, ())


@pytest.mark.parametrize("scale", [1e-200, 1e76, 1e154, 1e290])
def test_large_and_small_numbers_are_like_others(equal, scale):
    values = np.random.default_rng(4).exponential(size=200)
    plain, found = cs.estimate(equal, values), cs.estimate(equal, values * scale)
    for name in ("value", "low", "high", "standard_error"):
        assert getattr(found.mean, name) == pytest.approx(getattr(plain.mean, name) * scale, rel=1e-9)
    assert found.warnings == plain.warnings
    assert cs.certify(equal, values * scale).statistical.estimate.mean == found.mean
    assert unit_of(values * scale) / 2 <= values.max() * scale <= unit_of(values * scale)


def test_large_losses_choose_the_same_rows():
    rows = np.random.default_rng(5).normal(size=(500, 3))
    losses = np.abs(rows[:, 0])
    plain, large = (cs.select(rows, losses * scale, 60) for scale in (1.0, 2.0**190))
    assert np.array_equal(plain.ids, large.ids)


def coverage(rate, budget, where, draws, seed):
    """Return in how many of the draws the interval covers the rate; `where` says which rows are positive."""
    rng = np.random.default_rng(seed)
    sizes = np.ones(N) if where == "equal" else rng.lognormal(sigma=0.7, size=N)
    values, count = np.zeros(N), round(rate * N)
    positive = np.argsort(sizes)[:count] if where == "lowest" else rng.permutation(N)[:count]
    values[positive] = 1
    inclusion, covered = DESIGN.inclusion(sizes, budget), 0
    for _ in range(draws):
        picked = sampled(inclusion, budget, rng)
        found = cs.estimate(picked, values[picked.ids]).mean
        covered += found.low <= values.mean() <= found.high
    return covered / draws


@pytest.mark.slow
@pytest.mark.parametrize("where", ["equal", "unequal", "lowest"])
@pytest.mark.parametrize("budget", [200, 600, 2000])
def test_rare_events_are_covered(where, budget):
    """300 draws per rate: at 95 %, fewer than 90.5 % has a probability of 1 in 2,000, and 93 % of 1,500 the same."""
    rates = (0.001, 0.002, 0.005, 0.01, 0.02)
    found = [coverage(rate, budget, where, 300, seed=[7, budget, round(rate * 1000)]) for rate in rates]
    assert min(found) >= 0.905
    assert np.mean(found) >= 0.93


@pytest.mark.parametrize("score", [None, "robust", "estimate"])
def test_losses_are_selected_by_without_a_word_of_numpy_or_refused(score):
    rng = np.random.default_rng(0)
    rows, losses = rng.normal(size=(40, 3)), np.abs(rng.normal(size=40))
    options = {} if score is None else {"score": cs.scores.Sensitivity(holder=score)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for scale in (1e-320, 1e-100, 1e59):
            assert len(cs.select(rows, losses * scale, 10, **options)) == 10
        for scale in (1e61, 1e307):
            with pytest.raises(cs.CoresiftError, match=r"losses must be finite and at least 0 and at most 1e\+60 in"):
                cs.select(rows, (losses + 1) * scale, 10, **options)


def test_sizes_near_zero_give_the_same_chances():
    sizes = np.array([8.0, 1.0, 1.0, 3.0])
    tiny = fixed_size_inclusion(sizes * 2.0**-1060, 2)
    np.testing.assert_allclose(tiny, fixed_size_inclusion(sizes, 2), rtol=1e-4)


def test_draws_with_replacement_have_a_limit():
    with pytest.raises(cs.InputError, match=r"budget must be at most 100,000,000 for a design that draws with repl"):
        cs.select(np.arange(40.0).reshape(20, 2), None, 2**64, design=cs.designs.Independent())
