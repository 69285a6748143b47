"""Estimate totals and means over all rows from the selected rows, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coresift.checks import InputError, named_options, refuse, share
from coresift.estimation.hajek import Hajek, is_clearly_better
from coresift.estimation.inputs import columns_of, group_labels, value_vector
from coresift.estimation.intervals import interval, moments, unit_of, without_moments
from coresift.estimation.learned import LearnedDifference
from coresift.estimation.limits import Values, has_few_events, least_inclusion, mean_limits
from coresift.estimation.methods import Adjusted, HorvitzThompson, Method
from coresift.types import Bools, Estimate, Floats, Interval, Selection, WeightedSelection

ESTIMATORS = (
    "HorvitzThompson(), Difference(predictions), GeneralizedRegression(columns), LearnedDifference() or Hajek()"
)
ASSUMPTION = "the interval cannot account for kinds of rows that were never sampled"
# A few rows dominate an estimate if there are fewer nonzero values than this,
FEW_VALUES = 30
# if less than this share of all rows has half of the total,
CONCENTRATED = 0.01
# or if the effective number of squared deviations, or of variance terms, is below this share of the selected rows.
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

    An interval has positive width unless all rows were sampled, and it stays within what is possible: the mean of
    values that are 0 or 1 stays within [0, 1], and the total of nonnegative values is never below 0.

    Args:
        selection: What `select` or another method that draws rows returned.
        values: One real number for each of `selection.ids`, in that order, or several columns of them: a frame, or a
            mapping of names to vectors. A pandas column whose index has the selected rows in another order is refused.
        groups: One label per selected row; None and NaN are one group. A group's mean is a ratio of two estimated
            totals, since the number of rows in the group is unknown.
        confidence: The coverage probability of the intervals.
        method: `Difference(predictions)`, `GeneralizedRegression(columns)`, `HorvitzThompson()`, `LearnedDifference()`
            or `Hajek()`. The default is the learned difference if the selection has predictions, and otherwise the
            plain weighted total; if the values are so far from 0 that `Hajek()` has a clearly smaller variance than
            these, the default is that. For groups it is the plain weighted total.
        ends: The smallest and largest value that any row can have, if known. By default values that are all 0 or 1 are
            rates, and nonnegative values have no upper limit.

    Returns:
        An `Estimate`; for several columns, a dict of them by name; with groups, a dict by group.

    Examples:
        >>> import numpy as np, coresift as cs
        >>> rows = np.random.default_rng(0).normal(size=(1000, 4))
        >>> loss = rows[:, 0] ** 2
        >>> picked = cs.select(rows, losses=loss, budget=200, seed=1)
        >>> result = cs.estimate(picked, loss[picked.ids])
        >>> bool(result.total.low < loss.sum() < result.total.high)
        True
    """
    default = method is None
    checked_method = check_method(selection, method, whole=groups is None)
    share("confidence", confidence)
    if (columns := columns_of(values)) is not None:
        options: dict[str, Any] = {"groups": groups, "confidence": confidence, "method": method, "ends": ends}
        return {name: estimate(selection, vector, **options) for name, vector in columns.items()}
    checked_values = Values.of(value_vector(selection, values), ends)
    if groups is None:
        if default and _far_from_zero(selection, checked_values, checked_method):
            checked_method = Hajek()
        return _whole(selection, checked_method, checked_values, confidence)
    if not checked_method.by_group:
        raise InputError(
            f"{type(checked_method).__name__} cannot estimate groups: the groups of unselected rows are unknown."
        )
    labels, distinct = group_labels(selection, groups)
    return {
        label: _group(selection, checked_method, checked_values, _equal(labels, label), confidence)
        for label in distinct
    }


def check_method(selection: WeightedSelection, method: Method | None, *, whole: bool = True) -> Method:
    """Return the method, or refuse one that is not a method or cannot be used with the selection.

    The default for totals over all rows is the learned difference if the selection has predictions; otherwise it is the
    plain weighted total.
    """
    if not isinstance(selection, WeightedSelection):
        if isinstance(selection, Selection):
            raise InputError(
                "This selection has no weights (its method does not define any), so it cannot estimate totals."
            )
        refuse("selection", "a WeightedSelection, such as select returns", type(selection).__name__)
    if method is not None and (isinstance(method, type) or not hasattr(method, "adjust")):
        refuse("method", ESTIMATORS, repr(method))
    default: Method = LearnedDifference() if whole and selection.predicted.size else HorvitzThompson()
    return method or default


def _far_from_zero(selection: WeightedSelection, values: Values, default: Method) -> bool:
    """Return whether values are so far from 0 that the Hájek estimator is clearly better than the default.

    A rate with few positives or negatives keeps its exact interval.
    """
    exact_rate = values.rate and has_few_events(values.sampled, selection.weights)
    return not exact_rate and is_clearly_better(selection, values.sampled, default)


def scaled(interval: Interval, factor: float) -> Interval:
    """Return the interval multiplied by a factor."""
    return Interval(
        interval.value * factor, interval.low * factor, interval.high * factor, interval.standard_error * factor
    )


def _equal(labels: NDArray[Any], label: Any) -> Bools:
    return np.fromiter((other == label for other in labels), np.bool_, labels.size)


def _whole(selection: WeightedSelection, method: Method, values: Values, confidence: float) -> Estimate:
    adjusted = method.adjust(selection, values.sampled)
    total, mean = _over_all(selection, method, adjusted, values, confidence)
    return _estimate(
        selection, method, adjusted, total, mean, confidence, _remarks_on_equal_values(selection, values, total)
    )


def _over_all(
    selection: WeightedSelection, method: Method, adjusted: Adjusted, values: Values, confidence: float
) -> tuple[Interval, Interval]:
    """Return total and mean over all rows, with intervals that respect `mean_limits`."""
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
    member_values = Values.of(np.where(member, values.sampled, 0.0), None)
    adjusted = method.adjust(selection, member_values.sampled)
    total, _ = _over_all(selection, method, adjusted, member_values, confidence)
    size = method.adjust(selection, member.astype(np.float64)).total(selection)
    mean = adjusted.total(selection) / size
    # To first order, the error of a ratio is the error of the total of its residuals.
    spread = method.adjust(selection, np.where(member, values.sampled - mean, 0.0)).spread
    mean_interval = scaled(interval(selection, 0.0, spread, confidence), 1 / size)
    mean_interval = Interval(mean, mean + mean_interval.low, mean + mean_interval.high, mean_interval.standard_error)
    group_values, sampled_rows = (
        Values(values.sampled[member], values.ends, values.ends_given),
        int(np.count_nonzero(member)),
    )
    if len(selection) < selection.population:
        mean_interval = mean_limits(
            group_values,
            selection.weights[member],
            mean_interval,
            # The number of rows in the group is itself estimated, so the group never counts as fully sampled.
            counted=max(size, sampled_rows + 1.0),
            least=least_inclusion(selection),
            confidence=confidence,
            plain=method.plain,
        )
    return _estimate(
        selection,
        method,
        adjusted,
        total,
        mean_interval,
        confidence,
        _remarks_on_equal_values(selection, group_values, total),
    )


def _remarks_on_equal_values(selection: WeightedSelection, values: Values, total: Interval) -> tuple[str, ...]:
    """Return a remark about the interval if all sampled values are equal and no range was given."""
    has_variance = np.isfinite(total.standard_error)
    if values.ends_given or not (values.equal and has_variance) or len(selection) >= selection.population:
        return ()
    if values.rate:
        return (f"All sampled values are {values.sampled[0]:g}: the interval assumes 0 or 1; set ends= if not.",)
    return ("All sampled values are equal: set ends=(least, most) to say how much other rows may differ.",)


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
    """Describe where the variance comes from."""
    notes = [strategy.variance_note for strategy in selection.phases if strategy is not None and strategy.variance_note]
    if notes:
        return " + ".join(dict.fromkeys(notes)) + ", corrected for skewness"
    return "no variance is known" if without_moments(selection) else "all rows are certain"


def _warnings(selection: WeightedSelection, values: Floats) -> tuple[str, ...]:
    """Warn if there is no interval, or if a few rows dominate the estimate, so that similar unsampled rows matter."""
    if not len(selection):
        return ("No row was drawn, so nothing is known about the total.",)
    values = values / unit_of(values)
    summed = moments(selection, values)
    if not np.isfinite(summed.variance):
        if without := without_moments(selection):
            return (f"{', '.join(without)} does not say how much its draws vary: there is a total, but no interval.",)
        return ("Too few rows were drawn for an interval.",)
    if np.all(selection.inclusion == 1) and summed.variance == 0:
        return ()
    squares = (values - values.mean()) ** 2
    peaked = squares.sum() ** 2 < PEAKED * values.size * (squares**2).sum()
    few_parts = summed.variance > 0 and summed.effective < FEW_PARTS * values.size
    few_values = 0 < np.count_nonzero(values) < FEW_VALUES
    if not (peaked or few_parts or few_values or _concentrated(selection, values)):
        return ()
    return ("A few rows dominate this estimate: the interval cannot account for similar rows that were never sampled.",)


def _concentrated(selection: WeightedSelection, values: Floats) -> bool:
    """Return whether a very small share of all rows has half of the total; a similar group may have been missed."""
    largest = np.argsort(-np.abs(values), kind="stable")
    cumulative = np.cumsum(selection.weights[largest] * np.abs(values[largest]))
    half = int(np.searchsorted(cumulative, cumulative[-1] / 2))
    represented = float(selection.weights[largest[: half + 1]].sum())
    return bool(cumulative[-1] > 0 and represented < CONCENTRATED * selection.population)
