"""The table of signals that flows from step to step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from coresift.checks import InputError
from coresift.types.values import Bools, Floats, Value, digest, freeze

# How many signals a table names where it is shown.
SHOWN = 4


@dataclass(frozen=True, eq=False, repr=False)
class SignalTable(Value):
    """One line per row and one named column per signal: finite float64 numbers, without gaps.

    `sizes` marks the columns that can be used as sizes directly: numbers of at least 0, not all equal. It is False for
    indicator columns (0 or 1) of classes and of missing values. `scales` is the weight of each column in a regression
    that penalizes slopes: usually 1, less for weak factors. `calibrated` marks columns that are probabilities of the
    answer 1 and were learned from results, so a draw takes them as they are and does not shrink them.
    """

    names: tuple[str, ...]
    columns: Floats
    sizes: Bools
    scales: Floats = field(default_factory=lambda: np.zeros(0))
    calibrated: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))

    def __post_init__(self) -> None:
        if not self.scales.size:
            object.__setattr__(self, "scales", np.ones(len(self.names)))
        if not self.calibrated.size:
            object.__setattr__(self, "calibrated", np.zeros(len(self.names), np.bool_))
        freeze(self, columns=np.float64, sizes=np.bool_, scales=np.float64, calibrated=np.bool_)
        count = len(self.names)
        if self.columns.ndim != 2 or self.columns.shape[1] != count or self.sizes.shape != (count,):
            raise InputError("A signal table needs one name and one entry of sizes per column.")
        if self.scales.shape != (count,) or self.calibrated.shape != (count,):
            raise InputError("A signal table needs one entry of scales and of calibrated per column, or none at all.")
        chances = self.columns[:, self.calibrated]
        if chances.size and (chances.min() < 0 or chances.max() > 1):
            raise InputError("Calibrated signals are probabilities, so they must be numbers from 0 to 1.")

    def __len__(self) -> int:
        return len(self.columns)

    def __repr__(self) -> str:
        more = len(self.names) - SHOWN
        names = ", ".join(self.names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
        return f"SignalTable({len(self):,} rows: {names or 'no signals'})"

    def digest(self) -> str:
        """Return a digest of the numbers."""
        return digest(self.columns)
