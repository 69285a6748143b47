"""Damage to bytes: what a disk, a crash or a hostile hand does to a file."""

from __future__ import annotations

import re

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
NUMBER = re.compile(rb"-?\d+(\.\d+)?(e-?\d+)?")


def damage(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the content with one kind of damage, more often near its beginning and end than in the middle."""
    changed = bytearray(content)
    ways = (_cut, _remove, _repeat, _swap, _edges, _edges, _flip, _flip, _word, _number, _integer)
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
