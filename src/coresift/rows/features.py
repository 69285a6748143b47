"""The features that a model was fit to, so that new rows are read in the same way."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from coresift.checks import refuse
from coresift.errors import warn
from coresift.rows import Rows, open_rows
from coresift.tables.opening import is_tabular
from coresift.types import Floats, Singles

Numbers: TypeAlias = Floats | Singles

# The mean square of standardized numbers is about 1. If it is above this, they are probably not standardized.
UNLIKELY = 25.0


@dataclass(frozen=True)
class Features:
    """Which columns of a table a model was fit to, and how they were standardized; each may be None.

    >>> rows = open_rows({"x": [1, 3], "y": [5, 9]}, columns=["y"], standardize=True)
    >>> Features.of(rows).read("X", {"y": [7, 9], "x": [0, 0]}).tolist()
    [[0.0], [1.0]]
    """

    columns: tuple[str, ...] | None = None
    scaling: tuple[Floats, Floats] | None = None

    @classmethod
    def of(cls, rows: Rows) -> Features:
        """Return the features of the rows that a model was fit to."""
        return cls(rows.columns, rows.scaling)

    def read(self, argument: str, source: Any) -> Numbers:
        """Return new rows as a matrix.

        Of a table, the same columns are read, in any order, and standardized as they were for the model. Opened rows
        are standardized if they are not; an array is used unchanged, with a warning if it is clearly not standardized.
        """
        if isinstance(source, Rows):
            numbers: Numbers = source.take(np.arange(source.n))
            return numbers if source.scaling is not None else self._standardized(numbers)
        if isinstance(source, str | os.PathLike) or is_tabular(source):
            rows = open_rows(source, columns=self.columns)
            return self._standardized(rows.take(np.arange(rows.n)))
        try:
            single = getattr(source, "dtype", None) == np.float32
            numbers = np.asarray(source, np.float32) if single else np.asarray(source, np.float64)
        except (TypeError, ValueError):
            refuse(argument, "a matrix of numbers, a table, or the result of open_rows", type(source).__name__)
        self._warn_if_raw(argument, numbers)
        return numbers

    def _standardized(self, numbers: Numbers) -> Numbers:
        if self.scaling is None:
            return numbers
        mean, divisor = self.scaling
        return np.asarray((numbers.astype(np.float64) - mean) / divisor)

    def _warn_if_raw(self, argument: str, numbers: Numbers) -> None:
        if self.scaling is None or numbers.ndim != 2 or numbers.shape[1] != self.scaling[0].size or not numbers.size:
            return
        if np.mean(numbers**2) > UNLIKELY > np.mean(self._standardized(numbers) ** 2):
            warn(
                f"{argument} looks like numbers that are not standardized, and the model was fit to rows opened with "
                "standardize=True; give a table, or those rows."
            )
