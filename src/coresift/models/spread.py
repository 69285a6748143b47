"""Encoders on a Ray cluster: batches go to actors, each with its own model, and vectors come back in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from coresift.models.encoders import TextEncoder
from coresift.remote import Actors, Ray
from coresift.types import Singles


class SpreadEncoder:
    """An encoder in each of several actors; `facts` are those of the encoder that they all have.

    There is one actor for each GPU of the cluster or, without any, for each `engine.threads` of its CPUs.
    """

    def __init__(self, facts: dict[str, str], make: Callable[[], Callable[[Any], Any]], engine: Ray) -> None:
        self.facts = facts
        self._actors = Actors.filling(make, cpus=engine.threads or 1, address=engine.address)

    def encode(self, items: Sequence[Any]) -> Singles:
        """Return a vector an item."""
        (found,) = self.encode_all([items])
        return found

    def encode_all(self, batches: Iterable[Sequence[Any]]) -> Iterator[Singles]:
        """Yield the vectors of batches, in their order."""
        return self._actors.map(batches)

    def close(self) -> None:
        """End the actors."""
        self._actors.close()


def spread_texts(encoder: TextEncoder, options: dict[str, Any], device: str | None, engine: Ray) -> SpreadEncoder:
    """Have texts encoded on the cluster; all nodes need the model's folder under the same path."""
    make = partial(_text_encoder, encoder.folder.absolute(), options, device, engine.threads or 1)
    return SpreadEncoder(encoder.facts, make, engine)


def _text_encoder(folder: Path, options: dict[str, Any], device: str | None, threads: int) -> Callable[[Any], Any]:
    torch.set_num_threads(threads)
    return TextEncoder(folder, **options, device=device).encode
