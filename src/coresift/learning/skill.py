"""How much rows say about their labels, and how much of a batch is random where they say little.

Coverage and uncertainty help where rows that are near each other tend to have the same label. Where they do not, as
with the pixels of photos, a batch that covers the rows is worse than a random one: it only follows their density.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.types import Floats

# Imagined labels that are all predicted: few labels cannot show that rows say little.
IMAGINED = 100
# The skill up to which all rows of a batch are random, and that from which none are. These numbers come from
# Banking77 with noisy classes (`benchmarks/noisy_classes.py`) and the pixels of CIFAR-10, with seeds from 1000 on.
LITTLE, ENOUGH = 0.4, 0.55


def skill(right: Floats, labels: NDArray[Any]) -> float:
    """Return how much better than the commonest class a model predicts labels that were held out: 1 is all of them.

    Args:
        right: 1 for a label that was predicted, 0 for one that was not, NaN for one that was not held out.
        labels: The labels themselves.

    Examples:
        >>> skill(np.ones(150), np.tile(["a", "b"], 75)), skill(np.tile([1.0, 0.0], 75), np.tile(["a", "b"], 75))
        (1.0, 0.4)
        >>> skill(np.array([0.0, np.nan, np.nan]), np.array(["a", "a", "b"]))
        1.0
    """
    tested = ~np.isnan(right)
    count = int(tested.sum())
    commonest = np.unique(labels[tested], return_counts=True)[1].max() if count else 0
    if commonest == count:
        return 1.0
    measured = (right[tested].sum() - commonest) / (count - commonest)
    return float((count * measured + IMAGINED) / (count + IMAGINED))


def random_share(skill: float) -> float:
    """Return the share of a batch that is random.

    >>> random_share(0.4), random_share(0.475), random_share(0.55)
    (1.0, 0.5, 0.0)
    """
    return float(np.clip((ENOUGH - skill) / (ENOUGH - LITTLE), 0, 1).round(6))
