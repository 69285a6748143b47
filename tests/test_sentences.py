"""Sentences that a new user meets first: they name the column, the file and the way out."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import coresift as cs
from coresift.checks import AnswerError, InputError

RNG = np.random.default_rng(4)
FRAME = pd.DataFrame({"age": RNG.normal(size=40), "height": RNG.normal(size=40), "loss": RNG.random(40)})


@pytest.mark.parametrize("standardize", [False, True])
def test_a_number_that_is_not_finite_is_told_with_its_column(standardize):
    broken = FRAME.assign(height=FRAME["height"].where(FRAME.index != 3, np.inf))
    with pytest.raises(InputError, match=r"row 3 has a number that is infinite .* in column 'height'\."):
        cs.select(cs.open_rows(broken, standardize=standardize), budget=5)


def test_a_column_is_no_source_of_losses_and_the_sentence_says_what_is():
    with pytest.raises(InputError, match=r"got 'loss', which is not a file; of a column, give the values, and rows wi"):
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
    with pytest.raises(InputError, match=r"must have the column weight, as coresift wrote it; the column was removed"):
        cs.load(path)


def test_one_is_not_many():
    run = cs.active_learning(FRAME, 2, rounds=2)
    assert repr(run) == "LearningRun(0 of 2 answers, round 1: 1 label to come)"
    with pytest.raises(AnswerError, match=r"The run has no result yet: 1 answer must come first\."):
        _ = run.result
    assert "1 loss asked" in repr(cs.select(FRAME, FRAME["loss"], 2, clusters=1))


def test_recipes_are_what_users_need():
    assert cs.recipes.__all__ == ["by_distance", "by_proxy", "default", "mixture", "paper", "paper_training"]
