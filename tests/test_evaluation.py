"""Evaluations: weights by enumeration, metrics against brute force, coverage, stages, and what is refused."""

import itertools

import numpy as np
import pytest

import coresift as cs
from coresift.evaluation.calibration import Calibration
from coresift.evaluation.sampling import Sample, draw_phase, shares
from coresift.inclusion import fixed_size_inclusion

N = 2_000
RNG = np.random.default_rng(0)
RISK = RNG.beta(1, 6, size=N)
WRONG = (RNG.random(N) < RISK).astype(float)


class Starts:
    """Stands in for a random generator: keeps the order, and begins the draw where it is told."""

    def __init__(self, start):
        self.start = start

    def permutation(self, count):
        return np.arange(count)

    def random(self, count):
        return np.full(count, self.start)


def every_draw(sizes, left, count):
    """Yield every outcome of a systematic draw with its probability: it changes where the start passes a sum of π."""
    inclusion = fixed_size_inclusion(sizes[left], count)
    uncertain = inclusion[inclusion < 1]
    breaks = np.unique(np.concatenate([[0, 1], np.cumsum(uncertain) % 1]))
    for low, high in itertools.pairwise(breaks):
        start = Starts((low + high) / 2)
        yield high - low, draw_phase(sizes, left, np.zeros(sizes.size, np.int64), np.array([count]), start)


def test_weights_of_two_phases_are_unbiased_by_enumeration():
    """The expectation over all outcomes of both draws, the second of which depends on the first one's answers."""
    sizes, values = np.array([1.0, 2.0, 0.5, 1.5, 1.0, 3.0]), np.array([3.0, -1.0, 4.0, 1.0, 5.0, 9.0])
    expected, everyone = 0.0, np.ones(6, bool)
    for chance, (ids, inclusion, own) in every_draw(sizes, everyone, 2):
        first = Sample.empty(np.array([6])).grown(ids, inclusion, own)
        left = everyone.copy()
        left[ids] = False
        later = sizes + values[ids].sum() ** 2 * np.arange(6) / 50
        for again, drawn in every_draw(later, left, 2):
            sample = first.grown(*drawn)
            expected += chance * again * (sample.weights @ values[sample.ids])
    assert expected == pytest.approx(values.sum())


def test_equal_probabilities_in_phases_are_worth_one_draw():
    """Shares by precision: the variance of two uniform phases is that of one uniform draw of all rows."""
    first, second = shares(np.array([[20], [20]]), np.array([100])).ravel()
    variance = first**2 * 100 * 80 / 20 + second**2 * 80 * 60 / 20
    assert variance == pytest.approx(100 * 60 / 40)


def test_all_rows_give_the_exact_value():
    for metric, truth in {"mean": RISK.mean(), "total": RISK.sum(), "rate": RISK.mean()}.items():
        found = cs.evaluate(values=RISK, n=N, budget=N, metric=metric).complete()
        assert (found.value, found.low, found.high) == pytest.approx((truth,) * 3)


def test_a_linear_answer_is_known_from_few_rows():
    """Where signals tell everything, the regression leaves next to nothing to estimate."""
    found = cs.evaluate(values=2 + 3 * RISK, signals=RISK, budget=100).complete()
    assert found.value == pytest.approx((2 + 3 * RISK).mean(), abs=0.01)
    assert found.half_width < 0.1 * 3 * RISK.std() / np.sqrt(100)


def test_calibration_matches_a_slow_twin():
    """One uniform phase and no penalty: ordinary least squares, and its leave-one-out errors one by one."""
    sample = Sample.empty(np.array([200])).grown(np.arange(30), np.full(30, 0.15), np.zeros(30, np.int64))
    known, answers = RNG.normal(size=(200, 2)), RNG.normal(size=30)
    fit = Calibration(sample, known[:30], known.sum(axis=0)).fit(answers, penalty=1e-12)
    design = np.column_stack([np.ones(30), known[:30]])
    slopes = np.linalg.lstsq(design, answers, rcond=None)[0]
    total = np.concatenate([[200], known.sum(axis=0)]) @ slopes
    assert fit.total == pytest.approx(total)
    errors = []
    for row in range(30):
        rest = np.arange(30) != row
        without = np.linalg.lstsq(design[rest], answers[rest], rcond=None)[0]
        errors.append(answers[row] - design[row] @ without)
    scale = 200 / 30 * np.sqrt(0.85)
    assert fit.moments.variance == pytest.approx(scale**2 * np.square(errors).sum())


@pytest.mark.slow
def test_intervals_cover():
    """300 runs of 95 % intervals: with true coverage .95, fewer than .90 or more than .99 happens once in 10,000."""
    truth, hits, errors = WRONG.mean(), 0, []
    for seed in range(300):
        found = cs.evaluate(values=WRONG, signals=RISK, budget=300, metric="rate", seed=seed).complete()
        hits += found.low <= truth <= found.high
        errors.append(found.value - truth)
    assert 0.90 <= hits / 300 <= 0.99
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(300)


def test_within_asks_in_three_stages_and_reaches_the_width():
    found = cs.evaluate(values=WRONG, signals=RISK, within=0.02, metric="rate").complete()
    assert found.stages[0] == 200
    assert len(found.stages) == 3
    assert found.half_width <= 0.022
    assert found.asked < N


def test_a_budget_too_small_says_what_it_buys():
    found = cs.evaluate(values=WRONG, n=N, within=0.01, budget=300).complete()
    assert found.asked == 300
    assert found.remarks[0].startswith("A budget of 300 answers buys ± 0.03")


def test_ask_and_tell_and_a_state_file_give_the_same(tmp_path):
    options = {"signals": RISK, "budget": 120, "seed": 3}
    whole = cs.evaluate(values=WRONG, **options).complete()
    path = tmp_path / "run.state"
    for _ in itertools.count():
        with cs.evaluate(state=path, **options) as run:  # every answer in a process of its own
            ids = run.ask()[:50]
            if not ids.size:
                assert run.result == whole
                break
            run.tell(ids, WRONG[ids])


def test_what_cannot_be_is_refused_in_one_sentence():
    with pytest.raises(cs.InputError, match=r"needs rows, signals, predictions or n"):
        cs.evaluate(values=lambda ids: ids, budget=5)
    with pytest.raises(cs.InputError, match=r"needs within, the half-width to reach, or budget"):
        cs.evaluate(values=WRONG, n=N)
    with pytest.raises(cs.CoresiftError, match=r"from 0 to 1 per row.*row \d+ has 2"):
        cs.evaluate(values=2 * WRONG, n=N, budget=300, metric="rate").complete()
    with pytest.raises(cs.InputError, match=r"metric must be one of mean, total, rate, ratio"):
        cs.evaluate(values=WRONG, n=N, budget=5, metric="average")
    with pytest.raises(cs.InputError, match=r"about the same rows; got signals 2000, n 7"):
        cs.evaluate(values=WRONG, signals=RISK, n=7, budget=5)


@pytest.mark.parametrize("n", [40, 12_000])
def test_rows_that_are_no_numbers_are_named(n):
    rows = np.random.default_rng(0).normal(size=(n, 3))
    rows[n // 2, 1] = np.nan
    with pytest.raises(cs.InputError, match=f"rows must be finite numbers; row {n // 2} has NaN at position 1"):
        cs.evaluate(rows, values=np.ones(n), budget=15).complete()
