"""Centers as whole numbers of 8 bits: which few of them have the highest products with a row.

Processors with instructions for such numbers find them four times as fast as in floating point. All others find the
same ones from products in floating point, since those are exact for small whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coresift.clustering.compiled import BYTES, Bytes, compare_bytes
from coresift.clustering.kernels import add_scores, pick_few
from coresift.clustering.plain import KEPT, SLOTS, Labels
from coresift.types import Floats, Singles

# The largest whole number, and of how many of them products in single precision are exact.
LARGEST, MOST_DIMENSIONS = 127, 1024
# What is added to the numbers of rows, since the instructions take those without a sign.
RAISED = 128
# Numbers stand in groups of four, and so do rows.
GROUP = 4
# The bias of a slot without a center, and the lowest bias of a center.
NO_CENTER, LOWEST = -(2**30), -(2**29)
# How many rows and tiles are multiplied at a time in floating point.
ROWS_AT_ONCE, TILES_AT_ONCE = 512, 12


# Coordinates beyond so many times their root mean square are cut off, so that few large ones do not make all others
# coarse.
CUT = 16


def largest_of(points: Singles) -> float:
    """Return the largest coordinate of points that is not cut off."""
    typical = float(np.sqrt(np.mean(points**2, dtype=np.float64)))
    return min(float(np.abs(points).max()), CUT * typical)


@dataclass(frozen=True)
class Codes:
    """Centers in tiles of 96 slots, ready for products.

    A row's numbers are its coordinates times `factor`. The score of a center is the product of both numbers plus its
    bias, −‖c‖²/2 in the same unit; `raised` is the bias if 128 is added to all numbers of the row. Keys are scores
    whose last bits say in which tile the center is (`low` has these bits), so scores that differ only in these bits
    count as equal. The table is tiles × groups of columns × slots × 4.
    """

    factor: np.float32
    table: NDArray[np.int8]
    bias: Labels
    raised: Labels
    low: int

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
        factor, own = (np.float32(LARGEST / (top or 1.0)) for top in (largest, float(np.abs(points).max())))
        numbers, bias = np.zeros((tiles * SLOTS, width), np.int8), np.full(tiles * SLOTS, NO_CENTER, np.int32)
        numbers[:k, :d] = np.rint(points * own)
        bias[:k] = np.rint(np.maximum(-halves * (float(factor) * float(own)), LOWEST))
        low = (1 << (tiles - 1).bit_length()) - 1
        packed = numbers.reshape(tiles, SLOTS, width // GROUP, GROUP).transpose(0, 2, 1, 3)
        raised = bias - RAISED * numbers.sum(axis=1, dtype=np.int32)
        return cls(factor, np.ascontiguousarray(packed), bias, raised, low)

    def best(self, points: Singles, count: int) -> Labels:
        """Return for each point the centers with the highest keys, highest first."""
        rows = self._round(points)
        keys = np.full((len(rows), SLOTS * KEPT), np.iinfo(np.int32).min, np.int32)
        if BYTES:
            compare_bytes(rows, self.table, self.raised, self.low, keys)
        else:
            self._compare(rows, keys)
        return pick_few(keys[: len(points)], self.low, count)

    def _round(self, points: Singles) -> Bytes:
        """Return the points as whole numbers plus 128, with enough rows and columns for groups of four."""
        rows = np.full((-(-len(points) // GROUP) * GROUP, self.table.shape[1] * GROUP), RAISED, np.uint8)
        # A row that is not finite gets any numbers; its distance then shows it.
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = points * self.factor
            np.clip(scaled, -LARGEST, LARGEST, out=scaled)
            scaled += np.float32(RAISED + 0.5)
            rows[: len(points), : points.shape[1]] = scaled
        return rows

    def _compare(self, rows: Bytes, keys: Labels) -> None:
        """Find the keys from products in floating point."""
        for first in range(0, len(self.table), TILES_AT_ONCE):
            tiles = self.table[first : first + TILES_AT_ONCE]
            numbers = tiles.transpose(0, 2, 1, 3).reshape(len(tiles) * SLOTS, -1).astype(np.float32)
            bias = self.bias[first * SLOTS :][: len(numbers)]
            for start in range(0, len(rows), ROWS_AT_ONCE):
                own = rows[start : start + ROWS_AT_ONCE].astype(np.float32)
                own -= np.float32(RAISED)
                add_scores(own @ numbers.T, bias, first, self.low, keys[start : start + ROWS_AT_ONCE])
