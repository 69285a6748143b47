"""Store the single runs of a study in the repository, one line per run, so that a later process can continue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Facts = dict[str, Any]


def read(path: Path) -> list[Facts]:
    """Return the stored runs; an incomplete last line is ignored."""
    if not path.exists():
        return []
    lines = path.read_text().split("\n")
    return [json.loads(line) for line in lines[:-1]]


def append(path: Path, facts: Facts) -> None:
    """Append a run in one write; if a killed process left an incomplete line, the run starts a new line."""
    path.parent.mkdir(exist_ok=True)
    whole = path.read_bytes() if path.exists() else b""
    if whole and not whole.endswith(b"\n"):
        path.write_bytes(whole[: whole.rfind(b"\n") + 1])
    with path.open("a") as file:
        file.write(json.dumps(facts, separators=(",", ":")) + "\n")
