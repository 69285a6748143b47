"""Descriptions of an embedding from the losses of centers and probes, each with a slow version in the tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coresift.types import Floats, Interval, Ints

PERCENTILES = (20, 40, 60, 80, 99)
Z95 = 1.959964
# How many other probes each probe is compared with.
COMPARISONS = 20


@dataclass(frozen=True)
class HolderLine:
    """Percentiles (20, 40, 60, 80, 99) of |ℓ(e) − ℓ(c)| / ‖e − c‖^z over the probes that are not on their center.

    `price` is the 80th percentile times the mean of ‖e − c‖^z: the cost of Λ per row in the theorem's bound. It has the
    unit of the loss, so that different z can be compared.
    """

    z: float
    percentiles: tuple[float, ...]
    price: float


@dataclass(frozen=True)
class Gaps:
    """Percentiles (20, 40, 60, 80, 99) of |ℓ(e) − ℓ(its center)| and of |ℓ(e) − ℓ(random row)|.

    `nearer` is the share of comparisons in which the center's loss is nearer than the random row's; ties count half. It
    is 0.5 if the centers say nothing about the loss.
    """

    center: tuple[float, ...]
    random: tuple[float, ...]
    nearer: float


def holder_line(gaps: Floats, distances: Floats, z: float) -> HolderLine:
    """Return the line of one z, NaN if every probe is on its center; ratios that overflow become the largest float."""
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        powers = distances[distances > 0] ** z
        ratios = np.nan_to_num(gaps[distances > 0] / powers)
    if not ratios.size:
        return HolderLine(z, (np.nan,) * len(PERCENTILES), np.nan)
    percentiles = _percentiles(ratios)
    return HolderLine(z, percentiles, percentiles[3] * float(powers.mean()))


def violations(gaps: Floats, distances: Floats, z: float, holder: float) -> Interval:
    """Return the share of probes off their center with |ℓ(e) − ℓ(c)| > Λ‖e − c‖^z, with Wilson's interval."""
    away = distances > 0
    count = int(np.count_nonzero(away))
    if not count:
        return Interval(np.nan, 0.0, 1.0, np.nan)
    part = float(np.mean(gaps[away] > holder * distances[away] ** z))
    middle = (part + Z95**2 / (2 * count)) / (1 + Z95**2 / count)
    half = Z95 * np.sqrt(part * (1 - part) / count + Z95**2 / (4 * count**2)) / (1 + Z95**2 / count)
    low, high = max(middle - half, 0.0), min(middle + half, 1.0)
    return Interval(part, float(low), float(high), float(np.sqrt(part * (1 - part) / count)))


def compare_gaps(losses: Floats, center_losses: Floats, rng: np.random.Generator) -> Gaps:
    """Compare each probe with its center and with other probes, which represent random rows."""
    to_center = np.abs(losses - center_losses)
    mixed = rng.permutation(losses.size)
    shifts = range(1, min(COMPARISONS, losses.size - 1) + 1)
    to_random = np.stack([np.abs(losses[mixed] - losses[np.roll(mixed, shift)]) for shift in shifts])
    nearer = (to_center[mixed] < to_random) + 0.5 * (to_center[mixed] == to_random)
    return Gaps(_percentiles(to_center), _percentiles(to_random.ravel()), float(nearer.mean()))


def explained_share(losses: Floats, labels: Ints) -> Interval:
    """Return the share of the loss's variance that is between clusters: 1 − (variance within) / (variance).

    The variance within is pooled over clusters with two probes or more, so the share is 0 on average for noise and can
    be negative. The interval is from a jackknife over clusters. The share is NaN if no cluster has two probes.
    """
    _, groups = np.unique(labels, return_inverse=True)
    counts = np.bincount(groups).astype(np.float64)
    sums, squares = np.bincount(groups, losses), np.bincount(groups, losses**2)
    within = np.maximum(squares - sums**2 / counts, 0.0)
    per_cluster = np.stack([within, counts - 1, counts, sums, squares])
    everything = per_cluster.sum(axis=1)
    share = float(_one_minus_within(everything[:, None])[0])
    without = _one_minus_within(everything[:, None] - per_cluster)
    if not (np.isfinite(share) and np.all(np.isfinite(without)) and without.size > 1):
        return Interval(share, -np.inf, 1.0, np.inf)
    size = without.size
    error = float(np.sqrt((size - 1) / size * ((without - without.mean()) ** 2).sum()))
    return Interval(share, share - Z95 * error, min(share + Z95 * error, 1.0), error)


def _one_minus_within(totals: Floats) -> Floats:
    within, degrees, count, total, squares = totals
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = (squares - total**2 / count) / (count - 1)
        share: Floats = 1 - within / degrees / variance
    return np.where(variance > 0, share, np.nan)


def _percentiles(values: Floats) -> tuple[float, ...]:
    return tuple(float(value) for value in np.percentile(values, PERCENTILES))
