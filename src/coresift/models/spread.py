"""Encoders on a Ray cluster: actors with a model each encode the batches, and the vectors come back in order."""

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
    """Several actors that all have the same encoder; `facts` are the facts of that encoder.

    There is one actor per GPU of the cluster; without GPUs, one per `engine.threads` CPUs.
    """

    def __init__(self, facts: dict[str, str], make: Callable[[], Callable[[Any], Any]], engine: Ray) -> None:
        self.facts = facts
        self._actors = Actors.filling(make, cpus=engine.threads or 1, address=engine.address)

    def encode(self, items: Sequence[Any]) -> Singles:
        """Return one vector per item."""
        (vectors,) = self.encode_all([items])
        return vectors

    def encode_all(self, batches: Iterable[Sequence[Any]]) -> Iterator[Singles]:
        """Yield the vectors of each batch, in order."""
        return self._actors.map(batches)

    def close(self) -> None:
        """Stop the actors."""
        self._actors.close()


def spread_texts(encoder: TextEncoder, options: dict[str, Any], device: str | None, engine: Ray) -> SpreadEncoder:
    """Return an encoder of texts on the cluster; the model's folder must have the same path on all nodes."""
    make = partial(_text_encoder, encoder.folder.absolute(), options, device, engine.threads or 1)
    return SpreadEncoder(encoder.facts, make, engine)


def _text_encoder(folder: Path, options: dict[str, Any], device: str | None, threads: int) -> Callable[[Any], Any]:
    torch.set_num_threads(threads)
    return TextEncoder(folder, **options, device=device).encode
