"""Many centers from a sample: seeds drawn group by group, then steps that look only at nearby centers.

With k centers, √k groups share the seeding, so each seed is compared with the rows of its own group alone; the
steps that follow compare a row with the centers around the one it is with. Both run on principal axes where those
capture most of the variance. The work grows about as k^1.5 with k rows' worth of sample, not as k².
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from coresift.clustering.candidates import Cells, Stretch, best, runs_of
from coresift.clustering.nearest import Codebook, Labels, nearest, with_bias
from coresift.clustering.refine import pull, refine, sum_by_label
from coresift.clustering.seeding import seed_centers
from coresift.clustering.space import Axes, pieces_of
from coresift.engine import Alone, Workers
from coresift.inclusion import deal, parts
from coresift.progress import Progress
from coresift.rows import Rows, open_rows, refuse_bad_row
from coresift.types import Floats, Ints, Singles

# Rows that a center's seeding looks at; the steps that follow look at the whole sample.
SEEDED_FROM = 24
# Centers that a row is compared with in a step, those around the one it is with: few as a rule, and many where a
# step has changed little or the cells have just followed the centers.
FEW, MANY = 64, 512
MOST_STEPS = 24
# The cells follow the centers at these steps; in between, candidates that are a little stale do no harm.
REGROUPED = (0, 3, 8, 16)
# Steps end when one lowers the cost by less than this part: first for a part of the rows, then for all.
ROUGH_GAIN, LEAST_GAIN = 3e-3, 2e-4
# With so many rows per center, every fourth row is settled first.
ROUGHED_FROM, PART = 64, 4


@dataclass(frozen=True)
class Sample:
    """Rows of the data on a few axes (points with a last column of ones), and what the axes leave of each, squared."""

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
        found = axes.project(shifted)
        left = np.einsum("ij,ij->i", shifted, shifted) - np.einsum("ij,ij->i", found[:, :-1], found[:, :-1])
        return found, left

    if size == rows.n:
        pieces = workers.map(rows, lambda _, block: project(block), name="reading a sample")
    else:
        ids = pieces_of(np.sort(rng.choice(rows.n, size, replace=False)), rows.block_rows)
        pieces = workers.pick(rows, ids, project, name="reading a sample")
    done = 0
    for found, left in pieces:
        if not np.isfinite(left).all():
            refuse_bad_row(rows)
        points[done : done + len(found)], rest[done : done + len(found)] = found, np.maximum(left, 0)
        done += len(found)
    return Sample(points, rest)


def learn_centers(
    sample: Sample, k: int, z: float, rng: np.random.Generator, workers: Workers, progress: Progress
) -> tuple[Singles, Labels]:
    """Return at most k centers in the sample's coordinates, and the center of each of its rows."""
    workers = workers.here
    centers, labels = _seed_in_groups(sample, k, z, rng, workers, progress)
    if len(labels) >= ROUGHED_FROM * k:
        # The first steps are the largest, and a part of the rows shows well enough where they go.
        part = Sample(*(np.ascontiguousarray(array[::PART]) for array in (sample.points, sample.rest)))
        centers, _ = _settle(part, centers, labels[::PART], z, workers, ROUGH_GAIN)
    return _settle(sample, centers, labels, z, workers, LEAST_GAIN)


def _seed_in_groups(
    sample: Sample, k: int, z: float, rng: np.random.Generator, workers: Workers, progress: Progress
) -> tuple[Singles, Labels]:
    coordinates = np.ascontiguousarray(sample.coordinates)
    count = round(np.sqrt(k))
    part = coordinates[rng.permutation(len(coordinates))[: SEEDED_FROM * 4 * count]]
    middles = part[seed_centers(part, count, z, rng, workers, progress)]
    middles, _ = refine(open_rows(part), middles, z, workers, steps=5)
    group, away = _nearest_of_all(coordinates, middles, workers)
    shares = np.bincount(group, away.astype(np.float64) ** z, len(middles)).astype(np.float64)
    members = [np.flatnonzero(group == number) for number in range(len(middles))]
    wanted = deal(k * parts(shares), np.array([len(some) for some in members]), k)
    tasks = list(zip(members, wanted.tolist(), rng.spawn(len(middles)), strict=True))

    def seed(task: tuple[Ints, int, np.random.Generator]) -> tuple[Singles, Labels]:
        some, number, own_rng = task
        if not number:
            return coordinates[:0], np.zeros(0, np.int32)
        points = coordinates[some]
        seen = points[own_rng.permutation(len(points))[: SEEDED_FROM * number]]
        seeds = seen[seed_centers(seen, number, z, own_rng, Alone(), Progress())]
        return seeds, nearest(points, Codebook.of(seeds))[0]

    found, labels, done = [], np.zeros(len(coordinates), np.int32), 0
    for some, (seeds, own) in zip(members, workers.each(tasks, seed, name="seeding centers"), strict=True):
        found.append(seeds)
        if len(seeds):
            labels[some] = own + np.int32(done)
        done += len(seeds)
    return np.concatenate(found), labels


def _nearest_of_all(coordinates: Singles, centers: Singles, workers: Workers) -> tuple[Labels, Singles]:
    codebook = Codebook.of(centers)
    found = list(workers.map(open_rows(coordinates), lambda _, block: nearest(block, codebook)))
    return np.concatenate([labels for labels, _ in found]), np.concatenate([away for _, away in found])


def _settle(
    sample: Sample, centers: Singles, labels: Labels, z: float, workers: Workers, gain: float
) -> tuple[Singles, Labels]:
    """Move centers to the (weighted) means of their rows and rows to the nearest centers around, until it rests."""
    points, own = sample.points, sample.coordinates
    norms = np.einsum("ij,ij->i", own, own) + sample.rest
    table, lowest, sums, stalled = with_bias(centers), np.inf, np.zeros(0), False
    for step in range(MOST_STEPS):
        wide = stalled or step in REGROUPED
        if wide:
            many = Cells.of(np.ascontiguousarray(table[:, :-1]), MANY, workers)
        cells = many if wide else many.first(FEW)
        runs, cost = runs_of(cells.cell[labels]), 0.0
        # Means need only what has changed, and that is little after the first steps; other weights all change.
        sums = sums if z == 2 and step else np.zeros(table.shape)
        moved = np.empty_like(labels)
        task = partial(_settle_run, points, norms, table, cells, z, labels if z == 2 and step else None)
        found = workers.each(runs, task, name="settling centers")
        for run, (run_labels, run_cost, present, run_sums) in zip(runs, found, strict=True):
            moved[run.ids] = run_labels
            sums[present] += run_sums
            cost += run_cost
        labels = moved
        little = cost >= lowest * (1 - gain)
        if little and wide:
            break
        stalled = little
        lowest, table = cost, _move(table, sums, z)
    return np.ascontiguousarray(table[:, :-1]), labels


def _settle_run(
    points: Singles, norms: Singles, table: Singles, cells: Cells, z: float, before: Labels | None, run: Stretch
) -> tuple[Labels, float, Ints, Floats]:
    """Return the new labels of a run's points, their cost, and the weighted sums of the points of each label.

    With labels from before, the sums are what has changed since.
    """
    some = points[run.ids]
    found, scores = best(some, table, cells, run)
    squares = np.maximum(norms[run.ids] - 2 * scores, 0)
    cost = float((squares if z == 2 else squares.astype(np.float64) ** (z / 2)).sum(dtype=np.float64))
    if before is not None:
        changed = np.flatnonzero(found != before[run.ids])
        twice, signs = np.concatenate([changed, changed]), np.repeat(np.array([1, -1], np.float32), len(changed))
        labels = np.concatenate([found[changed], before[run.ids[changed]]])
        return found, cost, *sum_by_label(some[twice], labels, signs)
    weights = np.ones(len(some), np.float32) if z == 2 else pull(np.sqrt(squares).astype(np.float64), z)
    return found, cost, *sum_by_label(some, found, weights.astype(np.float32))


def _move(table: Singles, sums: Floats, z: float) -> Singles:
    """Return the table with each center at the mean of its rows; the column of ones has summed up their weights."""
    filled = sums[:, -1] > 0
    target = table[:, :-1].astype(np.float64)
    target[filled] = sums[filled, :-1] / sums[filled, -1:]
    step = (target - table[:, :-1]) / max(1.0, z - 1.0)
    return with_bias((table[:, :-1] + step).astype(np.float32))
