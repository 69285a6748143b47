"""Estimators of a total from a selection. Each is a known part plus a weighted total of residuals.

| method | bias | variance | use it |
|---|---|---|---|
| `LearnedDifference` | none | that of value − b·prediction | by default, if the selection has predictions |
| `HorvitzThompson` | none | that of the values | by default otherwise |
| `Hajek` | of order 1/rows drawn | that of value − weighted mean | by default, if the values are far from 0 |
| `Difference` | none, for any predictions | that of value − prediction | predictions are on the values' scale |
| `GeneralizedRegression` | of order 1/rows selected | that of a fit's residuals | columns explain values at any scale |

A draw that is sorted by a column, or draws in proportion to it (`Proxy`), already has most of the gain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from coresift.checks import InputError, refuse, row_numbers
from coresift.estimation.intervals import uncertain
from coresift.types import Bools, Clustering, Floats, Ints, Strategy, Value, WeightedSelection, freeze

NO_THEOREM = "no theorem covers this: it needs score=Sensitivity(holder) and the plain weighted total"


@dataclass(frozen=True, eq=False)
class Adjusted(Value):
    """A total as known + Σ w·residual over the selected rows; its variance is that of the weighted total of `spread`.

    `plain` means that the residuals are the values themselves. If phases have their own predictions, `by_phase` has one
    line of values per phase, and the variance of a phase is that of its line.
    """

    known: float
    residuals: Floats
    spread: Floats
    warnings: tuple[str, ...] = ()
    plain: bool = False
    by_phase: Floats | None = None

    def total(self, selection: WeightedSelection) -> float:
        """Return the estimated total."""
        with np.errstate(over="ignore", invalid="ignore"):
            total = self.known + float(selection.weights @ self.residuals)
        if not np.isfinite(total):
            refuse("values", "small enough for a finite weighted total", f"a total of {total}")
        return total


class Method(Protocol):
    """An estimator of totals.

    `label` names it; `by_group` says whether it can estimate groups; `plain` says that it uses only the weights, so
    that exact intervals for weighted rates are valid for it.
    """

    label: ClassVar[str]
    by_group: ClassVar[bool]
    plain: ClassVar[bool]

    def adjust(self, selection: WeightedSelection, values: Floats) -> Adjusted:
        """Return the known part of the total, and the residuals of the selected rows."""
        ...

    def ends(self, upper: float) -> tuple[float, float] | None:
        """Return limits for all rows' residuals if all values are from 0 to `upper`; None if they are unknown."""
        ...

    def theorem(
        self, selection: WeightedSelection, values: Floats, clustering: Clustering, holder: Floats
    ) -> tuple[str, str]:
        """Return which theorem covers this estimator and selection ("" for none), and the reason."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class HorvitzThompson(Strategy):
    """Σ w·y, the plain weighted total: unbiased for any values, with the variance of the values.

    Examples:
        >>> HorvitzThompson()
        HorvitzThompson()
    """

    label: ClassVar[str] = "weighted total"
    by_group: ClassVar[bool] = True
    plain: ClassVar[bool] = True

    def adjust(self, selection: WeightedSelection, values: Floats) -> Adjusted:
        """Return no known part; every value is its own residual."""
        return Adjusted(0.0, values, values, plain=True)

    def ends(self, upper: float) -> tuple[float, float]:
        """Return 0 and the bound itself."""
        return 0.0, upper

    def theorem(
        self, selection: WeightedSelection, values: Floats, clustering: Clustering, holder: Floats
    ) -> tuple[str, str]:
        """Return the paper's theorem if it covers the selection's score and Λ."""
        score = None if selection.recipe is None else selection.recipe.score
        if score is None or not score.theorem:
            return "", NO_THEOREM
        if not np.all(selection.holder == holder):
            return "", "no theorem covers this Λ: the selection was made with another one"
        return "sampling", "the paper's Algorithm 1"


@dataclass(frozen=True, eq=False, repr=False)
class Difference(Strategy):
    """Σŷ + Σ w·(y − ŷ), with a prediction ŷ for every row that was made without the drawn values.

    It is unbiased no matter how wrong the predictions are. Its variance is that of y − ŷ, so predictions help if they
    are closer to the values than 0 is. Use it with a cheap model's losses, or with the losses of the centers
    (`center_predictions`); if the predictions' scale may be off, use `GeneralizedRegression`.

    Args:
        predictions: One number for each of the n rows, NaN for excluded rows.

    Examples:
        >>> import numpy as np, coresift as cs
        >>> rows = np.random.default_rng(0).normal(size=(1000, 2))
        >>> loss, cheap = rows[:, 0] ** 2, rows[:, 0] ** 2 + 0.1 * rows[:, 1]
        >>> picked = cs.select(rows, losses=loss, budget=100)
        >>> plain = cs.estimate(picked, loss[picked.ids])
        >>> better = cs.estimate(picked, loss[picked.ids], method=cs.estimators.Difference(cheap))
        >>> better.total.standard_error < 0.2 * plain.total.standard_error
        True
    """

    predictions: Any
    label: ClassVar[str] = "difference from predictions"
    by_group: ClassVar[bool] = False
    plain: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _numbers("predictions", self.predictions, (1,))
        freeze(self, predictions=np.float64)

    def adjust(self, selection: WeightedSelection, values: Floats) -> Adjusted:
        """Return the predictions' total as the known part, and values − predictions as residuals."""
        (total,), selected = _totals_and_selected("predictions", self.predictions[:, None], selection)
        residuals = values - selected[:, 0]
        return Adjusted(float(total), residuals, residuals)

    def ends(self, upper: float) -> tuple[float, float]:
        """Return how far a value from 0 to `upper` can be from its prediction."""
        return -float(np.nanmax(self.predictions)), upper - float(np.nanmin(self.predictions))

    def theorem(
        self, selection: WeightedSelection, values: Floats, clustering: Clustering, holder: Floats
    ) -> tuple[str, str]:
        """Return the bound for differences if draws are ∝ Λ·distance^z and predictions are the centers' losses."""
        if _by_distance(selection, clustering, holder) and _from_centers(selection, values, clustering, self):
            return "difference", "draws ∝ Λ·distance^z and the difference from the centers' losses"
        return "", "no theorem covers this: the difference needs draws ∝ Λ·distance^z and the centers as predictions"


@dataclass(frozen=True, eq=False, repr=False)
class GeneralizedRegression(Strategy):
    """Tx·B + Σ w·(y − x·B), where B is the weighted fit of the values to columns x with known totals Tx.

    This is the generalized regression estimator (GREG). It is also Σ w·g·y with calibrated weights w·g (`weights`), for
    which the columns' weighted totals equal the known totals. Its bias is of order 1/rows selected, smaller than its
    standard error by a factor of order 1/√rows. Its variance is that of the residuals, so it is never much worse than
    the plain total unless there are many columns for few rows. Use it if columns explain the values at an unknown
    scale.

    Args:
        columns: Numbers for all n rows (NaN for excluded rows), one column or several; or, with `totals`, for the
            selected rows alone, in the order of `selection.ids`.
        totals: The columns' totals over all rows, if `columns` covers only the selected rows.
        intercept: Whether to use the number of rows as another known total.

    Examples:
        >>> import numpy as np, coresift as cs
        >>> rows = np.random.default_rng(0).normal(size=(1000, 2))
        >>> picked = cs.select(rows, losses=rows[:, 0] ** 2, budget=100)
        >>> weights = cs.estimators.GeneralizedRegression(rows).weights(picked)
        >>> bool(np.allclose(weights @ rows[picked.ids], rows.sum(axis=0))), round(float(weights.sum()))
        (True, 1000)
    """

    columns: Any
    totals: Any = None
    intercept: bool = True
    label: ClassVar[str] = "regression on known totals"
    by_group: ClassVar[bool] = True
    plain: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.intercept, bool):
            refuse("intercept", "True or False", repr(self.intercept))
        columns = _numbers("columns", self.columns, (1, 2))
        object.__setattr__(self, "columns", columns[:, None] if columns.ndim == 1 else columns)
        freeze(self, columns=np.float64)
        if self.totals is not None:
            totals = np.atleast_1d(_numbers("totals", self.totals, (0, 1)))
            if totals.size != self.columns.shape[1]:
                refuse("totals", f"one number for each of {self.columns.shape[1]} columns", totals.size)
            if not np.all(np.isfinite(totals)):
                refuse("totals", "finite numbers", totals[~np.isfinite(totals)][0])
            object.__setattr__(self, "totals", totals)
            freeze(self, totals=np.float64)

    def adjust(self, selection: WeightedSelection, values: Floats) -> Adjusted:
        """Return the fit's total as the known part, and the residuals of the fit."""
        fit = self._fit(selection)
        slopes = fit.slopes(values)
        residuals = values - fit.columns @ slopes
        # Fitting p columns shrinks the residuals, so correct for the degrees of freedom.
        spread = fit.factors * residuals * np.sqrt(values.size / (values.size - slopes.size))
        return Adjusted(float(fit.totals @ slopes), residuals, spread, fit.warnings())

    def weights(self, selection: WeightedSelection) -> Floats:
        """Return the calibrated weights of the selected rows; some may be negative."""
        fit = self._fit(selection)
        weights: Floats = fit.base * fit.factors
        return weights

    def ends(self, upper: float) -> None:
        """Return None: residuals of a fit have no known limits, and the estimator is not unbiased."""

    def theorem(
        self, selection: WeightedSelection, values: Floats, clustering: Clustering, holder: Floats
    ) -> tuple[str, str]:
        """Return no theorem: the paper's covers only the plain weighted total."""
        return "", NO_THEOREM

    def _fit(self, selection: WeightedSelection) -> _Fit:
        if self.totals is None:
            totals, columns = _totals_and_selected("columns", self.columns, selection)
        elif self.columns.shape[0] != len(selection) or np.isnan(self.columns).any():
            allowed = f"{len(selection)} numbers per column, one per selected row, when totals are given"
            refuse("columns", allowed, f"shape {self.columns.shape}, {np.isnan(self.columns).sum()} missing")
        else:
            totals, columns = self.totals, self.columns
        if self.intercept:
            totals = np.append(float(selection.population), totals)
            columns = np.column_stack([np.ones(len(selection)), columns])
        if columns.shape[1] >= len(selection):
            refuse("columns", f"fewer than the {len(selection)} selected rows", columns.shape[1])
        return _Fit(columns, totals, selection.weights)


class _Fit:
    """Weighted least squares on columns whose totals are known; collinear columns are handled by the pseudo-inverse."""

    def __init__(self, columns: Floats, totals: Floats, base: Floats) -> None:
        scale = np.sqrt(np.maximum(base @ columns**2, 1e-300))
        self.columns, self.totals, self.base = columns / scale, totals / scale, base
        self._inverse = np.linalg.pinv(np.sqrt(base)[:, None] * self.columns, rcond=1e-8)
        missing = self.totals - base @ self.columns
        self.factors: Floats = 1 + self.columns @ (self._inverse @ (self._inverse.T @ missing))

    def slopes(self, values: Floats) -> Floats:
        """Return the minimum-norm fit of the values."""
        slopes: Floats = self._inverse @ (np.sqrt(self.base) * values)
        return slopes

    def warnings(self) -> tuple[str, ...]:
        """Warn if no weights reproduce the known totals."""
        weighted_totals = (self.base * self.factors) @ self.columns
        if np.allclose(weighted_totals, self.totals, rtol=1e-6, atol=1e-6):
            return ()
        return ("No weights of the selected rows give the known totals: a column is constant or all 0 in them.",)


def center_predictions(clustering: Clustering, losses: Any, exclude: Any = None) -> Floats:
    """Return ŷ(e), the loss of e's center, for every row e.

    Args:
        clustering: The clustering.
        losses: One loss per center.
        exclude: Rows that were excluded.

    Returns:
        One number per row, NaN for excluded rows.

    Examples:
        >>> import numpy as np, coresift as cs
        >>> rows = np.array([[0.0], [0.1], [5.0], [5.1]])
        >>> clustering = cs.cluster(rows, 2, seed=0)
        >>> losses = rows[clustering.centers, 0].round()
        >>> center_predictions(clustering, losses)
        array([0., 0., 5., 5.])
    """
    levels = _numbers("losses", losses, (1,))
    if levels.size != clustering.k or not np.all(np.isfinite(levels)):
        refuse("losses", f"one finite number for each of {clustering.k} centers", f"{levels.size} numbers")
    predictions: Floats = levels[clustering.labels]
    predictions[row_numbers("exclude", exclude, clustering.n)] = np.nan
    return predictions


def difference_weights(
    selection: WeightedSelection, clustering: Clustering, exclude: Any = None
) -> tuple[Ints, Floats]:
    """Return the rows and weights whose weighted total is `Difference` with `center_predictions`, for any values.

    The selected rows keep their weights, and center i gets n_i − Σ w over the selected rows of its cluster in addition,
    which may be negative.

    Args:
        selection: The selection.
        clustering: The clustering that it was made with.
        exclude: The rows that were excluded in `select`.

    Returns:
        The row numbers, and one weight per row.

    Examples:
        >>> import numpy as np, coresift as cs
        >>> rows = np.random.default_rng(0).normal(size=(100, 2))
        >>> clustering = cs.cluster(rows, 5, seed=0)
        >>> ids, weights = difference_weights(cs.select(rows, budget=20, clusters=clustering), clustering)
        >>> round(float(weights.sum()), 9)
        100.0
    """
    check_clustering(selection, clustering)
    excluded = row_numbers("exclude", exclude, clustering.n)
    if clustering.n - excluded.size != selection.population:
        refuse("exclude", f"the {clustering.n - selection.population} rows that were excluded", f"{excluded.size} rows")
    if np.isin(clustering.centers, excluded).any():
        raise InputError(
            "A center is among the excluded rows, so it cannot have a weight; cluster only the other rows."
        )
    counted = clustering.sizes - np.bincount(clustering.labels[excluded], minlength=clustering.k)
    center_weights = counted - np.bincount(selection.clusters, selection.weights, clustering.k)
    weights = np.zeros(clustering.n)
    weights[selection.ids] = selection.weights
    weights[clustering.centers] += center_weights
    ids = np.union1d(selection.ids, clustering.centers)
    return ids, weights[ids]


def check_clustering(selection: WeightedSelection, clustering: Clustering, *, given: bool = True) -> None:
    """Refuse a clustering that the selection was not made with; it was given, or made from given rows."""
    same = clustering.n == selection.n and clustering.z == selection.z
    if same:
        same = np.array_equal(clustering.labels[selection.ids], selection.clusters)
        same = same and np.array_equal(clustering.distances[selection.ids], selection.distances)
    if not same and not given:
        raise InputError(
            "rows must be those that the selection was made from; these give other clusters, "
            "because of other numbers, columns or scaling (standardize=True)."
        )
    if not same:
        raise InputError("The clustering is not the one that the selection was made with.")


def _by_distance(selection: WeightedSelection, clustering: Clustering, scale: Floats) -> bool:
    """Return whether each draw's probability is proportional to Λv and at least Λv/Φ^Λ, as the bound assumes."""
    drawn = uncertain(selection, 2)
    scaled_powers = np.broadcast_to(scale, clustering.k)[clustering.labels] * clustering.powers
    draws = int(selection.multiplicity[drawn].sum())
    required = (
        draws * scaled_powers[selection.ids[drawn]] / scaled_powers.sum()
        if scaled_powers.sum() > 0
        else np.full(drawn.size, np.inf)
    )
    inclusion = selection.inclusion[drawn]
    ratio = inclusion / np.where(required > 0, required, np.inf)
    return bool(np.all(inclusion >= required * (1 - 1e-6)) and np.allclose(ratio, ratio[0]))


def _from_centers(selection: WeightedSelection, values: Floats, clustering: Clustering, method: Difference) -> bool:
    """Return whether every prediction is the loss of the row's center, as far as the selected rows show."""
    predictions = method.predictions
    if predictions.size != clustering.n:
        return False
    centers = np.isin(selection.ids, clustering.centers)
    counted = np.isfinite(predictions)
    constant = np.array_equal(predictions[counted], predictions[clustering.centers][clustering.labels][counted])
    predicted = predictions[selection.ids[centers]]
    return bool(constant and centers.sum() == clustering.k and np.allclose(values[centers], predicted))


def _totals_and_selected(argument: str, columns: Floats, selection: WeightedSelection) -> tuple[Floats, Floats]:
    """Return the columns' totals over all rows that are not excluded, and the columns of the selected rows."""
    if len(columns) != selection.n:
        refuse(argument, f"numbers for each of {selection.n} rows", f"{len(columns)}")
    missing: Bools = np.isnan(columns.sum(axis=1))
    if np.count_nonzero(missing) != selection.n - selection.population or missing[selection.ids].any():
        allowed = f"NaN in exactly the {selection.n - selection.population} excluded rows"
        refuse(argument, allowed, f"{np.count_nonzero(missing)} rows with NaN")
    return columns[~missing].sum(axis=0), columns[selection.ids]


def _numbers(argument: str, values: Any, dimensions: tuple[int, ...]) -> Floats:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        refuse(argument, "numbers", type(values).__name__)
    if array.ndim not in dimensions or np.isinf(array).any():
        got = "an infinity" if np.isinf(array).any() else f"shape {array.shape}"
        refuse(argument, "finite numbers, one per row" + (" and column" if 2 in dimensions else ""), got)
    return array
