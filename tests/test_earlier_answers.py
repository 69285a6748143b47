"""What earlier models' results and all texts say about the results of a new model."""

import math

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import coresift as cs
from coresift.answer_texts import (
    OPENING,
    OPENING_SHARPNESS,
    SHARPNESS,
    STYLE_POWER,
    TOPIC_SHARPNESS,
    Likeness,
    answer_lengths,
    styles,
    topics,
    word_counts,
)
from coresift.earlier_answers import ALIKE_PENALTY, CENTERS, PENALTY, PRIOR_MODELS, REACH, TINY, expected_results
from coresift.kriging import PULL, Covariance, LeftOut, learned, predictions
from coresift.progress import Progress
from coresift.signal_table import signal_table

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
    """Return how alike the answers of two models to an item are, in seven ways."""
    beginnings = [[text and text[:OPENING] for text in answers] for answers in texts]
    counts, openings = (word_counts(own).toarray().reshape(len(texts), ITEMS, -1) for own in (texts, beginnings))
    lengths = answer_lengths(texts)

    def kernels(item, one, other):
        cosine, opened = (own[one, item] @ own[other, item] for own in (counts, openings))
        similar = math.exp(SHARPNESS * (cosine - 1))
        near = math.exp(-((lengths[item, one] - lengths[item, other]) ** 2))
        # These texts have fewer different words than there are topics, so topics leave nothing out.
        about = math.exp(TOPIC_SHARPNESS * (cosine - 1))
        return [1.0, similar, near, similar * near, about, *(math.exp(s * (opened - 1)) for s in OPENING_SHARPNESS)]

    return kernels


def slow_covariances(kernels, covariance, item, models):
    """Return how all pairs of models' results on an item vary together."""
    found = np.zeros((models, models))
    for one in range(models):
        for other in range(models):
            for kernel, coefficients in zip(kernels(item, one, other), covariance.coefficients, strict=True):
                found[one, other] += kernel * sum(
                    coefficient * group[one, other]
                    for coefficient, group in zip(coefficients, covariance.groups, strict=True)
                )
    return found


def slow_predictions(results, kernels, covariance):
    """Predict every result from the others: their best linear combination, and the variance that it leaves."""
    known, models = ~np.isnan(results), results.shape[1]
    predicted, left = (np.zeros((len(results), models + 1)) for _ in range(2))
    for item in range(len(results)):
        among = slow_covariances(kernels, covariance, item, models + 1)
        for model in range(models + 1):
            others = [other for other in range(models) if other != model and known[item, other]]
            inside = among[np.ix_(others, others)] + covariance.own * np.eye(len(others))
            weights = np.linalg.solve(inside, among[others, model])
            predicted[item, model] = weights @ results[item, others]
            left[item, model] = among[model, model] - weights @ among[others, model]
    return predicted, left


def standardized(results):
    return (results - np.nanmean(results, axis=0)) / np.nanstd(results, axis=0)


def groups_of(kinds, texts):
    """Return which models are judged in the same way, in all respects and in each, and how alike they write."""
    alike = [
        np.ones((MODELS + 1, MODELS + 1)),
        np.array([[float(one == other) for other in kinds] for one in kinds]),
        *(np.array([[float(one[part] == other[part]) for other in kinds] for one in kinds]) for part in range(2)),
    ]
    style = slow_styles(texts)
    return alike, np.stack([*alike, *(own * style for own in alike)])


def slowly(results, kinds, texts):
    """Every line and every sum spelled out."""
    means, deviations = np.nanmean(results, axis=0), np.nanstd(results, axis=0)
    alike, groups = groups_of(kinds, texts)
    standard = standardized(results)
    filled, known = np.nan_to_num(standard), ~np.isnan(standard)
    covariance = learned(filled, known, Likeness.of(texts).kernels, groups, Progress())
    predicted, doubt = slow_predictions(standard, slow_kernels(texts), covariance)
    like_new = alike[1][-1, :-1] > 0
    predicted = predicted * np.append(deviations, math.sqrt(np.mean(deviations[like_new] ** 2)))
    predicted /= np.abs(predicted).max()
    counts = word_counts(texts).toarray().reshape(MODELS + 1, ITEMS, -1)
    lengths = answer_lengths(texts)

    def line(model, item):
        others = [other for other in range(MODELS) if other != model and not math.isnan(results[item, other])]
        columns = [predicted[item, model], math.log(doubt[item, model])]
        for own in alike:
            members = [other for other in others if own[model, other]]
            columns.append(sum(results[item, o] - means[o] for o in members) / (len(members) + PRIOR_MODELS))
        relative = lengths[item, model] - lengths[item].mean()
        usual = np.mean([counts[model, item] @ counts[other, item] for other in range(MODELS + 1)])
        columns += [lengths[item, model], relative, usual]
        bent = predicted[item, model]
        return columns, [*columns, bent**2, bent**3, bent / math.sqrt(doubt[item, model]), relative**2]

    answered = [np.flatnonzero(np.isfinite(results[:, model])) for model in range(MODELS)]
    rows = [*answered, np.arange(ITEMS)]
    basics = [np.array([line(model, item)[0] for item in own]) for model, own in enumerate(rows)]
    lines = [np.array([line(model, item)[1] for item in own]) for model, own in enumerate(rows)]
    y = [results[own, model] - means[model] for model, own in enumerate(answered)]
    scale = np.concatenate([own - own.mean(axis=0) for own in lines[:-1]]).std(axis=0)
    pooled = np.concatenate(basics[:-1])
    near = [np.clip((own - pooled.mean(axis=0)) / pooled.std(axis=0), -4, 4) for own in basics]
    everything = np.concatenate(near[:-1])
    centers = everything[np.linspace(0, len(everything) - 1, min(CENTERS, len(everything))).round().astype(int)]

    def gaussian(own):
        unit = 2 * REACH * own.shape[1]
        return np.array([[math.exp(-np.sum((x - center) ** 2) / unit) for center in centers] for x in own])

    def columns(model):
        wide = gaussian(near[model])
        linear = np.clip((lines[model] - lines[model].mean(axis=0)) / scale, -4, 4)
        return np.concatenate([linear, wide - wide.mean(axis=0)], axis=1)

    # The penalty of the Gaussian kernel is that of the functions' smoothness, written in the weights of the centers.
    penalty = np.diag(np.append(np.full(len(scale), PENALTY), np.zeros(len(centers))))
    penalty[len(scale) :, len(scale) :] = ALIKE_PENALTY * (gaussian(centers) + TINY * np.eye(len(centers)))
    x = np.concatenate([columns(model) for model in range(MODELS)])
    slopes = np.linalg.solve(x.T @ x + penalty, x.T @ np.concatenate(y))
    left = np.full(results.shape, np.nan)
    for model, own in enumerate(answered):
        left[own, model] = y[model] - columns(model) @ slopes
    return columns(MODELS) @ slopes, left


def slow_level(results, kinds, texts):
    """Return the mean to expect of the new model: the best linear prediction from the means of the others."""
    means, (_, groups) = np.nanmean(results, axis=0), groups_of(kinds, texts)
    standard = ((means - means.mean()) / means.std())[None]
    every = np.ones((1, MODELS + 1, MODELS + 1))
    covariance = learned(standard, np.ones((1, MODELS), bool), lambda _: every, groups, Progress())
    predicted, _ = slow_predictions(standard, lambda item, one, other: [1.0], covariance)
    return means.mean() + means.std() * predicted[0, -1]


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
    expected, left = expected_results(results, kinds, texts, Progress())
    slow_expected, slow_left = slowly(results, kinds, texts)
    assert expected == pytest.approx(slow_level(results, kinds, texts) + slow_expected, abs=1e-6)
    assert left == pytest.approx(slow_left, abs=1e-6, nan_ok=True)


def problem_of(earlier):
    """Return the errors of results left out as a function of the covariance, with its kernels and groups."""
    results, texts = earlier
    kinds = [(f"judge {model % 2}", f"reference {model % 3}") for model in range(MODELS + 1)]
    standard, (_, groups) = standardized(results), groups_of(kinds, texts)
    known, kernels = ~np.isnan(standard), slow_kernels(texts)
    pairs = np.array(
        [[[kernels(item, one, other) for other in range(MODELS)] for one in range(MODELS)] for item in range(ITEMS)]
    ).transpose(0, 3, 1, 2)
    both = known[:, None, :, None] & known[:, None, None, :]
    own_groups = groups[:, :-1, :-1]
    start = np.log(RNG.uniform(0.01, 0.2, pairs.shape[1] * len(groups) + 1))
    return LeftOut(np.nan_to_num(standard), np.where(both, pairs, 0.0), own_groups, start), standard, kernels, groups


def test_the_errors_that_a_covariance_is_learned_from_are_those_of_results_left_out(earlier):
    problem, standard, kernels, groups = problem_of(earlier)
    logarithms = problem.start + RNG.normal(size=problem.start.size) / 2
    numbers = np.exp(logarithms)
    covariance = Covariance(groups, numbers[:-1].reshape(-1, len(groups)), numbers[-1])
    predicted, _ = slow_predictions(standard, kernels, covariance)
    slow = np.nansum((standard - predicted[:, :-1]) ** 2) + PULL * np.sum((logarithms - problem.start) ** 2)
    total, gradient = problem(logarithms)
    assert total == pytest.approx(slow, rel=1e-9)
    for place in RNG.choice(logarithms.size, 12, replace=False):
        step = 1e-5 * (np.arange(logarithms.size) == place)
        slope = (problem(logarithms + step)[0] - problem(logarithms - step)[0]) / 2e-5
        assert gradient[place] == pytest.approx(slope, rel=1e-5, abs=1e-5)


def test_a_covariance_is_learned_that_leaves_small_errors():
    """Results of two kinds are alike within a kind only, and one half of their variance is their own."""
    items, models = 600, 12
    common = RNG.normal(size=(items, 2))
    results = np.repeat(common, models // 2, axis=1) + RNG.normal(size=(items, models))
    results /= results.std(axis=0)
    kind = np.kron(np.eye(2), np.ones((models // 2, models // 2)))
    with_new = np.pad(kind, (0, 1), mode="edge")
    groups = np.stack([np.ones((models + 1, models + 1)), with_new])
    every = np.ones((1, models + 1, models + 1))
    found = learned(results, np.ones(results.shape, bool), lambda _: every, groups, Progress())
    # Predictions do not change with the unit of the covariance.
    assert found.coefficients[0] / found.own == pytest.approx([0, 1], abs=0.2)


def test_predictions_without_texts_are_those_with_texts_that_do_not_differ(earlier):
    """Without texts, items for which the same results are known are predicted together."""
    results, _ = earlier
    known = ~np.isnan(results)
    standard = np.where(known, results - np.nanmean(results, axis=0), 0.0)
    groups = np.stack([np.ones((8, 8)), np.kron(np.eye(2), np.ones((4, 4)))])
    together = predictions(standard, known, None, groups, Progress())
    one_by_one = predictions(standard, known, lambda item: np.ones((1, 8, 8)), groups, Progress())
    assert together.values == pytest.approx(one_by_one.values, abs=1e-12)
    assert together.variances == pytest.approx(one_by_one.variances, abs=1e-12)


def test_a_covariance_is_learned_from_a_part_of_many_models():
    """There are forty kinds, one after another, so the part must keep each model's kind."""
    items, models = 300, 200
    kind = np.arange(models + 1) % 40
    results = RNG.normal(size=(items, 40))[:, kind[:-1]] + RNG.normal(size=(items, models))
    groups = np.stack([np.ones((models + 1, models + 1)), (kind[:, None] == kind).astype(float)])
    every = np.ones((1, models + 1, models + 1))
    found = learned(results / math.sqrt(2), np.ones(results.shape, bool), lambda _: every, groups, Progress())
    assert found.coefficients[0] / found.own == pytest.approx([0, 1], abs=0.2)


def test_a_covariance_is_not_learned_from_unknown_results():
    """Kernels of answers without a known result make no difference."""
    items, models = 80, 6
    results = RNG.normal(size=(items, 1)) + RNG.normal(size=(items, models))
    known = RNG.random(results.shape) < 0.7
    groups = np.ones((1, models + 1, models + 1))
    found = []
    for other in (0.2, 0.9):
        alike = np.full((items, models + 1, models + 1), 0.5)
        for item in range(items):
            gone = np.append(~known[item], False)
            alike[item][gone] = alike[item][:, gone] = other
        kernels = [np.stack([np.ones_like(own), own]) for own in alike]
        found.append(learned(np.where(known, results, 0.0), known, kernels.__getitem__, groups, Progress()))
    np.testing.assert_array_equal(found[0].coefficients, found[1].coefficients)


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


@pytest.mark.parametrize("value", [0.1, 0.3, 0.7])
def test_a_model_with_equal_results_says_nothing(value):
    """Its results differ from their mean by rounding errors."""
    results = np.random.default_rng(8).integers(0, 2, (97, 8)).astype(float)
    found = []
    for equal in (0.25, value):
        table = cs.signals.history(np.column_stack([results, *[np.full(97, equal)] * 3]), kinds=["a"] * 12)
        found.append(table.columns[:, 0] - table.columns[:, 0].mean())
    assert found[1] == pytest.approx(found[0], abs=1e-9)
    assert cs.signals.history(np.full((97, 3), value)).names[-1] in ("ease", "chance")


def test_texts_may_have_half_a_character():
    """As files have that were read with errors="surrogateescape"."""
    assert np.isfinite(cs.signals.history(np.eye(4), texts=[["\ud800 a", "b", "c \udcff", "d"]] * 5).columns).all()


def test_bytes_do_not_depend_on_the_threads_of_linear_algebra():
    items, models = 400, 40
    results = (RNG.random((items, models)) < 0.6).astype(float)
    texts = [[" ".join(RNG.choice(WORDS, 3)) for _ in range(items)] for _ in range(models + 1)]
    kinds = [(str(model % 3),) for model in range(models + 1)]
    found = []
    for count in (1, 2):
        with threadpool_limits(count, user_api="blas"):
            found.append(cs.signals.history(results, kinds=kinds, texts=texts).columns)
    np.testing.assert_array_equal(found[0], found[1])


def test_copies_of_an_answer_do_not_count_as_often_as_there_are_copies():
    """Nine earlier models give the same answer and have the same result; in a mean, they would count nine times."""
    items = 300
    first, second = (RNG.choice([-1.0, 1.0], items) for _ in range(2))
    results = np.stack([*[first] * 9, second], axis=1)
    texts = ["copy {} of a long text", "something else number {}", "copy {} something"]
    copied, other, new = ([text.format(item) for item in range(items)] for text in texts)
    kernels = Likeness.of([*[copied] * 9, other, new]).kernels
    predicted = predictions(results, np.ones(results.shape, bool), kernels, np.ones((1, 11, 11)), Progress()).values
    assert np.abs(predicted[:, :9] - first[:, None]).max() < 0.1
    slopes = np.linalg.lstsq(np.stack([first, second], axis=1), predicted[:, -1], rcond=None)[0]
    assert 0 < slopes[1] < slopes[0] < 4 * slopes[1]


def test_word_vectors_have_length_1_and_ignore_case():
    counts = word_counts([["Red red blue", None], ["red BLUE red", "..."]])
    assert (counts @ counts.T).toarray() == pytest.approx(
        np.array([[1, 0, 1, 0], [0, 0, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]])
    )


def test_topics_keep_all_of_texts_with_few_words():
    counts = word_counts([sentences(), sentences()])
    about = topics(counts)
    assert about @ about.T == pytest.approx((counts @ counts.T).toarray(), abs=1e-9)


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
    assert table.names[:2] == ("expected", "chance")
    assert table.sizes.nonzero()[0].tolist() == [1]
    assert np.corrcoef(table.columns[:, 0], results[:, -1])[0, 1] > 0.7
    # Without kinds, the mean of both judges says nothing before there are answers.
    ease = cs.signals.history(results[:, :-1]).columns[:, 0]
    assert abs(np.corrcoef(ease, results[:, -1])[0, 1]) < 0.35


def test_a_model_that_writes_like_good_models_is_expected_to_be_good():
    """Ten models write long answers and are right nine times in ten; ten others write a word and are seldom right."""
    items, rng = 200, np.random.default_rng(12)
    good = np.arange(20) % 2 == 0
    results = (rng.random((items, 20)) < np.where(good, 0.9, 0.3)).astype(float)
    texts = [[" ".join(rng.choice(WORDS[:5] if own else WORDS[5:], 8)) for _ in range(items)] for own in good]
    levels = []
    for new in (texts[0], texts[1]):
        table = cs.signals.history(results[:, 2:], texts=[*texts[2:], new])
        levels.append(float(table.columns[:, 0].mean()))
    assert levels == pytest.approx([0.9, 0.3], abs=0.06)


def test_a_mean_of_few_results_is_no_level():
    """Eight models are right four times in five; two others have one result each, a wrong one."""
    results = (RNG.random((200, 10)) < 0.8).astype(float)
    results[1:, 8:], results[0, 8:] = np.nan, 0.0
    table = cs.signals.history(results, kinds=["a"] * 11)
    assert table.columns[:, 0].mean() == pytest.approx(0.8, abs=0.05)


def test_what_is_expected_is_calibrated_and_ease_is_not():
    """And nothing is calibrated with few models, or if none was judged like the new one."""
    results = (RNG.random((50, 8)) < RNG.random((50, 1))).astype(float)
    ease, expected = cs.signals.history(results), cs.signals.history(results, kinds=["a"] * 9)
    assert not ease.calibrated.any()
    assert not cs.signals.history(results[:, :3], kinds=["a"] * 4).calibrated.any()
    assert not cs.signals.history(results, kinds=["a"] * 8 + ["b"]).calibrated.any()
    assert [name for name, own in zip(expected.names, expected.calibrated, strict=True) if own] == ["chance"]
    mixed = signal_table({"noise": RNG.random(50), "history": expected}, 50)
    assert mixed.names[1:] == expected.names
    assert mixed.calibrated.tolist() == [False, *expected.calibrated]


def test_a_plan_reads_calibrated_chances_before_other_signals():
    results = (RNG.random((400, 8)) < RNG.random((400, 1))).astype(float)
    signals = {"noise": RNG.random(400), "history": cs.signals.history(results[:, :-1], kinds=["a"] * 8)}
    run = cs.evaluate(values=results[:, -1], signals=signals, metric="rate", within=0.2)
    assert run.plan().basis == "each row's chance, learned from earlier results"
    assert run.plan().answers == run.complete().asked == 200  # a pilot has 200, however wide an interval may be


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
