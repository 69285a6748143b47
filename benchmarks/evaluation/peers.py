"""What others do with the same answers: each peer gives estimates and intervals for many seeds at once.

| peer | rows | estimate | reference |
|---|---|---|---|
| uniform | equally likely, without replacement | mean, with the finite-population correction | any textbook |
| ppi-python | the same | PPI++, by the package | Angelopoulos, Duchi and Zrnic 2023 |
| active inference | Poisson, by doubt, half uniform | predictions and weighted surprises | Zrnic and Candès 2024 |
| glide active | by the package's `ActiveSampler` | its `ASIMeanEstimator` (power-tuned) | Emerton Data |
| glide stratified | its `StratifiedSampler`, five strata | its `StratifiedPPIMeanEstimator` | Emerton Data |
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from benchmarks.evaluation.populations import Population

Floats = NDArray[np.float64]
Peer = Callable[[Population, int, Iterable[int]], Floats]
NORMAL = 1.959963984540054
# The uniform part of active inference's probabilities.
MIXED = 0.5
STRATA = 5
# All peers, also those that are not installed here but have runs that are kept.
NAMES = ("uniform", "ppi-python", "active inference", "glide active", "glide stratified")


def uniform(population: Population, budget: int, seeds: Iterable[int]) -> Floats:
    """The mean of equally likely rows."""
    values, n = population.values, population.values.size
    found = []
    for seed in seeds:
        some = values[_draw(n, budget, seed)]
        found.append(_around(some.mean(), np.sqrt(some.var(ddof=1) / budget * (1 - budget / n))))
    return np.array(found)


def ppi(population: Population, budget: int, seeds: Iterable[int]) -> Floats:
    """PPI++ on uniform rows, by ppi-python."""
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate  # noqa: PLC0415

    values, guess = population.values, population.guess
    found = []
    for seed in seeds:
        labeled = np.zeros(values.size, np.bool_)
        labeled[_draw(values.size, budget, seed)] = True
        given = values[labeled], guess[labeled], guess[~labeled]
        low, high = ppi_mean_ci(*given, alpha=0.05)
        found.append((float(np.ravel(ppi_mean_pointestimate(*given))[0]), float(low[0]), float(high[0])))
    return np.array(found)


def active_inference(population: Population, budget: int, seeds: Iterable[int]) -> Floats:
    """Active statistical inference: independent draws by doubt; the number of answers is right on average."""
    values, guess, n = population.values, population.guess, population.values.size
    chance = (1 - MIXED) * capped(population.doubt, budget) + MIXED * budget / n
    found = []
    for seed in seeds:
        drawn = np.random.default_rng([3, seed]).random(n) < chance
        terms = guess + np.where(drawn, (values - guess) / chance, 0.0)
        found.append(_around(terms.mean(), terms.std(ddof=1) / np.sqrt(n)))
    return np.array(found)


def glide_active(population: Population, budget: int, seeds: Iterable[int]) -> Floats:
    """Active statistical inference as glide has it."""
    from glide.estimators import ASIMeanEstimator  # noqa: PLC0415
    from glide.samplers import ActiveSampler  # noqa: PLC0415

    # It wants doubts above 0, and their ratio below 1,000.
    doubt = np.maximum(population.doubt, population.doubt.max() / 999)
    found = []
    for seed in seeds:
        chance, drawn = ActiveSampler().sample(doubt, budget, random_seed=seed)
        answers = np.where(drawn == 1, population.values, np.nan)
        found.append(_interval(ASIMeanEstimator().estimate(answers, population.guess, chance)))
    return np.array(found)


def glide_stratified(population: Population, budget: int, seeds: Iterable[int]) -> Floats:
    """Stratified PPI++ as glide has it, with as many strata as the prediction's distinct values allow."""
    from glide.estimators import StratifiedPPIMeanEstimator  # noqa: PLC0415
    from glide.samplers import StratifiedSampler  # noqa: PLC0415

    # Strata need predictions that differ; a little noise breaks ties without changing their order.
    guess = population.guess + 1e-6 * np.random.default_rng(0).standard_normal(population.guess.size)
    strata = np.searchsorted(np.quantile(guess, np.arange(1, STRATA) / STRATA), guess)
    found = []
    for seed in seeds:
        drawn = StratifiedSampler().sample(guess, strata, budget, strategy="proportional", random_seed=seed)
        answers = np.where(drawn == 1, population.values, np.nan)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(_interval(StratifiedPPIMeanEstimator().estimate(answers, guess, strata)))
    return np.array(found)


def capped(sizes: Floats, count: int) -> Floats:
    """Return probabilities in proportion to sizes that sum to count; where one would exceed 1 it is 1."""
    chance = np.zeros(sizes.size)
    certain = np.zeros(sizes.size, np.bool_)
    while True:
        left = count - certain.sum()
        chance = np.where(certain, 1.0, sizes * left / max(float(sizes[~certain].sum()), 1e-300))
        beyond = (chance > 1) & ~certain
        if not beyond.any():
            return chance
        certain |= beyond


def peers() -> dict[str, Peer]:
    """The peers that are installed."""
    found: dict[str, Peer] = {"uniform": uniform}
    if importlib.util.find_spec("ppi_py"):
        found["ppi-python"] = ppi
    found["active inference"] = active_inference
    if importlib.util.find_spec("glide"):
        found |= {"glide active": glide_active, "glide stratified": glide_stratified}
    return found


def _draw(n: int, budget: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng([2, seed]).choice(n, budget, replace=False)


def _around(value: float, deviation: float) -> tuple[float, float, float]:
    return float(value), float(value - NORMAL * deviation), float(value + NORMAL * deviation)


def _interval(result: object) -> tuple[float, float, float]:
    interval = result.confidence_interval  # type: ignore[attr-defined]
    return float(interval.mean), float(interval.lower_bound), float(interval.upper_bound)
