"""The inner loops of clustering in numpy, for installations without compiled ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from coresift.types import Floats, Ints, Singles

Labels: TypeAlias = NDArray[np.int32]

# How many numbers are compared with their centers at a time, so that they stay in a core's cache.
COMPARED = 1 << 17
# Squares below this have lost some or all of their digits in single precision.
TINY = 1e-30
# Centers stand in tiles of this many slots, and each slot keeps so many keys (`codes`), for 16 slots at a time. A row
# has fewer keys than RANKS.
SLOTS, KEPT, LANES, RANKS = 96, 2, 16, 256


@dataclass(frozen=True)
class Listing:
    """What settling keeps about every row: a list of centers, the two best of them (`labels`, `second`), the scores
    x·c − ‖c‖²/2 of these two, by how much the second is farther away (`margins`), and how far its own center had moved
    when that was measured (`since`)."""

    lists: Labels
    labels: Labels
    second: Labels
    scores: Singles
    margins: Singles
    since: Singles


def nearest_of(block: Singles, centers: Singles, options: Labels) -> tuple[Labels, Singles]:
    """Return for each row the nearest of a few centers, the first one on a tie, and its distance by differences."""
    labels = np.ascontiguousarray(options[:, 0])
    distances = _distances(block, centers, labels)
    for others in np.ascontiguousarray(options[:, 1:].T):
        away = _distances(block, centers, others)
        closer = away < distances
        labels, distances = np.where(closer, others, labels), np.where(closer, away, distances)
    return labels, distances


def score_listed(points: Singles, ids: Ints, table: Singles, lists: Labels) -> Singles:
    """Return the products of some points with the lines of the table on their lists, one line of `lists` per id."""
    rows = points[ids]
    scores, own = np.empty(lists.shape, np.float32), np.empty_like(rows)
    for place, centers in enumerate(np.ascontiguousarray(lists.T)):
        # "clip" avoids the copy that a check of the numbers would need; all of them are valid.
        np.take(table, centers, axis=0, out=own, mode="clip")
        np.einsum("ij,ij->i", rows, own, out=scores[:, place])
    return scores


def follow_lists(points: Singles, norms: Singles, ids: Ints, table: Singles, drift: Singles, listing: Listing) -> None:
    """Find the two best centers on the lists of some points, and store what `Listing` has about them."""
    lists, scores = listing.lists[ids], score_listed(points, ids, table, listing.lists[ids])
    places = np.argsort(-scores, axis=1, kind="stable")[:, :2]
    scores = np.take_along_axis(scores, places, axis=1)
    near, far = np.maximum(norms[ids] - 2 * scores.T, 0)
    listing.labels[ids], listing.second[ids] = np.take_along_axis(lists, places, axis=1).T
    listing.scores[ids], listing.margins[ids] = scores, np.sqrt(far) - np.sqrt(near)
    listing.since[ids] = drift[listing.labels[ids]]


def add_rows(block: Singles, labels: Labels, weights: Floats, sums: Floats, ids: Ints | None = None) -> None:
    """Add rows times their weights to the sums of their labels; only those with these numbers, if there are any."""
    from scipy.sparse import csr_array

    rows = block if ids is None else block[ids]
    order = np.argsort(labels, kind="stable")
    placed = labels[order]
    starts = np.flatnonzero(np.diff(placed, prepend=-1))
    shape = (len(starts), len(rows))
    gather = csr_array((np.asarray(weights, np.float64)[order], order, np.append(starts, len(order))), shape=shape)
    sums[placed[starts]] += gather @ rows


def add_scores(products: Singles, bias: Labels, first: int, shift: int, low: int, keys: Labels) -> None:
    """Keep the two highest keys of each slot, given the products of rows with a few tiles of centers.

    A key is the product plus the bias, shifted to the left, with the tile's number in its last bits; earlier tiles have
    higher keys. `keys` has for each 16 slots the highest keys, and then the second highest.
    """
    n, tiles = len(products), products.shape[1] // SLOTS
    new = products.astype(np.int32)
    new += bias
    new <<= shift
    new &= np.int32(~low)
    new = new.reshape(n, tiles, SLOTS)
    new |= (low - first - np.arange(tiles, dtype=np.int32))[:, None]
    best = new.max(axis=1)
    new[new == best[:, None]] = np.iinfo(np.int32).min  # no two keys of a slot are equal
    second = new.max(axis=1)
    parts = (n, SLOTS // LANES, LANES)
    best, second, kept = best.reshape(parts), second.reshape(parts), keys.reshape(n, SLOTS // LANES, KEPT, LANES)
    lower = np.minimum(kept[:, :, 0], best)
    kept[:, :, 0] = np.maximum(kept[:, :, 0], best)
    kept[:, :, 1] = np.maximum(np.maximum(kept[:, :, 1], second), lower)


def pick_few(keys: Labels, low: int, count: int) -> Labels:
    """Return for each row the centers with the highest keys, highest first; of equal keys, the first in the line."""
    # A rank is a key with its slot: higher for a higher key, and on a tie for the first slot.
    ranks = keys.astype(np.int64) * RANKS + np.arange(RANKS - 1, RANKS - 1 - keys.shape[1], -1)
    best = np.sort(np.partition(ranks, -count, axis=1)[:, -count:], axis=1)[:, ::-1]
    slots, tiles = RANKS - 1 - best % RANKS, low - (best // RANKS & low)
    return np.asarray(tiles * SLOTS + slots // (KEPT * LANES) * LANES + slots % LANES, np.int32)


def _distances(block: Singles, centers: Singles, labels: Labels) -> Singles:
    squared = np.empty(len(block), np.float32)
    step = max(64, COMPARED // block.shape[1])
    difference = np.empty((min(step, len(block)), block.shape[1]), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(block), step):
            piece = block[start : start + step]
            here = difference[: len(piece)]
            np.take(centers, labels[start : start + step], axis=0, out=here, mode="clip")
            np.subtract(piece, here, out=here)
            np.einsum("ij,ij->i", here, here, out=squared[start : start + step])
    distances = np.sqrt(squared)
    tiny = np.flatnonzero(squared < TINY)
    if tiny.size:
        exact = block[tiny].astype(np.float64) - centers[labels[tiny]]
        distances[tiny] = np.sqrt(np.einsum("ij,ij->i", exact, exact))
    return distances
