"""Learned shares: the balance heuristic, slow twins, and a bias that stays small where answers decide the draw."""

import numpy as np
import pytest

import coresift as cs
from coresift.portfolio import candidates, mix, pilot_facts
from coresift.prediction import predict
from coresift.shares import _pairs, balanced_share, learn
from coresift.types import Evidence, Frame, PilotSample, Scores


def test_the_balanced_share_gives_the_weight_of_being_drawn_at_all():
    """1 − b + b/π₁ in the pilot and (1 − b)/π₂ in the draw are both 1/(π₁ + π₂ − π₁π₂)."""
    first, second = np.random.default_rng(0).uniform(0.01, 0.9, size=(2, 50))
    share = balanced_share(first, second)
    either = 1 - (1 - first) * (1 - second)
    np.testing.assert_allclose(1 - share + share / first, 1 / either)
    np.testing.assert_allclose((1 - share) / second, 1 / either)


def test_pairs_are_all_pilot_rows_of_the_own_cluster():
    rng = np.random.default_rng(1)
    labels, pilot_labels = rng.integers(6, size=40), rng.integers(5, size=12)
    slow = []
    for position, label in enumerate(labels):
        own = [place for place, other in enumerate(pilot_labels) if other == label]
        slow += [(position, place) for place in own or [-1]]
    assert list(zip(*(found.tolist() for found in _pairs(labels, pilot_labels, 6)), strict=True)) == slow


@pytest.fixture(scope="module")
def drawn():
    """A pilot, what the portfolio says about it, and a draw by its sizes."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(1_500, 5)).astype(np.float32)
    losses = np.exp(rows[:, 0] + 0.5 * rng.normal(size=1_500))
    clustering = cs.cluster(rows, 20, seed=0)
    frame = Frame(1_500)
    plan = cs.pilots.Representatives().plan(clustering, frame, 200)
    ids = np.flatnonzero(rng.random(1_500) < plan.inclusion)
    pilot = PilotSample(ids, plan)
    facts = pilot_facts(Evidence(clustering, frame, pilot, losses[ids]), {"doubt": np.abs(rows[:, 1])})
    mixed = mix(facts)
    scores = Scores(
        mixed.sizes, mixed.order, predictions=mixed.predictions, unseen=mixed.unseen, left_out=mixed.left_out
    )
    rest = np.setdiff1d(np.arange(1_500), ids)
    sizes = mixed.sizes[rest] * (1 - plan.share[rest])
    chance = np.minimum(150 * sizes / sizes.sum(), 1.0)
    chosen = rng.random(rest.size) < chance
    return clustering, pilot, facts, scores, rest[chosen], chance[chosen]


def test_shares_and_predictions_are_means_over_the_rows_left_out(drawn):
    clustering, pilot, _, scores, ids, chance = drawn
    found = learn(clustering, pilot, scores, ids, chance)
    plan = pilot.plan
    scale = np.median(chance / (scores.sizes[ids] * (1 - plan.share[ids])))

    def share(row, size):
        second = min(scale * size * (1 - plan.share[row]), 1.0)
        first = plan.inclusion[row]
        return np.sqrt(plan.share[row] * first * (1 - second) / (first + second - first * second))

    shares, unseen = [], []
    for row in ids:
        own = np.flatnonzero(clustering.labels[pilot.ids] == clustering.labels[row])
        if own.size:
            sizes, predictions = scores.left_out.others(np.full(own.size, row), own)
        else:
            sizes, predictions = scores.sizes[[row]], scores.predictions[[row]]
        shares.append(np.mean([share(row, size) for size in sizes]))
        unseen.append(predictions.mean())
    own_shares = [share(row, size) for row, size in zip(pilot.ids, scores.left_out.sizes, strict=True)]
    np.testing.assert_array_equal(found.ids, np.concatenate([pilot.ids, ids]))
    np.testing.assert_allclose(found.shares, np.concatenate([own_shares, shares]))
    np.testing.assert_allclose(found.unseen, np.concatenate([scores.unseen, unseen]))


def test_what_is_left_out_is_the_pilot_row_s_own_out_of_fold_value(drawn):
    """A density that depends on answers only through clusters is, without a pilot row, what that row itself sees."""
    clustering, pilot, facts, scores, _, _ = drawn
    labels = clustering.labels[pilot.ids].astype(np.int64)
    prediction = predict(facts.features[pilot.ids], labels, clustering.k, facts.losses, 1 / facts.inclusion)
    densities = candidates(facts, scores.predictions, prediction)
    places = np.arange(pilot.ids.size)
    by_clusters = {"level", "level × distance", "fit"}
    for name in by_clusters | {"uniform", "distance", "signal doubt"}:
        np.testing.assert_allclose(densities[name].without(pilot.ids, places), densities[name].at_pilot, err_msg=name)
        unchanged = np.allclose(densities[name].without(pilot.ids, places), densities[name].everywhere[pilot.ids])
        assert unchanged == (name not in by_clusters), name
    # The prediction without a row has its cluster's effect without it; the regression is that of all rows.
    _, predictions = scores.left_out.others(pilot.ids, places)
    change = prediction.effects_without - prediction.effects[labels]
    np.testing.assert_allclose(predictions, scores.predictions[pilot.ids] + change)
    assert np.any(change != 0)


def test_a_score_that_leaves_nothing_out_keeps_its_shares():
    class Plain(cs.scores.Portfolio):
        def scores(self, evidence):
            found = super().scores(evidence)
            return Scores(found.sizes, found.order, predictions=found.predictions, unseen=found.unseen)

    rows = np.random.default_rng(3).normal(size=(500, 3)).astype(np.float32)
    picked = cs.select(rows, rows[:, 0] ** 2, 60, score=Plain())
    np.testing.assert_array_equal(picked.learned_share, picked.share)
    learned = cs.select(rows, rows[:, 0] ** 2, 60)
    np.testing.assert_array_equal(learned.weights, picked.weights)
    assert np.any(learned.learned_share != learned.share)


@pytest.mark.slow
@pytest.mark.parametrize("rare", [False, True])
def test_the_bias_is_small_and_the_error_is_smaller(rare):
    """1,000 draws of 100 rows with skewed values, and with a cluster of 12 rows that has most of the total.

    The mean error is judged at four of its standard errors (false alarms: 1 in 15,000) plus a tenth of the error.
    """
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(1_200, 4)).astype(np.float32)
    values = np.exp(1.5 * rows[:, 0] + rng.normal(size=1_200))
    if rare:
        rows[:12] += 12
        values[:12] = values.sum() / 6
    clustering, truth = cs.cluster(rows, 10, seed=0), values.sum()
    errors = {"learned": [], "fixed": []}
    for seed in range(1_000):
        picked = cs.select(rows, values, 100, seed, clusters=clustering)
        answers = values[picked.ids]
        errors["learned"].append(cs.estimate(picked, answers, method=cs.estimators.LearnedDifference()).total.value)
        errors["fixed"].append(picked.weights @ answers)
    learned, fixed = (np.array(errors[name]) / truth - 1 for name in ("learned", "fixed"))
    assert abs(learned.mean()) < 0.1 * learned.std() + 4 * learned.std() / np.sqrt(learned.size)
    assert learned.std() < 1.01 * fixed.std()
