"""Choose k rows as centers: seeding and refinement on a sample, then a few passes over all rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from coresift.checks import named_options, positive, whole
from coresift.clustering.learning import draw_sample, learn_centers
from coresift.clustering.nearest import Labels
from coresift.clustering.refine import LEAST_GAIN, cost_of, refine, refuse_infinite, step
from coresift.clustering.search import LEAST_CAPTURED, choose_search, trust_lists
from coresift.clustering.searches import Exact, KnownLabels, Search
from coresift.clustering.seeding import powers, seed_centers
from coresift.clustering.snapping import Assignment, fill_up, snap_all
from coresift.clustering.space import Axes, principal_axes, take
from coresift.clustering.starts import refine_best
from coresift.clustering.strata import encode, find_within
from coresift.engine import Engine, Local, Workers
from coresift.errors import warn
from coresift.inclusion import fixed_size_inclusion, parts
from coresift.progress import Progress, choose
from coresift.rows import ClassesLike, Rows, RowsLike, checksum, open_rows
from coresift.streams import Stream, generator
from coresift.types import Clustering, Floats, Singles

SAMPLE_PER_CENTER = 128
SMALLEST_SAMPLE = 16_384
# The most numbers in a sample, if rows keep all their dimensions.
LARGEST_SAMPLE = 160_000_000
SAMPLE_STEPS = 15
# With few centers, one in this many rows of a full-size sample is used first.
PART = 4
MOST_ATTEMPTS = 16
# Several seedings are refined until a step lowers the cost by less than this share; the best is then refined further.
ROUGH_GAIN = 1e-2
# From this many centers on, seeding works in groups, since comparing with all centers takes most of the time.
MANY_CENTERS = 256
# Centers are learned on axes that capture nearly all of the variance. Up to this many dimensions, axes that capture
# less are not worth it.
NEARLY_ALL, FEW_DIMENSIONS = 0.95, 128


@named_options
def cluster(
    rows: RowsLike,
    k: int,
    *,
    z: float = 2.0,
    seed: int = 0,
    normalize: bool = False,
    strata: ClassesLike | None = None,
    exact: bool = False,
    tolerance: float = 0.005,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
) -> Clustering:
    """Cluster rows around k of them, for the cost Σ ‖e − c(e)‖^z (z = 2: k-means, z = 1: k-median).

    With many centers, rows are compared with them as whole numbers of 8 bits if that raises the cost of sample rows by
    at most `tolerance`. The result's `search` says which search was used, and why.

    Args:
        rows: Anything that `open_rows` takes.
        k: How many clusters. If there are fewer distinct rows, there is one cluster per distinct row, with a warning.
        z: The power of the distances in the cost.
        seed: The seed.
        normalize: Whether to scale every row to length 1 first, for embeddings that are compared by cosine.
        strata: One class per row (labels of any kind, or the name of a column of the rows' table). Then no cluster
            crosses a class, and each class gets at least one center, and more by size and spread.
        exact: Whether to compare every row with every center.
        tolerance: The relative increase of the cost that the faster search may cause.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        The clustering, with centers, labels and distances.

    Examples:
        >>> import numpy as np
        >>> clustering = cluster(np.array([[0.0], [0.1], [5.0], [5.1], [5.2]]), k=2, seed=1)
        >>> clustering.k, sorted(clustering.sizes.tolist()), clustering.search
        (2, [2, 3], 'exact: few centers')
    """
    rows = open_rows(rows)
    k, z, seed = whole("k", k), positive("z", z), whole("seed", seed, least=0)
    tolerance = positive("tolerance", tolerance)
    view = rows.normalized() if normalize else rows
    progress = choose(progress)
    # Each class gets as many attempts as all rows together: its few rows alone would get more.
    tries = attempts(sample_size(view.n, min(k, view.n)), min(k, view.n))
    find = partial(_find, z=z, seed=seed, tries=tries, tolerance=None if exact else tolerance)
    with (engine or Local()).open(progress) as workers:
        if not rows.marked:
            rows.mark(list(workers.map(rows, checksum)))
        if strata is None:
            assignment, classes = find(view, k, workers, progress), np.zeros(0, np.int64)
        else:
            assignment, classes = find_within(view, encode(strata, rows), min(k, view.n), find, workers, progress)
    if len(assignment.chosen) < k:
        where = "" if strata is None else " within their classes"
        count = len(assignment.chosen)
        warn(f"Asked for {k} clusters, but only {count} rows are distinct{where}, so there are only {count} clusters.")
    free_cost, snapped_cost = cost_of(assignment.free_distances, z), cost_of(assignment.distances, z)
    if not np.isfinite(free_cost + snapped_cost):
        refuse_infinite(view, z)
    for array in (assignment.labels, assignment.distances):
        array.setflags(write=False)  # read-only arrays are passed on without a copy
    return Clustering(
        centers=assignment.chosen,
        labels=assignment.labels,
        distances=assignment.distances,
        free_centers=assignment.free,
        z=z,
        free_cost=free_cost,
        snapped_cost=snapped_cost,
        seed=seed,
        normalized=bool(normalize),
        fingerprint=rows.fingerprint(),
        search=assignment.path,
        strata=classes,
    )


def _find(
    rows: Rows,
    k: int,
    workers: Workers,
    progress: Progress,
    *,
    z: float,
    seed: int,
    tries: int,
    tolerance: float | None,
) -> Assignment:
    rng = generator(seed, Stream.CLUSTERING)
    if min(k, rows.n) < MANY_CENTERS:
        free = _few_centers(rows, min(k, rows.n), z, tries, rng, workers, progress)
        assignment = snap_all(rows, free, lambda centers: Exact.of(centers, "few centers"), workers)
    else:
        start = _many_centers(rows, min(k, rows.n), z, rng, workers, progress, tolerance)
        chooser = partial(_choose, rows, z, start.axes, workers, rng, tolerance)

        def choose_last(centers: Singles) -> Search:
            # Lists have the numbers of these centers, of which some are left out if rows equal each other.
            if start.lists is not None and centers is start.centers and tolerance is not None:
                search = trust_lists(rows, centers, z, rng, workers, lists=start.lists, tolerance=tolerance)
                if search is not None:
                    return search
            return chooser(centers)

        assignment = snap_all(rows, start.centers, choose_last, workers)
    return fill_up(rows, k, assignment, workers)


def sample_size(n: int, k: int) -> int:
    """Return how many rows the centers are learned from."""
    size = max(SMALLEST_SAMPLE, SAMPLE_PER_CENTER * k)
    if k >= MANY_CENTERS and n <= 2 * size:
        return n  # learning from all rows costs less than searching for the centers of the other rows afterwards
    return min(n, size)


def sample_numbers(n: int, d: int, k: int) -> int:
    """Return the most numbers of the sample that are in memory; with many centers there is a bound."""
    numbers = sample_size(n, k) * d
    return numbers if k < MANY_CENTERS else min(numbers, max(LARGEST_SAMPLE, SMALLEST_SAMPLE * d))


def attempts(rows: int, k: int) -> int:
    """Return how many seedings to try: many if there are few rows, where they cost little and vary most."""
    return min(MOST_ATTEMPTS, max(1, 2**18 // (rows * k)))


def passes(n: int, k: int) -> int:
    """Return how often all rows are read: once less if a few centers are learned from all rows."""
    return 2 if sample_size(n, k) == n and k < MANY_CENTERS else 3


def _few_centers(
    rows: Rows, k: int, z: float, tries: int, rng: np.random.Generator, workers: Workers, progress: Progress
) -> Singles:
    size = sample_size(rows.n, k)
    ids = np.arange(rows.n) if size == rows.n else np.sort(rng.choice(rows.n, size, replace=False))
    sample = take(rows, ids, workers)
    mean, scale = _standardize(sample)
    held, here, gain = open_rows(sample), workers.here, LEAST_GAIN if tries == 1 else ROUGH_GAIN
    seen, weights, part = sample, None, sample
    if size >= SMALLEST_SAMPLE:
        # A part of the rows is enough to place the first centers and to take the first steps.
        seen, weights = _outlying_part(sample, z, rng)
        part, gain = sample[rng.permutation(size)[: size // PART]], ROUGH_GAIN
    starts = [seen[seed_centers(seen, k, z, rng, here, progress, weights)] for _ in range(tries)]
    best = refine_best(part, starts, z, here, steps=SAMPLE_STEPS, gain=gain)
    if gain == ROUGH_GAIN:
        best, _ = refine(held, best, z, here, steps=SAMPLE_STEPS)
    centers = (best.astype(np.float64) * scale + mean).astype(np.float32)
    return centers if size == rows.n else refine(rows, centers, z, workers, steps=1)[0]


def _outlying_part(sample: Singles, z: float, rng: np.random.Generator) -> tuple[Singles, Floats]:
    """Return a quarter of the rows, drawn half uniformly and half by distance from the mean, and their weights.

    Uniform rows would miss most of the few rows that are far away and have much of the cost. This is a lightweight
    coreset (Bachem, Lucic and Krause 2018).
    """
    squared = np.einsum("ij,ij->i", sample, sample)
    away = powers(squared / (squared.max() or 1), z)
    inclusion = fixed_size_inclusion(parts(away) / 2 + 0.5 / len(sample), len(sample) // PART)
    ids = np.flatnonzero(np.diff(np.floor(np.cumsum(inclusion) + rng.random()), prepend=0.0) > 0)
    return sample[ids], 1 / inclusion[ids]


def _standardize(sample: Singles) -> tuple[Singles, float]:
    """Shift and scale a sample in place, so that no digits are lost; return the mean and the scale, to undo it."""
    mean = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
    sample -= mean
    largest = float(max(sample.max(), -sample.min()))
    scale = 2.0 ** np.frexp(largest)[1]  # a power of two changes no digit
    sample /= np.float32(scale)
    return mean, scale


def learning_axes(axes: Axes) -> Axes:
    """Return the axes on which centers are learned, or all coordinates if the axes capture too little of the variance.

    Axes save little time if rows have few dimensions, so they must capture more then.
    """
    few = len(axes.mean) <= FEW_DIMENSIONS
    near = axes.first(axes.enough(NEARLY_ALL))
    least = NEARLY_ALL if few else LEAST_CAPTURED
    return near if near.captured[-1] >= least else axes.whole()


@dataclass(frozen=True)
class _Start:
    """Free centers, the axes on which they were found, and a list of the centers near each row if they were learned
    from all rows."""

    centers: Singles
    axes: Axes
    lists: Labels | None = None


def _many_centers(
    rows: Rows,
    k: int,
    z: float,
    rng: np.random.Generator,
    workers: Workers,
    progress: Progress,
    tolerance: float | None,
) -> _Start:
    """Learn centers from a sample on a few axes, and move them once over all rows in full dimension."""
    axes = principal_axes(rows, rng, workers)
    near = learning_axes(axes)
    size = min(sample_size(rows.n, k), max(SMALLEST_SAMPLE, LARGEST_SAMPLE // len(near)))
    sample = draw_sample(rows, size, near, rng, workers)
    points, labels, lists = learn_centers(sample, k, z, rng, workers, progress)
    centers = near.lift(points)
    if size == rows.n:
        # These centers lie on the axes, so their rows are known already.
        if near.directions is not None:
            centers = step(rows, KnownLabels(centers, labels), centers, z, workers)[1]
        return _Start(centers, axes, lists)
    search = _choose(rows, z, axes if near.directions is None else near, workers, rng, tolerance, centers)
    return _Start(step(rows, search, centers, z, workers)[1], axes)


def _choose(
    rows: Rows,
    z: float,
    axes: Axes,
    workers: Workers,
    rng: np.random.Generator,
    tolerance: float | None,
    centers: Singles,
) -> Search:
    if tolerance is None:
        return Exact.of(centers)
    return choose_search(rows, centers, z, axes, rng, workers, tolerance=tolerance)
