"""Reproductions: data come with the right checksum, networks side by side are those trained alone, runs go on."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the libraries are imported: no test waits for a network

import torch
from torch.nn.functional import cross_entropy

from repro import __main__ as command
from repro import (
    data,
    images_causes,
    regression_causes,
    results,
    translation_holder,
)
from repro.images import METHODS, Split, Task
from repro.networks import (
    BATCH,
    RATE,
    TINY,
    Images,
    conv_network,
    dense_network,
    orders,
    train,
    train_alone,
    train_dense,
)
from repro.plans import QUICK
from repro.results import RESULTS, Experiment, Journal, Line, Report, Setting, paired, write_readme, write_report
from repro.seq2seq import Study

torch.set_num_threads(1)
ROOT = Path(__file__).resolve().parent.parent


# Data


@pytest.fixture
def server(tmp_path):
    """A web server of the folder `served`; its list of what was asked for."""
    folder = tmp_path / "served"
    folder.mkdir()
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *words):
            super().__init__(*words, directory=str(folder))

        def log_message(self, *words):
            asked.append(self.path)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{found.server_port}/", asked
        found.shutdown()
        thread.join()


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return gzip.compress(head + array.tobytes())


def serve_mnist(folder, url, monkeypatch, spoil=None):
    rng = np.random.default_rng(0)
    shapes = {"X_train": (6, 28, 28), "y_train": (6,), "X_test": (4, 28, 28), "y_test": (4,)}
    arrays = {part: rng.integers(10, size=shape, dtype=np.uint8) for part, shape in shapes.items()}
    sources = {}
    for part, array in arrays.items():
        content = idx(array)
        (folder / data.PARTS[part]).write_bytes(content)
        sources[part] = data.Download(url + data.PARTS[part], hashlib.md5(content).hexdigest())
    if spoil is not None:
        (folder / data.PARTS[spoil]).write_bytes(idx(arrays[spoil] + 1))
    monkeypatch.setitem(data.SOURCES, "mnist", sources)
    return arrays


def test_a_data_set_is_downloaded_once(server, tmp_path, monkeypatch):
    folder, url, asked = server
    arrays = serve_mnist(folder, url, monkeypatch)
    where = data.Home((tmp_path / "nothing",), tmp_path / "cache")
    for _ in range(2):
        found = data.images("mnist", where)
        for part, array in arrays.items():
            np.testing.assert_array_equal(found[part], array)
    assert len(asked) == 4


def test_a_wrong_checksum_leaves_nothing(server, tmp_path, monkeypatch):
    folder, url, _ = server
    serve_mnist(folder, url, monkeypatch, spoil="y_test")
    where = data.Home((), tmp_path / "cache")
    with pytest.raises(data.DataError, match="must have the checksum"):
        data.images("mnist", where)
    assert where.find("mnist") is None


def test_a_folder_comes_before_the_network(server, tmp_path, monkeypatch):
    folder, url, asked = server
    arrays = serve_mnist(folder, url, monkeypatch)
    (tmp_path / "mine" / "mnist").mkdir(parents=True)
    np.savez(tmp_path / "mine" / "mnist" / "mnist.npz", **{part: array + 1 for part, array in arrays.items()})
    monkeypatch.setenv("CORESIFT_DATA", str(tmp_path / "mine"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = data.images("mnist", data.home())
    np.testing.assert_array_equal(found["y_test"], arrays["y_test"] + 1)
    assert not asked
    assert data.home().cache.is_relative_to(tmp_path / "cache")


def test_the_archive_of_colored_images(server, tmp_path, monkeypatch):
    folder, url, _ = server
    images = np.random.default_rng(1).integers(256, size=(12, 32, 32, 3), dtype=np.uint8)
    labels = np.arange(12, dtype=np.uint8) % 10
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for place, name in enumerate([*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]):
            content = b"".join(
                bytes([labels[row]]) + images[row].transpose(2, 0, 1).tobytes() for row in (2 * place, 2 * place + 1)
            )
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    (folder / "all.tar.gz").write_bytes(packed.getvalue())
    source = data.Download(url + "all.tar.gz", hashlib.md5(packed.getvalue()).hexdigest())
    monkeypatch.setitem(data.SOURCES, "cifar10", {"all": source})
    found = data.images("cifar10", data.Home((), tmp_path / "cache"))
    np.testing.assert_array_equal(np.concatenate([found["X_train"], found["X_test"]]), images)
    np.testing.assert_array_equal(np.concatenate([found["y_train"], found["y_test"]]), labels)


def test_the_archive_of_news_sentences(server, tmp_path, monkeypatch):
    folder, url, _ = server
    sides = {"src.en": '<doc>\n<seg id="1">A &amp; B\tC</seg>\n<seg id="2"> Two </seg>\n</doc>'}
    sides["ref.de"] = '<seg id="1">Ä und „B“</seg> <seg id="2">Zwei</seg>'
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for side, markup in sides.items():
            member = tarfile.TarInfo(f"test-full/newstest2014-deen-{side}.sgm")
            member.size = len(markup.encode())
            archive.addfile(member, io.BytesIO(markup.encode()))
    (folder / "all.tgz").write_bytes(packed.getvalue())
    source = data.Download(url + "all.tgz", hashlib.md5(packed.getvalue()).hexdigest())
    monkeypatch.setitem(data.SOURCES, "newstest2014", {"all": source})
    where = data.Home((), tmp_path / "cache")
    assert data.newstest(where) == (["A & B C", "Two"], ["Ä und „B“", "Zwei"])
    assert data.newstest(where) == (["A & B C", "Two"], ["Ä und „B“", "Zwei"])  # from the cache


def test_the_archive_of_gas_sensors(server, tmp_path):
    folder, url, _ = server
    rng = np.random.default_rng(2)
    features = rng.normal(size=(20, 128)).round(6)
    with zipfile.ZipFile(folder / "gas.zip", "w") as archive:
        for batch in range(10):
            lines = [
                f"1;{10 * row}.0 " + " ".join(f"{i + 1}:{value:.6f}" for i, value in enumerate(features[row]))
                for row in (2 * batch, 2 * batch + 1)
            ]
            archive.writestr(f"Dataset/batch{batch + 1}.dat", "\n".join(lines))
    read = data.read_gas((folder / "gas.zip").read_bytes())
    np.testing.assert_array_equal(read["X"], features.astype(np.float32))
    np.testing.assert_array_equal(read["concentration"], 10 * np.arange(20))
    with pytest.raises(data.DataError, match="is not the gas sensor data"):
        data.download_gas(tmp_path, url + "gas.zip")
    assert not list(tmp_path.glob("*.npz"))
    data.download_gas(tmp_path, url + "gas.zip", data.gas_digest(read))
    assert (tmp_path / "gas_drift.npz").exists()


def test_the_real_gas_data_have_the_known_digest(data_home):
    assert data.gas_digest(data.gas(data.home(data_home))) == data.GAS_DIGEST


def test_what_cannot_be_had_is_told_in_a_sentence(tmp_path, monkeypatch):
    where = data.Home((), tmp_path)
    monkeypatch.setitem(data.SOURCES, "mnist", {"X_train": data.Download("http://127.0.0.1:9/x.gz", "0")})
    with pytest.raises(data.DataError, match=r"cannot be read .* --data-home or CORESIFT_DATA"):
        data.images("mnist", where)
    with pytest.raises(data.DataError, match="cannot be downloaded"):
        data.europarl(where)
    with pytest.raises(data.DataError, match="must be a folder"):
        data.home(tmp_path / "nowhere")


# Networks


def some_images(count=300, d=30, seed=0):
    rng = np.random.default_rng(seed)
    return Images(torch.from_numpy(rng.random((count, d), np.float32)), torch.from_numpy(rng.integers(10, size=count)))


def trained_alone(network, images, ids, seed, epochs):
    """The obvious way: torch's own layers and its plain optimizer, one network at a time."""
    adam = torch.optim.Adam(network.parameters(), lr=RATE, eps=TINY)
    for batch in orders(len(ids), seed, epochs):
        rows = torch.from_numpy(ids[batch])
        adam.zero_grad()
        cross_entropy(network(images.pixels[rows]), images.classes[rows]).backward()
        adam.step()
    return network


def test_networks_side_by_side_are_those_trained_alone():
    images = some_images()
    sets = [np.random.default_rng(seed).permutation(300)[:101] for seed in range(3)]  # the last batch is a short one
    together = train_dense(images, sets, [4, 5, 6], epochs=3)
    for network, ids, seed in zip(together, sets, [4, 5, 6], strict=True):
        alone = trained_alone(dense_network(30, seed), images, ids, seed, epochs=3)
        for one, other in zip(network.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-3)
    assert not torch.equal(together[0][0].weight, together[1][0].weight)


def test_a_convolutional_network_is_trained_as_torch_would():
    rng = np.random.default_rng(3)
    images = Images(torch.from_numpy(rng.random((40, 3, 32, 32), np.float32)), torch.arange(40) % 10)
    ids = np.arange(35)
    (network,) = train(images, [ids], 7, epochs=1)
    alone = trained_alone(conv_network(7), images, ids, 7, epochs=1)
    for one, other in zip(network.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-3)


def test_every_epoch_sees_every_place_once():
    batches = orders(70, 0, epochs=2)
    assert [len(batch) for batch in batches] == [BATCH, BATCH, 6] * 2
    assert sorted(np.concatenate(batches[:3])) == sorted(np.concatenate(batches[3:])) == list(range(70))


def test_weights_begin_within_the_limits_of_keras():
    for layer in (dense_network(784, 0)[0], conv_network(0).convolutions[1]):
        shape, largest = layer.weight.shape, float(layer.weight.detach().abs().max())
        limit = np.sqrt(6 / ((shape[0] + shape[1]) * np.prod(shape[2:])))
        assert 0.99 * limit < largest <= limit
        assert not layer.bias.detach().any()


@pytest.fixture(scope="module")
def digits():
    arrays = {"X": np.random.default_rng(4).integers(256, size=(900, 28, 28), dtype=np.uint8)}
    classes = np.arange(900) % 10
    return Split(Images.of(arrays["X"], classes), Images.of(arrays["X"][:100], classes[:100]))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_selects_the_budget_and_keeps_the_first_rows(digits, method):
    task = Task(digits, 100, 3)
    ids = METHODS[method](task)
    assert len(set(ids.tolist())) == 100
    assert set(task.first_rows.tolist()) <= set(ids.tolist())
    assert len(task.first_rows) == 20


def test_algorithm_1_keeps_its_centers(digits):
    task = Task(digits, 100, 3)
    assert set(task.clustering.centers.tolist()) <= set(METHODS["loss"](task).tolist())
    assert task.clustering.k == 20


def test_a_variant_without_changes_is_the_protocol(digits):
    plain = images_causes.Variant("as the others", "digits", 100)
    other = replace(plain, scored_by=150)
    task, twin, taught = Task(digits, 100, 3), *(images_causes.VariantTask(digits, one, 3) for one in (plain, other))
    for name in images_causes.COMPARED:
        np.testing.assert_array_equal(METHODS[name](twin), METHODS[name](task))
    assert set(METHODS["loss"](taught).tolist()) != set(METHODS["loss"](task).tolist())
    np.testing.assert_array_equal(taught.first_rows, task.first_rows)
    found = images_causes.one_run(digits, plain, 3)
    assert set(found["accuracy"]) == set(images_causes.COMPARED)
    table = images_causes.markdown({("fashion, seen 500", 3): found}, "fashion_mnist")
    assert f"| 1 | {found['first']:.3f} | {found['accuracy']['uniform']:.4f} |" in table
    assert images_causes.markdown({("fashion, seen 500", 3): found}, "cifar10") == ""


def test_mirrored_images_are_the_same_or_turned():
    pixels = torch.rand(8, 3, 8, 8)
    seen = []

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 10)

        def forward(self, images):
            seen.append(images.detach())
            return self.layer(images.mean((2, 3)))

    images = Images(pixels, torch.zeros(8, dtype=torch.int64))
    train_alone(Network(), images, np.arange(8), seed=5, epochs=40, mirrored=True)
    turned = 0
    for batch, order in zip(seen, orders(8, 5, 40), strict=True):
        for image, place in zip(batch, order, strict=True):
            as_it_is, mirrored = torch.equal(image, pixels[place]), torch.equal(image, pixels[place].flip(2))
            assert as_it_is != mirrored
            turned += mirrored
    assert 100 < turned < 220  # of 320; a false alarm in ten billion


# Regression done otherwise


@pytest.mark.parametrize("distinct", [False, True])
def test_both_ways_to_draw_rows_keep_totals_right(distinct):
    rng = np.random.default_rng(10)
    chance = rng.random(50) ** 3
    chance /= chance.sum()
    values, totals = rng.random(50), []
    for _ in range(4_000):
        ids, weights = regression_causes.drawn(chance, 12, rng, distinct=distinct)
        assert len(ids) == 12
        assert not distinct or len(set(ids.tolist())) == 12
        totals.append(weights @ values[ids])
    error = np.std(totals, ddof=1) / np.sqrt(len(totals))
    assert abs(np.mean(totals) - values.sum()) < 4.5 * error  # a false alarm in 150,000


def test_what_was_tried_is_compared_run_by_run():
    def result(share, ours, base):
        return {"variant": "medoids kept", "share": share, "algorithm": ours, "leverage": base}

    noise = [0.0, 0.04, -0.02]
    entries = {
        (16, number): {"results": [result(0.1, 0.70 + step, 0.71 + step), result(0.2, 0.74 + step, 0.75 + step)]}
        for number, step in enumerate(noise)
    }
    gap, error = regression_causes.with_as_many_labels(entries)[16]
    assert gap == pytest.approx(0.70 - 0.75)  # a tenth and the medoids against a fifth
    assert error == pytest.approx(0, abs=1e-12)
    assert regression_causes.medoids_suffice(entries, 0.011)
    assert not regression_causes.medoids_suffice(entries, 0.009)
    assert not regression_causes.medoids_suffice({}, 1.0)
    table = regression_causes.markdown(entries)
    assert "-0.010 ± 0.000 (0.717) | -0.010 ± 0.000 (0.757) |" in table
    late = {(16, regression_causes.RUNS): entries[16, 0]}
    assert regression_causes.parted({**entries, **late}) == (entries, late)


# Runs


def setting(tmp_path, **options):
    return Setting(data.Home((), tmp_path / "cache"), tmp_path / "out", **options)


def test_runs_that_were_kept_are_not_done_again(tmp_path):
    journal, done = Journal(tmp_path / "out" / "runs.jsonl"), []

    def one_run(key):
        done.append(key)
        if key == (2, "b") and len(done) == 3:
            raise KeyboardInterrupt
        return {"value": key[0]}

    keys = [(0, "a"), (1, "b"), (2, "b"), (3, "c")]
    with pytest.raises(KeyboardInterrupt):
        journal.fill(setting(tmp_path), "runs", keys, one_run)
    with journal.path.open("a") as file:
        file.write('{"key": [2, "b"], "val')  # a kill in the middle of a line
    journal.fill(setting(tmp_path), "runs", keys, one_run)
    assert done == [*keys[:3], *keys[2:]]
    assert {key: entry["value"] for key, entry in journal.read().items()} == {key: key[0] for key in keys}


def test_processes_share_the_runs_of_a_study(tmp_path):
    code = (
        "import sys, time; from pathlib import Path\n"
        "from repro import data; from repro.results import Journal, Setting\n"
        "home = Path(sys.argv[1]); setting = Setting(data.Home((), home), home)\n"
        "run = lambda key: time.sleep(0.02) or {'by': sys.argv[2]}\n"
        "(home / sys.argv[2]).touch()\n"
        "while len(list(home.glob('?'))) < 2: time.sleep(0.01)\n"
        "Journal(home / 'runs.jsonl').fill(setting, 'runs', [(i,) for i in range(40)], run)"
    )
    workers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name], cwd=ROOT) for name in "ab"]
    assert [worker.wait() for worker in workers] == [0, 0]
    lines = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert sorted(line["key"] for line in lines) == [[i] for i in range(40)]  # each run was done, and only once
    assert {line["by"] for line in lines} == {"a", "b"}


def test_no_run_begins_when_time_is_over(tmp_path):
    journal = Journal(tmp_path / "runs.jsonl")
    journal.fill(setting(tmp_path, minutes=0.0), "runs", [(0,)], lambda key: pytest.fail("it began"))
    assert journal.read() == {}


def test_paired_differences_have_the_error_of_the_differences():
    noise = np.random.default_rng(5).normal(size=40)
    gap, error = paired(noise + 1 + np.tile([-0.1, 0.1], 20), noise)
    assert gap == pytest.approx(1)
    assert error == pytest.approx(np.std(np.tile([-0.1, 0.1], 20), ddof=1) / np.sqrt(40))


def test_the_readme_has_a_line_for_what_ran_and_says_what_did_not(tmp_path):
    some = setting(tmp_path)
    lines = (Line("a | b", ".5", ".6", 3, "+.1"),)
    report = Report("partly", "x|y +.1", lines, "It held.", ("one.svg",), "Why.")
    experiment = Experiment("one", "Title", "About.", lambda _: None, lambda _: report)
    write_report(some, experiment, experiment.report(some))
    text = write_readme(some, [experiment, replace(experiment, name="two")]).read_text()
    assert '| [`one`](#one) | partly | x\\|y +.1 | [<img src="one.svg" width="160" alt="Title">](one.svg) |' in text
    assert "| [`two`](#two) | not run | No report yet. |  |" in text
    assert "**Verdict: partly.** It held.\n\nWhy.\n\n![one](one.svg)\n\n| case |" in text
    assert "| a \\| b | .5 | .6 | 3 | +.1 |" in text


def test_cells_of_the_first_table_are_short():
    page = (Path(command.__file__).parent / "README.md").read_text()
    table = page.split("## At a glance")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| [")]
    assert len(rows) == len(command.NAMES)
    for _, word, number, plot in rows:
        assert word in ("reproduced", "partly", "not", "open", "not run")
        assert len(number) <= 130
        assert plot.startswith("[<img ") or word == "not run"


# The commands


@pytest.mark.parametrize("name", command.NAMES)
def test_the_quick_version_writes_everything_and_goes_on(name, data_home, tmp_path, capsys, monkeypatch):
    words = [name, "--quick", "--data-home", str(data_home), "--out", str(tmp_path)]
    assert command.main(words) == 0
    shown = capsys.readouterr().out
    assert "README.md" in shown
    for suffix in ("csv", "svg", "png", "json"):
        assert (tmp_path / f"{name}.{suffix}").stat().st_size > 0
    assert f"[`{name}`](#{name})" in (tmp_path / "README.md").read_text()
    runs = {path: path.read_bytes() for path in tmp_path.glob("*.jsonl")}
    assert runs
    monkeypatch.setattr(Journal, "add", lambda *_: pytest.fail("a run was done again"))
    if name == "regression":
        assert command.main(words) == 0  # which writes over all that was written
    command.load(name).run(Setting(data.home(data_home), tmp_path, quick=True))
    assert {path: path.read_bytes() for path in tmp_path.glob("*.jsonl")} == runs


def test_a_run_that_another_study_has_is_the_same_run(data_home, tmp_path, monkeypatch):
    monkeypatch.setattr(translation_holder, "HOLDERS", (QUICK.holder,))
    words = ["translation-holder", "--quick", "--data-home", str(data_home), "--out", str(tmp_path)]
    journal, encoder = Journal(tmp_path / "translation-holder.jsonl"), next(iter(QUICK.encoders))
    assert command.main(words) == 0
    mine = journal.read()[QUICK.holder, 0]["tests"]
    journal.path.unlink()

    study = Study(Setting(data.home(data_home), tmp_path, quick=True), QUICK)
    Journal(tmp_path / "translation.jsonl").add(("sensitivity", encoder, 0), study.one_run("sensitivity", encoder, 0))
    monkeypatch.setattr(Study, "one_run", lambda *_: pytest.fail("it was done again"))
    assert command.main(words) == 0
    assert journal.read()[QUICK.holder, 0]["tests"] == mine


def test_the_list_names_every_reproduction(capsys):
    assert command.main(["--list"]) == 0
    shown = capsys.readouterr().out
    assert all(re.search(f"^{name}$", shown, re.MULTILINE) for name in command.NAMES)


def test_bad_words_are_one_sentence(tmp_path, capsys):
    assert command.main(["regression", "--data-home", str(tmp_path / "nowhere"), "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("Error: --data-home must be a folder")
    with pytest.raises(SystemExit):
        command.main(["regression", "--runs", "0"])


@pytest.mark.parametrize("name", command.NAMES)
def test_a_report_without_runs_says_so(name, tmp_path, capsys):
    assert command.main([name, "--report", "--out", str(tmp_path)]) == 2
    assert "There are no runs to report yet" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


# Nothing is claimed of this yet: it has no finished runs.
UNCLAIMED = {"translation-paper"}


def test_everything_is_claimed_that_is_said_to_be():
    assert {path.stem for path in RESULTS.glob("*.json")} == command.NAMES.keys() - UNCLAIMED


@pytest.mark.parametrize("name", sorted(command.NAMES.keys() - UNCLAIMED))
def test_results_in_the_repository_are_what_the_runs_come_to(name, tmp_path):
    kept = RESULTS / f"{name}.json"
    for path in RESULTS.glob("*.jsonl"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    experiment = command.load(name)
    report = experiment.report(replace(setting(tmp_path), out=tmp_path))
    assert json.loads(kept.read_text())["lines"] == [line.__dict__ for line in report.lines]
    assert json.loads(kept.read_text())["verdict"] == report.verdict
    assert (tmp_path / f"{name}.csv").read_text() == (RESULTS / f"{name}.csv").read_text()


def test_the_readme_is_made_from_the_results(tmp_path, monkeypatch):
    folder = tmp_path / "results"
    folder.mkdir()
    for path in RESULTS.glob("*.json"):
        (folder / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(results, "RESULTS", folder)
    made = write_readme(Setting(data.Home((), tmp_path), folder), [command.load(name) for name in command.NAMES])
    assert made.read_text() == (Path(command.__file__).parent / "README.md").read_text()
