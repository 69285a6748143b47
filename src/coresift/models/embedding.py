"""Compute embeddings: items in, float16 shards out, with ids and a manifest; a killed run continues where it stopped.

Items are encoded in windows of 65,536 rows, one shard per window, longest texts first, so that the texts of a batch
have similar lengths. The work is in `OUT.part`: finished shards, and the vectors of the current shard so far, in the
order of encoding. At the end the folder is renamed, so `OUT` is complete or does not exist.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from coresift.checks import InputError, refuse, whole
from coresift.engine import Engine
from coresift.models.corpus import open_corpus
from coresift.models.encoders import Encoder, ModuleEncoder, TextEncoder, evaluating, last_linear
from coresift.models.items import Items, Source, Texts, Window
from coresift.models.spread import SpreadEncoder, spread_texts
from coresift.models.vectors import VectorLog
from coresift.oracle.journal import Lines
from coresift.progress import Progress, choose, stage
from coresift.remote import Ray
from coresift.rows import Rows, open_rows
from coresift.rows.embedded import FORMAT, IDS, MANIFEST, read_manifest
from coresift.tables.writing import write_bytes, write_table
from coresift.types import Ints, digest

SHARD = 65_536
BATCH = 64
DTYPES = ("float16", "float32")


def embed(
    source: Any,
    model: Any,
    out: str | Path | None = None,
    *,
    text: str = "text",
    id_column: str | None = None,
    pooling: str | None = None,
    normalize: bool | None = None,
    max_length: int | None = None,
    batch: int = BATCH,
    dtype: str = "float16",
    collate: Any = None,
    device: str | None = None,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
) -> Rows:
    """Embed texts, or images and other inputs of a torch module.

    Args:
        source: For a text model, a list or a column of texts, or a table with the column `text`: a Parquet, Arrow, CSV
            or JSONL file, a folder or glob of them, a folder of `datasets`, an Arrow table or a `Dataset`. For a torch
            module, a tensor, an array or a data set of inputs, or of pairs of an input and a label.
        model: The folder or hub name of a sentence-transformers model or a transformers encoder, or a torch module.
        out: A folder to write; `open_rows(out)` and the command line take it as rows, with the table's ids. Called
            again with the same texts and options, it resumes after a kill, or finds that everything is done. None
            keeps the rows in memory.
        text: The column of texts.
        id_column: The column of ids, by default `id` if there is one.
        pooling: "mean" or "cls", by default as the model says.
        normalize: Whether to scale vectors to length 1, by default as the model says.
        max_length: The most tokens of a text to use, by default as many as the model takes.
        batch: How many items per batch; the items of a batch have similar lengths.
        dtype: "float16" or "float32".
        collate: How a list of items becomes a batch for a torch module, by default torch's own way.
        device: "cpu", "cuda" or "mps"; by default the fastest available, and for a torch module the one it is on.
        engine: With `Ray`, texts are encoded on its cluster, by one actor per GPU or, if there are none, per `threads`
            CPUs. The model must be in the same folder on all nodes.
        progress: Whether to show a progress bar.

    Returns:
        The rows.

    Examples:
        >>> import torch
        >>> embed(torch.eye(3), torch.nn.Linear(3, 2))
        Rows(n=3, d=2)
    """
    if isinstance(model, torch.nn.Module):
        _refuse_text_model(model)
        _refuse_text_options(pooling=pooling, max_length=max_length, id_column=id_column)
        if isinstance(engine, Ray):
            refuse("engine", "left out for a torch module, which is in this process", repr(engine))
        inner = ModuleEncoder(model, collate=collate)
        encoder: Encoder = _UnitLength(inner) if normalize else inner
        with evaluating(model, device):
            return embed_items(Items(source), encoder, out, batch=batch, dtype=dtype, progress=progress)
    texts = Texts(open_corpus(source, id_column=id_column), text)
    options: dict[str, Any] = {"pooling": pooling, "normalize": normalize, "max_length": max_length}
    encoder = text_encoder(model, options, device, engine)
    return embed_items(texts, encoder, out, batch=batch, dtype=dtype, progress=progress)


def text_encoder(model: Any, options: dict[str, Any], device: str | None, engine: Engine | None) -> Encoder:
    """Return an encoder of texts, in this process or on a cluster."""
    encoder = TextEncoder(model, **options, device=device)
    return spread_texts(encoder, options, device, engine) if isinstance(engine, Ray) else encoder


def last_layer(
    model: Any,
    dataset: Any,
    out: str | Path | None = None,
    *,
    layer: Any = None,
    batch: int = 256,
    dtype: str = "float32",
    collate: Any = None,
    device: str | None = None,
    progress: bool | Progress | None = None,
) -> Rows:
    """Return the inputs of the last linear layer of a model, or of `layer`, as one row per item.

    Args:
        model: A torch module.
        dataset: A tensor, an array or a data set of inputs, or of pairs of an input and a label.
        out: A folder to write, as in `embed`, or None to keep the rows in memory.
        layer: The layer, by default the last linear one.
        batch: How many items at a time.
        dtype: "float16" or "float32".
        collate: How a list of items becomes a batch, by default torch's own way.
        device: "cpu", "cuda" or "mps"; by default the one that the model is on.
        progress: Whether to show a progress bar.

    Returns:
        The rows.

    Examples:
        >>> import torch
        >>> network = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
        >>> last_layer(network, torch.ones(5, 4))
        Rows(n=5, d=3)
    """
    encoder = ModuleEncoder(model, layer=layer or last_linear(model), collate=collate)
    with evaluating(model, device):
        return embed_items(Items(dataset), encoder, out, batch=batch, dtype=dtype, progress=progress)


def embed_items(
    source: Source,
    encoder: Encoder,
    out: str | Path | None,
    *,
    batch: int,
    dtype: str,
    progress: bool | Progress | None,
) -> Rows:
    """Encode all items, in memory or to a folder."""
    whole("batch", batch)
    if dtype not in DTYPES:
        refuse("dtype", f"one of {', '.join(DTYPES)}", repr(dtype))
    if out is None:
        with _ending(encoder):
            return _in_memory(source, encoder, batch, dtype, choose(progress))
    folder = Path(out)
    facts = facts_of(source, encoder, dtype)
    if folder.exists():
        _check_same(folder, facts)
        return open_rows(folder)
    _check_parent(folder)
    with _ending(encoder):
        _write(folder, source, encoder, facts, batch, dtype, choose(progress))
    return open_rows(folder)


@contextmanager
def _ending(encoder: Encoder) -> Iterator[None]:
    """End the actors of the encoder, if it has any."""
    try:
        yield
    finally:
        if isinstance(encoder, SpreadEncoder):
            encoder.close()


def _encoded(encoder: Encoder, window: Window, cuts: list[Ints]) -> Iterator[tuple[Ints, Any]]:
    """Yield the positions and vectors of each batch."""
    items = (window.pick(places) for places in cuts)
    vectors = encoder.encode_all(items) if isinstance(encoder, SpreadEncoder) else map(encoder.encode, items)
    return zip(cuts, vectors, strict=True)


def facts_of(source: Source, encoder: Encoder, dtype: str) -> dict[str, str]:
    """Return everything that the embeddings depend on."""
    return {**encoder.facts, **source.facts(), "dtype": dtype}


def _in_memory(source: Source, encoder: Encoder, batch: int, dtype: str, progress: Progress) -> Rows:
    shards = []
    with stage(progress, source.what, source.n):
        for number, window in enumerate(source.windows(SHARD)):
            order, parts = longest_first(window.sizes), []
            for places, vectors in _encoded(encoder, window, list(batches(order, batch))):
                parts.append(_narrow(vectors, dtype, number * SHARD + places))
                progress.advance(places.size)
            shards.append(np.concatenate(parts)[np.argsort(order)])
    matrix = np.concatenate(shards)
    names = source.names(np.arange(source.n))
    if names is None or source.id_name is None:
        return open_rows(matrix)
    return open_rows(matrix).named(names, source.id_name)


def _write(
    folder: Path, source: Source, encoder: Encoder, facts: Mapping[str, str], batch: int, dtype: str, progress: Progress
) -> None:
    work = folder.with_name(folder.name + ".part")
    work.mkdir(exist_ok=True)
    journal = Lines(work / "journal.jsonl", "embeddings", facts)
    try:
        shards: list[str] = []
        finished = {str(entry["shard"]): entry["digest"] for entry in journal.entries}
        with stage(progress, source.what, source.n):
            for number, window in enumerate(source.windows(SHARD)):
                shards.append(f"embeddings-{number:05}.npy")
                path = work / shards[-1]
                if path.is_file() and finished.get(path.name) == _digest(path):
                    progress.advance(window.sizes.size)
                else:
                    _write_shard(path, window, encoder, number * SHARD, batch, dtype, progress)
                    journal.write({"shard": path.name, "digest": _digest(path)})
                path.with_suffix(".log").unlink(missing_ok=True)
        ids = source.names(np.arange(source.n))
        if ids is not None:
            _write_ids(work / IDS, ids)
        dimension = int(np.load(work / shards[0], mmap_mode="r", allow_pickle=False).shape[1])
        manifest = {"format": FORMAT, "rows": source.n, "dimension": dimension, "shards": shards, "dtype": dtype}
        manifest |= {"ids": source.id_name if ids is not None else None, "facts": dict(facts)}
        write_bytes(json.dumps(manifest, indent=1).encode() + b"\n", work / MANIFEST)
        os.replace(work, folder)
        (folder / "journal.jsonl").unlink()
    finally:
        journal.close()


def _write_shard(
    path: Path, window: Window, encoder: Encoder, start: int, batch: int, dtype: str, progress: Progress
) -> None:
    """Write a shard, continuing what an earlier run left."""
    order = longest_first(window.sizes)
    log = VectorLog(path.with_suffix(".log"), dtype)
    try:
        progress.advance(log.rows)
        for places, vectors in _encoded(encoder, window, list(batches(order[log.rows :], batch))):
            log.append(_narrow(vectors, dtype, start + places))
            progress.advance(places.size)
        _arrange(log.read(), path, order)
    finally:
        log.close()


def _arrange(encoded: NDArray[Any], path: Path, order: Ints) -> None:
    """Put the vectors of a window in the order of its rows, and write them atomically."""
    vectors = np.empty_like(encoded)
    vectors[order] = encoded
    aside = path.with_suffix(".tmp")
    with aside.open("wb") as file:
        np.save(file, vectors, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def _digest(path: Path) -> str:
    return digest(np.fromfile(path, np.uint8))


def _write_ids(path: Path, ids: list[Any]) -> None:
    import pyarrow as pa

    write_table(pa.table({"id": pa.array(ids)}), path)


def longest_first(sizes: Ints) -> Ints:
    """Return the positions of items, longest first, so that a lack of memory shows at once."""
    return np.argsort(-sizes, kind="stable")


def batches(order: Ints, size: int) -> Iterator[Ints]:
    """Split positions into batches."""
    return (order[start : start + size] for start in range(0, order.size, size))


def _narrow(vectors: NDArray[Any], dtype: str, ids: Ints) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        narrow = vectors.astype(dtype)
    bad = np.flatnonzero(~np.isfinite(narrow).all(1))
    if bad.size:
        fits = np.isfinite(vectors[bad[0]]).all()
        what = "a number too large for float16; use dtype float32" if fits else "a number that is not finite"
        raise InputError(f"The model's vectors must be finite; that of row {ids[bad[0]]} has {what}.")
    return narrow


class _UnitLength:
    def __init__(self, inner: Encoder) -> None:
        self._inner, self.facts = inner, {**inner.facts, "normalize": "True"}

    def encode(self, items: Sequence[Any]) -> Any:
        vectors = self._inner.encode(items)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(lengths == 0, 1, lengths)


def _check_same(folder: Path, facts: Mapping[str, str]) -> None:
    if not (folder / MANIFEST).is_file():
        raise InputError(f"{folder} exists and is not a folder of embeddings; give another folder.")
    before = read_manifest(folder).get("facts", {})
    parts = [f"{part}: {before.get(part)} then, {now} now" for part, now in facts.items() if before.get(part) != now]
    if parts:
        raise InputError(
            f"{folder} has embeddings of other texts or with other options ({'; '.join(parts)}); "
            "give another folder, or remove it first."
        )


def _check_parent(folder: Path) -> None:
    if not folder.parent.is_dir():
        raise InputError(f"There is no folder {folder.parent} to write {folder.name} in.")
    if not os.access(folder.parent, os.W_OK):
        raise InputError(f"The folder {folder.parent} is not one that you may write in.")


def _refuse_text_options(**options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            refuse(name, "left out for a torch module, which takes no texts", repr(value))


def _refuse_text_model(model: Any) -> None:
    """Refuse a loaded sentence-transformers model: only a folder says how it was loaded, and is the same tomorrow."""
    library = sys.modules.get("sentence_transformers")
    if library is not None and isinstance(model, library.SentenceTransformer):
        allowed = "the model's folder or hub name, or a torch module that takes tensors"
        refuse("model", allowed, "a loaded SentenceTransformer; pass its name, or save_pretrained() it to a folder")
