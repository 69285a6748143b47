"""Choose rows that cover all others: importance-weighted facility location with a Gaussian kernel.

Rows S are chosen to maximize Σᵢ uᵢ·max_{j ∈ S ∪ given} κ(xᵢ, xⱼ), where uᵢ is a row's importance and
κ(x, y) = exp(−‖x − y‖²/2h²). The sum is monotone and submodular, so the greedy choice reaches at least 1 − 1/e of the
largest possible sum. With equal importance this is MaxHerding (Bae, Noh and Sutherland 2024); with a model's
uncertainty as importance it is Uncertainty Herding (Bae, Sutherland and Oliveira 2025).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coresift.clustering.nearest import Labels
from coresift.clustering.space import take
from coresift.engine import Workers
from coresift.facility.greedy import Greedy
from coresift.facility.groups import Groupings, choose_in_groups
from coresift.facility.kernel import Computed, Stored, neighbor_distance
from coresift.facility.members import Nearest, gaussian, nearest_members
from coresift.facility.pairs import MOST_PAIRS, choose_from_pairs
from coresift.facility.pool import Pool
from coresift.progress import Progress
from coresift.rows import Rows
from coresift.types import Bools, Floats, Ints, Singles, Value

__all__ = ["Choice", "Coverage", "Groupings", "Nearest", "choose_rows", "cover_rows"]

# The bandwidth, as a fraction of the median distance between neighboring chosen rows.
FACTOR = 0.7
# The most rows for which all values of κ are stored, and every choice is greedy.
MOST_STORED = 8192
# The most work for which all pairs of rows are compared: n²·(d + 32), where looking for pairs costs as much as 32
# multiplications. It takes about two seconds.
MOST_COMPARED, LOOKING = 10**11, 32


@dataclass(frozen=True, eq=False)
class Coverage(Value):
    """The chosen rows in order, what each added to the sum when it was chosen, and which member represents each row.

    `labels[i]` is the index in `members` (given rows, then chosen rows) of the member nearest to row i, and
    `distances[i]` is its distance. `method` says how the rows were chosen.
    """

    ids: Ints
    gains: Floats
    given: Ints
    labels: Labels
    distances: Singles
    bandwidth: float
    method: str

    @property
    def members(self) -> Ints:
        """The given rows and the chosen ones."""
        return np.concatenate([self.given, self.ids])

    @property
    def counts(self) -> Ints:
        """How many rows each member represents, itself included."""
        return np.bincount(self.labels, minlength=self.given.size + self.ids.size)

    def kernel(self) -> Singles:
        """How well each row is covered: κ with its nearest member, which is 1 for a member."""
        return gaussian(self.distances, self.bandwidth)


@dataclass(frozen=True, eq=False)
class Choice(Value):
    """The chosen rows in order, what each added to the sum when it was chosen, the bandwidth, and the method."""

    ids: Ints
    gains: Floats
    bandwidth: float
    method: str


def cover_rows(
    rows: Rows,
    count: int,
    workers: Workers,
    rng: np.random.Generator,
    *,
    importance: Floats | None = None,
    given: Ints | None = None,
    free: Bools | None = None,
    bandwidth: float | None = None,
    grouped: bool | None = None,
    progress: Progress | None = None,
) -> Coverage:
    """Choose rows with `choose_rows`, and find the member that represents each row."""
    given = np.zeros(0, np.int64) if given is None else given
    distances = nearest_members(rows, given, rng, workers)[1] if given.size else None
    choice = choose_rows(
        rows,
        count,
        workers,
        rng,
        importance=importance,
        given=given,
        distances=distances,
        free=free,
        bandwidth=bandwidth,
        grouped=grouped,
        progress=progress,
    )
    labels, nearest = nearest_members(rows, np.concatenate([given, choice.ids]), rng, workers)
    return Coverage(choice.ids, choice.gains, given, labels, nearest, choice.bandwidth, choice.method)


def choose_rows(
    rows: Rows,
    count: int,
    workers: Workers,
    rng: np.random.Generator,
    *,
    given: Ints,
    distances: Singles | None,
    importance: Floats | None = None,
    free: Bools | None = None,
    bandwidth: float | None = None,
    factor: float = FACTOR,
    grouped: bool | None = None,
    groupings: Groupings | None = None,
    progress: Progress | None = None,
) -> Choice:
    """Greedily choose `count` free rows that, together with the given rows, cover all rows.

    Args:
        rows: The rows to cover.
        count: How many rows to choose; there must be at least that many free rows.
        workers: What runs the row blocks.
        rng: Draws anchors, samples and groups.
        given: Rows that are already chosen, ascending.
        distances: Each row's distance to the nearest given row; None if no rows are given.
        importance: u ≥ 0, one number per row, not all of them 0; by default all rows count the same.
        free: Which rows may be chosen; by default all but the given ones.
        bandwidth: h; by default `factor` times the median nearest-neighbor distance among the given rows and `count`
            random ones, so that it shrinks as rows accumulate.
        factor: See `bandwidth`.
        grouped: Whether rows are compared only within groups of neighbors, new ones in each of several stages. By
            default, for more than 8,192 rows, if all pairs would take too long or too much memory or groups are kept.
        groupings: Groups to keep for later choices among the same rows.
        progress: Advanced with every choice.

    Returns:
        The choice. If nothing is left to cover, random rows fill it.
    """
    free = np.ones(rows.n, np.bool_) if free is None else free.copy()
    free[given] = False
    progress = progress or Progress()
    if bandwidth is None:
        bandwidth = factor * _anchor_distance(rows, count, given, free, rng, workers)
    weights = np.ones(rows.n) if importance is None else importance
    start = np.zeros(rows.n, np.float32) if distances is None else gaussian(distances, bandwidth)
    too_long = rows.n**2 * (rows.d + LOOKING) > MOST_COMPARED
    by_default = rows.n > MOST_STORED and (too_long or groupings is not None)
    compared = None
    if not (by_default if grouped is None else grouped):
        most_pairs = MOST_PAIRS if grouped is None else np.inf
        compared = _compare_all(rows, count, weights, free, start, bandwidth, most_pairs, rng, workers, progress)
    if compared is None:
        pool = Pool.of(rows, count, weights, free, start, given.size, bandwidth, rng, workers)
        compared = choose_in_groups(pool, count, groupings or Groupings(), rng, workers, progress)
    ids, gains, method = compared
    if ids.size < count:
        free[ids] = False
        others = rng.permutation(np.flatnonzero(free))[: count - ids.size]
        ids, gains = np.concatenate([ids, others]), np.concatenate([gains, np.zeros(others.size)])
        method += f"; {others.size} random rows, as nothing more could be covered"
    return Choice(ids, gains, bandwidth, method)


def _anchor_distance(
    rows: Rows, count: int, given: Ints, free: Bools, rng: np.random.Generator, workers: Workers
) -> float:
    """Return the median nearest-neighbor distance among the given rows and `count` random free ones."""
    drawn = rng.choice(np.flatnonzero(free), count, replace=False)
    return neighbor_distance(take(rows, np.sort(np.concatenate([given, drawn])), workers), rng, workers)


def _compare_all(
    rows: Rows,
    count: int,
    importance: Floats,
    free: Bools,
    covered: Singles,
    bandwidth: float,
    most_pairs: float,
    rng: np.random.Generator,
    workers: Workers,
    progress: Progress,
) -> tuple[Ints, Floats, str] | None:
    """Return the choices, their gains and the method, or None if too many pairs would have to be listed."""
    points = take(rows, np.arange(rows.n), workers)
    with np.errstate(over="ignore", invalid="ignore"):
        points -= points.mean(axis=0, dtype=np.float64).astype(np.float32)
    scaled = (importance / importance.max()).astype(np.float32)
    if rows.n <= MOST_STORED:
        kernel = Stored.of(points, bandwidth, workers)
        ids, gains = Greedy(kernel, scaled, covered, workers).choose(free, count, progress)
        return ids, gains * importance.max(), "exact greedy"
    computed = Computed.of(points, bandwidth)
    choice = choose_from_pairs(computed, scaled, free, covered, count, rng, workers, progress, most_pairs=most_pairs)
    if choice is None:
        return None
    return choice[0], choice[1] * importance.max(), "greedy among all rows, starting from a sample"
