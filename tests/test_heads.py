"""Heads: against scikit-learn, on few and odd labels, and their own choice of how much to regularize."""

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression, Ridge

import coresift as cs
from coresift.heads import PENALTIES, RIDGES, TEMPERATURES, LogisticHead, RidgeHead
from coresift.heads.descent import minimize


def classes(n=300, d=8, k=4, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    return 2 * rng.normal(size=(k, d))[y] + spread * rng.normal(size=(n, d)), y


def slow_cross_validation(x, y):
    """Return each penalty's held-out losses at its best temperature, and which labels it predicts, by scikit-learn."""
    scaled = (x - x.mean(axis=0)) / np.sqrt(np.square(x - x.mean(axis=0)).sum(axis=1).mean())
    folds = np.empty(len(y), int)
    folds[np.argsort(y, kind="stable")] = np.arange(len(y)) % 5
    all_losses, right = [], []
    for penalty in PENALTIES:
        scores = np.empty((len(y), len(np.unique(y))))
        for fold in range(5):
            twin = LogisticRegression(C=1 / penalty, tol=1e-8, max_iter=10_000).fit(
                scaled[folds != fold], y[folds != fold]
            )
            scores[folds == fold] = twin.decision_function(scaled[folds == fold])
        tables = [log_softmax(scores / temperature, axis=1) for temperature in TEMPERATURES]
        losses = [-table[np.arange(len(y)), y] for table in tables]
        all_losses.append(min(losses, key=np.sum))
        right.append(scores.argmax(axis=1) == y)
    return all_losses, right


class TestLogisticHead:
    @pytest.mark.parametrize("penalty", [0.01, 1.0])
    def test_it_finds_the_optimum_that_scikit_learn_finds(self, penalty):
        x, y = classes()
        scaled = (x - x.mean(axis=0)) / np.sqrt(np.square(x - x.mean(axis=0)).sum(axis=1).mean())
        twin = LogisticRegression(C=1 / penalty, tol=1e-8, max_iter=10_000).fit(scaled, y)
        head = LogisticHead(penalty=penalty, temperature=1.0).fit(x, y)
        np.testing.assert_allclose(head.predict_proba(x), twin.predict_proba(scaled), atol=5e-3)

    def test_neither_offset_nor_unit_matters(self):
        x, y = classes()
        one, other = LogisticHead().fit(x, y), LogisticHead().fit(1000 * x + 50, y)
        np.testing.assert_allclose(one.predict_proba(x), other.predict_proba(1000 * x + 50), atol=2e-3)

    def test_the_penalty_follows_the_noise(self):
        many, few = classes(n=2000, spread=3.0), classes(n=60, d=40, spread=6.0)
        assert LogisticHead().fit(*many).penalty_ < max(PENALTIES)
        assert LogisticHead().fit(*few).penalty_ == max(PENALTIES)

    @pytest.mark.parametrize("spread", [1.0, 2.0, 3.0, 6.0])
    def test_the_penalty_is_the_strongest_within_one_error_of_the_best(self, spread):
        x, y = classes(n=150, d=20, spread=spread)
        losses, right = slow_cross_validation(x, y)
        best = int(np.argmin([each.sum() for each in losses]))
        expected = next(
            place
            for place, each in enumerate(losses)
            if (each - losses[best]).sum() <= np.std(each - losses[best]) * len(y) ** 0.5
        )
        head, plain = LogisticHead(cautious=True).fit(x, y), LogisticHead().fit(x, y)
        assert (head.penalty_, plain.penalty_) == (PENALTIES[expected], PENALTIES[best])
        assert (head.held_out_ == right[expected]).mean() > 0.97

    def test_the_temperature_makes_confidence_honest(self):
        x, y = classes(n=4000, d=20, spread=4.0)
        head = LogisticHead(penalty=0.001).fit(x[:120], y[:120])
        raw = LogisticHead(penalty=0.001, temperature=1.0).fit(x[:120], y[:120])
        accuracy = (head.predict(x[120:]) == y[120:]).mean()
        gap, raw_gap = (abs(model.predict_proba(x[120:]).max(axis=1).mean() - accuracy) for model in (head, raw))
        assert head.temperature_ > 1
        assert gap < raw_gap / 2

    def test_a_single_class_has_probability_1(self):
        head = LogisticHead().fit(np.eye(3), ["a", "a", "a"])
        assert head.classes_.tolist() == ["a"]
        np.testing.assert_array_equal(head.predict_proba(np.ones((2, 3))), np.ones((2, 1)))

    @pytest.mark.parametrize("y", [[0, 1], [0, 1, 1], [0, 1, 2, 3], [0] * 20 + [1]])
    def test_classes_with_a_single_label_work(self, y):
        x = np.random.default_rng(0).normal(size=(len(y), 5)) + 10 * np.array(y)[:, None]
        head = LogisticHead().fit(x, y)
        assert head.predict_proba(x).sum(axis=1) == pytest.approx(1)
        np.testing.assert_array_equal(head.classes_, np.unique(y))

    def test_a_class_that_turns_up_later_is_learned(self):
        x, y = classes()
        head = LogisticHead().fit(x[y < 3], y[y < 3])
        assert head.classes_.tolist() == [0, 1, 2]
        assert head.fit(x, y).classes_.tolist() == [0, 1, 2, 3]
        assert (head.predict(x) == y).mean() > 0.9

    def test_equal_rows_and_more_columns_than_rows(self):
        equal = LogisticHead().fit(np.ones((4, 3)), [0, 1, 0, 1]).predict_proba(np.ones((1, 3)))
        np.testing.assert_allclose(equal, [[0.5, 0.5]], atol=1e-5)
        x, y = classes(n=20, d=200)
        assert (LogisticHead().fit(x, y).predict(x) == y).all()

    def test_the_same_labels_give_the_same_bytes(self):
        x, y = classes()
        one, other = (LogisticHead().fit(x, y).predict_proba(x) for _ in range(2))
        np.testing.assert_array_equal(one, other)

    @pytest.mark.parametrize(
        ("x", "y", "sentence"),
        [
            (np.ones((3, 2)), [0, 1], "y must be one class for each of the 3 rows"),
            (np.zeros((0, 2)), [], "y must be one class for each of the 0 rows, and at least one row"),
            (np.full((2, 2), np.nan), [0, 1], "X must be a matrix of finite numbers"),
            (np.ones(3), [0, 1, 0], "X must be a matrix of finite numbers"),
            ([["a"]], [0], "X must be a matrix of numbers"),
        ],
    )
    def test_bad_input_is_refused(self, x, y, sentence):
        with pytest.raises(cs.InputError, match=sentence):
            LogisticHead().fit(x, y)


class TestDescent:
    def test_it_finds_the_optimum_that_scipy_finds(self):
        rng = np.random.default_rng(0)
        a, b = rng.normal(size=(60, 8)).astype(np.float32), rng.normal(size=60).astype(np.float32)

        def loss(point):
            scores = a @ point
            value = np.logaddexp(0, -b * scores).sum() + 0.5 * point @ point
            return float(value), (-a.T @ (b / (1 + np.exp(b * scores))) + point).astype(np.float32)

        found = minimize(loss, np.zeros(8, np.float32), 100, 1e-9)
        np.testing.assert_allclose(found, scipy_minimize(lambda p: loss(p)[0], np.zeros(8)).x, atol=1e-3)

    def test_it_stops_where_nothing_lowers_the_value(self):
        start = np.array([1.0, -2.0], np.float32)
        at_once = minimize(lambda point: (0.0, np.zeros(2, np.float32)), start, 10, 1e-7)
        misled = minimize(lambda point: (float(point @ point), -point), start, 10, 1e-7)
        np.testing.assert_array_equal(at_once, start)
        np.testing.assert_array_equal(misled, start)

    def test_a_step_that_is_too_long_is_shortened(self):
        found = minimize(lambda point: (50 * float(point @ point), 100 * point), np.ones(3, np.float32), 50, 1e-9)
        np.testing.assert_allclose(found, np.zeros(3), atol=1e-4)


class TestRidgeHead:
    @pytest.mark.slow
    def test_it_is_scikit_learns_ridge_with_the_least_error_on_rows_left_out(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(40, 6))
        y = x @ rng.normal(size=6) + rng.normal(size=40)
        head = RidgeHead().fit(x, y)
        mean = x.mean(axis=0)
        scaled = (x - mean) / np.sqrt(np.square(x - mean).sum(axis=1).mean())
        np.testing.assert_allclose(head.predict(x), Ridge(head.penalty_).fit(scaled, y).predict(scaled), atol=1e-4)
        # The mean is learned from the other rows too, which the closed form has in first order.
        unit = float((np.linalg.svd(scaled, compute_uv=False) ** 2).mean())
        errors = []
        for ridge in RIDGES:
            out = [
                Ridge(unit * ridge).fit(np.delete(scaled, i, 0), np.delete(y, i)).predict(scaled[[i]])[0] - y[i]
                for i in range(40)
            ]
            errors.append(np.square(out).mean())
        chosen = int(np.argmin(np.abs(np.array(RIDGES) * unit - head.penalty_)))
        assert errors[chosen] <= 1.02 * min(errors)

    def test_the_spread_is_that_of_the_formula(self):
        rng = np.random.default_rng(1)
        x, new = rng.normal(size=(30, 5)), rng.normal(size=(7, 5))
        head = RidgeHead().fit(x, x[:, 0] + rng.normal(size=30))
        mean = x.mean(axis=0)
        unit = np.sqrt(np.square(x - mean).sum(axis=1).mean())
        a, b = (x - mean) / unit, (new - mean) / unit
        inverse = np.linalg.inv(a.T @ a + head.penalty_ * np.eye(5))
        expected = np.sqrt(1 + np.einsum("ij,jk,ik->i", b, inverse, b))
        found = head.predict_spread(new)
        np.testing.assert_allclose(found / found[0], expected / expected[0], rtol=1e-4)

    def test_the_spread_covers_new_targets(self):
        rng = np.random.default_rng(2)
        x = rng.normal(size=(5000, 5))
        y = x @ np.arange(5.0) + rng.normal(size=5000)
        head = RidgeHead().fit(x[:100], y[:100])
        inside = np.abs(head.predict(x) - y) < 1.96 * head.predict_spread(x)
        assert 0.92 < inside.mean() < 0.98

    def test_one_row_and_bad_targets(self):
        assert RidgeHead().fit([[1.0, 2.0]], [3.0]).predict([[5.0, 5.0]]).tolist() == [3.0]
        with pytest.raises(cs.InputError, match="y must be a finite number for each of the 2 rows"):
            RidgeHead().fit(np.ones((2, 2)), [1.0, np.nan])


@pytest.mark.parametrize("option", ["penalty", "temperature"])
def test_options_of_the_logistic_head_must_be_above_zero(option):
    with pytest.raises(cs.InputError, match=f"{option} must be a finite number above 0; got 0"):
        LogisticHead(**{option: 0.0})
