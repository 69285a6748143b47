"""How each tool estimates an accuracy or a total loss from a few labels or losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers.geometry import apricot_rows, herded_rows, nearest_to_centers
from benchmarks.peers.shared import Array, Data, Tool, draw, one_thread

NORMAL = 1.959963984540054
STRATA = 5


def evaluate_coresift(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run `cs.evaluate` with the model's probabilities as signals."""
    import coresift as cs  # noqa: PLC0415

    signals = cs.signals.from_probabilities(data["probabilities"])
    options = {"labels": data["y"], "predictions": data["predicted"], "signals": signals, "engine": one_thread()}
    result = cs.evaluate(**options, budget=budget, seed=seed).complete()
    return {"interval": np.array([result.value, result.low, result.high])}


def evaluate_uniform(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Return the mean of random rows, with the finite-population correction."""
    right = _right(data)[draw(len(data["y"]), budget, seed)]
    error = NORMAL * np.sqrt(right.var(ddof=1) / budget * (1 - budget / len(data["y"])))
    return {"interval": np.array([right.mean(), right.mean() - error, right.mean() + error])}


def evaluate_ppi(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run PPI++ by ppi-python on random rows; the largest probability predicts whether the model is right."""
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate  # noqa: PLC0415

    right, guess = _right(data), _guess(data)
    labeled = np.zeros(len(right), np.bool_)
    labeled[draw(len(right), budget, seed)] = True
    samples = right[labeled], guess[labeled], guess[~labeled]
    low, high = ppi_mean_ci(*samples, alpha=0.05)
    return {"interval": np.array([np.ravel(ppi_mean_pointestimate(*samples))[0], low[0], high[0]])}


def evaluate_glide_active(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run active statistical inference by glide-py; it uses the budget on average."""
    from glide.estimators import ASIMeanEstimator  # noqa: PLC0415
    from glide.samplers import ActiveSampler  # noqa: PLC0415

    guess = _guess(data)
    doubt = np.sqrt(guess * (1 - guess))
    # glide-py requires uncertainties above 0 whose ratio is below 1,000.
    chance, drawn = ActiveSampler().sample(np.maximum(doubt, doubt.max() / 999), budget, random_seed=seed)
    return _glide(ASIMeanEstimator().estimate(np.where(drawn == 1, _right(data), np.nan), guess, chance))


def evaluate_glide_stratified(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run stratified PPI++ by glide-py, with five strata by the largest probability."""
    from glide.estimators import StratifiedPPIMeanEstimator  # noqa: PLC0415
    from glide.samplers import StratifiedSampler  # noqa: PLC0415

    # Strata need distinct predictions; a little noise breaks ties without changing the order.
    guess = _guess(data) + 1e-6 * np.random.default_rng(0).standard_normal(len(data["y"]))
    strata = np.searchsorted(np.quantile(guess, np.arange(1, STRATA) / STRATA), guess)
    drawn = StratifiedSampler().sample(guess, strata, budget, strategy="proportional", random_seed=seed)
    answers = np.where(drawn == 1, _right(data), np.nan)
    return _glide(StratifiedPPIMeanEstimator().estimate(answers, guess, strata))


def _right(data: Data) -> Array:
    return (data["y"] == data["predicted"]).astype(float)


def _guess(data: Data) -> Array:
    """Return the model's probability of being right, according to itself."""
    return data["probabilities"].max(axis=1).astype(float)


def _glide(result: Any) -> dict[str, Array]:
    interval = result.confidence_interval
    return {"interval": np.array([interval.mean, interval.lower_bound, interval.upper_bound])}


# -------------------------------------------------------------------------------------------------------- summarize


def summarize_coresift(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Run `cs.select` and `cs.estimate`; the budget includes the losses of the pilot."""
    import coresift as cs  # noqa: PLC0415

    losses = data["losses"]
    options = {"losses": lambda rows: losses[rows], "engine": one_thread()}
    selection = cs.select(data["x"], budget=budget, seed=seed, **options)
    return {"ids": selection.ids, "total": np.array(cs.estimate(selection, losses[selection.ids]).total.value)}


def summarize_uniform(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Use random rows with equal weights."""
    return _equal(draw(len(data["x"]), budget, seed), len(data["x"]))


def summarize_kmeans(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Use the row nearest to each center of scikit-learn's KMeans, weighted by the size of its cluster."""
    nearest, labels = nearest_to_centers(data["x"], budget, seed)
    ids, positions = np.unique(nearest[labels], return_inverse=True)  # a row may be the nearest to two centers
    return {"ids": ids, "weights": np.bincount(positions).astype(float)}


def summarize_coreax(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Use coreax's kernel herding with equal weights."""
    return _equal(herded_rows(data["x"], budget)[0], len(data["x"]))


def summarize_coreax_weighted(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Use the same coreset with weights that minimize the maximum mean discrepancy."""
    ids, weights = herded_rows(data["x"], budget, weighted=True)
    return {"ids": ids, "weights": weights * len(data["x"])}


def summarize_apricot(data: Data, budget: int, seed: int) -> dict[str, Array]:
    """Use apricot's facility location, with each row weighted by the number of rows nearest to it."""
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
