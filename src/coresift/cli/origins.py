"""A note that select --text leaves in its work folder, so that report finds the embeddings and texts."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from coresift.tables.writing import write_bytes


@dataclass(frozen=True)
class Origin:
    """Where a selection comes from: a folder of embeddings, and the table of texts they were computed from."""

    embeddings: Path
    table: str


def work_folder(selection: Path) -> Path:
    """Return the work folder of a selection, unless --work named another."""
    return selection.with_suffix(".work")


def keep_origin(folder: Path, selection: Path, *, embeddings: Path, table: str) -> None:
    """Write down where a selection comes from."""
    facts = {
        "selection": _digest(selection),
        "embeddings": embeddings.name,
        "table": table if "://" in table else os.path.abspath(table),
    }
    write_bytes(json.dumps(facts, indent=1).encode() + b"\n", _note(folder, selection))


def find_origin(folder: Path, selection: Path) -> Origin | None:
    """Return where this selection comes from; None if there is no note, or if something has changed since."""
    try:
        facts = json.loads(_note(folder, selection).read_bytes())
        origin = Origin(folder / Path(facts["embeddings"]).name, str(facts["table"]))
        same = facts["selection"] == _digest(selection) and origin.embeddings.is_dir()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return origin if same else None


def _note(folder: Path, selection: Path) -> Path:
    return folder / f"{selection.name}.json"


def _digest(path: Path) -> str:
    return blake2b(path.read_bytes(), digest_size=12).hexdigest()
