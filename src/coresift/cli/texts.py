"""From a table of texts to training data; the result of each stage is kept and reused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import coresift as cs
from coresift.checks import InputError
from coresift.cli.embedding import set_threads
from coresift.cli.files import describe
from coresift.cli.origins import keep_origin
from coresift.cli.showing import show_facts
from coresift.progress import choose
from coresift.recipes.arguments import Job, Options, settle
from coresift.selection import make_clustering
from coresift.storage import SELECTION_SUFFIXES
from coresift.tables.writing import check_target
from coresift.types import digest


@dataclass(frozen=True)
class TextSources:
    """Where rows and losses come from if they are computed from texts."""

    text: str
    target: str | None
    embed_model: str | None
    loss_model: str | None
    gradient: bool
    prefix: str
    max_length: int | None
    device: str | None

    def refuse_any(self, work: Path | None) -> None:
        """Refuse flags that are only for tables of texts."""
        values: dict[str, object] = {"--target": self.target, "--embed-model": self.embed_model}
        values |= {"--loss-model": self.loss_model, "--gradient": self.gradient, "--work": work}
        values |= {"--max-length": self.max_length, "--device": self.device, "--prefix": self.prefix}
        for flag in (flag for flag, value in values.items() if value):
            raise InputError(f"{flag} is for tables of texts; name the column with --text.")

    def check(self, losses: Path | None, column: str | None) -> None:
        """Refuse flags that contradict each other."""
        if self.embed_model is None:
            raise InputError("--text needs --embed-model, the encoder that computes the embeddings.")
        if column is not None:
            raise InputError("--column is for tables that have embeddings; leave it out with --text.")
        if losses is not None and self.loss_model is not None:
            raise InputError("--losses and --loss-model both give losses; leave one of them out.")
        for flag, value in (("--target", self.target), ("--gradient", self.gradient), ("--prefix", self.prefix)):
            if value and self.loss_model is None:
                raise InputError(f"{flag} needs --loss-model.")


def select_texts(
    table: str,
    sources: TextSources,
    losses: Path | None,
    out: Path,
    work: Path | None,
    budget: int | None,
    seed: int,
    column: str | None,
    id_column: str | None,
    threads: int | None,
    engine: cs.engines.Local | cs.engines.Ray,
    options: Options,
) -> None:
    """Embed, cluster, ask, select, and write the selected rows of the table with their weights."""
    from coresift.models.corpus import open_corpus
    from coresift.models.keeping import kept_losses

    sources.check(losses, column)
    check_target(out, SELECTION_SUFFIXES, "a selection")
    set_threads(threads)
    corpus = open_corpus(table, id_column=id_column)
    folder = work or out.with_suffix(".work")
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(options.get("strata"), str):
        options["strata"] = corpus.labels(str(options["strata"]))
    asked: Any = losses
    if sources.loss_model is not None:
        asked = kept_losses(
            sources.loss_model,
            corpus,
            folder,
            text=sources.text,
            target=sources.target,
            gradient=sources.gradient,
            prefix=sources.prefix,
            max_length=sources.max_length,
            device=sources.device,
        )
    rows, path, note = _embedded(corpus, sources, folder, engine)
    facts = [("embeddings", note)]
    job = settle(rows, budget, seed, asking=asked is not None, **options)
    options["clusters"], note = _clustered(job, folder, engine)
    options["z"], options["normalize"] = job.z, job.normalize
    facts.append(("clusters", note))
    picked = cs.select(rows, asked, budget, seed, engine=engine, **options)
    cs.save(picked, out, table=corpus.take(picked.ids))
    keep_origin(folder, out, embeddings=path, table=table)
    if asked is not None and sources.loss_model is not None:
        facts.append(("losses", asked.kept))
    show_facts(f"Wrote {out}", [*describe(picked, out), *facts])


def _embedded(
    corpus: Any, sources: TextSources, folder: Path, engine: cs.engines.Local | cs.engines.Ray
) -> tuple[cs.rows.Rows, Path, str]:
    """Return the embeddings of these texts, computed or reused, and where they are."""
    from coresift.models.embedding import embed_items, facts_of, text_encoder
    from coresift.models.items import Texts

    encoder = text_encoder(str(sources.embed_model), {"max_length": sources.max_length}, sources.device, engine)
    texts = Texts(corpus, sources.text)
    path = folder / f"embeddings-{_name(facts_of(texts, encoder, 'float16'))}"
    there = path.exists()
    rows = embed_items(texts, encoder, path, batch=64, dtype="float16", progress=None)
    return rows, path, f"{rows.n:,} of {rows.d:,} numbers, {'reused from' if there else 'written to'} {path}"


def _clustered(job: Job, folder: Path, engine: cs.engines.Local | cs.engines.Ray) -> tuple[cs.Clustering, str]:
    """Return the clustering that `select` would make, computed or reused."""
    if job.clustering is not None:
        return job.clustering, f"{job.clustering.k:,}, given"
    before = set(folder.glob("clustering-*.npz"))
    clustering = make_clustering(job, engine, choose(None), folder)
    source = "reused from" if set(folder.glob("clustering-*.npz")) == before else "written to"
    return clustering, f"{clustering.k:,}, {source} {folder}"


def _name(*facts: Any) -> str:
    return digest(np.frombuffer(repr(facts).encode(), np.uint8))[:12]
