"""The generalized regression estimator (GREG): a fit of the values to columns whose totals are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from coresift.checks import refuse
from coresift.estimation.inputs import array_of_numbers, totals_and_selected
from coresift.estimation.methods import NO_THEOREM, Adjusted
from coresift.types import Clustering, Floats, Strategy, WeightedSelection, freeze


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
        columns = array_of_numbers("columns", self.columns, (1, 2))
        object.__setattr__(self, "columns", columns[:, None] if columns.ndim == 1 else columns)
        freeze(self, columns=np.float64)
        if self.totals is not None:
            totals = np.atleast_1d(array_of_numbers("totals", self.totals, (0, 1)))
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
            totals, columns = totals_and_selected("columns", self.columns, selection)
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
