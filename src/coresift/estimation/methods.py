"""Estimators of a total from a selection. Each is a known part plus a weighted total of residuals.

| method | bias | variance | use it |
|---|---|---|---|
| `LearnedDifference` | small | that of value − b·prediction | by default, if the selection has predictions |
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

from coresift.checks import refuse
from coresift.estimation.centers import drawn_by_distance, predicted_by_centers
from coresift.estimation.inputs import array_of_numbers, totals_and_selected
from coresift.types import Clustering, Floats, Strategy, Value, WeightedSelection, freeze

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
        array_of_numbers("predictions", self.predictions, (1,))
        freeze(self, predictions=np.float64)

    def adjust(self, selection: WeightedSelection, values: Floats) -> Adjusted:
        """Return the predictions' total as the known part, and values − predictions as residuals."""
        (total,), selected = totals_and_selected("predictions", self.predictions[:, None], selection)
        residuals = values - selected[:, 0]
        return Adjusted(float(total), residuals, residuals)

    def ends(self, upper: float) -> tuple[float, float]:
        """Return how far a value from 0 to `upper` can be from its prediction."""
        return -float(np.nanmax(self.predictions)), upper - float(np.nanmin(self.predictions))

    def theorem(
        self, selection: WeightedSelection, values: Floats, clustering: Clustering, holder: Floats
    ) -> tuple[str, str]:
        """Return the bound for differences if draws are ∝ Λ·distance^z and predictions are the centers' losses."""
        by_distance = drawn_by_distance(selection, clustering, holder)
        if by_distance and predicted_by_centers(selection, values, clustering, self.predictions):
            return "difference", "draws ∝ Λ·distance^z and the difference from the centers' losses"
        return "", "no theorem covers this: the difference needs draws ∝ Λ·distance^z and the centers as predictions"
