"""The greedy choice for many rows: within groups of neighbors, which are formed anew in every stage.

A row is compared with the candidates of its own group alone. Then what a group chooses does not depend on the others,
and the choices of all groups, merged by what each adds, are the greedy choice for a kernel that is 0 between groups.
The next stage makes up for what lies across a border: its groups are others, and it knows how well the rows chosen so
far, from any group, cover each row.
"""

from __future__ import annotations

import numpy as np

from coresift.clustering.nearest import Codebook, nearest
from coresift.clustering.refine import refine
from coresift.clustering.seeding import seed_centers
from coresift.clustering.space import pieces_of
from coresift.engine import Alone, Workers
from coresift.facility.greedy import Greedy
from coresift.facility.kernel import Stored
from coresift.facility.members import gaussian, nearest_members
from coresift.facility.pool import Pool
from coresift.progress import Progress, stage
from coresift.rows import open_rows
from coresift.types import Bools, Floats, Ints, Singles

# How many rows a group has, about and at most.
GROUP, LARGEST_GROUP = 1024, 2048
# In how many stages rows are chosen; one, where as many were chosen before: those tell about borders.
STAGES = 3
# Groups are learned from so many rows per group, and at least so many in all, in so many steps.
LEARNED_FROM, FEWEST_LEARNED, STEPS = 32, 4096, 5
# A group may choose so many times its share of the rows, and a few more.
SLACK, FEW = 3, 4
# Rows that make up this part of what is left to cover, those that matter least, are passed over. Where a model is sure
# of most rows, they are half of all.
NEGLIGIBLE = 0.05


class Groupings:
    """Ways to form groups of the same rows, made when they are needed and used again in turn.

    The greedy choices of several rounds need no more of them than a single one: what matters is that groups that follow
    each other have other borders.
    """

    def __init__(self) -> None:
        self._made: list[list[Ints]] = []
        self._used = 0

    def next(self, pool: Pool, rng: np.random.Generator, workers: Workers, progress: Progress) -> list[Ints]:
        """Return the rows of each group."""
        if pool.n < pool.population:  # another sample has other rows
            return form_groups(pool, rng, workers, progress)
        place = self._used % STAGES
        self._used += 1
        if place == len(self._made):
            self._made.append(form_groups(pool, rng, workers, progress))
        return self._made[place]


def choose_in_groups(
    pool: Pool, count: int, groupings: Groupings, rng: np.random.Generator, workers: Workers, progress: Progress
) -> tuple[Ints, Floats, str]:
    """Return at most `count` row numbers in the order of choice, what each added, and what was done."""
    covered, free = pool.covered.copy(), pool.free.copy()
    chosen, gains, most = np.zeros(0, np.int64), np.zeros(0), 0
    stages = 1 if pool.given >= count else STAGES
    for number in range(1, stages + 1):
        groups = groupings.next(pool, rng, workers, progress)
        most = max(most, len(groups))
        room = count * number // stages - chosen.size
        further, added = _choose(pool, groups, room, free, covered, workers, progress)
        chosen, gains = np.concatenate([chosen, further]), np.concatenate([gains, added])
        free[further] = False
        if number < stages and further.size:
            distances = nearest_members(open_rows(pool.points), further, rng, workers.here)[1]
            np.maximum(covered, gaussian(distances, 1.0), out=covered)
    sampled = "" if pool.n == pool.population else f" of a sample of {pool.n:,} rows"
    times = "once" if stages == 1 else f"in {stages} stages"
    return pool.ids[chosen], gains, f"greedy within up to {most:,} groups of neighbors{sampled}, {times}"


def form_groups(pool: Pool, rng: np.random.Generator, workers: Workers, progress: Progress) -> list[Ints]:
    """Return the rows of each group: those nearest to one of the means that a sample gave, cut where they are many."""
    count = -(-pool.n // GROUP)
    size = min(pool.n, max(FEWEST_LEARNED, LEARNED_FROM * count))
    sample = pool.points[np.sort(rng.choice(pool.n, size, replace=False))].astype(np.float32)
    seeds = seed_centers(sample, count, 2.0, rng, workers.here, progress)
    codebook = Codebook.of(refine(open_rows(sample), sample[seeds], 2.0, workers.here, steps=STEPS)[0])

    def label(some: Ints) -> Ints:
        return nearest(pool.points[some].astype(np.float32), codebook)[0].astype(np.int64)

    pieces = pieces_of(np.arange(pool.n), LARGEST_GROUP)
    labels = np.concatenate(list(workers.here.each(pieces, label)))
    order = np.argsort(labels, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    return [part for group in groups for part in _cut(pool.points, group)]


def _cut(points: Singles, group: Ints) -> list[Ints]:
    """Cut a group that is too large along the coordinate on which it is spread most."""
    parts = -(-group.size // LARGEST_GROUP)
    if parts == 1:
        return [group]
    members = points[group].astype(np.float32)
    order = np.argsort(members[:, members.var(axis=0).argmax()], kind="stable")
    return [np.sort(part) for part in np.array_split(group[order], parts)]


def _choose(
    pool: Pool, groups: list[Ints], room: int, free: Bools, covered: Singles, workers: Workers, progress: Progress
) -> tuple[Ints, Floats]:
    """Let every group choose more than its share, and return the `room` choices that add most, in that order."""
    scale = pool.importance.max()
    importance = (pool.importance / scale).astype(np.float32)
    left = importance * (1 - covered)
    groups = _without_negligible(groups, left, free, SLACK * room)
    shares = np.array([left[group].sum(dtype=np.float64) for group in groups])
    limits = np.ceil(SLACK * room * shares / (shares.sum() or 1.0)).astype(np.int64) + FEW

    def choose(number: int) -> tuple[Ints, Floats]:
        group = groups[number]
        points = pool.points[group].astype(np.float32)
        points -= points.mean(axis=0)
        kernel = Stored.of(points, 1.0, Alone())
        greedy = Greedy(kernel, importance[group], free[group], covered[group], Alone(), at_hand=group.size)
        ids, added = greedy.choose(int(limits[number]))
        return group[ids], added

    with stage(progress, "choosing rows", len(groups)):
        found = []
        for result in workers.here.each(range(len(groups)), choose):
            found.append(result)
            progress.advance(1)
    ids, added = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(-added, kind="stable")[:room]
    return ids[order], added[order] * scale


def _without_negligible(groups: list[Ints], left: Singles, free: Bools, fewest: int) -> list[Ints]:
    """Pass over rows that are covered well or matter little, as long as so many candidates remain."""
    ascending = np.sort(left)
    sums = np.cumsum(ascending, dtype=np.float64)
    kept = left >= ascending[np.searchsorted(sums, NEGLIGIBLE * sums[-1])]  # rows that matter as much all stay
    if np.count_nonzero(kept & free) < fewest:
        return groups
    parts = (group[kept[group]] for group in groups)
    return [part for part in parts if part.size]
