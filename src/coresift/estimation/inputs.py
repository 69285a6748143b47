"""Check the values and group labels that users pass with a selection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError, real_vector, refuse
from coresift.types import Floats, WeightedSelection, check_labels, column_values


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


def _without_nan(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the labels with NaN replaced by None: both mean a missing label, and NaN does not equal itself."""
    cleaned = labels.copy()
    cleaned[[isinstance(label, (float, np.floating)) and bool(np.isnan(label)) for label in labels]] = None
    return cleaned
