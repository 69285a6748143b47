"""The command line from texts to a file to train on: stages are reused, and faults are one sentence."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

os.environ["HF_HUB_OFFLINE"] = "1"

from command_line import refused, succeeded
from tiny_models import ending_tokenizer, sentences, tiny_bert, tiny_gpt2, tiny_t5, words_tokenizer

import coresift as cs
from coresift import models
from coresift.models.corpus import open_corpus
from coresift.models.encoders import TextEncoder

N = 300
EN, DE = sentences(N), sentences(N, seed=1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Save tiny models as any user would: an encoder, a seq2seq model, a causal one and a classifier."""
    home = tmp_path_factory.mktemp("models")
    plain = words_tokenizer(pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", eos_token="[SEP]")
    for name, model, tokenizer in (
        ("encoder", tiny_bert().bert, plain),
        ("t5", tiny_t5(), ending_tokenizer()),
        ("gpt2", tiny_gpt2(), plain),
        ("classifier", tiny_bert(), plain),
    ):
        model.save_pretrained(home / name)
        tokenizer.save_pretrained(home / name)
    return home


@pytest.fixture
def corpus(tmp_path):
    columns = {
        "id": [f"pair {row}" for row in range(N)],
        "en": EN,
        "de": DE,
        "weight": np.arange(N),
        "topic": ["a", "b"],
    }
    columns["topic"] = ["a", "b"] * (N // 2)
    pa.parquet.write_table(pa.table(columns), tmp_path / "corpus.parquet")
    return tmp_path / "corpus.parquet"


def texts_of(outcome):
    return " ".join(succeeded(outcome).split())


def test_embed_writes_rows_that_the_other_verbs_take(run, corpus, folders):
    words = ("embed", "corpus.parquet", "--text", "en", "--model", folders / "encoder", "--out", "rows")
    assert "Wrote rows" in succeeded(run(*words))
    assert "rows is complete already" in succeeded(run(*words))
    rows = cs.open_rows("rows")
    assert (rows.n, rows.id_name) == (N, "id")
    twin = models.embed(EN, folders / "encoder").take(np.arange(N))
    assert np.array_equal(rows.take(np.arange(N)), twin)
    succeeded(run("select", "rows", "--budget", 20))
    assert cs.load("picked.parquet").names == tuple(f"pair {row}" for row in cs.load("picked.parquet").ids)
    assert "Example: coresift embed" in succeeded(run("embed", "--help"))


def test_embed_says_what_a_table_without_ids_means(run, folders, tmp_path):
    pa.parquet.write_table(pa.table({"en": EN[:20]}), tmp_path / "texts.parquet")
    words = ("embed", "texts.parquet", "--text", "en", "--model", folders / "encoder", "--out", "rows")
    assert "none, so rows are found by position; keep the table's order" in texts_of(run(*words))


def test_embed_that_is_stopped_says_that_it_continues(run, corpus, folders, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    words = ("embed", "corpus.parquet", "--text", "en", "--model", folders / "encoder", "--out", "rows")
    with monkeypatch.context() as patch:
        patch.setattr(TextEncoder, "encode", stop)
        outcome = run(*words)
    assert (outcome.status, outcome.err) == (130, "Stopped; the same command continues.\n")
    assert "Wrote rows" in succeeded(run(*words))


def test_embed_takes_its_options(run, corpus, folders):
    options = ("--pooling", "cls", "--normalize", "--max-length", 5, "--batch", 7, "--dtype", "float32")
    more = ("--device", "cpu", "--threads", 1, "--id-column", "de", "--out", "rows")
    succeeded(run("embed", "corpus.parquet", "--text", "en", "--model", folders / "encoder", *options, *more))
    rows = cs.open_rows("rows")
    options = {"pooling": "cls", "normalize": True, "max_length": 5, "batch": 7, "dtype": "float32"}
    twin = models.embed(EN, folders / "encoder", **options)
    assert np.array_equal(rows.take(np.arange(N)), twin.take(np.arange(N)))
    assert rows.names([3]) == [DE[3]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--text", "fr"), "one of the columns"),
        (("--text", "weight"), "a column of texts"),
        (("--text", "en", "--pooling", "max"), "pooling must be"),
        (("--text", "en", "--dtype", "int8"), "dtype must be"),
        (("--text", "en", "--out", "no/rows"), "no folder no"),
        (("--text", "en", "--device", "abacus"), "device must be"),
        (("--text", "en", "--batch", "0"), "batch must be"),
        (("--text", "en", "--id-column", "x"), "--id-column must be"),
    ],
)
def test_what_embed_cannot_do_is_one_sentence(run, corpus, folders, words, said):
    assert said in refused(run("embed", "corpus.parquet", "--model", folders / "encoder", *words))
    assert [path.name for path in corpus.parent.iterdir()] == ["corpus.parquet"]


def test_a_model_that_is_not_there_is_one_sentence(run, corpus):
    assert "'no/model'" in refused(run("embed", "corpus.parquet", "--text", "en", "--model", "no/model"))


def command(folders, *more, budget=40):
    models_named = ("--embed-model", folders / "encoder", "--loss-model", folders / "t5")
    return ("select", "corpus.parquet", "--text", "en", "--target", "de", *models_named, "--budget", budget, *more)


def test_select_goes_from_texts_to_a_file_to_train_on(run, corpus, folders):
    shown = texts_of(run(*command(folders)))
    picked = cs.load("picked.parquet")
    table = pa.parquet.read_table("picked.parquet")
    assert len(picked) == 40
    assert f"{picked.ledger.asked} computed and 0 found" in shown
    assert table["en"].to_pylist() == [EN[row] for row in picked.ids]
    assert table["de"].to_pylist() == [DE[row] for row in picked.ids]
    assert table["table_weight"].to_pylist() == picked.ids.tolist()
    assert np.array_equal(table["weight"].to_numpy(), picked.weights)
    assert table["id"].to_pylist() == [f"pair {row}" for row in picked.ids]
    # It is what the library gives, stage by stage.
    rows = models.embed(corpus, folders / "encoder", text="en")
    loss = models.text_loss(folders / "t5", corpus, text="en", target="de")
    assert cs.select(rows, loss, 40) == picked


def test_each_stage_is_reused(run, corpus, folders):
    succeeded(run(*command(folders)))
    before = (corpus.parent / "picked.parquet").read_bytes()
    asked = cs.load("picked.parquet").ledger.asked
    shown = texts_of(run(*command(folders)))
    assert "numbers, reused from" in shown
    assert "4, reused from" in shown
    assert f"0 computed and {asked} found" in shown
    assert (corpus.parent / "picked.parquet").read_bytes() == before
    shown = texts_of(run(*command(folders, budget=60)))
    assert "numbers, reused from" in shown
    assert "6, written to" in shown
    computed, found = map(int, re.search(r"(\d+) computed and (\d+) found", shown).groups())
    assert computed + found == cs.load("picked.parquet").ledger.asked
    # Other texts are another corpus: nothing is taken over.
    table = pa.parquet.read_table(corpus)
    pa.parquet.write_table(table.set_column(1, "en", pa.array(DE)), corpus)
    shown = texts_of(run(*command(folders)))
    assert "numbers, written to" in shown
    assert f"{asked} computed and 0 found" in shown


def test_a_report_finds_embeddings_and_texts_by_itself(run, corpus, folders):
    report = ("report", "picked.parquet", "--text", "en", "--facts", "facts.json")
    for more in ((), ("--work", "stages")):
        succeeded(run(*command(folders, *more)))
        assert "embeddings found in" in texts_of(run(*report, *more))
        facts = json.loads(Path("facts.json").read_text(encoding="utf-8"))
        assert facts["map"] is not None
        assert all(facts["texts"][str(row)] == EN[row] for row in cs.load("picked.parquet").ids)
    # A selection of other rows under the same name is not taken for that of the texts.
    succeeded(run("select", "picked.work/" + next(Path("picked.work").glob("embeddings-*")).name, "--budget", 20))
    assert "text must be given together with a table" in refused(run(*report))
    assert "found" not in texts_of(run("report", "picked.parquet", "--facts", "facts.json"))
    assert json.loads(Path("facts.json").read_text(encoding="utf-8"))["map"] is None


def test_other_models_columns_and_parts_work_too(run, corpus, folders):
    encoder = ("select", "corpus.parquet", "--text", "en", "--embed-model", folders / "encoder", "--budget", 40)
    succeeded(run(*encoder, "--out", "alone.jsonl"))
    assert cs.load("alone.jsonl").ledger.asked == 0
    succeeded(run(*encoder, "--loss-model", folders / "gpt2", "--out", "causal.csv", "--work", "stages"))
    causal = cs.load("causal.csv")
    asked = ~np.isnan(causal.losses)
    twin = models.text_loss(folders / "gpt2", EN)(causal.ids[asked])
    assert np.allclose(causal.losses[asked], twin, atol=1e-5)
    succeeded(run(*encoder, "--loss-model", folders / "gpt2", "--gradient", "--strata", "topic", "--work", "stages"))
    picked = cs.load("picked.parquet")
    asked = ~np.isnan(picked.losses)
    twin = models.gradient_norms(models.text_loss(folders / "gpt2", EN))(picked.ids[asked])
    assert np.allclose(picked.losses[asked], twin, rtol=1e-3)
    assert "2 classes" in picked.provenance.lines()["strata"]
    losses = {"id": [f"pair {row}" for row in range(N)], "loss": np.arange(N) / 7}
    pa.csv.write_csv(pa.table(losses), "losses.csv")
    succeeded(run(*encoder, "--losses", "losses.csv", "--paper", "0.1", "--clusters", 5))
    assert cs.load("picked.parquet").ledger.asked == 5
    succeeded(run(*encoder, "--proxy", "losses.csv"))
    numbers = {"text": EN, "class": [row % 3 for row in range(N)]}
    pa.csv.write_csv(pa.table(numbers), "classes.csv")
    words = ("select", "classes.csv", "--text", "text", "--target", "class", "--budget", 30)
    succeeded(run(*words, "--embed-model", folders / "encoder", "--loss-model", folders / "classifier"))
    assert cs.load("picked.parquet").ledger.asked > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--embed-model", "x"), "name the column with --text"),
        (("--gradient",), "name the column with --text"),
        (("--text", "en"), "--text needs --embed-model"),
        (("--text", "en", "--embed-model", "encoder", "--target", "de"), "--target needs --loss-model"),
        (("--text", "en", "--embed-model", "encoder", "--column", "de"), "leave it out with --text"),
        (("--text", "en", "--embed-model", "encoder", "--losses", "l.csv", "--loss-model", "t5"), "leave one "),
        (("--text", "en", "--embed-model", "encoder", "--loss-model", "t5"), "target must be"),
        (("--text", "en", "--embed-model", "encoder", "--loss-model", "encoder"), "The model for losses must be"),
        (("--text", "fr", "--embed-model", "encoder"), "one of the columns"),
        (("--text", "en", "--embed-model", "encoder", "--strata", "x"), "one of the columns"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(run, corpus, folders, words, said):
    words = [folders / word if word in ("encoder", "t5") else word for word in words]
    (corpus.parent / "l.csv").write_text("row,loss\n0,1\n")
    assert said in refused(run("select", "corpus.parquet", "--budget", 30, *words))
    assert not (corpus.parent / "picked.parquet").exists()


def test_a_selection_is_saved_with_columns_of_its_table(tmp_path):
    rows = np.random.default_rng(0).normal(size=(50, 2))
    picked = cs.select(rows, budget=8)
    table = pa.table({"row": ["x"] * 8, "text": ["a,\nb"] * 8})
    for suffix in ("parquet", "csv", "jsonl"):
        path = cs.save(picked, tmp_path / f"picked.{suffix}", table=table)
        assert cs.load(path) == picked
        assert open_corpus(path).texts("text", np.array([3])) == ["a,\nb"]
        assert "table_row" in open_corpus(path).schema.names
    with pytest.raises(cs.InputError, match="a table with all 50 rows, or one with the 8 selected rows"):
        cs.save(picked, tmp_path / "picked.csv", table=table.slice(1))
    path = cs.save(picked, tmp_path / "picked.csv", table=pa.table({"list": [[1]] * 8}))
    assert open_corpus(path).texts("list", np.array([3])) == ["[1]"]  # as JSON
    with pytest.raises(cs.InputError, match="left out for a clustering"):
        cs.save(cs.cluster(rows, 3), tmp_path / "c.npz", table=table)
