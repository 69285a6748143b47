"""Sentences that a new user meets first: they name the column, the file and the way out."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest

import coresift as cs
from coresift.checks import AnswerError, InputError
from coresift.heads import LogisticHead

RNG = np.random.default_rng(4)
FRAME = pd.DataFrame({"age": RNG.normal(size=40), "height": RNG.normal(size=40), "loss": RNG.random(40)})


@pytest.mark.parametrize("standardize", [False, True])
def test_a_number_that_is_not_finite_is_told_with_its_column(standardize):
    broken = FRAME.assign(height=FRAME["height"].where(FRAME.index != 3, np.inf))
    with pytest.raises(InputError, match=r"row 3 has a number that is infinite .* in column 'height'\."):
        cs.select(cs.open_rows(broken, standardize=standardize), budget=5)


def test_a_column_is_no_source_of_losses_and_the_sentence_says_what_is():
    with pytest.raises(
        InputError, match=r"'loss', which is not a file; if it is a column, give its values, and leave it out of"
    ):
        cs.select(FRAME, "loss", 5)
    rows = cs.open_rows(FRAME, exclude_columns=["loss"])
    assert cs.select(rows, FRAME["loss"], 12).ledger.asked


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_a_file_without_its_weights_is_told(tmp_path, suffix):
    path = cs.save(cs.select(FRAME, budget=5), tmp_path / f"picked{suffix}")
    if suffix == ".parquet":
        pq.write_table(pq.read_table(path).drop_columns("weight"), path)
    elif suffix == ".csv":
        pd.read_csv(path).drop(columns="weight").to_csv(path, index=False)
    else:
        lines = pd.read_json(path, lines=True, dtype=False).drop(columns="weight")
        path.write_text("\n".join(line.dropna().to_json() for _, line in lines.iterrows()))
    with pytest.raises(InputError, match=r"must have the column weight, as coresift wrote it; the column has been"):
        cs.load(path)


def test_one_is_not_many():
    run = cs.active_learning(FRAME, 2, rounds=2)
    assert repr(run) == "LearningRun(0 of 2 answers, round 1: 1 label to come)"
    with pytest.raises(AnswerError, match=r"The run has no result yet: 1 answer must come first\."):
        _ = run.result
    assert "1 loss asked" in repr(cs.select(FRAME, FRAME["loss"], 2, clusters=1))


def test_recipes_are_what_users_need():
    assert cs.recipes.__all__ == ["Recipe", "by_distance", "by_proxy", "default", "mixture", "paper", "paper_training"]


MISUSES = {
    "select has no option bugdet; did you mean budget?": lambda: cs.select(FRAME, bugdet=5),
    "open_rows has no option standardise; did you mean standardize?": lambda: cs.open_rows(FRAME, standardise=True),
    "save has no option tabel; did you mean table?": lambda: cs.save(cs.cover(FRAME, 3), "x.csv", tabel=FRAME),
    "save needs path.": lambda: cs.save(cs.cover(FRAME, 3)),
    "load has no option pth; did you mean path?": lambda: cs.load(pth="x.csv"),
    "Oracle has no option max_costs; did you mean max_cost?": lambda: cs.Oracle(len, max_costs=1.0),
    "uniform has no option sed; did you mean seed?": lambda: cs.baselines.uniform(FRAME, 5, sed=1),
    "estimate needs values.": lambda: cs.estimate(cs.select(FRAME, budget=5)),
    "values must be 5 numbers, one per selected row; got 40, one for every row; give values[selection.ids].": lambda: (
        cs.estimate(cs.select(FRAME, budget=5), FRAME["loss"])
    ),
    "exclude must be a list of row numbers; got an array of bool with shape (40,); "
    "np.flatnonzero gives the row numbers of a mask.": lambda: cs.cover(FRAME, 3, exclude=FRAME["age"] > 0),
}


@pytest.mark.parametrize("sentence", MISUSES)
def test_misuse_is_one_sentence(sentence):
    with pytest.raises(InputError) as told:
        MISUSES[sentence]()
    assert str(told.value) == sentence


def test_what_is_nearly_a_table_is_told_how_to_become_one():
    with pytest.raises(InputError, match=r"got a LazyFrame; collect\(\) it first\."):
        cs.select(pl.from_pandas(FRAME).lazy(), budget=5)
    for series in (FRAME["age"], pl.Series([1.0, 2.0])):
        with pytest.raises(InputError, match=r"got a Series, a single column; use its to_frame\(\)\."):
            cs.select(series, budget=5)


def test_a_number_in_the_place_of_losses_is_the_budget():
    with pytest.raises(InputError, match=r"got 5; the number of rows to select is budget=5\."):
        cs.select(FRAME, 5)


def test_a_column_as_the_labels_of_a_regression():
    with pytest.raises(InputError, match=r"leave out b: cs\.open_rows\(table, target='loss'\)\."):
        cs.regression.select(FRAME, "loss", 12)


def test_a_misspelled_name_is_found_by_python_itself():
    with pytest.raises(AttributeError, match="no attribute 'selct'") as told:
        _ = cs.selct
    assert (told.value.name, told.value.obj) == ("selct", cs)


@pytest.mark.parametrize("other", [pd.DataFrame, pl.DataFrame, lambda columns: pd.DataFrame(columns).to_numpy()])
def test_a_fit_finds_its_columns_by_their_names(other):
    chosen = cs.regression.select(cs.open_rows(FRAME, target="loss"), budget=12)
    fit = chosen.fit(ridge=0.1)
    assert fit.columns == ("age", "height")
    straight = fit.predict(FRAME[["age", "height"]].to_numpy())
    names = ["age", "height"] if "lambda" in repr(other) else ["height", "loss", "age"]
    np.testing.assert_allclose(fit.predict(other(dict(FRAME[names]))), straight, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(fit.predict(cs.open_rows(FRAME, target="loss")), straight, rtol=1e-6, atol=1e-7)
    with pytest.raises(InputError, match="height"):
        fit.predict(FRAME[["age"]])


def test_a_fit_of_standardized_columns_predicts_from_the_table_itself():
    rows = cs.open_rows(FRAME.assign(age=1_000 * FRAME["age"] + 5), target="loss", standardize=True)
    fit = cs.regression.select(rows, budget=12).fit(ridge=0.1)
    straight = fit.predict(rows)
    np.testing.assert_allclose(fit.predict(FRAME.assign(age=1_000 * FRAME["age"] + 5)), straight, rtol=1e-4, atol=1e-5)


def test_a_missing_value_is_told_with_the_way_out():
    holes = FRAME.assign(age=FRAME["age"].where(FRAME.index != 7))
    with pytest.raises(InputError, match=r"a null in row 7, column 'age'; fill it in, or leave the column out\."):
        cs.select(holes, budget=5)
    run = cs.active_learning(FRAME, 4, rounds=1)
    ids = run.ask()
    labels = pd.Series(["a", "b", None, "a"], dtype="str")
    with pytest.raises(
        AnswerError, match=r"has nan \(unusable in 1 of 4 rows\); leave out the rows that have no answer yet\."
    ):
        run.tell(ids, labels)
    run.tell(ids[labels.notna()], labels.dropna())
    run.tell(ids[labels.isna()], [None])
    assert run.result.labels.count(None) == 1


def test_columns_of_true_and_false_are_rows_if_they_are_named():
    flags = FRAME.assign(old=FRAME["age"] > 0)
    assert cs.open_rows(flags).columns == ("age", "height", "loss")
    named = cs.open_rows(flags, columns=["age", "old"])
    np.testing.assert_array_equal(named.take(np.arange(40))[:, 1], flags["old"])
    picked = cs.select(named, budget=5)
    assert len(picked.take(flags)) == 5
    with pytest.raises(InputError, match="table must be in the order of the rows"):
        picked.take(flags[::-1])


def test_evaluations_take_columns_by_their_names():
    frame = FRAME.assign(kind=["a", "b"] * 20, guess=["a"] * 40)
    rows = cs.open_rows(frame, columns=["age", "height"])
    by_name = cs.evaluate(rows, predictions="guess", groups="kind", labels=frame["kind"], budget=20).complete()
    by_value = cs.evaluate(
        rows, predictions=frame["guess"], groups=frame["kind"], labels=frame["kind"], budget=20
    ).complete()
    assert repr(by_name) == repr(by_value)
    assert set(by_name.groups) == {"a", "b"}
    with pytest.raises(InputError, match=r"groups must be one label per row, or one of the columns .*; got 'knd'"):
        cs.evaluate(rows, groups="knd", values=frame["loss"], budget=20)
    with pytest.raises(InputError, match=r"predictions must be one entry per row; .*; got 'guess'"):
        cs.evaluate(predictions="guess", budget=20)


def test_an_evaluation_says_that_its_budget_is_more_than_there_is():
    with pytest.warns(
        cs.CoresiftWarning, match=r"budget is 400, and there are only 40 rows to ask: all of them are asked"
    ):
        assert cs.evaluate(values=FRAME["loss"], n=40, budget=400).complete().asked == 40
    cs.evaluate(values=FRAME["loss"], n=40, budget=400, within=0.2)


@pytest.mark.slow
def test_a_diagnosis_of_all_rows_says_so():
    with pytest.warns(cs.CoresiftWarning, match=r"every loss is asked; to avoid that, give fewer probes"):
        cs.diagnose(cs.open_rows(FRAME, exclude_columns=["loss"]), FRAME["loss"], 20)


def test_a_model_predicts_opened_rows():
    rows = cs.open_rows(FRAME, columns=["age", "height"], standardize=True)
    run = cs.active_learning(rows, 10, rounds=1, labels=np.where(FRAME["age"] > 0, "old", "young"))
    run.complete()
    np.testing.assert_array_equal(run.model.predict(rows), run.model.predict(rows.take(np.arange(40))))
    np.testing.assert_array_equal(run.model.predict(FRAME.assign(text="a")), run.model.predict(rows))
    with pytest.raises(InputError, match="a matrix of numbers, or the result of open_rows; got a table with other"):
        LogisticHead().fit(FRAME.assign(text="a"), ["a"] * len(FRAME))


def test_files_of_labels_may_have_the_id_column_of_the_table(tmp_path):
    frame = FRAME.assign(stone=[f"s{row}" for row in range(40)], guess=["a", "b"] * 20)
    rows = cs.open_rows(frame, columns=["age", "height"], id_column="stone")
    path = tmp_path / "truth.csv"
    labels = np.where(frame.index < 20, frame["guess"], "b")
    frame.assign(label=labels)[["stone", "label"]][::-1].to_csv(path, index=False)
    assert cs.evaluate(rows, predictions="guess", labels=path, budget=40).complete().value == 0.75
    assert len(cs.active_learning(rows, 4, labels=str(path), rounds=1, audit=None).complete()) == 4
