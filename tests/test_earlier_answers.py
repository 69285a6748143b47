"""What earlier models' results and all texts say about the results of a new model."""

import math

import numpy as np
import pytest

import coresift as cs
from coresift.earlier_answers import (
    NEAR_LENGTH,
    PRIOR_COSINE,
    PRIOR_MODELS,
    SHARPNESS,
    _alike,
    _lengths,
    _word_counts,
    expected_results,
)

ITEMS, MODELS = 60, 7
RNG = np.random.default_rng(3)
WORDS = ["red", "green", "blue", "one", "two", "three", "four", "five", "six", "seven"]


def sentences():
    return [" ".join(RNG.choice(WORDS, RNG.integers(3, 30))) for _ in range(ITEMS)]


@pytest.fixture(scope="module")
def earlier():
    results = (RNG.random((ITEMS, MODELS)) < 0.6).astype(float)
    results[RNG.random(results.shape) < 0.1] = np.nan
    texts = [sentences() for _ in range(MODELS + 1)]
    texts[2][5] = None
    return results, texts


def slowly(results, kinds, texts):
    """Every line and every sum spelled out."""
    means = [np.nanmean(column) for column in results.T]
    counts = _word_counts(texts).toarray().reshape(MODELS + 1, ITEMS, -1)
    logs = [[math.nan if text is None else math.log(1 + len(text)) for text in answers] for answers in texts]

    def line(model, item):
        others = [other for other in range(MODELS) if other != model and not math.isnan(results[item, other])]

        def mean(members):
            return sum(results[item, other] - means[other] for other in members) / (len(members) + PRIOR_MODELS)

        columns = [mean(others)]
        same = [other for other in others if kinds[other] == kinds[model]]
        columns.append(mean(same))
        for part in range(2):
            columns.append(mean([other for other in others if kinds[other][part] == kinds[model][part]]))

        def weighted(members, weight, prior):
            above = sum(weight(other) * (results[item, other] - means[other]) for other in members)
            return above / (sum(map(weight, members)) + prior)

        typical = np.nanmean([logs[other][item] for other in range(MODELS + 1)])
        length = [typical if math.isnan(log[item]) else log[item] for log in logs]
        own = length[model]
        for sharpness in SHARPNESS:
            prior = math.exp(sharpness * (PRIOR_COSINE - 1))
            for members in (others, same):
                columns.append(
                    weighted(
                        members,
                        lambda o, k=sharpness: math.exp(k * (counts[o, item] @ counts[model, item] - 1)),
                        prior,
                    )
                )
        for members in (others, same):
            columns.append(weighted(members, lambda o: math.exp(-(((length[o] - own) / NEAR_LENGTH) ** 2)), 1.0))
        return [*columns, own, own - typical, (own - typical) ** 2]

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
    return np.clip((new - new.mean(axis=0)) / scale, -4, 4) @ slopes


def test_expected_results_are_those_of_a_slow_regression(earlier):
    results, texts = earlier
    kinds = [(f"judge {model % 2}", f"reference {model % 3}") for model in range(MODELS + 1)]
    assert expected_results(results, kinds, texts) == pytest.approx(slowly(results, kinds, texts), abs=1e-9)


def test_the_same_answer_counts_most(earlier):
    """An answer that repeats an earlier one has its result, as far as the prior lets it."""
    results, texts = earlier
    known = np.isfinite(results)
    centered = np.where(known, results - np.nanmean(results, axis=0), 0.0)
    copied = [*texts[:-1], texts[0]]
    everyone = np.ones((MODELS + 1, MODELS), bool)
    means = _alike(centered, known, [everyone], copied, _lengths(copied))[:, -1, len(SHARPNESS) - 1]
    there = known[:, 0]
    assert np.corrcoef(means[there], centered[there, 0])[0, 1] > 0.95


def test_word_vectors_have_length_1_and_ignore_case():
    counts = _word_counts([["Red red blue", None], ["red BLUE red", "..."]])
    assert (counts @ counts.T).toarray() == pytest.approx(np.array([[1, 0, 1, 0], [0] * 4, [1, 0, 1, 0], [0] * 4]))


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
