"""Factorized Active Querying (Wu, Nair and Candès 2026, arXiv 2601.20251), implemented from the paper for many runs.

A new model's factor u has a normal prior from earlier models. Each step predicts p = σ(u·v) for every item. It draws
one item with replacement from a mixture of three densities: √(p(1 − p)), the information about the mean, and uniform.
It adds Σp + (z − p)/q of the drawn item to the estimate, and updates u by one Newton step. The interval comes from a
martingale central limit theorem.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.evaluation.history import Factors, sigmoid
from benchmarks.evaluation.peers import NORMAL

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """Tempering β₀, the shares of the budget for exploration (ρ) and warm-up (γ), and the uniform share τ."""

    temper: float = 1.0
    explore: float = 0.05
    warm_up: float = 0.0
    uniform: float = 0.25


def faq(factors: Factors, answers: Floats, budget: int, seeds: range, settings: Settings) -> Floats:
    """Run the method once per seed.

    Args:
        factors: Factors learned from other models.
        answers: The new model's answers, one per item, or one row of them per seed.
        budget: The number of draws.
        seeds: The seeds, one per run.
        settings: The options.

    Returns:
        One row per seed: estimate, low, high.
    """
    items, runs, n = factors.items, len(seeds), len(factors.items)
    truth = np.broadcast_to(answers, (runs, n))
    mean = np.tile(factors.models.mean(axis=0), (runs, 1))
    covariance = np.tile(np.atleast_2d(np.cov(factors.models.T)), (runs, 1, 1))
    uniforms = np.stack([np.random.default_rng([5, seed]).random(budget) for seed in seeds])
    totals, squares, weighted = np.zeros(runs), np.zeros(runs), np.zeros(runs)
    sums, run = np.zeros((runs, budget)), np.arange(runs)
    for step in range(budget):
        chance = np.clip(sigmoid(mean @ items.T), 1e-12, 1 - 1e-12)
        density = _density(chance, covariance, items, (step + 1) / budget, settings)
        drawn = np.minimum((np.cumsum(density, axis=1) < uniforms[:, step, None]).sum(axis=1), n - 1)
        answer, guess, probability = truth[run, drawn], chance[run, drawn], density[run, drawn]
        residual = (answer - guess) / probability
        sums[:, step] = chance.sum(axis=1)
        totals += sums[:, step] + residual
        squares += residual**2
        weighted += answer / probability
        mean, covariance = _update(mean, covariance, items[drawn], answer - guess, guess * (1 - guess))
    between = ((weighted[:, None] / budget - sums) ** 2).sum(axis=1)
    variance = np.maximum(squares - between, 0.0) / (budget * n**2)
    value, half = totals / (budget * n), NORMAL * np.sqrt(variance / budget)
    return np.stack([value, np.maximum(value - half, 0.0), np.minimum(value + half, 1.0)], axis=1)


def _density(chance: Floats, covariance: Floats, items: Floats, elapsed: float, settings: Settings) -> Floats:
    """Return the probability of drawing each item, when a share `elapsed` of the budget is spent."""
    variance = chance * (1 - chance)
    sizes = np.sqrt(variance)
    sizes /= sizes.sum(axis=1, keepdims=True)
    exploration = max(0.0, 1 - elapsed / settings.explore) if settings.explore else 0.0
    if exploration:
        uncertainty = np.einsum("ij,rjk,ik->ri", items, covariance, items, optimize=True)
        direction = np.einsum("rjk,rk->rj", covariance, variance @ items / len(items))
        gain = variance * (direction @ items.T) ** 2 / (1 + variance * uncertainty)
        sizes = (1 - exploration) * sizes + exploration * gain / np.maximum(gain.sum(axis=1, keepdims=True), 1e-300)
    sizes = sizes ** (settings.temper * (min(elapsed / settings.warm_up, 1.0) if settings.warm_up else 1.0))
    sizes /= sizes.sum(axis=1, keepdims=True)
    return np.asarray((1 - settings.uniform) * sizes + settings.uniform / len(items))


def _update(mean: Floats, covariance: Floats, item: Floats, error: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return the mean and covariance of u after one Newton step (Sherman–Morrison for the covariance)."""
    projected = np.einsum("rjk,rk->rj", covariance, item)
    scale = 1 + variance * np.einsum("rj,rj->r", item, projected)
    covariance = covariance - (variance / scale)[:, None, None] * projected[:, :, None] * projected[:, None, :]
    return mean + np.einsum("rjk,rk->rj", covariance, error[:, None] * item), covariance


def horvitz_thompson_width(mean: float, n: int, budget: int) -> float:
    """Return the width of the paper's uniform baseline: independent draws, no predictions, so Σz², not Σ(z − z̄)²."""
    return float(2 * NORMAL * np.sqrt((mean * n / budget - mean**2) / n))
