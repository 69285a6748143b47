"""Find the mixture of densities that minimizes the variance of a draw, as estimated from the pilot."""

from __future__ import annotations

import numpy as np

from coresift.types import Floats

STEPS = 80


def least_variance(densities: Floats, stakes: Floats, pull: Floats, prior: float) -> Floats:
    """Return θ on the simplex that minimizes Σᵢ sᵢ/(Σⱼ θⱼ·qᵢⱼ) + prior·s̄·Σⱼ pullⱼ²/θⱼ.

    The second term is smallest at θ = pull. The multiplicative update θⱼ ← θⱼ·√(−∂/∂θⱼ), scaled to sum to 1, never
    increases the objective (Silvey, Titterington and Torsney 1978, for optimal designs).

    Args:
        densities: qᵢⱼ, one line per pilot row, one column per density.
        stakes: sᵢ, what a row adds to the variance at q = 1.
        pull: The mixture that the prior favors.
        prior: How many rows the prior is worth.

    Returns:
        One share per density.

    Examples:
        >>> densities = np.array([[1.0, 4.0], [1.0, 0.1]])
        >>> least_variance(densities, np.array([1.0, 0.0]), np.array([0.5, 0.5]), prior=0.01).round(2).tolist()
        [0.08, 0.92]
    """
    theta, total = pull.copy(), float(stakes.sum())
    if total <= 0:
        return theta
    weight = prior / stakes.size
    for _ in range(STEPS):
        negative_gradient = (stakes / total / (densities @ theta) ** 2) @ densities + weight * (pull / theta) ** 2
        theta = np.maximum(theta * np.sqrt(negative_gradient), 1e-12)
        theta /= theta.sum()
    return theta
