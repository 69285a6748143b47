"""What earlier models' results and all texts say about the results of a new model."""

import math

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import coresift as cs
from coresift.answer_texts import SHARPNESS, STYLE_POWER, Likeness, answer_lengths, styles, word_counts
from coresift.earlier_answers import PRIOR_MODELS, expected_results
from coresift.kriging import LEAST_OWN, SAME_PAIRS, TINY, predictions

ITEMS, MODELS = 60, 7
RNG = np.random.default_rng(3)
WORDS = ["red", "green", "blue", "one", "two", "three", "four", "five", "six", "seven"]


def sentences():
    return [" ".join(RNG.choice(WORDS, RNG.integers(3, 30))) for _ in range(ITEMS)]


@pytest.fixture(scope="module")
def earlier():
    results = (RNG.random((ITEMS, MODELS)) < 0.6).astype(float)
    results[RNG.random(results.shape) < 0.1] = np.nan
    results[11] = np.nan  # nobody's result of this item is known
    texts = [sentences() for _ in range(MODELS + 1)]
    texts[2][5] = None
    return results, texts


def slow_kernels(texts):
    """Return how alike the answers of two models to an item are, in four ways."""
    counts = word_counts(texts).toarray().reshape(len(texts), ITEMS, -1)
    lengths = answer_lengths(texts)

    def kernels(item, one, other):
        similar = math.exp(SHARPNESS * (counts[one, item] @ counts[other, item] - 1))
        near = math.exp(-((lengths[item, one] - lengths[item, other]) ** 2))
        return [1.0, similar, near, similar * near]

    return kernels


def slow_predictions(results, kernels, groups, like_new):
    """Regress products of results on kernels of all pairs, and leave every result out in turn."""
    known, models = ~np.isnan(results), results.shape[1]

    def products(item, one, other):
        return np.array([kernel * group[one, other] for kernel in kernels(item, one, other) for group in groups])

    design, answers = [], []
    for item in range(len(results)):
        for one in range(models):
            for other in range(models):
                if one != other and known[item, one] and known[item, other]:
                    weight = math.sqrt(SAME_PAIRS if like_new[one] and like_new[other] else 1)
                    design.append(weight * products(item, one, other))
                    answers.append(weight * results[item, one] * results[item, other])
    coefficients = nonnegative(np.array(design), np.array(answers))
    predicted = np.zeros((len(results), models + 1))
    for item in range(len(results)):
        for model in range(models + 1):
            others = [other for other in range(models) if other != model and known[item, other]]
            if not others:
                continue
            covariance = np.array([[coefficients @ products(item, one, other) for other in others] for one in others])
            np.fill_diagonal(covariance, np.maximum(1, (1 + LEAST_OWN) * covariance.diagonal()))
            with_new = np.array([coefficients @ products(item, model, other) for other in others])
            predicted[item, model] = with_new @ np.linalg.solve(covariance, results[item, others])
    return predicted


def nonnegative(design, answers):
    """Nonnegative least squares by projected gradient steps with momentum."""
    normal, right = design.T @ design, design.T @ answers
    normal += TINY * np.trace(normal) / len(normal) * np.eye(len(normal))
    step = 1 / np.linalg.eigvalsh(normal)[-1]
    now = ahead = np.zeros(len(right))
    for number in range(60_000):
        after = np.maximum(ahead - step * (normal @ ahead - right), 0)
        # Momentum that starts anew whenever it leads away from the descent.
        speed = 0.0 if (ahead - after) @ (after - now) > 0 else number / (number + 3)
        now, ahead = after, after + speed * (after - now)
    return now


def slowly(results, kinds, texts):
    """Every line and every sum spelled out."""
    means = np.nanmean(results, axis=0)
    alike = [
        np.ones((MODELS + 1, MODELS + 1)),
        np.array([[float(one == other) for other in kinds] for one in kinds]),
        *(np.array([[float(one[part] == other[part]) for other in kinds] for one in kinds]) for part in range(2)),
    ]
    style = slow_styles(texts)
    groups = [*alike, *(own * style for own in alike)]
    deviations = np.nanstd(results, axis=0)
    like_new = alike[1][-1, :-1] > 0
    standard = slow_predictions((results - means) / deviations, slow_kernels(texts), groups, like_new)
    predicted = standard * np.append(deviations, math.sqrt(np.mean(deviations[like_new] ** 2)))
    counts = word_counts(texts).toarray().reshape(MODELS + 1, ITEMS, -1)
    lengths = answer_lengths(texts)

    def line(model, item):
        others = [other for other in range(MODELS) if other != model and not math.isnan(results[item, other])]
        columns = []
        for own in alike:
            members = [other for other in others if own[model, other]]
            columns.append(sum(results[item, o] - means[o] for o in members) / (len(members) + PRIOR_MODELS))
        columns += [predicted[item, model] ** power for power in (1, 2, 3)]
        relative = lengths[item, model] - lengths[item].mean()
        usual = np.mean([counts[model, item] @ counts[other, item] for other in range(MODELS + 1)])
        return [*columns, lengths[item, model], relative, relative**2, usual]

    design, answers = [], []
    for model in range(MODELS):
        known = np.flatnonzero(np.isfinite(results[:, model]))
        lines = np.array([line(model, item) for item in known])
        design.append(lines - lines.mean(axis=0))
        answers.append(results[known, model] - means[model])
    scale = np.concatenate(design).std(axis=0)
    x, y = np.clip(np.concatenate(design) / scale, -4, 4), np.concatenate(answers)
    slopes = np.linalg.lstsq(np.vstack([x, 10 * np.eye(x.shape[1])]), np.append(y, np.zeros(x.shape[1])), rcond=None)[0]
    new = np.array([line(MODELS, item) for item in range(ITEMS)])
    left, start = np.full(results.shape, np.nan), 0
    for model in range(MODELS):
        known = np.flatnonzero(np.isfinite(results[:, model]))
        rows = slice(start, start + len(known))
        left[known, model] = y[rows] - x[rows] @ slopes
        start += len(known)
    return np.clip((new - new.mean(axis=0)) / scale, -4, 4) @ slopes, left


def slow_styles(texts):
    """Return how alike models write, from the words of all their answers."""
    counts = word_counts(texts).toarray().reshape(len(texts), ITEMS, -1).sum(axis=1)
    used = [(own / own.sum()) ** STYLE_POWER for own in counts]
    used = [own / np.linalg.norm(own) for own in used]
    squares = np.array([[np.sum((one - other) ** 2) for other in used] for one in used])
    usual = np.median([squares[i, j] for i in range(len(used)) for j in range(len(used)) if i != j])
    return np.exp(-squares / usual)


def test_expected_results_are_those_of_a_slow_regression(earlier):
    results, texts = earlier
    kinds = [(f"judge {model % 2}", f"reference {model % 3}") for model in range(MODELS + 1)]
    expected, left = expected_results(results, kinds, texts)
    slow_expected, slow_left = slowly(results, kinds, texts)
    assert expected == pytest.approx(slow_expected, abs=1e-6)
    assert left == pytest.approx(slow_left, abs=1e-6, nan_ok=True)


def test_predictions_without_texts_are_those_with_texts_that_do_not_differ(earlier):
    """Without texts, items for which the same results are known are predicted together."""
    results, _ = earlier
    known = ~np.isnan(results)
    standard = np.where(known, results - np.nanmean(results, axis=0), 0.0)
    groups = np.stack([np.ones((8, 8)), np.kron(np.eye(2), np.ones((4, 4)))])
    like_new = np.arange(MODELS) > 3
    together = predictions(standard, known, None, groups, like_new)
    one_by_one = predictions(standard, known, lambda item: np.ones((1, 8, 8)), groups, like_new)
    assert together == pytest.approx(one_by_one, abs=1e-12)


@pytest.mark.parametrize("size", [1.0, 1e99])
def test_poor_tables_have_finite_signals(size):
    """Two models, models that are always right, items without results, answers that are empty, missing or the same."""
    items = 6
    results = size * RNG.integers(0, 2, (items, 3)).astype(float)
    results[:, 1] = size
    results[3] = np.nan
    answers = [["", "one", None, "two", "two", "..."]] * 4
    for columns in (results, results[:, :2], results[:, [1, 1]]):
        models = columns.shape[1] + 1
        for options in ({"kinds": ["a"] * models}, {"texts": answers[:models]}, {"texts": [[None] * items] * models}):
            table = cs.signals.history(columns, **options)
            assert np.isfinite(table.columns).all()
            assert np.isfinite(table.scales).all()


def test_bytes_do_not_depend_on_the_threads_of_linear_algebra():
    items, models = 400, 40
    results = (RNG.random((items, models)) < 0.6).astype(float)
    texts = [[" ".join(RNG.choice(WORDS, 3)) for _ in range(items)] for _ in range(models + 1)]
    kinds = [(str(model % 3),) for model in range(models + 1)]
    found = []
    for count in (1, 2):
        with threadpool_limits(count, user_api="blas"):
            found.append(np.column_stack(expected_results(results, kinds, texts)))
    np.testing.assert_array_equal(found[0], found[1])


def test_copies_of_an_answer_do_not_count_as_often_as_there_are_copies():
    """Nine earlier models give the same answer and have the same result; in a mean, they would count nine times."""
    items = 300
    first, second = (RNG.choice([-1.0, 1.0], items) for _ in range(2))
    results = np.stack([*[first] * 9, second], axis=1)
    texts = ["copy {} of a long text", "something else number {}", "copy {} something"]
    copied, other, new = ([text.format(item) for item in range(items)] for text in texts)
    kernels = Likeness.of([*[copied] * 9, other, new]).kernels
    predicted = predictions(results, np.ones(results.shape, bool), kernels, np.ones((1, 11, 11)), np.zeros(10, bool))
    assert np.abs(predicted[:, :9] - first[:, None]).max() < 0.1
    slopes = np.linalg.lstsq(np.stack([first, second], axis=1), predicted[:, -1], rcond=None)[0]
    assert 0 < slopes[1] < slopes[0] < 4 * slopes[1]


def test_word_vectors_have_length_1_and_ignore_case():
    counts = word_counts([["Red red blue", None], ["red BLUE red", "..."]])
    assert (counts @ counts.T).toarray() == pytest.approx(
        np.array([[1, 0, 1, 0], [0, 0, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]])
    )


def test_styles_compare_what_models_write_over_all_items():
    lists, prose = ["* one\n* two", "* red\n* blue"], ["One, and two.", "Red, and blue."]
    alike = styles(word_counts([lists, lists[::-1], prose]), 3)
    assert alike.diagonal() == pytest.approx(np.ones(3))
    assert alike[0, 1] > 0.99
    assert alike[0, 2] < 0.5


def test_models_judged_in_the_same_way_tell_most():
    """Two judges who disagree about every item: only the kind tells which one will judge the new model."""
    easy = RNG.random(400) < 0.5
    chance = np.where(easy, 0.9, 0.1)
    judged = [chance if model % 2 else 1 - chance for model in range(21)]
    results = np.stack([(RNG.random(400) < own).astype(float) for own in judged], axis=1)
    table = cs.signals.history(results[:, :-1], kinds=[model % 2 for model in range(21)])
    assert table.names[0] == "expected"
    assert table.sizes[0]
    assert np.corrcoef(table.columns[:, 0], results[:, -1])[0, 1] > 0.7
    # Without kinds, the mean of both judges says nothing before there are answers.
    ease = cs.signals.history(results[:, :-1]).columns[:, 0]
    assert abs(np.corrcoef(ease, results[:, -1])[0, 1]) < 0.35


def test_numbers_that_are_not_chances_are_no_sizes():
    table = cs.signals.history(RNG.normal(size=(30, 5)), kinds=list("aabbab"))
    assert table.names[0] == "expected"
    assert not table.sizes.any()


@pytest.mark.parametrize(
    ("results", "options", "message"),
    [
        (np.eye(4), {"kinds": ["a"] * 4}, "kinds must be 5 entries, the new model's last; got 4"),
        (np.eye(4), {"kinds": "ababa"}, "kinds must be a list with the kind of each model"),
        (np.eye(4), {"kinds": 3}, "kinds must be a list with the kind of each model"),
        (
            np.eye(4),
            {"kinds": ["a", None, "a", "a", "b"]},
            "kinds must be known for every model; got a missing kind of model 1",
        ),
        (np.eye(4), {"kinds": [()] * 5}, "kinds must be names, or tuples of equally many names"),
        (np.eye(4), {"texts": 5}, "texts must be one list of answers per model"),
        (np.eye(4), {"texts": ["abcd"] * 5}, "texts must be one list of answers per model; got str for model 0"),
        (np.eye(4), {"texts": [["a", "b", 1.5, "c"]] * 5}, r"got float in texts\[0\]\[2\]"),
        (np.eye(4), {"kinds": ["a", ("a", "b"), "a", "a", "a"]}, "tuples of equally many names"),
        (np.eye(4), {"texts": [["a"] * 4] * 4}, "texts must be 5 lists of 4 answers, one list per model"),
        (np.eye(4), {"texts": [["a"] * 3] * 5}, "got 5 lists of 3 answers"),
        (np.ones((4, 1)), {"kinds": ["a", "a"]}, "at least two models"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(results, options, message):
    with pytest.raises(cs.InputError, match=message):
        cs.signals.history(results, **options)
