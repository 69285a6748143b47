"""Tiny models and tokenizers, built from their configurations, and sentences of their words."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the libraries are imported: no test waits for a network

import numpy as np
import torch
import transformers

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnopqrstuvwxyz", *(f"w{number}" for number in range(40))]


def words_tokenizer(**special):
    from tokenizers import Tokenizer, models, pre_tokenizers

    inner = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]", **special)


def ending_tokenizer():
    """A tokenizer that ends every text with a token of its own, as T5's does."""
    from tokenizers.processors import TemplateProcessing

    tokenizer = words_tokenizer(pad_token="[PAD]", eos_token="[SEP]")
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="$A [SEP]", special_tokens=[("[SEP]", 3)])
    return tokenizer


def tiny_t5():
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=len(WORDS), d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0
    )
    return transformers.T5ForConditionalGeneration(config)


def tiny_gpt2():
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=len(WORDS), n_positions=32, n_embd=16, n_layer=2, n_head=2)
    return transformers.GPT2LMHeadModel(config)


def tiny_bert(classes=3):
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    config.num_labels = classes
    return transformers.BertForSequenceClassification(config)


def sentences(count, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 12, size=count)
    return [" ".join(rng.choice(WORDS[4:], size=length)) for length in lengths]
