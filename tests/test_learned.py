"""The learned estimate: exact by enumeration, equal to its formula over all rows, and better where it can be."""

import numpy as np
import pytest
from enumeration import samples

from coresift.checks import InputError
from coresift.designs import Systematic
from coresift.estimation import learned
from coresift.estimation.learned import Auxiliary, coefficient, learned_total, summarize
from coresift.prediction import predict

N = 9
FEATURES = np.random.default_rng(0).normal(size=(N, 2))
LABELS = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2])
VALUES = 3 + 2 * FEATURES[:, 0] + np.array([0.0, 0.5, -0.3, 1.0, 4.0, 0.1, -1.0, 0.7, 0.2])
FIRST = np.array([0.5, 0.25, 0.25, 0.4, 0.3, 0.3, 0.2, 0.4, 0.4])
SIZES = np.array([1.0, 2, 1, 3, 1, 1, 2, 1, 1])
SHARE = np.array([0.2, 0.3, 0.0, 0.5, 0.1, 0.2, 0.4, 0.25, 1.0])


def outcomes():
    """Every pilot and every second draw; the second one's probabilities depend on the pilot's answers."""
    design = Systematic()
    for script, chance in samples(design, FIRST):
        pilot, _ = design.draw(FIRST, script)
        left = np.setdiff1d(np.arange(N), pilot)
        sizes = (0.2 + np.abs(VALUES[pilot].sum() - np.arange(N)))[left] * (1 - SHARE[left])
        inclusion = design.inclusion(sizes, 3)
        for second, further in samples(design, inclusion):
            drawn, _ = design.draw(inclusion, second)
            yield chance * further, pilot, left[drawn], inclusion[drawn]


def put_together(pilot, drawn, inclusion):
    ids = np.concatenate([pilot, drawn])
    phase = np.repeat([1, 2], [pilot.size, drawn.size])
    chance = np.concatenate([FIRST[pilot], inclusion])
    weights = np.where(phase == 1, 1 - SHARE[ids] + SHARE[ids] / chance, (1 - SHARE[ids]) / chance)
    auxiliary = summarize(FEATURES, SIZES, LABELS, 3, SHARE, np.ones(N, bool), ids)
    return ids, weights, learned_total(VALUES[ids], phase, LABELS[ids], chance, SHARE[ids], auxiliary)


def test_the_expected_total_is_the_total(monkeypatch):
    monkeypatch.setattr(learned, "FEWEST_ROWS", 2)
    mean = mass = 0.0
    predictions = 0
    for chance, pilot, drawn, inclusion in outcomes():
        _, weights, found = put_together(pilot, drawn, inclusion)
        mean += chance * found.total(weights)
        mass += chance
        predictions += found.prediction is not None
    assert mass == pytest.approx(1)
    assert predictions > 10
    assert mean == pytest.approx(VALUES.sum())


def test_the_total_is_the_formula_over_all_rows(monkeypatch):
    monkeypatch.setattr(learned, "FEWEST_ROWS", 2)
    for _, pilot, drawn, inclusion in outcomes():
        _, weights, found = put_together(pilot, drawn, inclusion)
        fit = predict(FEATURES[pilot], LABELS[pilot], 3, VALUES[pilot], 1 / FIRST[pilot])
        stand_for = (1 - SHARE[pilot]) / FIRST[pilot]
        guess = coefficient(VALUES[pilot], fit.out_of_fold, SIZES[pilot], stand_for) * fit.at(FEATURES, LABELS)
        rest = np.setdiff1d(np.arange(N), pilot)
        slow = ((1 - SHARE[pilot] + SHARE[pilot] / FIRST[pilot]) * VALUES[pilot]).sum()
        slow += ((1 - SHARE[rest]) * guess[rest]).sum()
        slow += ((1 - SHARE[drawn]) * (VALUES[drawn] - guess[drawn]) / inclusion).sum()
        assert found.total(weights) == pytest.approx(slow)


def test_a_small_pilot_predicts_nothing():
    _, pilot, drawn, inclusion = next(outcomes())
    ids, weights, found = put_together(pilot, drawn, inclusion)
    assert found.prediction is None
    assert found.total(weights) == pytest.approx(weights @ VALUES[ids])


def test_what_features_explain_needs_no_second_draw():
    """Values linear in the features: the error of the second phase is a fraction of the plain total's."""
    rng = np.random.default_rng(1)
    n, features = 4_000, rng.normal(size=(4_000, 5))
    labels, values = np.zeros(n, int), 10 + features @ [3, -2, 1, 0, 0] + 0.3 * rng.normal(size=n)
    share, errors = np.full(n, 0.2), []
    for _ in range(100):
        ids = rng.choice(n, 300, replace=False)
        phase = np.repeat([1, 2], [100, 200])
        chance = np.where(phase == 1, 100 / n, 200 / (n - 100))
        weights = np.where(phase == 1, 0.8 + 0.2 / chance, 0.8 / chance)
        auxiliary = summarize(features, np.ones(n), labels, 1, share, np.ones(n, bool), ids)
        found = learned_total(values[ids], phase, labels[ids], chance, share[ids], auxiliary)
        of_second = [found.residuals[phase == 2], values[ids][phase == 2]]
        errors.append([np.std(part) for part in of_second])
        assert abs(found.total(weights) / values.sum() - 1) < 0.05
    learned_spread, plain_spread = np.mean(errors, axis=0)
    assert learned_spread < 0.2 * plain_spread


def test_refusals():
    auxiliary = Auxiliary(np.zeros((2, 1)), np.ones(2), np.zeros(1), np.zeros(1))
    one = np.ones(3)
    with pytest.raises(InputError, match="features of 3 selected rows"):
        learned_total(one, np.array([1, 1, 2]), np.zeros(3, int), one, one, auxiliary)
    with pytest.raises(InputError, match="totals for every cluster"):
        learned_total(one[:2], np.array([1, 2]), np.array([0, 4]), one[:2], one[:2], auxiliary)


def spread(b, values, predicted, sizes, stand_for):
    expanded, weights = (values - b * predicted) / sizes, stand_for * sizes
    return weights @ (expanded - weights @ expanded / weights.sum()) ** 2


def test_the_coefficient_is_the_best_of_a_grid():
    rng = np.random.default_rng(2)
    for _ in range(20):
        predicted, sizes, stand_for = rng.exponential(size=(3, 80)) + 0.1
        values = rng.uniform(0, 1.5) * predicted + sizes * rng.exponential(size=80)
        case = (values, predicted, sizes, stand_for)
        assert spread(coefficient(*case), *case) <= min(spread(b, *case) for b in np.linspace(0, 1, 101)) + 1e-9


def test_draws_in_proportion_to_the_prediction_need_none():
    rng = np.random.default_rng(3)
    sizes = rng.exponential(size=200) + 0.1
    values = 5 * sizes * rng.uniform(0.9, 1.1, size=200)
    assert coefficient(values, sizes**2, sizes, np.ones(200)) < 0.1
