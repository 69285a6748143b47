"""The command that turns texts into rows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

import coresift as cs
from coresift.cli.app import verb
from coresift.cli.flags import Address, Device, EngineName, IdColumn, MaxLength, computing
from coresift.cli.parsing import parse_engine
from coresift.cli.showing import show_facts, speaking, tell


@verb()
@speaking
def embed(
    table: Annotated[
        str,
        typer.Argument(metavar="TABLE", help="Texts: .parquet, .arrow, .csv, .jsonl, a folder of them or of datasets."),
    ],
    text: Annotated[str, typer.Option(metavar="COLUMN", help="The column of texts.")],
    model: Annotated[
        str, typer.Option(help="Folder or hub name of a sentence-transformers model or transformers encoder.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to write: rows for other commands, with the table's ids.")] = Path(
        "embeddings"
    ),
    id_column: IdColumn = None,
    pooling: Annotated[str | None, typer.Option(help="mean or cls (by default as the model says).")] = None,
    normalize: Annotated[
        bool | None, typer.Option(help="Whether to scale vectors to length 1 (by default as the model says).")
    ] = None,
    max_length: MaxLength = None,
    batch: Annotated[int, typer.Option(help="How many texts per batch.")] = 64,
    dtype: Annotated[str, typer.Option(help="float16 or float32.")] = "float16",
    device: Device = None,
    threads: Annotated[
        int | None,
        computing(help="Threads (by default one per core); another number may change the last digits of a vector."),
    ] = None,
    engine: EngineName = "local",
    address: Address = None,
) -> None:
    """Compute embeddings of a column of texts. If it is stopped, the same command continues.

    Example: coresift embed corpus.parquet --text en --model encoder --out embeddings
    """
    runner = parse_engine(engine, threads, address)
    set_threads(threads)
    there = out.exists()
    with telling_of_stop():
        rows = cs.models.embed(
            table,
            model,
            out,
            text=text,
            id_column=id_column,
            pooling=pooling,
            normalize=normalize,
            max_length=max_length,
            batch=batch,
            dtype=dtype,
            device=device,
            engine=runner,
        )
    ids = rows.id_name or "none, so rows are found by position; keep the table's order"
    facts = [("rows", f"{rows.n:,} of {rows.d:,} numbers"), ("ids", ids)]
    tell(wrote=str(out), rows=rows.n, dimension=rows.d, made_before=there)
    show_facts(f"{out} is complete already" if there else f"Wrote {out}", facts)


@contextmanager
def telling_of_stop() -> Iterator[None]:
    """Say what Ctrl-C leaves behind."""
    try:
        yield
    except KeyboardInterrupt:
        print("Stopped; the same command continues.", file=sys.stderr)
        raise


def set_threads(threads: int | None) -> None:
    """Set the number of threads that torch uses."""
    from coresift.checks import whole
    from coresift.models.extra import need

    if threads is not None:
        need("torch").set_num_threads(whole("threads", threads))
