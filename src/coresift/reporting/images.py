"""Thumbnails for a page: pixels become PNG, and small encoded images stay as they are."""

from __future__ import annotations

import base64
import io
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIDE = 64
# An encoded image up to this size is used as it is; larger ones are scaled down if Pillow is installed.
SMALL = 6_000
# A small file can contain any number of pixels of one color; larger images are not opened.
MOST_PIXELS = 50_000_000
KINDS = {
    b"\x89PNG\r\n\x1a\n": "png",
    b"\xff\xd8\xff": "jpeg",
    b"GIF8": "gif",
    b"RIFF": "webp",
}


def thumbnail(value: Any) -> str | None:
    """Return a data URL for pixels (h×w or h×w×3, from 0 to 255 or from 0 to 1) or an encoded image, else None.

    >>> thumbnail(np.zeros((2, 2), np.uint8))[:22]
    'data:image/png;base64,'
    """
    if isinstance(value, dict):  # the format of the datasets library
        value = value.get("bytes")
    if isinstance(value, (bytes, bytearray)):
        return _encoded(bytes(value))
    if value is None:
        return None
    try:
        pixels = np.asarray(value)
    except ValueError:
        return None
    if pixels.ndim not in (2, 3) or not pixels.size or (pixels.ndim == 3 and pixels.shape[2] not in (1, 3)):
        return None
    if pixels.dtype.kind not in "uif":
        return None
    return _address("png", png(_shrunk(_bytes(pixels))))


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Return gray (h×w) or colored (h×w×3) pixels as a PNG file."""
    height, width = pixels.shape[:2]
    lines = np.column_stack([np.zeros(height, np.uint8), pixels.reshape(height, -1)])  # no filter on any line
    head = struct.pack(">IIBBBBB", width, height, 8, 0 if pixels.ndim == 2 else 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)


def _bytes(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if pixels.dtype == np.uint8:
        return pixels
    wide = np.nan_to_num(pixels.astype(np.float64))
    return np.clip(np.round(wide * (255 if wide.max() <= 1 else 1)), 0, 255).astype(np.uint8)


def _shrunk(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Average squares of pixels so that the longer side fits."""
    step = -(-max(pixels.shape[:2]) // SIDE)
    if step == 1:
        return pixels
    height, width = (max(1, side // step) for side in pixels.shape[:2])
    step_down, step_across = min(step, pixels.shape[0]), min(step, pixels.shape[1])
    cut = pixels[: height * step_down, : width * step_across].astype(np.float64)
    squares = cut.reshape(height, step_down, width, step_across, *pixels.shape[2:])
    return np.asarray(squares.mean(axis=(1, 3)), np.uint8)


def _encoded(content: bytes) -> str | None:
    kind = next((name for start, name in KINDS.items() if content.startswith(start)), None)
    if kind is None or len(content) <= SMALL:
        return None if kind is None else _address(kind, content)
    try:
        from PIL import Image
    except ImportError:
        return None
    try:
        with _without_warnings(), Image.open(io.BytesIO(content)) as image:
            image.draft("RGB", (SIDE, SIDE))  # a JPEG is then read at an eighth of its size
            if image.width * image.height > MOST_PIXELS:
                return None
            small = image.convert("RGB")
            small.thumbnail((SIDE, SIDE))
            return _address("png", png(np.asarray(small)))
    except Exception:  # a broken image can make Pillow raise anything
        return None


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Suppress Pillow's warnings about odd images, which are shown or left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _address(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
