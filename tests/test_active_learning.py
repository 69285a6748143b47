"""Active learning: what it asks, that it depends on nothing but arguments and answers, and that it teaches."""

import numpy as np
import pytest

import coresift as cs
from coresift.audits import FEWEST
from coresift.engine import Local
from coresift.heads import LogisticHead, RidgeHead
from coresift.learning import complete, steps
from coresift.learning.plan import Plan


def problem(n=1500, d=6, k=12, seed=0):
    """Classes of very unequal size, in clusters."""
    rng = np.random.default_rng(seed)
    shares = 0.7 ** np.arange(k)
    y = rng.choice(k, n, p=shares / shares.sum())
    x = 3 * rng.normal(size=(k, d))[y] + rng.normal(size=(n, d))
    return x.astype(np.float32), np.array([f"class {code}" for code in y], object)


def record(run, labels):
    """Answer everything; return the requests and the result."""
    requests = [next(run)]
    try:
        while True:
            requests.append(run.send(labels(requests[-1].ids)))
    except StopIteration as stop:
        return requests, stop.value


def same(one, other):
    return all(np.array_equal(a.ids, b.ids) and a.reason == b.reason for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("budget", "rounds", "audit", "batches", "audits"),
    [
        (300, 4, "auto", (60, 80, 80, 80), (0, 0, 0, 0)),  # a tenth is fewer than 50
        (500, 4, "auto", (90, 120, 120, 120), (0, 0, 0, 50)),
        (2000, 5, 0.1, (360, 360, 360, 360, 360), (0, 50, 50, 50, 50)),
        (500, 2, 60, (88, 352), (0, 60)),
        (200, 1, 100, (100,), (100,)),
        (350, 3, 150, (40, 80, 80), (50, 50, 50)),  # as many audits as rounds
        (1350, 3, 450, (180, 360, 360), (150, 150, 150)),
        (3, 8, None, (1, 1, 1), (0, 0, 0)),
    ],
)
def test_the_plan_shares_out_the_budget(budget, rounds, audit, batches, audits):
    plan = Plan.of(budget, rounds, audit, 10_000)
    assert (plan.batches, plan.audits) == (batches, audits)
    assert sum(batches) + sum(audits) == budget


@pytest.mark.parametrize("budget", [*range(1, 2400, 74), 4000, 5000])
@pytest.mark.parametrize("rounds", [1, 2, 3, 8, 30])
def test_every_plan_spends_its_budget_and_no_audit_is_small(budget, rounds):
    plan = Plan.of(budget, rounds, "auto", 5000)
    assert sum(plan.batches) + sum(plan.audits) == budget
    assert min(plan.batches) >= 1
    assert all(rows == 0 or rows >= FEWEST for rows in plan.audits)
    assert plan.audits[-1] > 0 or not any(plan.audits)


@pytest.mark.slow
def test_rows_are_asked_once_and_the_budget_is_kept():
    x, y = problem()
    requests, learned = record(steps(x, 600, rounds=4), lambda ids: y[ids])
    assert [request.reason for request in requests] == [
        "coverage",
        "uncertainty",
        "uncertainty",
        "uncertainty",
        "audit",
    ]
    assert len(set(learned.ids)) == 600
    np.testing.assert_array_equal(learned.ids, np.concatenate([request.ids for request in requests]))
    np.testing.assert_array_equal(learned.labels, y[learned.ids])
    assert (learned.model.predict(x) == y).mean() > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"numeric": True}])
def test_the_same_answers_give_the_same_requests_whatever_the_threads(options):
    x, y = problem(700)
    answers = x[:, 0].astype(float) if options else y
    runs = [
        record(steps(x, 520, rounds=3, engine=Local(threads=t), seed=5, **options), lambda ids: answers[ids])
        for t in (1, 3)
    ]
    assert same(runs[0][0], runs[1][0])
    assert runs[0][1].audits == runs[1][1].audits


@pytest.mark.slow
def test_a_run_resumes_by_giving_its_answers_again():
    x, y = problem(700)
    whole, _ = record(steps(x, 200, rounds=4), lambda ids: y[ids])
    again = steps(x, 200, rounds=4)
    request = next(again)
    for known in whole[:2]:
        np.testing.assert_array_equal(request.ids, known.ids)
        request = again.send(y[request.ids])
    np.testing.assert_array_equal(request.ids, whole[2].ids)


@pytest.mark.slow
def test_it_teaches_more_than_uniform_rows():
    gains = []
    for seed in range(4):
        x, y = problem(3000, seed=seed)
        learned = complete(steps(x, 60, rounds=4, seed=seed), lambda ids, y=y: y[ids])
        chance = np.random.default_rng(seed).choice(3000, 60, replace=False)
        uniform = LogisticHead().fit(x[chance], y[chance].astype(str))
        gains.append((learned.model.predict(x) == y).mean() - (uniform.predict(x) == y).mean())
    assert np.mean(gains) > 0.01
    assert min(gains) > -0.01


@pytest.mark.slow
def test_rows_that_nobody_can_tell_are_not_asked_again_and_do_not_teach():
    x, y = problem()

    def answer(ids):
        labels = y[ids].copy()
        labels[::3] = None
        labels[1::7] = np.nan
        return labels

    learned = complete(steps(x, 600, rounds=3), answer)
    assert len(set(learned.ids)) == 600
    assert 0.5 < learned.labeled.mean() < 0.62
    assert set(learned.model.classes_) <= set(y)
    (audit,) = learned.audits
    full = complete(steps(x, 600, rounds=3), lambda ids: y[ids]).audits[0]
    assert audit.rows + audit.skipped == 60
    assert audit.high - audit.low > full.high - full.low + 0.2


def test_nobody_can_tell_anything():
    x, _ = problem(300)
    learned = complete(steps(x, 30, rounds=3), lambda ids: np.full(ids.size, None))
    assert learned.model is None
    assert set(learned.reasons) == {"coverage"}


def test_a_single_class_and_one_that_turns_up_later():
    x, y = problem(400)
    seen = []

    def answer(ids):
        seen.append(len(ids))
        return np.array(["only"] * len(ids), object) if len(seen) < 3 else y[ids]

    learned = complete(steps(x, 60, rounds=4), answer)
    assert "only" in learned.model.classes_
    assert len(learned.model.classes_) > 2


def test_known_labels_teach_from_the_start_and_cost_nothing():
    x, y = problem(500)
    known = {int(row): y[row] for row in range(0, 500, 10)}
    requests, learned = record(steps(x, 40, rounds=2, given=known), lambda ids: y[ids])
    assert requests[0].reason == "uncertainty"
    assert len(learned.ids) == 40
    assert not set(learned.ids) & set(known)


def test_excluded_rows_are_never_asked():
    x, y = problem(500)
    learned = complete(steps(x, 100, rounds=3, exclude=np.arange(250)), lambda ids: y[ids])
    assert learned.ids.min() >= 250


@pytest.mark.slow
def test_unsure_rows_are_asked():
    """Two classes side by side: later batches lie near the border."""
    x = np.random.default_rng(0).normal(size=(2000, 2)).astype(np.float32)
    y = np.where(x[:, 0] > 0, "right", "left").astype(object)
    ratios = []
    for seed in range(3):
        requests, _ = record(steps(x, 100, rounds=4, seed=seed), lambda ids: y[ids])
        first, *later = (np.abs(x[request.ids, 0]).mean() for request in requests)
        ratios.append(np.mean(later) / first)
    assert np.mean(ratios) < 0.8


def test_own_probabilities_instead_of_a_head():
    x, y = problem(600, k=3)
    names, codes = np.unique(y.astype(str), return_inverse=True)
    calls = []

    def probabilities(number, ids, labels):
        calls.append((number, ids.size, len(labels)))
        flat = np.full((600, 3), 0.1)
        flat[np.arange(600), codes] = 0.8
        flat[:50] = 1 / 3  # unsure of these
        return flat

    learned = complete(steps(x, 60, rounds=3, probabilities=probabilities, classes=names), lambda ids: y[ids])
    assert calls == [(2, 12, 12), (3, 36, 36)]
    assert (learned.ids[12:] < 50).mean() > 0.3
    arrays = [probabilities(2, learned.ids, y), probabilities(3, learned.ids, y)]
    again = complete(steps(x, 60, rounds=3, probabilities=arrays), lambda ids: codes[ids])
    np.testing.assert_array_equal(again.ids, learned.ids)


@pytest.mark.slow
def test_any_model_with_fit_and_predict_proba_is_a_head():
    from sklearn.naive_bayes import GaussianNB

    x, y = problem(500)
    learned = complete(steps(x, 60, rounds=3, head=GaussianNB()), lambda ids: y[ids])
    assert isinstance(learned.model, GaussianNB)


def test_numbers_have_a_ridge_and_an_audit_of_their_squared_error():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 5))
    y = x @ np.arange(5.0) + rng.normal(size=2000)
    learned = complete(steps(x, 600, rounds=3, numeric=True), lambda ids: y[ids])
    assert isinstance(learned.model, RidgeHead)
    (audit,) = learned.audits
    assert audit.low < np.square(learned.model.predict(x) - y).mean() < audit.high
    assert "mean squared error" in str(audit)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"budget": 0}, "budget must be a whole number of at least 1"),
        ({"rounds": 0}, "rounds must be a whole number of at least 1"),
        ({"audit": 20}, "audit must be from 50 rows to fewer than the budget of 30, or 0 for no audit; got 20"),
        ({"audit": 0.1}, r"audit must be from 50 rows to .*, or 0 for no audit; got 0\.1, which is 3 rows"),
        ({"audit": "all"}, "audit must be a share of the budget, a number of rows, 'auto' or None; got 'all'"),
        ({"audit": 1.5}, "audit must be a number from 0 to 1"),
        ({"head": object()}, "head must be a model with fit and predict_proba; got object"),
        ({"head": LogisticHead(), "probabilities": []}, "head and probabilities exclude each other"),
        ({"exclude": np.arange(40)}, "exclude and given leave no row to ask about"),
        ({"given": {99: "a"}}, "given must be row numbers from 0 to 39"),
        ({"given": {3: "a"}, "exclude": [3]}, "given must be labels of rows that are not excluded; got row 3"),
    ],
)
def test_bad_arguments_are_refused(options, sentence):
    with pytest.raises(cs.InputError, match=sentence):
        steps(np.random.default_rng(0).normal(size=(40, 2)), **{"budget": 30, **options})


def test_bad_answers_are_refused():
    x = np.random.default_rng(0).normal(size=(40, 2))
    run = steps(x, 10, rounds=3)
    next(run)
    with pytest.raises(cs.InputError, match="labels must be one answer for each of 2 rows, None if nobody can tell"):
        run.send(["a"])
    run = steps(x, 10, rounds=3, probabilities=[])
    run.send(None)
    with pytest.raises(cs.InputError, match="probabilities must be an array for each round after the first"):
        run.send(["a", "b"])


def test_copies_fill_a_batch_once_all_that_differs_is_asked():
    x = np.repeat(np.arange(3.0), 20)[:, None]
    requests, learned = record(steps(x, 30, rounds=3), lambda ids: x[ids, 0])
    assert [request.ids.size for request in requests] == [6, 12, 12]
    assert len(set(learned.ids)) == 30
