"""The sentences: each check lets through what is allowed, and says what is wrong, what is allowed and what came."""

import numpy as np
import pandas as pd
import pytest

import coresift as cs
from coresift.checks import (
    AnswerError,
    CoresiftError,
    CoresiftWarning,
    InputError,
    loss_vector,
    positive,
    real_vector,
    refuse,
    row_numbers,
    share,
    whole,
)


def sentence(check, *arguments, error=InputError, **options):
    with pytest.raises(error) as caught:
        check(*arguments, **options)
    return str(caught.value)


def test_errors_can_be_caught_as_what_they_are():
    assert issubclass(InputError, CoresiftError)
    assert issubclass(InputError, ValueError)
    assert issubclass(AnswerError, CoresiftError)
    assert issubclass(AnswerError, RuntimeError)
    assert issubclass(CoresiftWarning, UserWarning)


def test_refuse():
    assert sentence(refuse, "budget", "small", 7) == "budget must be small; got 7."


@pytest.mark.parametrize(("value", "least"), [(1, 1), (0, 0), (np.int32(5), 2), (np.uint8(1), 1), (10**20, 1)])
def test_whole_numbers(value, least):
    found = whole("k", value, least=least)
    assert found == value
    assert type(found) is int


@pytest.mark.parametrize("value", [0, -3, 1.0, True, "3", None, np.float64(2), [1]])
def test_what_is_not_a_whole_number(value):
    assert sentence(whole, "k", value) == f"k must be a whole number of at least 1; got {value!r}."


def test_a_whole_number_may_have_another_least():
    assert sentence(whole, "seed", -1, least=0) == "seed must be a whole number of at least 0; got -1."


@pytest.mark.parametrize("value", [1, 0.5, np.float32(2), "0.25", np.int64(3)])
def test_positive_numbers(value):
    found = positive("z", value)
    assert found == float(value)
    assert type(found) is float


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, -np.inf, None, "many", True, [], [1, 2]])
def test_what_is_not_a_positive_number(value):
    assert sentence(positive, "z", value) == f"z must be a finite number above 0; got {value!r}."


def test_zero_counts_where_it_may():
    assert positive("holder", 0, zero=True) == 0
    assert sentence(positive, "holder", -1, zero=True) == "holder must be a finite number of at least 0; got -1."
    assert sentence(positive, "holder", False, zero=True) == "holder must be a finite number of at least 0; got False."


def test_shares():
    assert share("part", 0.5) == 0.5
    assert share("part", 0, ends=True) == 0
    assert share("part", 1, ends=True) == 1
    assert sentence(share, "part", 1) == "part must be a number between 0 and 1; got 1."
    assert sentence(share, "part", 1.5) == "part must be a number between 0 and 1; got 1.5."
    assert sentence(share, "part", 1.01, ends=True) == "part must be a number from 0 to 1; got 1.01."
    for bad in (0, -0.1, np.nan, "half"):
        assert sentence(share, "part", bad).endswith(f"; got {bad!r}.")
    for bad in (-0.1, np.inf, None):
        assert sentence(share, "part", bad, ends=True).endswith(f"; got {bad!r}.")


def test_row_numbers():
    for nothing in (None, [], np.zeros(0)):
        assert row_numbers("given", nothing, 5).tolist() == []
    found = row_numbers("given", [4, 0, 2], 5)
    assert found.tolist() == [0, 2, 4]
    assert found.dtype == np.int64
    assert row_numbers("given", np.array([3], np.uint64), 5).tolist() == [3]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([5], "given must be row numbers from 0 to 4; got 5."),
        ([0, -2, 9], "given must be row numbers from 0 to 4; got -2."),
        ([3, 1, 0, 1, 3], "given must be distinct row numbers; got row 1 twice."),
        ([0.0, 1.0], "given must be a list of row numbers; got an array of float64 with shape (2,)."),
        ([[0], [1]], "given must be a list of row numbers; got an array of int64 with shape (2, 1)."),
        (3, "given must be a list of row numbers; got an array of int64 with shape ()."),
        (
            [True, False],
            "given must be a list of row numbers; got an array of bool with shape (2,); "
            "np.flatnonzero gives the row numbers of a mask.",
        ),
        (["a"], "given must be a list of row numbers; got an array of <U1 with shape (1,)."),
    ],
)
def test_what_are_not_row_numbers(value, says):
    assert sentence(row_numbers, "given", value, 5) == says


def test_lists_of_unequal_length_are_not_row_numbers():
    assert "given must be a list of row numbers" in sentence(row_numbers, "given", [[1, 2], [3]], 5)


@pytest.mark.parametrize("value", [0, -1, "half", np.nan])
def test_a_share_s_sentence_has_both_ends(value):
    assert sentence(share, "part", value) == f"part must be a number between 0 and 1; got {value!r}."


IDS = np.array([10, 20, 30])


def test_losses():
    found = loss_vector([0, 1.5, 2], IDS)
    assert found.tolist() == [0, 1.5, 2]
    assert found.dtype == np.float64


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([1, np.nan, -1], "losses must be finite and at least 0; row 20 has nan (unusable in 2 of 3 rows)."),
        ([1, 2, -0.5], "losses must be finite and at least 0; row 30 has -0.5 (unusable in 1 of 3 rows)."),
        ([np.inf, 2, 3], "losses must be finite and at least 0; row 10 has inf (unusable in 1 of 3 rows)."),
        ([1, 2], "losses must be one number for each of 3 rows; got shape (2,)."),
        ([[1, 2, 3]], "losses must be one number for each of 3 rows; got shape (1, 3)."),
        (5, "losses must be one number for each of 3 rows; got shape ()."),
        (["a", "b", "c"], "losses must be numbers, one per row; got list."),
        ([[1], [2, 3], 4], "losses must be numbers, one per row; got list."),
        ({"a": 1}, "losses must be numbers, one per row; got dict."),
    ],
)
def test_what_are_not_losses(values, says):
    assert sentence(loss_vector, values, IDS, error=AnswerError) == says


def test_losses_name_their_source_and_the_row_by_its_own_name():
    says = sentence(loss_vector, [0, -1, 0], IDS, source="the file", names=["a", "b", "c"], error=AnswerError)
    assert says == "the file must be finite and at least 0; row b has -1.0 (unusable in 1 of 3 rows)."


def test_real_vectors():
    assert real_vector("values", [-1, 2], 2).tolist() == [-1, 2]
    assert sentence(real_vector, "values", [1], 2) == "values must be 2 numbers, one per row; got shape (1,)."
    assert sentence(real_vector, "values", [[1, 2]], 2) == "values must be 2 numbers, one per row; got shape (1, 2)."
    assert sentence(real_vector, "values", [1, np.nan], 2) == "values must be finite numbers; got nan at position 1."
    assert sentence(real_vector, "values", "ab", 2) == "values must be 2 numbers; got text, such as 'ab'."
    for texts in (["1", "2"], np.array(["1", "2"]), pd.Series(["1", "2"]), np.array([1, "2"], object)):
        assert "got text, such as" in sentence(real_vector, "values", texts, 2)
    assert real_vector("values", np.array([1, True], object), 2).tolist() == [1, 1]
    several = sentence(real_vector, "values", [np.nan, 1, np.nan], 3, cure="fill them in")
    assert several == "values must be finite numbers; got nan at position 0 (unusable in 2 of 3); fill them in."


def test_a_message_is_one_line_whatever_stands_in_a_file():
    with pytest.raises(cs.InputError) as caught:
        refuse("label", "a text", "a\nb\x1b[31m\u202e")
    assert str(caught.value) == r"label must be a text; got a\nb\x1b[31m\u202e."
