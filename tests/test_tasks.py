"""Rows to label go to a labeling tool and come back from its export."""

import json

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import coresift as cs
from coresift.checks import InputError
from coresift.cli.app import app
from coresift.tables.tasks import SKIPPED, Tool, read_tasks, write_tasks

ROWS = pa.table({"row": [7, 3], "text": ["Where is my card?", "Überweisung <b>"], "when": [None, 2.5]})


def label_studio(row, choice, **more):
    """One task as Label Studio exports it."""
    result = [{"from_name": "intent", "to_name": "text", "type": "choices", "value": {"choices": [choice]}}]
    annotation = {"id": 1, "was_cancelled": False, "result": result, **more}
    return {"id": 10 + row, "data": {"row": row, "text": "x"}, "annotations": [annotation], "predictions": []}


def argilla(row, label, status="submitted"):
    """One record as Argilla exports it."""
    response = {"value": label, "user_id": "00000000-0000-0000-0000-000000000000", "status": status}
    return {"id": str(row), "fields": {"text": "x"}, "metadata": {}, "responses": {"intent": [response]}}


def export(tmp_path, *tasks):
    path = tmp_path / "export.json"
    path.write_text(json.dumps(list(tasks)))
    return path


def test_what_is_written_is_what_the_tools_import(tmp_path):
    path = tmp_path / "tasks.json"
    write_tasks(ROWS, path, Tool.LABEL_STUDIO)
    assert json.loads(path.read_text()) == [
        {"data": {"row": 7, "text": "Where is my card?", "when": None}},
        {"data": {"row": 3, "text": "Überweisung <b>", "when": 2.5}},
    ]
    write_tasks(ROWS, path, Tool.ARGILLA)
    assert json.loads(path.read_text()) == [
        {"id": "7", "fields": {"text": "Where is my card?"}},
        {"id": "3", "fields": {"text": "Überweisung <b>", "when": "2.5"}},
    ]
    with pytest.raises(InputError, match=r"label-studio must be a file with the extension \.json; got"):
        write_tasks(ROWS, tmp_path / "tasks.csv", Tool.LABEL_STUDIO)


@pytest.mark.parametrize("made", [label_studio, argilla])
def test_labels_come_back(tmp_path, made):
    skip = label_studio(5, "x", was_cancelled=True) if made is label_studio else argilla(5, None, "discarded")
    table = read_tasks(export(tmp_path, made(7, "card"), made(3, "transfer"), skip), "label")
    assert table.to_pydict() == {"row": [7, 3, 5], "label": ["card", "transfer", None], SKIPPED: [0, 0, 1]}


def test_argilla_leaves_out_the_status_of_responses(tmp_path):
    """What `JsonIO.to_json` of Argilla 2.8.0 wrote."""
    record = {
        "id": "854",
        "fields": {"text": "x"},
        "metadata": {},
        "suggestions": {},
        "vectors": {},
        "status": "pending",
    }
    user = "00000000-0000-0000-0000-000000000001"
    record |= {"responses": {"intent": [{"value": "other", "user_id": user}]}, "_server_id": None}
    table = read_tasks(export(tmp_path, record), "label")
    assert table.to_pydict() == {"row": [854], "label": ["other"], SKIPPED: [0]}


def test_a_task_without_an_annotation_is_not_answered(tmp_path):
    fresh = {"data": {"row": 1, "text": "x"}}
    assert len(read_tasks(export(tmp_path, fresh, {"id": "2", "fields": {"text": "y"}}), "label")) == 0


def test_two_annotators_must_agree(tmp_path):
    same = read_tasks(export(tmp_path, label_studio(7, "card"), label_studio(7, "card")), "label")
    assert same["label"].to_pylist() == ["card"]
    with pytest.raises(InputError, match=r"one label per row; row 7 has two, 'card' and 'pin': settle it"):
        read_tasks(export(tmp_path, label_studio(7, "card"), label_studio(7, "pin")), "label")


def test_of_several_choices_none_is_taken(tmp_path):
    task = label_studio(7, "card")
    task["annotations"][0]["result"][0]["value"] = {"choices": ["card", "pin"]}
    with pytest.raises(InputError, match=r"one label per row; row 7 has two, 'card' and 'pin'"):
        read_tasks(export(tmp_path, task), "label")


@pytest.mark.parametrize("number", [2**53 + 1, -(2**60) - 1, 10**30, 10**400])
def test_a_number_that_no_float_holds_gets_a_sentence(tmp_path, number):
    with pytest.raises(InputError, match=r"text or a finite number as a label; row 7 has -?\d"):
        read_tasks(export(tmp_path, argilla(7, number)), "label")
    assert read_tasks(export(tmp_path, argilla(7, 2**60)), "label")["label"].to_pylist() == [2.0**60]


def test_numbers_and_several_controls(tmp_path):
    task = label_studio(7, "card")
    task["annotations"][0]["result"].append({"from_name": "stars", "value": {"rating": 4}})
    with pytest.raises(InputError, match=r"several controls, intent, stars: name the one to read with --column"):
        read_tasks(export(tmp_path, task), "label")
    assert read_tasks(export(tmp_path, task), "stars")["stars"].to_pylist() == [4.0]
    assert read_tasks(export(tmp_path, task), "intent")["intent"].to_pylist() == ["card"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[1", "it is not JSON"),
        ("{}", "a list of tasks"),
        ("[[]]", "a list of tasks"),
        ('[{"x": 1}]', "one has neither"),
        ('[{"data": {"text": "x"}}]', "the row number that ask wrote in every task; one has None"),
    ],
)
def test_other_files_get_a_sentence(tmp_path, content, sentence):
    path = tmp_path / "export.json"
    path.write_text(content)
    with pytest.raises(InputError, match=sentence):
        read_tasks(path, "label")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"annotations": 5}, "a list of objects as annotations of a task; one has 5"),
        ({"annotations": [5]}, r"a list of objects as annotations of a task; one has \[5\]"),
        ({"annotations": [{"result": "x"}]}, "a list of objects as a result of a task; one has 'x'"),
        ({"annotations": [{"result": [{"value": 5}]}]}, "an object as a value of a task; one has 5"),
        ({"annotations": [{"result": [{"value": {"choices": [{}]}}]}]}, "a text or a finite number as a label; row 7"),
        (
            {"annotations": [{"result": [{"value": {"number": 10**400}}]}]},
            "a text or a finite number as a label; row 7",
        ),
        ({"annotations": [{"result": [{"value": {"text": "\ud800"}}]}]}, "a text or a finite number as a label; row 7"),
        ({"data": {"row": 1.5}}, "the row number that ask wrote in every task; one has 1.5"),
        ({"data": {"row": True}}, "the row number that ask wrote in every task; one has True"),
        ({"data": {"row": "7_0"}}, "the row number that ask wrote in every task; one has '7_0'"),
        ({"data": None, "fields": {}, "id": "7", "responses": [1]}, r"an object as responses of a task; one has \[1\]"),
        (
            {"data": None, "fields": {}, "id": "7", "responses": {"a": 5}},
            "the responses to a question of a task; one has",
        ),
    ],
)
def test_a_task_with_values_of_other_types_gets_a_sentence(tmp_path, change, sentence):
    with pytest.raises(InputError, match=sentence):
        read_tasks(export(tmp_path, {**label_studio(7, "card"), **change}), "label")


def test_names_of_controls_may_be_anything_and_no_choice_is_no_label(tmp_path):
    odd, empty = label_studio(7, "card"), label_studio(3, "card")
    odd["annotations"][0]["result"][0]["from_name"] = ["intent"]
    empty["annotations"][0]["result"][0]["value"] = {"choices": []}
    assert read_tasks(export(tmp_path, odd, empty), "label").to_pydict() == {
        "row": [7],
        "label": ["card"],
        SKIPPED: [0],
    }


@pytest.mark.parametrize("tool", list(Tool))
def test_a_round_of_labels_through_a_tool(tmp_path, monkeypatch, tool):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3)) + 6 * (np.arange(60) % 2)[:, None]
    np.save("rows.npy", rows)
    cs.tables.write_table(pa.table({"text": [f"text {row}" for row in range(60)]}), "texts.csv")
    shell = CliRunner()

    def call(*words):
        result = shell.invoke(app, ["active-learning", *words])
        assert result.exit_code == 0, result.output

    call("start", "rows.npy", "--table", "texts.csv", "--budget", "8", "--rounds", "2", "--out", "labeled.csv")
    for turn in range(2):
        call("ask", "run.state", "--format", tool.value, "--out", f"tasks-{turn}.json")
        tasks = json.loads((tmp_path / f"tasks-{turn}.json").read_text())
        numbers = [int(task["data"]["row"] if tool is Tool.LABEL_STUDIO else task["id"]) for task in tasks]
        assert (tasks[0].get("data") or tasks[0]["fields"])["text"] == f"text {numbers[0]}"
        made = label_studio if tool is Tool.LABEL_STUDIO else argilla
        answers = [made(row, "odd" if row % 2 else "even") for row in numbers]
        if tool is Tool.LABEL_STUDIO:
            answers[0]["annotations"][0]["was_cancelled"] = True
        call("tell", "run.state", str(export(tmp_path, *answers)))
    labeled = cs.load("labeled.csv")
    known = [label for label in labeled.labels if label is not None]
    assert len(known) == (6 if tool is Tool.LABEL_STUDIO else 8)
    assert set(known) == {"odd", "even"}


@pytest.mark.parametrize(("form", "name"), [("csv", "ask.csv"), ("label-studio", "ask.json"), ("argilla", "ask.json")])
def test_every_format_has_a_file_of_its_own_and_refuses_others(tmp_path, monkeypatch, form, name):
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", np.random.default_rng(0).normal(size=(30, 3)))
    shell = CliRunner()
    start = ["active-learning", "start", "rows.npy", "--budget", "6", "--out", "labeled.csv"]
    assert shell.invoke(app, start).exit_code == 0
    assert shell.invoke(app, ["ask", "run.state", "--format", form]).exit_code == 0
    assert (tmp_path / name).exists()
    refused = shell.invoke(app, ["ask", "run.state", "--format", form, "--out", "tasks.parquet"])
    assert f"A file for {form} must be a file with the extension {(tmp_path / name).suffix}" in str(refused.exception)
