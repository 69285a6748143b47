"""Columns that are probably not what the user wants are named: row numbers, booleans, other types, misspelled names."""

import numpy as np
import pandas as pd
import pytest

import coresift as cs

N = 60
RNG = np.random.default_rng(2)
FRAME = pd.DataFrame({"x": RNG.normal(size=N), "y": RNG.normal(size=N)})
FLAGS = FRAME.assign(wind=1.0, hurricane=FRAME["x"] > 0, storm=FRAME["x"] <= 0, name="a")


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("first", [0, 1])
def test_a_column_of_row_numbers_is_named(standardize, first):
    numbered = FRAME.assign(rownames=np.arange(first, N + first))
    rows = cs.open_rows(numbered, standardize=standardize)
    with pytest.warns(cs.CoresiftWarning, match=r"'rownames' is the row number.*exclude_columns=\['rownames'\]"):
        cs.cover(rows, 5)
    cs.cover(cs.open_rows(numbered, standardize=standardize, exclude_columns=["rownames"]), 5)
    cs.cover(FRAME.assign(age=np.roll(np.arange(N), 1)), 5)
    cs.cover(numbered.to_numpy(), 5)


def test_boolean_columns_that_nobody_named_are_named():
    told = "Boolean columns are used only if you name them in columns=, and the rows leave these out: hurricane, storm;"
    rows = cs.open_rows(FLAGS, target="wind", standardize=True)
    with pytest.warns(cs.CoresiftWarning, match=told):
        cs.regression.select(rows, budget=20)
    cs.regression.select(cs.open_rows(FLAGS, target="wind", exclude_columns=["hurricane", "storm"]), budget=20)
    cs.regression.select(cs.open_rows(FLAGS, target="wind", columns=["x", "y", "storm"]), budget=20)
    cs.select(FLAGS.assign(vector=list(FRAME.to_numpy())), budget=5)  # beside embeddings, other columns are no features


def test_rows_say_which_columns_they_use():
    rows = cs.open_rows(FLAGS, target="wind", standardize=True)
    assert repr(rows) == "Rows(n=60, d=2, columns x, y, standardized; not used: hurricane, storm, name)"
    card = rows._repr_html_()
    assert all(
        words in card for words in ("60 rows", "columns used", "x, y", "columns not used", "target", "standardized")
    )
    assert repr(cs.open_rows(FRAME.to_numpy())) == "Rows(n=60, d=2)"


def test_all_columns_with_nulls_are_named():
    holes = FRAME.assign(category=np.nan, width=FRAME["x"].where(FRAME["x"] > 0))
    message = r"a null in row 0, column 'category', and others in 'width'; fill them in, or leave these columns out\.$"
    with pytest.raises(cs.InputError, match=message):
        cs.select(holes, budget=9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["wnd"]}, r"got 'wnd' \(did you mean 'wind'\?\)\."),
        ({"target": "wimd"}, r"got 'wimd' \(did you mean 'wind'\?\)\."),
        ({"columns": ["kind"]}, r"'kind' of type category; turn categories into numbers, .* pandas.get_dummies\."),
        ({"columns": ["when"]}, r"'when' of type date or time; turn times into numbers, such as the year\."),
    ],
)
def test_a_wrong_column_says_what_to_do(options, message):
    frame = FLAGS.assign(kind=pd.Categorical(["a", "b"] * (N // 2)), when=pd.Timestamp("2020-01-01"))
    with pytest.raises(cs.InputError, match=message):
        cs.open_rows(frame, **options)


def test_a_table_of_texts_says_what_to_do():
    with pytest.raises(cs.InputError, match=r"'name' \(string\); to embed .* cs.models.embed .*pandas.get_dummies\."):
        cs.open_rows(FLAGS[["name"]])
