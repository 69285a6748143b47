"""Evaluations by files: at once, and in steps that are days apart."""

import csv
import json

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from coresift.cli import app, evaluating

N = 1_500
RNG = np.random.default_rng(3)
P = RNG.beta(0.6, 1.4, size=N)
TRUTH = np.where(RNG.random(N) < P, "yes", "no")
GUESS = np.where(P > 0.5, "yes", "no")
RIVAL = np.where(RNG.random(N) < 0.1, "yes", GUESS)
ACCURACY = (TRUTH == GUESS).mean()


@pytest.fixture
def command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open("rows.csv", "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["id", "guess", "rival", "doubt", "text"])
        doubt = np.minimum(P, 1 - P).round(4)
        lines.writerows([f"q{row}", GUESS[row], RIVAL[row], doubt[row], f"text {row}"] for row in range(N))
    with open("labels.csv", "w", newline="") as file:
        csv.writer(file).writerows([["id", "label"], *([f"q{row}", TRUTH[row]] for row in range(N))])

    def run(*words, status=0):
        result = CliRunner().invoke(app, ["evaluate", *map(str, words)])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            if status:
                return str(result.exception)
            raise result.exception
        return json.loads(result.output) if "--json" in words else result.output

    return run


@pytest.mark.slow
def test_at_once(command, tmp_path):
    said = command("run", "rows.csv", "--predictions", "guess", "--signals", "doubt", "--answers", "labels.csv",
                   "--budget", 300, "--json")  # fmt: skip
    found = json.loads((tmp_path / "evaluation.json").read_text())
    assert found["value"] == pytest.approx(ACCURACY, abs=5 * found["standard_error"])
    assert said["value"] == found["value"]
    told = command("run", "rows.csv", "--predictions", "guess,rival", "--metric", "difference", "--answers",
                   "labels.csv", "--budget", 80)  # fmt: skip
    assert "guess − rival" in told
    assert "verdict" in told


@pytest.mark.slow
def test_in_steps(command, tmp_path):
    command("start", "rows.csv", "--predictions", "guess", "--signals", "doubt", "--budget", 200)
    command("ask", "run.state", "--out", "ask.csv")
    with open("ask.csv", newline="") as file:
        asked = list(csv.DictReader(file))
    assert set(asked[0]) == {"row", "id", "rival", "text"}  # people should not see the guess or the doubt
    assert len(asked) == 60
    assert "60 answers (round 1: first stage)" in command("status", "run.state")
    command("tell", "run.state", "labels.csv")
    said = command("status", "run.state", "--json")
    assert said["interim"]["asked"] == 60
    assert said["note"].endswith("do not stop because of it")
    command("tell", "run.state", "labels.csv")
    assert "200 answers give ±" in command("plan", "run.state", "--cost", 0.5)
    assert command("report", "run.state", "--out", "page.html", "--quiet") == ""
    assert command("report", "run.state", "--out", "page.html", "--json")["wrote"] == ["page.html"]
    page = (tmp_path / "page.html").read_text()
    assert "Stage by stage" in page
    assert "Width against answers" in page
    assert "After 60 answers" in page
    found = json.loads((tmp_path / "evaluation.json").read_text())
    assert found["asked"] == 200
    assert found["value"] == pytest.approx(ACCURACY, abs=5 * found["standard_error"])


def test_signals_of_a_csv_file_are_numbers(command, tmp_path):
    """A text file and a Parquet file with the same numbers give the same forecast and the same rows."""
    pyarrow.parquet.write_table(pyarrow.csv.read_csv("rows.csv"), "rows.parquet")
    asked = []
    for table in ("rows.csv", "rows.parquet"):
        command(
            "start",
            table,
            "--predictions",
            "guess",
            "--signals",
            "doubt",
            "--within",
            0.04,
            "--state",
            f"{table}.state",
        )
        plan = command("plan", f"{table}.state", "--json")
        assert plan["basis"] == "the first signal, read as each row's probability and trusted"
        with evaluating._reopened(tmp_path / f"{table}.state") as opened:
            asked.append(opened.ask().tolist())
    assert asked[0] == asked[1]


def test_a_finished_evaluation_goes_on(command, tmp_path):
    command("start", "rows.csv", "--predictions", "guess", "--budget", 60)
    command("tell", "run.state", "labels.csv")
    assert "not finished" in command("extend", "run.state", "--budget", 90, "--state", "more.state", status=2)
    command("tell", "run.state", "labels.csv")
    # Once finished, the run's answers make up the first 60 of the new run.
    assert "has no --within" in command("extend", "run.state", "--within", 0.1, "--state", "more.state", status=2)
    said = command("extend", "run.state", "--budget", 90, "--state", "more.state", "--json")
    assert (said["answered"], said["pending"]) == (60, 30)
    command("tell", "more.state", "labels.csv")
    assert json.loads((tmp_path / "evaluation.json").read_text())["stages"] == [18, 42, 30]


def test_status_shows_the_number_and_what_comes_next(command):
    assert "coresift evaluate ask" in command("start", "rows.csv", "--predictions", "guess", "--budget", 60)
    command("tell", "run.state", "labels.csv")
    said = command("status", "run.state")
    assert "accuracy so far" in said
    assert "do not stop because of it" in said
    command("tell", "run.state", "labels.csv")
    assert "accuracy" in command("status", "run.state")


def test_the_plan_of_a_run_uses_its_complete_stages(command):
    command("start", "rows.csv", "--predictions", "guess", "--within", 0.03)
    before = command("plan", "run.state", "--json")
    command("tell", "run.state", "labels.csv")
    after = command("plan", "run.state", "--json")
    assert after["basis"] == "200 answers"
    assert after["answers"] != before["answers"]


def test_refusals(command):
    assert "predictions must be" in command("start", "rows.csv", "--predictions", "nobody", "--budget", 9, status=2)
    assert "needs --within" in command("start", "rows.csv", "--predictions", "guess", status=2)


def test_ids_may_be_in_another_column_of_the_table_and_of_answers(command, tmp_path):
    for name in ("rows.csv", "labels.csv"):
        path = tmp_path / name
        path.write_text("stone" + path.read_text().removeprefix("id"))
    options = ("--predictions", "guess", "--budget", 60, "--id-column", "stone")
    by_id = command("run", "rows.csv", *options, "--answers", "labels.csv", "--json")
    command("start", "rows.csv", *options)
    command("ask", "run.state")
    assert (tmp_path / "ask.csv").read_text().splitlines()[0].replace('"', "") == "row,stone,rival,doubt,text"
    for _ in range(2):
        command("tell", "run.state", "labels.csv")
    assert json.loads((tmp_path / "evaluation.json").read_text())["value"] == by_id["value"]
    said = command("start", "rows.csv", *options[:-1], "stones", "--state", "other.state", status=2)
    assert "--id-column must be one of the columns 'stone', 'guess'" in said


@pytest.mark.parametrize("name", ["evaluate", "active-learning"])
def test_commands_that_users_guess_lead_to_the_right_ones(name):
    for more in ((), ("--help",)):
        said = CliRunner().invoke(app, ["start", name, *more])
        assert said.exit_code == 2
        assert f"the command is coresift {name} start" in said.output
    for verb in ("ask", "tell", "status"):
        shown = CliRunner().invoke(app, [name, verb, "--help"]).output
        assert f"coresift {name} {verb} run.state" in shown
        assert f"coresift {verb}" not in shown


def test_the_page_of_a_state_file_has_its_own_command(command):
    command("start", "rows.csv", "--predictions", "guess", "--budget", 60)
    said = CliRunner().invoke(app, ["report", "run.state"])
    assert str(said.exception) == (
        "SELECTION must be a file that select wrote; run.state is a state file: for a page about its run, use "
        "coresift evaluate report."
    )
