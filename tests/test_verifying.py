"""Answers that are known in full, in arrays and files, are checked in full, before anything is computed or asked."""

import numpy as np
import pandas as pd
import pytest

import coresift as cs
from coresift.checks import AnswerError, InputError

RNG = np.random.default_rng(3)
N = 80
ROWS = RNG.normal(size=(N, 3)).astype(np.float32)
LOSSES = RNG.exponential(size=N)
LABELS = np.where(ROWS[:, 0] > 0, "right", "left")
EARLIER = cs.select(ROWS, LOSSES, 20, exclude=[7])
# Jobs that take losses; all of them exclude row 7.
JOBS = {
    "select": lambda losses: cs.select(ROWS, losses, 20, exclude=[7]),
    "all rows": lambda losses: cs.select(ROWS, losses, N - 1, exclude=[7]),
    "grow": lambda losses: cs.grow(EARLIER, losses, 30, rows=ROWS, exclude=[7]),
    "rounds": lambda losses: cs.rounds(ROWS, losses, 20, 4, 2, exclude=[7]).next(),
    "diagnose": lambda losses: cs.diagnose(ROWS, losses, 20, exclude=[7], probes=20),
    "regression": lambda losses: cs.regression.select(ROWS, losses, 20, exclude=[7]),
    "start": lambda losses: cs.start(cs.select, ROWS, 20, exclude=[7]).complete(losses),
}


def with_answer(row, answer):
    return np.where(np.arange(N) == row, answer, LOSSES)


def in_file(path, losses, rows=None):
    pd.DataFrame({"row": np.arange(losses.size) if rows is None else rows, "loss": losses}).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("row", [0, N - 1])
def test_a_number_that_cannot_be_used_is_told_with_its_row(job, row, tmp_path):
    for answer in (np.nan, np.inf) if job == "regression" else (np.nan, np.inf, -1.0):
        with pytest.raises(
            AnswerError, match=rf"must be finite.*; row {row} has {answer} \(unusable in 1 of {N - 1} rows"
        ):
            JOBS[job](with_answer(row, answer))
    if job != "regression":
        with pytest.raises(AnswerError, match=rf"losses\.csv must be finite and at least 0; row {row} has -1\.0"):
            JOBS[job](in_file(tmp_path / "losses.csv", with_answer(row, -1.0)))


@pytest.mark.parametrize("job", JOBS)
def test_another_number_of_answers_is_told(job, tmp_path):
    for count in (N - 1, N + 1):
        with pytest.raises(InputError, match=f"must be one number for each of {N} rows; got {count} numbers"):
            JOBS[job](np.ones(count))
    if job != "regression":
        with pytest.raises(InputError, match=rf"losses\.csv must be about rows from 0 to {N - 1}; got row {N}\."):
            JOBS[job](in_file(tmp_path / "losses.csv", np.ones(N + 1)))


@pytest.mark.parametrize("job", JOBS)
def test_rows_that_are_never_asked_may_have_anything(job, tmp_path):
    assert JOBS[job](with_answer(7, np.nan)) is not None
    if job != "regression":
        assert JOBS[job](in_file(tmp_path / "losses.csv", with_answer(7, -1.0))) is not None


def test_a_callable_is_asked_when_its_answers_are_needed():
    asked = []
    picked = cs.select(ROWS, lambda ids: asked.append(ids) or with_answer(79, -1.0)[ids] ** 2, 20)
    assert sum(map(len, asked)) == picked.ledger.asked < N


def test_a_file_need_not_have_the_rows_that_are_not_asked(tmp_path):
    run = cs.start(cs.select, ROWS, 20)
    asked = run.ask()
    some = in_file(tmp_path / "losses.csv", LOSSES[asked], asked)
    assert cs.select(ROWS, some, 20) == cs.select(ROWS, LOSSES, 20)
    blank = with_answer(np.setdiff1d(np.arange(N), asked)[0], np.nan)
    assert cs.select(ROWS, in_file(tmp_path / "losses.csv", blank), 20) == cs.select(ROWS, LOSSES, 20)


def test_a_file_is_checked_by_the_ids_of_the_rows(tmp_path):
    table = {"id": [f"q{row}" for row in range(N)], "x": ROWS[:, 0], "y": ROWS[:, 1]}
    path = tmp_path / "losses.csv"
    answers = pd.DataFrame({"id": table["id"], "loss": with_answer(33, -1.0)})
    answers.to_csv(path, index=False)
    with pytest.raises(AnswerError, match=r"must be finite and at least 0; row q33 has -1\.0"):
        cs.select(table, path, 20)
    assert cs.select(table, path, 20, exclude=["q33"]).ledger.asked
    more = pd.concat([answers.assign(loss=LOSSES), pd.DataFrame({"id": ["another"], "loss": [1.0]})])
    more.to_csv(path, index=False)
    assert cs.select(table, path, 20) == cs.select(table, LOSSES, 20)


def test_labels_are_checked_in_full():
    labels = LABELS.astype(object)
    labels[33] = np.nan
    with pytest.raises(AnswerError, match=r"row 33 has nan \(unusable in 1 of 80 rows\)"):
        cs.active_learning(ROWS, 10, labels=labels)
    assert cs.active_learning(ROWS, 10, labels=labels, exclude=[33]).complete()
    assert cs.active_learning(ROWS, 10, labels=labels, given={33: "left"}).complete()
    with pytest.raises(AnswerError, match=r"one of the 1 classes \(left\).*; row \d+ has 'right'"):
        cs.active_learning(ROWS, 10, labels=LABELS, classes=["left"])
    with pytest.raises(InputError, match=f"labels must be one label for each of {N} rows; got 3 labels"):
        cs.active_learning(ROWS, 10, labels=["left"] * 3)


def test_evaluations_check_all_rows_that_may_be_asked():
    with pytest.raises(AnswerError, match=r"values must be one finite number per row.*; row 33 has nan"):
        cs.evaluate(ROWS, values=with_answer(33, np.nan), budget=20)
    unknown = LOSSES.astype(object)
    unknown[33] = None
    assert cs.evaluate(ROWS, values=unknown, budget=N).complete().missing is not None
    pair = np.stack([LOSSES, with_answer(33, np.nan)], axis=1)
    with pytest.raises(InputError, match=r"values must be finite numbers; got \[.*, nan\] in row 33"):
        cs.evaluate(ROWS, values=pair, models=["a", "b"], metric="difference", budget=20)
    guess = np.where(np.arange(N) < 40, "right", "left")
    labels = LABELS.astype(object)
    labels[40:] = np.nan
    metric = cs.evaluation.Precision(positive="right")
    assert cs.evaluate(predictions=guess, labels=labels, metric=metric, budget=20).complete().asked == 20
