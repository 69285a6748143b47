"""Files are whole or not there: killed at any point, with two writers, and with a reader beside a writer."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest

import coresift as cs
from coresift.tables.writing import STALE_SECONDS, open_noted, write_bytes, write_table

SUFFIXES = (".parquet", ".csv", ".jsonl")
ROWS = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
PICKED = cs.select(ROWS, budget=10)

BEGIN = """
import os, signal, sys
import numpy as np
import coresift as cs

rows = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
old, new = cs.select(rows, budget=10, seed=1), cs.select(rows, budget=20, seed=2)
path = sys.argv[1]
cs.save(old, path)
"""

# Every time that Python opens, renames, removes or changes a file is a point to be killed at, and so is every sync.
KILLS = (
    BEGIN
    + """
from coresift.tables import writing

def die_at(last):
    seen = 0
    def step(event, arguments):
        nonlocal seen
        if event == "open" or event.startswith("os."):
            seen += 1
            if seen == last:
                os.kill(os.getpid(), signal.SIGKILL)
    sync = os.fsync
    def synced(descriptor):
        step("os.before", ())
        sync(descriptor)
        step("os.after", ())
    os.fsync = synced
    sys.addaudithook(step)

states, last, killed = [], 1, True
while killed:
    child = os.fork()
    if child == 0:
        die_at(last)
        cs.save(new, path)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status)
    found = cs.load(path)
    assert found in (old, new), last
    states.append(found == new)
    if not killed:
        assert os.WEXITSTATUS(status) == 0
    else:
        cs.save(old, path)
    last += 1
assert states[-1] and not states[0] and len(states) > 6, states
print(len(states), sum(states))
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_kill_at_any_point_leaves_the_old_file_or_the_new(suffix, tmp_path):
    words = [sys.executable, "-c", KILLS, str(tmp_path / f"picked{suffix}")]
    run = subprocess.run(words, check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    names = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".coresift-")}
    assert names == {f"picked{suffix}"}


WRITERS = (
    BEGIN
    + """
writers = []
for value in (old, new):
    child = os.fork()
    if child == 0:
        for _ in range(40):
            cs.save(value, path)
        os._exit(0)
    writers.append(child)
seen = []
while writers:
    found = cs.load(path)
    assert found in (old, new)
    seen.append(found == new)
    done, status = os.waitpid(-1, os.WNOHANG)
    if done:
        assert status == 0
        writers.remove(done)
assert cs.load(path) in (old, new)
print(len(seen), sum(seen))
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_two_writers_and_a_reader_never_see_half_a_file(suffix, tmp_path):
    path = tmp_path / f"picked{suffix}"
    run = subprocess.run([sys.executable, "-c", WRITERS, str(path)], check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_what_killed_runs_left_behind_is_removed_after_some_hours(tmp_path):
    old, young, other = (tmp_path / name for name in (".coresift-00.tmp", ".coresift-01.tmp", "notes.tmp"))
    for path in (old, young, other):
        path.write_bytes(b"x")
    for path in (old, other):
        os.utime(path, (time.time() - STALE_SECONDS - 60,) * 2)
    write_bytes(b"y", tmp_path / "a.html")
    assert {path.name for path in tmp_path.iterdir()} == {young.name, other.name, "a.html"}


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400, 0o666])
def test_a_file_that_is_replaced_keeps_a_stricter_mode(mode, tmp_path):
    path = cs.save(PICKED, tmp_path / "picked.csv")
    before = os.umask(0o022)
    try:
        path.chmod(mode)
        cs.save(PICKED, path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == mode & 0o644


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_note_travels_inside_the_file(suffix, count, tmp_path):
    table = pa.table({"row": np.arange(count), "text": pa.array([None, "", "x"][:count], pa.string())})
    path = tmp_path / f"t{suffix}"
    write_table(table, path, note='{"über": "=1,\\n"}'.encode())
    with open_noted(path) as (note, read):
        assert note == '{"über": "=1,\\n"}'.encode()
        assert read(table.schema).to_pydict() == table.to_pydict()
    write_table(table, path)
    with open_noted(path) as (note, _):
        assert note is None


def test_a_column_with_the_name_of_the_note_keeps_its_values(tmp_path):
    for suffix in SUFFIXES:
        path = cs.save(PICKED, tmp_path / f"picked{suffix}", table={"coresift": [str(row) for row in range(10)]})
        assert cs.load(path) == PICKED
    lines = (tmp_path / "picked.csv").read_text().splitlines()
    assert lines[0].endswith('"table_coresift","coresift"')
    assert lines[2].endswith('"1",')


def test_a_link_to_itself_is_refused(tmp_path):
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    with pytest.raises(cs.CoresiftError, match=r"loop\.csv cannot be written: Too many levels of symbolic links\."):
        cs.save(PICKED, tmp_path / "loop.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["loop.csv"]
