"""A small T5: made, loaded, trained on pairs and judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from coresift.progress import stage
from repro.plans import Plan, Table, taken
from repro.results import Setting

IGNORED = -100


def load_model(name: str, dropout: float) -> tuple[Any, Any]:
    """Load a model with this dropout, and its tokenizer."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer  # noqa: PLC0415

    model = AutoModelForSeq2SeqLM.from_pretrained(name, dropout_rate=dropout, use_safetensors=True)
    return model.to(device()), AutoTokenizer.from_pretrained(name)


def device() -> str:
    """Return where a model runs."""
    return "cuda" if torch.cuda.is_available() else "cpu"


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


def train(model: Any, tokenizer: Any, table: Table, plan: Plan, seed: int, setting: Setting) -> None:
    """Fine-tune on all pairs of a table, without weights."""
    from transformers.optimization import Adafactor  # noqa: PLC0415

    optimizer = Adafactor(model.parameters(), lr=plan.rate, scale_parameter=True, relative_step=False)
    with stage(setting.progress, "fine-tuning", plan.epochs * len(table["en"])):
        for epoch in range(plan.epochs):
            one_epoch(model, tokenizer, table, plan, [seed, 3, epoch], setting, optimizer.step)


def train_first(model: Any, tokenizer: Any, table: Table, plan: Plan, epoch: int, setting: Setting) -> None:
    """Train a model from nothing for one of its epochs: small batches, and a rate that falls to fine-tuning's."""
    rate = np.linspace(plan.base_rate, plan.rate, plan.base_epochs)[epoch]
    adam = torch.optim.Adam(model.parameters(), lr=float(rate), betas=(0.9, 0.98))
    warm = torch.optim.lr_scheduler.LinearLR(adam, 0.01, total_iters=100)  # Adam begins anew with each epoch

    def step() -> None:
        adam.step()
        warm.step()

    with stage(setting.progress, f"first model, epoch {epoch + 1} of {plan.base_epochs}", len(table["en"])):
        one_epoch(model, tokenizer, table, replace(plan, batch=plan.base_batch), [1000, 3, epoch], setting, step)


def one_epoch(
    model: Any, tokenizer: Any, table: Table, plan: Plan, seed: list[int], setting: Setting, step: Callable[[], None]
) -> None:
    """Go through the pairs once, in a random order."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(int(rng.integers(2**62)))
    order = rng.permutation(len(table["en"]))
    model.train()
    for start in range(0, len(order), plan.batch):
        batch = batched(tokenizer, taken(table, order[start : start + plan.batch]), plan)
        model.zero_grad()
        model(**batch).loss.backward()
        step()
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
