"""Rows in a folder of embeddings: .npy shards, a table of ids, and a manifest that lists them."""

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
    """Return the rows of a folder with an embeddings manifest."""
    manifest = read_manifest(folder)
    rows = rows_of_npy([folder / name for name in manifest["shards"]])
    if (rows.n, rows.d) != (manifest["rows"], manifest["dimension"]):
        raise InputError(
            f"{folder} has changed: its manifest says {manifest['rows']} rows of {manifest['dimension']} numbers."
        )
    if manifest["ids"] is None:
        return rows
    ids = open_table(folder / IDS, argument="ids")
    if ids.n != rows.n:
        raise InputError(f"{folder} has changed: there are {ids.n} ids for {rows.n} rows.")
    return Named(rows, ids, manifest["ids"])


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a folder."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
        names = [str(name) for name in manifest["shards"]]
        ids = None if manifest["ids"] is None else str(manifest["ids"])
        if manifest["format"] == FORMAT and names and all(Path(name).name == name for name in names):
            sizes = {name: int(manifest[name]) for name in ("rows", "dimension")}
            return {**manifest, **sizes, "shards": names, "ids": ids}
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        refuse("rows", f"a folder with a readable {MANIFEST}", f"{folder} ({type(error).__name__})")
    refuse("rows", f"a folder of embeddings of format {FORMAT}", f"{folder} of format {manifest['format']}")
