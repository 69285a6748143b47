"""Damage to bytes: what a disk, a crash or a hostile hand does to a file."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

# Values that stand at the edges of types, as text and as bytes.
WORDS = (
    b"-1",
    b"0",
    b"1e308",
    b"-1e-320",
    b"nan",
    b"inf",
    b"9" * 30,
    b"9" * 5_000,
    b"null",
    b"true",
    b'""',
    b"[]",
    b"{}",
    b"\xff\xfe",
    b"\x00",
    b"\x1b]0;x\x07",
    b"=1+1",
    b'"',
    b"'",
    b",",
    b"\r",
    b"[" * 3_000,
    b"\xe2\x80\xae",
    b"1_0",
)
EDGES = (0, 1, 0x7F, 0x80, 0xFF)
# Values that a place in a JSON file may have instead of its own.
OTHERS: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    2**63,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "7_0",
    "\ud800",
    "9" * 5_000,
    [],
    {},
    [[]],
    [None],
    {"a": {}},
)
DEEP = b"[" * 100_000
NUMBER = re.compile(rb"-?\d+(\.\d+)?(e-?\d+)?")


def damage(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the content with one kind of damage, more often near its beginning and end than in the middle."""
    changed = bytearray(content)
    ways = (_cut, _remove, _repeat, _swap, _edges, _edges, _flip, _flip, _word, _number, _integer)
    if content[:1] in (b"{", b"["):
        ways += 4 * (_value,)
    if content[:2] == b"PK" and rng.random() < 0.7:
        return _repacked(content, rng)
    for _ in range(int(rng.integers(1, 3))):
        if changed:
            ways[rng.integers(len(ways))](changed, rng)
    return bytes(changed)


def place(changed: bytearray, rng: np.random.Generator) -> int:
    """Return where: half of the time in the first or last part, where headers and footers are."""
    size = len(changed)
    near = min(size, 200)
    where = rng.integers(4)
    if where == 0:
        return int(rng.integers(near))
    return size - 1 - int(rng.integers(near)) if where == 1 else int(rng.integers(size))


def _cut(changed: bytearray, rng: np.random.Generator) -> None:
    del changed[place(changed, rng) :]


def _remove(changed: bytearray, rng: np.random.Generator) -> None:
    at = place(changed, rng)
    del changed[at : at + int(rng.integers(1, 40))]


def _repeat(changed: bytearray, rng: np.random.Generator) -> None:
    at = place(changed, rng)
    changed[at:at] = changed[at : at + int(rng.integers(1, 200))]


def _swap(changed: bytearray, rng: np.random.Generator) -> None:
    one, two, size = place(changed, rng), place(changed, rng), int(rng.integers(1, 60))
    changed[one : one + size], changed[two : two + size] = changed[two : two + size], changed[one : one + size]


def _edges(changed: bytearray, rng: np.random.Generator) -> None:
    for _ in range(int(rng.integers(1, 4))):
        changed[place(changed, rng)] = int(rng.choice(EDGES))


def _flip(changed: bytearray, rng: np.random.Generator) -> None:
    changed[place(changed, rng)] ^= 1 << int(rng.integers(8))


def _word(changed: bytearray, rng: np.random.Generator) -> None:
    at = place(changed, rng)
    changed[at : at + int(rng.integers(0, 12))] = WORDS[rng.integers(len(WORDS))]


def _number(changed: bytearray, rng: np.random.Generator) -> None:
    """Replace a number that is written in the file as text."""
    found = list(NUMBER.finditer(bytes(changed)))
    if found:
        one = found[rng.integers(len(found))]
        changed[one.start() : one.end()] = WORDS[rng.integers(10)]


def _integer(changed: bytearray, rng: np.random.Generator) -> None:
    """Replace four or eight bytes at an aligned place by a number that is too large or negative: offsets, lengths."""
    size = int(rng.choice([4, 8]))
    at = place(changed, rng) // size * size
    value = int(rng.choice([-1, 2 ** (8 * size - 1) - 1, -(2 ** (8 * size - 1)), 2**16, 2**30]))
    changed[at : at + size] = value.to_bytes(size, "little", signed=True)


def leaves(value: Any, place: tuple[Any, ...] = ()) -> list[list[Any]]:
    """Return where values stand in JSON: all of them, containers too, but not the whole."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    own = [list(place)] if place else []
    return own + [found for step, one in inner for found in leaves(one, (*place, step))]


def put(value: Any, place: Sequence[Any], new: Any) -> None:
    """Put another value at a place of JSON."""
    for step in place[:-1]:
        value = value[step]
    value[place[-1]] = new


def _value(changed: bytearray, rng: np.random.Generator) -> None:
    """Replace a value in a JSON file, or in one of its lines, by one of another type, or remove it."""
    whole = bytes(changed)
    start, stop = 0, len(whole)
    try:
        content = json.loads(whole)
    except (ValueError, RecursionError):
        start = whole.rfind(b"\n", 0, int(rng.integers(len(whole)))) + 1
        stop = whole.find(b"\n", start) % (len(whole) + 1)
        try:
            content = json.loads(whole[start:stop])
        except (ValueError, RecursionError):
            return
    places = leaves(content)
    if not places:
        return
    place, number = places[rng.integers(len(places))], int(rng.integers(len(OTHERS) + 2))
    put(content, place, "DEEP" if number >= len(OTHERS) else OTHERS[number])
    changed[start:stop] = json.dumps(content).encode().replace(b'"DEEP"', DEEP if number > len(OTHERS) else DEEP[:500])


def _repacked(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a zip file with damage to one of its entries, whose checksum is right."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(packed, "w") as other:
        entries = archive.infolist()
        chosen = int(rng.integers(len(entries)))
        for number, entry in enumerate(entries):
            own = archive.read(entry)
            how = zipfile.ZIP_DEFLATED if entry.compress_type else zipfile.ZIP_STORED
            other.writestr(entry.filename, damage(own, rng) if number == chosen else own, how)
    return packed.getvalue()
