"""Check the values, group labels and columns that users pass with a selection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError, real_vector, refuse
from coresift.types import Bools, Floats, WeightedSelection, check_labels, column_values


def columns_of(values: Any) -> dict[str, Any] | None:
    """Return a mapping or a table as a dict of columns; None for anything else."""
    return dict(values) if isinstance(values, Mapping) else column_values(values)


def value_vector(selection: WeightedSelection, values: Any) -> Floats:
    """Return one finite number per selected row; refuse anything else in words that say what to give instead."""
    count = len(selection)
    if count < selection.n == np.size(values) and np.ndim(values) == 1:
        got = f"{selection.n}, one for every row; give values[selection.ids]"
        refuse("values", f"{count} numbers, one per selected row", got)
    if np.ndim(values) > 1:
        got = f"shape {np.shape(values)}; give several columns as a frame or a dict"
        refuse("values", f"{count} numbers, one per selected row", got)
    check_labels("values", values, selection.ids, selection.names)
    return real_vector(
        "values", values, count, cure="values.fillna(0) with groups=values.notna() estimates the rows that have one"
    )


def group_labels(selection: WeightedSelection, groups: Any) -> tuple[NDArray[Any], list[Any]]:
    """Return one label per selected row, with None for missing ones, and the distinct labels in order."""
    labels = np.asarray(groups, dtype=object)
    if labels.shape != (len(selection),):
        got = f"shape {labels.shape}"
        if isinstance(groups, str):
            got = f"the text {groups!r}; give the labels themselves: selection.take(table)[{groups!r}]"
        raise InputError(f"groups must be one label for each of {len(selection)} selected rows; got {got}.")
    check_labels("groups", groups, selection.ids, selection.names)
    labels = _without_nan(labels)
    try:
        return labels, sorted(
            set(labels.tolist()), key=lambda label: (type(label).__name__, label is not None and label)
        )
    except TypeError:
        refuse("groups", "labels that can be sorted, such as text or numbers", repr(labels[0]))


def totals_and_selected(argument: str, columns: Floats, selection: WeightedSelection) -> tuple[Floats, Floats]:
    """Return the columns' totals over all rows that are not excluded, and the columns of the selected rows."""
    if len(columns) != selection.n:
        refuse(argument, f"numbers for each of {selection.n} rows", f"{len(columns)}")
    missing: Bools = np.isnan(columns.sum(axis=1))
    if np.count_nonzero(missing) != selection.n - selection.population or missing[selection.ids].any():
        allowed = f"NaN in exactly the {selection.n - selection.population} excluded rows"
        refuse(argument, allowed, f"{np.count_nonzero(missing)} rows with NaN")
    return columns[~missing].sum(axis=0), columns[selection.ids]


def array_of_numbers(argument: str, values: Any, dimensions: tuple[int, ...]) -> Floats:
    """Return numbers as an array of one of these dimensions, without infinities; NaN is allowed."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        refuse(argument, "numbers", type(values).__name__)
    if array.ndim not in dimensions or np.isinf(array).any():
        got = "an infinity" if np.isinf(array).any() else f"shape {array.shape}"
        refuse(argument, "finite numbers, one per row" + (" and column" if 2 in dimensions else ""), got)
    return array


def _without_nan(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the labels with NaN replaced by None: both mean a missing label, and NaN does not equal itself."""
    cleaned = labels.copy()
    cleaned[[isinstance(label, (float, np.floating)) and bool(np.isnan(label)) for label in labels]] = None
    return cleaned
