"""Comparisons: fair, paired, safe from their methods, and able to go on after a kill."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import rivals
from hypothesis import given, settings
from hypothesis import strategies as st
from inline import InlineWorker
from scipy.optimize import isotonic_regression
from scipy.stats import ttest_rel

import coresift as cs
from coresift.checks import InputError
from coresift.cli import main
from coresift.comparison import running
from coresift.comparison.methods import KNOWN, methods_of, options_of, parse
from coresift.comparison.plotting import spread_out
from coresift.comparison.summary import Mean, Trial, differences, summarize, verdicts
from coresift.reporting.calls import as_call
from coresift.reporting.markup import text as page_text
from faults.forging import forge_state

N = 400
ROWS = np.random.default_rng(0).normal(size=(N, 4)).astype(np.float32)
LOSSES = np.random.default_rng(1).exponential(size=N)
TESTS = str(Path(__file__).parent)


@pytest.fixture
def processes():
    """Methods run in processes of their own, as they do for users. Other tests run theirs in this one."""


@pytest.fixture(autouse=True)
def inline(request, monkeypatch):
    if "processes" not in request.fixturenames:
        monkeypatch.setattr(running, "_Worker", InlineWorker)


def compare(methods, budgets=(20, 40), seeds=3, losses=LOSSES, **options):
    """Compare methods on the rows above; there is a plot only where a test is about plots."""
    options = {"plot": False, **options}
    return cs.compare_methods(ROWS, losses, methods, budgets, seeds, **options)


def line(found, method, budget):
    return next(one for one in found.lines if (one.method, one.budget) == (method, budget))


def facts(found):
    """All that does not depend on the clock or on memory."""
    return [replace(run, seconds=0.0, memory=None, training_seconds=None) for run in found.runs]


# What is measured


@pytest.mark.slow
def test_a_run_is_one_selection_with_its_seed_and_budget_against_the_true_total():
    found = compare(["coresift"])
    for run in found.runs:
        picked = cs.select(ROWS, LOSSES, run.budget, run.seed)
        total = cs.estimate(picked, LOSSES[picked.ids]).total
        assert run.error == pytest.approx(total.value / LOSSES.sum() - 1, abs=1e-12)
        assert run.covered == (total.low <= LOSSES.sum() <= total.high)
        assert run.width == pytest.approx((total.high - total.low) / LOSSES.sum())
        assert (run.selected, run.asked, run.calls) == (run.budget, picked.ledger.asked, run.budget)
        assert run.seconds > 0
    assert [(run.budget, run.seed) for run in found.runs] == [(b, s) for b in (20, 40) for s in range(3)]
    assert found.total == pytest.approx(LOSSES.sum())


@pytest.mark.slow
def test_paper_asks_its_centers_from_the_same_budget():
    found = compare(["paper(holder=0.3)", "paper(holder=0.3, keep=True)", "paper(clusters=7)"], budgets=[40])
    for run in found.runs:
        assert run.calls <= 40
        assert run.asked == (7 if "clusters" in run.text else 4)
    clustering = cs.cluster(ROWS, 4, seed=2)
    parts = {
        "pilot": cs.pilots.Centers(),
        "score": cs.scores.Sensitivity(holder=0.3),
        "design": cs.designs.Independent(),
    }
    picked = cs.select(ROWS, LOSSES, 36, 2, clusters=clustering, **parts)
    run = next(run for run in found.runs if run.method == "paper(holder=0.3)" and run.seed == 2)
    assert run.error == pytest.approx(picked.weights @ LOSSES[picked.ids] / LOSSES.sum() - 1)
    assert run.calls == np.union1d(picked.ids, clustering.centers).size


@pytest.mark.slow
def test_balance_is_the_holder_at_which_losses_and_distances_weigh_the_same():
    clustering = cs.cluster(ROWS, 4, seed=0)
    holder = LOSSES[clustering.centers][clustering.labels].sum() / clustering.powers.sum()
    found = compare(["paper(balance=0.5)", f"paper(holder={float(0.5 * holder)!r})"], budgets=[40], seeds=1)
    first, second = found.runs
    assert first.error == pytest.approx(second.error)
    assert first.asked == second.asked == 4


@pytest.mark.slow
def test_the_uniform_method_is_uniform_and_its_weights_are_n_over_the_budget():
    counts, rows, engine = np.zeros(12), cs.open_rows(np.eye(12)), cs.engines.Local(1)
    for seed in range(3000):
        picked = KNOWN["uniform"](rows, None, 5, seed, engine)
        assert np.all(picked.weights == 12 / 5)
        counts[picked.ids] += 1
    # Each count is binomial(3000, 5/12), deviation 27: beyond 4.5 deviations once in 12,000 runs.
    assert np.abs(counts - 1250).max() < 4.5 * math.sqrt(3000 * 5 / 12 * 7 / 12)


@pytest.mark.slow
def test_what_methods_find_does_not_depend_on_the_number_of_processes(processes, monkeypatch):
    methods = ["coresift", rivals.plain]
    one, three = (compare(methods, processes=count) for count in (1, 3))
    assert facts(one) == facts(three)
    monkeypatch.setattr(running, "_Worker", InlineWorker)
    assert facts(one) == facts(compare(methods))


@pytest.mark.slow
def test_a_method_without_weights_takes_part_but_has_no_error():
    found = compare(["uniform", rivals.unweighted], budgets=[20])
    without = line(found, "unweighted", 20)
    assert without.measure is without.difference is without.coverage is without.rmse is None
    assert without.seconds.value > 0
    assert without.seeds == 3
    assert found.verdicts == ()
    assert "no two methods with weights" in str(found) == repr(found)
    judged = compare(["uniform", rivals.unweighted], budgets=[20], train=rivals.score)
    assert line(judged, "unweighted", 20).measure is not None


@pytest.mark.slow
def test_memory_is_that_of_the_method_alone(processes):
    found = compare([rivals.hungry, rivals.plain], budgets=[20], seeds=2, processes=2)
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not count anonymous memory")
    more = line(found, "hungry", 20).memory - line(found, "plain", 20).memory
    assert more == pytest.approx(320e6, rel=0.1)


@pytest.mark.slow
def test_what_a_method_prints_goes_to_the_log(tmp_path, processes):
    found = compare([rivals.chatty], budgets=[20], seeds=2, out=tmp_path)
    assert not found.failures
    assert (tmp_path / "methods.log").read_text().count("ready") == 2


@pytest.mark.slow
def test_rows_in_files_are_opened_by_the_processes_and_others_are_written_for_them(tmp_path, processes):
    np.save(tmp_path / "rows.npy", ROWS)
    from_memory = compare(["coresift"], out=tmp_path / "a")
    from_file = cs.compare_methods(
        tmp_path / "rows.npy", LOSSES, ["coresift"], (20, 40), 3, out=tmp_path / "b", plot=False
    )
    assert facts(from_memory) == facts(from_file)
    assert sorted(path.name for path in (tmp_path / "a").iterdir() if path.name.startswith(".")) == []


# Training instead of losses


@pytest.mark.slow
@pytest.mark.parametrize("losses", [None, LOSSES, rivals.loss_of])
def test_with_training_methods_are_judged_by_its_score(losses):
    found = compare(["coresift", "uniform"], losses=losses, train=rivals.score)
    for run in found.runs:
        if run.method == "coresift":
            picked = cs.select(ROWS, losses, run.budget, run.seed)
            assert run.score == pytest.approx(picked.ids.mean() + len(picked))
            assert run.asked == picked.ledger.asked
        assert run.error is None
    best = {
        one.budget: max(one.measure.value for one in found.lines if one.budget == one.budget) for one in found.lines
    }
    assert set(best) == {20, 40}
    for verdict in found.verdicts:
        levels = {one.method: one.measure.value for one in found.lines if one.budget == verdict.budget}
        assert verdict.best == max(levels, key=levels.get)
    assert "best score" in str(found)


@pytest.mark.slow
def test_a_lower_score_can_be_the_better_one():
    found = compare(["coresift", "uniform"], budgets=[20], train="rivals:score", higher=False)
    levels = {one.method: one.measure.value for one in found.lines}
    assert found.verdicts[0].best == min(levels, key=levels.get)


@pytest.mark.slow
def test_a_score_that_is_no_number_is_a_failure():
    found = compare(["uniform"], budgets=[20], train=rivals.no_score)
    assert found.failures[0].failure == "train must return a number; it returned str."


# Statistics, against plain loops


def slow_line(runs, reference, method, budget):
    """Mean absolute error, its standard error, and the same for paired differences, one number after the other."""
    own = {run.seed: abs(run.error) for run in runs if (run.method, run.budget) == (method, budget)}
    other = {run.seed: abs(run.error) for run in runs if (run.method, run.budget) == (reference, budget)}
    gaps = [own[seed] - other[seed] for seed in sorted(own) if seed in other]
    values = list(own.values())
    return (
        statistics.fmean(values),
        statistics.stdev(values) / math.sqrt(len(values)),
        statistics.fmean(gaps),
        statistics.stdev(gaps) / math.sqrt(len(gaps)),
        math.sqrt(statistics.fmean(value**2 for value in values)),
    )


def made_up(errors, method="a", budget=10):
    return [Trial(method, method, budget, seed, error=float(error)) for seed, error in enumerate(errors)]


def judged(run):
    return None if run.error is None else abs(run.error)


@pytest.mark.slow
@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.integers(2, 5))
def test_means_and_paired_differences_equal_their_slow_twin(seed, seeds, count):
    rng = np.random.default_rng(seed)
    names = [f"m{place}" for place in range(count)]
    runs = [run for budget in (10, 20) for name in names for run in made_up(rng.normal(size=seeds), name, budget)]
    rng.shuffle(runs)
    for one in summarize(runs, names, [10, 20], "m1", judged):
        mean, error, gap, gap_error, root = slow_line(runs, "m1", one.method, one.budget)
        assert (one.measure.value, one.measure.error) == pytest.approx((mean, error))
        assert one.rmse.value == pytest.approx(root)
        assert one.seeds == seeds
        if one.method == "m1":
            assert one.difference is None
            continue
        assert (one.difference.value, one.difference.error) == pytest.approx((gap, gap_error))
        by_seed = sorted((run for run in runs if run.budget == one.budget), key=lambda run: run.seed)
        pairs = [[abs(run.error) for run in by_seed if run.method == name] for name in (one.method, "m1")]
        assert one.beyond == (ttest_rel(*pairs).pvalue * (count - 1) < 0.05)


def test_differences_are_of_equal_seeds_and_leave_out_what_is_missing():
    own = [Trial("a", "a", 10, seed, error=error) for seed, error in ((3, 0.5), (1, -0.25), (7, 1.0), (8, None))]
    other = [Trial("b", "b", 10, seed, error=error) for seed, error in ((1, 0.125), (3, 0.25), (9, 4.0), (8, 1.0))]
    assert differences(own, other, judged) == [0.25, 0.125]


@pytest.mark.slow
def test_the_standard_error_of_the_root_mean_square_is_right():
    rng = np.random.default_rng(5)
    roots = [summarize(made_up(rng.normal(size=200)), ["a"], [10], "a", judged)[0].rmse for _ in range(400)]
    spread = np.std([root.value for root in roots], ddof=1)
    # The spread of 400 values is known to 3.5 %; four such deviations.
    assert np.mean([root.error for root in roots]) == pytest.approx(spread, rel=0.15)


@pytest.mark.slow
def test_equal_methods_are_seldom_told_apart():
    """At one budget, five equal methods: a difference is called real in at most 5 % of the comparisons."""
    rng = np.random.default_rng(6)
    names = ["a", "b", "c", "d", "e"]
    against, between = 0, 0
    for _ in range(600):
        runs = [run for name in names for run in made_up(rng.normal(size=15), name)]
        lines = summarize(runs, names, [10], "a", judged)
        against += any(one.beyond for one in lines)
        (verdict,) = verdicts(lines, runs, "a", judged, higher=False)
        between += bool(set(names) - {verdict.best, "a"} - set(verdict.tied)) and verdict.best != "a"
    # 5 % of 600 is 30, deviation 5.3: above 52 once in 30,000 runs if the rate is kept.
    assert against <= 52
    assert between <= 52


def test_a_clear_difference_is_told():
    rng = np.random.default_rng(7)
    common = rng.exponential(size=12)
    runs = (
        made_up(common, "worst") + made_up(common - 0.3 + 0.01 * rng.normal(size=12), "best") + made_up(common, "tied")
    )
    runs = [replace(run, error=run.error + 5) for run in runs]
    lines = summarize(runs, ["worst", "best", "tied"], [10], "worst", judged)
    assert [one.beyond for one in lines] == [False, True, False]
    (verdict,) = verdicts(lines, runs, "worst", judged, higher=False)
    assert (verdict.best, verdict.tied) == ("best", ())
    (verdict,) = verdicts(lines, runs, "worst", judged, higher=True)
    assert (verdict.best, verdict.tied) == ("worst", ("tied",))


@pytest.mark.slow
def test_one_seed_has_a_mean_but_no_standard_error():
    assert Mean.of([2.0]) == Mean(2.0, None)
    found = compare(["distance", "uniform"], budgets=[20], seeds=1)
    assert found.lines[0].difference.error is None
    assert not found.lines[0].beyond
    assert "±" not in str(found).split("Error:")[0]


# Failures stay where they are


FAILURES = {
    rivals.raises: "It raised ValueError: no such luck.",
    rivals.leaves: "It raised SystemExit: done.",
    rivals.rubbish: "A method must return a Selection; this one returned list.",
    rivals.too_many: "A method must keep to its budget; this one selected 21 rows for 20.",
    rivals.part: "A method's Selection must stand for all 400 rows; this one stands for 399 of 400.",
    rivals.starves: "It raised MemoryError: Unable to allocate",
    "rivals:nothing": "There is no nothing in the module rivals.",
    "rivals:annotations": "rivals:annotations must be a function; it is _Feature.",
    "paper(holder=-1)": "holder must be a number of at least 0",
}


@pytest.mark.slow
def test_a_failure_is_a_line_with_a_sentence_and_the_others_go_on(tmp_path):
    found = compare([*FAILURES, "distance", "uniform"], seeds=2, out=tmp_path)
    failed = found.methods[: len(FAILURES)]
    for label, sentence in zip(failed, FAILURES.values(), strict=True):
        assert line(found, label, 20).failure.startswith(sentence)
        assert line(found, label, 40).failure
        assert re.search(rf"^{re.escape(label)} failed at 20", str(found), re.MULTILINE)
    assert [one.method for one in found.failures] == [*failed, *failed]
    alone = compare(["distance", "uniform"], seeds=2)
    assert [run for run in facts(found) if run.method not in failed] == facts(alone)
    assert len(json.loads((tmp_path / "comparison.json").read_text())["lines"]) == len(found.lines)


@pytest.mark.slow
def test_a_method_that_dies_or_runs_out_of_memory_leaves_the_others(processes):
    found = compare([rivals.dies, rivals.starves, "uniform"], budgets=[20], seeds=2)
    killed = "Its process was ended by SIGKILL, as the system does when memory runs out."
    assert line(found, "dies", 20).failure == killed
    assert line(found, "starves", 20).failure.startswith("It raised MemoryError: Unable to allocate")
    assert line(found, "uniform", 20).seeds == 2


@pytest.mark.slow
def test_a_failure_at_one_budget_leaves_the_others(processes):
    found = compare([rivals.dies_at_20, rivals.raises_late])
    assert line(found, "dies_at_20", 20).failure == "Its process ended without a result (status 3)."
    assert line(found, "dies_at_20", 40).seeds == 3
    assert line(found, "raises_late", 20).failure == "It raised ValueError: the second seed."
    assert line(found, "raises_late", 20).seeds == 1
    assert line(found, "raises_late", 40).failure is None


@pytest.mark.slow
def test_a_method_that_hangs_is_stopped(processes):
    found = compare([rivals.hangs, "uniform"], budgets=[20], timeout=2)
    assert found.lines[0].failure == "It took longer than 2 seconds and was stopped."
    assert found.lines[1].seeds == 3


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_a_dead_method_leaves_behind_neither_blocks_nor_stays(tmp_path, monkeypatch, processes):
    monkeypatch.setenv("RIVALS", str(tmp_path / "notes"))
    found = compare([rivals.dies_with_child], budgets=[20], seeds=1)
    assert "SIGKILL" in found.lines[0].failure
    (orphan,) = [int(note.split()[0]) for note in (tmp_path / "notes").read_text().splitlines()]
    assert gone(orphan)


@pytest.mark.slow
def test_failed_runs_are_tried_again_and_finished_ones_are_not(tmp_path, monkeypatch, processes):
    monkeypatch.setenv("RIVALS", str(tmp_path / "notes"))
    compare(["rivals:slow", "rivals:raises"], budgets=[20], out=tmp_path / "out")
    monkeypatch.setattr(rivals, "raises", rivals.plain)  # here; the process still imports the one that raises
    found = compare(["rivals:slow", "rivals:raises"], budgets=[20], out=tmp_path / "out")
    assert found.failures[0].failure == "It raised ValueError: no such luck."
    assert len((tmp_path / "notes").read_text().splitlines()) == 3
    assert (tmp_path / "out" / "methods.log").read_text().count("ValueError: no") == 2


# Going on


def gone(pid, patience=10.0):
    """Whether a process has ended; one that nobody has waited for yet has."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


SCRIPT = """
import sys
import numpy as np
import coresift as cs
sys.path.insert(0, {tests!r})
rows, losses = np.load("rows.npy"), np.load("losses.npy")
cs.compare_methods(rows, losses, ["rivals:slow", "uniform", "distance"], [20, 40], 6, out="out", plot=False)
"""


@contextmanager
def begun(folder) -> Iterator[subprocess.Popen]:
    np.save(folder / "rows.npy", ROWS)
    np.save(folder / "losses.npy", LOSSES)
    (folder / "run.py").write_text(SCRIPT.format(tests=TESTS))
    environment = {**os.environ, "RIVALS": str(folder / "notes")}
    process = subprocess.Popen([sys.executable, "run.py"], cwd=folder, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def kept(folder):
    journal = folder / "out" / "runs.jsonl"
    return len(journal.read_bytes().splitlines()) if journal.exists() else 0


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc to see processes end")
def test_a_comparison_that_was_killed_goes_on_where_it_was(tmp_path, monkeypatch):
    with begun(tmp_path) as process:
        deadline = time.monotonic() + 60
        while (not (tmp_path / "notes").exists() or kept(tmp_path) < 6) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
    before = (tmp_path / "out" / "runs.jsonl").read_bytes()
    assert 6 <= before.count(b"\n") < 37
    assert not (tmp_path / "out" / "comparison.json").exists()
    notes = (tmp_path / "notes").read_text().splitlines()
    assert all(gone(int(note.split()[0])) for note in notes)
    monkeypatch.setenv("RIVALS", str(tmp_path / "notes"))
    found = compare(["rivals:slow", "uniform", "distance"], seeds=6, out=tmp_path / "out", plot=False)
    after = (tmp_path / "out" / "runs.jsonl").read_bytes()
    assert after.startswith(before[: before.rindex(b"\n") + 1])
    assert after.count(b"\n") == 37
    assert facts(found) == facts(compare(["rivals:slow", "uniform", "distance"], seeds=6))
    # 12 runs, those that were in flight when it was killed, and 12 of the comparison without a stop.
    assert 24 <= len((tmp_path / "notes").read_text().splitlines()) <= 24 + 2
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]


@pytest.mark.slow
def test_a_torn_last_line_costs_one_run(tmp_path):
    whole = compare(["uniform"], out=tmp_path)
    journal = tmp_path / "runs.jsonl"
    content = journal.read_bytes()
    journal.write_bytes(content[:-20])
    assert facts(compare(["uniform"], out=tmp_path)) == facts(whole)
    assert journal.read_bytes().count(b"\n") == content.count(b"\n")


@pytest.mark.slow
def test_more_methods_budgets_and_seeds_add_to_what_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv("RIVALS", str(tmp_path / "notes"))
    compare(["rivals:slow"], budgets=[20], seeds=2, out=tmp_path / "out")
    found = compare({"tardy": "rivals:slow", "fair": "uniform"}, budgets=[20, 40], seeds=3, out=tmp_path / "out")
    assert len((tmp_path / "notes").read_text().splitlines()) == 6
    assert [(one.method, one.seeds) for one in found.lines] == [("tardy", 3), ("fair", 3)] * 2
    fewer = compare(["uniform"], budgets=[40], seeds=[1, 2], out=tmp_path / "out")
    assert [(run.method, run.budget, run.seed) for run in fewer.runs] == [("uniform", 40, 1), ("uniform", 40, 2)]


@pytest.mark.slow
def test_results_of_other_losses_are_not_mixed_in(tmp_path):
    compare(["uniform"], out=tmp_path)
    with pytest.raises(InputError, match=r"belongs to another run \(losses: "):
        compare(["uniform"], losses=LOSSES + 1, out=tmp_path)
    with pytest.raises(InputError, match=r"belongs to another run \(rows: "):
        cs.compare_methods(ROWS + 1, LOSSES, ["uniform"], [20], 1, out=tmp_path)
    with (tmp_path / "runs.jsonl").open("a") as file:
        file.write('{"odd": 1}\n')
    with pytest.raises(InputError, match=r"Line 8 of .* cannot be used: it is damaged"):
        compare(["uniform"], out=tmp_path)


# Functions that go to other processes


GUARDED = """
import sys
import numpy as np
import coresift as cs

def mine(rows, losses, budget, seed):
    return cs.select(rows, losses, budget, seed, clusters=2)

{guard}
    rows, losses = np.load("rows.npy"), np.load("losses.npy")
    found = cs.compare_methods(rows, losses, [mine], [20], 2, out="out", plot=False)
    print(found.lines[0].failure, found.lines[0].seeds)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "guard", "outcome"),
    [
        (["script.py"], 'if __name__ == "__main__":', "None 2\n"),
        (["-m", "script"], 'if __name__ == "__main__":', "None 2\n"),
        (
            ["script.py"],
            "if True:",
            'compare_methods must be under `if __name__ == "__main__":` in a script whose functions it uses. 0\n',
        ),
    ],
)
def test_functions_of_a_script_are_found_in_it(tmp_path, words, guard, outcome):
    np.save(tmp_path / "rows.npy", ROWS)
    np.save(tmp_path / "losses.npy", LOSSES)
    (tmp_path / "script.py").write_text(GUARDED.format(guard=guard))
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == (outcome, "")


def test_functions_that_no_process_could_find_are_refused():
    with pytest.raises(InputError, match="must be defined at module level"):
        compare([lambda rows, losses, budget, seed: None])
    with pytest.raises(InputError, match="must be defined at module level"):
        compare(["uniform"], train=lambda selection: 1.0)
    with pytest.raises(InputError, match="must be defined at module level"):
        compare(["uniform"], losses=lambda ids: ids, train=rivals.score)


# Names and options


@pytest.mark.slow
def test_every_known_method_runs_by_its_name(tmp_path):
    np.save(tmp_path / "cheap.npy", LOSSES * 1.1)
    own = ["coresift", "paper", "mixture", "distance", "uniform"]
    found = compare([*own, f"proxy(cheap={str(tmp_path / 'cheap.npy')!r})"], budgets=[40], seeds=10)
    assert not found.failures
    assert found.lines[-1].measure.value < 0.5 * line(found, "uniform", 40).measure.value


def test_options_are_literals_and_parts():
    assert parse("paper(holder=0.25, keep=True)") == ("paper", {"holder": 0.25, "keep": True})
    name, options = parse("coresift( score=Mixture(loss=0.5), design = Pivotal() )")
    assert name == "coresift"
    assert options == {"score": cs.scores.Mixture(loss=0.5), "design": cs.designs.Pivotal()}
    for name in KNOWN:
        assert parse(name) == (name, {})
        assert "rows" not in options_of(name)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("coresit", "methods must be coresift, paper, "),
        ("paper(0.1)", "methods must be coresift, paper, "),
        ("paper(holder=__import__('os'))", "methods must be coresift, paper, "),
        ("paper(**{})", "methods must be coresift, paper, "),
        ("", "methods must be coresift, paper, "),
        (
            "paper(lambda_=1)",
            "methods: paper(lambda_=1) has an unknown option; paper takes holder, balance, clusters, z, keep.",
        ),
        ("coresift(score=Mixture(loss=2))", "loss must be a number from 0 to 1; got 2."),
        ("proxy(cheap='nowhere.npy')", "names a file that does not exist, nowhere.npy."),
        ("nowhere.at_all:function", "methods: there is no module nowhere.at_all for nowhere.at_all:function."),
    ],
)
def test_what_is_no_method_is_refused_before_anything_runs(text, sentence):
    with pytest.raises(InputError, match=re.escape(sentence)):
        methods_of([text])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"losses": None}, "losses must be an array or a file with every row"),
        ({"losses": rivals.loss_of}, "got a callable; compute all losses first."),
        ({"losses": LOSSES[1:]}, "losses must be one number for each of 400 rows; got 399 numbers."),
        ({"losses": -LOSSES}, "losses must be finite and at least 0; row 0 has"),
        ({"losses": 0 * LOSSES}, "losses must not all be 0"),
        ({"methods": []}, "methods must be names such as"),
        ({"methods": 3}, "methods must be names such as"),
        ({"methods": [3]}, "methods must be names such as"),
        ({"methods": ["uniform", "uniform"]}, "methods must be different ones; got uniform twice."),
        ({"methods": {"": "uniform"}}, "methods must be labeled with one line of text each; got ''."),
        ({"budgets": []}, "budgets must be at least one whole number; got none."),
        ({"budgets": [0]}, "budgets must be a whole number of at least 1; got 0."),
        ({"budgets": "20"}, "budgets must be whole numbers; got '20'."),
        ({"seeds": 0}, "seeds must be a whole number of at least 1; got 0."),
        ({"seeds": [-1]}, "seeds must be a whole number of at least 0; got -1."),
        ({"reference": "paper"}, "reference must be one of the methods, uniform; got 'paper'."),
        ({"train": 3}, "train must be a function or a text"),
        ({"train": "score"}, "train must be a function or a text"),
        ({"train": "nowhere:score"}, "train: there is no module nowhere for nowhere:score."),
        ({"confidence": 2}, "confidence must be a number between 0 and 1; got 2."),
        ({"threads": 0}, "threads must be a whole number of at least 1; got 0."),
        ({"processes": 0}, "processes must be a whole number of at least 1; got 0."),
        ({"timeout": -1}, "timeout must be a finite number above 0; got -1."),
        ({"out": __file__}, "out must be a folder that can be created"),
        ({"plot": True}, "A plot needs a folder to write to; give out."),
    ],
)
def test_bad_input_is_one_sentence(options, sentence):
    with pytest.raises(cs.CoresiftError, match=re.escape(sentence)):
        compare(**{"methods": ["uniform"], **options})


# Files


@pytest.mark.slow
def test_the_files_say_the_same_as_the_result(tmp_path):
    found = compare(["coresift", "uniform", rivals.raises], out=tmp_path, plot=False)
    content = json.loads((tmp_path / "comparison.json").read_text())
    assert content["lines"] == json.loads(json.dumps([asdict(one) for one in found.lines]))
    assert content["runs"] == json.loads(json.dumps([asdict(run) for run in found.runs]))
    with (tmp_path / "comparison.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [(row["method"], int(row["budget"])) for row in table] == [(one.method, one.budget) for one in found.lines]
    for row, one in zip(table, found.lines, strict=True):
        if one.failure:
            assert row["failure"] == one.failure
            assert row["measure"] == ""
        else:
            assert float(row["measure"]) == pytest.approx(one.measure.value)
            assert float(row["calls_standard_error"]) == one.calls.error
    page = (tmp_path / "comparison.md").read_text()
    assert page.count("\n| ") == 2 + 6
    assert "svg" not in page
    assert not (tmp_path / "comparison.svg").exists()


@pytest.mark.slow
def test_the_plot_names_every_method_and_is_the_same_each_time(tmp_path):
    pytest.importorskip("matplotlib", reason="needs the extra plots")
    found = compare(["coresift", "distance", "uniform", rivals.raises, rivals.unweighted], out=tmp_path, plot=True)
    content = (tmp_path / "comparison.svg").read_text()
    assert [f">{name}</text>" in content for name in found.methods] == [True, True, True, False, False]
    assert "(comparison.svg)" in (tmp_path / "comparison.md").read_text()
    assert found.plot(tmp_path / "again.svg").read_text() == content
    assert found.plot(tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    scored = compare(["coresift", "uniform"], train=rivals.score)
    assert "score" in scored.plot(tmp_path / "score.svg").read_text()
    with pytest.raises(InputError, match=r"must be a file with the extension \.svg, \.pdf or \.png; got plot\.txt"):
        found.plot(tmp_path / "plot.txt")


@pytest.mark.slow
def test_without_matplotlib_the_command_that_installs_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(cs.CoresiftError, match=r'pip install "\.\[plots\]" in a clone'):
        compare(["uniform", "distance"], out=tmp_path / "a", plot=True)
    assert not (tmp_path / "a").exists()
    with pytest.warns(cs.CoresiftWarning, match=r'pip install "\.\[plots\]" in a clone'):
        compare(["uniform", "distance"], out=tmp_path / "b", plot=None)
    assert (tmp_path / "b" / "comparison.md").exists()


CALLS = (
    *("coresift", "coresift(clusters=5, design=Poisson)", "paper", "paper(holder=0.1, clusters=3, z=1.0)"),
    *("paper(balance=2.0, keep=True)", "mixture(loss=0.5, clusters=6)", "distance(floor=0.3, z=1.0)"),
    *("proxy(cheap='cheap.npy')", "uniform", "k-center", "cover(normalize=True)", "rivals:unweighted"),
)


@pytest.mark.parametrize("text", CALLS)
def test_the_call_of_a_method_selects_the_same_rows(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("cheap.npy", LOSSES)
    (method,) = methods_of([text])
    expected = method.runner()(cs.open_rows(ROWS), LOSSES, 40, 0, cs.engines.Local(1))
    names = {"rows": ROWS, "losses": LOSSES, "seed": 0}
    exec(as_call(text, 40), names)
    np.testing.assert_array_equal(names["selection"].ids, expected.ids)


def test_a_method_without_a_name_has_no_call():
    assert as_call("<object at 0x7f>", 40) is None
    assert as_call("my.module:import", 40) is None
    assert as_call("__main__:mine", 40) == "selection = mine(rows, losses, 40, seed)\n"


def test_the_page_shows_the_call_of_the_best_method(tmp_path):
    comparison = compare(["coresift", "distance(floor=0.4)", "uniform"])
    page = cs.report(comparison, tmp_path / "page.html").read_text()
    best = comparison.verdicts[-1].best
    assert f"Use {best}, the best method at 40" in page
    assert page_text(as_call(best, 40)) in page
    alone = replace(comparison, verdicts=())
    assert "the best method at" not in cs.report(alone, tmp_path / "alone.html").read_text()


@given(st.lists(st.floats(-1, 2), min_size=1, max_size=12), st.floats(0.001, 0.3))
def test_names_are_spread_out_as_little_as_needed(heights, spacing):
    moved = spread_out(np.array(heights), spacing)
    order = np.argsort(heights, kind="stable")
    steps = spacing * np.arange(len(heights))
    # Least squares under the order of neighbors is isotonic regression once the spacing is taken off.
    assert moved[order] == pytest.approx(isotonic_regression(np.array(heights)[order] - steps).x + steps, abs=1e-9)


# The command line


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    np.save("rows.npy", ROWS)
    Path("losses.csv").write_text(
        "row,loss\n" + "".join(f"{row},{loss!r}\n" for row, loss in enumerate(LOSSES.tolist()))
    )

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["coresift", "compare-methods", "rows.npy", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        return (end.value.code or 0, *capsys.readouterr())

    return run


@pytest.mark.slow
def test_the_command_line_gives_the_same_comparison(run):
    words = ["--losses", "losses.csv", "--budget", 20, "--budget", 40, "--seeds", 3, "--no-plot"]
    status, out, err = run(*words, "--method", "uniform", "--method", "paper(balance=0.5)")
    assert (status, err) == (0, "")
    expected = compare(["uniform", "paper(balance=0.5)"])
    content = json.loads(Path("comparison/comparison.json").read_text())
    errors = [run["error"] for run in content["runs"]]
    assert errors == [run.error for run in expected.runs]
    assert out.startswith("At 20: ")
    page = Path("comparison") / "comparison.html"
    assert out.splitlines()[-1] == f"Wrote comparison; open {page} in a browser"
    assert "<html" in page.read_text(encoding="utf-8")
    assert run(*words, "--method", "uniform")[0] == 0


@pytest.mark.slow
def test_the_command_line_finds_functions_in_the_working_folder_and_tells_failures(run, processes):
    Path("own_rivals.py").write_text(
        "import coresift as cs\n"
        "def fair(rows, losses, budget, seed):\n    return cs.select(rows, None, budget, seed, clusters=2)\n"
        "def unfair(rows, losses, budget, seed):\n    raise RuntimeError('not today')\n"
        "def size(selection):\n    return len(selection)\n"
    )
    words = ["--budget", 20, "--seeds", 2, "--no-plot"]
    methods = ["--method", "own_rivals:fair", "--method", "own_rivals:unfair", "--method", "uniform"]
    status, out, err = run("--losses", "losses.csv", *words, *methods)
    assert (status, err) == (1, "")
    assert "own_rivals:unfair failed at 20. It raised RuntimeError: not today." in out
    status, out, _ = run(*words, *methods[:2], "--method", "uniform", "--train", "own_rivals:size", "--out", "trained")
    assert status == 0
    assert "At 20: own_rivals:fair has the best score, 20" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--budget", 20], "losses must be an array or a file"),
        (["--budget", 20, "--losses", "losses.csv", "--method", "nobody"], "methods must be coresift, paper"),
        (["--losses", "losses.csv"], "Missing option '--budget'."),
        (["--budget", 20, "--losses", "losses.csv", "--train", "nowhere:train"], "train: there is no module nowhere"),
    ],
)
def test_the_command_line_refuses_in_one_sentence(run, words, sentence):
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    assert re.fullmatch(r"Error: [^\n]+\.\n", err)
    assert sentence in err
    assert not Path("comparison").exists()


def test_a_log_that_is_a_link_to_another_file_is_replaced(tmp_path):
    from coresift.comparison.running import _not_a_link

    other, log = tmp_path / "other", tmp_path / "methods.log"
    other.write_text("untouched")
    log.symlink_to(other)
    with open(log, "ab", opener=_not_a_link) as file:
        file.write(b"a warning")
    assert (other.read_text(), log.read_text()) == ("untouched", "a warning")


@pytest.mark.parametrize(
    ("name", "value"), [("error", "x"), ("error", 1e308), ("seconds", None), ("covered", []), ("memory", 10**400)]
)
@pytest.mark.slow
def test_runs_that_someone_else_wrote_are_checked(tmp_path, name, value):
    compare(["uniform"], budgets=[20], seeds=1, out=tmp_path)
    forge_state(tmp_path / "runs.jsonl", [1, name], value)
    with pytest.raises(InputError, match=r"Line 2 of .*runs\.jsonl is not a run"):
        compare(["uniform"], budgets=[20], seeds=1, out=tmp_path)
