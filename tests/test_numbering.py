"""One rule says which rows a user means: whole numbers are row numbers, texts are ids of the rows' table."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

import coresift as cs
from coresift.answers import AnswerFile
from coresift.checks import AnswerError, InputError
from coresift.cli import app

RNG = np.random.default_rng(5)
N = 80
X = RNG.normal(size=(N, 2))
FRAME = pd.DataFrame({"id": [f"q{row}" for row in RNG.permutation(N)], "x": X[:, 0], "y": X[:, 1]})
SIDE = np.where(X[:, 0] > 0, "right", "left")


def ids_of(rows):
    return FRAME["id"].iloc[list(rows)].tolist()


@pytest.mark.parametrize(
    "choose",
    [
        lambda **rows: cs.select(FRAME, budget=12, **rows),
        lambda **rows: cs.cover(FRAME, 12, **rows),
        lambda **rows: cs.baselines.uniform(FRAME, 12, **rows),
        lambda **rows: cs.regression.select(FRAME, None, 12, score=cs.scores.LeverageMixture(), **rows).selection,
    ],
)
@pytest.mark.parametrize("kind", [list, np.array, pd.Series, pl.Series])
def test_given_and_excluded_rows_by_id(choose, kind):
    given, exclude = [5, 2], [9, 11, 3]
    assert choose(given=kind(ids_of(given)), exclude=kind(ids_of(exclude))) == choose(given=given, exclude=exclude)


def test_labels_that_are_known_by_id():
    runs = []
    (five, two), (seven,) = ids_of([5, 2]), ids_of([7])
    for given, exclude in (({5: "left", 2: "right"}, [7]), ({five: "left", two: "right"}, [seven])):
        runs.append(cs.active_learning(FRAME, 10, rounds=2, given=given, exclude=exclude, labels=SIDE).complete())
    assert runs[0] == runs[1]
    assert runs[0].labels[runs[0].ids.tolist().index(5)] == "left"
    with pytest.raises(InputError, match=r"given must be ids that column 'id' has; got 'q999'"):
        cs.active_learning(FRAME, 10, given={"q999": "left"})


def test_numbers_and_texts_are_told_apart_in_sentences():
    with pytest.raises(InputError, match=r"given must be row numbers from 0 to 79, or ids as texts; got 700\."):
        cs.select(FRAME, budget=12, given=[700])
    with pytest.raises(InputError, match=r"exclude must be row numbers from 0 to 79; got 700\."):
        cs.select(X, budget=12, exclude=[700])
    with pytest.raises(InputError, match=r"exclude must be row numbers from 0 to 79, or ids as texts; got "):
        cs.cover(FRAME, 12, exclude=[0.5])


def test_a_run_is_told_by_number_or_by_id():
    run, other = (cs.active_learning(FRAME, 10, rounds=2) for _ in range(2))
    while (asked := run.ask()).size:
        run.tell(asked, SIDE[asked])
        other.tell(pd.Series(ids_of(asked)), SIDE[other.ask()])
    assert other.result == run.result
    with pytest.raises(InputError, match=r"ids must be rows that were asked; got 'nobody'"):
        run.tell(["nobody"], ["left"])
    with pytest.raises(InputError, match="ids must be row numbers, because the rows have no ids"):
        cs.active_learning(X, 10).tell(["q1"], ["left"])


@pytest.mark.parametrize("missing", [float("nan"), np.float64("nan"), pd.NA, pd.NaT])
def test_a_missing_value_is_no_label_and_none_means_cannot_tell(missing):
    run = cs.active_learning(FRAME, 6, rounds=1)
    asked = run.ask()
    with pytest.raises(AnswerError, match=r"answers must be .*or None if nobody can tell; row"):
        run.tell(asked, [missing, *SIDE[asked[1:]]])
    run.tell(asked, [None, *SIDE[asked[1:]]])
    assert run.result.labels.count(None) == 1


# Files of answers


@pytest.fixture
def started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("rows.csv", index=False)
    coresift("active-learning start rows.csv --budget 8 --rounds 2 --out labeled.csv")
    coresift("active-learning ask run.state --out ask.csv")
    return pd.read_csv("ask.csv").assign(label=lambda asked: SIDE[asked["row"]])


def coresift(line, fails=None):
    ran = CliRunner().invoke(app, line.split())
    assert (str(ran.exception) if ran.exception else None) == fails or (fails and fails in str(ran.exception)), ran
    return " ".join(ran.output.split())


def test_a_line_whose_row_and_id_disagree_is_refused(started):
    started.assign(id=np.roll(started["id"], 1)).to_csv("wrong.csv", index=False)
    coresift("tell run.state wrong.csv", "wrong.csv must have the id of each row next to its number; row ")
    other = next(row for row in range(N) if row not in set(started["row"]))
    more = pd.concat([started, pd.DataFrame({"row": [other], "id": ["q-other"], "label": ["left"]})])
    more.to_csv("wrong.csv", index=False)  # also where a row was not asked
    coresift("tell run.state wrong.csv", f"row {other} has the id {FRAME['id'][other]}, not q-other")
    assert "answered 0" in coresift("status run.state")
    started.assign(id=None).to_csv("blank.csv", index=False)
    assert "answered 2" in coresift("tell run.state blank.csv")


def test_unknown_rows_and_ids_are_refused_and_others_are_counted(started):
    stranger = pd.DataFrame({"row": [999], "id": ["q999"], "label": ["left"]})
    pd.concat([started, stranger]).to_csv("more.csv", index=False)
    coresift("tell run.state more.csv", "more.csv must be about rows of this run; there is no row 999")
    pd.concat([started, stranger]).drop(columns="row").to_csv("more.csv", index=False)
    coresift("tell run.state more.csv", "more.csv must be about rows of this run; there is no id q999")
    FRAME.assign(label=SIDE)[["id", "label"]].to_csv("all.csv", index=False)
    said = coresift("tell run.state all.csv")
    assert f"Read 2 answers: 2 new; {N - 2} other lines of the file are about rows not asked" in said
    assert "Read 8 answers: 6 new, 2 unchanged; " in coresift("tell run.state all.csv")
    FRAME.assign(label=SIDE)[["id", "label"]].replace(SIDE[started["row"][0]], "x").to_csv("all.csv", index=False)
    row, name = started["row"][0], started["id"][0]
    coresift("tell run.state all.csv", f"row {row} (id {name}) had {str(SIDE[row])!r}, now 'x'")
    assert " corrected" in coresift("tell run.state all.csv --correct")


def test_a_spreadsheet_is_to_be_saved_as_csv(started):
    allowed = "A file of answers must be a .parquet, .arrow, .feather, .csv, .jsonl or .json file; got "
    coresift("tell run.state asked.xlsx", f"{allowed}asked.xlsx; save the sheet as CSV.")
    started.rename(columns=str.upper).to_csv("upper.csv", index=False, sep=";")
    assert "Read 2 answers: 2 new" in coresift("tell run.state upper.csv")


def test_an_empty_cell_in_a_told_file_is_not_answered_yet(started):
    started["label"] = started["label"].where(started.index > 0, "")
    started.to_csv("half.csv", index=False)
    assert "answered 1" in coresift("tell run.state half.csv")


def test_losses_of_other_rows_are_noticed(tmp_path):
    table = pd.DataFrame({"row": range(N), "id": FRAME["id"], "loss": 1.0})
    table.to_csv(tmp_path / "losses.csv", index=False)
    cs.select(FRAME, tmp_path / "losses.csv", 12)
    table["id"] = table["id"].to_numpy()[::-1]
    table.to_csv(tmp_path / "losses.csv", index=False)
    with pytest.raises(InputError, match=r"must have the id of each row next to its number; row \d+ has the id q\d+"):
        cs.select(FRAME, tmp_path / "losses.csv", 12)
    with pytest.raises(InputError, match=r"\(wrong in 1 of 1 lines\)"):
        AnswerFile(tmp_path / "losses.csv").numbers("loss")(np.array([3]), ["q-none"])
