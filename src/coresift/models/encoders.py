"""Encoders of items: sentence-transformers models, transformers encoders, and any torch module."""

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
    """Turns items into vectors; `facts` has everything else that the vectors depend on."""

    facts: dict[str, str]

    def encode(self, items: Sequence[Any]) -> Singles:
        """Return one vector per item."""


class TextEncoder:
    """An encoder of texts; the model is loaded from its folder when it is first used.

    A sentence-transformers model pools and normalizes as its configuration says, unless `pooling` or `normalize` say
    otherwise. A plain transformers encoder pools by the mean over tokens and does not normalize.
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
        """The folder of the model."""
        return self._folder

    @property
    def device(self) -> torch.device:
        """The device that the model runs on."""
        return self._device

    def encode(self, items: Sequence[str]) -> Singles:
        """Return one vector per text."""
        if self._forward is None:
            self._forward = self._load_sentence() if self._sentence else self._load_plain()
        with torch.inference_mode():
            vectors = self._forward(list(items)).float()
            if self._normalize:
                vectors = torch.nn.functional.normalize(vectors, dim=1)
            embeddings: Singles = vectors.cpu().numpy()
        return embeddings

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
    """Any torch module as an encoder: one vector per row, from its output or from the input of a layer."""

    def __init__(self, model: Any, *, layer: Any = None, collate: Any = None) -> None:
        self._model, self._layer, self._collate = model, layer, collate or torch.utils.data.default_collate
        self.facts = {"model": model_digest(model), "layer": "output" if layer is None else layer_name(model, layer)}

    def encode(self, items: Sequence[Any]) -> Singles:
        """Return one vector per item; an item may be a pair of an input and a label, which is ignored."""
        inputs = inputs_of(self._collate(list(items)))
        with evaluating(self._model) as device, torch.inference_mode():
            if self._layer is None:
                output = logits_of(call(self._model, to_device(inputs, device)))
            else:
                with tapped(self._layer) as seen:
                    call(self._model, to_device(inputs, device))
                output = seen[-1]
            vectors: Singles = output.reshape(len(items), -1).float().cpu().numpy()
        return vectors


def last_linear(model: Any) -> Any:
    """Return the last linear layer of a model, in the order of its definition."""
    layers = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    return layers[-1] if layers else refuse("model", "one with a linear layer", type(model).__name__)


def layer_name(model: Any, layer: Any) -> str:
    """Return the name of a layer in its model."""
    names: list[str] = [name for name, module in model.named_modules() if module is layer]
    return names[0] if names else refuse("layer", "one of the model's own modules", type(layer).__name__)


def model_digest(model: Any) -> str:
    """Return a fingerprint of a model's class and all its parameters and buffers."""
    state = [np.frombuffer(type(model).__name__.encode(), np.uint8)]
    for name, values in model.state_dict().items():
        state.append(np.frombuffer(name.encode(), np.uint8))
        state.append(values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest(*state)


@contextmanager
def evaluating(model: Any, device: str | None = None) -> Iterator[torch.device]:
    """Put a model into evaluation mode on a device, and restore the mode of every module afterwards."""
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
    """Collect the inputs of a layer."""
    seen: list[Any] = []
    handle = layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        yield seen
    finally:
        handle.remove()


def call(model: Any, inputs: Any) -> Any:
    """Call a model with a mapping, a list, or a single input."""
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, list | tuple) else model(inputs)


def logits_of(output: Any) -> Any:
    """Return the main tensor of a model's output."""
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
    """Move all tensors of a batch to a device."""
    if isinstance(batch, Mapping):
        return {name: to_device(value, device) for name, value in batch.items()}
    if isinstance(batch, list | tuple):
        return [to_device(value, device) for value in batch]
    return batch.to(device) if isinstance(batch, torch.Tensor) else batch


def longest(model: Any, tokenizer: Any) -> int:
    """Return the most tokens that a model can take."""
    places = getattr(model.config, "max_position_embeddings", None) or getattr(model.config, "n_positions", None)
    # RoBERTa models reserve the first two positions.
    places = places - 2 if places is not None and getattr(model.config, "model_type", "") in ROBERTAS else places
    known = [size for size in (places, tokenizer.model_max_length) if size is not None and size < 1e9]
    return int(min(known, default=LONGEST))


ROBERTAS = ("roberta", "xlm-roberta", "camembert")
