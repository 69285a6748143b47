"""Rows in a folder of embeddings: .npy shards, the ids of their table, and a manifest that names them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coresift.checks import InputError, refuse
from coresift.rows.arrays import ArrayRows, Opener, rows_of_npy
from coresift.rows.sources import ParquetPart
from coresift.rows.tables import names_of
from coresift.types import Ints

MANIFEST = "embeddings.json"
IDS = "ids.parquet"
FORMAT = 1

Namer: TypeAlias = Callable[[Ints], list[Any]]  # of ascending, perhaps repeated, row numbers


class NamedRows(ArrayRows):
    """Rows of arrays that have ids of their own beside them."""

    def __init__(self, openers: Sequence[Opener], counts: list[int], d: int, id_name: str, namer: Namer) -> None:
        super().__init__(openers, counts, d)
        self.id_name, self._namer = id_name, namer

    def names(self, ids: ArrayLike) -> list[Any] | None:
        """Return the own ids of these rows."""
        numbers = self._numbers(ids)
        order = np.argsort(numbers, kind="stable")
        found: NDArray[Any] = np.empty(numbers.size, object)
        found[order] = self._namer(numbers[order])
        return list(found)


def rows_of_embeddings(folder: Path) -> ArrayRows:
    """Return the rows of a folder that has a manifest of embeddings in it."""
    facts = read_manifest(folder)
    rows = rows_of_npy([folder / name for name in facts["shards"]])
    if (rows.n, rows.d) != (facts["rows"], facts["dimension"]):
        raise InputError(
            f"{folder} has changed: its manifest says {facts['rows']} rows of {facts['dimension']} numbers."
        )
    if facts["ids"] is None:
        return rows
    part = ParquetPart(folder / IDS)
    if part.count != rows.n:
        raise InputError(f"{folder} has changed: there are {part.count} ids for {rows.n} rows.")
    counts = [int(count) for count in np.diff(rows._bounds)]
    return NamedRows(rows._openers, counts, rows.d, facts["ids"], lambda ids: _names(part, ids))


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read what a folder says of itself."""
    try:
        facts: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
        names = [str(name) for name in facts["shards"]]
        if facts["format"] == FORMAT and names and all(Path(name).name == name for name in names):
            return {**facts, "ids": facts["ids"], "rows": int(facts["rows"]), "dimension": int(facts["dimension"])}
    except (OSError, ValueError, TypeError, KeyError) as error:
        refuse("rows", f"a folder with a readable {MANIFEST}", f"{folder} ({type(error).__name__})")
    refuse("rows", f"a folder of embeddings of format {FORMAT}", f"{folder} of format {facts['format']}")


def _names(part: ParquetPart, ids: Ints) -> list[Any]:
    return [name for batch in part.pick(["id"], 8192, ids) for name in names_of(batch.column(0))]
