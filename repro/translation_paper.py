"""The paper's figure of fine-tuning, in its own configuration, for a machine with a GPU and a network.

    python -m repro translation-paper

Cost: not measured; it embeds 4.6 million sentences twice and fine-tunes T5-Small 55 times. The paper: accuracy .59
(random) to .60 (sensitivity), .70 on all pairs. T5-Small, the WMT T2T EnDe pairs, 45,000 selected with 4,500 centers
and λ = 0.1, BERT and Sentence-T5 embeddings, batches of 128, a constant rate of 0.001, dropout 0.1. The paper does not
say for how long it fine-tunes: 5 epochs here. `--quick` runs the same path with tiny models in folders, made on the
spot.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from repro import translation
from repro.plans import PAPER, QUICK, Plan
from repro.results import Experiment, Report, Setting
from repro.seq2seq import Study


def run(setting: Setting) -> None:
    """Do the fine-tunings that are missing."""
    translation.fill(setting, tiny(setting) if setting.quick else PAPER, "translation-paper")


def tiny(setting: Setting) -> Plan:
    """Return a plan whose model and encoder are loaded by name from folders, as the paper's are from the hub."""
    plan = replace(QUICK, name="tiny")
    study = Study(setting, plan)
    encoder = study.work / "bert"
    make_encoder(encoder, study.pool["en"])
    return replace(plan, model=study.base, tokens=128, encoders={"BERT": str(encoder)})


def make_encoder(folder: Path, texts: list[str]) -> None:
    """Write a tiny BERT with random weights, and a tokenizer of the texts' words."""
    from tokenizers import BertWordPieceTokenizer  # noqa: PLC0415
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast  # noqa: PLC0415

    learned = BertWordPieceTokenizer(lowercase=True)
    learned.train_from_iterator(texts, vocab_size=400, show_progress=False)
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=learned.get_vocab_size(), **shape)).save_pretrained(folder)
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "pad", "cls", "sep", "mask")}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=learned._tokenizer, model_max_length=128, **special)
    tokenizer.save_pretrained(folder)


def report(setting: Setting) -> Report:
    """Write the table, the plot and the verdict."""
    return translation.reported(setting, "translation-paper")


EXPERIMENT = Experiment(
    "translation-paper",
    "Fine-tuning T5-Small on 45,000 of 4.6 million WMT pairs, as the paper does",
    "For a machine with a GPU and a network.",
    run,
    report,
    "Not run at its size, which takes a GPU; `--quick` runs all of it with tiny models.",
)
