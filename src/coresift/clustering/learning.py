"""Many centers from a sample: seeds drawn group by group, then steps that look only at nearby centers.

With k centers, seeding works in √k groups, and each seed is compared only with the rows of its own group. The steps
that follow compare a row only with the centers around its current one. Between them, centers that are hardly needed
move to clusters that are better split. All of this runs on principal axes if those capture most of the variance. With a
sample in proportion to k, the work grows about as k^1.5, not as k².
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from coresift.clustering.candidates import Cells, Stretch, best_two, runs_of
from coresift.clustering.exchange import exchange
from coresift.clustering.nearest import Codebook, Labels, nearest, with_bias
from coresift.clustering.refine import OVERSHOOT, pull, refine, sum_by_label
from coresift.clustering.seeding import seed_centers
from coresift.clustering.space import Axes, pieces_of
from coresift.engine import SerialWorkers, Workers
from coresift.inclusion import deal, parts
from coresift.progress import Progress
from coresift.rows import Rows, open_rows, refuse_bad_row
from coresift.types import Floats, Ints, Singles

# Rows per center that seeding uses; the steps that follow use the whole sample.
SEEDED_FROM = 24
# In a step, each row is compared with this many centers around its current one: with many every few steps, right after
# the cells were formed from the centers, and with fewer in between.
FEW, MANY, REGROUPED = 256, 512, 4
# If all centers together have at most this many numbers, each row is compared with all of them: a product with a matrix
# that fits into a core's cache takes hardly longer.
ALL = 2**16
MOST_STEPS = 24
# Steps end when one lowers the cost by less than this share: first for a part of the rows, then for all.
ROUGH_GAIN, LEAST_GAIN = 2e-3, 4e-4
# With at least this many rows per center, every fourth row is settled first.
ROUGHED_FROM, PART = 64, 4


@dataclass(frozen=True)
class Sample:
    """Rows of the data on a few axes (points with a last column of ones), and the squared length outside of them."""

    points: Singles
    rest: Singles

    @property
    def coordinates(self) -> Singles:
        """The points without the column of ones."""
        return self.points[:, :-1]


def draw_sample(rows: Rows, size: int, axes: Axes, rng: np.random.Generator, workers: Workers) -> Sample:
    """Read and project `size` random rows, or all of them in their order, a block at a time."""
    points = np.empty((size, len(axes) + 1), np.float32)
    rest = np.empty(size, np.float32)

    def project(block: Singles) -> tuple[Singles, Singles]:
        shifted = axes.shift(block)
        projected = axes.project(shifted)
        left = np.einsum("ij,ij->i", shifted, shifted) - np.einsum("ij,ij->i", projected[:, :-1], projected[:, :-1])
        return projected, left

    if size == rows.n:
        pieces = workers.map(rows, lambda _, block: project(block), name="reading a sample")
    else:
        ids = pieces_of(np.sort(rng.choice(rows.n, size, replace=False)), rows.block_rows)
        pieces = workers.pick(rows, ids, project, name="reading a sample")
    done = 0
    for projected, left in pieces:
        if not np.isfinite(left).all():
            refuse_bad_row(rows)
        end = done + len(projected)
        points[done:end], rest[done:end] = projected, np.maximum(left, 0)
        done = end
    return Sample(points, rest)


def learn_centers(
    sample: Sample, k: int, z: float, rng: np.random.Generator, workers: Workers, progress: Progress
) -> tuple[Singles, Labels]:
    """Return at most k centers in the sample's coordinates, and the center of each of its rows."""
    workers = workers.here
    centers, labels = _seed_in_groups(sample, k, z, rng, workers, progress)
    if len(labels) >= ROUGHED_FROM * k:
        # The first steps are the largest, and a part of the rows is enough for them.
        part = Sample(*(np.ascontiguousarray(array[::PART]) for array in (sample.points, sample.rest)))
        centers, _ = _settle(part, centers, labels[::PART], z, workers, ROUGH_GAIN)
    elif z == 2:
        centers, labels = _settle(sample, centers, labels, z, workers, ROUGH_GAIN)
    if z == 2:
        centers, labels = exchange(sample.points, centers, labels, _compared(centers), workers)
    return _settle(sample, centers, labels, z, workers, LEAST_GAIN)


def _seed_in_groups(
    sample: Sample, k: int, z: float, rng: np.random.Generator, workers: Workers, progress: Progress
) -> tuple[Singles, Labels]:
    coordinates = sample.coordinates
    count = round(np.sqrt(k))
    part = coordinates[rng.permutation(len(coordinates))[: SEEDED_FROM * 4 * count]]
    middles = part[seed_centers(part, count, z, rng, workers, progress)]
    middles, _ = refine(open_rows(part), middles, z, workers, steps=5)
    group, away = _nearest_of_all(coordinates, middles, workers)
    shares = np.bincount(group, away.astype(np.float64) ** z, len(middles)).astype(np.float64)
    members = [np.flatnonzero(group == number) for number in range(len(middles))]
    wanted = deal(k * parts(shares), np.array([len(ids) for ids in members]), k)
    tasks = list(zip(members, wanted.tolist(), rng.spawn(len(middles)), strict=True))

    def seed(task: tuple[Ints, int, np.random.Generator]) -> tuple[Singles, Labels]:
        ids, number, own_rng = task
        if not number:
            return coordinates[:0], np.zeros(0, np.int32)
        points = coordinates[ids]
        seen = points[own_rng.permutation(len(points))[: SEEDED_FROM * number]]
        seeds = seen[seed_centers(seen, number, z, own_rng, SerialWorkers(), Progress())]
        return seeds, nearest(points, Codebook.of(seeds))[0]

    centers, labels, done = [], np.zeros(len(coordinates), np.int32), 0
    for ids, (seeds, own) in zip(members, workers.each(tasks, seed, name="seeding centers"), strict=True):
        centers.append(seeds)
        if len(seeds):
            labels[ids] = own + np.int32(done)
        done += len(seeds)
    return np.concatenate(centers), labels


def _nearest_of_all(coordinates: Singles, centers: Singles, workers: Workers) -> tuple[Labels, Singles]:
    codebook = Codebook.of(centers)
    blocks = list(workers.map(open_rows(coordinates), lambda _, block: nearest(block, codebook)))
    return np.concatenate([labels for labels, _ in blocks]), np.concatenate([away for _, away in blocks])


def _settle(
    sample: Sample, centers: Singles, labels: Labels, z: float, workers: Workers, gain: float
) -> tuple[Singles, Labels]:
    """Move centers to the (weighted) means of their rows, and rows to the nearest centers around, until it settles.

    For z = 2, a row is compared again only if the centers have moved so far that it may belong to another one.
    """
    norms, plain = np.einsum("ij,ij->i", sample.coordinates, sample.coordinates), z == 2
    total, patience = float((norms + sample.rest).sum(dtype=np.float64)), _patience(sample)
    table, means, lowest, labels = with_bias(centers), centers, np.inf, labels.copy()
    sums, drift, due = np.zeros(table.shape), np.zeros(len(table), np.float32), np.zeros(len(labels), np.float32)
    for step in range(MOST_STEPS):
        if step % REGROUPED == 0:
            many = Cells.of(np.ascontiguousarray(table[:, :-1]), _compared(table), workers)
        cells = many.first(FEW) if step % REGROUPED else many
        # For z = 2, sums need only the rows that changed, few after the first steps; otherwise all weights change.
        active = np.flatnonzero(due <= drift[labels]) if plain else np.arange(len(labels))
        before = labels if plain and step else None
        sums = np.zeros(table.shape) if before is None else sums
        runs, cost = runs_of(cells.cell[labels[active]]), 0.0
        task = partial(_settle_run, sample, norms, table, cells, z, active, before)
        results = workers.each(runs, task, name="settling centers")
        for run, (run_labels, margins, run_cost, present, run_sums) in zip(runs, results, strict=True):
            labels[active[run.ids]] = run_labels
            due[active[run.ids]] = drift[run_labels] + patience * margins
            sums[present] += run_sums
            cost += run_cost
        means, explained = _means(means, sums)
        cost = total - explained if plain else cost
        if cost >= lowest * (1 - gain):
            break
        lowest, moved = cost, _move(table, means, z, beyond=step > 0)
        shift = np.linalg.norm(moved[:, :-1] - table[:, :-1], axis=1)
        drift, table = drift + shift + shift.mean(), moved
    return means, labels


def _compared(centers: Singles) -> int:
    """Return the number of centers that rows are compared with right after the cells were formed."""
    return len(centers) if centers.size <= ALL else MANY


def _patience(sample: Sample) -> np.float32:
    """Return how many times its margin centers may move before a row is compared again: the root of the number of
    dimensions that the rows really have, since a move in any direction has only such a part of its length towards a
    row. The number is (Σλ)²/Σλ² of the variances λ, the participation ratio."""
    spread = np.einsum("ij,ij->j", sample.coordinates, sample.coordinates)
    return np.float32(spread.sum() / (np.sqrt(spread @ spread) or 1.0))


def _settle_run(
    sample: Sample,
    norms: Singles,
    table: Singles,
    cells: Cells,
    z: float,
    active: Ints,
    before: Labels | None,
    run: Stretch,
) -> tuple[Labels, Singles, float, Ints, Floats]:
    """Return the new labels of a run's points, by how much the second center is farther away, their cost, and the
    weighted sums of the points of each label.

    With labels from before, the sums are the changes since then.
    """
    ids = active[run.ids]
    points = sample.points[ids]
    labels, _, *scores = best_two(points, table, cells, run)
    near, far = (np.maximum(norms[ids] - 2 * score, 0) for score in scores)
    margins = np.sqrt(far) - np.sqrt(near)
    if before is not None:
        changed = np.flatnonzero(labels != before[ids])
        twice, signs = np.concatenate([changed, changed]), np.repeat(np.array([1, -1], np.float32), len(changed))
        both = np.concatenate([labels[changed], before[ids[changed]]])
        return labels, margins, 0.0, *sum_by_label(points[twice], both, signs)
    squares = (near + sample.rest[ids]).astype(np.float64)
    cost = float((squares ** (z / 2)).sum())
    weights = np.ones(len(points)) if z == 2 else pull(np.sqrt(squares), z)
    return labels, margins, cost, *sum_by_label(points, labels, weights.astype(np.float32))


def _means(means: Singles, sums: Floats) -> tuple[Singles, float]:
    """Return the mean of each center's rows, as before where it has none, and the part of the rows' squares that the
    means explain; the column of ones has summed up the weights."""
    filled = sums[:, -1] > 0
    totals, weights = sums[filled, :-1], sums[filled, -1:]
    moved = means.copy()
    moved[filled] = totals / weights
    return moved, float((totals**2 / weights).sum())


def _move(table: Singles, means: Singles, z: float, *, beyond: bool) -> Singles:
    """Return the table with each center moved to the mean of its rows, or beyond; for z > 2, a part of the way."""
    length = 1 / (z - 1) if z > 2 else OVERSHOOT if beyond else 1.0
    return with_bias((table[:, :-1] + np.float32(length) * (means - table[:, :-1])).astype(np.float32))
