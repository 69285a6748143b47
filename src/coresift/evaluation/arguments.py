"""Check the arguments of `evaluate`, and put them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coresift.checks import InputError, positive, refuse, whole
from coresift.errors import warn
from coresift.evaluation.labels import encode
from coresift.evaluation.metrics import Context, Metric
from coresift.evaluation.population import Population
from coresift.evaluation.stages import Wish
from coresift.oracle import LossesLike, Oracle
from coresift.oracle.sources import FileSource, Names
from coresift.types import Floats, as_array

# The source of answers; for several models, one array each.
AnswersLike: TypeAlias = LossesLike | Mapping[str, ArrayLike]
# A model's prediction for every row; for several models, one array each.
PredictionsLike: TypeAlias = ArrayLike | Mapping[str, ArrayLike]
# Predictions from 0 to 1 with more distinct values than this are probabilities.
MOST_SHARES = 50
TARGETS = ("these rows", "rows like these")


def context_of(n: int, predictions: Any, models: Sequence[str] | None, repeats: int) -> Context:
    """Return the context of a metric: the models, and their predictions as numbers."""
    repeats = whole("repeats", repeats)
    if predictions is None:
        names = ("",) if models is None else tuple(str(name) for name in models)
        if isinstance(models, str) or not names or len(set(names)) < len(names):
            refuse("models", "a list of different names", repr(models))
        return Context(n, names, repeats=repeats)
    named = dict(predictions) if isinstance(predictions, Mapping) else {"": predictions}
    arrays = [as_array(values) for values in named.values()]
    for name, values in zip(named, arrays, strict=True):
        if looks_like_probabilities(values):
            shown = "probabilities" if values.ndim == 2 else f"numbers such as {values.ravel()[0]:.3g}"
            refuse(
                f"predictions{f' of {name}' if name else ''}",
                "the predicted classes; probabilities go into signals, by cs.signals.from_probabilities",
                shown,
            )
        if values.shape != (n,):
            refuse(f"predictions{f' of {name}' if name else ''}", f"one for each of {n} rows", f"shape {values.shape}")
    codes, classes = encode(arrays)
    return Context(n, tuple(str(name) for name in named), codes, classes)


def looks_like_probabilities(values: NDArray[Any]) -> bool:
    """Return whether these are probabilities, and not the names or numbers of classes.

    Examples:
        >>> looks_like_probabilities(np.linspace(0, 1, 60)), looks_like_probabilities(np.array([0.5, 1.0] * 30))
        (True, False)
    """
    if values.dtype.kind != "f" or not values.size or values.min() < 0 or values.max() > 1:
        return False
    if values.ndim == 2:
        return bool(np.allclose(values.sum(axis=1), 1, atol=1e-3))
    return np.unique(values).size > MOST_SHARES


def count_predictions(predictions: Any) -> int | None:
    """Return how many rows there are predictions for."""
    if predictions is None:
        return None
    first = next(iter(predictions.values()), ()) if isinstance(predictions, Mapping) else predictions
    try:
        return len(first)
    except TypeError:
        refuse("predictions", "an array, or a mapping of models to arrays", type(predictions).__name__)


def count_answers(values: Any) -> int | None:
    """Return how many rows an array of all answers has; None if the answers are not in an array."""
    if isinstance(values, Mapping):
        values = next(iter(values.values()), None)
    return len(values) if isinstance(values, (np.ndarray, list, tuple)) and len(values) else None


def check_sources(metric: Metric, context: Context, values: Any, labels: Any) -> Any:
    """Return the source of answers, or refuse one that the metric cannot use."""
    if values is not None and labels is not None:
        raise InputError("Give values or labels, not both.")
    asks_labels = metric.labels and bool(context.codes)
    if metric.labels and not context.codes and not (metric.label == "difference" and len(context.models) > 1):
        raise InputError(f"{metric.label} needs predictions, one per row.")
    if asks_labels and values is not None:
        raise InputError(f"{metric.label} of predictions needs labels, not values.")
    if not asks_labels and labels is not None:
        raise InputError(f"{metric.label} needs values, which are numbers; labels go with predictions.")
    if metric.label == "difference" and len(context.models) < 2:
        raise InputError("difference needs predictions of two models or more, or models= and their values.")
    source = labels if asks_labels else values
    if (
        source is None
        or callable(source)
        or isinstance(source, (str, Oracle, FileSource))
        or hasattr(source, "__fspath__")
    ):
        return source
    return _several(source, context)


def _several(source: Any, context: Context) -> Any:
    """Turn a matrix, or a mapping of models to arrays, into a callable; return anything else unchanged."""
    if isinstance(source, Mapping):
        missing = [name for name in context.models if name not in source]
        if missing:
            refuse("values", f"a mapping with the models {', '.join(context.models)}", ", ".join(map(str, source)))
        source = np.stack([np.asarray(source[name]) for name in context.models], axis=1)
    array = np.asarray(source)
    if array.ndim != 2:
        return source
    if len(array) != context.n:
        refuse("values", f"one line for each of {context.n} rows", f"{len(array)} lines")
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1)) if array.dtype.kind == "f" else np.zeros(0, np.int64)
    if bad.size:
        refuse("values", "finite numbers", f"{array[bad[0]].tolist()} in row {bad[0]}")
    return lambda ids: array[ids]


def names_of(ids: Sequence[Any], n: int) -> Names:
    """Return a function from row numbers to ids."""
    listed = list(ids)
    if len(listed) != n:
        refuse("ids", f"one id for each of {n} rows", f"{len(listed)}")
    return lambda rows: [listed[row] for row in rows.tolist()]


def wish_of(within: Any, budget: Any, group_within: Any, population: Population, shares: bool) -> Wish:
    """Return the half-width and budget that the user wants; if the number is a share, half-widths are below 1."""
    if within is None and budget is None and group_within is None:
        raise InputError("evaluate needs within, the half-width to reach, or budget, the number of answers.")
    widths, budgets = listed_wishes(within), listed_wishes(budget)
    if len(widths) > 1 and sorted(widths, reverse=True) != widths:
        refuse("within", "one half-width, or several from the largest to the smallest", str(widths))
    if len(budgets) > 1 and (sorted(budgets) != budgets or len(widths) > 1):
        refuse(
            "budget", "one number, or several from the smallest to the largest if within is one number", str(budgets)
        )
    count = population.nonempty_groups
    if budgets and whole("budget", budgets[0]) < count:
        refuse("budget", f"at least {count:,}, one answer for each group (merge small groups)", budgets[0])
    groups = _group_widths(group_within, population.groups)
    for value in (*widths, *groups.tolist()) if shares else ():
        if isinstance(value, (int, float)) and value >= 1:
            argument = "within" if value in widths else "group_within"
            refuse(argument, f"below 1; for {value:g} percentage points use {value / 100:g}", f"{value:g}")
    if within is None and group_within is None and whole("budget", budgets[-1]) > population.n:
        warn(f"budget is {budgets[-1]:,}, and there are only {population.n:,} rows to ask: all of them are asked.")
    wish = Wish(None, None, groups)
    for place in range(max(len(widths), len(budgets), 1)):
        width = widths[min(place, len(widths) - 1)] if widths else None
        most = budgets[min(place, len(budgets) - 1)] if budgets else None
        earlier = (*wish.earlier, wish) if place else ()
        wish = Wish(
            None if most is None else whole("budget", most),
            None if width is None else positive("within", width),
            groups,
            earlier,
        )
    return wish


def listed_wishes(value: Any) -> list[Any]:
    """Return a wish as a list: several numbers if a run goes on after the first."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) and value else [value]


def _group_widths(group_within: Any, names: tuple[Any, ...]) -> Floats:
    if group_within is None:
        return np.zeros(0)
    if len(names) < 2:
        raise InputError("group_within needs groups with at least two different labels.")
    if not isinstance(group_within, Mapping):
        return np.full(len(names), positive("group_within", group_within))
    missing = [name for name in names if name not in group_within]
    if missing:
        refuse(
            "group_within", f"a half-width for every group, also for {missing[0]!r}", ", ".join(map(str, group_within))
        )
    return np.array([positive("group_within", group_within[name]) for name in names])
