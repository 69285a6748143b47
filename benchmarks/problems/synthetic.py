"""Synthetic problems, each of which satisfies or breaks one assumption."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.neighbors import NearestNeighbors

from benchmarks.problems.base import Arrays, Floats, Labels, Matrix


def gaussian_clusters(rng: np.random.Generator, sizes: Labels, d: int) -> tuple[Matrix, Labels]:
    """Return well-separated Gaussian clusters of unequal widths, and the cluster of each row."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    means = rng.normal(scale=3.0, size=(len(sizes), d))
    widths = rng.uniform(0.4, 1.2, size=len(sizes))
    rows = means[labels] + widths[labels, None] * rng.normal(size=(len(labels), d))
    return rows.astype(np.float32), labels


def random_sizes(rng: np.random.Generator, n: int, clusters: int) -> Labels:
    """Return unequal cluster sizes that sum to n, none below ten."""
    return 10 + rng.multinomial(n - 10 * clusters, rng.dirichlet(np.full(clusters, 2.0)))


def holder() -> Arrays:
    """A level for each cluster plus noise of at most the squared distance to the nearest other row.

    The noise of two rows then differs by at most their squared distance, and clusters lie far apart, so
    |l(x) - l(c)| <= L ||x - c||^2 with L near 1 for *any* choice of centers.
    """
    rng = np.random.default_rng(21)
    rows, labels = gaussian_clusters(rng, random_sizes(rng, 20_000, 40), 16)
    nearest = NearestNeighbors(n_neighbors=2).fit(rows).kneighbors(rows)[0][:, 1].astype(np.float64)
    level = rng.gamma(1.0, 2.0, size=40)
    return {"rows": rows, "losses": level[labels] + rng.uniform(size=len(rows)) * nearest**2}


def heavy_tailed(seed: int, noise: Callable[[np.random.Generator, int], Floats]) -> Arrays:
    """Cluster levels times noise whose few largest values carry much of the total."""
    rng = np.random.default_rng(seed)
    rows, labels = gaussian_clusters(rng, random_sizes(rng, 20_000, 40), 24)
    return {"rows": rows, "losses": rng.gamma(2.0, size=40)[labels] * noise(rng, len(rows))}


def lognormal() -> Arrays:
    """Log-normal noise with deviation 2."""
    return heavy_tailed(22, lambda rng, n: rng.lognormal(sigma=2.0, size=n))


def pareto() -> Arrays:
    """Pareto noise with tail index 1.7: in an infinite population its variance would not exist."""
    return heavy_tailed(23, lambda rng, n: 1.0 + rng.pareto(1.7, size=n))


def rare_cluster() -> Arrays:
    """One cluster of half a percent of the rows holds almost all of the loss."""
    rng = np.random.default_rng(24)
    sizes = np.append(random_sizes(rng, 19_900, 30), 100)
    rows, labels = gaussian_clusters(rng, sizes, 24)
    losses = 0.01 * rng.gamma(2.0, size=len(rows))
    rare = labels == len(sizes) - 1
    losses[rare] = rng.uniform(5.0, 15.0, size=rare.sum())
    return {"rows": rows, "losses": losses}


def zero_inflated() -> Arrays:
    """About 97 percent of the losses are exactly zero; how many are not differs between clusters."""
    rng = np.random.default_rng(25)
    rows, labels = gaussian_clusters(rng, random_sizes(rng, 20_000, 40), 32)
    chance = np.minimum(0.03 * rng.gamma(0.7, 1.0 / 0.7, size=40), 0.5)
    positive = rng.uniform(size=len(rows)) < chance[labels]
    return {"rows": rows, "losses": positive * rng.gamma(2.0, size=len(rows))}


def no_signal() -> Arrays:
    """Losses that have nothing to do with the rows: no method beats a uniform sample, but many lose to it."""
    rng = np.random.default_rng(26)
    rows, _ = gaussian_clusters(rng, random_sizes(rng, 20_000, 40), 24)
    return {"rows": rows, "losses": rng.gamma(1.5, size=len(rows))}


def distance_noise() -> Arrays:
    """Losses whose typical size grows with the distance from the center of a cluster, as the paper assumes."""
    rng = np.random.default_rng(61)
    rows, labels = gaussian_clusters(rng, random_sizes(rng, 20_000, 40), 6)
    middles = np.stack([rows[labels == cluster].mean(0) for cluster in range(40)])
    away = ((rows - middles[labels]) ** 2).sum(1).astype(np.float64)
    return {"rows": rows, "losses": away * rng.exponential(size=len(rows))}


def shuffled() -> Arrays:
    """Heavy clusters of losses, assigned to rows at random: there is nothing to learn, but a pilot sees patterns."""
    rng = np.random.default_rng(62)
    rows, labels = gaussian_clusters(rng, random_sizes(rng, 20_000, 40), 8)
    return {"rows": rows, "losses": rng.permutation(rng.gamma(0.5, 2.0, size=40)[labels] * rng.gamma(1.0, size=20_000))}


def rare_clusters() -> Arrays:
    """Five clusters of a fifth of a percent each hold most of the loss."""
    rng = np.random.default_rng(63)
    sizes = np.append(random_sizes(rng, 19_800, 30), np.full(5, 40))
    rows, labels = gaussian_clusters(rng, sizes, 16)
    losses = 0.02 * rng.gamma(2.0, size=len(rows))
    rare = labels >= 30
    losses[rare] = rng.uniform(1.0, 10.0, size=rare.sum())
    return {"rows": rows, "losses": losses}


def zero_nearby() -> Arrays:
    """Losses are zero near the center of a cluster; only the outermost rows may have a loss."""
    rng = np.random.default_rng(64)
    rows, labels = gaussian_clusters(rng, random_sizes(rng, 20_000, 40), 5)
    middles = np.stack([rows[labels == cluster].mean(0) for cluster in range(40)])
    away = ((rows - middles[labels]) ** 2).sum(1)
    outer = away > np.array([np.quantile(away[labels == cluster], 0.85) for cluster in range(40)])[labels]
    return {"rows": rows, "losses": (outer & (rng.random(len(rows)) < 0.3)) * rng.gamma(2.0, size=len(rows))}


def inside_out() -> Arrays:
    """Losses are larger near the center of a cluster, so distances mislead."""
    rng = np.random.default_rng(65)
    rows, labels = gaussian_clusters(rng, random_sizes(rng, 20_000, 40), 5)
    middles = np.stack([rows[labels == cluster].mean(0) for cluster in range(40)])
    away = ((rows - middles[labels]) ** 2).sum(1).astype(np.float64)
    spread = np.array([away[labels == cluster].mean() for cluster in range(40)])[labels]
    return {"rows": rows, "losses": np.exp(-2 * away / spread) * rng.gamma(2.0, size=len(rows))}


def hidden_axis() -> Arrays:
    """The loss depends on an axis with a hundredth of the variance, which clusters hardly reflect."""
    rng = np.random.default_rng(66)
    rows, _ = gaussian_clusters(rng, random_sizes(rng, 20_000, 40), 12)
    axis = rng.normal(size=len(rows))
    rows[:, 0] = 0.3 * axis
    return {"rows": rows, "losses": np.exp(1.2 * axis) * rng.gamma(2.0, size=len(rows))}


def outlying() -> Arrays:
    """One row in fifty is an outlier, and its loss grows with the square of its distance."""
    rng = np.random.default_rng(67)
    rows = rng.normal(size=(20_000, 10))
    rows[:400] *= 1 + rng.pareto(2.5, size=400)[:, None]
    return {"rows": rows.astype(np.float32), "losses": (rows[:, 0] * rng.normal(size=20_000)) ** 2}


def duplicated() -> Arrays:
    """Half of the rows are exact copies of a hundred points, but their losses differ."""
    rng = np.random.default_rng(68)
    rows, _ = gaussian_clusters(rng, random_sizes(rng, 20_000, 40), 10)
    copies = rng.integers(100, size=10_000)
    rows[:10_000] = rows[10_000 + copies]
    level = rng.gamma(1.0, size=100)
    losses = rng.gamma(2.0, size=20_000)
    losses[:10_000] *= level[copies]
    return {"rows": rows, "losses": losses}
