"""The paper's figure of fine-tuning, in its own configuration, for a machine with a GPU and a network.

    python -m repro translation-paper

Cost: not measured; it embeds 4.6 million sentences twice and fine-tunes T5-Small 55 times. In the paper, the accuracy
is .59 with random pairs, .60 with sensitivity sampling, and .70 with all pairs. The configuration is T5-Small, the WMT
T2T EnDe pairs, 45,000 of them selected with 4,500 centers and λ = 0.1, BERT and Sentence-T5 embeddings, batches of 128,
a constant learning rate of 0.001, and dropout 0.1. The paper does not say how long it fine-tunes; here it is 5 epochs.
`--quick` runs the same code with tiny models, which it creates.
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
    """Do the missing fine-tunings."""
    translation.fill(setting, tiny(setting) if setting.quick else PAPER, "translation-paper")


def tiny(setting: Setting) -> Plan:
    """Return a plan that loads its model and encoder from folders, as the paper's plan loads them from the hub."""
    plan = replace(QUICK, name="tiny")
    study = Study(setting, plan)
    encoder = study.work / "bert"
    make_encoder(encoder, study.pool["en"])
    return replace(plan, model=study.base, tokens=128, encoders={"BERT": str(encoder)})


def make_encoder(folder: Path, texts: list[str]) -> None:
    """Write a tiny BERT with random weights, and a tokenizer trained on the texts."""
    from tokenizers import BertWordPieceTokenizer  # noqa: PLC0415
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast  # noqa: PLC0415

    word_pieces = BertWordPieceTokenizer(lowercase=True)
    word_pieces.train_from_iterator(texts, vocab_size=400, show_progress=False)
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=word_pieces.get_vocab_size(), **shape)).save_pretrained(folder)
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "pad", "cls", "sep", "mask")}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=word_pieces._tokenizer, model_max_length=128, **special)
    tokenizer.save_pretrained(folder)


def report(setting: Setting) -> Report:
    """Write the table, the plot and the verdict."""
    return translation.make_report(setting, "translation-paper")


EXPERIMENT = Experiment(
    "translation-paper",
    "Fine-tuning T5-Small on 45,000 of 4.6 million WMT pairs, as the paper does",
    "For a machine with a GPU and a network.",
    run,
    report,
    "Not run at full size, which needs a GPU; `--quick` runs the same code with tiny models.",
)
