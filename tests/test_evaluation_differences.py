"""Differences of models that rarely differ: intervals are never of no width, and cover."""

import numpy as np
import pytest
from scipy.stats import binom

import coresift as cs
from coresift.evaluation.calibration import Calibration
from coresift.evaluation.errors import FEW_EVENTS, difference_limits
from coresift.evaluation.sampling import Sample

N, ASKED, RUNS = 5_000, 100, 150


def two_models(better, worse):
    """Return labels and the predictions of two models; the first alone is right in a part `better` of the rows."""
    rng = np.random.default_rng(7)
    labels, chance = rng.integers(0, 4, N), rng.random(N)
    first = np.where(rng.random(N) < 0.85, labels, (labels + 1) % 4)
    second = first.copy()
    wins, losses = chance < better, (chance >= better) & (chance < better + worse)
    first[wins], second[wins] = labels[wins], (labels[wins] + 1) % 4
    first[losses], second[losses] = (labels[losses] + 1) % 4, labels[losses]
    return labels, {"A": first, "B": second}


@pytest.mark.parametrize("asked_as", ["labels", "values"])
@pytest.mark.parametrize(("better", "worse"), [(0.02, 0.01), (0.04, 0.01), (0.03, 0.0)])
def test_the_difference_of_models_that_rarely_differ_is_covered_and_has_a_width(better, worse, asked_as):
    labels, models = two_models(better, worse)
    right = np.stack([guess == labels for guess in models.values()], axis=1).astype(float)
    truth = right[:, 0].mean() - right[:, 1].mean()
    known = {"labels": labels, "predictions": models, "metric": "accuracy"}
    paid = {"values": right, "models": ["A", "B"], "n": N, "metric": "rate"}
    covered = 0
    for seed in range(RUNS):
        chosen = known if asked_as == "labels" else paid
        figure = cs.evaluate(budget=ASKED, seed=seed, **chosen).complete().figures["A − B"]
        assert figure.high - figure.low > 0.01
        covered += figure.low - 1e-9 <= truth <= figure.high + 1e-9
    # If intervals covered in .95 of all runs, one case would fail with probability 1e-4.
    assert covered >= binom.ppf(1e-4, RUNS, 0.95)


def sample_of(asked):
    """Return a uniform sample of so many rows."""
    zeros = np.zeros(asked, np.int64)
    parts = (np.arange(asked), zeros + 1, np.full((1, asked), asked / N), zeros)
    return Sample(*parts, np.array([N]), np.array([[asked]]))


def limits_of(signs, rows):
    calibration = Calibration(sample_of(signs.size), np.zeros((signs.size, 0)), np.zeros(0))
    return difference_limits(calibration, signs, 1e3, rows)


def test_limits_without_a_difference_follow_the_rule_of_three_on_both_sides():
    low, high = limits_of(np.zeros(100), N)(0.975)
    # Each side has mid-p 1 − exp(−x)/2, where x counts rows that stand for N/100 others.
    step = N / 100 * np.sqrt(1 - 100 / N)
    assert (low, high) == pytest.approx((-np.log(20) * step, np.log(20) * step))


def test_limits_mirror_each_other_and_stay_within_what_can_differ():
    signs = np.zeros(100)
    signs[:5], signs[5:7] = 1, -1
    (low, high), (other_low, other_high) = limits_of(signs, N)(0.975), limits_of(-signs, N)(0.975)
    assert (low, high) == pytest.approx((-other_high, -other_low))
    assert low < 3 * N / 100 < high
    assert limits_of(np.zeros(100), 8)(0.975) == pytest.approx((-8, 8))


def test_limits_are_left_to_the_normal_interval_if_many_rows_differ_or_none_can():
    many = np.zeros(100)
    many[: int(FEW_EVENTS)] = 1
    assert limits_of(many, N) is None
    assert limits_of(np.zeros(100), 0) is None


def test_several_models_without_a_difference_so_far_have_widths():
    labels, models = two_models(0.002, 0.001)
    models["C"] = np.where(np.arange(N) % 500 == 7, (models["A"] + 1) % 4, models["A"])
    result = cs.evaluate(labels=labels, predictions=models, metric="accuracy", budget=30, seed=3).complete()
    assert all(result.figures[name].half_width > 0.0005 for name in ("A − B", "A − C", "B − C"))


def test_a_model_that_was_never_better_may_still_be_better():
    labels, models = two_models(0.02, 0.004)
    only_better = 0
    for seed in range(20):
        run = cs.evaluate(labels=labels, predictions=models, metric="difference", budget=8, seed=seed)
        result = run.complete()
        if np.all(models["A"][run.asked] == labels[run.asked]):
            only_better += 1
            # Of 6 rows that differ, the second model has 1 right, so 8 rows without it show little.
            assert result.low < 0.02 - 0.004 < result.value
    assert only_better > 0
