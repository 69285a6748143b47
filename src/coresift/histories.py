"""Results of earlier models on the same items, as signals for the next one."""

from __future__ import annotations

from typing import Any

import numpy as np

from coresift.checks import named_options, refuse, unusable
from coresift.types import Floats, SignalTable

LARGEST = 1e100
# The most factors, and how often gaps are filled from them before the factors are final.
FACTORS = 64
FILLS = 8
# How many models' worth of the overall mean an item's mean starts with.
PRIOR_MODELS = 2.0
# An item's ease has next to no penalty: the next model's results go with it, as those of all others did.
EASE = 4.0
# Models differ at least so much along a factor, as a part of its variance.
LEAST_SPREAD = 0.02


@named_options
def history(results: Any) -> SignalTable:
    """Return what earlier models' results say about each item: how hard it is, and how items go together.

    Args:
        results: One line per item and one column per model, such as 1 for right and 0 for wrong; NaN where it is not
            known.

    Returns:
        `ease`, an item's mean result; `doubt`, √(p(1 − p)) of it if results are from 0 to 1; and factors, the principal
        components of the results with gaps filled from them. A factor counts as far as models differ along it, so that
        a ridge regression on all of them is one on all models' results.

    Examples:
        >>> table = history([[1, 1, 0], [0, float("nan"), 0], [1, 0, 1], [1, 1, 1]])
        >>> table.names[:2], len(table)
        (('ease', 'doubt'), 4)
    """
    known = _matrix(results)
    given = np.isfinite(known)
    overall = float(known[given].mean())
    counts = given.sum(axis=1)
    ease = (np.where(given, known, 0.0).sum(axis=1) + PRIOR_MODELS * overall) / (counts + PRIOR_MODELS)
    factors, strengths = _factors(known, given, ease)
    columns, names, sizes, scales = [ease], ["ease"], [False], [EASE]
    if known[given].min() >= 0 and known[given].max() <= 1:
        columns.append(np.sqrt(ease * (1 - ease)))
        names.append("doubt")
        sizes.append(bool(np.ptp(columns[-1]) > 0))
        scales.append(1.0)
    for place, (factor, strength) in enumerate(zip(factors.T, strengths, strict=True), start=1):
        columns.append(factor)
        names.append(f"factor {place}")
        sizes.append(False)
        scales.append(float(strength))
    return SignalTable(tuple(names), np.stack(columns, axis=1), np.array(sizes, np.bool_), np.array(scales))


def _factors(known: Floats, given: Any, ease: Floats) -> tuple[Floats, Floats]:
    """Return the principal components of the results, and their deviations relative to the first."""
    models = np.array([float(column[own].mean()) for column, own in zip(known.T, given.T, strict=True)])
    filled = np.where(given, known, ease[:, None] + models - models.mean())
    count = min(FACTORS, known.shape[1], len(known) - 1)
    if count == 0:
        return np.zeros((len(known), 0)), np.zeros(0)
    for _ in range(FILLS if not given.all() else 1):
        centers = filled.mean(axis=0)
        variances, directions = np.linalg.eigh((filled - centers).T @ (filled - centers) / len(filled))
        order = np.argsort(-variances)[:count]
        variances, directions = np.maximum(variances[order], 0.0), directions[:, order]
        # Weak factors are mostly noise: gaps are filled from the others.
        shrunk = np.maximum(1 - np.median(variances) / np.maximum(variances, 1e-300), 0.0)
        rebuilt = centers + ((filled - centers) @ directions * shrunk) @ directions.T
        filled = np.where(given, known, rebuilt)
    largest = directions[np.abs(directions).argmax(axis=0), np.arange(count)]
    factors = (filled - centers) @ (directions * np.where(largest < 0, -1.0, 1.0))
    deviations = factors.std(axis=0)
    varies = deviations > 1e-9 * max(float(deviations.max(initial=0.0)), 1e-300)
    # What all models have in common along a factor is in the ease already; it counts as far as models differ.
    common = len(directions) * directions.mean(axis=0) ** 2
    counts = deviations * np.sqrt(np.maximum(1 - common, LEAST_SPREAD))
    return factors[:, varies], counts[varies] / max(float(counts.max(initial=0.0)), 1e-300)


def _matrix(results: Any) -> Floats:
    if unusable(results):
        refuse("results", "real numbers, one line per item and one column per model", unusable(results))
    try:
        known = np.asarray(results, np.float64)
    except (TypeError, ValueError, OverflowError):
        refuse("results", "numbers, one line per item and one column per model", type(results).__name__)
    if known.ndim != 2 or np.isinf(known).any():
        refuse("results", "finite numbers, one line per item and one column per model", f"shape {known.shape}")
    largest = float(np.abs(known[np.isfinite(known)]).max(initial=0.0))
    if largest > LARGEST:  # their products would be no numbers any more
        refuse("results", f"numbers of at most {LARGEST:g} in size", f"{largest:g}")
    empty = np.flatnonzero(~np.isfinite(known).any(axis=0))
    if empty.size or not known.size:
        refuse("results", "at least one result of every model", f"none in column {empty[0] if empty.size else 0}")
    return known
