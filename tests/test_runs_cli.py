"""The verbs of a run: a job that is started in one process is asked, told and finished in others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import typer
from tables import write
from typer.testing import CliRunner

import coresift as cs
from coresift.answers import AnswerFile
from coresift.checks import AnswerError, InputError
from coresift.cli import runs
from coresift.cli.runs import JOBS, StepJob, add_start, add_verbs
from coresift.oracle import CLASS, LOSS, Request
from coresift.oracle.run import Run
from faults.forging import forge_state


def two_rounds(n):
    """Ask four rows, then the two after the one with the largest answer (or the longest label)."""
    first = yield Request([2, 3, 5, 7], "pilot")
    sizes = [len(answer or "") if isinstance(answer, str | None) else answer for answer in first.tolist()]
    top = [2, 3, 5, 7][int(np.argmax(sizes))]
    more = yield Request([top, (top + 1) % n, (top + 2) % n], "around the top", 2)
    return {"top": top, "answers": more.tolist()}


def make_job(name, question):
    def opened(arguments, state):
        rows = cs.open_rows(arguments["rows"])
        fingerprint = {"rows": rows.fingerprint(), "job": name}
        options = {"question": question, "names": rows.names, "state": state, "arguments": arguments}
        return Run(lambda: two_rounds(rows.n), rows.n, fingerprint=fingerprint, **options)

    def written(result, arguments):
        Path(arguments["out"]).write_text(json.dumps(result))
        return [("top row", str(result["top"]))]

    return StepJob(name, opened, written, lambda arguments: Path(arguments["out"]))


def flags(
    rows: Annotated[Path, typer.Argument()], out: Annotated[Path, typer.Option()] = Path("end.json"), note: str = ""
):
    return {"rows": rows, "out": out, "note": note}


@pytest.fixture
def command(tmp_path, monkeypatch):
    """A command line with two jobs, in a folder with rows that have ids of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(JOBS, "unused", make_job("unused", LOSS))
    embedding = pa.array(np.random.default_rng(0).normal(size=(20, 3)).tolist(), pa.list_(pa.float32(), 3))
    write(tmp_path / "rows.parquet", {"id": [f"q{row}" for row in range(20)], "embedding": embedding})
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32))
    app, starts = typer.Typer(), typer.Typer()
    add_start(starts, make_job("losses", LOSS), flags)
    add_start(starts, make_job("labels", CLASS), flags)
    app.add_typer(starts, name="start")
    add_verbs(app)

    def run(*words):
        result = CliRunner().invoke(app, [str(word) for word in words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return json.loads(result.output) if "--json" in words else result.output

    yield run
    for name in ("losses", "labels"):
        JOBS.pop(name, None)


def loss(row):
    return (row * 7 % 11) / 4


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
@pytest.mark.parametrize("rows", ["rows.parquet", "rows.npy"])
def test_start_ask_tell_until_the_result_is_there(command, tmp_path, suffix, rows):
    assert "Started losses; its state is in run.state" in command("start", "losses", rows)
    for asked, reason in [([2, 3, 5, 7], "pilot"), ([4, 6], "around the top")]:
        assert reason in command("ask", "run.state", "--out", f"ask{suffix}") + command("status", "run.state")
        answers = AnswerFile(tmp_path / f"ask{suffix}")
        assert ("id" in answers.columns) == (rows == "rows.parquet")
        found = answers.rows().tolist()
        assert found == [row for row in asked if row in found]
        key = {"id": [f"q{row}" for row in found]} if rows == "rows.parquet" else {"row": found}
        write(tmp_path / f"told{suffix}", {**key, "loss": [loss(row) for row in found]})
        facts = command("tell", "run.state", f"told{suffix}", "--json")
        assert facts["read"] == len(found)
        if facts["finished"]:
            break
    assert facts["finished"]
    assert (tmp_path / "end.json").is_file()
    expected = max([2, 3, 5, 7], key=loss)
    assert json.loads((tmp_path / "end.json").read_text()) == {
        "top": expected,
        "answers": [loss(row % 20) for row in range(expected, expected + 3)],
    }
    assert "There is nothing left to answer" in command("ask", "run.state", "--out", f"more{suffix}")


def test_answers_come_in_parts_and_can_be_corrected(command, tmp_path):
    command("start", "losses", "rows.npy", "--state", "a.state")
    write(tmp_path / "half.csv", {"row": [2, 3, 5, 7, 19], "loss": [1.0, None, 3.0, None, 9.0]})
    facts = command("tell", "a.state", "half.csv", "--json")
    assert (facts["answered"], facts["pending"], facts["round"], facts["reason"]) == (2, 2, 1, "pilot")
    write(tmp_path / "rest.csv", {"row": [3, 7], "worth": [0.5, 0.25]})
    assert command("tell", "a.state", "rest.csv", "--column", "worth", "--json")["pending"] == 1
    write(tmp_path / "other.csv", {"row": [5], "loss": [0.125]})
    with pytest.raises(InputError, match=r"Row 5 already has the answer 3.0; .* use --correct"):
        command("tell", "a.state", "other.csv")
    facts = command("tell", "a.state", "other.csv", "--correct", "--json")
    assert (facts["asked"], facts["pending"]) == (5, 1)  # now around row 2, of which row 4 is new
    assert command("ask", "a.state", "--json")["pending"] == 1
    assert pa.csv.read_csv(tmp_path / "ask.csv")["row"].to_pylist() == [4]
    write(tmp_path / "bad.csv", {"row": [4], "loss": [-1.0]})
    with pytest.raises(AnswerError, match=r"row 4 has -1.0"):
        command("tell", "a.state", "bad.csv")
    assert command("status", "a.state", "--json")["pending"] == 1


def test_labels_are_words_and_one_word_may_mean_that_nobody_can_tell(command, tmp_path):
    command("start", "labels", "rows.parquet")
    labels = {"id": ["q2", "q3", "q5", "q7"], "label": ["cat", "?", "horse", "ox"]}
    write(tmp_path / "told.csv", labels)
    command("tell", "run.state", "told.csv", "--cannot-tell", "?")
    write(tmp_path / "more.jsonl", {"id": ["q6"], "label": ["?"]})
    assert command("tell", "run.state", "more.jsonl", "--cannot-tell", "?", "--json")["finished"]
    assert json.loads((tmp_path / "end.json").read_text()) == {"top": 5, "answers": ["horse", None, "ox"]}
    command("start", "losses", "rows.npy", "--state", "b.state")
    with pytest.raises(InputError, match="--cannot-tell is for runs that ask for labels"):
        command("tell", "b.state", "told.csv", "--cannot-tell", "?")


def test_a_state_file_works_from_any_folder_and_belongs_to_one_start(command, tmp_path, monkeypatch):
    command("start", "losses", "rows.npy")
    assert "waiting for" in command("start", "losses", "rows.npy")  # once more, after a kill perhaps
    with pytest.raises(
        InputError, match=r"another run \(NOTE left out then, other now\); continue it with ask and tell"
    ):
        command("start", "losses", "rows.npy", "--note", "other")
    with pytest.raises(InputError, match=r"another run \(ROWS .*rows\.npy then, .*rows\.parquet now\)"):
        command("start", "losses", "rows.parquet")
    with pytest.raises(InputError, match=r"another run \(of losses\)"):
        command("start", "labels", "rows.npy")
    (tmp_path / "torn.state").write_bytes((tmp_path / "run.state").read_bytes()[:30])
    command("start", "losses", "rows.npy", "--state", "torn.state")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert "4" in command("ask", tmp_path / "run.state")
    assert (tmp_path / "sub" / "ask.csv").is_file()


def test_what_is_no_state_file_of_a_start_is_one_sentence(command, tmp_path):
    with pytest.raises(InputError, match=r"^There is no state file none\.state\.$"):
        command("status", "none.state")
    (tmp_path / "notes").write_text("hello\n")
    with pytest.raises(InputError, match="is not a state file of coresift"):
        command("status", "notes")
    cs.select("rows.npy", cs.Oracle(np.sqrt, journal=tmp_path / "journal"), budget=10)
    with pytest.raises(
        InputError, match="was not written by start; continue a run of Python there, with the same call"
    ):
        command("status", "journal")
    with pytest.raises(InputError, match=r"another run \(which Python started\)"):
        command("start", "losses", "rows.npy", "--state", "journal")
    command("start", "losses", "rows.npy")
    content = (tmp_path / "run.state").read_bytes()
    (tmp_path / "run.state").write_bytes(content.replace(b"rows.npy", b"rows.npz"))
    with pytest.raises(InputError, match=r"^Line 1 of the state file run.state is damaged"):
        command("status", "run.state")


def test_arguments_in_a_state_file_are_checked(command, tmp_path):
    """Whoever can write a state file can compute its checksums, too."""
    command("start", "losses", "rows.npy")
    sound = (tmp_path / "run.state").read_bytes()
    for name, value, sentence in (
        ("rows", 5, r"run\.state has a value of the wrong type for rows: 5\."),
        ("out", ["x"], r"run\.state has a value of the wrong type for out: \['x'\]\."),
        ("note", None, r"run\.state has a value of the wrong type for note: None\."),
        ("job", {}, r"run\.state was not written by start"),
    ):
        (tmp_path / "run.state").write_bytes(sound)
        forge_state(tmp_path / "run.state", [0, "arguments", name], value)
        with pytest.raises(InputError, match=sentence):
            command("status", "run.state")
    (tmp_path / "run.state").write_bytes(sound)
    forge_state(tmp_path / "run.state", [0, "arguments"], {"job": "losses", "rows": "rows.npy", "out": "x"})
    with pytest.raises(InputError, match=r"run\.state has no argument note; another version may have written it\."):
        command("status", "run.state")


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (int | None, (3, None), (3.0, True, "3")),
        (float, (3, 0.5), (None, True, "x")),
        (bool, (True,), (1, None)),
        (Path | None, ("x", None), (5, [])),
        (list[str] | None, (["a"], [], None), ("a", [5], [["a"]])),
    ],
)
def test_a_value_out_of_json_fits_a_flag(kind, good, bad):
    assert all(runs._fits(value, kind) for value in good)
    assert not any(runs._fits(value, kind) for value in bad)


def test_answers_that_are_there_are_not_overwritten_and_passwords_are_not_kept(command, tmp_path):
    command("start", "losses", "rows.npy")
    write(tmp_path / "ask.csv", {"row": [2], "loss": [1.0]})
    with pytest.raises(InputError, match=r"ask\.csv already has losses in it; give another --out"):
        command("ask", "run.state")
    with pytest.raises(InputError, match="must not contain a password or a key") as error:
        command("start", "losses", "rows.npy", "--state", "c.state", "--note", "https://me:hunter2@host/rows")
    assert "hunter2" not in str(error.value)
    assert not (tmp_path / "c.state").exists()


def test_the_files_of_a_run_are_different_ones(command, tmp_path):
    """The result would replace the state, with every answer in it, and what is asked would replace the rows."""
    with pytest.raises(InputError, match=r"--state must be another file than --out; both are end\.json"):
        command("start", "losses", "rows.npy", "--state", "end.json")
    (tmp_path / "link.state").symlink_to("end.json")
    with pytest.raises(InputError, match=r"--state must be another file than --out; both are link\.state"):
        command("start", "losses", "rows.npy", "--state", "link.state")
    before = (tmp_path / "rows.parquet").read_bytes()
    command("start", "losses", "rows.parquet")
    with pytest.raises(InputError, match=r"--out must be another file than .*rows\.parquet, which is an input"):
        command("ask", "run.state", "--out", "rows.parquet")
    assert (tmp_path / "rows.parquet").read_bytes() == before
