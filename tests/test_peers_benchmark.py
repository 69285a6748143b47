"""The comparison with other tools: what is judged, how verdicts are made, and that a run can be continued."""

import json

import numpy as np
import pytest

from benchmarks.peers import __main__ as driver
from benchmarks.peers import data
from benchmarks.peers.picture import picture
from benchmarks.peers.report import quality, relative, verdict, write_report
from benchmarks.peers.shared import batches, draw
from benchmarks.peers.tools import FIXED, JOBS


def line(job, tool, value, *, name="digits", seed=0):
    facts = {"data": name, "seed": seed, "first": True, "cpu_seconds": 1.0, "peak_megabytes": 50.0}
    return {"job": job, "tool": tool, "quality": value, **facts}


def test_errors_are_root_mean_squares_and_others_are_means():
    assert quality("cover", [1.0, 3.0]) == (2.0, 1.0)
    mean, error = quality("evaluate", [0.03, 0.04])
    assert mean == pytest.approx(np.sqrt((0.03**2 + 0.04**2) / 2))
    # The delta method: the standard error of the mean square over twice the root.
    assert error == pytest.approx(np.std([0.03**2, 0.04**2], ddof=1) / np.sqrt(2) / (2 * mean))
    assert quality("label", [0.5]) == (0.5, 0.0)


def test_verdicts_know_which_way_is_better():
    tools = {"coresift": (0.8, 0.01), "modAL": (0.7, 0.01)}
    assert verdict(tools, higher=True) == "best"
    assert verdict(tools) == "behind modAL"
    assert verdict(tools | {"modAL": (0.79, 0.01)}) == "within one standard error of modAL"
    assert verdict({"modAL": (0.7, 0.01)}) == "not run"


def test_other_settings_of_coresift_do_not_compete():
    tools = {"coresift": (0.8, 0.0), "coresift, the others' model": (0.7, 0.0), "modAL": (0.9, 0.0)}
    assert verdict(tools) == "best"


def test_a_job_is_judged_by_the_geometric_mean_over_data_that_nothing_was_tuned_on():
    lines = [line("cover", "uniform", 2.0), line("cover", "coresift", 1.0)]
    lines += [line("cover", "uniform", 1.0, name="tumors"), line("cover", "coresift", 2.0, name="tumors")]
    lines += [line("cover", "uniform", 1.0, name="questions"), line("cover", "coresift", 9.0, name="questions")]
    lines += [line("cover", "apricot", 1.0)]  # not on all data
    assert relative(lines, "cover") == {"uniform": (1.0, 0.0), "coresift": (pytest.approx(1.0), 0.0)}


def test_accuracies_are_compared_by_what_is_wrong():
    lines = [line("label", "uniform", 0.8), line("label", "coresift", 0.9)]
    assert relative(lines, "label")["coresift"][0] == pytest.approx(0.5)


def test_the_report_begins_with_losses_and_names_errors(tmp_path):
    lines = [
        line("label", "coresift", 0.9),
        {"job": "label", "tool": "modAL", "data": "digits", "seed": 0, "error": "TypeError: too new"},
        line("cover", "coresift", 2.0),
        line("cover", "uniform", 3.0),
        line("cover", "apricot", 1.0),
    ]
    write_report(lines, tmp_path / "peers.md")
    text = (tmp_path / "peers.md").read_text()
    assert text.index("- cover, 100 digits: behind apricot") < text.index("- label, 100 digits: best")
    assert text.index("### Cover") < text.index("### Label")
    assert "| modAL | failed: TypeError: too new |" in text
    assert "0.667 ± 0.000 | 0.333 ± 0.000 (apricot) | behind apricot |" in text


def test_the_plot_has_a_bar_for_every_tool_and_marks_coresift():
    drawn = picture({"cover": {"coresift": (0.5, 0.1), "uniform": (1.0, 0.0), "coresift, other": (0.4, 0.0)}})
    assert drawn.count("<rect") == 2
    assert 'rect class="ours"' in drawn


def test_every_tool_gets_the_whole_budget_in_rounds():
    assert sum(batches(300)) == 300
    assert batches(300)[0] == 60
    assert len(np.unique(draw(50, 20, 3))) == 20


def test_a_choice_above_the_budget_or_twice_of_a_row_is_refused():
    _, judge = data.MAKERS["cover"]("digits", [0])
    assert judge({"ids": np.arange(1_700)}, 1_797, 0)["quality"] < 0.1
    for ids in (np.array([1, 1]), np.arange(3)):
        with pytest.raises(ValueError, match="for a budget of 2"):
            judge({"ids": ids}, 2, 0)


def test_totals_are_judged_by_weights_or_as_they_are():
    _, judge = data.MAKERS["summarize"]("digits", [0])
    values = data.losses("digits", 0)
    everything = np.arange(values.size)
    assert judge({"ids": everything, "weights": np.ones(values.size)}, values.size, 0)["quality"] < 1e-9
    assert judge({"ids": everything, "total": 1.1 * values.sum()}, values.size, 0)["quality"] == pytest.approx(0.1)
    assert not np.array_equal(values, data.losses("digits", 1))


def test_every_job_has_data_a_judge_and_coresift():
    assert set(JOBS) == set(data.BUDGETS) == set(data.MAKERS)
    assert all("coresift" in tools for tools in JOBS.values())
    assert all(any(tool in tools for tools in JOBS.values()) for tool in FIXED)
    assert all(any(name not in data.TUNED for name in budgets) for budgets in data.BUDGETS.values())


@pytest.mark.slow
def test_a_tool_runs_in_its_own_process_and_runs_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "RUNS_FILE", tmp_path / "peers.jsonl")
    monkeypatch.setattr(driver, "RESULTS", tmp_path)
    monkeypatch.setattr(driver, "JOBS", {"cover": {"uniform": JOBS["cover"]["uniform"]}})
    monkeypatch.setattr(driver, "BUDGETS", {"cover": {"digits": 100}})
    monkeypatch.setattr("sys.argv", ["peers", "--seeds", "2"])
    driver.main()
    kept = (tmp_path / "peers.jsonl").read_text()
    first, second = map(json.loads, kept.splitlines())
    assert first["peak_megabytes"] > 10
    assert 0 < first["quality"] != second["quality"] > 0
    monkeypatch.setattr(driver, "run_tool", None)  # would be called if the run were not found
    driver.main()
    assert (tmp_path / "peers.jsonl").read_text() == kept


def test_a_tool_that_is_missing_is_an_error_by_name(monkeypatch):
    case = driver.Case("evaluate", "questions", "glide-py, active")
    missing, other = [{"error": "ModuleNotFoundError: No module named 'glide'"}], [{"error": "TypeError: x"}]
    answers = iter([missing, other])
    monkeypatch.setattr(driver, "run_tool", lambda case, seeds, python: next(answers))
    assert driver.try_all(case, [0], ["a", "b"]) == other
