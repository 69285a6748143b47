"""Find the chosen rows without which the sum falls the least."""

from __future__ import annotations

import numpy as np

from coresift.engine import Workers
from coresift.facility.kernel import Computed
from coresift.types import Ints, Singles

# How many rows are compared with all chosen rows at a time.
AT_ONCE = 256


def find_weakest(
    kernel: Computed, importance: Singles, covered: Singles, chosen: Ints, count: int, workers: Workers
) -> Ints:
    """Return the places in `chosen` of `count` rows that add little to the sum, beyond the rest and `covered`.

    No row loses both of its nearest chosen rows, so what the weakest add together is the sum of what each adds. If that
    leaves too few of them, the last choices follow.
    """
    if count <= 0:
        return np.zeros(0, np.int64)
    pieces = [slice(start, start + AT_ONCE) for start in range(0, kernel.n, AT_ONCE)]
    found = workers.here.each(pieces, lambda piece: _nearest_two(kernel, piece, chosen))
    best, second, values, fallback = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    loss = importance * (np.maximum(values, covered) - np.maximum(fallback, covered))
    order = np.argsort(np.bincount(best, loss, chosen.size), kind="stable")
    rows = np.flatnonzero((importance > 0) & (values > covered))
    rows = rows[np.argsort(best[rows], kind="stable")]
    starts = np.searchsorted(best[rows], np.arange(chosen.size + 1))
    weakest, needed = np.zeros(chosen.size, np.bool_), np.zeros(chosen.size, np.bool_)
    for place in order:
        instead = second[rows[starts[place] : starts[place + 1]]]
        if not needed[place] and not weakest[instead].any():
            weakest[place], needed[instead] = True, True
            count -= 1
        if not count:
            break
    weakest[np.flatnonzero(~weakest)[::-1][:count]] = True
    return np.flatnonzero(weakest)


def _nearest_two(kernel: Computed, piece: slice, chosen: Ints) -> tuple[Ints, Ints, Singles, Singles]:
    """Return for each row the places of the nearest chosen row and of the next one, and κ with both."""
    exponents = kernel.exponents(piece, chosen)
    lines = np.arange(len(exponents))
    best = exponents.argmax(axis=1)
    values = exponents[lines, best]
    exponents[lines, best] = -np.inf
    second = exponents.argmax(axis=1)
    return best, second, np.exp(np.minimum(values, 0)), np.exp(np.minimum(exponents[lines, second], 0))
