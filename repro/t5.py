"""T5: how to create and load a model, prepare batches, and evaluate translations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from repro.finetuning import IGNORED, Batch, Kind, by_length, chunks, device, evaluate_tokens, precision
from repro.plans import Ints, Plan, Table

TRANSLATED_AT_ONCE = 150
WORDS = 300  # the size of the tiny model's vocabulary


def load_model(name: str, dropout: float) -> tuple[Any, Any]:
    """Load a model with this dropout, and its tokenizer."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer  # noqa: PLC0415
    from transformers.utils import logging  # noqa: PLC0415

    level = logging.get_verbosity()
    logging.set_verbosity_error()  # it would warn that flan-t5's output layer is not its embedding, which is correct
    options = {"attn_implementation": "eager", "use_safetensors": True}  # five times as fast as "sdpa" on short texts
    model = AutoModelForSeq2SeqLM.from_pretrained(name, dropout_rate=dropout, **options)
    logging.set_verbosity(level)
    fuse_activations(model)
    return model.to(device()), AutoTokenizer.from_pretrained(name)


def fuse_activations(model: Any) -> None:
    """Replace the activation, which transformers computes in eight steps, by torch's fused one."""
    from transformers.activations import NewGELUActivation  # noqa: PLC0415

    for layer in list(model.modules()):
        if isinstance(getattr(layer, "act", None), NewGELUActivation):
            layer.act = torch.nn.GELU(approximate="tanh")


def make_tiny(folder: Path, table: Table, shape: dict[str, int]) -> None:
    """Write a T5 with random weights, and a tokenizer trained on the pairs."""
    from transformers import T5Config, T5ForConditionalGeneration  # noqa: PLC0415

    torch.manual_seed(0)
    tokenizer = train_tokenizer(table)
    special = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
    T5ForConditionalGeneration(T5Config(vocab_size=len(tokenizer), **special, **shape)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def train_tokenizer(table: Table) -> Any:
    """Return a byte-pair tokenizer, trained on both sides, that ends every text as T5's tokenizer does."""
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


# ------------------------------------------------------------------ training and evaluation


def token_counts(tokenizer: Any, table: Table, plan: Plan) -> Ints:
    """Return the number of tokens on both sides of every pair."""
    sides = ([plan.prefix + text for text in table["en"]], table["de"])
    return np.array([[len(tokens) for tokens in tokenizer(side)["input_ids"]] for side in sides]).T


def make_batch(tokenizer: Any, table: Table, plan: Plan) -> Batch:
    """Return a padded batch with labels; padding is ignored."""
    options = {"padding": True, "truncation": True, "max_length": plan.tokens, "return_tensors": "pt"}
    inputs = tokenizer([plan.prefix + text for text in table["en"]], **options)
    labels = tokenizer(text_target=table["de"], **options)
    targets = labels["input_ids"].masked_fill(labels["attention_mask"] == 0, IGNORED)
    batch = {"input_ids": inputs["input_ids"], "attention_mask": inputs["attention_mask"], "labels": targets}
    return {name: values.to(device()) for name, values in batch.items()}


def hidden_states(model: Any, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the input of the output layer at every position of the German side, and the labels."""
    labels, mask = batch["labels"], batch["attention_mask"]
    encoded = model.encoder(input_ids=batch["input_ids"], attention_mask=mask)[0]
    before = model.prepare_decoder_input_ids_from_labels(labels)
    options = {"encoder_hidden_states": encoded, "encoder_attention_mask": mask, "use_cache": False}
    hidden = model.decoder(input_ids=before, **options)[0]
    if model.config.scale_decoder_outputs:
        hidden = hidden * model.model_dim**-0.5
    return hidden, labels


T5 = Kind(token_counts, make_batch, hidden_states)


def evaluate(model: Any, tokenizer: Any, table: Table, plan: Plan) -> dict[str, Any]:
    """Return next-token accuracy, loss per token, sacreBLEU, and the number of correct tokens of each pair.

    The numbers are bytes in hexadecimal, two digits per pair.
    """
    results = evaluate_tokens(model, tokenizer, table, T5, plan)
    right = bytes(results.right.tolist()).hex()
    return {**results.means(), "bleu": bleu(model, tokenizer, table, plan), "right": right}


def bleu(model: Any, tokenizer: Any, table: Table, plan: Plan) -> float:
    """Return sacreBLEU of greedy translations of the first pairs."""
    from sacrebleu import corpus_bleu  # noqa: PLC0415

    table = {name: texts[: plan.translated] for name, texts in table.items()}
    table = by_length(table, token_counts(tokenizer, table, plan)[:, :1])
    translations: list[str] = []
    for chunk in chunks(table, TRANSLATED_AT_ONCE):
        batch = make_batch(tokenizer, chunk, plan)
        with torch.no_grad(), precision(plan):
            output = model.generate(
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                max_new_tokens=plan.tokens,
                num_beams=1,
                do_sample=False,
            )
        translations += tokenizer.batch_decode(output, skip_special_tokens=True)
    return float(corpus_bleu([text.strip() for text in translations], [table["de"]]).score)
