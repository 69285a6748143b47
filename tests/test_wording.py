"""What a notebook and the command line say of their own accord: hints, and sentences in their own words."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from command_line import refused, succeeded

import coresift as cs
from coresift.errors import ScaleWarning, warn

RNG = np.random.default_rng(2)
N = 60
FRAME = pd.DataFrame({"share": RNG.random(N), "income": RNG.normal(50_000, 9_000, N)})
JOBS = {
    "select": lambda rows, budget: cs.select(rows, budget=budget),
    "regression": lambda rows, budget: cs.regression.select(rows, lambda ids: ids * 1.0, budget),
    "cover": cs.cover,
    "active learning": cs.active_learning,
}


@pytest.mark.parametrize("job", JOBS)
def test_columns_of_very_different_scale_are_told_where_the_user_calls(job):
    with pytest.warns(ScaleWarning, match=r"column 'income' vary .* times as much as those of 'share'") as told:
        JOBS[job](FRAME, 8)
    assert [one.filename for one in told] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        JOBS[job](cs.open_rows(FRAME, standardize=True), 8)
        JOBS[job](FRAME.to_numpy(), 8)


def test_the_hint_is_seen_in_long_tables_too():
    long = pd.concat([FRAME] * 100, ignore_index=True)
    assert "income" in cs.open_rows(long).scale_hint()


@pytest.mark.parametrize("job", JOBS)
def test_a_budget_above_the_number_of_rows_is_told(job):
    rows = RNG.normal(size=(N, 2))
    with pytest.warns(cs.CoresiftWarning, match=r"budget is 600, but there are only 60 rows to choose from: all of"):
        JOBS[job](rows, 600)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        JOBS[job](rows, N)


def test_a_warning_names_the_first_line_outside_of_coresift():
    with pytest.warns(cs.CoresiftWarning) as told:
        warn("Something.")
    assert told[0].filename == __file__


@pytest.fixture
def coresift(run):
    """The command line in a folder with a table and its losses; a line in, the outcome out."""
    rows = pd.DataFrame({"id": [f"q{row}" for row in range(N)], "x": RNG.normal(size=N), "y": RNG.normal(size=N)})
    rows.to_csv("rows.csv", index=False)
    pd.DataFrame({"row": range(N), "loss": 1.0}).to_csv("losses.csv", index=False)
    return lambda line: run(*line.split())


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("select rows.csv", "--budget must say how many rows to select; got none."),
        ("select rows.csv --budget 0", "--budget must be a whole number of at least 1; got 0."),
        ("select rows.csv --budget 9 --exclude-column z", "--exclude-column must be one of the columns .*; got 'z'."),
        (
            "select rows.csv --budget 9 --score Learned",
            r"--score Learned\(floor=0.5\) asks for losses, and there are .*",
        ),
        ("select rows.csv --budget 9 --z -1", "--z must be a finite number above 0; got -1.0."),
        ("select rows.csv --losses losses.csv --epsilon 0.1", ".* in paper mode only: --paper HOLDER."),
        ("cover rows.csv --budget -3", "--budget must be a whole number of at least 1; got -3."),
        ("active-learning start rows.csv --budget 9 --audit 20", "--audit must be from 50 rows to fewer .*"),
        ("select rows.csv --budget 9 --signals x", "signals need .*; give --losses, or leave --signals out."),
        ("select rows.csv --budget 9 --losses losses.csv --delta 0.1", "--delta goes with --epsilon; give both, .*"),
        (
            "select rows.csv --budget 9 --losses loss",
            r"--losses must be a \.parquet, .* file of losses; got .*, which is not a file; a column of the .*",
        ),
        ("evaluate run rows.csv --answers losses.csv", "evaluate needs --within, .*, or --budget, the number of .*"),
        (
            "evaluate run rows.csv --answers losses.csv --predictions id --metric f1 --budget 9",
            "F1 needs to know the positive class, as in --positive CLASS; .*",
        ),
    ],
)
def test_errors_name_the_flag(coresift, line, sentence):
    assert re.fullmatch(sentence, refused(coresift(line)))


def test_warnings_name_the_flag(coresift):
    assert "Warning: --budget is 600, but there are only 60 rows" in coresift("cover rows.csv --budget 600").err


def test_a_correction_names_the_flag(coresift):
    succeeded(coresift("start select rows.csv --budget 20"))
    succeeded(coresift("ask run.state"))
    asked = pd.read_csv("ask.csv")
    asked.assign(loss=1.0)[:1].to_csv("first.csv", index=False)
    asked.assign(loss=2.0)[:1].to_csv("second.csv", index=False)
    succeeded(coresift("tell run.state first.csv"))
    assert "to replace it by 2.0, use --correct" in refused(coresift("tell run.state second.csv"))


def test_a_label_that_is_none_names_the_flag_for_rows_nobody_can_tell(coresift):
    succeeded(coresift("active-learning start rows.csv --budget 9 --classes a,b"))
    succeeded(coresift("active-learning ask run.state --out ask.csv"))
    pd.read_csv("ask.csv").assign(label="c").to_csv("ask.csv", index=False)
    assert "(a, b), or the word of --cannot-tell; row" in refused(coresift("active-learning tell run.state ask.csv"))


def test_start_says_whether_a_run_is_new_goes_on_or_is_finished(coresift):
    start = "start select rows.csv --budget 20"
    assert "Started select; its state is in run.state" in succeeded(coresift(start))
    assert "select was started before and continues" in succeeded(coresift(start))
    succeeded(coresift("tell run.state losses.csv"))
    said = succeeded(coresift(start))
    assert "select in run.state is finished; for a new run, give another --state" in said
    assert "Started" not in said


def test_files_of_values_may_have_the_id_column_of_the_table(coresift):
    rows = pd.read_csv("rows.csv").rename(columns={"id": "key"})
    rows.assign(loss=rows["x"] ** 2)[::-1].to_csv("keyed.csv", index=False)
    succeeded(coresift("select keyed.csv --budget 20 --id-column key --exclude-column loss --out picked.csv"))
    picked = cs.load("picked.csv")
    expected = cs.estimate(picked, (rows["x"] ** 2).to_numpy()[::-1][picked.ids]).mean.value
    rows.assign(loss=rows["x"] ** 2).to_csv("shuffled.csv", index=False)
    said = coresift("estimate picked.csv --values shuffled.csv --json")
    assert f'"value": {expected!r}'[:20] in said.out
    rows.rename(columns={"key": "name"}).to_csv("other.csv", index=False)
    assert "must have the column id, key (or row); it has name" in refused(
        coresift("estimate picked.csv --values other.csv")
    )


def test_the_plan_states_the_price(coresift):
    assert re.search(r"price of the losses asked +0\.20", coresift("plan rows.csv --budget 20 --cost 0.05").out)
