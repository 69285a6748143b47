"""The same seed gives the same bytes: whatever threads, file layout, process or interruption the run went through."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from forking import forks

import coresift as cs
from coresift.rows import base
from coresift.rows.base import block_length

COMMAND = str(Path(sys.executable).with_name("coresift"))
# Many blocks, all rows used for the centers; and few rows a center, so that the centers come from a sample.
SHAPES = {"blocks": (9_000, 64), "sample": (20_000, 256)}
BUDGET, CLUSTERS, SEED = 200, 15, 3


def loss_of(ids):
    """A loss that depends on the row's number alone, so that any process can compute it."""
    return np.sqrt(ids % 97) / 3


@pytest.fixture(scope="module", params=SHAPES)
def layouts(request, tmp_path_factory):
    """Write the same float16 values in every form that rows come in, in the order of their names."""
    n, d = SHAPES[request.param]
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "blocks":  # as short as blocks of 1,024 columns are
            patch.setattr(base, "block_length", lambda d, usual=block_length: usual(1024))
        yield write_layouts(n, d, tmp_path_factory.mktemp(request.param))


def write_layouts(n, d, folder):
    rng = np.random.default_rng(0)
    middles = rng.normal(size=(12, d))
    half = (middles[rng.integers(12, size=n)] + 0.5 * rng.normal(size=(n, d))).astype(np.float16)
    rows = half.astype(np.float32)
    np.save(folder / "half.npy", half)
    np.save(folder / "single.npy", rows)
    np.save(folder / "double.npy", rows.astype(np.float64))
    (folder / "shards").mkdir()
    for number, part in enumerate(np.split(rows, [n // 3 + 1, n // 2])):
        np.save(folder / "shards" / f"part{number}.npy", part)
    column = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), d)
    pa.parquet.write_table(pa.table({"embedding": column}), folder / "rows.parquet", row_group_size=1_111)
    return folder, rows


def saved(folder, name, rows, **options):
    """Return the bytes of a saved selection."""
    options = {"losses": loss_of, "budget": BUDGET, "clusters": CLUSTERS, "seed": SEED, **options}
    return cs.save(cs.select(rows, **options), folder / name).read_bytes()


def named(path):
    """Return the bytes of a saved selection of an array if the rows had come from a table's column."""
    picked = cs.load(path)
    made = replace(picked.provenance, columns=("embedding",))
    return cs.save(replace(picked, provenance=made), path.with_name("named.parquet")).read_bytes()


def test_shapes_are_what_the_tests_need():
    n, d = SHAPES["blocks"]
    assert n > 4 * block_length(1024)
    n, d = SHAPES["sample"]
    assert n > 2 * block_length(d)
    plan = cs.plan(np.zeros((n, 1), np.float32), budget=BUDGET, clusters=CLUSTERS, score=cs.scores.Learned())
    assert plan.passes == 3


@pytest.mark.slow
def test_threads_files_types_and_shards_do_not_matter(layouts, tmp_path):
    folder, rows = layouts
    expected = saved(tmp_path, "array.parquet", rows, engine=cs.engines.Local(threads=1))
    assert saved(tmp_path, "two.parquet", rows, engine=cs.engines.Local(threads=2)) == expected
    assert saved(tmp_path, "five.parquet", rows, engine=cs.engines.Local(threads=5)) == expected
    for name in ("half.npy", "single.npy", "double.npy", "shards"):
        assert saved(tmp_path, "file.parquet", folder / name) == expected, name
    assert saved(tmp_path, "table.parquet", folder / "rows.parquet") == named(tmp_path / "array.parquet")
    assert saved(tmp_path, "fortran.parquet", np.asfortranarray(rows)) == expected
    assert saved(tmp_path, "other.parquet", rows, seed=SEED + 1) != expected


@pytest.mark.slow
@pytest.mark.parametrize("z", [1.0, 2.0])
def test_a_clustering_made_before_gives_the_same_bytes(layouts, tmp_path, z):
    folder, rows = layouts
    path = cs.save(cs.cluster(rows, CLUSTERS, z=z, seed=SEED, engine=cs.engines.Local(1)), tmp_path / "one.npz")
    other = cs.save(
        cs.cluster(folder / "shards", CLUSTERS, z=z, seed=SEED, engine=cs.engines.Local(2)), tmp_path / "two.npz"
    )
    assert path.read_bytes() == other.read_bytes()
    for suffix in (".parquet", ".csv", ".jsonl"):
        at_once = saved(tmp_path, f"at_once{suffix}", rows, z=z)
        assert saved(tmp_path, f"reused{suffix}", rows, clusters=cs.load(path)) == at_once


def run(*words, folder):
    done = subprocess.run([COMMAND, *map(str, words)], check=False, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("layouts", ["sample"], indirect=True)
def test_ask_and_select_in_other_processes_give_the_bytes_of_the_callable_route(layouts, tmp_path):
    folder, rows = layouts
    picked = cs.select(rows, loss_of, BUDGET, SEED, clusters=CLUSTERS)
    common = ("--budget", BUDGET, "--seed", SEED)
    run("cluster", folder / "half.npy", "-k", CLUSTERS, "--seed", SEED, "--threads", 1, folder=tmp_path)
    run("start", "select", folder / "shards", *common, "--clusters", "clusters.npz", folder=tmp_path)
    run("ask", "run.state", folder=tmp_path)
    asked = pa.csv.read_csv(tmp_path / "ask.csv")["row"].to_numpy()
    assert asked.size == picked.ledger.asked
    order = np.random.default_rng(0).permutation(asked)
    pa.csv.write_csv(pa.table({"row": order, "loss": loss_of(order)}), tmp_path / "answers.csv")
    words = (*common, "--losses", "answers.csv")
    run("select", folder / "rows.parquet", *words, "--clusters", CLUSTERS, "--out", "end.parquet", folder=tmp_path)
    run("select", folder / "shards", *words, "--clusters", "clusters.npz", "--out", "end.csv", folder=tmp_path)
    table = folder / "rows.parquet"
    of_table = cs.select(table, loss_of, BUDGET, SEED, clusters=CLUSTERS)  # it names the column that was used
    expected = cs.save(of_table, tmp_path / "expected.parquet", table=table)
    assert (tmp_path / "end.parquet").read_bytes() == expected.read_bytes()
    assert (tmp_path / "end.csv").read_bytes() == cs.save(picked, tmp_path / "expected.csv").read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        {
            "pilot": cs.pilots.Centers(keep=False),
            "score": cs.scores.Sensitivity(holder=0.1),
            "design": cs.designs.Independent(),
        },
        {"pilot": cs.pilots.Centers(keep=True), "score": cs.scores.Mixture(), "design": cs.designs.Systematic()},
        {"design": cs.designs.Poisson(), "given": [5, 17], "exclude": [3], "normalize": True, "z": 1.0},
        {"losses": None},
        {"score": cs.scores.Proxy(np.arange(9_000) % 13)},
    ],
    ids=["paper", "kept centers", "given", "no losses", "proxy"],
)
def test_every_kind_of_run_is_repeatable(tmp_path, options):
    rows = np.random.default_rng(1).normal(size=(9_000, 8)).astype(np.float32)
    one = saved(tmp_path, "one.parquet", rows, engine=cs.engines.Local(threads=1), **options)
    assert saved(tmp_path, "two.parquet", rows.copy(), engine=cs.engines.Local(threads=2), **options) == one


@pytest.mark.slow
def test_every_form_of_losses_gives_the_same_bytes(tmp_path):
    rows = np.random.default_rng(1).normal(size=(3_000, 8)).astype(np.float32)
    losses = loss_of(np.arange(3_000))
    pa.parquet.write_table(pa.table({"id": np.arange(3_000), "loss": losses}), tmp_path / "losses.parquet")
    expected = saved(tmp_path, "callable.parquet", rows)
    cached = cs.Oracle(loss_of, batch=7)
    for form in (losses, losses.tolist(), tmp_path / "losses.parquet", cs.Oracle(loss_of, batch=1), cached, cached):
        assert saved(tmp_path, "form.parquet", rows, losses=form) == expected
    for _ in range(2):  # answered by the callable, then by the journal
        oracle = cs.Oracle(loss_of, journal=tmp_path / "journal", batch=5)
        assert saved(tmp_path, "form.parquet", rows, losses=oracle) == expected
    assert oracle.calls == 0


# Kills

RUN = """
import json, os, sys, time
import numpy as np
import pyarrow.csv, pyarrow.parquet  # so that their import is no part of the moments that matter
import coresift as cs

def reached(stage):
    with open("stages", "a") as file:
        file.write(stage + "\\n")

def main(rows, writings):
    side = os.open("asked", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def slow(ids):
        os.write(side, json.dumps(ids.tolist()).encode() + b"\\n")
        time.sleep(0.004)
        return np.sqrt(ids % 97) / 3

    reached("ready")
    oracle = cs.Oracle(slow, journal="journal", batch=2)
    picked = cs.select(rows, oracle, budget=600, clusters=60, seed=3)
    reached("selected")
    for again in range(writings):
        cs.save(picked, "picked.parquet")
        cs.save(picked, "picked.csv")
"""
OUTPUTS = ("picked.parquet", "picked.csv")
# Where the kills strike: most while the run asks, the others while it starts, clusters or writes.
STAGES = ["starting", *["clustering"] * 2, *["asking"] * 4]
LAST_STAGES = [*["writing"] * 2, "clustering"]


class Alone:
    """A process that imports everything by itself, in the place of a fork."""

    def start(self, folder, *words):
        script = f"{RUN}\nmain(*json.loads(sys.argv[1]))"
        self._child = subprocess.Popen([sys.executable, "-c", script, json.dumps(words)], cwd=folder)

    def kill(self):
        self._child.kill()
        return self._child.wait() == -signal.SIGKILL


def journalled(folder):
    """The ids of the whole lines of the journal, read without the code under test."""
    path = folder / "journal"
    lines = path.read_bytes().split(b"\n")[1:-1] if path.exists() else []
    return [row for line in lines for row in json.loads(line)["ids"]]


def batches(folder):
    path = folder / "asked"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def contents(folder):
    return {name: (folder / name).read_bytes() for name in OUTPUTS if (folder / name).exists()}


def watch(folder, expected, seconds):
    """For so long, read the outputs as another program might, again and again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert all(content == expected[name] for name, content in contents(folder).items()), "half-written"


def kill(processes, folder, rows, stage, moments, clustering, most, expected):
    """Start a run and kill it at a random moment of this stage."""
    process = Alone() if stage == "starting" else processes
    (folder / "stages").write_text("")
    process.start(folder, str(rows), 1_000)
    try:
        reach(folder, stage, moments, clustering, most, expected)
    finally:
        assert process.kill()


def reach(folder, stage, moments, clustering, most, expected):
    """Return at a random moment of this stage of the run."""
    if stage == "starting":
        return time.sleep(moments.uniform(0, 0.3))
    wait_for(folder, "ready")
    if stage == "clustering":
        return time.sleep(moments.uniform(0, clustering))
    if stage == "asking":
        goal = len(batches(folder)) + moments.randint(1, most)
        wait(lambda: len(batches(folder)) >= goal)
        return time.sleep(moments.uniform(0, 0.008))
    wait_for(folder, "selected")
    while not (folder / OUTPUTS[0]).exists():
        watch(folder, expected, 0.001)
    return watch(folder, expected, moments.uniform(0, 0.4))


def wait_for(folder, stage):
    wait(lambda: stage in (folder / "stages").read_text().split("\n")[:-1])


def wait(condition):
    late = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < late
        time.sleep(0.001)


@pytest.mark.slow
def test_killed_at_random_moments_a_run_ends_in_the_same_bytes_and_asks_nothing_answered_again(tmp_path):
    rows, calm, killed = tmp_path / "rows.npy", tmp_path / "calm", tmp_path / "killed"
    np.save(rows, np.random.default_rng(0).normal(size=(12_000, 16)).astype(np.float32))
    killed.mkdir()
    with forks(RUN) as processes:
        processes.start(calm, str(rows), 1)
        began = time.monotonic()
        wait(lambda: batches(calm))
        clustering = time.monotonic() - began
        assert processes.wait() == 0
        expected, all_batches = contents(calm), batches(calm)
        assert set(expected) == set(OUTPUTS)

        moments = random.Random(4)
        checkpoints = []
        for stage in (*moments.sample(STAGES, len(STAGES)), *LAST_STAGES):
            kill(processes, killed, rows, stage, moments, clustering, len(all_batches) // 10, expected)
            checkpoints.append((len(batches(killed)), set(journalled(killed))))
            watch(killed, expected, 0.001)
        processes.start(killed, str(rows), 1)
        assert processes.wait() == 0

    assert len(checkpoints) == 10
    assert contents(killed) == expected
    assert (killed / "journal").read_bytes() == (calm / "journal").read_bytes()
    asked = batches(killed)
    for place, safe in checkpoints:
        assert safe.isdisjoint(row for batch in asked[place:] for row in batch)
    # Besides the batch in flight at each kill, nothing was asked twice.
    assert len(asked) <= len(all_batches) + len(checkpoints)
    assert {tuple(batch) for batch in asked} == {tuple(batch) for batch in all_batches}
