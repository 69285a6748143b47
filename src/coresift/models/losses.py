"""Losses of rows under a model, as `select` needs them: functions of row numbers that return one loss per row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from coresift.checks import AnswerError, InputError, refuse, whole
from coresift.models.corpus import Corpus, open_corpus
from coresift.models.encoders import call, evaluating, inputs_of, logits_of, longest, model_digest, to_device
from coresift.models.loading import load_scorer
from coresift.oracle import Oracle
from coresift.types import Floats, Ints

IGNORED = -100  # the label that torch and transformers leave out of the loss
BATCH = 64
# An oracle asks for this many batches at a time, so that the table is read once for all of them and texts of similar
# length share a batch. A killed run loses at most this many batches.
BATCHES_AT_ONCE = 16

Computation: TypeAlias = Callable[[Any], Any]


class RowValues:
    """One number per row from a model, computed in batches; use it as `losses=`.

    The model is in evaluation mode while it runs, and in its earlier mode afterwards. If a batch does not fit into the
    device's memory, it is split in half.
    """

    def __init__(self, loss: RowLoss, what: str, compute: Computation, *, batch: int, grad: bool = False) -> None:
        self.loss, self.what, self.batch = loss, what, whole("batch", batch)
        self._compute, self._grad = compute, grad

    @property
    def name(self) -> str:
        """What the numbers are, with a digest of the model's current weights."""
        return f"{self.what} of {type(self.loss.model).__name__} {model_digest(self.loss.model)}, {self.loss.facts}"

    def __call__(self, ids: Ints) -> Floats:
        """Return one value per row, in the order of `ids`."""
        ids = np.asarray(ids, np.int64)
        values = np.zeros(ids.size)
        self.loss.fetch(ids)
        order = np.argsort(-self.loss.sizes(ids), kind="stable")
        with evaluating(self.loss.model, self.loss.device) as device, torch.set_grad_enabled(self._grad):
            for start in range(0, ids.size, self.batch):
                places = order[start : start + self.batch]
                values[places] = self._batch_values(ids[places], device)
        return values

    def oracle(self, journal: str | Path | None = None, **options: Any) -> Oracle:
        """Return an `Oracle` of these values; its journal is valid only for this model with its current weights."""
        batch = self.batch * BATCHES_AT_ONCE
        return Oracle(self, **{"name": self.name, "journal": journal, "batch": batch, "retries": 0, **options})

    def _batch_values(self, ids: Ints, device: torch.device) -> Floats:
        try:
            values = self._compute(to_device(self.loss.prepare(ids), device))
            numbers: Floats = values.detach().double().cpu().numpy()
            return numbers
        except torch.OutOfMemoryError:
            if ids.size == 1:
                raise AnswerError(f"Row {ids[0]} alone does not fit into the memory of {device}.") from None
        half = ids.size // 2
        return np.concatenate([self._batch_values(ids[:half], device), self._batch_values(ids[half:], device)])


class RowLoss(RowValues, ABC):
    """The loss of each row under a model; `gradient_norms` differentiates it."""

    def __init__(self, model: Any, what: str, *, batch: int, device: str | None, facts: str = "") -> None:
        self.model, self.device, self.facts = model, device, facts
        super().__init__(self, what, lambda batch: self.compute(self.model, batch), batch=batch)

    @abstractmethod
    def prepare(self, ids: Ints) -> dict[str, Any]:
        """Return the rows as a batch: a dict with `inputs` and `labels`."""

    @abstractmethod
    def compute(self, model: Any, batch: dict[str, Any]) -> Any:
        """Return a tensor with one loss per row; `model` may be a copy of the model with other parameters."""

    def fetch(self, ids: Ints) -> None:
        """Read these rows ahead of `prepare`; a data set does not need this."""
        return None

    def sizes(self, ids: Ints) -> Ints:
        """Return the length of each row; rows of similar length share a batch."""
        return np.zeros(ids.size, np.int64)


class ClassifierLoss(RowLoss):
    """Cross-entropy of a classifier on the items of a data set."""

    def __init__(self, model: Any, dataset: Any, *, collate: Any, batch: int, device: str | None) -> None:
        self._dataset, self._collate = _dataset(dataset), collate or torch.utils.data.default_collate
        super().__init__(model, "cross-entropy", batch=batch, device=device)

    def prepare(self, ids: Ints) -> dict[str, Any]:
        """Collate the items of a batch."""
        batch = self._collate([self._dataset[int(row)] for row in ids])
        if isinstance(batch, Mapping):
            labels = batch.get("labels", batch.get("label"))
        else:
            labels = batch[1] if isinstance(batch, list | tuple) and len(batch) > 1 else None
        if labels is None:
            raise InputError(
                "The data set must have a label for each item: pairs of input and label, or a key named labels."
            )
        return {"inputs": inputs_of(batch), "labels": labels}

    def compute(self, model: Any, batch: dict[str, Any]) -> Any:
        """Return the cross-entropy of each row."""
        return cross_entropy(logits_of(call(model, batch["inputs"])).float(), batch["labels"], reduction="none")


class TextLoss(RowLoss):
    """The loss of a text model on the rows of a table."""

    def __init__(
        self, model: Any, tokenizer: Any, corpus: Corpus, text: str, target: str | None, what: str, **options: Any
    ) -> None:
        corpus.require_texts("text", text)
        self.corpus, self._tokenizer, self._text, self._target = corpus, tokenizer, text, target
        self._read: dict[str, dict[int, Any]] = {}
        self._max_length = options.pop("max_length") or longest(model, tokenizer)
        self._prefix, self._separator = options.pop("prefix"), options.pop("separator")
        facts = {"text": text, "target": target, "max_length": self._max_length, "prefix": self._prefix}
        super().__init__(model, what, **options, facts=repr({**facts, "separator": self._separator}))

    def fetch(self, ids: Ints) -> None:
        """Read these rows from the table in one pass."""
        rows = np.unique(ids)
        self._read = {self._text: dict(zip(rows.tolist(), self.corpus.texts(self._text, rows), strict=True))}
        if self._target is not None:
            self._read[self._target] = dict(zip(rows.tolist(), self.corpus.cells(self._target, rows), strict=True))

    def sizes(self, ids: Ints) -> Ints:
        """Return the lengths of the texts in characters."""
        values = (self._column(column, ids) for column in self._read)
        lengths = [[len(value) if isinstance(value, str) else 0 for value in column] for column in values]
        total: Ints = np.array(lengths, np.int64).sum(0)
        return total

    def _column(self, column: str | None, ids: Ints) -> list[Any]:
        values = self._read.get(str(column), {})
        if all(row in values for row in ids.tolist()):
            return [values[row] for row in ids.tolist()]
        return self.corpus.cells(str(column), ids)

    def _texts(self, column: str | None, ids: Ints) -> list[str]:
        values = self._column(column, ids)
        if any(value is None for value in values):
            raise InputError(f"The column {column} must have a text in every row; one of these rows has none.")
        return values

    def _source(self, ids: Ints) -> list[list[int]]:
        texts = [self._prefix + text for text in self._texts(self._text, ids)]
        tokens: list[list[int]] = self._tokenizer(texts, truncation=True, max_length=self._max_length)["input_ids"]
        return tokens


class SequenceLoss(TextLoss):
    """The mean loss per token of the target under a seq2seq model."""

    def prepare(self, ids: Ints) -> dict[str, Any]:
        """Tokenize and pad both sides; padding of the target does not count."""
        source = self._source(ids)
        texts = self._texts(self._target, ids)
        target = self._tokenizer(text_target=texts, truncation=True, max_length=self._max_length)["input_ids"]
        inputs = padded(source, self._tokenizer.pad_token_id or 0)
        mask = padded([[1] * len(tokens) for tokens in source], 0)
        return {"inputs": {"input_ids": inputs, "attention_mask": mask}, "labels": padded(target, IGNORED)}

    def compute(self, model: Any, batch: dict[str, Any]) -> Any:
        """Return the token-mean loss of each row."""
        labels = batch["labels"]
        shifted = self.model.prepare_decoder_input_ids_from_labels(labels=labels)
        return token_means(logits_of(call(model, {**batch["inputs"], "decoder_input_ids": shifted})), labels)


class CausalLoss(TextLoss):
    """The mean loss per token of a text, or of a target after a prompt, under a causal model."""

    def prepare(self, ids: Ints) -> dict[str, Any]:
        """Tokenize and pad on the right; the prompt and the padding do not count."""
        tokens, counted = [], []
        for prompt, target in self._pairs(ids):
            # If both are too long, the beginning of the prompt is cut off: its tokens do not count.
            tail = target[: self._max_length - bool(prompt)]
            head = prompt[max(0, len(prompt) + len(tail) - self._max_length) :]
            tokens.append(head + tail)
            counted.append([IGNORED] * len(head) + tail)
        inputs = padded(tokens, self._tokenizer.pad_token_id or 0)
        mask = padded([[1] * len(row) for row in tokens], 0)
        return {"inputs": {"input_ids": inputs, "attention_mask": mask}, "labels": padded(counted, IGNORED)}

    def _pairs(self, ids: Ints) -> list[tuple[list[int], list[int]]]:
        if self._target is None:
            return [([], tokens) for tokens in self._source(ids)]
        prompts = [self._prefix + text + self._separator for text in self._texts(self._text, ids)]
        targets = self._texts(self._target, ids)
        heads = self._tokenizer(prompts)["input_ids"]
        tails = self._tokenizer(targets, add_special_tokens=False)["input_ids"]
        end = [] if self._tokenizer.eos_token_id is None else [self._tokenizer.eos_token_id]
        return [(head, tail + end) for head, tail in zip(heads, tails, strict=True)]

    def compute(self, model: Any, batch: dict[str, Any]) -> Any:
        """Return the token-mean loss of each row; the logits at a position predict the next token."""
        logits = logits_of(call(model, batch["inputs"]))
        return token_means(logits[:, :-1], batch["labels"][:, 1:])


class TextClassifierLoss(TextLoss):
    """Cross-entropy of a text classifier; classes are numbers, or names from its configuration."""

    def prepare(self, ids: Ints) -> dict[str, Any]:
        """Tokenize and pad, and look up the classes."""
        source = self._source(ids)
        inputs = padded(source, self._tokenizer.pad_token_id or 0)
        mask = padded([[1] * len(tokens) for tokens in source], 0)
        labels = torch.tensor([self._class(value) for value in self._column(self._target, ids)])
        return {"inputs": {"input_ids": inputs, "attention_mask": mask}, "labels": labels}

    def compute(self, model: Any, batch: dict[str, Any]) -> Any:
        """Return the cross-entropy of each row."""
        return cross_entropy(logits_of(call(model, batch["inputs"])).float(), batch["labels"], reduction="none")

    def _class(self, value: Any) -> int:
        known: Mapping[str, int] = self.model.config.label2id or {}
        if str(value) in known:
            return int(known[str(value)])
        if str(value).isdecimal() and int(value) < self.model.config.num_labels:
            return int(value)
        refuse("target", f"a column of the model's {self.model.config.num_labels} classes", repr(value))


def classifier_loss(
    model: Any, dataset: Any, *, collate: Any = None, batch: int = 256, device: str | None = None
) -> ClassifierLoss:
    """Return the cross-entropy of each row under a torch classifier, for `select(losses=...)`.

    Args:
        model: A torch module that returns one logit per class.
        dataset: A torch data set of pairs (input, class) or of dicts with `labels`, or a pair of arrays or tensors.
        collate: A function that turns a list of items into a batch; by default torch's `default_collate`.
        batch: How many rows per batch.
        device: "cpu", "cuda" or "mps"; by default the model's current device.

    Returns:
        A callable that takes row numbers and returns one loss per row.

    Examples:
        >>> import torch
        >>> loss = classifier_loss(torch.nn.Linear(4, 3), (torch.ones(10, 4), torch.zeros(10, dtype=torch.long)))
        >>> loss(np.array([2, 7])).shape
        (2,)
    """
    return ClassifierLoss(model, dataset, collate=collate, batch=batch, device=device)


def text_loss(
    model: Any,
    source: Any,
    *,
    text: str = "text",
    target: str | None = None,
    tokenizer: Any = None,
    prefix: str = "",
    separator: str = "\n",
    max_length: int | None = None,
    batch: int = BATCH,
    device: str | None = None,
) -> TextLoss:
    """Return the loss of each row of a table of texts under a language model or text classifier.

    For a seq2seq model, the loss is the mean over the tokens of `target` given `text`. For a causal model, it is the
    mean over the tokens of `target` after the prompt `text`; without a target, over the tokens of `text`. For a
    classifier, it is the cross-entropy of the class in `target`. Padding and prompt do not count. A row with no token
    to predict has loss 0.

    Args:
        model: A folder, a name on the Hugging Face hub, or a transformers model, which also needs its `tokenizer`.
        source: A table, as `embed` takes it, or a dict of lists of texts.
        text: The column of texts.
        target: The column of targets: texts, or classes for a classifier.
        tokenizer: The model's tokenizer, if `model` is not a name.
        prefix: A text to put before every text, such as "translate English to German: ".
        separator: A text to put between prompt and target, for a causal model.
        max_length: The most tokens per text; by default as many as the model takes.
        batch: How many rows per batch.
        device: "cpu", "cuda" or "mps"; by default the best available, or the current device of a loaded model.

    Returns:
        A callable that takes row numbers and returns one loss per row.
    """
    if isinstance(model, str | Path):
        model, tokenizer, kind = load_scorer(model, device)
    else:
        kind = _kind_of(model)
    if tokenizer is None:
        refuse("tokenizer", "the tokenizer of the model, unless the model is a name", "None")
    if target is None and kind != "causal":
        refuse("target", f"a column of the table for a {kind} model", "None")
    corpus = open_corpus(source)
    if target is not None and kind != "classifier":
        corpus.require_texts("target", target)
    if target is not None:
        corpus.require("target", target)
    length = None if max_length is None else whole("max_length", max_length, least=2)
    options = {"max_length": length, "prefix": prefix, "separator": separator, "batch": batch, "device": device}
    kinds: dict[str, Callable[..., TextLoss]]
    kinds = {"seq2seq": SequenceLoss, "causal": CausalLoss, "classifier": TextClassifierLoss}
    what = "cross-entropy" if kind == "classifier" else f"{kind} loss"
    return kinds[kind](model, tokenizer, corpus, text, target, what, **options)


def token_means(logits: Any, labels: Any) -> Any:
    """Return the mean cross-entropy of each row over the positions that count; 0 if none does."""
    losses = cross_entropy(logits.float().transpose(1, 2), labels, reduction="none", ignore_index=IGNORED)
    return losses.sum(1) / (labels != IGNORED).sum(1).clamp(min=1)


def padded(rows: list[list[int]], filler: int) -> Any:
    """Return lists of numbers as one tensor, padded on the right."""
    width = max(1, *(len(row) for row in rows))
    matrix = np.full((len(rows), width), filler, np.int64)
    for place, row in enumerate(rows):
        matrix[place, : len(row)] = row
    return torch.from_numpy(matrix)


def _kind_of(model: Any) -> str:
    config = getattr(model, "config", None)
    if config is None:
        refuse("model", "a transformers model, or the name of one", type(model).__name__)
    if "ForSequenceClassification" in type(model).__name__:
        return "classifier"
    return "seq2seq" if getattr(config, "is_encoder_decoder", False) else "causal"


def _dataset(dataset: Any) -> Any:
    if isinstance(dataset, list | tuple) and len(dataset) == 2 and all(hasattr(part, "shape") for part in dataset):
        inputs, labels = (torch.as_tensor(part) for part in dataset)
        if len(inputs) != len(labels):
            refuse("dataset", "as many labels as inputs", f"{len(inputs)} inputs and {len(labels)} labels")
        return torch.utils.data.TensorDataset(inputs, labels)
    if hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__") and not isinstance(dataset, str | Path):
        return dataset
    refuse("dataset", "a torch data set, or a pair of inputs and labels", type(dataset).__name__)
