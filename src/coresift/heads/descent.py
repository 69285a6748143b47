"""Minimize a smooth convex function with L-BFGS.

On the small problems of heads, a general-purpose optimizer spends most of its time on bookkeeping. Here a step is a few
single-precision vector products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from coresift.types import Singles

# Returns a function's value and gradient at a point.
Loss: TypeAlias = Callable[[Singles], tuple[float, Singles]]

# How many past steps approximate the curvature.
MEMORY = 6
# Armijo's condition: a step must lower the value by at least this fraction of what the slope predicts.
SUFFICIENT_DECREASE = 1e-4
# How often the line search shortens a step before it gives up.
MOST_BACKTRACKS = 12
# Steps with less curvature than this are rounding errors and are not remembered.
LEAST_CURVATURE = 1e-8


def minimize(loss: Loss, start: Singles, steps: int, tolerance: float) -> Singles:
    """Return the point that minimizes `loss`.

    The curvature should be about 1 in all directions: the first step is the negative gradient.

    Args:
        loss: The function.
        start: The starting point.
        steps: The most steps to take.
        tolerance: Stop when a step lowers the value by no more than this, relative to the value.
    """
    point = start
    value, gradient = loss(point)
    past: list[tuple[Singles, Singles, float]] = []
    for _ in range(steps):
        direction = _direction(gradient, past)
        slope = float(gradient @ direction)
        search_result = _line_search(loss, point, value, direction, slope) if slope < 0 else None
        if search_result is None:
            break
        new_point, new_value, new_gradient = search_result
        step, change = new_point - point, new_gradient - gradient
        curvature = float(step @ change)
        if curvature > LEAST_CURVATURE * float(change @ change):
            past = [*past[1 - MEMORY :], (step, change, curvature)]
        decrease = value - new_value
        point, value, gradient = new_point, new_value, new_gradient
        if decrease <= tolerance * max(abs(value), 1.0):
            break
    return point


def _direction(gradient: Singles, past: list[tuple[Singles, Singles, float]]) -> Singles:
    """Return minus the gradient times the inverse Hessian of L-BFGS (the two-loop recursion)."""
    direction = -gradient
    coefficients = []
    for step, change, curvature in reversed(past):
        coefficient = np.float32(float(step @ direction) / curvature)
        direction -= coefficient * change
        coefficients.append(coefficient)
    if past:
        _, change, curvature = past[-1]
        direction *= np.float32(curvature / float(change @ change))
    for (step, change, curvature), coefficient in zip(past, reversed(coefficients), strict=True):
        direction += (coefficient - np.float32(float(change @ direction) / curvature)) * step
    return direction


def _line_search(
    loss: Loss, point: Singles, value: float, direction: Singles, slope: float
) -> tuple[Singles, float, Singles] | None:
    """Backtrack to a point that satisfies Armijo's condition; return it, its value and gradient, or None."""
    length = 1.0
    for _ in range(MOST_BACKTRACKS):
        new_point = point + np.float32(length) * direction
        new_value, gradient = loss(new_point)
        if new_value <= value + SUFFICIENT_DECREASE * length * slope:
            return new_point, new_value, gradient
        # Move to the minimum of the parabola through the known values and slope, within limits.
        excess = new_value - value - slope * length
        length *= float(np.clip(-slope * length / (2 * excess), 0.1, 0.5)) if excess > 0 else 0.5
    return None
