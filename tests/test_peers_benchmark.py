"""The comparison with other tools: what is judged, how verdicts are made, and that a run can be continued."""

import json

import numpy as np
import pytest

from benchmarks.peers import __main__ as driver
from benchmarks.peers.report import quality, verdict, write_report
from benchmarks.peers.tools import JOBS, batches, draw


def test_errors_are_root_mean_squares_and_others_are_means():
    assert quality("cover", [1.0, 3.0]) == (2.0, 1.0)
    mean, error = quality("evaluate", [0.03, 0.04])
    assert mean == pytest.approx(np.sqrt((0.03**2 + 0.04**2) / 2))
    # The delta method: the standard error of the mean square over twice the root.
    assert error == pytest.approx(np.std([0.03**2, 0.04**2], ddof=1) / np.sqrt(2) / (2 * mean))
    assert quality("label", [0.5]) == (0.5, 0.0)


def test_verdicts_know_which_way_is_better():
    tools = {"coresift": (0.8, 0.01), "modAL": (0.7, 0.01)}
    assert verdict("label", tools) == "best"
    assert verdict("cover", tools) == "behind modAL"
    assert verdict("cover", tools | {"modAL": (0.79, 0.01)}) == "within one standard error of modAL"
    assert verdict("cover", {"modAL": (0.7, 0.01)}) == "not run"


def test_the_report_begins_with_losses_and_names_errors(tmp_path):
    facts = {"data": "digits", "seed": 0, "cpu_seconds": 1.0, "peak_megabytes": 50.0}
    lines = [
        {"job": "label", "tool": "coresift", "quality": 0.9, **facts},
        {"job": "label", "tool": "modAL", "data": "digits", "seed": 0, "error": "TypeError: too new"},
        {"job": "cover", "tool": "coresift", "quality": 2.0, **facts},
        {"job": "cover", "tool": "apricot", "quality": 1.0, **facts},
    ]
    write_report(lines, tmp_path / "peers.md")
    text = (tmp_path / "peers.md").read_text()
    assert text.index("- cover, digits: behind apricot") < text.index("- label, digits: best")
    assert text.index("## Cover") < text.index("## Label")
    assert "| modAL | failed: TypeError: too new |" in text


def test_every_tool_gets_the_whole_budget_in_rounds():
    assert sum(batches(300)) == 300
    assert batches(300)[0] == 60
    assert len(np.unique(draw(50, 20, 3))) == 20


def test_a_choice_above_the_budget_or_twice_of_a_row_is_refused():
    _, judge = driver.MAKERS["cover"]("digits")
    assert judge({"ids": np.arange(1_797)}, 1_797)["quality"] == 0
    for ids in (np.array([1, 1]), np.arange(3)):
        with pytest.raises(ValueError, match="for a budget of 2"):
            judge({"ids": ids}, 2)


def test_every_job_has_data_a_judge_and_coresift():
    assert set(JOBS) == set(driver.BUDGETS) == set(driver.MAKERS)
    assert all("coresift" in tools for tools in JOBS.values())


@pytest.mark.slow
def test_a_tool_runs_in_its_own_process_and_runs_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "KEPT", tmp_path / "peers.jsonl")
    monkeypatch.setattr(driver, "RESULTS", tmp_path)
    few = {name: JOBS["cover"][name] for name in ("uniform",)}
    monkeypatch.setattr(driver, "JOBS", {"cover": few})
    monkeypatch.setattr(driver, "BUDGETS", {"cover": {"digits": 100}})
    monkeypatch.setattr("sys.argv", ["peers", "--seeds", "1"])
    driver.main()
    kept = (tmp_path / "peers.jsonl").read_text()
    assert json.loads(kept)["peak_megabytes"] > 10
    assert json.loads(kept)["quality"] > 0
    monkeypatch.setattr(driver, "do", None)  # would be called if the run were not found
    driver.main()
    assert (tmp_path / "peers.jsonl").read_text() == kept


def test_a_tool_that_is_missing_is_an_error_by_name():
    run = {"job": "evaluate", "data": "questions", "tool": "glide-py", "seed": 0}
    answers = iter([{"error": "ModuleNotFoundError: No module named 'glide'"}, {"error": "TypeError: x"}])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "do", lambda run, python: next(answers))
        assert driver.try_all(run, ["a", "b"]) == {"error": "TypeError: x"}
