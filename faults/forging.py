"""Selection files whose manifest was changed, with the digest that a forger would compute."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa


def forge(source: Path, target: Path, changes: dict[str, Any]) -> None:
    """Write a .jsonl selection with other values in its manifest, wherever their names stand in it."""
    _write(source, target, lambda manifest: merged(manifest, changes))


def forge_at(source: Path, target: Path, place: Sequence[Any], value: Any) -> None:
    """Write a .jsonl selection with another value at one place of its manifest."""

    def change(manifest: dict[str, Any]) -> dict[str, Any]:
        changed: Any = copy.deepcopy(manifest)
        inside = changed
        for step in place[:-1]:
            inside = inside[step]
        inside[place[-1]] = value
        found: dict[str, Any] = changed
        return found

    _write(source, target, change)


def leaves(value: Any, place: tuple[Any, ...] = ()) -> list[list[Any]]:
    """Return where values stand in a manifest: all of them, containers too."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    own = [list(place)] if place and place != ("digest",) else []
    return own + [found for step, one in inner for found in leaves(one, (*place, step))]


def merged(manifest: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest with the changes, wherever their names stand in it."""
    changed = {name: merged(value, changes) if isinstance(value, dict) else value for name, value in manifest.items()}
    for name, value in changes.items():
        if name in changed:
            deep = isinstance(value, dict) and isinstance(changed[name], dict)
            changed[name] = merged(changed[name], value) if deep else value
    return changed


def _write(source: Path, target: Path, change: Any) -> None:
    lines = source.read_text().splitlines()
    first = json.loads(lines[0])
    manifest = change(json.loads(first["coresift"]))
    manifest["digest"] = right_digest(lines, manifest) or manifest["digest"]
    first["coresift"] = json.dumps(manifest)
    target.write_text("\n".join([json.dumps(first), *lines[1:]]) + "\n")


def right_digest(lines: list[str], manifest: dict[str, Any]) -> str | None:
    """Return the digest of what this file would be read as, if anything is."""
    from coresift.storage import _digest, _schema, _selection
    from coresift.tables.textual import fitted

    try:
        cells = [{name: value for name, value in json.loads(line).items() if name != "coresift"} for line in lines]
        table = fitted(pa.Table.from_pylist(cells), _schema(manifest))
        return _digest(_selection(table, manifest), manifest)
    except Exception:  # a value that no selection can be made of needs no digest
        return None
