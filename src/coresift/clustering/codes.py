"""Which few centers have the highest products with a row? Rows and centers are rounded to whole numbers of 8 bits.

Processors with instructions for such numbers find the centers four times as fast as in floating point. All others find
the same ones from products in floating point, since those are exact for small whole numbers. `Products` does without
rounding, for centers that 8 bits cannot tell apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from coresift.clustering.compiled import BYTES, Bytes, compare_bytes
from coresift.clustering.kernels import add_scores, pick_few
from coresift.clustering.plain import KEPT, SLOTS, Labels
from coresift.types import Floats, Singles

# The largest code, and sums of products of codes below this are exact in single precision.
LARGEST, EXACT = 127, 2**24
# The search compares codes of at most so many dimensions: with more, they would have fewer bits.
MOST_DIMENSIONS = 1024
# What is added to the codes of rows, since the instructions take those without a sign.
OFFSET = 128
# Columns of codes stand in groups of four, and so do rows.
GROUP = 4
# Scores are shifted to the left so far that they have about so many bits, since the last ones are overwritten.
BITS = 30
# How many rows have their keys in memory, and how many rows and tiles are multiplied at a time in floating point.
KEYS_AT_ONCE, ROWS_AT_ONCE, TILES_AT_ONCE = 512, 512, 12
# Coordinates of rows beyond so many times their root mean square are cut off, so that few large ones do not make all
# others coarse.
CUT = 16


def largest_of(points: Singles) -> float:
    """Return the largest coordinate of points that is not cut off."""
    typical = float(np.sqrt(np.mean(points**2, dtype=np.float64)))
    return min(float(np.abs(points).max()), CUT * typical)


@dataclass(frozen=True)
class Slots:
    """Centers in tiles of 96 slots, each of which keeps the two highest keys it has seen.

    So of three good centers with the same number modulo 96, one is lost. A key is the score of a center, shifted to the
    left, whose last bits say in which tile the center is (`low` has these bits); scores that differ only there count as
    equal. The score is the dot product of the row with the center plus `bias`.
    """

    k: int
    bias: Labels
    shift: int

    @property
    def tiles(self) -> int:
        """How many tiles there are."""
        return len(self.bias) // SLOTS

    @property
    def low(self) -> int:
        """The bits of a key that say in which tile the center is."""
        return (1 << (self.tiles - 1).bit_length()) - 1

    @classmethod
    def of(cls, bias: Floats, most: int) -> Slots:
        """Return slots for centers with these biases, if no dot product is larger than `most`.

        Only differences of biases matter, and a center whose bias is below the highest by twice as much is never best.
        """
        lowest, shift = -2 * most, max(BITS - (3 * most).bit_length(), 0)
        whole = np.full(-(-len(bias) // SLOTS) * SLOTS, -(2**BITS >> shift), np.int32)
        whole[: len(bias)] = np.rint(np.maximum(bias - bias.max(), lowest))
        return cls(len(bias), whole, shift)

    def keys(self, rows: int) -> Labels:
        """Return room for the keys of rows."""
        return np.full((rows, SLOTS * KEPT), np.iinfo(np.int32).min, np.int32)

    def add(self, products: Singles, first: int, keys: Labels) -> None:
        """Keep the best of some tiles, given their products."""
        bias = self.bias[first * SLOTS :][: products.shape[1]]
        add_scores(products, bias, first, self.shift, self.low, keys)

    def pick(self, keys: Labels, count: int) -> Labels:
        """Return the centers with the highest keys, highest first; the first one again if there are not so many."""
        found = pick_few(keys, self.low, count)
        return np.where(found < self.k, found, found[:, :1])


@dataclass(frozen=True)
class Codes:
    """Centers as whole numbers of 8 bits. A row's codes are its coordinates times `factor`, rounded.

    The table is tiles × groups of columns × slots × 4. `raised` are the biases if 128 is added to all codes of rows.
    """

    factor: np.float32
    largest: int
    table: NDArray[np.int8]
    slots: Slots
    raised: Labels

    @classmethod
    def of(cls, points: Singles, halves: Floats, largest: float) -> Codes:
        """Round the centers.

        Args:
            points: The centers' coordinates.
            halves: Half of each center's squared length, in all dimensions.
            largest: The largest coordinate of most rows; larger ones are cut off.
        """
        k, d = points.shape
        width, tiles = -(-d // GROUP) * GROUP, -(-k // SLOTS)
        most = max(1, min(LARGEST, isqrt((EXACT - 1) // d)))
        factor, of_centers = (np.float32(most / (top or 1.0)) for top in (largest, float(np.abs(points).max())))
        numbers = np.zeros((tiles * SLOTS, width), np.int8)
        numbers[:k, :d] = np.rint(points * of_centers)
        sums = numbers.astype(np.int32)
        slots = Slots.of(-halves * (float(factor) * float(of_centers)), most * int(np.abs(sums).sum(axis=1).max()))
        packed = numbers.reshape(tiles, SLOTS, width // GROUP, GROUP).transpose(0, 2, 1, 3)
        raised = slots.bias - OFFSET * sums.sum(axis=1, dtype=np.int32)
        return cls(factor, most, np.ascontiguousarray(packed), slots, raised)

    def best(self, points: Singles, count: int) -> Labels:
        """Return for each point the centers with the highest keys, highest first."""
        return _in_pieces(points, count, self._best)

    def _best(self, points: Singles, count: int) -> Labels:
        rows = self._round(points)
        keys = self.slots.keys(len(rows))
        if BYTES:
            compare_bytes(rows, self.table, self.raised, self.slots.shift, self.slots.low, keys)
        else:
            self._compare(rows, keys)
        return self.slots.pick(keys[: len(points)], count)

    def _round(self, points: Singles) -> Bytes:
        """Return the points' codes plus 128, with enough rows and columns for groups of four."""
        rows = np.full((-(-len(points) // GROUP) * GROUP, self.table.shape[1] * GROUP), OFFSET, np.uint8)
        # A row that is not finite gets any codes; its distance then shows it.
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = points * self.factor
            np.clip(scaled, -self.largest, self.largest, out=scaled)
            scaled += np.float32(OFFSET + 0.5)
            rows[: len(points), : points.shape[1]] = scaled
        return rows

    def _compare(self, rows: Bytes, keys: Labels) -> None:
        """Find the keys from products in floating point."""
        for first in range(0, len(self.table), TILES_AT_ONCE):
            tiles = self.table[first : first + TILES_AT_ONCE]
            numbers = tiles.transpose(0, 2, 1, 3).reshape(len(tiles) * SLOTS, -1).astype(np.float32)
            for start in range(0, len(rows), ROWS_AT_ONCE):
                own = rows[start : start + ROWS_AT_ONCE].astype(np.float32)
                own -= np.float32(OFFSET)
                self.slots.add(own @ numbers.T, first, keys[start : start + ROWS_AT_ONCE])


@dataclass(frozen=True)
class Products:
    """Centers in floating point, in a unit in which scores use all bits of a key."""

    table: Singles
    slots: Slots

    @classmethod
    def of(cls, points: Singles, halves: Floats, longest: float) -> Products:
        """Prepare centers for rows of at most this length."""
        k, d = points.shape
        most = longest * float(np.sqrt(2 * halves.max()))
        unit = 2.0 ** (BITS - 2) / (3 * most) if most > 0 else 1.0
        table = np.zeros((-(-k // SLOTS) * SLOTS, d), np.float32)
        table[:k] = points * np.float32(unit)
        return cls(table, Slots.of(-halves * unit, 2 ** (BITS - 2) // 3 + 1))

    def best(self, points: Singles, count: int) -> Labels:
        """Return for each point the centers with the highest keys, highest first."""
        return _in_pieces(points, count, self._best)

    def _best(self, points: Singles, count: int) -> Labels:
        keys = self.slots.keys(len(points))
        for start in range(0, len(points), ROWS_AT_ONCE):
            own = slice(start, start + ROWS_AT_ONCE)
            for first in range(0, self.slots.tiles, TILES_AT_ONCE):
                tiles = self.table[first * SLOTS : (first + TILES_AT_ONCE) * SLOTS]
                self.slots.add(points[own] @ tiles.T, first, keys[own])
        return self.slots.pick(keys, count)


def _in_pieces(points: Singles, count: int, best: Callable[[Singles, int], Labels]) -> Labels:
    pieces = [best(points[ids], count) for ids in _spans(len(points))]
    return pieces[0] if len(pieces) == 1 else np.concatenate([np.zeros((0, count), np.int32), *pieces])


def _spans(n: int) -> list[slice]:
    return [slice(start, start + KEYS_AT_ONCE) for start in range(0, n, KEYS_AT_ONCE)]
