"""How each tool does a job: a function of (data, budget, seed) that returns arrays by name.

Each runs in a process of its own (`benchmarks.peers.child`), which may belong to another environment, so nothing is
imported here but numpy. Tools are used as their documentation shows, with their defaults; what differs is said in the
function. Tools of active learning get the same model, the same first rows and as many rounds as coresift.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Data = Mapping[str, Array]
Tool = Callable[[Data, int, int], dict[str, Array]]
ROUNDS = 8
NORMAL = 1.959963984540054


def draw(n: int, count: int, seed: int) -> Array:
    """Return rows at random, the same for all tools."""
    return np.random.default_rng([seed, 11]).permutation(n)[:count]


def batches(budget: int) -> list[int]:
    """Return the sizes of rounds: a fifth of the budget first, then equal parts."""
    first = budget // 5
    cuts = np.linspace(first, budget, ROUNDS).round().astype(int)
    return [first, *np.diff(cuts).tolist()]


def logistic() -> Any:
    """Return the model that all tools of active learning train."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    return LogisticRegression(C=10.0, max_iter=200)


# ------------------------------------------------------------------------------------------------------------ label


def label_coresift(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Active learning with every default, and the default's own small model."""
    import coresift as cs  # noqa: PLC0415

    run = cs.active_learning(data["x"], budget=budget, labels=lambda rows: data["y"][rows].astype(str), seed=seed)
    return {"ids": run.complete().ids}


def label_uniform(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Rows at random."""
    return {"ids": draw(len(data["x"]), budget, seed)}


def label_modal(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Margin sampling by modAL."""
    from modAL.models import ActiveLearner  # noqa: PLC0415
    from modAL.uncertainty import margin_sampling  # noqa: PLC0415

    x, y = data["x"], data["y"]
    first, *later = batches(budget)
    ids = draw(len(x), first, seed)
    learner = ActiveLearner(logistic(), margin_sampling, X_training=x[ids], y_training=y[ids])
    for count in later:
        left = np.setdiff1d(np.arange(len(x)), ids)
        found = left[learner.query(x[left], n_instances=count)[0]]
        learner.teach(x[found], y[found])
        ids = np.concatenate([ids, found])
    return {"ids": ids}


def label_small_text(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Breaking ties (margin sampling) by small-text."""
    from scipy.sparse import csr_matrix  # noqa: PLC0415
    from small_text import BreakingTies, PoolBasedActiveLearner, SklearnClassifierFactory, SklearnDataset  # noqa: PLC0415

    x, y = data["x"], data["y"]
    np.random.seed(seed)
    classes = np.arange(y.max() + 1)
    pool = SklearnDataset(csr_matrix(x), np.zeros(len(x), int), target_labels=classes)
    factory = SklearnClassifierFactory(logistic(), len(classes))
    learner = PoolBasedActiveLearner(factory, BreakingTies(), pool)
    first, *later = batches(budget)
    ids = draw(len(x), first, seed)
    (getattr(learner, "initialize_data", None) or learner.initialize)(ids, y[ids])
    for count in later:
        found = learner.query(num_samples=count)
        learner.update(y[found])
        ids = np.concatenate([ids, found])
    return {"ids": ids}


def label_activeml(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Margin sampling by scikit-activeml."""
    from skactiveml.classifier import SklearnClassifier  # noqa: PLC0415
    from skactiveml.pool import UncertaintySampling  # noqa: PLC0415

    x, truth = data["x"], data["y"]
    y = np.full(len(x), np.nan)
    first, *later = batches(budget)
    start = draw(len(x), first, seed)
    y[start] = truth[start]
    strategy = UncertaintySampling("margin_sampling", random_state=seed)
    for count in later:
        model = SklearnClassifier(logistic(), classes=np.unique(truth), random_state=seed)
        found = strategy.query(x, y, clf=model, batch_size=count)
        y[found] = truth[found]
    return {"ids": np.flatnonzero(~np.isnan(y))}


def label_typiclust(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """TypiClust by scikit-activeml, which needs no model: one batch."""
    from skactiveml.pool import TypiClust  # noqa: PLC0415

    return {"ids": TypiClust(random_state=seed).query(data["x"], np.full(len(data["x"]), np.nan), batch_size=budget)}


# --------------------------------------------------------------------------------------------------------- evaluate


def evaluate_coresift(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Accuracy from labels and the model's probabilities."""
    import coresift as cs  # noqa: PLC0415

    signals = cs.signals.from_probabilities(data["probabilities"])
    given = {"labels": data["y"], "predictions": data["predicted"], "signals": signals}
    found = cs.evaluate(**given, budget=budget, seed=seed).complete()
    return {"interval": np.array([found.value, found.low, found.high])}


def evaluate_uniform(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """The mean of random rows, with the finite-population correction."""
    right = (data["y"] == data["predicted"])[draw(len(data["y"]), budget, seed)]
    error = NORMAL * np.sqrt(right.var(ddof=1) / budget * (1 - budget / len(data["y"])))
    return {"interval": np.array([right.mean(), right.mean() - error, right.mean() + error])}


def evaluate_ppi(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """PPI++ by ppi-python: random rows, and the largest probability as the prediction of being right."""
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate  # noqa: PLC0415

    right, guess = (data["y"] == data["predicted"]).astype(float), data["probabilities"].max(axis=1).astype(float)
    labeled = np.zeros(len(right), np.bool_)
    labeled[draw(len(right), budget, seed)] = True
    given = right[labeled], guess[labeled], guess[~labeled]
    low, high = ppi_mean_ci(*given, alpha=0.05)
    return {"interval": np.array([np.ravel(ppi_mean_pointestimate(*given))[0], low[0], high[0]])}


def evaluate_glide(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Active statistical inference by glide-py: doubts are distances of the largest probability from 0 and 1."""
    from glide.estimators import ASIMeanEstimator  # noqa: PLC0415
    from glide.samplers import ActiveSampler  # noqa: PLC0415

    right, guess = (data["y"] == data["predicted"]).astype(float), data["probabilities"].max(axis=1).astype(float)
    doubt = np.sqrt(guess * (1 - guess))
    # It wants doubts above 0, and their ratio below 1,000.
    chance, drawn = ActiveSampler().sample(np.maximum(doubt, doubt.max() / 999), budget, random_seed=seed)
    found = ASIMeanEstimator().estimate(np.where(drawn == 1, right, np.nan), guess, chance)
    interval = found.confidence_interval
    return {"interval": np.array([interval.mean, interval.lower_bound, interval.upper_bound])}


# -------------------------------------------------------------------------------------------------------- summarize


def summarize_coresift(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """A weighted selection; the losses of the pilot count in the budget."""
    import coresift as cs  # noqa: PLC0415

    selection = cs.select(data["x"], losses=lambda rows: data["losses"][rows], budget=budget, seed=seed)
    return {"total": np.array(cs.estimate(selection, data["losses"][selection.ids]).total.value)}


def summarize_uniform(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """The mean of random rows."""
    losses = data["losses"]
    return {"total": losses[draw(len(losses), budget, seed)].mean() * len(losses)}


def summarize_kmeans(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """The row nearest to each center of scikit-learn's KMeans, times the size of its cluster."""
    ids, labels = _medoids(data["x"], budget, seed)
    return {"total": (np.bincount(labels, minlength=budget) * data["losses"][ids]).sum()}


def summarize_coreax(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """The mean over a coreset by kernel herding."""
    return {"total": data["losses"][_herding(data["x"], budget)].mean() * len(data["x"])}


def summarize_apricot(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """The mean over a facility location, each row times the number of rows that are nearest to it."""
    ids = _apricot(data["x"], budget, seed)
    from sklearn.metrics import pairwise_distances_argmin  # noqa: PLC0415

    nearest = pairwise_distances_argmin(data["x"], data["x"][ids])
    return {"total": (np.bincount(nearest, minlength=len(ids)) * data["losses"][ids]).sum()}


# ------------------------------------------------------------------------------------------------------------ cover


def cover_coresift(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """`cs.cover` with every default."""
    import coresift as cs  # noqa: PLC0415

    return {"ids": cs.cover(data["x"], budget, seed=seed).ids}


def cover_kmeans(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """The row nearest to each center of scikit-learn's KMeans."""
    return {"ids": _medoids(data["x"], budget, seed)[0]}


def cover_apricot(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Facility location by apricot."""
    return {"ids": _apricot(data["x"], budget, seed)}


def cover_coreax(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Kernel herding by coreax."""
    return {"ids": _herding(data["x"], budget)}


def cover_semhash(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Representatives by semhash, which ranks by cosine; embeddings are given, so its encoder is never called."""
    from semhash import SemHash  # noqa: PLC0415

    class NoEncoder:
        def encode(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    records = [{"row": str(row)} for row in range(len(data["x"]))]
    hashed = SemHash.from_embeddings(data["x"], records, NoEncoder(), columns=["row"])
    found = hashed.self_find_representative(selection_size=budget, candidate_limit=len(records))
    return {"ids": np.array([int(record["row"]) for record in found.selected])}


def cover_uniform(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Rows at random."""
    return {"ids": draw(len(data["x"]), budget, seed)}


# ---------------------------------------------------------------------------------------------------------- cluster


def cluster_coresift(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """`cs.cluster` with every default; the points in space count, as for the others."""
    import coresift as cs  # noqa: PLC0415

    return {"centers": cs.cluster(data["x"], budget, seed=seed).free_centers}


def cluster_kmeans(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """KMeans with one initialization."""
    from sklearn.cluster import KMeans  # noqa: PLC0415

    return {"centers": KMeans(budget, n_init=1, random_state=seed).fit(data["x"]).cluster_centers_}


def cluster_minibatch(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """MiniBatchKMeans with one initialization."""
    from sklearn.cluster import MiniBatchKMeans  # noqa: PLC0415

    return {"centers": MiniBatchKMeans(budget, n_init=1, random_state=seed).fit(data["x"]).cluster_centers_}


def cluster_faiss(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """faiss with 25 iterations, its default."""
    import faiss  # noqa: PLC0415

    fitted = faiss.Kmeans(data["x"].shape[1], budget, niter=25, seed=seed + 1)
    fitted.train(np.ascontiguousarray(data["x"]))
    return {"centers": np.asarray(fitted.centroids)}


# ----------------------------------------------------------------------------------------------------------- shared


def _medoids(x: Array, budget: int, seed: int) -> tuple[Array, Array]:
    from sklearn.cluster import KMeans  # noqa: PLC0415
    from sklearn.metrics import pairwise_distances_argmin  # noqa: PLC0415

    fitted = KMeans(budget, n_init=1, random_state=seed).fit(x)
    return pairwise_distances_argmin(fitted.cluster_centers_, x), fitted.labels_


def _apricot(x: Array, budget: int, seed: int) -> Array:
    from apricot import FacilityLocationSelection  # noqa: PLC0415

    return np.asarray(FacilityLocationSelection(budget, metric="euclidean", random_state=seed).fit(x).ranking)


def _herding(x: Array, budget: int) -> Array:
    """Kernel herding with a squared exponential kernel whose length is the median distance of 1,000 rows."""
    from coreax import Data, SquaredExponentialKernel  # noqa: PLC0415
    from coreax.solvers import KernelHerding  # noqa: PLC0415
    from scipy.spatial.distance import pdist  # noqa: PLC0415

    length = float(np.median(pdist(x[draw(len(x), 1_000, 0)])))
    solver = KernelHerding(budget, kernel=SquaredExponentialKernel(length_scale=length), unique=True)
    found, _ = solver.reduce(Data(x))
    return np.asarray(found.unweighted_indices)


JOBS: dict[str, dict[str, Tool]] = {
    "label": {
        "coresift": label_coresift,
        "uniform": label_uniform,
        "modAL": label_modal,
        "small-text": label_small_text,
        "scikit-activeml, margin": label_activeml,
        "scikit-activeml, TypiClust": label_typiclust,
    },
    "evaluate": {
        "coresift": evaluate_coresift,
        "uniform": evaluate_uniform,
        "ppi-python": evaluate_ppi,
        "glide-py": evaluate_glide,
    },
    "summarize": {
        "coresift": summarize_coresift,
        "uniform": summarize_uniform,
        "scikit-learn, KMeans": summarize_kmeans,
        "coreax": summarize_coreax,
        "apricot": summarize_apricot,
    },
    "cover": {
        "coresift": cover_coresift,
        "uniform": cover_uniform,
        "scikit-learn, KMeans": cover_kmeans,
        "apricot": cover_apricot,
        "coreax": cover_coreax,
        "semhash": cover_semhash,
    },
    "cluster": {
        "coresift": cluster_coresift,
        "scikit-learn, KMeans": cluster_kmeans,
        "scikit-learn, MiniBatchKMeans": cluster_minibatch,
        "faiss": cluster_faiss,
    },
}
