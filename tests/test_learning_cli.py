"""Active learning by files, as with a spreadsheet, and the page about a run."""

from __future__ import annotations

import csv
import html
import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import coresift as cs
from coresift.answers import AnswerFile
from coresift.checks import AnswerError, InputError
from coresift.cli import app


def label_of(row):
    return ("red", "green", "blue")[row % 3]


@pytest.fixture
def command(tmp_path, monkeypatch):
    """The command line, in a folder with embeddings and a table of texts."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.save("rows.npy", (np.eye(3)[np.arange(120) % 3] * 4 + rng.normal(size=(120, 3))).astype(np.float32))
    with open("texts.csv", "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["id", "text", "label"])
        lines.writerows([f"q{row}", f"question {row}, with a comma", "old"] for row in range(120))

    def run(*words):
        result = CliRunner().invoke(app, ["active-learning", *map(str, words)])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout) if "--json" in words else result.output

    return run


def fill_in(path, label=label_of):
    """Add a column of labels, as a spreadsheet would."""
    with open(path, newline="") as file:
        lines = list(csv.DictReader(file))
    with open(path, "w", newline="") as file:
        table = csv.DictWriter(file, [*lines[0], "label"])
        table.writeheader()
        table.writerows({**line, "label": label(int(line["row"]))} for line in lines)
    return lines


@pytest.mark.slow
def test_three_rounds_by_file(command, tmp_path):
    command("start", "rows.npy", "--table", "texts.csv", "--budget", 30, "--rounds", 3, "--out", "labeled.csv")
    for number, size in [(1, 6), (2, 12), (3, 12)]:
        said = command("ask", "run.state", "--out", f"round-{number}.csv")
        assert f"round {number}" in said
        lines = fill_in(f"round-{number}.csv")
        assert len(lines) == size
        assert all(line["text"] == f"question {line['row']}, with a comma" for line in lines)
        assert all(line["table_label"] == "old" for line in lines)
        facts = command("tell", "run.state", f"round-{number}.csv", "--json")
        assert facts["read"] == size
    assert facts["finished"]
    assert facts["labeled"] == 30
    selection = cs.load("labeled.csv")
    assert selection.labels == tuple(label_of(row) for row in selection.ids)
    assert "question" in (tmp_path / "labeled.csv").read_text()
    labels = np.array([label_of(row) for row in range(120)])
    assert selection == cs.active_learning("rows.npy", 30, rounds=3, labels=labels).complete()
    assert "There is nothing left to answer" in command("ask", "run.state", "--out", "more.csv")
    assert "Wrote page.html" in command("report", "run.state", "--out", "page.html")
    assert command("report", "run.state", "--out", "page.html", "--quiet") == ""
    assert command("report", "run.state", "--out", "page.html", "--json")["wrote"] == ["page.html"]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_other_files_and_rows_with_ids_of_their_own(command, suffix):
    import pyarrow as pa
    from tables import write

    rows = np.load("rows.npy")
    embedding = pa.array(rows.tolist(), pa.list_(pa.float32(), 3))
    write(Path("rows.parquet"), {"id": [f"q{row}" for row in range(120)], "embedding": embedding, "color": ["x"] * 120})
    command("start", "rows.parquet", "--budget", 12, "--rounds", 2)
    command("ask", "run.state", "--out", f"ask{suffix}")
    answers = AnswerFile(f"ask{suffix}")
    assert set(answers.columns) == {"row", "id", "color"}
    write(Path("told.csv"), {"id": [f"q{row}" for row in answers.rows().tolist()], "label": ["red"] * 2})
    assert command("tell", "run.state", "told.csv", "--json")["pending"] == 10


@pytest.mark.parametrize("named", [[], ["--id-column", "message"]])
def test_ids_are_written_once_under_their_own_name_and_may_come_back_so(command, named):
    from tables import write

    Path("embeddings").mkdir()
    np.save("embeddings/shard.npy", np.load("rows.npy"))
    write(Path("embeddings/ids.parquet"), {"id": [f"q{row}" for row in range(120)]})
    manifest = {"format": 1, "shards": ["shard.npy"], "rows": 120, "dimension": 3, "ids": "message"}
    Path("embeddings/embeddings.json").write_text(json.dumps(manifest))
    write(Path("messages.csv"), {"message": [f"q{row}" for row in range(120)], "text": ["hello"] * 120})
    command("start", "embeddings", *named, "--table", "messages.csv", "--budget", 12, "--rounds", 2)
    command("ask", "run.state", "--out", "ask.csv")
    with open("ask.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["row", "message", "text"]
    assert all(line["message"] == f"q{line['row']}" for line in lines)
    write(Path("told.csv"), {"message": [lines[0]["message"]], "label": ["red"]})
    assert command("tell", "run.state", "told.csv", "--json")["answered"] == 1
    old = {"row": [lines[1]["row"]], "id": [lines[1]["message"]], "message": [lines[1]["message"]], "label": ["red"]}
    write(Path("old.csv"), old)  # as earlier versions wrote it
    assert command("tell", "run.state", "old.csv", "--json")["answered"] == 2
    write(Path("mixed.csv"), {"row": [lines[0]["row"]], "message": [lines[1]["message"]], "label": ["red"]})
    with pytest.raises(InputError, match="must have the id of each row next to its number"):
        command("tell", "run.state", "mixed.csv")


@pytest.mark.slow
def test_skips_corrections_and_classes(command):
    command("start", "rows.npy", "--budget", 10, "--rounds", 2, "--classes", "red, green,blue")
    command("ask", "run.state", "--out", "a.csv")
    rows = [int(line["row"]) for line in fill_in("a.csv", lambda row: "crimson")]
    sentence = r"one of the 3 classes \(red, green, blue\), or the word of --cannot-tell; row \d+ has 'crimson'"
    with pytest.raises(AnswerError, match=sentence):
        command("tell", "run.state", "a.csv")
    Path("b.csv").write_text(f"row,label\n{rows[0]},red\n{rows[1]},?\n")
    command("tell", "run.state", "b.csv", "--cannot-tell", "?")
    assert command("status", "run.state", "--json")["round"] == 2
    Path("c.csv").write_text(f"row,label\n{rows[0]},blue\n")
    with pytest.raises(InputError, match="already has the answer 'red'; to replace it by 'blue', use --correct"):
        command("tell", "run.state", "c.csv")
    before = command("ask", "run.state", "--out", "d.csv", "--json")["pending"]
    facts = command("tell", "run.state", "c.csv", "--correct", "--json")
    assert (facts["answered"], facts["pending"]) == (2, before)  # nothing is asked anew


def test_numbers(command):
    command("start", "rows.npy", "--budget", 8, "--rounds", 2, "--numeric", "--out", "numbers.parquet")
    for number in (1, 2):
        command("ask", "run.state", "--out", f"{number}.csv")
        fill_in(f"{number}.csv", lambda row: row / 4)
        facts = command("tell", "run.state", f"{number}.csv", "--json")
    assert facts["finished"]
    assert cs.load("numbers.parquet").labels == tuple(row / 4 for row in cs.load("numbers.parquet").ids)


def test_what_cannot_be_started_is_one_sentence(command):
    Path("short.csv").write_text("text\nonly\n")
    with pytest.raises(InputError, match=r"^--table must be a table with all 120 rows; got 1 row\.$"):
        command("start", "rows.npy", "--table", "short.csv", "--budget", 10)
    with pytest.raises(InputError, match="--audit must be from 50 rows to fewer than the budget of 10, or 0 for"):
        command("start", "rows.npy", "--budget", 10, "--audit", 7, "--state", "x.state")
    with pytest.raises(InputError, match=r"--audit must be from 50 rows to .*; got 0\.1, which is 10 rows\.$"):
        command("start", "rows.npy", "--budget", 100, "--audit", 0.1, "--state", "x.state")
    with pytest.raises(InputError, match=r"There is no state file none\.state"):
        command("report", "none.state")
    Path("other.state").write_text("hello\n")
    with pytest.raises(InputError, match="is not a state file"):
        command("report", "other.state")


def test_the_start_shows_the_plan_and_the_budget(command):
    said = command("start", "rows.npy", "--table", "texts.csv", "--budget", 70, "--rounds", 2, "--audit", 50)
    assert re.search(r"you are asked 3 times, for 4, 16 and 50 \(audit\) rows *\n", said)
    assert "0 of 120 rows; 0 skipped; budget 70" in said
    assert "after the batch of round 2, with 50 rows" in said
    facts = command("status", "run.state", "--json")
    assert facts["plan"] == {"batches": [4, 16], "audits": [0, 50]}
    assert (facts["rounds"], facts["budget"], facts["labeled"], facts["skipped"]) == (2, 70, 0, 0)
    assert (facts["classes"], facts["audits"]) == ({}, [])


def test_the_start_says_why_there_is_no_audit_and_how_to_get_one(command):
    reason = "no audit, since a tenth of the budget is fewer than 50 rows"
    said = command("start", "rows.npy", "--table", "texts.csv", "--budget", 60, "--rounds", 2)
    assert f"you are asked 2 times, for 12 and 48 rows; {reason}; for one, start with --audit 50" in said
    said = command("start", "rows.npy", "--table", "texts.csv", "--budget", 1, "--state", "b.state")
    assert re.search(rf"you are asked once, for 1 row; {reason} *\n", said)
    said = command("start", "rows.npy", "--table", "texts.csv", "--budget", 60, "--audit", 0, "--state", "c.state")
    assert re.search(r"rows; no audit *\n", said)


@pytest.mark.slow
def test_each_step_shows_round_budget_classes_and_audits(command):
    command("start", "rows.npy", "--table", "texts.csv", "--budget", 70, "--rounds", 2, "--audit", 50)
    for number in (1, 2, 3):
        command("ask", "run.state", "--out", f"{number}.csv")
        fill_in(f"{number}.csv", lambda row: "?" if row % 10 == 0 else label_of(row))
        said = command("tell", "run.state", f"{number}.csv", "--cannot-tell", "?")
        facts = command("status", "run.state", "--json")
        assert f"{facts['labeled']} of 120 rows; {facts['skipped']} skipped; budget 70" in said
    assert said in command("tell", "run.state", "3.csv", "--cannot-tell", "?").replace("unchanged", "new")
    for text in (said, command("status", "run.state")):
        assert re.search(r"round +2 of 2", text)
        assert re.search(r"classes +3: \w+ \d+, \w+ \d+, \w+ \d+", text)
        measured = r"accuracy on all 120 rows of the model after \d+ labels: [\d.]+ % \([\d.]+ to [\d.]+\)"
        assert re.search(rf"last audit +{measured}, from \d+ audit rows of round 2", text)
        assert re.search(rf"model now +trained on all {facts['labeled']} labels; no audit measured it", text)
        assert "first audit" not in text
        assert "two audits" not in text
    assert sum(facts["classes"].values()) == facts["labeled"]
    assert facts["labeled"] + facts["skipped"] == 70
    assert [audit["round"] for audit in facts["audits"]] == [2]


def test_people_are_told_in_their_words_what_comes_next(command):
    command("start", "rows.npy", "--table", "texts.csv", "--budget", 70, "--rounds", 2, "--audit", 50)
    later = "after the batch of round 2, with 50 rows"
    told = [
        (r"4 answers \(round 1: rows from all over the data\)", later),
        (r"16 answers \(round 2: rows that the model is unsure about\)", later),
        (r"50 answers \(round 2: random rows that measure the model\)", "now, with the 50 rows that are asked"),
    ]
    for number, (waiting, audit) in enumerate(told):
        said = command("ask", "run.state", "--out", f"{number}.csv")
        assert re.search(rf"waiting for +{waiting}", said)
        assert re.search(rf"first audit +{audit}", said)
        fill_in(f"{number}.csv")
        said = command("tell", "run.state", f"{number}.csv")
    assert "first audit" not in said


@pytest.mark.parametrize("table", [False, True])
def test_the_last_answer_points_to_the_report_and_to_python_that_predicts_all_rows(command, table):
    from tables import write

    x, y = np.load("rows.npy")[:, :2].T.astype(float)
    write(Path("rows.csv"), {"key": [f"q{row}" for row in range(120)], "x": x, "y": y, "label": np.zeros(120)})
    source = ("rows.csv", "--id-column", "key", "--standardize") if table else ("rows.npy",)
    command("start", *source, "--budget", 9, "--rounds", 1, "--state", "b.state")
    command("ask", "b.state")
    fill_in("ask.csv")
    for said in (command("tell", "b.state", "ask.csv"), command("status", "b.state")):
        assert re.search(r"next +train a model on \S+labeled\.parquet, or let the model of this run label", said)
        assert "coresift active-learning report b.state writes a page" in said
        lines = [line.strip() for line in said.splitlines()]
        names = {"cs": cs}
        exec("\n".join(line for line in lines if line.startswith(("run = ", "predicted = "))), names)
        with names["run"] as run:
            assert run.result == cs.load("labeled.parquet")
            assert len(names["predicted"]) == 120


def test_a_file_without_the_column_of_labels_is_told_which_option_names_another(command):
    command("start", "rows.npy", "--table", "texts.csv", "--budget", 9, "--rounds", 1)
    command("ask", "run.state", "--out", "a.csv")
    with pytest.raises(InputError, match=r"named label; name another with --column \(text, table_label\)\.$"):
        command("tell", "run.state", "a.csv")
    fill_in("a.csv")
    Path("a.csv").write_text(
        Path("a.csv").read_text().replace(",label\n", ",color\n", 1).replace(",label\r", ",color\r", 1)
    )
    assert "9 new" in command("tell", "run.state", "a.csv", "--column", "color")


def read_lines(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_the_model_labels_all_rows_that_people_did_not(command):
    command("start", "rows.npy", "--table", "texts.csv", "--budget", 12, "--rounds", 1)
    with pytest.raises(InputError, match=r"There are no labels to learn from yet; tell the first ones, then predict\."):
        command("predict", "run.state")
    command("ask", "run.state", "--out", "a.csv")
    asked = {int(line["row"]) for line in fill_in("a.csv", lambda row: label_of(row).upper())}
    command("tell", "run.state", "a.csv")
    with pytest.raises(InputError, match=r"another file than labeled\.parquet, which is for the labeled rows"):
        command("predict", "run.state", "--out", "labeled.parquet")
    told = command("predict", "run.state", "--out", "all.csv", "--json")
    assert (told["wrote"], told["labeled"], told["predicted"]) == ("all.csv", 12, 108)
    lines = read_lines("all.csv")
    assert [int(line["row"]) for line in lines] == list(range(120))
    assert all(line["text"] == f"question {line['row']}, with a comma" for line in lines)
    assert {int(line["row"]) for line in lines if line["label_by"] == "person"} == asked
    assert all(line["label"] == label_of(int(line["row"])).upper() for line in lines if int(line["row"]) in asked)
    with cs.active_learning("rows.npy", 12, rounds=1, state="run.state") as run:
        chances = run.model.predict_proba(run.rows)
        answers = run.model.predict(run.rows)
    for row, line in enumerate(lines):
        if row not in asked:
            assert line["label"] == answers[row]
            assert float(line["confidence"]) == pytest.approx(chances[row].max(), abs=1e-6)
        else:
            assert line["confidence"] == ""


def test_numbers_are_predicted_with_their_standard_deviation(command):
    rows = np.load("rows.npy")
    command("start", "rows.npy", "--budget", 20, "--rounds", 1, "--numeric")
    command("ask", "run.state", "--out", "a.csv")
    fill_in("a.csv", lambda row: float(rows[row] @ [1, 2, 3]))
    command("tell", "run.state", "a.csv")
    command("predict", "run.state", "--out", "all.csv")
    lines = read_lines("all.csv")
    guesses = np.array([float(line["label"]) for line in lines])
    np.testing.assert_allclose(guesses, rows @ [1, 2, 3], atol=0.2)
    assert all(float(line["standard_deviation"]) > 0 for line in lines if line["label_by"] == "model")


def test_an_audit_that_nobody_could_label_is_not_measured(command):
    command("start", "rows.npy", "--table", "texts.csv", "--budget", 55, "--rounds", 1, "--audit", 50)
    for name, label in [("a.csv", label_of), ("b.csv", lambda row: "?")]:
        command("ask", "run.state", "--out", name)
        fill_in(name, label)
        said = command("tell", "run.state", name, "--cannot-tell", "?")
    assert "not measured, since too few of its rows have a label" in said
    assert "5 of 120 rows; 50 skipped; budget 55" in said


def test_labels_that_look_misspelled_are_told_and_kept_as_they_are(command):
    command("start", "rows.npy", "--table", "texts.csv", "--budget", 60, "--rounds", 1)
    command("ask", "run.state", "--out", "a.csv")
    odd = {0: "Economics", 1: "helath", 2: " health ", 3: "cannot tell"}
    rows = [int(line["row"]) for line in fill_in("a.csv", lambda row: "")]
    places = {row: place for place, row in enumerate(rows)}
    lines = [f"{row},{odd.get(place, ('health', 'economics')[place % 2])}" for row, place in places.items()]
    Path("b.csv").write_text("\n".join(["Row,LABEL", *lines]) + "\n")
    facts = command("tell", "run.state", "b.csv", "--json")
    assert facts["classes"] == {"health": 29, "economics": 28, "Economics": 1, "helath": 1, "cannot tell": 1}
    assert facts["warnings"] == [
        "1 label is 'cannot tell', which counts as a class; if it means that nobody can label the row, hand the file "
        "in again with --correct --cannot-tell 'cannot tell'.",
        "2 classes may be misspelled, since 'helath' (1) and 'health' (29), 'Economics' (1) and 'economics' (28) are "
        "almost the same; to change labels, hand the file in again with --correct.",
    ]
    Path("c.csv").write_text(f"row,label\n{rows[0]},economics\n{rows[1]},health\n{rows[4]},health\n")
    said = command("tell", "run.state", "c.csv", "--correct")
    assert "Read 3 answers: 2 corrected, 1 unchanged" in said
    assert "Warning" not in said


def test_labelers_who_would_see_no_text_are_told_of_at_the_start(command):
    facts = command("start", "rows.npy", "--budget", 10, "--json")
    assert facts["warnings"] == [
        "Labelers will see no texts, only row numbers; to show them a table, start a run with --table and --state."
    ]
    facts = command("start", "rows.npy", "--table", "texts.csv", "--budget", 10, "--state", "b.state", "--json")
    assert "warnings" not in facts


def test_cells_that_a_spreadsheet_would_run_are_told_once_per_file(command):
    texts = ["=1+1", "-2 degrees", "@home", *["plain"] * 117]
    Path("odd.csv").write_text("\n".join(["text", *texts]) + "\n")
    command("start", "rows.npy", "--table", "odd.csv", "--budget", 119, "--rounds", 1, "--out", "labeled.csv")
    facts = command("ask", "run.state", "--out", "a.csv", "--json")
    count = sum(line["text"].startswith("'") for line in fill_in("a.csv", lambda row: "-" if row < 9 else "b"))
    told = (
        f"{count} cells of a.csv begin like a formula (=, +, -, @) and got an apostrophe, so that no spreadsheet runs "
        "a text; coresift removes the apostrophe when it reads the file, and .parquet and .jsonl files have none."
    )
    assert facts["warnings"] == [told]
    assert "warnings" not in command("ask", "run.state", "--out", "a.parquet", "--json")
    (told,) = command("tell", "run.state", "a.csv", "--json")["warnings"]
    with open("labeled.csv", newline="") as file:
        cells = [cell for line in csv.reader(file) for cell in line]
    assert told.startswith(f"{sum(cell.startswith(chr(39)) for cell in cells)} cells of ")
    assert sum(label == "-" for label in cs.load("labeled.csv").labels) >= 8


# ------------------------------------------------------------------ the page


def page_of(run, tmp_path):
    return cs.report(run, tmp_path / "run.html").read_text()


@pytest.mark.slow
def test_the_page_shows_rounds_audits_and_classes(tmp_path):
    rows = np.random.default_rng(0).normal(size=(400, 4)).astype(np.float32)
    labels = np.where(rows[:, 0] > 0, "<b>right</b>", "left").astype(object)
    labels[::7] = None
    run = cs.active_learning(rows, 200, rounds=3, audit=100, labels=labels)
    run.complete()
    page = page_of(run, tmp_path)
    assert page.count('<circle class="t') == 200 + 3  # one per row, one per round
    assert len(run.audits) == 2
    assert page.count('<line class="interval"') == 2 * len(run.audits)  # in the curve, and in the table
    assert "points from round 2 to round 3" in page
    assert run.audits[-1].advice(400) in page
    assert all(f"{audit.value:.1%} ({audit.low:.1%} to {audit.high:.1%})" in page for audit in run.audits)
    assert "<b>" not in page
    assert "&lt;b&gt;right&lt;/b&gt;" in page
    assert f"<dd>{len(run.labels)}</dd>" in page
    assert page.count("<script>") == 1  # the page's own, for its theme
    assert not re.search(r'(src|href)="?https?:', page)
    assert page_of(run, tmp_path) == page


@pytest.mark.slow
def test_the_page_says_when_an_audit_comes_and_how_to_open_the_run_in_python(command):
    command("start", "rows.npy", "--budget", 60, "--rounds", 2, "--audit", 50, "--classes", "a,b", "--seed", 3)
    command("report", "run.state", "--out", "begun.html")
    page = Path("begun.html").read_text()
    assert page.count("The first one comes after the batch of round 2, with 50 rows.") == 1
    assert "audit=100" not in page
    command("start", "rows.npy", "--budget", 6, "--rounds", 1, "--classes", "a,b", "--seed", 3, "--state", "b.state")
    command("ask", "b.state")
    fill_in("ask.csv", lambda row: "a" if row % 2 else "b")
    command("tell", "b.state", "ask.csv")
    command("report", "b.state", "--out", "end.html")
    (call,) = re.findall(r"run = (cs\.active_learning\([^<]*\))<", html.unescape(Path("end.html").read_text()))
    call = call.replace("run.state", "b.state")
    with eval(call, {"cs": cs, "embeddings": "rows.npy"}) as run:
        assert run.result == cs.load("labeled.parquet")


def test_the_page_of_a_run_that_has_begun_and_of_numbers(tmp_path):
    rows = np.random.default_rng(0).normal(size=(100, 2))
    run = cs.active_learning(rows, 20, rounds=2, numeric=True)
    assert "4 answers missing" in page_of(run, tmp_path)
    run.tell(run.ask(), rows[run.ask(), 0])
    assert "label: from" in page_of(run, tmp_path)
    with pytest.raises(InputError, match="The report of a run takes only title, engine and progress"):
        cs.report(run, tmp_path / "run.html", text="text")
