"""The greedy choice for many rows: within groups of neighbors, with new groups in every stage.

A row is compared only with the candidates in its own group. So groups choose independently, and their choices, merged
by gain, are the greedy choice for a kernel that is 0 between groups. The next stage corrects for group borders: it has
different groups, and starts from how well the rows chosen so far, in any group, cover each row.
"""

from __future__ import annotations

import numpy as np

from coresift.clustering.nearest import Codebook, nearest
from coresift.clustering.refine import refine
from coresift.clustering.seeding import seed_centers
from coresift.clustering.space import pieces_of
from coresift.engine import SerialWorkers, Workers
from coresift.facility.greedy import Greedy
from coresift.facility.kernel import Stored
from coresift.facility.members import gaussian, nearest_members
from coresift.facility.pool import Pool
from coresift.progress import Progress, stage
from coresift.rows import open_rows
from coresift.types import Bools, Floats, Ints, Singles

# The usual and the largest number of rows in a group.
GROUP, LARGEST_GROUP = 1024, 2048
# How many stages there are. If at least as many rows are given as are to be chosen, one stage is enough, because the
# given rows already cover across borders.
STAGES = 3
# k-means for the groups: sample rows per group, the smallest sample, and the number of steps.
SAMPLE_PER_GROUP, SMALLEST_SAMPLE, STEPS = 32, 4096, 5
# A group may choose SLACK times its share of the rows, plus EXTRA.
SLACK, EXTRA = 3, 4
# The least important rows, which together make up this fraction of what is left to cover, are skipped. If a model is
# sure of most rows, that is half of all rows.
NEGLIGIBLE = 0.05


class Groupings:
    """Up to `STAGES` ways to group the same rows, formed on demand and then reused in turn.

    Several rounds need no more groupings than one round does: all that matters is that consecutive stages have
    different borders.
    """

    def __init__(self) -> None:
        self._groupings: list[list[Ints]] = []
        self._used = 0

    def next(self, pool: Pool, rng: np.random.Generator, workers: Workers, progress: Progress) -> list[Ints]:
        """Return the rows of each group."""
        if pool.n < pool.population:  # the pool is a new sample each time, so groups cannot be reused
            return form_groups(pool, rng, workers, progress)
        index = self._used % STAGES
        self._used += 1
        if index == len(self._groupings):
            self._groupings.append(form_groups(pool, rng, workers, progress))
        return self._groupings[index]


def choose_in_groups(
    pool: Pool, count: int, groupings: Groupings, rng: np.random.Generator, workers: Workers, progress: Progress
) -> tuple[Ints, Floats, str]:
    """Return up to `count` row numbers in the order of choice, the gain of each, and a description of the method."""
    covered, free = pool.covered.copy(), pool.free.copy()
    chosen, gains, most_groups = np.zeros(0, np.int64), np.zeros(0), 0
    stages = 1 if pool.given >= count else STAGES
    for number in range(1, stages + 1):
        groups = groupings.next(pool, rng, workers, progress)
        most_groups = max(most_groups, len(groups))
        room = count * number // stages - chosen.size
        new_choices, added = _choose(pool, groups, room, free, covered, workers, progress)
        chosen, gains = np.concatenate([chosen, new_choices]), np.concatenate([gains, added])
        free[new_choices] = False
        if number < stages and new_choices.size:
            distances = nearest_members(open_rows(pool.points), new_choices, rng, workers.here)[1]
            np.maximum(covered, gaussian(distances, 1.0), out=covered)
    sampled = "" if pool.n == pool.population else f" of a sample of {pool.n:,} rows"
    times = "once" if stages == 1 else f"in {stages} stages"
    return pool.ids[chosen], gains, f"greedy within up to {most_groups:,} groups of neighbors{sampled}, {times}"


def form_groups(pool: Pool, rng: np.random.Generator, workers: Workers, progress: Progress) -> list[Ints]:
    """Return the rows of each group: k-means clusters learned on a sample, with large ones split."""
    count = -(-pool.n // GROUP)
    size = min(pool.n, max(SMALLEST_SAMPLE, SAMPLE_PER_GROUP * count))
    sample = pool.points[np.sort(rng.choice(pool.n, size, replace=False))].astype(np.float32)
    seeds = seed_centers(sample, count, 2.0, rng, workers.here, progress)
    codebook = Codebook.of(refine(open_rows(sample), sample[seeds], 2.0, workers.here, steps=STEPS)[0])

    def label(piece: Ints) -> Ints:
        return nearest(pool.points[piece].astype(np.float32), codebook)[0].astype(np.int64)

    pieces = pieces_of(np.arange(pool.n), LARGEST_GROUP)
    labels = np.concatenate(list(workers.here.each(pieces, label)))
    order = np.argsort(labels, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    return [subgroup for group in groups for subgroup in _split_large(pool.points, group)]


def _split_large(points: Singles, group: Ints) -> list[Ints]:
    """Split a group that is too large along the coordinate with the largest variance."""
    count = -(-group.size // LARGEST_GROUP)
    if count == 1:
        return [group]
    members = points[group].astype(np.float32)
    order = np.argsort(members[:, members.var(axis=0).argmax()], kind="stable")
    return [np.sort(subgroup) for subgroup in np.array_split(group[order], count)]


def _choose(
    pool: Pool, groups: list[Ints], room: int, free: Bools, covered: Singles, workers: Workers, progress: Progress
) -> tuple[Ints, Floats]:
    """Let every group choose more than its share, and return the `room` choices with the largest gains, in order."""
    scale = pool.importance.max()
    importance = (pool.importance / scale).astype(np.float32)
    uncovered = importance * (1 - covered)
    groups = _without_negligible(groups, uncovered, free, SLACK * room)
    shares = np.array([uncovered[group].sum(dtype=np.float64) for group in groups])
    limits = np.ceil(SLACK * room * shares / (shares.sum() or 1.0)).astype(np.int64) + EXTRA

    def choose(number: int) -> tuple[Ints, Floats]:
        group = groups[number]
        points = pool.points[group].astype(np.float32)
        points -= points.mean(axis=0)
        kernel = Stored.of(points, 1.0, SerialWorkers())
        greedy = Greedy(kernel, importance[group], covered[group], SerialWorkers())
        ids, added = greedy.choose(free[group], int(limits[number]))
        return group[ids], added

    with stage(progress, "choosing rows", len(groups)):
        choices = []
        for result in workers.here.each(range(len(groups)), choose):
            choices.append(result)
            progress.advance(1)
    ids, added = (np.concatenate(arrays) for arrays in zip(*choices, strict=True))
    order = np.argsort(-added, kind="stable")[:room]
    return ids[order], added[order] * scale


def _without_negligible(groups: list[Ints], uncovered: Singles, free: Bools, fewest: int) -> list[Ints]:
    """Skip rows that are well covered or unimportant, if at least `fewest` candidates remain."""
    ascending = np.sort(uncovered)
    sums = np.cumsum(ascending, dtype=np.float64)
    important = uncovered >= ascending[np.searchsorted(sums, NEGLIGIBLE * sums[-1])]  # ties stay
    if np.count_nonzero(important & free) < fewest:
        return groups
    remaining = (group[important[group]] for group in groups)
    return [rows for rows in remaining if rows.size]
