"""Other ways to select rows, each implemented as well as we can, with the same arguments and results.

Every method is called as `method(rows, budget, *, seed=0, given=None, exclude=None, ..., engine=None, progress=None)`.
It returns a `WeightedSelection` if the method defines weights, and otherwise a `Selection`, with a ledger of its model
calls. `METHODS` maps names to methods.

Examples:
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(1000, 4))
    >>> METHODS["k-center"](rows, 50)
    Selection(50 of 1000 rows, seed=0)
"""

from __future__ import annotations

from collections.abc import Callable

from coresift.baselines.badge import badge
from coresift.baselines.geometric import diversity, k_center
from coresift.baselines.herding import kernel_herding
from coresift.baselines.leverage import leverage, leverage_sketched, lewis, ridge_leverage
from coresift.baselines.uncertainty import entropy, least_confidence, margin
from coresift.baselines.uniform import cluster_stratified, deduplicated, length_matched, uniform
from coresift.types import Selection

__all__ = [
    "METHODS",
    "badge",
    "cluster_stratified",
    "deduplicated",
    "diversity",
    "entropy",
    "k_center",
    "kernel_herding",
    "least_confidence",
    "length_matched",
    "leverage",
    "leverage_sketched",
    "lewis",
    "margin",
    "ridge_leverage",
    "uniform",
]

METHODS: dict[str, Callable[..., Selection]] = {
    "uniform": uniform,
    "deduplicated": deduplicated,
    "cluster-stratified": cluster_stratified,
    "length-matched": length_matched,
    "k-center": k_center,
    "diversity": diversity,
    "kernel-herding": kernel_herding,
    "margin": margin,
    "least-confidence": least_confidence,
    "entropy": entropy,
    "badge": badge,
    "leverage": leverage,
    "leverage-sketched": leverage_sketched,
    "ridge-leverage": ridge_leverage,
    "lewis": lewis,
}
