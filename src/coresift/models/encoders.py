"""What turns items into vectors: sentence-transformers models, transformers encoders, and any torch module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from coresift.checks import refuse, whole
from coresift.models.loading import (
    LONGEST,
    POOLINGS,
    choose_device,
    find_model,
    fingerprint,
    load_encoder,
    load_sentence_encoder,
)
from coresift.types import Singles, digest


class Encoder(Protocol):
    """Turns items into one vector each; `facts` are everything else that the vectors depend on."""

    facts: dict[str, str]

    def encode(self, items: Sequence[Any]) -> Singles:
        """Return a vector an item."""


class TextEncoder:
    """An encoder of texts from a folder; the model is loaded when the first text comes.

    A sentence-transformers model pools and normalizes as it says itself, unless `pooling` or `normalize` say
    otherwise. A plain transformers encoder pools by the mean over tokens, and does not normalize.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        pooling: str | None = None,
        normalize: bool | None = None,
        max_length: int | None = None,
        device: str | None = None,
    ) -> None:
        if pooling is not None and pooling not in POOLINGS:
            refuse("pooling", f"one of {', '.join(POOLINGS)}", repr(pooling))
        self._folder, self._device = find_model(model), choose_device(device)
        self._sentence = (self._folder / "modules.json").is_file() and pooling is None
        self._pooling, self._normalize = pooling or "mean", normalize
        self._max_length = None if max_length is None else whole("max_length", max_length, least=3)
        self._forward: Callable[[list[str]], Any] | None = None
        self.facts = {
            "model": fingerprint(self._folder),
            "pooling": "the model's own" if self._sentence else self._pooling,
            "normalize": repr(normalize),
            "max_length": repr(self._max_length),
        }

    @property
    def folder(self) -> Path:
        """Where the model lies."""
        return self._folder

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return self._device

    def encode(self, items: Sequence[str]) -> Singles:
        """Return a vector per text."""
        if self._forward is None:
            self._forward = self._load_sentence() if self._sentence else self._load_plain()
        with torch.inference_mode():
            vectors = self._forward(list(items)).float()
            if self._normalize:
                vectors = torch.nn.functional.normalize(vectors, dim=1)
            found: Singles = vectors.cpu().numpy()
        return found

    def _load_sentence(self) -> Callable[[list[str]], Any]:
        model = load_sentence_encoder(self._folder, self._device, normalize=self._normalize is not False).eval()
        if self._max_length is not None:
            model.max_seq_length = self._max_length
        prepare = getattr(model, "preprocess", None) or model.tokenize

        def forward(texts: list[str]) -> Any:
            features = to_device(prepare(texts), self._device)
            return model(features)["sentence_embedding"]

        return forward

    def _load_plain(self) -> Callable[[list[str]], Any]:
        model, tokenizer = load_encoder(self._folder, self._device)
        most = self._max_length or longest(model, tokenizer)

        def forward(texts: list[str]) -> Any:
            features = tokenizer(texts, padding=True, truncation=True, max_length=most, return_tensors="pt")
            features = to_device(dict(features), self._device)
            states = model(**features).last_hidden_state
            if self._pooling == "cls":
                return states[:, 0]
            mask = features["attention_mask"].unsqueeze(-1).to(states.dtype)
            return (states * mask).sum(1) / mask.sum(1).clamp(min=1)

        return forward


class ModuleEncoder:
    """Any torch module, where it is, as an encoder: one vector per row, its output or the input of a layer."""

    def __init__(self, model: Any, *, layer: Any = None, collate: Any = None) -> None:
        self._model, self._layer, self._collate = model, layer, collate or torch.utils.data.default_collate
        self.facts = {"model": model_digest(model), "layer": "output" if layer is None else layer_name(model, layer)}

    def encode(self, items: Sequence[Any]) -> Singles:
        """Return a vector an item; an item may be a pair of an input and a label, which is left aside."""
        inputs = inputs_of(self._collate(list(items)))
        with evaluating(self._model) as device, torch.inference_mode():
            if self._layer is None:
                found = logits_of(call(self._model, to_device(inputs, device)))
            else:
                with tapped(self._layer) as seen:
                    call(self._model, to_device(inputs, device))
                found = seen[-1]
            vectors: Singles = found.reshape(len(items), -1).float().cpu().numpy()
        return vectors


def last_linear(model: Any) -> Any:
    """Return the last linear layer of a model, in the order of its definition."""
    layers = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    return layers[-1] if layers else refuse("model", "one with a linear layer", type(model).__name__)


def layer_name(model: Any, layer: Any) -> str:
    """Return what a layer is called in its model."""
    names: list[str] = [name for name, module in model.named_modules() if module is layer]
    return names[0] if names else refuse("layer", "one of the model's own modules", type(layer).__name__)


def model_digest(model: Any) -> str:
    """Return a fingerprint of a model's class and of all its numbers."""
    state = [np.frombuffer(type(model).__name__.encode(), np.uint8)]
    for name, values in model.state_dict().items():
        state.append(np.frombuffer(name.encode(), np.uint8))
        state.append(values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest(*state)


@contextmanager
def evaluating(model: Any, device: str | None = None) -> Iterator[torch.device]:
    """Have a model in evaluation mode on a device, and leave every part of it as it was."""
    modes = [(module, module.training) for module in model.modules()]
    first = next(iter(model.parameters()), None)
    home = torch.device("cpu") if first is None else first.device
    there = home if device is None else choose_device(device)
    try:
        model.eval()
        if there != home:
            model.to(there)
        yield there
    finally:
        if there != home:
            model.to(home)
        for module, training in modes:
            module.training = training


@contextmanager
def tapped(layer: Any) -> Iterator[list[Any]]:
    """Collect what goes into a layer."""
    seen: list[Any] = []
    handle = layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        yield seen
    finally:
        handle.remove()


def call(model: Any, inputs: Any) -> Any:
    """Run a model on inputs: by name, one after another, or a single one."""
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, list | tuple) else model(inputs)


def logits_of(output: Any) -> Any:
    """Return the tensor that a model's output is about."""
    for name in ("logits", "last_hidden_state"):
        if hasattr(output, name):
            return getattr(output, name)
    return output[0] if isinstance(output, list | tuple) else output


def inputs_of(batch: Any) -> Any:
    """Return the inputs of a batch, without labels."""
    if isinstance(batch, Mapping):
        return {name: values for name, values in batch.items() if name not in ("label", "labels", "weight")}
    return batch[0] if isinstance(batch, list | tuple) else batch


def to_device(batch: Any, device: torch.device) -> Any:
    """Move all tensors of a batch."""
    if isinstance(batch, Mapping):
        return {name: to_device(value, device) for name, value in batch.items()}
    if isinstance(batch, list | tuple):
        return [to_device(value, device) for value in batch]
    return batch.to(device) if isinstance(batch, torch.Tensor) else batch


def longest(model: Any, tokenizer: Any) -> int:
    """Return how many tokens a model can take at most."""
    places = getattr(model.config, "max_position_embeddings", None) or getattr(model.config, "n_positions", None)
    # Models of the RoBERTa kind keep the first places for themselves.
    places = places - 2 if places is not None and getattr(model.config, "model_type", "") in ROBERTAS else places
    known = [size for size in (places, tokenizer.model_max_length) if size is not None and size < 1e9]
    return int(min(known, default=LONGEST))


ROBERTAS = ("roberta", "xlm-roberta", "camembert")
