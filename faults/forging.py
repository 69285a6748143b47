"""Selection files whose manifest was changed, with the digest that a forger would compute."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from faults.mutating import put


def forge(source: Path, target: Path, changes: dict[str, Any]) -> None:
    """Write a .jsonl selection with other values in its manifest, wherever their names stand in it."""
    _write(source, target, lambda manifest: merged(manifest, changes))


def forge_at(source: Path, target: Path, place: Sequence[Any], value: Any) -> None:
    """Write a .jsonl selection with another value at one place of its manifest."""

    def change(manifest: dict[str, Any]) -> dict[str, Any]:
        changed = copy.deepcopy(manifest)
        put(changed, place, value)
        return changed

    _write(source, target, change)


def forge_state(path: Path, place: Sequence[Any], value: Any) -> None:
    """Put another value at a place of a state file (the first step is the line), with checksums that are right."""
    from coresift.oracle.lines import _checksum

    lines = state_lines(path)
    put(lines, place, value)
    before, content = "", b""
    for line in lines:
        body = json.dumps(line).encode()[:-1]
        before = _checksum(body, before)
        content += body + f', "sum": "{before}"}}\n'.encode()
    path.write_bytes(content)


def state_lines(path: Path) -> list[Any]:
    """Return the lines of a state file without their checksums."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "sum"} for line in lines]


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
    from coresift.tables.textual import fit_to_schema

    try:
        cells = [{name: value for name, value in json.loads(line).items() if name != "coresift"} for line in lines]
        table = fit_to_schema(pa.Table.from_pylist(cells), _schema(manifest))
        return _digest(_selection(table, manifest), manifest)
    except Exception:  # a value that no selection can be made of needs no digest
        return None
