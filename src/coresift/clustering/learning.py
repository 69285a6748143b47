"""Many centers from a sample: seeds drawn group by group, then steps that look only at nearby centers.

With k centers, seeding works in √k groups, and each seed is compared only with the rows of its own group. The centers
then settle (`settling`). All of this runs on principal axes if those capture most of the variance. With a sample in
proportion to k, the work grows about as k^1.5, not as k².
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from coresift.clustering.nearest import Codebook, Labels, highest_scores, nearest
from coresift.clustering.refine import refine
from coresift.clustering.seeding import seed_centers
from coresift.clustering.settling import Sample, Settling
from coresift.clustering.space import Axes, pieces_of
from coresift.engine import SerialWorkers, Workers
from coresift.inclusion import deal, parts
from coresift.progress import Progress
from coresift.rows import Rows, open_rows, refuse_bad_row
from coresift.types import Ints, Singles

# Rows per center that seeding uses; the steps that follow use the whole sample.
SEEDED_FROM = 24
# Steps end when one lowers the cost by less than this share: in rounds that end with an exchange of centers, and at the
# end.
ROUGH_GAIN, LEAST_GAIN = 5e-3, 2e-5
# There are at most so many such rounds with the same rows; they end when an exchange is expected to lower the cost by
# less than this share.
MOST_ROUNDS, LEAST_EXCHANGED = 2, 1e-3
# With at least this many rows per center, the first rounds use every second row.
ROUGHED_FROM, PART = 32, 2
# How many pieces of a sample are stored at a time.
STORED = 8


def draw_sample(rows: Rows, size: int, axes: Axes, rng: np.random.Generator, workers: Workers) -> Sample:
    """Read and project `size` random rows, or all of them in their order, a block at a time."""
    points = np.empty((size, len(axes) + 1), np.float32)
    rest = np.empty(size, np.float32)

    def project(block: Singles) -> tuple[Singles, Singles]:
        if axes.directions is None:
            points = axes.whole_points(block)
            # Nothing is left outside of the axes, but a row that is not finite must be noticed.
            return points, np.einsum("ij,ij->i", points[:, :-1], points[:, :-1]) * np.float32(0)
        shifted = axes.shift(block)
        points = axes.project(shifted)
        left = np.einsum("ij,ij->i", shifted, shifted) - np.einsum("ij,ij->i", points[:, :-1], points[:, :-1])
        return points, left

    if size == rows.n:
        pieces = workers.map(rows, lambda _, block: project(block), name="reading a sample")
    else:
        ids = pieces_of(np.sort(rng.choice(rows.n, size, replace=False)), rows.block_rows)
        pieces = workers.pick(rows, ids, project, name="reading a sample")
    done = 0

    def store(piece: tuple[int, Singles, Singles]) -> bool:
        start, projected, left = piece
        here = slice(start, start + len(projected))
        points[here], rest[here] = projected, np.maximum(left, 0)
        return bool(np.isfinite(left).all())

    # Several pieces are stored at a time, since the first use of memory takes as long as the projection.
    while some := list(islice(pieces, STORED)):
        starts = np.cumsum([done, *(len(left) for _, left in some)]).tolist()
        done = starts.pop()
        if not all(workers.here.each([(start, *piece) for start, piece in zip(starts, some, strict=True)], store)):
            refuse_bad_row(rows)
    return Sample(points, rest)


def learn_centers(
    sample: Sample, k: int, z: float, rng: np.random.Generator, workers: Workers, progress: Progress
) -> tuple[Singles, Labels, Labels]:
    """Return at most k centers in the sample's coordinates, the center of each of its rows, and a list of the centers
    nearest to each."""
    workers = workers.here
    centers, labels = _seed_in_groups(sample, k, z, rng, workers, progress)
    settling = Settling(sample, centers, labels, z, workers)
    for stride in (PART, 1) if len(labels) >= ROUGHED_FROM * k else (1,):
        for _ in range(MOST_ROUNDS):
            settling.round(stride, ROUGH_GAIN)
            if z != 2 or settling.exchange() < LEAST_EXCHANGED:
                break
    settling.round(1, LEAST_GAIN)
    settling.finish(LEAST_GAIN)
    return settling.means, settling.labels, settling.lists


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
        codebook = Codebook.of(seeds)
        return seeds, highest_scores(points, codebook.mean, codebook.table)[0]

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
