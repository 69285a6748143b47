"""The Hájek estimator: a weighted mean times the number of rows.

The weights of a selection rarely sum to exactly n. If the values are far from 0 compared with their spread, as years or
air pressures are, that alone dominates the error of Σ w·y. The weighted mean Σ w·y/Σ w does not have this error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coresift.estimation.intervals import moments, unit_of
from coresift.estimation.methods import NO_THEOREM, Adjusted, Method
from coresift.types import Clustering, Floats, Strategy, WeightedSelection

# The Hájek estimator replaces another default only if its estimated variance is below this part of the other's: the
# other is exactly unbiased, and small differences between two estimated variances are noise.
CLEARLY_SMALLER = 0.7
# With fewer drawn rows, the bias of a ratio is not small compared with its standard error.
FEWEST_ROWS = 30


@dataclass(frozen=True, eq=False, repr=False)
class Hajek(Strategy):
    """n·Σ w·y/Σ w: the weighted mean of the drawn rows, times the number of rows that they represent.

    Use it for values far from 0, such as years. Adding a constant to all values adds exactly that constant to the mean,
    which the plain weighted total does not do. As a ratio, it has a bias of order 1/rows drawn, which is small compared
    with its standard error. It is the default if its estimated variance is clearly below that of the other estimators.
    Rows that are certain (`given`) count as they are.

    Examples:
        >>> import numpy as np, coresift as cs
        >>> rows = np.random.default_rng(0).normal(size=(2000, 4))
        >>> year = 2000 + rows[:, 0]
        >>> picked = cs.select(rows, budget=200)
        >>> plain = cs.estimate(picked, year[picked.ids], method=cs.estimators.HorvitzThompson())
        >>> better = cs.estimate(picked, year[picked.ids])
        >>> better.mean.standard_error < 0.1 * plain.mean.standard_error
        True
    """

    label: ClassVar[str] = "weighted mean times the number of rows"
    by_group: ClassVar[bool] = False
    plain: ClassVar[bool] = True

    def adjust(self, selection: WeightedSelection, values: Floats) -> Adjusted:
        """Return the mean's share of the total as the known part, and deviations from the mean as residuals."""
        drawn = selection.phase > 0
        weights = np.where(drawn, selection.weights, 0.0)
        if not drawn.any():
            return Adjusted(0.0, values, values, plain=True)
        unit = unit_of(values)
        mean = float(weights @ (values / unit) / weights.sum()) * unit
        represented = selection.population - int(np.count_nonzero(~drawn))
        residuals = np.where(drawn, values - mean, values)
        return Adjusted(mean * represented, residuals, residuals)

    def ends(self, upper: float) -> None:
        """Return None: the estimator is a ratio, and not exactly unbiased."""

    def theorem(
        self, selection: WeightedSelection, values: Floats, clustering: Clustering, holder: Floats
    ) -> tuple[str, str]:
        """Return no theorem: the paper's covers only the plain weighted total."""
        return "", NO_THEOREM


def is_clearly_better(selection: WeightedSelection, values: Floats, other: Method) -> bool:
    """Return whether the Hájek estimator has a clearly smaller estimated variance than another method."""
    if np.count_nonzero(selection.phase > 0) < FEWEST_ROWS:
        return False
    unit = unit_of(values)
    own, others = (method.adjust(selection, values / unit) for method in (Hajek(), other))
    return _variance(selection, own) < CLEARLY_SMALLER * _variance(selection, others)


def _variance(selection: WeightedSelection, adjusted: Adjusted) -> float:
    return moments(selection, adjusted.spread if adjusted.by_phase is None else adjusted.by_phase).variance
