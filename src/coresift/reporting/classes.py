"""Classes in a report: which ones a selection covers, and their mean losses."""

from __future__ import annotations

import numpy as np

from coresift.estimation import estimate
from coresift.reporting.facts import ClassCoverage
from coresift.types import Floats, Interval, Ints, Selection, WeightedSelection

# Mean losses are shown for this many classes, the largest ones.
MOST_CLASSES = 60


def coverage(selection: Selection, classes: tuple[str, list[str], Ints], losses: Floats | None) -> ClassCoverage:
    """Count the rows of each class; `classes` are the column, the names, and the code of every row."""
    column, names, codes = classes
    chosen = codes[selection.ids]
    inside = chosen >= 0
    count = len(names)
    rows = np.bincount(codes[codes >= 0], minlength=count)
    selected = np.bincount(chosen[inside], minlength=count)
    estimated = None
    weights = weights_of(selection)
    if weights is not None:
        estimated = np.bincount(chosen[inside], weights[inside], count)
    size = len(selection)
    missed = _missed(rows, selection.n, size)
    order = np.lexsort([np.array(names), -rows])
    return ClassCoverage(
        column=column,
        names=tuple(names[place] for place in order),
        rows=tuple(rows[order].tolist()),
        selected=tuple(selected[order].tolist()),
        estimated=None if estimated is None else tuple(estimated[order].tolist()),
        by_uniform=tuple((rows[order] * (size / selection.n)).tolist()),
        covered=int(np.count_nonzero(selected)),
        uniform_covers=float((1 - missed).sum()),
        losses=_class_losses(selection, losses, names, chosen, [int(place) for place in order[:MOST_CLASSES]]),
    )


def _class_losses(
    selection: Selection, losses: Floats | None, names: list[str], chosen: Ints, largest: list[int]
) -> tuple[tuple[str, int, Interval], ...]:
    """Return the mean loss of the largest classes that have at least two selected rows, with intervals."""
    if losses is None or not isinstance(selection, WeightedSelection):
        return ()
    counts = np.bincount(chosen[chosen >= 0], minlength=len(names))
    shown = [place for place in largest if counts[place] >= 2]
    groups = np.where(np.isin(chosen, shown), chosen, -1)
    estimates = estimate(selection, losses, groups=groups) if shown else {}
    return tuple((names[place], int(counts[place]), estimates[place].mean) for place in shown)


def _missed(rows: Ints, n: int, size: int) -> Floats:
    """Return the probability that a uniform sample without replacement has no row of a class: C(n−m, s) / C(n, s)."""
    from scipy.special import gammaln

    others = n - rows
    possible = others >= size
    pool = np.where(possible, others, size)
    log = gammaln(pool + 1) - gammaln(pool - size + 1) - gammaln(n + 1) + gammaln(n - size + 1)
    return np.where(possible, np.exp(np.minimum(log, 0.0)), 0.0)


def weights_of(selection: Selection) -> Floats | None:
    """Return the weights, or None for a method that defines none."""
    return selection.weights if isinstance(selection, WeightedSelection) else None
