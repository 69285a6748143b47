"""How each tool chooses rows to label. All have the same model, the same rounds, and the same random first rows.

coresift and TypiClust choose their own first rows, because that is a part of the method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers.shared import Array, Data, Tool, batches, draw, first_rows, logistic, one_thread


def coresift(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run `cs.active_learning` with default options, including its own small model."""
    return _coresift(data, budget, seed)


def coresift_same_model(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run `cs.active_learning` with the other tools' model."""
    return _coresift(data, budget, seed, head=logistic())


def _coresift(data: Data, budget: int, seed: int, **options: Any) -> dict[str, Array]:
    import coresift as cs  # noqa: PLC0415

    labels = data["y"].astype(str)
    options |= {"labels": lambda rows: labels[rows], "engine": one_thread()}
    return {"ids": cs.active_learning(data["x"], budget=budget, seed=seed, **options).complete().ids}


def uniform(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Choose random rows."""
    return {"ids": draw(len(data["x"]), budget, seed)}


def modal_margin(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run margin sampling by modAL."""
    from modAL.uncertainty import margin_sampling  # noqa: PLC0415

    return _modal(margin_sampling, data, budget, seed)


def modal_ranked(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run ranked batches by modAL, which its documentation recommends for batches."""
    from modAL.batch import uncertainty_batch_sampling  # noqa: PLC0415

    return _modal(uncertainty_batch_sampling, data, budget, seed)


def _modal(strategy: Any, data: Data, budget: int, seed: int) -> dict[str, Array]:
    from modAL.models import ActiveLearner  # noqa: PLC0415

    x, y = data["x"], data["y"]
    first, *later = batches(budget)
    ids = first_rows(y, first, seed)
    learner = ActiveLearner(logistic(), strategy, X_training=x[ids], y_training=y[ids])
    for count in later:
        unlabeled = np.setdiff1d(np.arange(len(x)), ids)
        batch = unlabeled[learner.query(x[unlabeled], n_instances=count)[0]]
        learner.teach(x[batch], y[batch])
        ids = np.concatenate([ids, batch])
    return {"ids": ids}


def small_text(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run breaking ties (margin sampling) by small-text."""
    from scipy.sparse import csr_matrix  # noqa: PLC0415
    from small_text import BreakingTies, PoolBasedActiveLearner, SklearnClassifierFactory, SklearnDataset  # noqa: PLC0415

    x, y = data["x"], data["y"]
    np.random.seed(seed)
    classes = np.arange(y.max() + 1)
    pool = SklearnDataset(csr_matrix(x), np.zeros(len(x), int), target_labels=classes)
    factory = SklearnClassifierFactory(logistic(), len(classes))
    learner = PoolBasedActiveLearner(factory, BreakingTies(), pool)
    first, *later = batches(budget)
    ids = first_rows(y, first, seed)
    (getattr(learner, "initialize_data", None) or learner.initialize)(ids, y[ids])
    for count in later:
        batch = learner.query(num_samples=count)
        learner.update(y[batch])
        ids = np.concatenate([ids, batch])
    return {"ids": ids}


def activeml_margin(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run margin sampling by scikit-activeml."""
    from skactiveml.pool import UncertaintySampling  # noqa: PLC0415

    return _activeml(UncertaintySampling("margin_sampling", random_state=seed).query, data, budget, seed)


def activeml_badge(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run BADGE by scikit-activeml, the strategy of its example with embeddings."""
    from skactiveml.pool import Badge  # noqa: PLC0415

    return _activeml(Badge(random_state=seed).query, data, budget, seed)


def activeml_clue(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run CLUE by scikit-activeml: clusters weighted by entropy."""
    from skactiveml.pool import Clue  # noqa: PLC0415

    strategy = Clue(random_state=seed)

    def query(x: Array, y: Array, clf: Any, batch_size: int) -> Array:
        return strategy.query(x, y, estimator=clf, batch_size=batch_size)

    return _activeml(query, data, budget, seed)


def activeml_dropquery(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run DropQuery by scikit-activeml: clusters of the rows whose prediction changes when features are dropped."""
    from skactiveml.pool import DropQuery  # noqa: PLC0415

    return _activeml(DropQuery(random_state=seed).query, data, budget, seed)


def _activeml(query: Callable[..., Array], data: Data, budget: int, seed: int) -> dict[str, Array]:
    from skactiveml.classifier import SklearnClassifier  # noqa: PLC0415

    x, truth = data["x"], data["y"]
    y = np.full(len(x), np.nan)
    first, *later = batches(budget)
    start = first_rows(truth, first, seed)
    y[start] = truth[start]
    for count in later:
        model = SklearnClassifier(logistic(), classes=np.unique(truth), random_state=seed)
        batch = query(x, y, clf=model, batch_size=count)
        y[batch] = truth[batch]
    return {"ids": np.flatnonzero(~np.isnan(y))}


def activeml_typiclust(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run TypiClust by scikit-activeml, in one batch, because it needs no model."""
    from skactiveml.pool import TypiClust  # noqa: PLC0415

    return {"ids": TypiClust(random_state=seed).query(data["x"], np.full(len(data["x"]), np.nan), batch_size=budget)}


TOOLS: dict[str, Tool] = {
    "coresift": coresift,
    "coresift, the others' model": coresift_same_model,
    "uniform": uniform,
    "modAL, margin": modal_margin,
    "modAL, ranked batches": modal_ranked,
    "small-text": small_text,
    "scikit-activeml, margin": activeml_margin,
    "scikit-activeml, BADGE": activeml_badge,
    "scikit-activeml, CLUE": activeml_clue,
    "scikit-activeml, DropQuery": activeml_dropquery,
    "scikit-activeml, TypiClust": activeml_typiclust,
}
