"""The Adafactor that T5 was trained with, in place: steps relative to a parameter's size, without momentum.

It takes the same steps as `transformers.optimization.Adafactor(..., scale_parameter=True, relative_step=False)`, but
makes no temporary copies of the parameters.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

DECAY = -0.8  # the share of the past after t steps is 1 − t^DECAY
SMALLEST_SQUARE, SMALLEST_PARAMETER = 1e-30, 1e-3
ROWS_AT_ONCE = 512


class Adafactor:
    """An optimizer that stores mean squares of gradients, by row and by column for a matrix.

    Args:
        parameters: the parameters to train.
        rate: the step size, as a share of a parameter's root mean square.
    """

    def __init__(self, parameters: Iterable[torch.nn.Parameter], rate: float) -> None:
        self.parameters = list(parameters)
        self.rate = rate
        self.steps = 0
        self._squares: dict[int, list[torch.Tensor]] = {}

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter against its gradient; the gradient's memory is overwritten, and the gradient removed."""
        self.steps += 1
        past = 1 - self.steps**DECAY
        for number, parameter in enumerate(self.parameters):
            if parameter.grad is None:
                continue
            update = parameter.grad
            parameter.grad = None
            size = self.rate * max(SMALLEST_PARAMETER, _root_mean_square(parameter))
            self._scale(number, update, past)
            parameter.add_(update, alpha=-size / max(1.0, _root_mean_square(update)))

    def _scale(self, number: int, gradient: torch.Tensor, past: float) -> None:
        """Divide a gradient by its root mean square."""
        current = mean_squares(gradient)
        averages = self._squares.setdefault(number, [torch.zeros_like(squares) for squares in current])
        for old, new in zip(averages, current, strict=True):
            old.mul_(past).add_(new, alpha=1 - past)
        if gradient.ndim == 1:
            gradient.mul_(averages[0].rsqrt())
        else:
            rows, columns = averages
            gradient.mul_((rows / rows.mean()).rsqrt_().unsqueeze(1)).mul_(columns.rsqrt())


def mean_squares(gradient: torch.Tensor) -> list[torch.Tensor]:
    """Return the squares of a vector, or the mean squares of a matrix by row and by column."""
    if gradient.ndim == 1:
        return [gradient.square().add_(SMALLEST_SQUARE)]
    rows, columns = [], torch.zeros(gradient.shape[1])
    for chunk in gradient.split(ROWS_AT_ONCE):  # so that the squares stay in the cache
        squares = chunk.square()
        rows.append(squares.mean(1))
        columns += squares.sum(0)
    return [torch.cat(rows).add_(SMALLEST_SQUARE), columns.div_(len(gradient)).add_(SMALLEST_SQUARE)]


def _root_mean_square(values: torch.Tensor) -> float:
    flat = values.view(-1)
    return float(torch.dot(flat, flat) / flat.numel()) ** 0.5
