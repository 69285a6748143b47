"""k rows as centers for all rows: seeding and refinement on a sample, then passes over everything."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from coresift.checks import named_options, positive, whole
from coresift.clustering.learning import draw_sample, learn_centers
from coresift.clustering.nearest import Labels
from coresift.clustering.refine import LEAST_GAIN, cost_of, refine, refuse_infinite, step
from coresift.clustering.search import LEAST_CAPTURED, Exact, KnownLabels, Search, choose_search
from coresift.clustering.seeding import powers, seed_centers
from coresift.clustering.snapping import Found, fill_up, snap_all
from coresift.clustering.space import Axes, principal_axes, take
from coresift.clustering.strata import encode, find_within
from coresift.engine import Engine, Local, Workers
from coresift.errors import warn
from coresift.inclusion import fixed_size_inclusion, parts
from coresift.progress import Progress, choose
from coresift.rows import ClassesLike, Rows, RowsLike, checksum, open_rows
from coresift.streams import Stream, generator
from coresift.types import Clustering, Floats, Singles

SAMPLE_A_CENTER = 128
SMALLEST_SAMPLE = 16_384
# Where rows keep all their dimensions, the sample is held to this many numbers.
LARGEST_SAMPLE = 160_000_000
SAMPLE_STEPS = 15
# With few centers, one of so many rows of a sample that has its full size is looked at first.
PART = 4
MOST_ATTEMPTS = 16
# Of several seedings, the one that is best when steps lower the cost by less than this part is refined to the end.
ROUGH_GAIN = 1e-2
# From so many centers on, seeding goes by groups, and looking at all centers is what takes the time.
MANY_CENTERS = 256
# The part of the variance that a sample's axes are to capture, and how many axes there are at most.
CAPTURED = 0.85
SAMPLE_AXES = 160


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

    With many centers, rows find theirs on principal axes and among a few candidates if that raises the cost of sample
    rows by at most `tolerance`. The result's `search` says which way it was, and why.

    Args:
        rows: Anything that `open_rows` takes.
        k: How many clusters. If fewer rows are distinct, that many come out, with a warning.
        z: The power of the distances in the cost.
        seed: The seed.
        normalize: Whether to give every row length 1 first, for embeddings that are compared by cosine.
        strata: One class per row (labels of any kind, or the name of a column of the rows' table). No cluster then
            crosses a class, and the centers are shared over the classes by size and spread, at least one each.
        exact: Whether to compare every row with every center.
        tolerance: By how much, relatively, the faster search may raise the cost.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        The clustering, with centers, labels and distances.

    Examples:
        >>> import numpy as np
        >>> found = cluster(np.array([[0.0], [0.1], [5.0], [5.1], [5.2]]), k=2, seed=1)
        >>> found.k, sorted(found.sizes.tolist()), found.search
        (2, [2, 3], 'exact: few centers')
    """
    rows = open_rows(rows)
    k, z, seed = whole("k", k), positive("z", z), whole("seed", seed, least=0)
    tolerance = positive("tolerance", tolerance)
    view = rows.normalized() if normalize else rows
    progress = choose(progress)
    # A class gets as many attempts as all rows would: its own few rows alone would call for many.
    tries = attempts(sample_size(view.n, min(k, view.n)), min(k, view.n))
    find = partial(_find, z=z, seed=seed, tries=tries, tolerance=None if exact else tolerance)
    with (engine or Local()).open(progress) as workers:
        if not rows.marked:
            rows.mark(list(workers.map(rows, checksum)))
        if strata is None:
            found, classes = find(view, k, workers, progress), np.zeros(0, np.int64)
        else:
            found, classes = find_within(view, encode(strata, rows), min(k, view.n), find, workers, progress)
    if len(found.chosen) < k:
        where = "" if strata is None else " within their classes"
        message = f"Asked for {k} clusters, but only {len(found.chosen)} rows are distinct{where}: that many centers."
        warn(message)
    free_cost, snapped_cost = cost_of(found.free_distances, z), cost_of(found.distances, z)
    if not np.isfinite(free_cost + snapped_cost):
        refuse_infinite(view, z)
    return Clustering(
        centers=found.chosen,
        labels=found.labels,
        distances=found.distances,
        free_centers=found.free,
        z=z,
        free_cost=free_cost,
        snapped_cost=snapped_cost,
        seed=seed,
        normalized=bool(normalize),
        fingerprint=rows.fingerprint(),
        search=found.path,
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
) -> Found:
    rng = generator(seed, Stream.CLUSTERING)
    if min(k, rows.n) < MANY_CENTERS:
        free = _few_centers(rows, min(k, rows.n), z, tries, rng, workers, progress)
        found = snap_all(rows, free, lambda centers, _: Exact.of(centers, "few centers"), workers)
    else:
        start = _many_centers(rows, min(k, rows.n), z, rng, workers, progress, tolerance)
        chooser = partial(_choose, rows, z, start.axes, workers, rng, tolerance)
        found = snap_all(rows, start.centers, chooser, workers, start.labels)
    return fill_up(rows, k, found, workers)


def sample_size(n: int, k: int) -> int:
    """Return how many rows the centers are learned from."""
    size = max(SMALLEST_SAMPLE, SAMPLE_A_CENTER * k)
    if k >= MANY_CENTERS and n <= 2 * size:
        return n  # to learn from the other rows too costs less than to search for their centers afterwards
    return min(n, size)


def sample_numbers(n: int, d: int, k: int) -> int:
    """Return how many numbers of the sample are held at most; with many centers there is a bound."""
    numbers = sample_size(n, k) * d
    return numbers if k < MANY_CENTERS else min(numbers, max(LARGEST_SAMPLE, SMALLEST_SAMPLE * d))


def attempts(rows: int, k: int) -> int:
    """Return how many seedings are tried: many where they cost little, as few rows leave most to luck."""
    return min(MOST_ATTEMPTS, max(1, 2**18 // (rows * k)))


def passes(n: int, k: int) -> int:
    """Return how often all rows are read: once less when a few centers come from all rows."""
    return 2 if sample_size(n, k) == n and k < MANY_CENTERS else 3


def _few_centers(
    rows: Rows, k: int, z: float, tries: int, rng: np.random.Generator, workers: Workers, progress: Progress
) -> Singles:
    size = sample_size(rows.n, k)
    ids = np.arange(rows.n) if size == rows.n else np.sort(rng.choice(rows.n, size, replace=False))
    sample = take(rows, ids, workers)
    mean, scale = _standardize(sample)
    held, here, gain = open_rows(sample), workers.here, LEAST_GAIN if tries == 1 else ROUGH_GAIN
    seen, weights, part = sample, None, held
    if size >= SMALLEST_SAMPLE:
        # A part of so many rows shows well enough where centers begin and where their first steps go.
        seen, weights = _outlying_part(sample, z, rng)
        part, gain = open_rows(sample[rng.permutation(size)[: size // PART]]), ROUGH_GAIN
    seeds = (seen[seed_centers(seen, k, z, rng, here, progress, weights)] for _ in range(tries))
    tried = (refine(part, some, z, here, steps=SAMPLE_STEPS, gain=gain) for some in seeds)
    found, _ = min(tried, key=lambda result: result[1])
    if gain == ROUGH_GAIN:
        found, _ = refine(held, found, z, here, steps=SAMPLE_STEPS)
    centers = (found.astype(np.float64) * scale + mean).astype(np.float32)
    return centers if size == rows.n else refine(rows, centers, z, workers, steps=1)[0]


def _outlying_part(sample: Singles, z: float, rng: np.random.Generator) -> tuple[Singles, Floats]:
    """Return a quarter of the rows, drawn half uniformly and half by distance from the mean, and what each stands for.

    Uniform rows would miss most of those few that lie far away and have much of the cost. This is a lightweight coreset
    (Bachem, Lucic and Krause 2018).
    """
    squared = np.einsum("ij,ij->i", sample, sample)
    away = powers(squared / (squared.max() or 1), z)
    inclusion = fixed_size_inclusion(parts(away) / 2 + 0.5 / len(sample), len(sample) // PART)
    ids = np.flatnonzero(np.diff(np.floor(np.cumsum(inclusion) + rng.random()), prepend=0.0) > 0)
    return sample[ids], 1 / inclusion[ids]


def _standardize(sample: Singles) -> tuple[Singles, float]:
    """Shift and scale a sample in place, so that neither offset nor unit costs digits; return what undoes it."""
    mean = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
    sample -= mean
    largest = float(max(sample.max(), -sample.min()))
    scale = 2.0 ** np.frexp(largest)[1]  # a power of two changes no digit
    sample /= np.float32(scale)
    return mean, scale


@dataclass(frozen=True)
class _Start:
    """Centers in space, nearly right labels of all rows, and the axes on which they were found."""

    centers: Singles
    labels: Labels
    axes: Axes


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
    count = axes.enough(CAPTURED)
    near = axes.first(min(count, SAMPLE_AXES))
    if near.captured[-1] < LEAST_CAPTURED:
        axes = near = axes.whole()
    size = min(sample_size(rows.n, k), max(SMALLEST_SAMPLE, LARGEST_SAMPLE // len(near)))
    sample = draw_sample(rows, size, near, rng, workers)
    points, labels = learn_centers(sample, k, z, rng, workers, progress)
    centers = near.lift(points)
    if size == rows.n:
        # These centers lie on the axes, and so their rows are known already.
        search: Search = KnownLabels(centers)
        if near.directions is not None:
            centers = step(rows, search, centers, z, workers, labels)[1]
        return _Start(centers, labels, axes)
    search = _choose(rows, z, near, workers, rng, tolerance, centers, None)
    _, centers, labels = step(rows, search, centers, z, workers)
    return _Start(centers, labels, axes)


def _choose(
    rows: Rows,
    z: float,
    axes: Axes,
    workers: Workers,
    rng: np.random.Generator,
    tolerance: float | None,
    centers: Singles,
    coarse: Labels | None,
) -> Search:
    if tolerance is None:
        return Exact.of(centers)
    return choose_search(rows, centers, z, axes, rng, workers, coarse=coarse, tolerance=tolerance)
