"""Rows in a folder of embeddings: .npy shards, the ids of their table, and a manifest that names them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from coresift.checks import InputError, refuse
from coresift.rows.arrays import rows_of_npy
from coresift.rows.base import Rows
from coresift.rows.views import Named
from coresift.tables.opening import open_table

MANIFEST = "embeddings.json"
IDS = "ids.parquet"
FORMAT = 1


def rows_of_embeddings(folder: Path) -> Rows:
    """Return the rows of a folder that has a manifest of embeddings in it."""
    facts = read_manifest(folder)
    rows = rows_of_npy([folder / name for name in facts["shards"]])
    if (rows.n, rows.d) != (facts["rows"], facts["dimension"]):
        raise InputError(
            f"{folder} has changed: its manifest says {facts['rows']} rows of {facts['dimension']} numbers."
        )
    if facts["ids"] is None:
        return rows
    ids = open_table(folder / IDS, argument="ids")
    if ids.n != rows.n:
        raise InputError(f"{folder} has changed: there are {ids.n} ids for {rows.n} rows.")
    return Named(rows, ids, facts["ids"])


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read what a folder says of itself."""
    try:
        facts: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
        names = [str(name) for name in facts["shards"]]
        ids = None if facts["ids"] is None else str(facts["ids"])
        if facts["format"] == FORMAT and names and all(Path(name).name == name for name in names):
            sizes = {name: int(facts[name]) for name in ("rows", "dimension")}
            return {**facts, **sizes, "shards": names, "ids": ids}
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        refuse("rows", f"a folder with a readable {MANIFEST}", f"{folder} ({type(error).__name__})")
    refuse("rows", f"a folder of embeddings of format {FORMAT}", f"{folder} of format {facts['format']}")
