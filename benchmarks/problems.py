"""Estimation problems: rows with a known loss each, so that an estimated total can be held against the truth.

Real problems carry the losses and squared gradient norms of small models that saw a small part of the data,
with the model's own last hidden layer as rows; synthetic ones each break, or satisfy, one assumption.
Everything is seeded, and what takes time is kept in `.cache` beside this file (plain arrays; delete the folder
to build them again).

    python benchmarks/problems.py        builds all problems and prints a line about each
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import normalize

Floats: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float32]
Labels: TypeAlias = NDArray[np.int64]
Arrays: TypeAlias = dict[str, NDArray[Any]]

ROOT = Path(__file__).resolve().parent
CACHE = ROOT / ".cache"
VERSION = 1  # raise it when a builder changes, so that old caches are not read


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows, the loss of each, and how many losses an estimate of their total may use."""

    name: str
    rows: Matrix
    losses: Floats
    budget: int
    kind: str  # "real" or "synthetic"
    hard: bool = False  # heavy-tailed, zero-inflated or rare-cluster: no sample-based interval can be trusted
    proxy: Floats | None = None  # a cheap model's loss on every row
    classes: Labels | None = None  # what the model was to tell apart


def data_folder() -> Path:
    """Where the shared data lies: `CORESIFT_DATA`, or `../shared/data` seen from the project's root."""
    return Path(os.environ.get("CORESIFT_DATA", ROOT.parent.parent / "shared" / "data"))


# ---------------------------------------------------------------- real losses


def cross_entropy(probabilities: Floats, labels: Labels) -> Floats:
    """The loss of each row, from predicted class probabilities."""
    chosen = probabilities[np.arange(len(labels)), labels]
    return np.asarray(-np.log(np.clip(chosen, 1e-12, 1.0)))


def squared_gradient_norms(model: MLPClassifier, pixels: Matrix, hidden: Floats, labels: Labels) -> Floats:
    """Each row's squared gradient norm, in all parameters of a network with one hidden ReLU layer."""
    output_error = model.predict_proba(pixels).astype(np.float64)
    output_error[np.arange(len(labels)), labels] -= 1.0
    hidden_error = (output_error @ model.coefs_[1].T) * (hidden > 0)
    output_part = (output_error**2).sum(1) * ((hidden**2).sum(1) + 1.0)
    hidden_part = (hidden_error**2).sum(1) * ((pixels.astype(np.float64) ** 2).sum(1) + 1.0)
    return np.asarray(output_part + hidden_part)


def image_arrays(pixels: Matrix, labels: Labels, seen: int, width: int, epochs: int) -> Arrays:
    """Hidden layer, losses, gradient norms and proxy losses of a network trained on `seen` random rows."""
    part = np.random.default_rng(11).permutation(len(pixels))[:seen]
    model = MLPClassifier((width,), batch_size=32, learning_rate_init=1e-3, random_state=11)
    for _ in range(epochs):
        model.partial_fit(pixels[part], labels[part], classes=np.unique(labels))
    hidden = np.maximum(pixels @ model.coefs_[0] + model.intercepts_[0], 0.0).astype(np.float64)
    return {
        "rows": hidden.astype(np.float32),
        "losses": cross_entropy(model.predict_proba(pixels), labels),
        "gradients": squared_gradient_norms(model, pixels, hidden, labels),
        "proxy": cheap_losses(pixels, labels, part),
    }


def cheap_losses(pixels: Matrix, labels: Labels, part: Labels) -> Floats:
    """Losses, on every row, of a logistic regression on twenty principal components of a small part."""
    components = PCA(20, random_state=11).fit(pixels[part])
    model = LogisticRegression(max_iter=500).fit(components.transform(pixels[part]), labels[part])
    return cross_entropy(model.predict_proba(components.transform(pixels)), labels)


def mnist_like(folder: str) -> Arrays:
    """The arrays of MNIST or Fashion-MNIST: 60,000 rows, a network that saw 2,000 of them."""
    with np.load(data_folder() / folder / f"{folder}.npz", allow_pickle=False) as file:
        pixels = file["X_train"]
    pixels = (pixels.reshape(len(pixels), -1) / 255.0).astype(np.float32)
    return image_arrays(pixels, mnist_like_classes(folder), seen=2_000, width=128, epochs=10)


def mnist_like_classes(folder: str) -> Labels:
    """The digit, or the kind of garment, of each row."""
    with np.load(data_folder() / folder / f"{folder}.npz", allow_pickle=False) as file:
        return np.asarray(file["y_train"], dtype=np.int64)


def digits() -> Arrays:
    """The arrays of the 1,797 digits that come with scikit-learn: a network that saw 300 of them."""
    pixels, labels = load_digits(return_X_y=True)
    pixels = (pixels / 16.0).astype(np.float32)
    return image_arrays(pixels, labels.astype(np.int64), seen=300, width=64, epochs=40)


def banking() -> Arrays:
    """Banking77's 10,003 questions: latent semantic vectors, a linear classifier that saw a tenth of them."""
    labels, texts = banking_questions()
    vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2)
    words = vectorizer.fit_transform(texts)
    rows = normalize(TruncatedSVD(64, random_state=12).fit_transform(words))
    part = np.random.default_rng(12).permutation(len(rows))[: len(rows) // 10]
    part = np.union1d(part, np.unique(labels, return_index=True)[1])  # the classifier must know every class
    model = LogisticRegression(C=10.0, max_iter=300).fit(rows[part], labels[part])
    return {"rows": rows.astype(np.float32), "losses": cross_entropy(model.predict_proba(rows), labels)}


def banking_questions() -> tuple[Labels, list[str]]:
    """What each question is about, by number, and the question."""
    with gzip.open(data_folder() / "banking77" / "train.tsv.gz", "rt", encoding="utf-8") as file:
        pairs = [line.rstrip("\n").split("\t", 1) for line in file][1:]
    _, labels = np.unique([label for label, _ in pairs], return_inverse=True)
    return labels, [text for _, text in pairs]


def gas() -> Arrays:
    """Gas sensors: the rows whose concentration is known, features standardized, cut at five deviations."""
    with np.load(data_folder() / "gas_drift" / "gas_drift.npz", allow_pickle=False) as file:
        features, concentration = file["X"], file["concentration"]
    known = np.isfinite(concentration)
    features = features[known].astype(np.float64)
    features = np.clip((features - features.mean(0)) / features.std(0), -5.0, 5.0)
    return {"rows": features.astype(np.float32), "losses": concentration[known].astype(np.float64)}


# ----------------------------------------------------------- synthetic losses


def gaussian_clusters(rng: np.random.Generator, sizes: Labels, d: int) -> tuple[Matrix, Labels]:
    """Well-separated Gaussian clusters of unequal widths, and which cluster each row is of."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    means = rng.normal(scale=3.0, size=(len(sizes), d))
    widths = rng.uniform(0.4, 1.2, size=len(sizes))
    rows = means[labels] + widths[labels, None] * rng.normal(size=(len(labels), d))
    return rows.astype(np.float32), labels


def random_sizes(rng: np.random.Generator, n: int, clusters: int) -> Labels:
    """Unequal cluster sizes that sum to n, none below ten."""
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


# ------------------------------------------------------------------ the table


@dataclass(frozen=True)
class Source:
    """How a problem is made: the arrays it is cut from, and which of them is the loss."""

    build: Callable[[], Arrays]
    kind: str = "real"
    loss: str = "losses"
    budget: int = 500
    hard: bool = False
    classes: Callable[[], Labels] | None = None


def mnist() -> Arrays:
    """MNIST."""
    return mnist_like("mnist")


def fashion_mnist() -> Arrays:
    """Fashion-MNIST."""
    return mnist_like("fashion_mnist")


def mnist_classes() -> Labels:
    """MNIST's digits."""
    return mnist_like_classes("mnist")


def fashion_classes() -> Labels:
    """Fashion-MNIST's garments."""
    return mnist_like_classes("fashion_mnist")


def digits_classes() -> Labels:
    """The digits of scikit-learn's."""
    return np.asarray(load_digits(return_X_y=True)[1], dtype=np.int64)


def banking_classes() -> Labels:
    """The 77 things that customers ask about."""
    return banking_questions()[0]


SOURCES = {
    "mnist-loss": Source(mnist, classes=mnist_classes),
    "mnist-gradient": Source(mnist, loss="gradients", classes=mnist_classes),
    "fashion-loss": Source(fashion_mnist, classes=fashion_classes),
    "fashion-gradient": Source(fashion_mnist, loss="gradients", classes=fashion_classes),
    "digits-loss": Source(digits, budget=200, classes=digits_classes),
    "digits-gradient": Source(digits, loss="gradients", budget=200, classes=digits_classes),
    "banking-loss": Source(banking, classes=banking_classes),
    "gas-concentration": Source(gas),
    "holder": Source(holder, "synthetic"),
    "no-signal": Source(no_signal, "synthetic"),
    "lognormal": Source(lognormal, "synthetic", hard=True),
    "pareto": Source(pareto, "synthetic", hard=True),
    "rare-cluster": Source(rare_cluster, "synthetic", hard=True),
    "zero-inflated": Source(zero_inflated, "synthetic", hard=True),
}


def cached(build: Callable[[], Arrays]) -> Arrays:
    """What `build` makes, read from the cache folder when it has been made before."""
    path = CACHE / f"{build.__name__}-{VERSION}.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    arrays = build()
    CACHE.mkdir(exist_ok=True)
    aside = path.with_suffix(".part.npz")
    np.savez(aside, allow_pickle=False, **arrays)
    aside.replace(path)
    return arrays


def load_problem(name: str) -> Problem:
    """One problem by its name, a key of `SOURCES`."""
    source = SOURCES[name]
    arrays = cached(source.build)
    has_proxy = source.loss == "losses" and "proxy" in arrays
    return Problem(
        name=name,
        rows=np.ascontiguousarray(arrays["rows"], dtype=np.float32),
        losses=np.asarray(arrays[source.loss], dtype=np.float64),
        budget=source.budget,
        kind=source.kind,
        hard=source.hard,
        proxy=np.asarray(arrays["proxy"], dtype=np.float64) if has_proxy else None,
        classes=None if source.classes is None else source.classes(),
    )


def main() -> None:
    """Build every problem and print its shape and the spread of its losses."""
    print(f"{'problem':18s} {'rows':>6s} {'d':>4s} {'budget':>6s} {'zeros':>6s} {'cv':>6s} {'max/total':>9s}")
    for name in SOURCES:
        problem = load_problem(name)
        n, d = problem.rows.shape
        losses = problem.losses
        zeros, spread, peak = (losses == 0).mean(), losses.std() / losses.mean(), losses.max() / losses.sum()
        print(f"{name:18s} {n:6d} {d:4d} {problem.budget:6d} {zeros:6.3f} {spread:6.2f} {peak:9.5f}")


if __name__ == "__main__":
    main()
