"""A T5: made, loaded, trained on pairs and judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from coresift.progress import stage
from repro.plans import Ints, Plan, Table, taken
from repro.results import Setting

IGNORED = -100
BATCHES_SORTED = 32  # so many batches' worth of pairs are sorted by length at a time
JUDGED_AT_ONCE, TRANSLATED_AT_ONCE = 32, 75
WORDS = 300  # of the tiny model's vocabulary


def load_model(name: str, dropout: float) -> tuple[Any, Any]:
    """Load a model with this dropout, and its tokenizer."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer  # noqa: PLC0415
    from transformers.utils import logging  # noqa: PLC0415

    level = logging.get_verbosity()
    logging.set_verbosity_error()  # it warns that flan-t5's output layer is not its embedding, which is as it should be
    model = AutoModelForSeq2SeqLM.from_pretrained(name, dropout_rate=dropout, use_safetensors=True)
    logging.set_verbosity(level)
    return model.to(device()), AutoTokenizer.from_pretrained(name)


def device() -> str:
    """Return where a model runs."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def make_tiny(folder: Path, table: Table, shape: dict[str, int]) -> None:
    """Write a T5 with random weights, and a tokenizer that is learned from the pairs."""
    from transformers import T5Config, T5ForConditionalGeneration  # noqa: PLC0415

    torch.manual_seed(0)
    tokenizer = made_tokenizer(table)
    special = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
    T5ForConditionalGeneration(T5Config(vocab_size=len(tokenizer), **special, **shape)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def made_tokenizer(table: Table) -> Any:
    """Return a tokenizer of byte pairs, learned from both sides, that ends every text as T5's does."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers  # noqa: PLC0415
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    inner.decoder = decoders.ByteLevel()
    special = ["<pad>", "</s>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=WORDS, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    inner.train_from_iterator([*table["en"], *table["de"]], trainer)
    inner.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="</s>")


# ------------------------------------------------------------------ training and judging


Batched = Callable[[Table], dict[str, Any]]


def train(
    model: Any, table: Table, batch_of: Batched, plan: Plan, seed: int, setting: Setting, *, side: str = "de"
) -> None:
    """Fine-tune on all pairs of a table, without weights; those whose `side` is of like length share batches."""
    from transformers.optimization import Adafactor  # noqa: PLC0415

    optimizer = Adafactor(model.parameters(), lr=plan.rate, scale_parameter=True, relative_step=False)
    sizes = np.array([len(text) for text in table[side]])
    model.train()
    with stage(setting.progress, "fine-tuning", plan.epochs * len(table["en"])):
        for epoch in range(plan.epochs):
            rng = np.random.default_rng([seed, 3, epoch])
            torch.manual_seed(int(rng.integers(2**62)))
            for ids in batches_of_like_length(sizes, plan.batch, rng):
                model.zero_grad()
                model(**batch_of(taken(table, ids))).loss.backward()
                optimizer.step()
                setting.progress.advance(len(ids))
    model.eval()


def batches_of_like_length(sizes: Ints, batch: int, rng: np.random.Generator) -> list[Ints]:
    """Return every pair once, in batches in a random order; random groups of pairs are sorted, to pad little.

    Example:
        >>> made = batches_of_like_length(np.array([5, 1, 1, 5]), 2, np.random.default_rng(0))
        >>> sorted(sorted(ids.tolist()) for ids in made)
        [[0, 3], [1, 2]]
    """
    order = rng.permutation(len(sizes))
    batches: list[Ints] = []
    for start in range(0, len(order), batch * BATCHES_SORTED):
        group = order[start : start + batch * BATCHES_SORTED]
        group = group[np.argsort(sizes[group], kind="stable")]
        batches += [group[place : place + batch] for place in range(0, len(group), batch)]
    return [batches[place] for place in rng.permutation(len(batches))]


def batched(tokenizer: Any, table: Table, plan: Plan) -> dict[str, Any]:
    """Return a padded batch with labels, whose padding does not count."""
    options = {"padding": True, "truncation": True, "max_length": plan.tokens, "return_tensors": "pt"}
    inputs = tokenizer([plan.prefix + text for text in table["en"]], **options)
    labels = tokenizer(text_target=table["de"], **options)
    wanted = labels["input_ids"].masked_fill(labels["attention_mask"] == 0, IGNORED)
    batch = {"input_ids": inputs["input_ids"], "attention_mask": inputs["attention_mask"], "labels": wanted}
    return {name: values.to(device()) for name, values in batch.items()}


def judge(model: Any, tokenizer: Any, table: Table, plan: Plan) -> dict[str, float]:
    """Return next-token accuracy with the right tokens before it, the loss per token, and sacreBLEU."""
    scores = Scores()
    with torch.no_grad():
        for some in chunks(by_length(table, "de"), JUDGED_AT_ONCE):
            batch = batched(tokenizer, some, plan)
            scores.add(model(**batch).logits, batch["labels"])
    return {**scores.means(), "bleu": bleu(model, tokenizer, table, plan)}


class Scores:
    """How many tokens were predicted rightly, and their losses."""

    def __init__(self) -> None:
        self.right = self.total = 0
        self.loss = 0.0

    def add(self, logits: Any, labels: Any) -> None:
        """Count a batch, without its padding."""
        counts = labels != IGNORED
        self.right += int((logits.argmax(2) == labels)[counts].sum())
        self.loss += float(torch.nn.functional.cross_entropy(logits[counts], labels[counts], reduction="sum"))
        self.total += int(counts.sum())

    def means(self) -> dict[str, float]:
        """Return the accuracy and the loss per token."""
        return {"accuracy": self.right / self.total, "loss": self.loss / self.total}


def bleu(model: Any, tokenizer: Any, table: Table, plan: Plan) -> float:
    """Return sacreBLEU of greedy translations of the first pairs."""
    from sacrebleu import corpus_bleu  # noqa: PLC0415

    table = by_length({name: texts[: plan.translated] for name, texts in table.items()}, "en")
    found: list[str] = []
    for some in chunks(table, TRANSLATED_AT_ONCE):
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


def by_length(table: Table, side: str) -> Table:
    """Return the pairs from short to long, so that those of like length share a batch."""
    return taken(table, np.argsort([len(text) for text in table[side]], kind="stable"))


def chunks(table: Table, size: int) -> Iterator[Table]:
    """Yield a table's pairs, so many at a time."""
    for start in range(0, len(table["en"]), size):
        yield {name: texts[start : start + size] for name, texts in table.items()}
