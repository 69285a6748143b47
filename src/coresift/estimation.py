"""Totals and means over all rows from the selected ones, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError, real_vector, share
from coresift.types import Bools, Estimate, Floats, Interval, Ints, Selection

ASSUMPTION = "the drawn rows show what the others are like: what no draw saw cannot be covered"
MOST_SKEWNESS = 2.0
# When a few rows carry an estimate: fewer values than this that are not 0; squared deviations, or parts of the
# variance, worth fewer equal ones than these shares of the rows.
FEW_VALUES = 30
PEAKED = 0.02
FEW_PARTS = 0.03


def estimate(selection: Selection, values: Any, *, groups: Any = None, confidence: float = 0.95) -> Any:
    """Estimate the total and the mean of `values` over all rows that were not excluded.

    `values` is one real number for each of `selection.ids`, in that order, and gives an Estimate; a mapping of
    names to such vectors gives a dict. With `groups`, one label a selected row, there is a dict of group to that;
    a group's mean is a ratio of two totals, since nobody knows how many rows the group has.

    >>> import numpy as np, coresift as cs
    >>> rows = np.random.default_rng(0).normal(size=(1000, 4))
    >>> loss = rows[:, 0] ** 2
    >>> picked = cs.select(rows, losses=loss, budget=200, seed=0)
    >>> found = cs.estimate(picked, loss[picked.ids])
    >>> bool(found.total.low < loss.sum() < found.total.high)
    True
    """
    if selection.weights is None:
        raise InputError(
            "This selection has no weights (its method defines none), so no total can be estimated from it."
        )
    share("confidence", confidence)
    if isinstance(values, Mapping):
        return {name: estimate(selection, v, groups=groups, confidence=confidence) for name, v in values.items()}
    vector = real_vector("values", values, len(selection))
    if groups is None:
        total = _interval(selection, vector, confidence)
        return _estimate(selection, vector, total, _scaled(total, 1 / selection.population), confidence)
    labels = np.asarray(groups, dtype=object)
    if labels.shape != vector.shape:
        raise InputError(
            f"groups must be one label for each of {len(selection)} selected rows; got shape {labels.shape}."
        )
    found = sorted(set(labels.tolist()), key=lambda label: (type(label).__name__, label is not None and label))
    return {label: _group(selection, vector, _equal(labels, label), confidence) for label in found}


def _equal(labels: NDArray[Any], label: Any) -> Bools:
    return np.fromiter((one == label for one in labels), np.bool_, labels.size)


def _group(selection: Selection, values: Floats, member: Bools, confidence: float) -> Estimate:
    assert selection.weights is not None
    total = _interval(selection, np.where(member, values, 0.0), confidence)
    size = float(selection.weights[member].sum())
    mean = total.value / size
    # The error of a ratio is, to first order, that of the total of the residuals.
    residual = _interval(selection, np.where(member, values - mean, 0.0), confidence)
    around = Interval(mean, mean + residual.low / size, mean + residual.high / size, residual.standard_error / size)
    return _estimate(selection, np.where(member, values, 0.0), total, around, confidence)


def _estimate(selection: Selection, values: Floats, total: Interval, mean: Interval, confidence: float) -> Estimate:
    weights = selection.weights
    assert weights is not None
    return Estimate(
        total=total,
        mean=mean,
        confidence=confidence,
        effective_size=float(weights.sum() ** 2 / (weights**2).sum()) if weights.size else 0.0,
        method=_method(selection),
        assumption=ASSUMPTION,
        warnings=_warnings(selection, values),
    )


def _interval(selection: Selection, values: Floats, confidence: float) -> Interval:
    from scipy.special import stdtrit

    assert selection.weights is not None
    total = float(selection.weights @ values)
    moments = _moments(selection, values)
    error = float(np.sqrt(moments.variance))
    if not 0 < error < np.inf:
        return Interval(total, total - error, total + error, error)
    # The variance is itself a sum of squares, of as many as `effective` equal ones with three terms each.
    quantile = float(stdtrit(3 * moments.effective, 0.5 + confidence / 2))
    low, high = (_unskew(q, moments.third / error**3) for q in (quantile, -quantile))
    return Interval(total, total - error * low, total - error * high, error)


@dataclass(frozen=True)
class _Moments:
    """Estimated variance and third moment of a total, and the sum of squares of the variance's parts."""

    variance: float
    third: float
    squares: float

    @property
    def effective(self) -> float:
        """How many equal parts would give a variance that is as certain as this one."""
        return self.variance**2 / self.squares if self.squares > 0 else np.inf

    @classmethod
    def of(cls, parts: Floats, third: Floats) -> _Moments:
        return cls(float(parts.sum()), float(third.sum()), float((parts**2).sum()))


UNKNOWN = _Moments(np.inf, 0.0, 0.0)


def _moments(selection: Selection, values: Floats) -> _Moments:
    """Both phases' moments; their errors are uncorrelated, so they add up."""
    first, second = (_phase_moments(selection, values, phase) for phase in (1, 2))
    return _Moments(first.variance + second.variance, first.third + second.third, first.squares + second.squares)


def _phase_moments(selection: Selection, values: Floats, phase: int) -> _Moments:
    member = np.flatnonzero((selection.phase == phase) & (selection.inclusion != 1))
    member = member[np.argsort(selection.order[member], kind="stable")]
    part = selection.share[member] if phase == 1 else 1 - selection.share[member]
    inclusion = selection.inclusion[member]
    expanded = part * values[member] / inclusion
    design = selection.designs[phase - 1]
    if design == "Independent":
        return _independent(expanded, selection.multiplicity[member])
    if design == "Poisson":
        chance = 1 - inclusion
        return _Moments.of(chance * expanded**2, chance * (2 * chance - 1) * expanded**3)
    return _local(expanded, 1 - inclusion)


def _independent(expanded: Floats, multiplicity: Ints) -> _Moments:
    draws = int(multiplicity.sum())
    if draws < 2:
        return UNKNOWN
    residual = np.repeat(expanded - (multiplicity @ expanded) / draws, multiplicity)
    return _Moments.of(draws / (draws - 1) * residual**2, residual**3)


def _local(expanded: Floats, chance: Floats) -> _Moments:
    """Each value against the mean of its two neighbors in draw order, or of the two nearest at an end."""
    if not expanded.size:
        return _Moments(0.0, 0.0, 0.0)
    if expanded.size < 3:
        return UNKNOWN
    middle = np.clip(np.arange(expanded.size), 1, expanded.size - 2)
    before, after = middle - 1, middle + 1
    before[0], before[-1], after[0], after[-1] = 1, -3, 2, -2
    residual = expanded - (expanded[before] + expanded[after]) / 2
    # For unrelated values the residual's variance is 3/2, and its third moment 3/4, of the value's own.
    return _Moments.of(chance * residual**2 / 1.5, chance * (2 * chance - 1) * residual**3 / 0.75)


def _unskew(quantile: float, skewness: float) -> float:
    """Hall's cubic transformation, inverted: the quantile of a studentized sum with this skewness."""
    skewness = min(max(skewness, -MOST_SKEWNESS), MOST_SKEWNESS)
    if abs(skewness) < 1e-6:
        return quantile
    return float(3 / skewness * (np.cbrt(1 + skewness * (quantile - skewness / 6)) - 1))


def _scaled(interval: Interval, factor: float) -> Interval:
    return Interval(
        interval.value * factor, interval.low * factor, interval.high * factor, interval.standard_error * factor
    )


def _method(selection: Selection) -> str:
    names = {"Independent": "sample variance of the draws", "Poisson": "Poisson variance"}
    used = [names.get(name, "differences from the neighbors in draw order") for name in selection.designs if name]
    return " + ".join(dict.fromkeys(used)) + ", corrected for skewness" if used else "all rows are certain"


def _warnings(selection: Selection, values: Floats) -> tuple[str, ...]:
    """Say when a few rows carry the estimate: then rows like them that no draw saw may matter as much."""
    if not len(selection):
        return ("No row was drawn, so nothing is known of the total.",)
    if np.all(selection.inclusion == 1):
        return ()
    moments = _moments(selection, values)
    if not np.isfinite(moments.variance):
        return ("Too few rows were drawn for an interval.",)
    squares = (values - values.mean()) ** 2
    peaked = squares.sum() ** 2 < PEAKED * values.size * (squares**2).sum()
    few_parts = moments.variance > 0 and moments.effective < FEW_PARTS * values.size
    few_values = 0 < np.count_nonzero(values) < FEW_VALUES
    if not (peaked or few_parts or few_values):
        return ()
    return ("A few rows carry this estimate: the interval cannot cover rows like them that no draw saw.",)
