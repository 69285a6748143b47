"""The same on a cluster of three nodes: the same bytes, whoever dies, and nothing that stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import refused, succeeded
from nodes import MARK, Nodes

import coresift as cs
from coresift import columns, planning, scratch
from coresift.baselines import METHODS
from coresift.engine import Fold
from coresift.progress import Progress
from coresift.remote.blocks import units_per_task
from coresift.rows import base

if not Path("/proc/self/environ").exists():
    pytest.skip("needs /proc to see that no process is left", allow_module_level=True)
if find_spec("ray") is None:  # which is not imported here: only one of several workers needs it
    pytest.skip("needs the extra ray", allow_module_level=True)

LARGE, WIDTH = 60_000, 64


@pytest.fixture(scope="module")
def nodes():
    cluster = Nodes()
    try:
        yield cluster
    finally:
        left = cluster.end()
    assert left == []


@pytest.fixture(scope="module")
def engine(nodes):
    return cs.engines.Ray(nodes.address, threads=2)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Rows as .npy shards and as Parquet files, whose boundaries are not those of blocks."""
    folder = tmp_path_factory.mktemp("rows")
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((LARGE, WIDTH), np.float32)
    rows += 2 * rng.standard_normal((60, WIDTH), np.float32)[rng.integers(60, size=LARGE)]
    rows = rows.astype(np.float16)
    for name in ("npy", "parquet"):
        (folder / name).mkdir()
    for number, part in enumerate(np.split(rows, [18_600, 18_601, 46_666])):
        np.save(folder / "npy" / f"{number}.npy", part)
        lists = pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), WIDTH)
        pq.write_table(pa.table({"e": lists}), folder / "parquet" / f"{number}.parquet", row_group_size=5_400)
    return folder


def short(d):
    """Return so few rows for a block that 60,000 are as many blocks as a million rows are otherwise."""
    return 1_024


def loss(ids):
    return np.abs(np.sin(ids.astype(np.float64)))


def small_rows(n=3_000, d=32):
    rng = np.random.default_rng(2)
    return (rng.normal(size=(9, d))[rng.integers(9, size=n)] + rng.normal(size=(n, d))).astype(np.float32)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(base, "block_length", lambda d: 256)


@pytest.fixture
def many_blocks(monkeypatch):
    monkeypatch.setattr(base, "block_length", short)


# ------------------------------------------------------------------ the same bytes


@pytest.fixture(scope="module")
def expected(files, tmp_path_factory):
    """What threads of this process select, by kind of file: the same, but for the name of a table's column."""
    folder = tmp_path_factory.mktemp("expected")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "block_length", short)
        picked = cs.select(files / "npy", loss, 900, seed=4, engine=cs.engines.Local(2))
    named = replace(picked, provenance=replace(picked.provenance, columns=("e",)))
    picks = {"npy": picked, "parquet": named}
    return {kind: cs.save(pick, folder / f"{kind}.parquet").read_bytes() for kind, pick in picks.items()}


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_rows_in_shards_give_the_same_bytes_as_threads(kind, files, engine, expected, many_blocks, tmp_path):
    picked = cs.select(files / kind, loss, 900, seed=4, engine=engine)
    assert cs.save(picked, tmp_path / "picked.parquet").read_bytes() == expected[kind]


def test_arrays_of_the_driver_that_are_in_files_and_cut_into_blocks_change_no_byte(
    files, engine, expected, many_blocks, monkeypatch, tmp_path
):
    monkeypatch.setattr(scratch, "IN_MEMORY", 0)
    in_files = cs.select(files / "npy", loss, 900, seed=4, engine=engine)
    assert cs.save(in_files, tmp_path / "picked.parquet").read_bytes() == expected["npy"]
    monkeypatch.setattr(columns, "BLOCK", 4_096)
    in_blocks, of_threads = (
        cs.select(files / "npy", loss, 900, seed=4, engine=one) for one in (engine, cs.engines.Local(2))
    )
    assert in_blocks == of_threads
    np.testing.assert_array_equal(in_blocks.ids, in_files.ids)
    np.testing.assert_allclose(in_blocks.weights, in_files.weights, rtol=1e-9)


class Pause(Progress):
    """Stops the driver once so many rows have come back, until it is told to go on."""

    def __init__(self, after):
        self.left, self.counting = after, False
        self.reached, self.go_on = Event(), Event()

    def start(self, stage, total):
        self.counting = total == LARGE

    def advance(self, amount):
        self.left -= amount * self.counting
        if self.left <= 0 and not self.reached.is_set():
            self.reached.set()
            assert self.go_on.wait(timeout=300)


def test_nodes_that_are_killed_change_nothing_and_nobody_is_asked_twice(
    files, engine, nodes, expected, many_blocks, tmp_path
):
    """Three times: while blocks are under way, all processes of a node get SIGKILL, and another takes its place."""
    rng, asked = np.random.default_rng(7), []
    with engine.open(Progress()):
        pass  # connected by this thread

    def losses(ids):
        asked.extend(ids.tolist())
        return loss(ids)

    def select(kind, journal, progress):
        oracle = cs.Oracle(losses, journal=journal, batch=16)
        return cs.select(files / kind, oracle, 900, seed=4, engine=engine, progress=progress)

    for turn, kind in enumerate(("npy", "parquet", "npy")):
        asked.clear()
        pause = Pause(after=rng.integers(1, 2 * LARGE))
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(select, kind, tmp_path / f"{turn}.jsonl", pause)
            try:
                assert pause.reached.wait(timeout=300)
                assert not running.done()
                assert nodes.kill(nodes.others[0]) >= 1
            finally:
                pause.go_on.set()
            nodes.add()
            picked = running.result(timeout=300)
        assert cs.save(picked, tmp_path / "picked.parquet").read_bytes() == expected[kind]
        assert len(asked) == len(set(asked)) == picked.ledger.asked
    # A run that finds the last journal asks nobody.
    asked.clear()
    again = select("npy", tmp_path / "2.jsonl", Progress())
    assert cs.save(again, tmp_path / "picked.parquet").read_bytes() == expected["npy"]
    assert asked == []


@pytest.mark.parametrize("form", ["array", "table", "files"])
def test_many_centers_are_found_in_the_same_way(form, engine, small_blocks, tmp_path):
    """Centers as whole numbers, sent to the nodes, and folded sums."""
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal((80_000, 32)) * np.linspace(2, 0.2, 32) ** 2).astype(np.float32)
    source, options, path = rows, {"k": 260}, "quantized"
    if form == "table":
        source = pa.table({"e": pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 32)})
        options, path = {"k": 100, "normalize": True}, "exact"
    if form == "files":
        np.save(tmp_path / "0.npy", rows[:12_345])
        np.save(tmp_path / "1.npy", rows[12_345:])
        source, options = tmp_path, {"k": 260, "z": 1.5}
    found = [cs.cluster(source, engine=one, **options) for one in (cs.engines.Local(2), engine)]
    assert found[0] == found[1]
    assert found[0].search.startswith(path)


def test_classes_are_clustered_in_the_same_way(engine, small_blocks, monkeypatch):
    from coresift.clustering import strata

    monkeypatch.setattr(strata, "HELD", 20_000)  # some classes are read as a part of all rows, some are held
    rows, labels = small_rows(), np.random.default_rng(0).choice(4, 3_000, p=[0.6, 0.38, 0.01, 0.01])
    found = [cs.cluster(rows, 40, strata=labels, normalize=True, engine=one) for one in (cs.engines.Local(2), engine)]
    assert found[0] == found[1]


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_baseline_selects_the_same(name, engine, small_blocks, tmp_path):
    np.save(tmp_path / "rows.npy", small_rows(1_500))
    rng = np.random.default_rng(5)
    options = {
        "kernel-herding": {"reference": 300},
        "length-matched": {"lengths": rng.integers(3, 90, size=1_500)},
    }.get(name, {})
    if name in ("badge", "entropy", "least-confidence", "margin"):
        options = {"probabilities": rng.dirichlet(np.ones(4), size=1_500)}
    source = tmp_path / "rows.npy"
    picked = [METHODS[name](source, 20, exclude=[3], engine=one, **options) for one in (cs.engines.Local(2), engine)]
    assert picked[0] == picked[1]


def test_rounds_regression_and_diagnosis_are_the_same(engine, small_blocks):
    rows = small_rows()
    for run in (
        lambda one: list(cs.rounds(rows, loss, 60, 40, 3, seed=2, engine=one)),
        lambda one: (
            cs.regression.select(rows, rows[:, 0] * 2, 80, engine=one, score=cs.scores.LeverageMixture()).selection
        ),
        lambda one: cs.diagnose(rows, loss, 200, engine=one),
        lambda one: cs.select(
            rows, loss, 200, score=cs.scores.Sensitivity(holder="free"), pilot=cs.pilots.Centers(), engine=one
        ),
    ):
        assert run(cs.engines.Local(2)) == run(engine)


def test_random_rows_of_active_learning_are_the_same(engine, small_blocks):
    rows, coins = small_rows(), np.random.default_rng(1).integers(2, size=3_000)
    local, remote = (
        cs.active_learning(rows, 600, rounds=3, labels=lambda ids: coins[ids], engine=one, progress=False)
        for one in (cs.engines.Local(2), engine)
    )
    for run in (local, remote):
        run.tell(ids := run.ask(), coins[ids])
        assert run.random_share > 0
    assert local.complete() == remote.complete()


# ------------------------------------------------------------------ what is sent


def test_a_plan_divides_the_work_among_the_nodes(engine, monkeypatch):
    seen = []
    monkeypatch.setattr(planning, "effort", lambda *_, nodes, **__: seen.append((_[3], nodes)) or planning.NONE)
    cs.plan(small_rows(), 100, engine=engine)
    cs.plan(small_rows(), 100, engine=cs.engines.Local(2))
    assert seen == [(2, 3), (2, 0)]


def test_rows_in_memory_and_centers_are_sent_once(engine, small_blocks, monkeypatch):
    import ray

    sent, put = [], ray.put
    monkeypatch.setattr(ray, "put", lambda value: sent.append(type(value).__name__) or put(value))
    rows = cs.open_rows(small_rows())
    with engine.open(Progress()) as workers:
        for view in (rows, rows.normalized(), rows.subset(np.arange(2_000)), rows):
            assert len(list(workers.map(view, lambda start, block: start))) == -(-view.n // 256)
    assert sent == ["ArrayRows", "_Job", "_Job", "_Job", "_Job"]


def test_results_come_in_order_with_the_rows_part_of_other_arrays(engine, small_blocks):
    rows, numbers = small_rows(), np.arange(3_000)

    def look(start, block, own):
        time.sleep(0.02 if start % 1024 == 0 else 0)
        return start, float(block.sum()), own

    with engine.open(Progress()) as workers:
        found = list(workers.map(cs.open_rows(rows), look, beside=[numbers]))
    assert [start for start, _, _ in found] == list(range(0, 3_000, 256))
    for start, total, own in found:
        assert total == float(rows[start : start + 256].sum())
        np.testing.assert_array_equal(own, numbers[start : start + 256])


def test_few_tasks_are_in_flight(engine, small_blocks, tmp_path):
    rows, notes = cs.open_rows(np.zeros((64 * 256, 2), np.float32)), tmp_path / "notes"
    notes.mkdir()

    def note(start, block):
        (notes / str(start)).touch()
        return start

    with engine.open(Progress()) as workers:
        results = workers.map(rows, note)
        assert next(results) == 0
        time.sleep(1.0)
        begun = len(list(notes.iterdir()))
        assert len(list(results)) == 63
    assert 1 <= begun < 50
    assert len(list(notes.iterdir())) == 64


def test_sums_are_folded_in_a_fixed_shape(engine, small_blocks):
    """Their twin: sums of 4 blocks, sums of 16 of those, and the order of the rest."""
    rows = cs.open_rows(np.random.default_rng(0).normal(size=(150 * 256 - 9, 3)).astype(np.float32))
    blocks = [block().sum(axis=0, dtype=np.float32) for _, block in rows.blocks()]

    def add(parts):
        total = np.zeros(3, np.float32)
        for part in parts:
            total = total + part
        return total

    once = [add(blocks[start : start + 4]) for start in range(0, len(blocks), 4)]
    twin = [add(once[start : start + 16]) for start in range(0, len(once), 16)]
    for one in (cs.engines.Local(1), cs.engines.Local(3), engine):
        with one.open(Progress()) as workers:
            found = workers.map(rows, lambda _, block: block.sum(axis=0, dtype=np.float32), fold=Fold(add, 4))
            np.testing.assert_array_equal(list(found), twin)


@pytest.mark.parametrize(
    ("n", "at_once", "unit", "workers", "expected"),
    [
        (3_000, 1, 1, 1, 3),  # 12 blocks, 4 tasks a worker
        (3_000, 1, 1, 100, 1),
        (3_000_000, 1, 1, 2, 32),
        (3_000_000, 100_000, 1, 2, 391),  # as many blocks as must be read at once
        (3_000_000, 1, 32, 2, 1),
        (3_000_000, 100_000, 32, 2, 12),
    ],
)
def test_tasks_are_large_enough_to_pay_and_small_enough_to_share(n, at_once, unit, workers, expected):
    rows = SimpleNamespace(n=n, block_rows=256, read_at_once=at_once)
    assert units_per_task(rows, unit, workers) == expected


# ------------------------------------------------------------------ faults


def test_a_file_that_a_worker_cannot_read_is_named_with_the_node(engine, tmp_path, small_blocks):
    for number in range(2):
        np.save(tmp_path / f"{number}.npy", small_rows(1_000))
    rows = cs.open_rows(tmp_path)
    (tmp_path / "1.npy").unlink()
    sentence = r"^Node 127\.0\.0\.1 \(\w{8}\) cannot read its rows: .*1\.npy.*No such file"
    with engine.open(Progress()) as workers:
        for read in (
            lambda: list(workers.map(rows, lambda start, block: start)),
            lambda: list(workers.pick(rows, [np.array([5, 1_500])], lambda some: some)),
        ):
            with pytest.raises(cs.CoresiftError, match=sentence):
                read()


def test_an_error_in_a_block_comes_out_as_it_is_and_the_workers_go_on(engine, small_blocks):
    rows = cs.open_rows(small_rows())

    def fails(start, block):
        if start == 512:
            raise ZeroDivisionError("block 2")
        return start

    with engine.open(Progress()) as workers:
        taken = []
        with pytest.raises(ZeroDivisionError, match="block 2"):
            taken.extend(workers.map(rows, fails))
        assert taken in ([], [0], [0, 256])
        assert len(list(workers.map(rows, lambda start, block: start))) == 12


def test_a_row_that_is_no_number_is_named_as_ever(engine, small_blocks):
    rows = small_rows()
    rows[2_345, 6] = np.nan
    for one in (cs.engines.Local(1), engine):
        with pytest.raises(cs.InputError, match="row 2345 has NaN at position 6"):
            cs.cluster(rows, 5, engine=one)


def test_another_cluster_cannot_be_had_at_the_same_time(engine):
    with engine.open(Progress()), pytest.raises(cs.InputError, match="already connected to"):
        cs.cluster(small_rows(), 3, engine=cs.engines.Ray("127.0.0.1:1"))


def test_a_driver_that_was_killed_goes_on_from_its_journal(nodes, tmp_path):
    np.save(tmp_path / "rows.npy", small_rows(50_000, 64))
    code = f"""if True:
        import numpy as np, time, coresift as cs
        def losses(ids):
            with open("asked", "a") as file:
                file.write("".join(f"{{row}}\\n" for row in ids))
            time.sleep(0.3)
            return np.abs(np.sin(ids.astype(float)))
        oracle = cs.Oracle(losses, journal="journal.jsonl", batch=8)
        cs.save(cs.select("rows.npy", oracle, 400, engine=cs.engines.Ray({nodes.address!r})), "picked.parquet")
    """
    run = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    try:
        late = time.monotonic() + 60
        while run.poll() is None and time.monotonic() < late:
            if (tmp_path / "journal.jsonl").exists() and len((tmp_path / "journal.jsonl").read_text().split("\n")) > 4:
                break
            time.sleep(0.02)
        run.send_signal(signal.SIGKILL)
    finally:
        run.kill()
        run.wait()
    import json

    lines = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()[1:]]
    safe = [row for line in lines for row in line["ids"]]
    assert safe
    (tmp_path / "asked").unlink()
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert not set(safe) & set(map(int, (tmp_path / "asked").read_text().split()))
    picked = cs.select(tmp_path / "rows.npy", loss, 400)
    assert cs.load(tmp_path / "picked.parquet") == picked


def test_a_finished_clustering_is_kept_for_the_next_run(nodes, tmp_path, small_blocks):
    rows, keeping = small_rows(), cs.engines.Ray(nodes.address, keep=tmp_path / "kept")

    def stops(ids):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cs.select(rows, stops, 200, seed=3, engine=keeping)
    (path,) = (tmp_path / "kept").iterdir()
    cut = path.stat().st_mtime_ns
    assert cs.select(rows, loss, 200, seed=3, engine=keeping) == cs.select(rows, loss, 200, seed=3)
    assert path.stat().st_mtime_ns == cut
    cs.select(rows, loss, 200, seed=4, engine=keeping)
    cs.select(rows, loss, 200, seed=3, strata=np.arange(3_000) % 2, engine=keeping)
    assert len(list((tmp_path / "kept").iterdir())) == 3


def test_control_c_ends_a_run_promptly_and_the_cluster_is_free_again(nodes, engine, tmp_path):
    code = f"""if True:
        import numpy as np, signal, time, coresift as cs
        from pathlib import Path
        from coresift.progress import Progress
        here = Path({str(tmp_path / "begun")!r})
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background begins without
        def slow(start, block):
            (here / str(start)).touch()
            time.sleep(0.5)
            return start
        rows = cs.open_rows(np.zeros((64 * 32768, 2), np.float32))
        with cs.engines.Ray({nodes.address!r}).open(Progress()) as workers:
            for start in workers.map(rows, slow):
                print("begun", flush=True)
    """
    (tmp_path / "begun").mkdir()
    run = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        assert run.stdout.readline() == "begun\n"
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=30)
    finally:
        run.kill()
    assert "KeyboardInterrupt" in err
    assert run.returncode != 0
    with engine.open(Progress()) as workers:
        list(workers.map(cs.open_rows(np.zeros((3 * 32768, 2), np.float32)), lambda start, block: start))
    # Nobody had to wait for the rest of the run.
    assert len(list((tmp_path / "begun").iterdir())) < 64


# ------------------------------------------------------------------ functions in actors


def test_actors_answer_in_order_and_make_what_they_need_once(nodes, tmp_path):
    def make():
        (tmp_path / f"{os.getpid()}").touch()
        return lambda ids: ids.astype(float) / 10

    with cs.engines.Actors(make, 2, at_once=5, cpus=0.5, address=nodes.address) as actors:
        for count in (0, 1, 103):
            np.testing.assert_array_equal(actors(np.arange(count)), np.arange(count) / 10)
        assert [found.size for found in actors.map(np.arange(size) for size in range(40))] == list(range(40))
    assert len(list(tmp_path.iterdir())) == 2


def test_losses_from_actors_are_journalled_here_and_a_dead_actor_is_replaced(nodes, tmp_path):
    rows = small_rows()

    def make():
        def losses(ids):
            if not (tmp_path / "died").exists():
                (tmp_path / "died").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return np.abs(np.sin(ids.astype(np.float64)))

        return losses

    expected = cs.select(rows, loss, 200)
    with cs.engines.Actors(make, 2, at_once=4, cpus=0.5, address=nodes.address) as actors:
        oracle = cs.Oracle(actors, journal=tmp_path / "journal.jsonl", batch=16)
        assert cs.select(rows, oracle, 200) == expected
    assert (tmp_path / "died").exists()
    assert oracle.answered == expected.ledger.asked
    again = cs.Oracle(lambda ids: pytest.fail("all is known"), journal=tmp_path / "journal.jsonl")
    assert cs.select(rows, again, 200) == expected


def test_a_fault_in_an_actor_is_told_as_any_other(nodes):
    def make():
        raise RuntimeError("no such model")

    with (
        cs.engines.Actors(make, 1, cpus=0.5, address=nodes.address) as actors,
        pytest.raises(cs.checks.AnswerError, match=r"failed 3 times on 40 rows.*RuntimeError: no such model"),
    ):
        cs.select(small_rows(), actors, 200)


def test_what_actors_take():
    with pytest.raises(cs.InputError, match="make must be a callable that returns the function to ask; got int"):
        cs.engines.Actors(3, 1)
    with pytest.raises(cs.InputError, match="count must be a whole number of at least 1; got 0"):
        cs.engines.Actors(small_rows, 0)


def test_texts_are_embedded_by_actors(nodes, run, capsys, tmp_path):
    pytest.importorskip("torch", reason="needs the extra models")
    pytest.importorskip("transformers", reason="needs the extra models")
    from tiny_models import sentences, tiny_bert, words_tokenizer

    from coresift import models

    folder, texts = tmp_path / "encoder", sentences(150)
    tiny_bert().bert.save_pretrained(folder)
    words_tokenizer(pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]").save_pretrained(folder)
    pq.write_table(pa.table({"id": np.arange(150) + 7, "en": texts}), tmp_path / "corpus.parquet")
    words = ("embed", "corpus.parquet", "--text", "en", "--model", "encoder", "--batch", "16", "--device", "cpu")
    capsys.readouterr()  # what was said while the model was written
    succeeded(run(*words, "--engine", "ray", "--address", nodes.address))
    rows = cs.open_rows(tmp_path / "embeddings")
    twin = models.embed(texts, folder, batch=16, device="cpu")
    np.testing.assert_allclose(rows.take(np.arange(150)), twin.take(np.arange(150)), atol=2e-3)
    assert rows.names([149]) == [156]


# ------------------------------------------------------------------ the command line, and without the extra


def coresift(*words, cwd, **environment):
    command = [sys.executable, "-m", "coresift", *map(str, words)]
    return subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def test_the_command_line_writes_the_same_file(nodes, run, tmp_path):
    np.save(tmp_path / "rows.npy", small_rows(70_000, 64))
    flags = ("--engine", "ray", "--address", nodes.address)
    words = ("select", "rows.npy", "--budget", "100", "--out")
    done = coresift(*words, "ray.parquet", *flags, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    succeeded(run(*words, "local.parquet"))
    assert (tmp_path / "ray.parquet").read_bytes() == (tmp_path / "local.parquet").read_bytes()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--engine", "dask"), "--engine must be local or ray; got dask."),
        (("--address", "10.0.0.1:1"), "--address is the address of a cluster; it needs --engine ray."),
    ],
)
def test_flags_that_do_not_fit(words, sentence, run, tmp_path):
    np.save(tmp_path / "rows.npy", small_rows())
    assert refused(run("select", "rows.npy", "--budget", "10", *words)) == sentence


def test_without_the_extra_the_command_that_installs_it_is_named(tmp_path):
    np.save(tmp_path / "rows.npy", small_rows())
    (tmp_path / "ray.py").write_text("raise ImportError('not installed')\n")
    done = coresift("select", "rows.npy", "--budget", "10", "--engine", "ray", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr == (
        'Error: engine Ray needs the package ray: run pip install ".[ray]" in a clone of coresift.\n'
    )


OWN_CLUSTER = """
import os, subprocess, sys
import numpy as np, ray
import coresift as cs

rows = np.random.default_rng(0).normal(size=(300, 3))
assert cs.select(rows, None, 20, engine=cs.engines.Ray()) == cs.select(rows, None, 20)
address = ray.get_runtime_context().gcs_address
ask = "import sys; from ray._raylet import GcsClient; GcsClient(sys.argv[1]).internal_kv_keys(b'', None, 10)"
plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
for more in ({"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}):
    stranger = subprocess.run([sys.executable, "-c", ask, address], env=plain | more, capture_output=True, text=True)
    assert "AuthenticationError" in stranger.stderr, stranger.stderr
subprocess.run([sys.executable, "-c", ask, address], check=True)
"""


def test_a_cluster_of_our_own_obeys_nobody_else(tmp_path):
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", MARK))}
    run = subprocess.run(
        [sys.executable, "-c", OWN_CLUSTER], cwd=tmp_path, env=plain, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
