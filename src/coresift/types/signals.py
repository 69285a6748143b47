"""Signals as they flow from step to step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from coresift.checks import InputError
from coresift.types.values import Bools, Floats, Value, digest


@dataclass(frozen=True, eq=False)
class SignalTable(Value):
    """One line per row, one named column per signal; complete, finite and of float64.

    `sizes` marks the columns that can be a size as they stand: numbers of at least 0, not all equal. The columns of a
    class, and those that mark missing values, are 0 or 1; `sizes` is False for them. `scales` says how far each column
    counts in a regression that penalizes slopes: 1 as a rule, less for weak factors.
    """

    names: tuple[str, ...]
    columns: Floats
    sizes: Bools
    scales: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        columns, sizes = np.array(self.columns, np.float64), np.array(self.sizes, np.bool_)
        if columns.ndim != 2 or columns.shape[1] != len(self.names) or sizes.shape != (len(self.names),):
            raise InputError("A signal table needs one name and one mark per column.")
        scales = np.array(self.scales if self.scales.size else np.ones(len(self.names)), np.float64)
        if scales.shape != (len(self.names),):
            raise InputError("A signal table needs one scale per column, or none at all.")
        for array in (columns, sizes, scales):
            array.setflags(write=False)
        object.__setattr__(self, "scales", scales)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "sizes", sizes)

    def __len__(self) -> int:
        return len(self.columns)

    def digest(self) -> str:
        """A short fingerprint of the numbers."""
        return digest(self.columns)
