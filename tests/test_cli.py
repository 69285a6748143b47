"""The command line: every verb does what it says, and what the user can mend is one sentence and exit status 2."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from command_line import Outcome, refused, succeeded
from typer.main import get_group

import coresift as cs
from coresift.answers import AnswerFile
from coresift.checks import InputError
from coresift.cli import app
from coresift.cli.parsing import parse_part
from coresift.notebook import interval_texts
from coresift.registry import known

VERBS = (
    *("demo", "cluster", "select", "grow", "plan", "cover", "estimate", "certify", "diagnose", "regression"),
    *("compare-methods", "report", "start select", "start regression", "start diagnose", "ask", "tell", "status"),
)
N, D, BUDGET = 400, 4, 40
ROWS = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
LOSSES = np.random.default_rng(1).exponential(size=N)
IDS = [f"q/{row:03}, “{row % 7}”" for row in range(N)]
COMMAND = str(Path(sys.executable).with_name("coresift"))


# What --json has of each verb, among others.
TOLD = {
    "demo": {"selected", "rows", "total", "truth"},
    "cluster": {"wrote", "clusters", "rows", "cost", "search", "sizes"},
    "cover": {"wrote", "selected", "rows"},
    "start select": {"job", "asked", "pending", "finished"},
    "start regression": {"job", "asked", "pending", "finished"},
    "start diagnose": {"job", "asked", "pending", "finished"},
    "ask": {"job", "wrote", "pending"},
    "tell": {"job", "read", "pending"},
    "status": {"job", "pending"},
    "select": {"wrote", "selected", "rows", "losses_asked", "weights", "effective_size"},
    "grow": {"wrote", "added", "selected", "rows", "weights"},
    "estimate": {"estimates", "confidence", "effective_size"},
    "certify": {"statistical", "conditional"},
    "plan": {"losses_asked", "passes", "memory", "seconds"},
    "compare-methods": {"wrote", "lines", "verdicts"},
    "diagnose": {"verdict", "reason", "ratio", "holder", "losses_asked"},
    "regression": {"wrote", "labels_asked", "determination"},
    "report": {"wrote", "bytes"},
}


def texts_of(interval):
    """The number and the ends of an interval as they are shown."""
    return interval_texts(interval.value, interval.low, interval.high)


def process(words, folder):
    done = subprocess.run(words, check=False, cwd=folder, capture_output=True, text=True, timeout=60)
    return Outcome(done.returncode, done.stdout, done.stderr)


def run_process(*words, folder):
    return process([COMMAND, *map(str, words)], folder)


@pytest.fixture
def data(tmp_path):
    """Write what the commands read: embeddings, losses by row number, and a table with ids of its own."""
    return write_data(tmp_path)


def write_data(folder):
    np.save(folder / "rows.npy", ROWS)
    losses = {"row": np.arange(N), "loss": LOSSES, "size": np.arange(N) % 5, "kind": ["even", "odd"] * (N // 2)}
    pa.csv.write_csv(pa.table(losses), folder / "losses.csv")
    pa.parquet.write_table(pa.table({"id": IDS, "embedding": ROWS.tolist()}), folder / "rows.parquet")
    return folder


def estimated(outcome):
    """Return what an estimate shows; it may have reservations."""
    assert outcome.status == 0, outcome.err
    assert re.fullmatch(r"(Warning: [^\n]+\.\n)*", outcome.err)
    return outcome.out


# Help and version


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_shows_an_example_that_names_it(run, verb):
    shown = succeeded(run(*verb.split(), "--help"))
    assert f"Example: coresift {verb}" in shown
    assert shown == succeeded(run(*verb.split(), "-h"))


def example(run, verb):
    """Write what a verb's example reads, and return its words."""
    np.save("embeddings.npy", np.random.default_rng(2).normal(size=(2_500, 3)).astype(np.float32))
    ids = np.arange(2_500)
    pa.csv.write_csv(pa.table({"row": ids, "loss": ids / 7}), "losses.csv")
    pa.csv.write_csv(pa.table({"row": ids, "label": ids / 7}), "labels.csv")
    pa.csv.write_csv(pa.table({"text": ids.astype(str)}), "texts.csv")
    succeeded(run("select", "embeddings.npy", "--budget", 50))
    if verb in ("ask", "tell", "status"):
        succeeded(run("start", "select", "embeddings.npy", "--budget", 50))
        pa.csv.write_csv(pa.table({"row": ids[:1000], "loss": ids[:1000] / 7}), "some.csv")
    help_text = " ".join(run(*verb.split(), "--help").out.split())
    line = re.search(rf"Example: coresift ({verb} .*?) (Arguments|Options|Then|If|From|For)\b", help_text).group(1)
    if verb == "tell":
        shutil.copy("some.csv", "ask.csv")
    return line.split()


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_the_examples_work_as_they_stand_and_tell_json_or_nothing(run, data, verb):
    words = example(run, verb)
    assert estimated(run(*words))
    told = json.loads(estimated(run(*words, "--json")))
    assert TOLD[verb] <= set(told)
    assert estimated(run(*words, "--quiet")) == ""


def commands(group, words=()):
    """Yield the words of every command, and the command."""
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "list_commands"):
            yield from commands(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


def test_every_command_has_quiet_and_json():
    every = dict(commands(get_group(app)))
    assert {"active-learning report", "evaluate report", "demo", "start select"} <= set(every)
    for words, command in every.items():
        assert {"--quiet", "--json"} <= {flag for option in command.params for flag in option.opts}, words


def test_help_lists_the_verbs_and_version_is_the_packages(run):
    alone = succeeded(run())
    assert alone == succeeded(run("--help"))
    assert all(re.search(rf"^  {verb.split()[0]} ", alone, re.MULTILINE) for verb in VERBS)
    assert "coresift demo" in alone
    assert succeeded(run("--version")) == f"coresift {cs.__version__}\n"


def flags_of(run, verb):
    return set(re.findall(r"^  (--[a-z-]+)", run(*verb.split(), "--help").out, re.MULTILINE))


def test_selecting_verbs_take_the_same_options(run):
    texts = {"--text", "--target", "--embed-model", "--loss-model", "--gradient", "--prefix", "--max-length"}
    assert flags_of(run, "select") - flags_of(run, "start select") == {"--losses", "--work", "--device", *texts}
    assert flags_of(run, "start select") - flags_of(run, "select") == {"--state"}
    assert flags_of(run, "start select") - flags_of(run, "plan") == {"--out", "--state"}
    assert flags_of(run, "plan") - flags_of(run, "select") == {"--cost"}
    assert flags_of(run, "diagnose") - flags_of(run, "start select") == {"--losses", "--probes", "--holder", "--power"}
    assert flags_of(run, "start select") - flags_of(run, "diagnose") == {"--out", "--state"}
    assert flags_of(run, "start diagnose") - flags_of(run, "diagnose") == {"--out", "--state"}
    assert flags_of(run, "regression") - flags_of(run, "start regression") == {"--labels"}


def test_help_groups_the_options_and_says_how_tab_completes_them(run):
    shown = succeeded(run("select", "--help"))
    headings = re.findall(r"^(\S.*):$", shown, re.MULTILINE)
    assert headings == [
        *("Arguments", "Options", "How ROWS are read", "How rows are chosen", "From texts", "Computing"),
    ]
    section = shown.split("How ROWS are read:")[1].split("How rows are chosen:")[0]
    assert set(re.findall(r"^  (--[a-z-]+)", section, re.MULTILINE)) == {
        *("--column", "--id-column", "--exclude-column", "--standardize"),
    }
    assert "--install-completion" in " ".join(succeeded(run()).split())


@pytest.mark.slow
def test_completion_knows_verbs_and_options(tmp_path):
    environment = {**os.environ, "_CORESIFT_COMPLETE": "complete_bash"}
    for words, wanted in (("coresift compare", "compare-methods"), ("coresift select --bud", "--budget")):
        facts = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        done = subprocess.run([COMMAND], check=False, env={**environment, **facts}, capture_output=True, text=True)
        assert wanted in done.stdout.split(), done


# Real processes


@pytest.mark.slow
def test_a_whole_session_in_real_processes(data):
    assert run_process("--version", folder=data).out == f"coresift {cs.__version__}\n"
    common = ("rows.npy", "--budget", BUDGET, "--clusters", "clusters.npz")
    succeeded(run_process("cluster", "rows.npy", "-k", 8, folder=data))
    succeeded(run_process("plan", *common, folder=data))
    succeeded(run_process("start", "select", *common, folder=data))
    succeeded(run_process("ask", "run.state", folder=data))
    asked = pa.csv.read_csv(data / "ask.csv")["row"].to_numpy()
    pa.csv.write_csv(pa.table({"row": asked, "loss": LOSSES[asked]}), data / "ask.csv")
    succeeded(run_process("tell", "run.state", "ask.csv", folder=data))
    assert cs.load(data / "picked.parquet") == cs.select(ROWS, LOSSES, BUDGET, clusters=cs.load(data / "clusters.npz"))
    assert "400" in estimated(run_process("estimate", "picked.parquet", "--values", "losses.csv", folder=data))
    expected = {"rows.npy", "rows.parquet", "losses.csv", "clusters.npz", "run.state", "ask.csv", "picked.parquet"}
    assert {path.name for path in data.iterdir()} == expected


@pytest.mark.slow
def test_the_module_runs_too(tmp_path):
    words = [sys.executable, "-m", "coresift", "--version"]
    assert succeeded(process(words, tmp_path)) == f"coresift {cs.__version__}\n"


@pytest.mark.slow
def test_a_refusal_in_a_real_process(data):
    assert refused(run_process("select", "none.npy", "--budget", 5, folder=data)) == ("There is no file none.npy.")


@pytest.mark.slow
def test_a_warning_in_a_real_process_is_one_line_and_no_failure(data):
    outcome = run_process("cluster", "rows.npy", "-k", 2 * N, folder=data)
    assert outcome.status == 0
    told = f"Asked for {2 * N} clusters, but only {N} rows are distinct, so there are only {N} clusters."
    assert outcome.err == f"Warning: {told}\n"
    assert cs.load(data / "clusters.npz").k == N


@pytest.mark.slow
def test_a_progress_bar_shows_on_a_terminal_and_only_there(tmp_path):
    np.save(tmp_path / "rows.npy", np.zeros((70_000, 2), np.float32))  # several blocks
    # A bar has patience so that quick work shows none; without it, this shows.
    script = (
        "import sys\n"
        "from coresift import cli, progress\n"
        "progress.Bar.patience = 0.0\n"
        "sys.argv = ['coresift', 'cluster', 'rows.npy', '-k', '1']\n"
        "cli.main()\n"
    )
    succeeded(process([sys.executable, "-c", script], tmp_path))
    master, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=terminal
    ) as child:
        os.close(terminal)
        shown = _drain(master)
        assert child.wait(60) == 0
    assert "70000/70000" in shown


def _drain(master):
    shown = b""
    try:
        while chunk := os.read(master, 65_536):
            shown += chunk
    except OSError:  # how Linux tells that the other end is closed
        pass
    finally:
        os.close(master)
    return shown.decode()


# What the verbs do


@pytest.mark.slow
def test_demo_labels_evaluates_and_summarizes_and_tells_the_truth(run):
    shown = succeeded(run("demo", "--seed", 3))
    assert "300 of 10,003" in shown
    assert "500 of 10,003" in shown
    chosen, by_chance = (float(share) for share in re.findall(r"accuracy with .+ questions +([\d.]+)%", shown))
    assert chosen > by_chance + 5  # it was 14 to 16 points on all seeds that were tried
    asked, uniform = numbers_in(r"labels asked +([\d,]+); a uniform sample needs ([\d,]+)", shown)
    assert asked < uniform
    truth, low, high = numbers_in(r"interval ([\d.]+)% to ([\d.]+)%.*true accuracy +([\d.]+)%", shown, last_first=True)
    assert f"{truth}%, {'inside' if low <= truth <= high else 'outside'} the interval" in shown
    pattern = r"estimated total loss +([\d,]+), 95% interval ([\d,]+) to ([\d,]+).*true total loss +([\d,]+)"
    estimated, low, high, truth = numbers_in(pattern, shown)
    assert low <= estimated <= high
    assert 0.5 < estimated / truth < 2
    assert shown.count("On your own data:") == 3
    assert shown == succeeded(run("demo", "--seed", 3))


def numbers_in(pattern, text, *, last_first=False):
    found = [float(number.replace(",", "")) for number in re.search(pattern, text, re.DOTALL).groups()]
    return found[-1:] + found[:-1] if last_first else found


@pytest.mark.slow
@pytest.mark.parametrize("budget", [1, 10_003])
def test_demo_with_extreme_budgets(run, budget):
    succeeded(run("demo", "--budget", budget))


@pytest.mark.slow
def test_cluster_writes_what_the_library_computes(run, data):
    shown = succeeded(run("cluster", "rows.npy", "-k", 7, "--z", 1, "--seed", 5, "--normalize", "--out", "c.npz"))
    assert cs.load("c.npz") == cs.cluster(ROWS, 7, z=1.0, seed=5, normalize=True)
    assert shown.startswith("Wrote c.npz\n")
    assert "7 of 400 rows" in shown


@pytest.mark.slow
def test_select_writes_what_the_library_computes(run, data):
    succeeded(run("select", "rows.npy", "--losses", "losses.csv", "--budget", BUDGET, "--seed", 4))
    assert cs.load("picked.parquet") == cs.select(ROWS, LOSSES, BUDGET, seed=4)
    succeeded(run("select", "rows.npy", "--budget", BUDGET, "--out", "far.csv", "--z", 1, "--normalize"))
    assert cs.load("far.csv") == cs.select(ROWS, None, BUDGET, z=1.0, normalize=True)


PARTS = [
    ("--pilot", "Centers(keep=True)", {"pilot": cs.pilots.Centers(keep=True)}),
    ("--pilot", "Representatives(part=0.5)", {"pilot": cs.pilots.Representatives(part=0.5)}),
    ("--score", "Mixture", {"score": cs.scores.Mixture()}),
    ("--score", " Mixture(loss=0.1, distance=0.2) ", {"score": cs.scores.Mixture(loss=0.1, distance=0.2)}),
    ("--score", "Sensitivity(holder=[0.1, 1, 2, 3])", {"score": cs.scores.Sensitivity(holder=[0.1, 1, 2, 3])}),
    ("--design", "Systematic", {"design": cs.designs.Systematic()}),
    ("--design", "Poisson()", {"design": cs.designs.Poisson()}),
    ("--design", "Independent()", {"design": cs.designs.Independent()}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("flag", "text", "options"), PARTS, ids=[text for _, text, _ in PARTS])
def test_parts_are_named_as_in_the_library(run, data, flag, text, options):
    succeeded(run("select", "rows.npy", "--losses", "losses.csv", "--budget", 40, "--clusters", 4, flag, text))
    assert cs.load("picked.parquet") == cs.select(ROWS, LOSSES, 40, clusters=4, **options)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in ("pilot", "score", "design") for name in known(kind)]
)
def test_what_a_part_shows_of_itself_is_read_back(kind, name):
    cls = known(kind)[name]
    options = {"Sensitivity": {"holder": 0.25}, "Proxy": {"losses": [1.0, 2.0]}}.get(name, {})
    part = cls(**options)
    if name != "Proxy":  # whose array has no text
        assert parse_part(kind, repr(part)) == part


def answer_all(run, column, answers):
    """Answer what run.state asks until it has finished; return what was told in the end."""
    while True:
        succeeded(run("ask", "run.state", "--out", "ask.csv"))
        rows = pa.csv.read_csv("ask.csv")["row"].to_numpy()
        pa.csv.write_csv(pa.table({"row": rows, column: answers[rows]}), "told.csv")
        Path("ask.csv").unlink()
        told = json.loads(estimated(run("tell", "run.state", "told.csv", "--json")))
        if told["finished"]:
            return told


@pytest.mark.slow
def test_paper_mode(run, data):
    parts = {
        "pilot": cs.pilots.Centers(keep=False),
        "score": cs.scores.Sensitivity(holder=0.1),
        "design": cs.designs.Independent(),
    }
    common = ("rows.npy", "--losses", "losses.csv", "--paper", 0.1, "--clusters", 20)
    succeeded(run("select", *common, "--budget", 100))
    assert cs.load("picked.parquet") == cs.select(ROWS, LOSSES, 100, clusters=20, **parts)
    succeeded(run("select", *common, "--epsilon", 0.3))
    assert cs.load("picked.parquet").multiplicity.sum() == cs.theory.paper_size(0.3)
    succeeded(run("select", *common, "--epsilon", 0.3, "--delta", 0.05))
    assert cs.load("picked.parquet").multiplicity.sum() == cs.theory.paper_size(0.3, delta=0.05)
    shown = succeeded(run("plan", "rows.npy", "--paper", 0.1, "--clusters", 20, "--budget", 100))
    assert re.search(r"losses asked to choose them +20\b", shown)
    assert re.search(r"losses to estimate the total loss +120\b", shown)


@pytest.mark.slow
@pytest.mark.parametrize("word", ["free", "robust", "estimate"])
def test_paper_mode_with_an_estimate(run, data, word):
    common = ("rows.npy", "--paper", word, "--clusters", 5, "--budget", 40)
    succeeded(run("start", "select", *common))
    told = json.loads(succeeded(run("ask", "run.state", "--json")))
    planned = succeeded(run("plan", *common))
    asked = AnswerFile(Path("ask.csv")).rows()
    assert asked.size == told["pending"]
    assert int(re.findall(r"losses asked to choose them +(\d+)", planned)[0]) >= asked.size
    answer_all(run, "loss", LOSSES)
    parts = {
        "pilot": cs.pilots.Centers(keep=False),
        "score": cs.scores.Sensitivity(holder=word),
        "design": cs.designs.Independent(),
    }
    assert cs.load("picked.parquet") == cs.select(ROWS, LOSSES, 40, clusters=5, **parts)
    common = ("rows.npy", "--losses", "losses.csv", "--clusters", 5, "--budget", 40)
    pieces = ("--pilot", "Centers", "--design", "Independent", "--score", f"Sensitivity(holder={word!r})")
    succeeded(run("select", *common, *pieces, "--out", "again.parquet"))
    assert cs.load("again.parquet") == cs.load("picked.parquet")


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["rows.npy", "rows.parquet"])
def test_grow_adds_rows_as_the_library_does(run, data, rows):
    losses = ("--losses", "losses.csv")
    answers = "losses.csv"
    if rows == "rows.parquet":
        pa.csv.write_csv(pa.table({"id": IDS, "loss": LOSSES}), data / "by_id.csv")
        losses = ("--losses", "by_id.csv")
        answers = "by_id.csv"
    succeeded(run("select", rows, *losses, "--budget", BUDGET, "--out", "picked.parquet"))
    shown = succeeded(run("grow", "picked.parquet", rows, *losses, "--budget", 2 * BUDGET, "--out", "grown.parquet"))
    assert re.search(rf"rows added +{BUDGET}", shown)
    before = cs.load(data / "picked.parquet")
    assert cs.load(data / "grown.parquet") == cs.grow(before, data / answers, 2 * BUDGET, rows=str(data / rows))
    assert np.isin(before.ids, cs.load(data / "grown.parquet").ids).all()


@pytest.mark.slow
def test_grow_takes_the_clusters_strata_and_excluded_rows_of_the_selection(run, data):
    (data / "never.txt").write_text("3\n5\n")
    shared = ("--strata", "losses.csv:kind", "--exclude", "never.txt")
    losses = ("--losses", "losses.csv")
    succeeded(run("cluster", "rows.npy", "-k", 6, "--strata", "losses.csv:kind", "--out", "own.npz", "--seed", 9))
    succeeded(run("select", "rows.npy", *losses, *shared, "--clusters", "own.npz", "--budget", BUDGET))
    succeeded(
        run("grow", "picked.parquet", "rows.npy", *losses, *shared, "--clusters", "own.npz", "--budget", 2 * BUDGET)
    )
    grown = cs.load(data / "grown.parquet")
    assert len(grown) == 2 * BUDGET
    assert not np.isin([3, 5], grown.ids).any()
    for verb in (["select", "rows.npy"], ["grow", "picked.parquet", "rows.npy"]):
        (data / "list.csv").write_text("row\n3\n")
        for flag in ("--exclude", "--strata"):
            named = "list.csv" if flag == "--exclude" else "list.csv:row"
            message = refused(run(*verb, *losses, flag, named, "--budget", 90, "--out", "list.csv"))
            assert "--out must be another file than list.csv" in message
        assert (data / "list.csv").read_text() == "row\n3\n"
    message = refused(run("grow", "picked.parquet", "rows.npy", *losses, "--budget", 90))
    assert "--clusters must be the clustering that the selection was made with" in message


def test_plan_says_what_select_then_asks(run, data):
    shown = succeeded(run("plan", "rows.npy", "--budget", BUDGET))
    succeeded(run("select", "rows.npy", "--losses", "losses.csv", "--budget", BUDGET))
    picked = cs.load("picked.parquet")
    assert shown.startswith(f"To select {BUDGET} of {N} rows of {D} numbers\n")
    assert re.search(rf"losses asked to choose them +{picked.ledger.asked}\b", shown)
    assert re.search(rf"losses to estimate the total loss +{len(picked)}\b", shown)


@pytest.mark.slow
def test_diagnose_gives_its_verdict_first_and_counts_what_it_asks(run, data):
    options = ("--budget", BUDGET, "--seed", 3, "--probes", 60)
    shown = succeeded(run("diagnose", "rows.npy", "--losses", "losses.csv", *options, "--holder", 0.2, "--power", 1))
    found = cs.diagnose(ROWS, LOSSES, BUDGET, 3, probes=60, holder=0.2, powers=[1])
    assert shown.startswith(f"{found.verdict.capitalize()}. {found.reason}\n")
    assert re.search(
        rf"error relative to a uniform sample's +{found.ratio.value:.2f}, 95% interval {found.ratio.low:.2f}", shown
    )
    assert re.search(r"losses asked +64: 4 centers, 60 probes", shown)
    assert re.search(rf"violate Λ = 0.2 +{found.violations.value:.1%}", shown)
    (line,) = re.findall(r"distance\^.*", shown)
    assert f"{found.holder[0].percentiles[-1]:.4g}" in line
    proxied = succeeded(run("diagnose", "rows.npy", "--losses", "losses.csv", *options, "--proxy", "losses.csv"))
    assert proxied.startswith("Use it with a proxy. ")
    assert "error with the proxy" in proxied
    assert proxied.count("distance^") == 3


@pytest.mark.slow
@pytest.mark.parametrize("table", ["rows.npy", "rows.parquet"])
def test_a_diagnosis_in_steps_is_that_in_one_go(run, data, table):
    options = (table, "--budget", BUDGET, "--probes", 60, "--strata", "losses.csv:kind", "--power", 1, "--holder", 0.2)
    succeeded(run("start", "diagnose", *options))
    answer_all(run, "loss", LOSSES)
    whole = json.loads(succeeded(run("diagnose", *options, "--losses", "losses.csv", "--json")))
    assert json.loads(Path("diagnosis.json").read_text()) == {
        name: value for name, value in whole.items() if name != "columns"
    }
    succeeded(run("select", table, "--budget", BUDGET))
    succeeded(run("report", "picked.parquet", "--diagnosis", "diagnosis.json"))
    assert whole["reason"].split(",")[0] in Path("picked.html").read_text(encoding="utf-8")


def test_diagnose_and_plan_take_what_select_takes(run, data):
    Path("out.txt").write_text("3\n5\n")
    options = ("--budget", BUDGET, "--strata", "losses.csv:kind", "--exclude", "out.txt", "--design", "Poisson")
    told = json.loads(succeeded(run("diagnose", "rows.npy", "--losses", "losses.csv", *options, "--json")))
    kinds = np.array(["even", "odd"])[np.arange(N) % 2]
    parts = {"strata": kinds, "exclude": [3, 5], "design": cs.designs.Poisson()}
    twin = cs.diagnose(ROWS, LOSSES, BUDGET, **parts)
    assert (told["verdict"], told["ratio"]["value"]) == (twin.verdict, twin.ratio.value)
    told = json.loads(succeeded(run("plan", "rows.npy", *options, "--json")))
    assert told["losses_asked"] == cs.plan(ROWS, BUDGET, **parts).losses_asked


@pytest.mark.slow
@pytest.mark.parametrize("form", ["lines", "csv", "parquet", "selection"])
def test_given_and_excluded_rows_come_from_files(run, data, form):
    given, exclude = [7, 300, 12], list(range(20, 40))
    files = {"given": given, "exclude": exclude}
    for name, rows in files.items():
        if form == "lines":
            Path(f"{name}.txt").write_text("".join(f"{row}\n" for row in rows))
        elif form == "csv":
            Path(f"{name}.csv").write_text("note,row\n" + "".join(f"x,{row}.0\n" for row in rows))
        else:
            pa.parquet.write_table(pa.table({"row": rows}), f"{name}.parquet")
    suffix = {"lines": "txt", "csv": "csv"}.get(form, "parquet")
    if form == "selection":
        cs.save(cs.select(ROWS, budget=10, seed=9, exclude=exclude), "given.parquet")
        given = cs.load("given.parquet").ids.tolist()
    options = ("rows.npy", "--budget", BUDGET, "--given", f"given.{suffix}", "--exclude", f"exclude.{suffix}")
    succeeded(run("start", "select", *options))
    succeeded(run("ask", "run.state"))
    assert not set(pa.csv.read_csv("ask.csv")["row"].to_pylist()) & set(exclude)
    succeeded(run("select", *options, "--losses", "losses.csv"))
    picked = cs.load("picked.parquet")
    assert picked == cs.select(ROWS, LOSSES, BUDGET, given=given, exclude=exclude)
    assert set(given) <= set(picked.ids)
    assert picked.population == N - len(exclude)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["lines", "csv", "jsonl", "selection"])
def test_given_and_excluded_rows_can_be_ids(run, data, form):
    given, exclude = [7, 300, 12], [20, 21, 22]
    for name, rows in {"given": given, "exclude": exclude}.items():
        if form == "lines":
            Path(f"{name}.lines").write_text("".join(f"{IDS[row]}\n" for row in rows), encoding="utf-8")
        elif form != "selection":
            _write(f"{name}.{form}", {"id": [IDS[row] for row in rows]})
    suffix = form
    if form == "selection":
        _write("exclude.parquet", {"id": [IDS[row] for row in exclude]})
        cs.save(cs.select("rows.parquet", budget=5, exclude=exclude), "given.parquet")
        given, suffix = cs.load("given.parquet").ids, "parquet"
    files = ("--given", f"given.{suffix}", "--exclude", f"exclude.{suffix}")
    succeeded(run("select", "rows.parquet", "--budget", BUDGET, *files))
    assert cs.load("picked.parquet") == cs.select("rows.parquet", budget=BUDGET, given=given, exclude=exclude)
    succeeded(run("cover", "rows.parquet", "--budget", BUDGET, *files, "--out", "cover.csv"))
    assert cs.load("cover.csv") == cs.cover("rows.parquet", BUDGET, given=given, exclude=exclude)


@pytest.mark.slow
def test_numbers_that_are_ids_and_row_numbers_of_other_rows_are_refused(run, data):
    columns = {"id": np.arange(N) + 1, **{f"x{place}": ROWS[:, place] for place in range(D)}}
    pa.parquet.write_table(pa.table(columns), "shifted.parquet")
    Path("given.txt").write_text("7\n")
    said = refused(run("select", "shifted.parquet", "--budget", 20, "--given", "given.txt"))
    assert said.startswith("given.txt has numbers that could be row numbers or ids")
    _write("given.csv", {"id": [7]})
    succeeded(run("select", "shifted.parquet", "--budget", 20, "--given", "given.csv"))
    assert 6 in cs.load("picked.parquet").ids
    Path("given.txt").write_text("0\n")  # no id, so a row number
    succeeded(run("select", "shifted.parquet", "--budget", 20, "--given", "given.txt"))
    assert 0 in cs.load("picked.parquet").ids


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_the_tables_own_columns_come_out(run, data, suffix):
    columns = {"id": IDS, "words": [f"text {row}" for row in range(N)], "loss": LOSSES.tolist()}
    columns |= {f"x{place}": ROWS[:, place].tolist() for place in range(D)}
    _write(f"table{suffix}", columns)
    options = (f"table{suffix}", "--budget", BUDGET, "--exclude-column", "loss")
    shown = succeeded(run("select", *options, "--out", f"picked{suffix}"))
    assert re.search(r"columns used +x0, x1, x2, x3\n?", shown)
    picked = cs.load(f"picked{suffix}")
    assert np.array_equal(picked.ids, cs.select(ROWS, budget=BUDGET).ids)
    written = _read(f"picked{suffix}")
    assert written["words"] == [f"text {row}" for row in picked.ids]
    np.testing.assert_allclose(written["table_loss"], LOSSES[picked.ids])
    succeeded(run("cover", *options, "--importance", "loss", "--out", f"cover{suffix}"))
    covering = cs.load(f"cover{suffix}")
    assert np.array_equal(covering.ids, cs.cover(ROWS, BUDGET, importance=LOSSES).ids)
    assert _read(f"cover{suffix}")["words"] == [f"text {row}" for row in covering.ids]
    # What a run asks has them too, and what is called as the answers are cannot be taken for answers.
    succeeded(run("start", "select", *options, "--out", f"end{suffix}"))
    succeeded(run("ask", "run.state", "--out", f"ask{suffix}"))
    asked = _read(f"ask{suffix}")
    assert asked["words"] == [f"text {row}" for row in asked["row"]]
    assert "loss" not in asked
    assert "table_loss" in asked
    answer_all(run, "loss", LOSSES)
    assert _read(f"end{suffix}")["words"] == [f"text {row}" for row in cs.load(f"end{suffix}").ids]


def test_an_embedding_is_not_shown_to_those_who_answer(run, data):
    succeeded(run("start", "select", "rows.parquet", "--budget", BUDGET))
    succeeded(run("ask", "run.state"))
    assert pa.csv.read_csv("ask.csv").column_names == ["row", "id"]


@pytest.mark.slow
def test_very_different_scales_are_hinted_at(run, data):
    wide = ROWS * [10_000, 1, 1, 1]
    _write("wide.csv", {f"x{place}": wide[:, place].tolist() for place in range(D)})
    shown = succeeded(run("select", "wide.csv", "--budget", BUDGET))
    assert "The values of column 'x0' vary" in shown
    assert "--standardize puts all columns on one scale" in shown
    shown = succeeded(run("select", "wide.csv", "--budget", BUDGET, "--standardize"))
    assert "hint" not in shown
    twin = cs.select(cs.open_rows("wide.csv", standardize=True), budget=BUDGET)
    assert cs.load("picked.parquet") == twin


def test_cover_takes_columns_from_another_table(run, data):
    pa.csv.write_csv(pa.table({"words": [f"text {row}" for row in range(len(ROWS))]}), "words.csv")
    succeeded(run("cover", "rows.npy", "--budget", BUDGET, "--table", "words.csv", "--out", "cover.csv"))
    assert _read("cover.csv")["words"] == [f"text {row}" for row in cs.load("cover.csv").ids]
    pa.csv.write_csv(pa.table({"words": ["one"]}), "one.csv")
    assert "rows; got 1 row." in refused(run("cover", "rows.npy", "--budget", 9, "--table", "one.csv"))


def test_cover_takes_its_options(run, data):
    succeeded(run("cover", "rows.npy", "--budget", 30, "--normalize", "--seed", 5, "--importance", "losses.csv:size"))
    twin = cs.cover(ROWS, 30, normalize=True, seed=5, importance=np.arange(N) % 5.0)
    assert cs.load("covering.parquet") == twin
    assert "defines none" in refused(run("estimate", "covering.parquet", "--values", "losses.csv"))
    succeeded(run("report", "covering.parquet", "--rows", "rows.npy"))


def test_a_report_finds_the_texts_in_the_selection_itself(run, data):
    columns = {"words": [f"text number {row}" for row in range(N)], "embedding": ROWS.tolist()}
    pa.parquet.write_table(pa.table(columns), "table.parquet")
    succeeded(run("select", "table.parquet", "--budget", BUDGET))
    succeeded(run("report", "picked.parquet", "--text", "words"))
    page = Path("picked.html").read_text(encoding="utf-8")
    assert all(f"text number {row}" in page for row in cs.load("picked.parquet").ids)


@pytest.mark.slow
def test_a_file_that_lacks_rows_is_explained(run, data):
    rows = cs.select(ROWS, LOSSES, BUDGET).ids[:5]
    pa.csv.write_csv(pa.table({"row": rows, "loss": LOSSES[rows]}), "few.csv")
    other = refused(run("select", "rows.npy", "--budget", 2 * BUDGET, "--losses", "few.csv"))
    assert other.endswith("To learn which rows need a loss, use coresift start select.")
    succeeded(run("select", "rows.npy", "--budget", BUDGET, "--losses", "losses.csv"))
    assert "all selected rows" in refused(run("estimate", "picked.parquet", "--values", "few.csv"))
    assert "start diagnose" in refused(run("diagnose", "rows.npy", "--budget", BUDGET, "--losses", "few.csv"))
    page = Path("picked.html")
    succeeded(run("report", "picked.parquet", "--losses", "few.csv"))
    assert "selected rows are known; give all of them" in page.read_text(encoding="utf-8")


def test_warnings_stand_in_the_json_too(run, data):
    succeeded(run("select", "rows.npy", "--losses", "losses.csv", "--budget", BUDGET, "--out", "p.parquet"))
    lopsided = np.arange(N) == cs.load("p.parquet").ids[0]
    pa.csv.write_csv(pa.table({"row": np.arange(N), "loss": lopsided.astype(float)}), "few.csv")
    found = run("estimate", "p.parquet", "--values", "few.csv", "--json")
    told = json.loads(found.out)
    assert [f"Warning: {text}" for text in told["warnings"]] == found.err.splitlines()
    assert told["estimates"][0]["total"]["value"] >= 0


def test_a_draw_that_takes_nothing_is_told_and_saved(run, data):
    seed = next(
        seed for seed in range(99) if not len(cs.select(ROWS, budget=1, seed=seed, design=cs.designs.Poisson()))
    )
    shown = succeeded(run("select", "rows.npy", "--budget", 1, "--seed", seed, "--design", "Poisson"))
    assert "0 of 400" in shown
    assert len(cs.load("picked.parquet")) == 0


REGRESSION = ("regression", "rows.npy", "--budget", BUDGET)
TARGETS = ROWS @ [1.0, -2.0, 3.0, 0.5] + 4


def test_regression_from_question_to_coefficients(run, data):
    succeeded(run("start", *REGRESSION, "--fit", "fit.csv"))
    told = answer_all(run, "label", TARGETS)
    assert (told["labels_asked"], told["coefficients"]) == (BUDGET, D)
    expected = cs.regression.select(ROWS, TARGETS, BUDGET)
    assert cs.load("picked.parquet") == expected.selection
    fit = pa.csv.read_csv("fit.csv").to_pydict()
    assert fit["column"] == ["intercept", "0", "1", "2", "3"]
    np.testing.assert_allclose(fit["coefficient"], [4.0, 1.0, -2.0, 3.0, 0.5], rtol=1e-4)
    pa.csv.write_csv(pa.table({"row": np.arange(N), "label": TARGETS}), "labels.csv")
    shown = succeeded(run(*REGRESSION, "--labels", "labels.csv", "--fit", "again.csv", "--out", "again.parquet"))
    assert shown.startswith("Wrote again.parquet and again.csv\n")
    assert "R² on the selected rows, weighted  1.0000" in shown
    assert cs.load("again.parquet") == expected.selection


@pytest.mark.slow
def test_regression_asks_the_medoids_first_where_they_decide(run, data):
    options = ("--score", "Sensitivity(holder=0.5)", "--clusters", 8)
    succeeded(run("start", *REGRESSION, *options))
    told = json.loads(succeeded(run("ask", "run.state", "--json")))
    assert (told["pending"], told["reason"]) == (8, "medoids")
    assert answer_all(run, "label", TARGETS)["round"] == 2
    expected = cs.regression.select(ROWS, TARGETS, BUDGET, clusters=8, score=cs.scores.Sensitivity(holder=0.5))
    assert cs.load("picked.parquet") == expected.selection
    assert "There is nothing left to answer" in succeeded(run("ask", "run.state", "--out", "more.csv"))


@pytest.mark.slow
def test_the_label_is_never_a_feature(run, data):
    columns = {"row": np.arange(N), **{f"x{place}": ROWS[:, place] for place in range(D)}, "label": TARGETS}
    pa.csv.write_csv(pa.table(columns), "table.csv")
    options = ("table.csv", "--budget", BUDGET, "--exclude-column", "row")
    shown = succeeded(run("regression", *options, "--labels", "table.csv", "--fit", "fit.csv"))
    assert re.search(r"columns used +x0, x1, x2, x3\n?", shown)
    names = ["intercept", "x0", "x1", "x2", "x3"]
    assert pa.csv.read_csv("fit.csv")["column"].to_pylist() == names
    shown = succeeded(run("start", "regression", *options, "--fit", "again.csv"))
    assert re.search(r"columns used +x0, x1, x2, x3\n?", shown)
    succeeded(run("ask", "run.state", "--out", "ask.csv"))
    assert not {"label", "row_"} & set(pa.csv.read_csv("ask.csv").column_names)
    answer_all(run, "label", TARGETS)
    assert pa.csv.read_csv("again.csv") == pa.csv.read_csv("fit.csv")
    succeeded(run("start", "regression", *options, "--target", "x3", "--state", "other.state"))
    told = json.loads(succeeded(run("status", "other.state", "--json")))
    assert told["columns"] == ["x0", "x1", "x2"]


@pytest.mark.slow
def test_regression_on_a_table_with_its_own_labels_and_ids(run, data):
    columns = {"id": IDS, **{f"x{place}": ROWS[:, place] for place in range(D)}, "price": TARGETS}
    pa.parquet.write_table(pa.table(columns), "table.parquet")
    options = ("--budget", BUDGET, "--target", "price", "--score", "LeverageMixture(leverage=0.5)", "--ridge", 0.1)
    succeeded(run("regression", "table.parquet", *options, "--no-intercept", "--fit", "fit.jsonl"))
    found = cs.regression.select(ROWS, TARGETS, BUDGET, score=cs.scores.LeverageMixture(leverage=0.5), intercept=False)
    picked = cs.load("picked.parquet")
    np.testing.assert_array_equal(picked.ids, found.selection.ids)
    assert picked.names == tuple(IDS[row] for row in picked.ids)
    lines = [json.loads(line) for line in Path("fit.jsonl").read_text().splitlines()]
    assert [line["column"] for line in lines] == ["intercept", "x0", "x1", "x2", "x3"]
    np.testing.assert_array_equal([line["coefficient"] for line in lines[1:]], found.fit(0.1).coefficients)
    assert pa.parquet.read_table("picked.parquet")["price"].to_pylist() == TARGETS[picked.ids].tolist()


def test_regression_in_paper_mode_says_what_it_can_never_draw(run, data):
    pa.csv.write_csv(pa.table({"row": np.arange(N), "label": TARGETS}), "labels.csv")
    outcome = run(*REGRESSION, "--labels", "labels.csv", "--paper", "inf", "--no-intercept")
    assert outcome.status == 0
    assert outcome.err.startswith(f"Warning: {N // 10} of {N} rows have probability 0 under Sensitivity(holder=inf)")
    ((_, reason, count),) = cs.load("picked.parquet").ledger.entries
    assert (reason, count) == ("labels", N // 10 + len(cs.load("picked.parquet")))


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_own_ids_travel_from_ask_to_estimate(run, data, suffix):
    options = ("rows.parquet", "--budget", BUDGET, "--seed", 1)
    succeeded(run("start", "select", *options, "--out", f"picked{suffix}"))
    succeeded(run("ask", "run.state", "--out", f"ask{suffix}"))
    asked = _read(f"ask{suffix}")
    assert asked["id"] == [IDS[row] for row in asked["row"]]
    # Whoever computes the losses knows the ids only.
    _write(f"answers{suffix}", {"id": asked["id"][::-1], "loss": LOSSES[asked["row"]].tolist()[::-1]})
    succeeded(run("tell", "run.state", f"answers{suffix}"))
    picked = cs.load(f"picked{suffix}")
    assert list(picked.names) == [IDS[row] for row in picked.ids]
    assert picked == cs.select("rows.parquet", LOSSES, BUDGET, seed=1)
    _write(f"values{suffix}", {"id": IDS, "loss": LOSSES.tolist()})
    shown = estimated(run("estimate", f"picked{suffix}", "--values", f"values{suffix}"))
    assert texts_of(cs.estimate(picked, LOSSES[picked.ids]).total)[0] in shown


def _read(path):
    if path.endswith(".jsonl"):
        lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
        return {name: [line.get(name) for line in lines] for name in lines[0]}
    table = pa.csv.read_csv(path) if path.endswith(".csv") else pa.parquet.read_table(path)
    return table.to_pydict()


def _write(path, columns):
    if path.endswith(".jsonl"):
        lines = [dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)]
        Path(path).write_text("".join(json.dumps(line) + "\n" for line in lines))
    elif path.endswith(".csv"):
        pa.csv.write_csv(pa.table(columns), path)
    else:
        pa.parquet.write_table(pa.table(columns), path)


def test_an_own_numeric_id_is_no_part_of_the_embedding_in_any_verb(run, data):
    columns = {"key": np.arange(N) * 1000, **{f"x{place}": ROWS[:, place] for place in range(D)}}
    pa.parquet.write_table(pa.table(columns), "wide.parquet")
    options = ("wide.parquet", "--id-column", "key")
    succeeded(run("cluster", *options, "-k", 5))
    assert f"of {D} numbers" in succeeded(run("plan", *options, "--budget", BUDGET, "--clusters", "clusters.npz"))
    succeeded(run("select", *options, "--budget", BUDGET, "--clusters", "clusters.npz"))
    picked = cs.load("picked.parquet")
    assert list(picked.names) == (picked.ids * 1000).tolist()


def test_estimate_shows_several_columns_and_groups(run, data):
    succeeded(run("select", "rows.npy", "--losses", "losses.csv", "--budget", BUDGET))
    picked = cs.load("picked.parquet")
    size = (np.arange(N) % 5)[picked.ids]
    columns = ("--column", "loss", "--column", "size")
    shown = estimated(run("estimate", "picked.parquet", "--values", "losses.csv", *columns, "--confidence", 0.9))
    assert "90% interval" in shown
    for values in (LOSSES[picked.ids], size):
        found = cs.estimate(picked, values, confidence=0.9)
        for one in (found.total, found.mean):
            assert all(text in shown for text in texts_of(one))
    assert f"{BUDGET} rows stand for {N}" in shown
    shown = estimated(
        run("estimate", "picked.parquet", "--values", "losses.csv", "--column", "size", "--group", "kind")
    )
    found = cs.estimate(picked, size, groups=np.array(["even", "odd"])[picked.ids % 2])
    for label in ("even", "odd"):
        (line,) = [line for line in shown.splitlines() if f" {label} " in line]
        assert texts_of(found[label].total)[0] in line
        assert texts_of(found[label].mean)[1] in line


def test_estimate_shows_the_reservations_of_the_library_once(run, data):
    succeeded(run("select", "rows.npy", "--budget", BUDGET))
    picked = cs.load("picked.parquet")
    spiked = np.zeros(N)
    spiked[picked.ids[3]] = 1.0
    _write("values.csv", {"row": list(range(N)), "one": spiked.tolist(), "two": spiked.tolist()})
    outcome = run("estimate", "picked.parquet", "--values", "values.csv", "--column", "one", "--column", "two")
    remarks = cs.estimate(picked, spiked[picked.ids]).warnings
    assert remarks
    assert (outcome.status, outcome.err) == (0, "".join(f"Warning: {remark}\n" for remark in remarks))


def test_labels_are_shown_as_they_are(run, data):
    succeeded(run("select", "rows.npy", "--budget", BUDGET))
    labels = np.array(["[/red]", "007", ":smile:", "[bold]x", None, "NA"], object)[np.arange(N) % 6]
    _write("values.csv", {"row": list(range(N)), "loss": LOSSES.tolist(), "label": labels.tolist()})
    shown = estimated(run("estimate", "picked.parquet", "--values", "values.csv", "--group", "label"))
    for label in ("[/red]", "007", ":smile:", "[bold]x", "(none)", "NA"):
        assert f" {label} " in shown


def test_long_lines_are_not_broken_where_there_is_no_terminal(run, data):
    folder = Path("a_folder_with_a_long_name_" * 4)
    folder.mkdir()
    shown = succeeded(run("select", "rows.npy", "--budget", BUDGET, "--out", folder / "picked[bold].csv"))
    assert shown.splitlines()[0] == f"Wrote {folder / 'picked[bold].csv'}"


def test_predictions_go_into_an_estimate_as_a_file_or_a_table(run, data):
    cheap = LOSSES + 0.1
    np.save("cheap.npy", cheap)
    pa.csv.write_csv(pa.table({"row": np.arange(N), "loss": cheap}), "cheap.csv")
    picked = cs.select(ROWS, LOSSES, BUDGET)
    cs.save(picked, "picked.parquet")
    for flags, method in [
        (("--predictions", "cheap.npy"), cs.estimators.Difference(cheap)),
        (("--predictions", "cheap.csv", "--estimator", "difference"), cs.estimators.Difference(cheap)),
        (("--predictions", "cheap.npy", "--estimator", "regression"), cs.estimators.GeneralizedRegression(cheap)),
    ]:
        shown = estimated(run("estimate", "picked.parquet", "--values", "losses.csv", *flags))
        total = cs.estimate(picked, LOSSES[picked.ids], method=method).total
        assert all(text in shown for text in texts_of(total))


def test_certify_shows_the_certificate(run, data):
    clustering = cs.cluster(ROWS, 4)
    cs.save(clustering, "clusters.npz")
    np.save("cheap.npy", LOSSES)
    select = ("select", "rows.npy", "--budget", 60, "--losses", "losses.csv", "--clusters", "clusters.npz")
    succeeded(run(*select, "--paper", 0.1))
    picked = cs.load("picked.parquet")
    values = LOSSES[picked.ids]
    shown = succeeded(run("certify", "picked.parquet", "--losses", "losses.csv"))
    assert shown == f"{cs.certify(picked, values)}\n"
    flags = ("--upper", 20, "--clusters", "clusters.npz", "--epsilon", 0.2, "--delta", 0.1, "--confidence", 0.9)
    shown = succeeded(run("certify", "picked.parquet", "--losses", "losses.csv", *flags))
    options = {"upper": 20, "clustering": clustering, "epsilon": 0.2, "delta": 0.1, "confidence": 0.9}
    assert shown == f"{cs.certify(picked, values, **options)}\n"
    flags = ("--clusters", "clusters.npz", "--holder", 3, "--predictions", "cheap.npy")
    shown = succeeded(run("certify", "picked.parquet", "--losses", "losses.csv", *flags))
    options = {"clustering": clustering, "holder": 3, "method": cs.estimators.Difference(LOSSES)}
    assert shown == f"{cs.certify(picked, values, **options)}\n"


# Refusals

SELECT = ("select", "rows.npy", "--budget", BUDGET)
ESTIMATE = ("estimate", "made.parquet", "--values", "losses.csv")
DIAGNOSE = ("diagnose", "rows.npy", "--budget", BUDGET, "--losses", "losses.csv")
CERTIFY = ("certify", "made.parquet", "--losses", "losses.csv")
REFUSALS = {
    "nothing to diagnose": (DIAGNOSE[:-2], "Missing option '--losses'."),
    "too few probes": ((*DIAGNOSE, "--probes", 5), "--probes must be a whole number of at least 20; got 5."),
    "a negative Λ": ((*DIAGNOSE, "--holder", -1), "--holder must be a finite number of at least 0; got -1.0."),
    "a ratio of power 0": ((*DIAGNOSE, "--power", 0), "powers must be a finite number above 0; got 0.0."),
    "half a proxy": (
        (*DIAGNOSE, "--proxy", "few.csv"),
        r"few.csv must have every row that is asked; \d+ of 400 are missing, .*",
    ),
    "nothing left to choose": (
        ("diagnose", "rows.npy", "--budget", 400, "--losses", "losses.csv"),
        "--budget must be below the number of rows, 400; got 400.",
    ),
    "no such rows": (("select", "none.npy", "--budget", 5), "There is no file none.npy."),
    "no rows at all": (("select", "--budget", 5), "Missing argument 'ROWS'."),
    "unknown verb": (("choose",), "No such command 'choose'."),
    "unknown option": ((*SELECT, "--bugdet", 5), "No such option: --bugdet; the nearest is --budget."),
    "misspelled verb": (("selct",), "No such command 'selct'; the nearest is 'select'."),
    "an old verb": (("compare", "rows.npy"), "No such command 'compare'; the nearest is 'compare-methods'."),
    "too many clusters to write": ((*SELECT, "--clusters", "9" * 5000), "--clusters must be a number or a .npz file "),
    "more seeds than anyone runs": (
        ("compare-methods", "rows.npy", "--losses", "losses.csv", "--budget", 20, "--seeds", "9" * 20),
        "--seeds must be at most 1,000,000; got 99999999999999999999.",
    ),
    "importance of no column": (
        ("cover", "rows.npy", "--budget", 5, "--importance", "loss"),
        "--importance must be a FILE:COLUMN if the rows are not a table; got loss.",
    ),
    "importance below 0": (
        ("cover", "rows.npy", "--budget", 5, "--importance", "negative.csv:loss"),
        "--importance must be numbers of at least 0; got -1 for row 0.",
    ),
    "no number": (("select", "rows.npy", "--budget", "many"), "Invalid value for '--budget': "),
    "a NaN": (("select", "nan.npy", "--budget", 5), "rows must be finite numbers; row 7 has NaN at position 2."),
    "a NaN to cluster": (("cluster", "nan.npy", "-k", 5), "rows must be finite numbers; row 7 has NaN at position 2."),
    "a negative loss": (
        (*SELECT, "--losses", "negative.csv"),
        r"losses in negative.csv must be finite and at least 0; row \d+ has -1.0 \(unusable in \d+ of \d+ rows\).",
    ),
    "missing losses": (
        (*SELECT, "--losses", "few.csv"),
        r"few.csv must have every row that is asked; \d+ of \d+ are missing, the first of them \d+ "
        r"\(its ids look like 0\)\. To learn which rows need a loss, use coresift start select\.",
    ),
    "no losses": ((*SELECT, "--losses", "none.csv"), "--losses must be .* got 'none.csv', which is not a file."),
    "no loss column": ((*SELECT, "--losses", "ids.csv"), "ids.csv must have the column loss; it has row."),
    "no row column": ((*SELECT, "--losses", "bare.csv"), r"bare.csv must have the column id \(or row\); it has loss."),
    "losses of no known kind": ((*SELECT, "--losses", "rows.npy"), "A file of answers must be .*; got rows.npy."),
    "budget 0": (("select", "rows.npy", "--budget", 0), "--budget must be a whole number of at least 1; got 0."),
    "no budget": (("select", "rows.npy"), "--budget must say how many rows to select; got none."),
    "negative seed": ((*SELECT, "--seed", -1), "--seed must be a whole number of at least 0; got -1."),
    "no threads": ((*SELECT, "--threads", 0), "--threads must be a whole number of at least 1; got 0."),
    "no clusters": ((*SELECT, "--clusters", 0), "--clusters must be a whole number of at least 1; got 0."),
    "a power of 0": ((*SELECT, "--z", 0), "--z must be a finite number above 0; got 0.0."),
    "clusters of no kind": ((*SELECT, "--clusters", "-3"), "--clusters must be a number or a .npz file .*; got -3."),
    "no clustering": ((*SELECT, "--clusters", "none.npz"), "There is no file none.npz."),
    "a selection as clusters": ((*SELECT, "--clusters", "made.parquet"), "--clusters must be .*; got made.parquet."),
    "a damaged clustering": ((*SELECT, "--clusters", "damaged.npz"), "damaged.npz is not a file that coresift wrote"),
    "a clustering of other rows": (
        (*SELECT, "--clusters", "other.npz"),
        r"The clustering is of other rows \(50 of them\), not of these 400; cluster these rows again.",
    ),
    "another power": ((*SELECT, "--clusters", "made.npz", "--z", 1), "--z must be that of the clustering, 2; got 1.0."),
    "code": (
        (*SELECT, "--score", "os.system('touch x')"),
        "--score must be one of .*Learned.*, with or without options such as Mixture.*; got os.system.*",
    ),
    "code in an option": ((*SELECT, "--score", "Mixture(loss=exit())"), "--score must be one of .*"),
    "spread options": ((*SELECT, "--pilot", "Centers(**{'keep': True})"), "--pilot must be one of .*"),
    "an endless text": ((*SELECT, "--pilot", "(" * 9_999), r"--pilot must be one of .*"),
    "a part of another kind": ((*SELECT, "--pilot", "Mixture()"), "--pilot must be one of Centers, .*; got Mixture.*"),
    "unknown option of a part": (
        (*SELECT, "--pilot", "Centers(keeps=True)"),
        r"--pilot Centers\(keeps=True\) cannot be used; Centers takes keep.",
    ),
    "missing option of a part": (
        (*SELECT, "--score", "Sensitivity"),
        "--score Sensitivity cannot be used; Sensitivity takes holder.",
    ),
    "bad option of a part": ((*SELECT, "--score", "Mixture(loss=2)"), "loss must be a number from 0 to 1; got 2."),
    "paper and parts": ((*SELECT, "--paper", 1, "--design", "Poisson"), "--paper sets the pilot, .*"),
    "paper and a word that is none": (
        (*SELECT, "--paper", "dear"),
        "--paper must be a number, or one of estimate, free, robust; got dear.",
    ),
    "epsilon alone": ((*SELECT, "--epsilon", 0.1), "--epsilon replaces the budget in paper mode only: .*"),
    "asking score, no losses": ((*SELECT, "--score", "Learned"), "--score Learned.* asks for losses, and .*"),
    "given and excluded": (
        (*SELECT, "--given", "lines.txt", "--exclude", "lines.txt"),
        "Row 3 is both given and excluded; it can be only one of the two.",
    ),
    "given rows that are none": ((*SELECT, "--given", "words.txt"), "words.txt must have one row number per line, "),
    "given rows beyond the last": ((*SELECT, "--given", "beyond.txt"), "--given must be row numbers from 0 to 399; .*"),
    "no given rows": ((*SELECT, "--given", "none.txt"), "There is no file none.txt."),
    "unknown column": ((*SELECT, "--column", "x"), "--column must be left out if there are no columns"),
    "damaged rows": (("select", "damaged.npy", "--budget", 5), "The file damaged.npy cannot be read: .*"),
    "pickled rows": (("select", "pickled.npy", "--budget", 5), "The file pickled.npy cannot be read: it has Python .*"),
    "out of no kind": ((*SELECT, "--out", "x.txt"), "A selection must be a file .* .jsonl; got x.txt."),
    "report of no kind": (
        ("report", "made.parquet", "--out", "x.pdf"),
        r"A report must be a file with the extension \.html or \.htm; got x\.pdf\.",
    ),
    "report without a table": (
        ("report", "made.parquet", "--text", "words"),
        r"--text must be given together with a table, or with rows that come from one; got neither\.",
    ),
    "report of other rows": (
        ("report", "made.parquet", "--rows", "rows.npy", "--clusters", "other.npz"),
        r"clustering must be the one that the selection was made with; this is another one\.",
    ),
    "report of a clustering": (("report", "made.npz"), r"made\.npz must be a selection; it is a clustering\."),
    "report without a column": (
        ("report", "made.parquet", "--rows", "rows.parquet", "--label", "kind"),
        r"The column must be one of the columns 'id', 'embedding'; got 'kind'\.",
    ),
    "report with another's diagnosis": (
        ("report", "made.parquet", "--diagnosis", "lines.txt"),
        r"lines\.txt must be a file that diagnose --json wrote; it has no verdict\.",
    ),
    "report without losses": (
        ("report", "made.parquet", "--losses", "ids.csv"),
        r"ids\.csv must have the column loss; it has row\.",
    ),
    "out in no folder": ((*SELECT, "--out", "no/x.csv"), "There is no folder no to write x.csv in."),
    "out is a folder": ((*SELECT, "--out", "folder.csv"), "folder.csv must be a file to write to; it is a folder."),
    "out is read": (
        (*SELECT, "--losses", "losses.csv", "--out", "losses.csv"),
        "--out must be another file than losses.csv, which is an input.",
    ),
    "out among the rows": (
        ("select", "shards", "--budget", 5, "--out", "shards/x.parquet"),
        "--out must not be in shards, whose files are the rows; got shards/x.parquet.",
    ),
    "clusters out of no kind": (("cluster", "rows.npy", "-k", 5, "--out", "x.npy"), "A clustering must be a file .*"),
    "regression without labels": (REGRESSION, "Give either --labels, a file, or --target, a column of the table; "),
    "labels twice": (
        (*REGRESSION, "--labels", "labels.csv", "--target", "x"),
        "Give either --labels, a file, or --target, a column of the table; if the ",
    ),
    "a target that is no number": (
        ("regression", "rows.parquet", "--budget", 5, "--target", "id"),
        "--target must be a column of numbers that is not the id; got 'id' of type string.",
    ),
    "no label column": ((*REGRESSION, "--labels", "losses.csv"), "losses.csv must have the column label; it has row, "),
    "missing labels": (
        (*REGRESSION, "--labels", "labels.csv"),
        r"labels.csv must have every row that is asked; \d+ of \d+ are missing, the first of them \d+ .*",
    ),
    "fit is read": (
        (*REGRESSION, "--labels", "labels.csv", "--fit", "labels.csv"),
        "--fit must be another file than labels.csv, which is an input.",
    ),
    "fit over the selection": (
        (*REGRESSION, "--labels", "labels.csv", "--out", "x.csv", "--fit", "x.csv"),
        "--fit must be another file than --out; both are x.csv.",
    ),
    "negative ridge": (
        (*REGRESSION, "--labels", "labels.csv", "--ridge", -1),
        "--ridge must be a finite number of at least 0; got -1.0.",
    ),
    "paper and score": (
        (*REGRESSION, "--paper", 1, "--score", "Distance"),
        "--paper sets the score and the design; leave out --score and --design.",
    ),
    "a mixture in select": (
        (*SELECT, "--score", "LeverageMixture"),
        "--score LeverageMixture.* needs leverage scores, which only a regression has; use another score.",
    ),
    "estimate of nothing": (("estimate", "none.parquet", "--values", "losses.csv"), "There is no file none.parquet."),
    "estimate of a clustering": (
        ("estimate", "made.npz", "--values", "losses.csv"),
        "made.npz must be a selection; it is a clustering.",
    ),
    "estimate of a plain table": (
        ("estimate", "rows.parquet", "--values", "losses.csv"),
        r"rows.parquet is a .parquet file, but not a selection of coresift \(it has no manifest\).",
    ),
    "estimate of a plain CSV": (
        ("estimate", "losses.csv", "--values", "losses.csv"),
        r"losses.csv is a .csv file, but not a selection of coresift \(it has no manifest\).",
    ),
    "values of no kind": (("estimate", "made.parquet", "--values", "rows.npy"), "A file of answers must be .*"),
    "unknown value column": ((*ESTIMATE, "--column", "gain"), "losses.csv must have the column gain; it has row, .*"),
    "values that are none": ((*ESTIMATE, "--column", "kind"), "The file losses.csv cannot be read: .*"),
    "values with gaps": (
        ("estimate", "made.parquet", "--values", "gaps.csv"),
        r"loss in gaps.csv must be finite numbers; row \d+ has nan \(unusable in 40 of 40 rows\).",
    ),
    "too few values": (("estimate", "made.parquet", "--values", "few.csv"), "few.csv must have every row that is "),
    "unknown group": ((*ESTIMATE, "--group", "sort"), "losses.csv must have the column sort; it has row, loss, .*"),
    "no predictions": ((*ESTIMATE, "--estimator", "regression"), "--estimator regression needs --predictions."),
    "no such predictions": ((*ESTIMATE, "--predictions", "none.npy"), "There is no file none.npy."),
    "an unknown method": ((*ESTIMATE, "--estimator", "guess"), "--estimator must be difference or regression; got "),
    "damaged predictions": ((*ESTIMATE, "--predictions", "damaged.npy"), "The file damaged.npy cannot be read: .*"),
    "pickled predictions": ((*ESTIMATE, "--predictions", "pickled.npy"), "The file pickled.npy cannot be read: .*"),
    "predictions of few rows": ((*ESTIMATE, "--predictions", "few.csv"), "few.csv must have every row that is "),
    "predictions of no shape": ((*ESTIMATE, "--predictions", "rows.npy"), "--predictions must be finite numbers"),
    "a bound below a loss": ((*CERTIFY, "--upper", 0.01), "--upper must be at least the largest observed loss, .*"),
    "no constant": ((*CERTIFY, "--clusters", "made.npz"), "--holder must say which Λ to use: .*"),
    "a constant alone": ((*CERTIFY, "--holder", 1), "--holder needs the clustering too, .*"),
    "a number of clusters": ((*CERTIFY, "--clusters", 4), "--clusters must be a .npz file that cluster wrote; got 4."),
    "another clustering": (
        (*CERTIFY, "--clusters", "other.npz", "--holder", 1),
        "The clustering is not the one that the selection was made with.",
    ),
    "certify a clustering": (
        ("certify", "made.npz", "--losses", "losses.csv"),
        "made.npz must be a selection; it is a clustering.",
    ),
    "confidence of 95": ((*ESTIMATE, "--confidence", 95), "--confidence must be a number between 0 and 1; got 95.0."),
}  # fmt: skip


@pytest.fixture(scope="module")
def traps(tmp_path_factory):
    """Write, once, what commands must not fall for."""
    data = write_data(tmp_path_factory.mktemp("traps"))
    spoiled = ROWS.copy()
    spoiled[7, 2] = np.nan
    np.save(data / "nan.npy", spoiled)
    np.save(data / "pickled.npy", np.array([{"a": 1}], object), allow_pickle=True)
    (data / "damaged.npy").write_bytes((data / "rows.npy").read_bytes()[:1000])
    (data / "shards").mkdir()
    shutil.copy(data / "rows.npy", data / "shards")
    cs.save(cs.select(ROWS, LOSSES, BUDGET), data / "made.parquet")
    cs.save(cs.cluster(ROWS, 4), data / "made.npz")
    cs.save(cs.cluster(ROWS[:50], 4), data / "other.npz")
    (data / "damaged.npz").write_bytes((data / "made.npz").read_bytes()[:-100])
    ids = np.arange(N)
    pa.csv.write_csv(pa.table({"row": ids, "loss": np.full(N, -1.0)}), data / "negative.csv")
    pa.csv.write_csv(pa.table({"row": ids[:2], "loss": LOSSES[:2]}), data / "few.csv")
    pa.csv.write_csv(pa.table({"row": ids, "loss": pa.array([None] * N, pa.float64())}), data / "gaps.csv")
    pa.csv.write_csv(pa.table({"row": ids}), data / "ids.csv")
    pa.csv.write_csv(pa.table({"row": ids[:2], "label": -LOSSES[:2]}), data / "labels.csv")
    pa.csv.write_csv(pa.table({"loss": LOSSES}), data / "bare.csv")
    (data / "lines.txt").write_text("3\n")
    (data / "words.txt").write_text("three\n")
    (data / "beyond.txt").write_text("400\n")
    (data / "folder.csv").mkdir()
    return data


def snapshot(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSALS)
def test_bad_input_is_one_sentence_and_leaves_every_file_as_it_was(run, traps, case, monkeypatch):
    monkeypatch.chdir(traps)
    words, sentence = REFUSALS[case]
    before = snapshot(traps)
    said = refused(run(*words))
    assert re.fullmatch(sentence, said) or said.startswith(sentence), said
    assert snapshot(traps) == before


def test_out_is_checked_before_the_work_begins(run, data, monkeypatch):
    monkeypatch.setattr(cs, "select", lambda *_, **__: pytest.fail("the work has begun"))
    assert "no folder" in refused(run(*SELECT, "--out", "no/x.csv"))


@pytest.mark.slow
def test_a_folder_that_may_not_be_written_in(data):
    (data / "closed").mkdir(mode=0o500)
    command = [COMMAND, *map(str, SELECT), "--out", "closed/x.csv"]
    if os.geteuid() == 0:  # root may write everywhere, unless it gives that right away
        rights = "-dac_override,-dac_read_search"
        command = ["setpriv", "--bounding-set", rights, "--inh-caps", rights, *command]
    assert "permission to write" in refused(process(command, data))


@pytest.mark.slow
def test_a_full_disk_is_one_sentence_and_leaves_the_old_file(data):
    limited = f"ulimit -f 1; exec {COMMAND} select rows.npy --budget 400 --out picked.csv"
    (data / "picked.csv").write_text("old")
    before = snapshot(data)
    assert refused(process(["bash", "-c", limited], data)) == "picked.csv cannot be written: File too large."
    assert snapshot(data) == before


def test_parse_part_refuses_in_the_library_too():
    with pytest.raises(InputError, match=r"^--design must be one of "):
        parse_part("design", "__import__('os')")


# Whatever the surroundings


DIAGNOSE = ("diagnose", "rows.npy", "--losses", "losses.csv", "--budget", BUDGET, "--holder", 0.2)


def surrounded(words, folder, **environment):
    words = [COMMAND, *map(str, words)]
    environment = {**os.environ, **environment}
    done = subprocess.run(words, check=False, cwd=folder, capture_output=True, timeout=60, env=environment)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoding", "words"), [("latin-1", DIAGNOSE), ("ascii", (*DIAGNOSE, "--json")), ("cp1252", ("select", "--help"))]
)
def test_an_output_that_has_few_characters_gets_the_others_escaped(data, encoding, words):
    status, out, err = surrounded(words, data, PYTHONIOENCODING=encoding)
    assert (status, err) == (0, b"")
    text = out.decode(encoding)
    if "--json" in words:
        assert json.loads(text)["verdict"]
    else:
        assert "\\u039b" in text  # a Λ


@pytest.mark.slow
def test_a_closed_output_changes_nothing(data):
    script = f"exec {COMMAND} select rows.npy --budget 20 --out closed.parquet >&-"
    done = subprocess.run(["bash", "-c", script], check=False, cwd=data, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert cs.load(data / "closed.parquet") == cs.select(ROWS, budget=20)


@pytest.mark.slow
def test_an_output_that_is_full_is_one_sentence(data):
    script = f"exec {COMMAND} select rows.npy --budget 20 > /dev/full"
    done = subprocess.run(["bash", "-c", script], check=False, cwd=data, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert re.fullmatch(r"Error: [^\n]*No space left on device[^\n]*\n", done.stderr), done.stderr


@pytest.mark.slow
def test_warnings_that_are_to_be_errors_are_still_warnings(data):
    words = ("cluster", "rows.npy", "-k", 2 * N)
    # Of ours alone: what another library warns of while it is imported is not ours to hide.
    status, _, err = surrounded(words, data, PYTHONWARNINGS="error::UserWarning")
    assert status == 0
    assert err.decode().startswith("Warning: Asked for 800 clusters")


@pytest.mark.slow
def test_no_terminal_command_of_the_data_reaches_the_terminal(run, data):
    evil = "\x1b]0;owned\x07 \x9b31m \u202eok\nError"
    _write(
        "rows.parquet", {"id": [f"{evil}{row}" for row in range(N)], evil: ROWS[:, 0].tolist(), "y": [1.0, 2.0] * 200}
    )
    _write("losses.parquet", {"id": [f"{evil}{row}" for row in range(N)], "loss": [1.0] * N, "kind": [evil, "b"] * 200})
    outcomes = [run("select", "rows.parquet", "--budget", 20, *more) for more in ((), ("--json",), ("--column", evil))]
    outcomes += [
        run("estimate", "picked.parquet", "--values", "losses.parquet", "--group", "kind", *more)
        for more in ((), ("--json",), ("--column", evil))
    ]
    _write("bad.parquet", {"id": [f"{evil}{row}" for row in range(N)], "loss": [-1.0] * N})
    outcomes.append(run("select", "rows.parquet", "--budget", 20, "--losses", "bad.parquet"))
    shown = "".join(outcome.out + outcome.err for outcome in outcomes)
    assert "owned" in shown
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown)
    assert not re.search(r"^Error\d", shown, re.MULTILINE)


COMPARISON = ("compare-methods", "rows.npy", "--losses", "losses.csv", "--budget", 20, "--seeds", 1)


@pytest.mark.slow
def test_no_file_of_the_current_folder_is_run(data):
    for module in ("json", "numpy", "scipy", "pickle", "csv", "matplotlib"):
        (data / f"{module}.py").write_text("open('PWNED', 'w').close()\nraise ImportError\n")
    words = (*COMPARISON, "--method", "uniform")
    status, _, err = surrounded(words, data)
    assert status == 0, err
    assert not (data / "PWNED").exists()


@pytest.mark.slow
def test_a_function_that_is_named_is_found_in_the_current_folder_but_shadows_nothing(data):
    (data / "mine.py").write_text(
        "import coresift as cs\n"
        "def half(rows, losses, budget, seed):\n"
        "    return cs.select(rows, losses, budget, seed)\n"
    )
    (data / "json.py").write_text("open('PWNED', 'w').close()\nraise ImportError\n")
    methods = ("--method", "mine:half", "--method", "uniform")
    words = (*COMPARISON, *methods, "--no-plot", "--json")
    status, out, err = surrounded(words, data)
    assert status == 0, err
    assert json.loads(out)["methods"] == ["mine:half", "uniform"]
    assert not (data / "PWNED").exists()


@pytest.mark.slow
def test_a_link_in_the_folder_of_a_comparison_is_not_written_through(run, data):
    Path("comparison").mkdir()
    Path("precious.npy").write_text("precious")
    for name in (".losses.npy", ".rows.npy"):
        Path("comparison", name).symlink_to(Path("precious.npy").absolute())
    words = (
        "--losses",
        "losses.csv",
        "--budget",
        20,
        "--seeds",
        1,
        "--method",
        "uniform",
        "--standardize",
        "--no-plot",
    )
    succeeded(run("compare-methods", "rows.npy", *words))
    assert Path("precious.npy").read_text() == "precious"


def test_a_key_in_an_address_that_is_taken_for_a_path_is_not_shown(run):
    sentence = refused(run("status", "s3://KEY:SECRET@bucket/run.state"))
    assert "SECRET" not in sentence
    assert "bucket" in sentence
