"""Audits: exactly unbiased, with intervals that hold."""

import itertools

import numpy as np
import pytest

from coresift.audits import Audit, _difference, audit_accuracy


def test_the_estimate_is_unbiased_over_all_draws_and_halves():
    """Every sample of 4 of 6 rows, every way to halve it: the mean of all estimates is the truth."""
    values, predicted = np.array([1.0, 0, 1, 1, 0, 1]), np.array([0.9, 0.3, 0.8, 0.4, 0.6, 0.7])
    estimates = []

    class Halving:
        def __init__(self, order):
            self.order = np.array(order)

        def permutation(self, _):
            return self.order

    for some in itertools.combinations(range(6), 4):
        rows = np.array(some)
        estimates += [
            _difference(values[rows], predicted[rows], predicted, Halving(order))[0]
            for order in itertools.permutations(range(4))
        ]
    assert np.mean(estimates) == pytest.approx(values.mean(), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("accuracy", [0.6, 0.9, 0.97])
@pytest.mark.parametrize("calibrated", [True, False])
def test_intervals_cover_and_are_no_wider_than_those_of_a_plain_sample(accuracy, calibrated):
    """2,000 audits of 60 rows each: 95 % with a false alarm of 1 in 1,000 is above 93.5 %."""
    rng = np.random.default_rng(0)
    n, m, runs = 5000, 60, 2000
    # Confidence that varies about the accuracy, and is right on average or far too high.
    sure = np.clip(rng.beta(8 * accuracy, 8 * (1 - accuracy), size=n), 0.02, 1)
    right = rng.random(n) < sure
    stated = sure if calibrated else 0.5 + sure / 2
    known, truth = np.ones(200, np.bool_), (200 + right.sum()) / (n + 200)
    inside, widths, plain, values = 0, [], [], []
    for _ in range(runs):
        drawn = rng.choice(n, m, replace=False)
        audit = audit_accuracy(right[drawn], stated[drawn], stated, known, rng, 1)
        inside += audit.low <= truth <= audit.high
        widths.append(audit.high - audit.low)
        values.append(audit.value)
        uniform = audit_accuracy(right[drawn], np.ones(m), np.ones(n), known, rng, 1)
        plain.append(uniform.high - uniform.low)
    assert inside / runs >= 0.935
    assert np.mean(widths) <= np.mean(plain) * (1 + 1e-9)
    assert abs(np.mean(values) - truth) < 4 * np.std(values) / np.sqrt(runs) + 1e-3  # values are cut at 0 and 1


def test_confidence_that_tells_right_from_wrong_shortens_the_interval():
    rng = np.random.default_rng(0)
    right = rng.random(2000) < 0.7
    sure = np.where(right, 0.95, 0.2)
    drawn = rng.choice(2000, 100, replace=False)
    told = audit_accuracy(right[drawn], sure[drawn], sure, np.zeros(0, np.bool_), rng, 1)
    blind = audit_accuracy(right[drawn], np.ones(100), np.ones(2000), np.zeros(0, np.bool_), rng, 1)
    assert told.high - told.low < 0.8 * (blind.high - blind.low)


def test_all_rows_audited_leave_nothing_to_chance():
    right = np.array([True, False, True, True])
    audit = audit_accuracy(right, np.ones(4), np.ones(4), np.zeros(0, np.bool_), np.random.default_rng(0), 1)
    assert audit.value == audit.low == audit.high == 0.75


def test_all_right_has_an_interval_and_more_audits_widen_the_simultaneous_one():
    right, sure = np.ones(50, np.bool_), np.full(1000, 0.9)
    audit = audit_accuracy(right, sure[:50], sure, np.zeros(0, np.bool_), np.random.default_rng(0), 3, audits=4)
    assert audit.value == 1.0
    assert audit.low_always < audit.low < 0.95
    assert "round 3" in str(audit)


def test_a_change_is_told_or_cannot_be_told():
    early = Audit(1, 100, 50, 0, 0.60, 0.55, 0.65, 0.5, 0.7, 0.6)
    late = Audit(2, 200, 50, 0, 0.80, 0.75, 0.85, 0.7, 0.9, 0.8)
    assert late.change_since(early) == "20.0 ± 7.1 points from round 1 to round 2"
    assert early.change_since(early).endswith("cannot tell yet")


@pytest.mark.parametrize("value", [0.0, 0.6, 0.9, 1.0])
def test_the_rows_that_tell_a_change_are_enough_and_few_rows_need_fewer(value):
    audit = Audit(1, 100, 98, 0, value, 0.55, 0.65, 0.5, 0.7, value)
    rows, right = audit.rows_for_change(4.0), min(max(value, 0.01), 0.99)
    assert 1.96 * np.sqrt(2 * right * (1 - right) / rows) <= 0.04 < 1.96 * np.sqrt(2 * right * (1 - right) / (rows - 2))
    assert audit.rows_for_change(4.0, n=50) < min(50, rows)
    assert f"two audits need about {audit.rows_for_change(n=400):,} rows each." in audit.advice(400)
