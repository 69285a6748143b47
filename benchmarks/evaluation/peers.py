"""Other methods that use the same number of answers. Each peer returns estimates and intervals for many seeds.

| peer | rows | estimate | reference |
|---|---|---|---|
| uniform | equally likely, without replacement | mean, with the finite-population correction | any textbook |
| ppi-python | the same | PPI++, by the package | Angelopoulos, Duchi and Zrnic 2023 |
| active inference | Poisson, half by doubt, half uniform | predictions and weighted residuals | Zrnic and Candès 2024 |
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
# The uniform share of active inference's probabilities.
UNIFORM_SHARE = 0.5
STRATA = 5
# All peers, including those that are not installed but have stored runs.
NAMES = ("uniform", "ppi-python", "active inference", "glide active", "glide stratified")


def uniform(population: Population, budget: int, seeds: Iterable[int]) -> Floats:
    """Return the mean of equally likely rows, and its normal interval."""
    values, n = population.values, population.values.size
    intervals = []
    for seed in seeds:
        drawn = values[_draw(n, budget, seed)]
        intervals.append(_normal_interval(drawn.mean(), np.sqrt(drawn.var(ddof=1) / budget * (1 - budget / n))))
    return np.array(intervals)


def ppi(population: Population, budget: int, seeds: Iterable[int]) -> Floats:
    """Run PPI++ on uniform rows, by ppi-python."""
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate  # noqa: PLC0415

    values, guess = population.values, population.guess
    intervals = []
    for seed in seeds:
        labeled = np.zeros(values.size, np.bool_)
        labeled[_draw(values.size, budget, seed)] = True
        data = values[labeled], guess[labeled], guess[~labeled]
        low, high = ppi_mean_ci(*data, alpha=0.05)
        intervals.append((float(np.ravel(ppi_mean_pointestimate(*data))[0]), float(low[0]), float(high[0])))
    return np.array(intervals)


def active_inference(population: Population, budget: int, seeds: Iterable[int]) -> Floats:
    """Run active statistical inference: rows are drawn independently, and `budget` is the mean number of answers."""
    values, guess, n = population.values, population.guess, population.values.size
    chance = (1 - UNIFORM_SHARE) * capped(population.doubt, budget) + UNIFORM_SHARE * budget / n
    intervals = []
    for seed in seeds:
        drawn = np.random.default_rng([3, seed]).random(n) < chance
        terms = guess + np.where(drawn, (values - guess) / chance, 0.0)
        intervals.append(_normal_interval(terms.mean(), terms.std(ddof=1) / np.sqrt(n)))
    return np.array(intervals)


def glide_active(population: Population, budget: int, seeds: Iterable[int]) -> Floats:
    """Run glide's active statistical inference."""
    from glide.estimators import ASIMeanEstimator  # noqa: PLC0415
    from glide.samplers import ActiveSampler  # noqa: PLC0415

    # glide requires uncertainties above 0 whose ratio is below 1,000.
    doubt = np.maximum(population.doubt, population.doubt.max() / 999)
    intervals = []
    for seed in seeds:
        chance, drawn = ActiveSampler().sample(doubt, budget, random_seed=seed)
        answers = np.where(drawn == 1, population.values, np.nan)
        intervals.append(_interval(ASIMeanEstimator().estimate(answers, population.guess, chance)))
    return np.array(intervals)


def glide_stratified(population: Population, budget: int, seeds: Iterable[int]) -> Floats:
    """Run glide's stratified PPI++, with strata by quantiles of the prediction."""
    from glide.estimators import StratifiedPPIMeanEstimator  # noqa: PLC0415
    from glide.samplers import StratifiedSampler  # noqa: PLC0415

    # Strata need distinct predictions; a little noise breaks ties without changing the order.
    guess = population.guess + 1e-6 * np.random.default_rng(0).standard_normal(population.guess.size)
    strata = np.searchsorted(np.quantile(guess, np.arange(1, STRATA) / STRATA), guess)
    intervals = []
    for seed in seeds:
        drawn = StratifiedSampler().sample(guess, strata, budget, strategy="proportional", random_seed=seed)
        answers = np.where(drawn == 1, population.values, np.nan)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            intervals.append(_interval(StratifiedPPIMeanEstimator().estimate(answers, guess, strata)))
    return np.array(intervals)


def capped(sizes: Floats, count: int) -> Floats:
    """Return probabilities that are proportional to the sizes, at most 1, and sum to `count`."""
    certain = np.zeros(sizes.size, np.bool_)
    while True:
        remaining = count - certain.sum()
        chance = np.where(certain, 1.0, sizes * remaining / max(float(sizes[~certain].sum()), 1e-300))
        above_one = (chance > 1) & ~certain
        if not above_one.any():
            return chance
        certain |= above_one


def peers() -> dict[str, Peer]:
    """Return the peers that are installed."""
    installed: dict[str, Peer] = {"uniform": uniform}
    if importlib.util.find_spec("ppi_py"):
        installed["ppi-python"] = ppi
    installed["active inference"] = active_inference
    if importlib.util.find_spec("glide"):
        installed |= {"glide active": glide_active, "glide stratified": glide_stratified}
    return installed


def _draw(n: int, budget: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng([2, seed]).choice(n, budget, replace=False)


def _normal_interval(value: float, standard_error: float) -> tuple[float, float, float]:
    return float(value), float(value - NORMAL * standard_error), float(value + NORMAL * standard_error)


def _interval(result: object) -> tuple[float, float, float]:
    interval = result.confidence_interval  # type: ignore[attr-defined]
    return float(interval.mean), float(interval.lower_bound), float(interval.upper_bound)
