"""Reproductions: data come with the right checksum, networks side by side are those trained alone, runs go on."""

from __future__ import annotations

import copy
import gzip
import hashlib
import http.server
import io
import json
import os
import re
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
    adafactor,
    data,
    finetuning,
    flan_t5,
    images_causes,
    output_layer,
    regression_causes,
    results,
    selecting,
    t5,
    translation_holder,
)
from repro.finetuning import batches_of_like_length
from repro.images import METHODS, Split, Task
from repro.language_model import QUICKER, LanguageStudy
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
from repro.onnx_weights import dequantized, read_graph
from repro.plans import QUICK
from repro.results import RESULTS, Experiment, Journal, Line, Report, Setting, paired, write_readme, write_report
from repro.seq2seq import KeptLosses, KeptSelections, Study
from repro.t5 import load_model

torch.set_num_threads(1)


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
    with pytest.raises(data.DataError, match="has no official source"):
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
    assert set(task.begun.tolist()) <= set(ids.tolist())
    assert len(task.begun) == 20


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
    np.testing.assert_array_equal(taught.begun, task.begun)
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


# Weights from a package


def varint(number):
    """Seven bits per byte, the least first; negative numbers as 64 bits."""
    number &= (1 << 64) - 1
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def chunk(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


def tensor(name, array):
    """One initializer; small ones as ONNX's tools write them, in the typed fields."""
    kinds = {"float32": 1, "uint8": 2, "int8": 3}
    message = b"".join(varint(1 << 3) + varint(size) for size in array.shape)
    message += varint(2 << 3) + varint(kinds[array.dtype.name]) + chunk(8, name.encode())
    if array.ndim == 0 and array.dtype == np.float32:
        return message + chunk(4, array.tobytes())
    if array.ndim == 0:
        return message + chunk(5, varint(int(array)))
    return message + chunk(9, array.tobytes())


def quantized(name, weight, signed):
    low, high = float(min(weight.min(), 0)), float(max(weight.max(), 0))
    scale = np.float32((high - low) / 255)
    zero = round(-low / scale) - (128 if signed else 0)
    kind = np.int8 if signed else np.uint8
    limits = np.iinfo(kind)
    integers = np.clip(np.round(weight / scale) + zero, limits.min, limits.max).astype(kind)
    parts = {"_scale": np.array(scale), "_zero_point": np.array(zero, kind), "_quantized": integers}
    return [tensor(name + suffix, array) for suffix, array in parts.items()]


def graph_of(model, root, wanted):
    """The part of a T5 whose names begin with `wanted`, as the package's files have it."""
    nodes, tensors = [], []
    for name, value in model.state_dict().items():
        array = value.numpy()
        if not name.startswith(wanted) or name == "decoder.embed_tokens.weight":  # which is `shared` under another name
            continue
        short = root + name.removeprefix(wanted[0] if root == "enc." else "")
        if name.endswith(("embed_tokens.weight", "shared.weight", "relative_attention_bias.weight")):
            tensors += quantized(short, array, signed=False)
        elif array.ndim == 1:
            tensors.append(tensor(short, array))
        else:
            source = f"onnx::MatMul_{len(nodes)}"
            tensors += quantized(source, np.ascontiguousarray(array.T), signed=True)
            path = "/" + re.sub(r"\.(?!\d)", "/", short.removesuffix(".weight")) + "/MatMul"
            path = "logits" if name == "lm_head.weight" else path
            node = chunk(1, b"inputs") + chunk(1, f"{source}_quantized".encode())
            nodes.append(node + chunk(2, f"{path}_output_quantized".encode()) + chunk(4, b"MatMulInteger"))
    return chunk(7, b"".join([*(chunk(1, node) for node in nodes), *(chunk(5, one) for one in tensors)]))


@pytest.fixture(scope="module")
def gated():
    """A tiny T5 of version 1.1, whose output layer is not its embedding."""
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(1)
    shape = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "vocab_size": 64}
    config = T5Config(**shape, feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0)
    model = T5ForConditionalGeneration(config).eval()
    model.lm_head.weight = torch.nn.Parameter(torch.randn(64, 16))
    return model, {**flan_t5.CONFIG, **shape, "num_decoder_layers": 2}


def test_integers_become_the_weights_they_stand_for():
    integers = np.array([[0, 255], [7, 100]], np.uint8)
    np.testing.assert_array_equal(dequantized(integers, np.float32(0.5), np.uint8(7)), [[-3.5, 124], [0, 46.5]])
    by_column = dequantized(integers.astype(np.int16), np.array([1, 2], np.float32), np.array([0, 5]))
    np.testing.assert_array_equal(by_column, [[0, 500], [7, 190]])


def test_a_converted_model_is_the_one_that_was_quantized(gated, tmp_path):
    model, config = gated
    encoder = read_graph(graph_of(model, "enc.", ("encoder.",)))
    decoder = read_graph(graph_of(model, "m.", ("decoder.", "shared.", "lm_head.")))
    weights = flan_t5.state(encoder, decoder)
    assert set(weights) == {name for name in model.state_dict() if not name.endswith("embed_tokens.weight")}
    for name, weight in weights.items():
        true = model.state_dict()[name].numpy()
        step = np.ptp(np.append(true, 0)) / 255
        np.testing.assert_allclose(weight, true, atol=0.51 * step if true.ndim > 1 else 0)

    from tokenizers import Tokenizer, models

    inner = Tokenizer(models.WordLevel({"<pad>": 0, "</s>": 1, "<unk>": 2}, unk_token="<unk>"))
    inner.enable_truncation(2)
    flan_t5.write(tmp_path, weights, inner.to_str().encode(), config)
    loaded, tokens = load_model(str(tmp_path), 0.0)
    assert len(tokens("a b c d")["input_ids"]) == 1  # one unknown word, but not cut by the package's limit
    assert not torch.equal(loaded.lm_head.weight, loaded.shared.weight)
    assert loaded.encoder.embed_tokens.weight is loaded.shared.weight
    assert not loaded.config.scale_decoder_outputs
    batch = {"input_ids": torch.arange(3, 12)[None], "decoder_input_ids": torch.tensor([[0, 5, 9, 4]])}
    with torch.no_grad():
        rounded = {name: torch.from_numpy(weight) for name, weight in weights.items()}
        twin = type(model)(model.config).eval()
        twin.lm_head.weight = torch.nn.Parameter(rounded["lm_head.weight"])
        twin.load_state_dict(rounded, strict=False)
        hidden = twin.decoder(
            input_ids=batch["decoder_input_ids"], encoder_hidden_states=twin.encoder(batch["input_ids"])[0]
        )[0]
        expected = hidden @ rounded["lm_head.weight"].T  # neither tied nor scaled
        torch.testing.assert_close(loaded(**batch).logits, expected)


def test_weights_with_another_checksum_or_none_are_refused(tmp_path, monkeypatch):
    with pytest.raises(data.DataError, match="must have the SHA-256"):
        flan_t5.checked("encoder.onnx", b"something else")
    with pytest.raises(data.DataError, match="must have a graph with initializers"):
        read_graph(b"")
    monkeypatch.setattr(flan_t5, "PACKAGE", "no_such_package")
    where = data.Home((tmp_path,), tmp_path / "cache")
    assert not flan_t5.is_here(where)
    with pytest.raises(data.DataError, match="comes with a package: pip install"):
        flan_t5.read_files(where)


def test_a_wheel_will_do_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(flan_t5, "PACKAGE", "no_such_package")
    (tmp_path / "flan_t5_small").mkdir()
    with zipfile.ZipFile(tmp_path / "flan_t5_small" / "no_such_package-0.2.0-py3-none-any.whl", "w") as wheel:
        for name in flan_t5.CHECKSUMS:
            wheel.writestr(f"{flan_t5.INSIDE}/{name}", name)
    where = data.Home((tmp_path,), tmp_path / "cache")
    assert flan_t5.is_here(where)
    assert flan_t5.read_files(where) == {name: name.encode() for name in flan_t5.CHECKSUMS}


def test_the_real_model_translates_where_it_is_installed(tmp_path):
    where = data.Home((), tmp_path / "cache")
    if not flan_t5.is_here(where):
        return  # the package is not part of the project
    model, tokenizer = load_model(str(flan_t5.convert(where, tmp_path / "model")), 0.0)
    assert sum(values.numel() for values in model.parameters()) == 76_961_152
    words = tokenizer("translate English to German: The house is wonderful.", return_tensors="pt")["input_ids"]
    found = tokenizer.decode(model.generate(input_ids=words, max_new_tokens=20)[0], skip_special_tokens=True)
    assert found == "Das Haus ist wunderbar."


# Selecting pairs and training on them


def test_batches_hold_every_pair_once_and_pad_little():
    rng = np.random.default_rng(7)
    german = rng.integers(8, 45, size=2_001)
    sizes = np.stack([np.clip(german + rng.normal(scale=4, size=german.size).astype(int), 8, 44), german], axis=1)
    batches = batches_of_like_length(sizes, 16, np.random.default_rng(8))
    assert sorted(np.concatenate(batches)) == list(range(2_001))
    assert sum(len(ids) == 16 for ids in batches) == 2_001 // 16
    padded = sum(sizes[ids].max(0).sum() * len(ids) for ids in batches)
    assert padded < 1.06 * sizes.sum()


def test_steps_are_those_of_the_usual_adafactor():
    from transformers.optimization import Adafactor as Usual

    torch.manual_seed(2)
    shapes = [(7, 5), (600, 3), (4,)]
    ours = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    theirs = [torch.nn.Parameter(one.detach().clone()) for one in ours]
    mine = adafactor.Adafactor(ours, 0.01)
    usual = Usual(theirs, lr=0.01, scale_parameter=True, relative_step=False)
    for size in (1.0, 30.0, 0.01, 1.0):  # a sudden large gradient is clipped
        for one, other in zip(ours, theirs, strict=True):
            one.grad = size * torch.randn(one.shape)
            other.grad = one.grad.clone()
        mine.step()
        usual.step()
        assert all(one.grad is None for one in ours)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("tied", [False, True])
def test_the_output_layer_has_the_gradients_of_autograd(tied):
    torch.manual_seed(3)
    words, labels = torch.randint(50, (70,)), torch.randint(50, (70,))

    def gradients(compute):
        torch.manual_seed(4)
        embedding, layer = torch.nn.Embedding(50, 8), torch.nn.Linear(8, 50, bias=False)
        if tied:
            layer.weight = embedding.weight
        loss = compute(layer, embedding(words).tanh())
        return loss, embedding.weight.grad, layer.weight.grad

    def usual(layer, hidden):
        loss = torch.nn.functional.cross_entropy(layer(hidden), labels)
        loss.backward()
        return float(loss.detach())

    loss, *expected = gradients(usual)
    found, *slopes = gradients(lambda layer, hidden: output_layer.backward(layer, hidden, labels, torch.float32))
    assert found == pytest.approx(loss, rel=1e-6)
    torch.testing.assert_close(slopes, expected, rtol=1e-4, atol=1e-7)
    rough, *slopes = gradients(lambda layer, hidden: output_layer.backward(layer, hidden, labels, torch.bfloat16))
    assert rough == pytest.approx(loss, rel=0.01)
    for one, other in zip(slopes, expected, strict=True):
        assert torch.linalg.vector_norm(one - other) < 0.02 * torch.linalg.vector_norm(other)


def test_a_fused_activation_is_the_same_function(gated):
    from transformers.activations import NewGELUActivation

    model, _ = gated
    values = torch.linspace(-6, 6, 101)
    layers = [layer for layer in model.modules() if isinstance(getattr(layer, "act", None), NewGELUActivation)]
    assert layers
    before = layers[0].act(values)
    fused = copy.deepcopy(model)
    t5.fuse_activations(fused)
    layers = [layer for layer in fused.modules() if isinstance(getattr(layer, "act", None), torch.nn.GELU)]
    torch.testing.assert_close(layers[0].act(values), before)
    assert not any(isinstance(layer, NewGELUActivation) for layer in fused.modules())


def test_sentences_in_turn_take_the_nearest_that_is_left():
    rng = np.random.default_rng(9)
    points, domain = rng.normal(size=(60, 3)), rng.normal(size=(7, 3))
    ids = selecting.nearest_in_turn(points, domain, 25)
    distances = ((points[:, None] - domain) ** 2).sum(2)
    ranks = np.argsort(distances, axis=0)  # the obvious way: every sentence's list, read across
    assert ids.tolist() == list(dict.fromkeys(ranks.ravel().tolist()))[:25]


@pytest.fixture(scope="module")
def study(data_home, tmp_path_factory):
    return Study(Setting(data.home(data_home), tmp_path_factory.mktemp("study"), quick=True), QUICK)


@pytest.mark.parametrize("method", selecting.METHODS)
def test_every_method_selects_so_many_pairs_and_the_same_again(study, method):
    encoder = next(iter(QUICK.encoders))
    ids = study.select(method, encoder, 3)
    assert len(set(ids.tolist())) == len(ids) == QUICK.budget
    assert ids.min() >= 0
    assert ids.max() < QUICK.pool
    np.testing.assert_array_equal(study.select(method, encoder, 3), ids)
    assert set(study.select(method, encoder, 4).tolist()) != set(ids.tolist())


def test_tokens_are_judged_as_the_model_judges_them(study):
    """One batch of each kind of model: our sums come to the loss that transformers gives."""
    language = LanguageStudy(study.setting, QUICKER, QUICK)
    for some in (study, language):
        table = {name: texts[:9] for name, texts in study.pool.items()}
        model, tokenizer = some.load()
        exact = replace(some.plan, bfloat16=False)
        expected = float(model(**some.kind.batch(tokenizer, table, exact)).loss.detach())
        found = finetuning.judge_tokens(model, tokenizer, table, some.kind, exact)
        assert found["loss"] == pytest.approx(expected, rel=1e-5)
        assert 0 <= found["accuracy"] <= 1
        assert some.judge(model, tokenizer, table)["loss"] == pytest.approx(expected, rel=1e-2)  # in bfloat16


def test_a_pool_is_read_again_as_it_was(study):
    again = Study(study.setting, QUICK)
    assert again.pool == study.pool
    study.whole(study.pool, study.work / "some.npy")
    assert study.whole(study.pool, study.work / "some.npy") == study.whole(study.pool)


def test_a_selection_is_made_once_and_kept_small(tmp_path):
    rng = np.random.default_rng(12)
    kept = KeptSelections(tmp_path / "selected.npz")
    made = {name: rng.permutation(100_000)[:2_000] for name in ("one", "two")}
    for name, ids in made.items():
        np.testing.assert_array_equal(kept(name, lambda ids=ids: ids), np.sort(ids))
    again = KeptSelections(tmp_path / "selected.npz")
    for name, ids in made.items():
        np.testing.assert_array_equal(again(name, lambda: pytest.fail("it was selected again")), np.sort(ids))
    assert (tmp_path / "selected.npz").stat().st_size < 8_000


def test_no_pair_is_both_selected_from_and_judged_on(study):
    pool = set(zip(study.pool["en"], study.pool["de"], strict=True))
    held = study.tests["held-out"]
    assert len(pool) == QUICK.pool
    assert not pool & set(zip(held["en"], held["de"], strict=True))
    assert not set(study.domain) & set(study.tests["newstest2014"]["en"])


def test_a_loss_is_computed_once(tmp_path):
    asked = []

    def load():
        return lambda ids: [asked.append(ids.tolist()), ids / 2][1]

    losses = KeptLosses(tmp_path / "losses.npy", 10, load)
    np.testing.assert_array_equal(losses(np.array([4, 2, 4])), [2, 1, 2])
    np.testing.assert_array_equal(losses(np.array([2, 9])), [1, 4.5])
    again = KeptLosses(tmp_path / "losses.npy", 10, lambda: pytest.fail("it was asked again"))
    np.testing.assert_array_equal(again(np.array([9, 4])), [4.5, 2])
    assert asked == [[2, 4], [9]]


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
    assert '| [`one`](#one) | partly | x\\|y +.1 | <img src="one.svg" width="160" alt="Title"> |' in text
    assert "| [`two`](#two) | not run | No report yet. |  |" in text
    assert "**Verdict: partly.** It held.\n\nWhy.\n\n![one](one.svg)\n\n| what |" in text
    assert "| a \\| b | .5 | .6 | 3 | +.1 |" in text


def test_cells_of_the_first_table_are_short():
    page = (Path(command.__file__).parent / "README.md").read_text()
    table = page.split("## At a glance")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| [")]
    assert len(rows) == len(command.NAMES)
    for _, word, number, _ in rows:
        assert word in ("reproduced", "partly", "not", "open", "not run")
        assert len(number) <= 130


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
    assert command.main(words) == 0
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
    assert "There is no run to report yet" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


# Nothing is claimed of these yet: they have no finished runs.
UNCLAIMED = {"language-model", "loss-histogram", "translation", "translation-holder", "translation-paper"}


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
