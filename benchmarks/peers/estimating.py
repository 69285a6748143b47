"""How each tool estimates an accuracy or a total loss from a few answers."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers.geometry import apricot_rows, herded_rows, nearest_to_centers
from benchmarks.peers.shared import Array, Data, Tool, draw, one_thread

NORMAL = 1.959963984540054
STRATA = 5


def evaluate_coresift(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Accuracy from labels and the model's probabilities."""
    import coresift as cs  # noqa: PLC0415

    signals = cs.signals.from_probabilities(data["probabilities"])
    given = {"labels": data["y"], "predictions": data["predicted"], "signals": signals, "engine": one_thread()}
    found = cs.evaluate(**given, budget=budget, seed=seed).complete()
    return {"interval": np.array([found.value, found.low, found.high])}


def evaluate_uniform(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """The mean of random rows, with the finite-population correction."""
    right = _right(data)[draw(len(data["y"]), budget, seed)]
    error = NORMAL * np.sqrt(right.var(ddof=1) / budget * (1 - budget / len(data["y"])))
    return {"interval": np.array([right.mean(), right.mean() - error, right.mean() + error])}


def evaluate_ppi(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """PPI++ by ppi-python: random rows, and the largest probability as the prediction of being right."""
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate  # noqa: PLC0415

    right, guess = _right(data), _guess(data)
    labeled = np.zeros(len(right), np.bool_)
    labeled[draw(len(right), budget, seed)] = True
    given = right[labeled], guess[labeled], guess[~labeled]
    low, high = ppi_mean_ci(*given, alpha=0.05)
    return {"interval": np.array([np.ravel(ppi_mean_pointestimate(*given))[0], low[0], high[0]])}


def evaluate_glide_active(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Active statistical inference by glide-py; the budget is met on average."""
    from glide.estimators import ASIMeanEstimator  # noqa: PLC0415
    from glide.samplers import ActiveSampler  # noqa: PLC0415

    guess = _guess(data)
    doubt = np.sqrt(guess * (1 - guess))
    # It wants doubts above 0, and their ratio below 1,000.
    chance, drawn = ActiveSampler().sample(np.maximum(doubt, doubt.max() / 999), budget, random_seed=seed)
    return _glide(ASIMeanEstimator().estimate(np.where(drawn == 1, _right(data), np.nan), guess, chance))


def evaluate_glide_stratified(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Stratified PPI++ by glide-py, with five strata of the largest probability."""
    from glide.estimators import StratifiedPPIMeanEstimator  # noqa: PLC0415
    from glide.samplers import StratifiedSampler  # noqa: PLC0415

    # Strata need predictions that differ; a little noise breaks ties without changing their order.
    guess = _guess(data) + 1e-6 * np.random.default_rng(0).standard_normal(len(data["y"]))
    strata = np.searchsorted(np.quantile(guess, np.arange(1, STRATA) / STRATA), guess)
    drawn = StratifiedSampler().sample(guess, strata, budget, strategy="proportional", random_seed=seed)
    answers = np.where(drawn == 1, _right(data), np.nan)
    return _glide(StratifiedPPIMeanEstimator().estimate(answers, guess, strata))


def _right(data: Data) -> Array:
    return (data["y"] == data["predicted"]).astype(float)


def _guess(data: Data) -> Array:
    """Return the model's own probability of being right."""
    return data["probabilities"].max(axis=1).astype(float)


def _glide(found: Any) -> dict[str, Array]:
    interval = found.confidence_interval
    return {"interval": np.array([interval.mean, interval.lower_bound, interval.upper_bound])}


# -------------------------------------------------------------------------------------------------------- summarize


def summarize_coresift(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """A weighted selection; the losses of the pilot count in the budget."""
    import coresift as cs  # noqa: PLC0415

    losses = data["losses"]
    options = {"losses": lambda rows: losses[rows], "engine": one_thread()}
    selection = cs.select(data["x"], budget=budget, seed=seed, **options)
    return {"ids": selection.ids, "total": np.array(cs.estimate(selection, losses[selection.ids]).total.value)}


def summarize_uniform(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """The mean of random rows."""
    return _equal(draw(len(data["x"]), budget, seed), len(data["x"]))


def summarize_kmeans(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """The row nearest to each center of scikit-learn's KMeans, times the size of its cluster."""
    nearest, labels = nearest_to_centers(data["x"], budget, seed)
    ids, places = np.unique(nearest[labels], return_inverse=True)  # a row may be the nearest to two centers
    return {"ids": ids, "weights": np.bincount(places).astype(float)}


def summarize_coreax(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """The mean over a coreset by kernel herding."""
    return _equal(herded_rows(data["x"], budget)[0], len(data["x"]))


def summarize_coreax_weighted(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """The same coreset with the weights that minimize the maximum mean discrepancy."""
    ids, weights = herded_rows(data["x"], budget, weighted=True)
    return {"ids": ids, "weights": weights * len(data["x"])}


def summarize_apricot(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """A facility location by apricot, each row times the number of rows that are nearest to it."""
    from sklearn.metrics import pairwise_distances_argmin  # noqa: PLC0415

    ids = apricot_rows(data["x"], budget, seed)
    nearest = pairwise_distances_argmin(data["x"], data["x"][ids])
    return {"ids": ids, "weights": np.bincount(nearest, minlength=len(ids)).astype(float)}


def _equal(ids: Array, n: int) -> dict[str, Array]:
    return {"ids": ids, "weights": np.full(len(ids), n / len(ids))}


EVALUATE: dict[str, Tool] = {
    "coresift": evaluate_coresift,
    "uniform": evaluate_uniform,
    "ppi-python": evaluate_ppi,
    "glide-py, active": evaluate_glide_active,
    "glide-py, stratified": evaluate_glide_stratified,
}
SUMMARIZE: dict[str, Tool] = {
    "coresift": summarize_coresift,
    "uniform": summarize_uniform,
    "scikit-learn, KMeans": summarize_kmeans,
    "coreax, herding": summarize_coreax,
    "coreax, herding and weights": summarize_coreax_weighted,
    "apricot": summarize_apricot,
}
