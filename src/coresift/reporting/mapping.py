"""A map of the rows: two principal axes, the density of all rows on them, and the positions of some rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coresift.clustering.space import Axes, principal_axes, take
from coresift.engine import Engine, Local, Workers
from coresift.progress import Progress
from coresift.rows import Rows
from coresift.types import Floats, Ints, Singles, Value

WIDTH, HEIGHT = 240, 180
# The frame leaves out this part of the rows on either side; they are drawn on its edge.
BEYOND = 0.002
MARGIN = 0.05
LEARNED_FROM = 4096


@dataclass(frozen=True, eq=False)
class Map(Value):
    """Positions in a frame from 0 to 1, and the number of rows in each cell of the frame.

    `counts` has one line per row of cells, top first. `x` and `y` are positions of the chosen rows; `captured` is the
    share of the variance that the two axes show.
    """

    counts: NDArray[np.int64]
    x: Singles
    y: Singles
    captured: float


def draw_map(rows: Rows, ids: Ints, engine: Engine | None, progress: Progress) -> Map:
    """Project all rows onto two principal axes, count them in cells, and keep the positions of `ids`."""
    with (engine or Local()).open(progress) as workers:
        axes = _two_axes(rows, workers)
        frame = _Frame.around(_project(take(rows, _spread(rows.n), workers), axes))
        counts = np.zeros(WIDTH * HEIGHT, np.int64)
        tally = workers.map(rows, lambda _, block: frame.count(_project(block, axes)), name="drawing the map")
        for part in tally:
            counts += part
        places = frame.place(_project(take(rows, ids, workers), axes)) if ids.size else np.zeros((0, 2), np.float32)
    captured = float(axes.captured[min(1, len(axes.captured) - 1)])
    return Map(counts.reshape(HEIGHT, WIDTH), places[:, 0].copy(), places[:, 1].copy(), captured)


def shades(counts: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return counts as shades from 0 to 255, on a logarithmic scale so that small counts are visible, too.

    Counts are smoothed, more so if there are few rows: single rows would be specks.
    """
    if not counts.max():
        return np.zeros(counts.shape, np.uint8)
    spread = float(np.clip(np.sqrt(5 * counts.size / counts.sum()), 0.6, 4.0))
    reach = np.arange(-int(3 * spread), int(3 * spread) + 1)
    kernel = np.exp(-0.5 * (reach / spread) ** 2)
    smooth = counts.astype(np.float64)
    for axis in (0, 1):
        smooth = np.apply_along_axis(np.convolve, axis, smooth, kernel / kernel.sum(), mode="same")
    level = 50 * smooth / smooth.max()
    return np.asarray(np.round(255 * np.log1p(level) / np.log1p(50.0)), np.uint8)


@dataclass(frozen=True)
class _Frame:
    low: Floats
    high: Floats

    @classmethod
    def around(cls, points: Singles) -> _Frame:
        low, high = np.quantile(points.astype(np.float64), [BEYOND, 1 - BEYOND], axis=0)
        space = np.where(high > low, MARGIN * (high - low), 1.0)
        return cls(low - space, high + space)

    def place(self, points: Singles) -> Singles:
        """Return positions in the frame from 0 to 1, with the second axis upward."""
        inside = np.clip((points - self.low) / (self.high - self.low), 0, 1)
        inside[:, 1] = 1 - inside[:, 1]
        return np.asarray(inside, np.float32)

    def count(self, points: Singles) -> NDArray[np.int64]:
        places = self.place(points)
        columns = np.minimum((places[:, 0] * WIDTH).astype(np.int64), WIDTH - 1)
        lines = np.minimum((places[:, 1] * HEIGHT).astype(np.int64), HEIGHT - 1)
        return np.bincount(lines * WIDTH + columns, minlength=WIDTH * HEIGHT)


def _spread(n: int) -> Ints:
    return np.unique(np.linspace(0, n - 1, min(n, LEARNED_FROM)).round().astype(np.int64))


def _project(block: Singles, axes: Axes) -> Singles:
    points = axes.project(axes.shift(block))[:, :-1]
    return points if points.shape[1] == 2 else np.column_stack([points, np.zeros(len(points), np.float32)])


def _two_axes(rows: Rows, workers: Workers) -> Axes:
    """Return two axes (one, if rows are single numbers), with signs such that the largest component is positive."""
    if rows.d >= 4:
        axes = principal_axes(rows, np.random.default_rng(0), workers).first(2)
    else:
        axes = _few_axes(take(rows, _spread(rows.n), workers))
    assert axes.directions is not None
    signs = np.sign(np.take_along_axis(axes.directions, np.abs(axes.directions).argmax(axis=0)[None], axis=0))
    return Axes(
        axes.mean, axes.scale, axes.directions * np.where(signs == 0, 1, signs).astype(np.float32), axes.captured
    )


def _few_axes(sample: Singles) -> Axes:
    mean = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
    shifted = (sample - mean).astype(np.float64)
    scale = np.float32(2.0 ** np.frexp(float(np.abs(shifted).max()))[1])
    variance, directions = np.linalg.eigh(shifted.T @ shifted)
    captured = np.cumsum(np.maximum(variance[::-1], 0)) / (float(variance.sum()) or 1.0)
    return Axes(mean, scale, np.ascontiguousarray(directions[:, ::-1][:, :2], np.float32), captured[:2])
