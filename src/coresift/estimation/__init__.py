"""Totals and means over all rows from the selected ones, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coresift.checks import InputError, named_options, real_vector, refuse, share
from coresift.estimation.intervals import interval, moments, unit_of, without_moments
from coresift.estimation.learned import LearnedDifference
from coresift.estimation.limits import Values, least_inclusion, mean_limits
from coresift.estimation.methods import Adjusted, HorvitzThompson, Method
from coresift.types import Bools, Estimate, Floats, Interval, Selection, WeightedSelection

ASSUMPTION = "the interval cannot account for kinds of rows that were never sampled"
# When a few rows carry an estimate: fewer values than this that are not 0; half of the total in less than this share
# of all rows; squared deviations, or parts of the variance, worth fewer equal ones than these shares of the selected.
FEW_VALUES = 30
CONCENTRATED = 0.01
PEAKED = 0.02
FEW_PARTS = 0.03


class _Options(TypedDict, total=False):
    confidence: float
    method: Method | None
    ends: tuple[float, float] | None


@overload
def estimate(
    selection: WeightedSelection, values: Mapping[str, ArrayLike], *, groups: None = None, **options: Unpack[_Options]
) -> dict[str, Estimate]: ...


@overload
def estimate(
    selection: WeightedSelection, values: Mapping[str, ArrayLike], *, groups: ArrayLike, **options: Unpack[_Options]
) -> dict[str, dict[Any, Estimate]]: ...


@overload
def estimate(
    selection: WeightedSelection, values: ArrayLike, *, groups: None = None, **options: Unpack[_Options]
) -> Estimate: ...


@overload
def estimate(
    selection: WeightedSelection, values: ArrayLike, *, groups: ArrayLike, **options: Unpack[_Options]
) -> dict[Any, Estimate]: ...


@named_options
def estimate(
    selection: WeightedSelection,
    values: ArrayLike | Mapping[str, ArrayLike],
    *,
    groups: ArrayLike | None = None,
    confidence: float = 0.95,
    method: Method | None = None,
    ends: tuple[float, float] | None = None,
) -> Estimate | dict[str, Estimate] | dict[Any, Estimate] | dict[str, dict[Any, Estimate]]:
    """Estimate the total and the mean of `values` over all rows that were not excluded.

    An interval has no zero width while rows are left that were not sampled, and stays within what is possible: the
    mean of values that are 0 or 1 within [0, 1], the total of values of at least 0 at or above 0.

    Args:
        selection: What `select` or another method that draws returned.
        values: One real number for each of `selection.ids`, in that order, or a mapping of names to such vectors.
        groups: One label per selected row; None and NaN are one group. A group's mean is a ratio of two totals, since
            nobody knows how many rows the group has.
        confidence: The probability that an interval should cover.
        method: `Difference(predictions)`, `GeneralizedRegression(columns)`, `HorvitzThompson()`, or
            `LearnedDifference()`. The last is the default where the selection carries predictions; for groups, and
            elsewhere, the plain weighted total is.
        ends: The smallest and largest value that any row can have, if known. By default values that are all 0 or 1 are
            rates, and values of at least 0 have no upper end.

    Returns:
        An Estimate; for a mapping a dict of them by name; with groups a dict of group to that.

    Examples:
        >>> import numpy as np, coresift as cs
        >>> rows = np.random.default_rng(0).normal(size=(1000, 4))
        >>> loss = rows[:, 0] ** 2
        >>> picked = cs.select(rows, losses=loss, budget=200, seed=1)
        >>> found = cs.estimate(picked, loss[picked.ids])
        >>> bool(found.total.low < loss.sum() < found.total.high)
        True
    """
    method = check_method(selection, method, whole=groups is None)
    share("confidence", confidence)
    if isinstance(values, Mapping):
        options: dict[str, Any] = {"groups": groups, "confidence": confidence, "method": method, "ends": ends}
        return {name: estimate(selection, vector, **options) for name, vector in values.items()}
    if len(selection) < selection.n == np.size(values) and np.ndim(values) == 1:
        came = f"{selection.n}, one for every row; give values[selection.ids]"
        refuse("values", f"{len(selection)} numbers, one per selected row", came)
    vector = real_vector("values", values, len(selection))
    known = Values.of(vector, ends)
    if groups is None:
        return _whole(selection, method, known, confidence)
    if not method.by_group:
        raise InputError(f"{type(method).__name__} cannot tell groups: nobody knows which group the other rows are of.")
    labels = np.asarray(groups, dtype=object)
    if labels.shape != vector.shape:
        raise InputError(
            f"groups must be one label for each of {len(selection)} selected rows; got shape {labels.shape}."
        )
    labels = _without_nan(labels)
    try:
        found = sorted(set(labels.tolist()), key=lambda label: (type(label).__name__, label is not None and label))
    except TypeError:
        refuse("groups", "labels that can be sorted, such as texts or numbers", repr(labels[0]))
    return {label: _group(selection, method, known, _equal(labels, label), confidence) for label in found}


def check_method(selection: WeightedSelection, method: Method | None, *, whole: bool = True) -> Method:
    """Return the method, or refuse what is none or has nothing to work with.

    By default it is the learned one for totals of the whole, if the selection has predictions, else the plain one.
    """
    if not isinstance(selection, WeightedSelection):
        if isinstance(selection, Selection):
            raise InputError(
                "This selection has no weights (its method defines none), so no total can be estimated from it."
            )
        refuse("selection", "a WeightedSelection, such as select returns", type(selection).__name__)
    if method is not None and (isinstance(method, type) or not hasattr(method, "adjust")):
        refuse("method", "HorvitzThompson(), Difference(predictions) or GeneralizedRegression(columns)", repr(method))
    learned: Method = LearnedDifference() if whole and selection.predicted.size else HorvitzThompson()
    return method or learned


def scaled(interval: Interval, factor: float) -> Interval:
    """Return the interval of a multiple."""
    return Interval(
        interval.value * factor, interval.low * factor, interval.high * factor, interval.standard_error * factor
    )


def _without_nan(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the labels with None in place of NaN: both mean that there is none, and NaN does not equal itself."""
    kept = labels.copy()
    kept[[isinstance(one, (float, np.floating)) and bool(np.isnan(one)) for one in labels]] = None
    return kept


def _equal(labels: NDArray[Any], label: Any) -> Bools:
    return np.fromiter((one == label for one in labels), np.bool_, labels.size)


def _whole(selection: WeightedSelection, method: Method, values: Values, confidence: float) -> Estimate:
    adjusted = method.adjust(selection, values.sampled)
    total, mean = _over_all(selection, method, adjusted, values, confidence)
    return _estimate(selection, method, adjusted, total, mean, confidence, _alike(selection, values, total))


def _over_all(
    selection: WeightedSelection, method: Method, adjusted: Adjusted, values: Values, confidence: float
) -> tuple[Interval, Interval]:
    """Return total and mean over all rows, with the limits of what their intervals may say."""
    spread = adjusted.spread if adjusted.by_phase is None else adjusted.by_phase
    total = interval(selection, adjusted.total(selection), spread, confidence)
    mean = scaled(total, 1 / selection.population)
    limited = mean_limits(
        values,
        selection.weights,
        mean,
        counted=selection.population,
        least=least_inclusion(selection),
        confidence=confidence,
        plain=method.plain or adjusted.plain,
    )
    return (total, mean) if limited == mean else (scaled(limited, selection.population), limited)


def _group(selection: WeightedSelection, method: Method, values: Values, member: Bools, confidence: float) -> Estimate:
    inside = Values.of(np.where(member, values.sampled, 0.0), None)
    adjusted = method.adjust(selection, inside.sampled)
    total, _ = _over_all(selection, method, adjusted, inside, confidence)
    size = method.adjust(selection, member.astype(np.float64)).total(selection)
    mean = adjusted.total(selection) / size
    # The error of a ratio is, to first order, that of the total of the residuals.
    spread = method.adjust(selection, np.where(member, values.sampled - mean, 0.0)).spread
    around = scaled(interval(selection, 0.0, spread, confidence), 1 / size)
    around = Interval(mean, mean + around.low, mean + around.high, around.standard_error)
    own, seen = Values(values.sampled[member], values.ends, values.told), int(np.count_nonzero(member))
    if len(selection) < selection.population:
        around = mean_limits(
            own,
            selection.weights[member],
            around,
            # How many rows the group has is itself estimated, so it never counts as seen whole.
            counted=max(size, seen + 1.0),
            least=least_inclusion(selection),
            confidence=confidence,
            plain=method.plain,
        )
    return _estimate(selection, method, adjusted, total, around, confidence, _alike(selection, own, total))


def _alike(selection: WeightedSelection, values: Values, total: Interval) -> tuple[str, ...]:
    """Say what an interval rests on where all sampled values are equal and no range was told."""
    known = np.isfinite(total.standard_error)
    if values.told or not (values.equal and known) or len(selection) >= selection.population:
        return ()
    if values.rate:
        return (f"All sampled values are {values.sampled[0]:g}: the interval takes values as 0 or 1; ends= says more.",)
    return ("All sampled values are equal: how far others may lie from them is unknown without ends=(least, most).",)


def _estimate(
    selection: WeightedSelection,
    method: Method,
    adjusted: Adjusted,
    total: Interval,
    mean: Interval,
    confidence: float,
    remarks: tuple[str, ...],
) -> Estimate:
    return Estimate(
        total=total,
        mean=mean,
        confidence=confidence,
        effective_size=selection.effective_size,
        method=f"{method.label}; {_variance(selection)}",
        assumption=ASSUMPTION,
        warnings=(*_warnings(selection, adjusted.spread), *adjusted.warnings, *remarks),
    )


def _variance(selection: WeightedSelection) -> str:
    """Say where the variance comes from."""
    used = [part.variance_note for part in selection.phases if part is not None and part.variance_note]
    if used:
        return " + ".join(used) + ", corrected for skewness"
    return "no variance is known" if without_moments(selection) else "all rows are certain"


def _warnings(selection: WeightedSelection, values: Floats) -> tuple[str, ...]:
    """Say when a few rows carry the estimate: then rows like them that no draw saw may matter as much."""
    if not len(selection):
        return ("No row was drawn, so nothing is known of the total.",)
    if silent := without_moments(selection):
        return (f"{', '.join(silent)} does not say how much its draws vary: there is a total, but no interval.",)
    values = values / unit_of(values)
    found = moments(selection, values)
    if not np.isfinite(found.variance):
        return ("Too few rows were drawn for an interval.",)
    if np.all(selection.inclusion == 1) and found.variance == 0:
        return ()
    squares = (values - values.mean()) ** 2
    peaked = squares.sum() ** 2 < PEAKED * values.size * (squares**2).sum()
    few_parts = found.variance > 0 and found.effective < FEW_PARTS * values.size
    few_values = 0 < np.count_nonzero(values) < FEW_VALUES
    if not (peaked or few_parts or few_values or _concentrated(selection, values)):
        return ()
    return ("A few rows carry this estimate: the interval cannot cover rows like them that no draw saw.",)


def _concentrated(selection: WeightedSelection, values: Floats) -> bool:
    """Does half of the total sit in a very small share of all rows? A group like them may have been missed whole."""
    largest = np.argsort(-np.abs(values), kind="stable")
    carried = np.cumsum(selection.weights[largest] * np.abs(values[largest]))
    half = int(np.searchsorted(carried, carried[-1] / 2))
    standing_for = float(selection.weights[largest[: half + 1]].sum())
    return bool(carried[-1] > 0 and standing_for < CONCENTRATED * selection.population)
