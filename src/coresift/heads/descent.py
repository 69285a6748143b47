"""The minimum of a smooth convex function, by limited-memory BFGS without bounds.

For the small problems of heads, most of the time of a general optimizer is its own bookkeeping. Here a step is a few
products of vectors in single precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from coresift.types import Singles

# A function's value and gradient at a point.
Loss: TypeAlias = Callable[[Singles], tuple[float, Singles]]

# How many earlier steps tell about the curvature.
MEMORY = 6
# A step counts if the value falls by this part of what the slope promises; it is shortened so often at most.
PROMISED, SHORTENED = 1e-4, 12
# A change of the gradient tells about curvature if it is not mere rounding.
LEAST_CURVATURE = 1e-8


def minimize(loss: Loss, start: Singles, steps: int, tolerance: float) -> Singles:
    """Return where `loss` is least, after `steps` steps at most or when one lowers it by no more than a tolerance.

    The curvature should be about 1 in all directions: the first step is the negative gradient.

    Args:
        loss: The function.
        start: Where to begin.
        steps: How many steps at most.
        tolerance: What part of the value a step must gain for another one.
    """
    point = start
    value, gradient = loss(point)
    past: list[tuple[Singles, Singles, float]] = []
    for _ in range(steps):
        direction = _direction(gradient, past)
        slope = float(gradient @ direction)
        found = _search(loss, point, value, direction, slope) if slope < 0 else None
        if found is None:
            break
        moved, lower, turned = found
        step, change = moved - point, turned - gradient
        curvature = float(step @ change)
        if curvature > LEAST_CURVATURE * float(change @ change):
            past = [*past[1 - MEMORY :], (step, change, curvature)]
        gained = value - lower
        point, value, gradient = moved, lower, turned
        if gained <= tolerance * max(abs(value), 1.0):
            break
    return point


def _direction(gradient: Singles, past: list[tuple[Singles, Singles, float]]) -> Singles:
    """Return minus the gradient, times the inverse curvature that the last steps tell of."""
    direction = -gradient
    shares = []
    for step, change, curvature in reversed(past):
        share = np.float32(float(step @ direction) / curvature)
        direction -= share * change
        shares.append(share)
    if past:
        _, change, curvature = past[-1]
        direction *= np.float32(curvature / float(change @ change))
    for (step, change, curvature), share in zip(past, reversed(shares), strict=True):
        direction += (share - np.float32(float(change @ direction) / curvature)) * step
    return direction


def _search(
    loss: Loss, point: Singles, value: float, direction: Singles, slope: float
) -> tuple[Singles, float, Singles] | None:
    """Return the point a step along the direction, its value and gradient; None where nothing lowers the value."""
    length = 1.0
    for _ in range(SHORTENED):
        moved = point + np.float32(length) * direction
        lower, gradient = loss(moved)
        if lower <= value + PROMISED * length * slope:
            return moved, lower, gradient
        # The least point of the parabola through what is known, within limits.
        bend = lower - value - slope * length
        length *= float(np.clip(-slope * length / (2 * bend), 0.1, 0.5)) if bend > 0 else 0.5
    return None
