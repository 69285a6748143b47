"""Calls the compiled loops of `kernels.c` and `products.c`.

They run without Python's lock, so several threads can use them at once.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.clustering.plain import SLOTS, Labels, Listing
from coresift.types import Floats, Ints, Singles

Bytes = NDArray[np.uint8]

# The most centers on a list, and the most candidates for a seed.
MOST_LISTED = 16
# Rows that seeding compares together.
TILE = 64


# The arguments of each compiled function: pointers to arrays, sizes, and numbers.
KINDS = {"p": ctypes.c_void_p, "s": ctypes.c_ssize_t, "d": ctypes.c_double}
SIGNATURES = {
    "nearest_of": "psssppspp",
    "score_listed": "pssspppsp",
    "follow_lists": "psspps" + "pps" + "pppppp",
    "add_rows": "pssspppps",
    "place_seeds": "pssssd" + "pppppp",
    "add_scores": "psspsssp",
    "pick_few": "psssp",
    "compare_bytes": "psspps" + "ssp",
    "has_bytes": "",
}


def _load() -> ctypes.CDLL | None:
    """Return the library that was built with this package, or None."""
    path = Path(__file__).with_name("_kernels.so")
    if not path.exists():
        return None
    try:
        library = ctypes.CDLL(str(path))
        for name, kinds in SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = [KINDS[kind] for kind in kinds], ctypes.c_ssize_t
    except (OSError, AttributeError):  # it was built for another system, or from other sources
        return None
    return library


LIBRARY = _load()
# Whether this processor has instructions for products of whole numbers of 8 bits.
BYTES = LIBRARY is not None and LIBRARY.has_bytes() == 1


def nearest_of(block: Singles, centers: Singles, options: Labels) -> tuple[Labels, Singles]:
    """Return for each row the nearest of a few centers, the first one on a tie, and its distance by differences."""
    block, centers = _lines(block), np.ascontiguousarray(centers, np.float32)
    options = np.ascontiguousarray(options, np.int32)
    labels, distances = np.empty(len(block), np.int32), np.empty(len(block), np.float32)
    _call("nearest_of", *_matrix(block), centers, options, options.shape[1], labels, distances)
    return labels, distances


def score_listed(points: Singles, ids: Ints, table: Singles, lists: Labels) -> Singles:
    """Return the products of some points with the lines of the table on their lists, one line of `lists` per id."""
    points, ids, table = _lines(points), _numbers(ids), np.ascontiguousarray(table, np.float32)
    lists, scores = np.ascontiguousarray(lists, np.int32), np.empty(lists.shape, np.float32)
    stride, _, d = _matrix(points)[1:]
    _call("score_listed", points, stride, len(ids), d, ids, table, lists, lists.shape[1], scores)
    return scores


def follow_lists(points: Singles, norms: Singles, ids: Ints, table: Singles, drift: Singles, listing: Listing) -> None:
    """Find the two best centers on the lists of some points, and store what `Listing` has about them."""
    points, ids, table = _lines(points), _numbers(ids), np.ascontiguousarray(table, np.float32)
    norms, drift = np.ascontiguousarray(norms, np.float32), np.ascontiguousarray(drift, np.float32)
    stride, _, d = _matrix(points)[1:]
    arrays = (listing.labels, listing.second, listing.scores, listing.margins, listing.since)
    count = listing.lists.shape[1]
    _call("follow_lists", points, stride, d, norms, ids, len(ids), table, listing.lists, count, drift, *arrays)


def add_rows(block: Singles, labels: Labels, weights: Floats, sums: Floats, ids: Ints | None = None) -> None:
    """Add rows times their weights to the sums of their labels; only those with these numbers, if there are any."""
    block, labels, ids = _lines(block), np.ascontiguousarray(labels, np.int32), None if ids is None else _numbers(ids)
    weights, (stride, _, d) = np.ascontiguousarray(weights, np.float64), _matrix(block)[1:]
    assert sums.dtype == np.float64  # it is changed in place
    assert sums.strides[1] == 8
    _call("add_rows", block, stride, len(labels), d, ids, labels, weights, sums, sums.strides[0] // 8)


def place_seeds(sample: Singles, first: int, draws: Floats, z: float, weights: Floats | None) -> Ints:
    """Return the positions of seeds: the first one, and one for each line of `draws`, as `seeding` says."""
    (n, d), (seeds, tries) = sample.shape, draws.shape
    assert tries <= MOST_LISTED
    width = -(-n // TILE) * TILE
    padded = np.zeros((width, d), np.float32)
    padded[:n] = sample
    tiles = np.ascontiguousarray(padded.reshape(-1, TILE, d).transpose(0, 2, 1))
    chosen, room = np.full(seeds + 1, first, np.int64), np.empty((tries + 1, width), np.float32)
    weights = None if weights is None else np.ascontiguousarray(weights, np.float64)
    options = (weights, np.ascontiguousarray(draws), chosen, room[0], room[1:], np.empty(n))
    return chosen[: _call("place_seeds", tiles, n, d, seeds + 1, tries, z / 2, *options)]


def add_scores(products: Singles, bias: Labels, first: int, shift: int, low: int, keys: Labels) -> None:
    """Keep the two highest keys of each slot, as `plain.add_scores` says."""
    n, width = products.shape
    assert keys.dtype == np.int32  # it is changed in place
    assert keys.flags.c_contiguous
    products, bias = np.ascontiguousarray(products, np.float32), np.ascontiguousarray(bias, np.int32)
    _call("add_scores", products, n, width // SLOTS, bias, first, shift, low, keys)


def compare_bytes(rows: Bytes, table: NDArray[np.int8], bias: Labels, shift: int, low: int, keys: Labels) -> None:
    """Keep the two highest keys of each slot over all tiles of a table (tiles × groups of columns × slots × 4)."""
    assert all(array.flags.c_contiguous for array in (rows, table, bias, keys))
    assert [str(array.dtype) for array in (rows, table, bias, keys)] == ["uint8", "int8", "int32", "int32"]
    _call("compare_bytes", rows, *rows.shape, table, bias, len(table), shift, low, keys)


def pick_few(keys: Labels, low: int, count: int) -> Labels:
    """Return for each row the centers with the highest keys, highest first; of equal keys, the first in the line."""
    assert count <= MOST_LISTED
    keys, places = np.ascontiguousarray(keys, np.int32), np.empty((len(keys), count), np.int32)
    _call("pick_few", keys, len(keys), low, count, places)
    return places


def _lines(block: Singles) -> Singles:
    """Return the block, or a copy if its lines are not contiguous or not aligned."""
    regular = block.dtype == np.float32 and block.flags.aligned and block.strides[1] == 4 and block.strides[0] % 4 == 0
    return block if regular else np.array(block, np.float32, order="C")


def _numbers(ids: Ints) -> Ints:
    return np.ascontiguousarray(ids, np.int64)


def _matrix(block: Singles) -> tuple[Singles, int, int, int]:
    """Return a matrix as a compiled function takes it: the array, numbers from one row to the next, rows, columns."""
    return block, block.strides[0] // 4, *block.shape


def _call(name: str, *arguments: Any) -> int:
    """Call a compiled function. The caller keeps the arrays alive, and has made sure of their types and sizes."""
    return int(getattr(LIBRARY, name)(*map(_as_c, arguments)))


def _as_c(argument: Any) -> Any:
    """Return the address of an array; numbers and None are passed as they are."""
    return argument.__array_interface__["data"][0] if isinstance(argument, np.ndarray) else argument
