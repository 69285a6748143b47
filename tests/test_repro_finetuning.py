"""Fine-tuning in the reproductions: weights from a package, selections, steps and gradients as the usual ones."""

from __future__ import annotations

import copy
import os
import re
import zipfile
from dataclasses import replace

import numpy as np
import pytest

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the libraries are imported: no test waits for a network

import torch

from repro import adafactor, data, finetuning, flan_t5, output_layer, selecting, t5, translation
from repro.finetuning import batches_of_similar_length
from repro.language_model import QUICKER, LanguageStudy
from repro.onnx_weights import dequantize, read_graph
from repro.plans import QUICK
from repro.results import Setting
from repro.seq2seq import LossCache, SelectionCache, Study
from repro.t5 import load_model

torch.set_num_threads(1)


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
    np.testing.assert_array_equal(dequantize(integers, np.float32(0.5), np.uint8(7)), [[-3.5, 124], [0, 46.5]])
    by_column = dequantize(integers.astype(np.int16), np.array([1, 2], np.float32), np.array([0, 5]))
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
    assert not flan_t5.is_available(where)
    with pytest.raises(data.DataError, match="is part of a package: run pip install"):
        flan_t5.read_files(where)


def test_a_wheel_will_do_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(flan_t5, "PACKAGE", "no_such_package")
    (tmp_path / "flan_t5_small").mkdir()
    with zipfile.ZipFile(tmp_path / "flan_t5_small" / "no_such_package-0.2.0-py3-none-any.whl", "w") as wheel:
        for name in flan_t5.CHECKSUMS:
            wheel.writestr(f"{flan_t5.INSIDE}/{name}", name)
    where = data.Home((tmp_path,), tmp_path / "cache")
    assert flan_t5.is_available(where)
    assert flan_t5.read_files(where) == {name: name.encode() for name in flan_t5.CHECKSUMS}


def test_the_real_model_translates_where_it_is_installed(tmp_path):
    where = data.Home((), tmp_path / "cache")
    if not flan_t5.is_available(where):
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
    batches = batches_of_similar_length(sizes, 16, np.random.default_rng(8))
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
        found = finetuning.evaluate_tokens(model, tokenizer, table, some.kind, exact)
        assert found.means()["loss"] == pytest.approx(expected, rel=1e-5)
        for place in (0, 5):  # a row alone has the counts that it has among others
            alone = {name: [texts[place]] for name, texts in table.items()}
            single = finetuning.evaluate_tokens(model, tokenizer, alone, some.kind, exact)
            assert (single.right[0], single.tokens[0]) == (found.right[place], found.tokens[place])
        assert some.evaluate(model, tokenizer, table)["loss"] == pytest.approx(expected, rel=1e-2)  # in bfloat16


def test_a_pool_is_read_again_as_it_was(study):
    again = Study(study.setting, QUICK)
    assert again.pool == study.pool
    study.short_enough(study.pool, study.work / "some.npy")
    assert study.short_enough(study.pool, study.work / "some.npy") == study.short_enough(study.pool)


def test_a_selection_is_made_once_and_kept_small(tmp_path):
    rng = np.random.default_rng(12)
    kept = SelectionCache(tmp_path / "selected.npz")
    made = {name: rng.permutation(100_000)[:2_000] for name in ("one", "two")}
    for name, ids in made.items():
        np.testing.assert_array_equal(kept.get(name, lambda ids=ids: ids), np.sort(ids))
    again = SelectionCache(tmp_path / "selected.npz")
    for name, ids in made.items():
        np.testing.assert_array_equal(again.get(name, lambda: pytest.fail("it was selected again")), np.sort(ids))
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

    losses = LossCache(tmp_path / "losses.npy", 10, load)
    np.testing.assert_array_equal(losses(np.array([4, 2, 4])), [2, 1, 2])
    np.testing.assert_array_equal(losses(np.array([2, 9])), [1, 4.5])
    again = LossCache(tmp_path / "losses.npy", 10, lambda: pytest.fail("it was asked again"))
    np.testing.assert_array_equal(again(np.array([9, 4])), [4.5, 2])
    assert asked == [[2, 4], [9]]


def test_errors_over_test_pairs_are_those_of_drawing_the_pairs_anew():
    rng = np.random.default_rng(13)
    tokens = rng.integers(8, 45, size=4_000)
    ours, base = (rng.binomial(tokens, rate) for rate in (0.52, 0.50))

    def entry(right):
        return {"news": {"accuracy": right.sum() / tokens.sum(), "right": bytes(right.tolist()).hex()}}

    found = {("sensitivity", "MiniLM", 0): entry(ours), ("random", "MiniLM", 0): entry(base)}
    error = translation.over_pairs(found, "news", ("sensitivity", "MiniLM"))
    again = [(ours - base)[ids].sum() / tokens[ids].sum() for ids in rng.integers(4_000, size=(800, 4_000))]
    assert error == pytest.approx(np.std(again), rel=0.15)  # a bootstrap; its own error is 2.5 %
    assert np.isnan(translation.over_pairs(found, "news", ("random", "")))
    found["random", "MiniLM", 0] = entry(0 * base)
    assert np.isnan(translation.over_pairs(found, "news", ("sensitivity", "MiniLM")))
