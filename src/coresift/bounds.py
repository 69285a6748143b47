"""How many draws an error bound takes, and which error bound a number of draws gives, if the loss is well-behaved.

Everything here assumes |ℓ(e) − ℓ(c)| ≤ Λ·‖e − c‖^z for every row e and its center c; Φ^Λ = Σ_i Λ_i Φ_z(C_i).
"""

from __future__ import annotations

import math

from coresift.checks import positive, share, whole


def paper_size(epsilon: float, delta: float | None = None) -> int:
    """Return how many draws Algorithm 1 needs: ⌈ε⁻²(2 + 2ε/3)⌉, times ln(2/δ) for a stated failure probability.

    Args:
        epsilon: The error ε, relative to Σℓ + 2Φ^Λ.
        delta: The failure probability, or None for the paper's statement.

    Returns:
        The number of draws.

    Examples:
        >>> paper_size(0.1), paper_size(0.1, delta=0.05)
        (207, 763)
    """
    epsilon = positive("epsilon", epsilon)
    return math.ceil((2 + 2 * epsilon / 3) / epsilon**2 * _log_factor(delta))


def paper_error(draws: int, delta: float | None = None) -> float:
    """Return the error ε for which `paper_size` gives this many draws.

    Args:
        draws: The number of draws.
        delta: The failure probability, or None for the paper's statement.

    Returns:
        ε.

    Examples:
        >>> round(paper_error(207), 3), round(paper_error(763, delta=0.05), 3)
        (0.1, 0.1)
    """
    draws_per_factor = whole("draws", draws) / _log_factor(delta)
    return (1 / 3 + math.sqrt(1 / 9 + 2 * draws_per_factor)) / draws_per_factor


def difference_size(epsilon: float, delta: float) -> int:
    """Return how many draws ∝ Λv keep the difference estimator within ε·Φ^Λ: ⌈2ε⁻² ln(2/δ)⌉.

    A draw of row e contributes (ℓ(e) − ℓ(c))/(s·p), which is within ±Φ^Λ/s, so Hoeffding's inequality is enough.
    The bound does not involve Σℓ, because the part of the total that the centers predict is known exactly.

    Args:
        epsilon: The error ε, relative to Φ^Λ.
        delta: The failure probability.

    Returns:
        The number of draws.

    Examples:
        >>> difference_size(0.1, delta=0.05)
        738
    """
    return math.ceil(2 / positive("epsilon", epsilon) ** 2 * _log_factor(delta))


def difference_error(draws: int, delta: float) -> float:
    """Return the error ε for which `difference_size` gives this many draws.

    Args:
        draws: The number of draws.
        delta: The failure probability.

    Returns:
        ε.

    Examples:
        >>> round(difference_error(738, delta=0.05), 3)
        0.1
    """
    return math.sqrt(2 * _log_factor(delta) / whole("draws", draws))


def _log_factor(delta: float | None) -> float:
    return 1.0 if delta is None else math.log(2 / share("delta", delta))
