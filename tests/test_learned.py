"""The learned estimate: exact by enumeration, also when grown, equal to its formula, and better where it can be."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from enumeration import Scripted, samples

import coresift as cs
from coresift.checks import InputError
from coresift.components import leading_components
from coresift.estimation import learned
from coresift.estimation.learned import LearnedDifference, coefficient, coefficient_before
from coresift.phases import kept_part

N = 9
ROWS = np.random.default_rng(0).normal(size=(N, 2)).astype(np.float32)
VALUES = 3 + 2 * ROWS[:, 0].astype(float) + np.array([0.0, 0.5, 0.3, 1.0, 4.0, 0.1, 2.0, 0.7, 0.2])
VALUES -= VALUES.min() - 0.1


@dataclass(frozen=True, eq=False, repr=False)
class _Predicting(cs.scores.Score):
    """Sizes and predictions that depend on every answer, so that nothing but the law keeps totals unbiased."""

    def scores(self, evidence):
        told = float(evidence.losses.sum())
        spread = 0.3 + np.abs(np.sin(told + np.arange(N)))
        guess = told * np.cos(np.arange(N) + told) + 2
        return cs.types.Scores(spread, np.arange(N), predictions=guess, unseen=0.5 * guess[evidence.pilot.ids])


@pytest.fixture(autouse=True)
def few_rows_will_do(monkeypatch):
    monkeypatch.setattr(learned, "FEWEST_ROWS", 2)


def expected(make, design):
    """The expected estimate over every box of the design's uniform numbers, and how often a prediction counted."""
    design.script = None
    make()
    mean = mass = 0.0
    used = 0
    for script, chance in list(samples(design.design, design.seen)):
        design.script = script
        picked = make()
        found = LearnedDifference().adjust(picked, VALUES[picked.ids])
        mean += chance * found.total(picked)
        mass += chance
        used += not found.plain
    assert mass == pytest.approx(1)
    return mean, used


DESIGNS = (cs.designs.Systematic, cs.designs.Pivotal, cs.designs.Independent, cs.designs.Poisson)


@pytest.mark.slow
@pytest.mark.parametrize("kind", DESIGNS)
@pytest.mark.parametrize("frame", [{}, {"given": [4]}, {"exclude": [1]}], ids=str)
def test_given_the_pilot_the_expected_total_does_not_depend_on_the_predictions(kind, frame):
    """Over the second draw, both estimates have one expectation; that of the weights over all is the total."""
    clustering = cs.cluster(ROWS, 2, seed=1)
    counted = 0
    for seed in range(3):
        design = Scripted(kind())

        def make(seed=seed, design=design):
            options = {"clusters": clustering, "score": _Predicting(), "design": design, **frame}
            return cs.select(ROWS, VALUES, 6, seed, pilot=cs.pilots.Representatives(part=0.5), **options)

        mean, used = expected(make, design)
        first = make()
        pilot = first.ids[first.phase == 1]
        carried = (1 - first.share + first.share / first.inclusion)[first.phase == 1]
        fixed, excluded = (np.array(frame.get(name, []), int) for name in ("given", "exclude"))
        plan = cs.pilots.Representatives(part=0.5).plan(clustering, cs.types.Frame(N, fixed, excluded), 6 - fixed.size)
        share = plan.share
        rest = np.setdiff1d(np.arange(N), np.concatenate([pilot, fixed, excluded]))
        truth = carried @ VALUES[pilot] + VALUES[fixed].sum() + (1 - share[rest]) @ VALUES[rest]
        assert mean == pytest.approx(truth)
        counted += used
    assert counted > 5


@pytest.mark.slow
def test_a_grown_selection_stays_unbiased():
    """Given the selection before, E over the new phase is kept·T̂ + (1 − kept)·total, predictions of both included."""
    clustering = cs.cluster(ROWS, 2, seed=1)
    counted = 0
    for seed in range(6):
        design = Scripted(cs.designs.Systematic())
        options = {"clusters": clustering, "score": _Predicting(), "design": design}
        first = cs.select(ROWS, VALUES, 4, seed, pilot=cs.pilots.Representatives(part=0.5), **options)
        before = LearnedDifference().adjust(first, VALUES[first.ids]).total(first)

        def make(first=first):
            return cs.grow(first, VALUES, 7, rows=ROWS, clusters=clustering)

        mean, used = expected(make, design)
        kept = kept_part(planned=4, added=3)
        assert mean == pytest.approx(kept * before + (1 - kept) * VALUES.sum())
        counted += used
        grown = make()
        assert grown.predicted.size == 2
        np.testing.assert_array_equal(grown.predictions[np.isin(grown.ids, first.ids)], first.predictions)
    assert counted > 10


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(3_000, 5)).astype(np.float32)
    return rows, 16 + rows @ [3, -2, 1, 0, 0] + 0.3 * rng.normal(size=3_000)


def slow_total(picked, values, rows, losses, clustering):
    """The formula over all rows, from the score itself."""
    pilot = picked.phase == 1
    frame = cs.types.Frame(len(rows))
    plan = cs.pilots.Representatives().plan(clustering, frame, 300)
    order = np.argsort(picked.order[pilot])
    ids = picked.ids[pilot][order]
    evidence = cs.types.Evidence(
        clustering,
        frame,
        cs.types.PilotSample(ids, plan),
        losses[ids],
        components=leading_components(rows, 5, seed=0),
    )
    scores = cs.scores.Portfolio().scores(evidence)
    standing = (1 - plan.share[ids]) / plan.inclusion[ids]
    b = coefficient(values[ids], scores.unseen, scores.sizes[ids], standing)
    rest = np.setdiff1d(np.arange(len(rows)), ids)
    drawn = picked.ids[picked.phase == 2]
    chance = picked.inclusion[picked.phase == 2]
    total = (1 - plan.share[ids] + plan.share[ids] / plan.inclusion[ids]) @ values[ids]
    total += b * (1 - plan.share[rest]) @ scores.predictions[rest]
    total += ((1 - plan.share[drawn]) * (values[drawn] - b * scores.predictions[drawn]) / chance).sum()
    # What predictions leave is divided between the phases by the learned shares.
    more = dict(zip(picked.ids, picked.learned_share - picked.share, strict=True))
    unseen = dict(zip(picked.ids, picked.unseen, strict=True))
    for row in ids:
        total += more[row] * (1 / plan.inclusion[row] - 1) * (values[row] - b * unseen[row])
    for row, inclusion in zip(drawn, chance, strict=True):
        total -= more[row] * (values[row] - b * unseen[row]) / inclusion
    return total, b


def test_the_default_estimate_is_the_formula_over_all_rows(problem):
    rows, losses = problem
    clustering = cs.cluster(rows, 30, seed=0)
    picked = cs.select(rows, losses, 300, clusters=clustering)
    found = cs.estimate(picked, losses[picked.ids])
    total, b = slow_total(picked, losses, rows, losses, clustering)
    assert found.total.value == pytest.approx(total)
    assert b == pytest.approx(coefficient_before(picked, losses[picked.ids], 2))
    assert found.method.startswith("difference from learned predictions")
    assert cs.estimate(picked, losses[picked.ids], groups=picked.ids % 2)[0].method.startswith("weighted total")


def test_files_keep_what_the_estimate_needs(problem, tmp_path):
    rows, losses = problem
    picked = cs.select(rows, losses, 100)
    for name in ("a.parquet", "a.csv", "a.jsonl"):
        again = cs.load(cs.save(picked, tmp_path / name))
        assert again == picked
        assert cs.estimate(again, losses[picked.ids]) == cs.estimate(picked, losses[picked.ids])


def test_what_features_explain_needs_no_second_draw(problem):
    """Values linear in the features: the standard error is a fraction of the plain total's."""
    rows, losses = problem
    picked = cs.select(rows, losses, 300)
    ours = cs.estimate(picked, losses[picked.ids]).total.standard_error
    plain = cs.estimate(picked, losses[picked.ids], method=cs.estimators.HorvitzThompson()).total.standard_error
    assert ours < 0.7 * plain


def test_few_positives_are_no_reason_to_predict(problem, monkeypatch):
    monkeypatch.setattr(learned, "FEWEST_ROWS", 10)
    rows, losses = problem
    picked = cs.select(rows, losses, 300)
    rare = np.zeros(300)
    rare[np.flatnonzero(picked.phase == 1)[:3]] = 1
    assert coefficient_before(picked, rare, 2) == 0
    adjusted = LearnedDifference().adjust(picked, rare)
    assert adjusted.plain
    assert adjusted.known == 0


def test_a_selection_without_predictions_has_the_plain_total(problem):
    rows, losses = problem
    picked = cs.select(rows, losses, 100, score=cs.scores.Learned())
    assert not picked.predicted.size
    assert cs.estimate(picked, losses[picked.ids]).method.startswith("weighted total")
    with pytest.raises(InputError, match="has no predictions"):
        cs.estimate(picked, losses[picked.ids], method=LearnedDifference())
    columns = {name: np.zeros(100) for name in ("predictions", "sizes", "learned_share", "unseen")}
    with pytest.raises(InputError, match="predicted total for each phase"):
        replace(picked, predicted=np.zeros(3), **columns)
    with pytest.raises(InputError, match="learned shares must be numbers from 0 to 1"):
        replace(picked, predicted=np.zeros(1), **columns | {"learned_share": np.full(100, 2.0)})


def spread(b, values, predicted, sizes, stand_for):
    expanded, weights = (values - b * predicted) / sizes, stand_for * sizes
    return weights @ (expanded - weights @ expanded / weights.sum()) ** 2


def test_the_coefficient_is_nearly_the_best_of_a_grid():
    rng = np.random.default_rng(2)
    for _ in range(20):
        predicted, sizes, stand_for = rng.exponential(size=(3, 400)) + 0.1
        values = rng.uniform(-2, 2) * predicted + sizes * rng.exponential(size=400)
        case = (values, predicted, sizes, stand_for)
        best = min(spread(b, *case) for b in np.linspace(-3, 3, 601))
        assert spread(coefficient(*case), *case) <= 1.02 * best


def test_a_slope_that_may_be_noise_is_taken_back():
    rng = np.random.default_rng(4)
    found = [coefficient(*rng.normal(size=(2, 100)), np.ones(100), np.ones(100)) for _ in range(200)]
    assert np.mean(np.array(found) == 0) > 0.5
    assert np.mean(np.square(found)) < 0.01


@pytest.mark.parametrize("factor", [-1.0, 1e-200, 1e200])
def test_other_units_give_the_same_estimate(problem, factor):
    rows, losses = problem
    picked = cs.select(rows, losses, 100)
    one, other = (cs.estimate(picked, part * losses[picked.ids]).total for part in (1.0, factor))
    assert other.value == pytest.approx(factor * one.value)
    assert other.standard_error == pytest.approx(abs(factor) * one.standard_error)


def test_draws_in_proportion_to_the_prediction_need_none():
    rng = np.random.default_rng(3)
    sizes = rng.exponential(size=200) + 0.1
    values = 5 * sizes * rng.uniform(0.9, 1.1, size=200)
    assert coefficient(values, sizes**2, sizes, np.ones(200)) < 0.1
