"""How a budget is shared out over rounds and audits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coresift.audits import FEWEST
from coresift.checks import InputError, refuse, share, whole

# Which part of the labels that teach comes first, by coverage alone.
FIRST = 0.2


@dataclass(frozen=True)
class Plan:
    """How many rows teach and how many audit, in each round."""

    batches: tuple[int, ...]
    audits: tuple[int, ...]

    @classmethod
    def of(cls, budget: int, rounds: int, audit: float | int | None, available: int) -> Plan:
        """Share out the budget: audits of 50 rows at least, the last one at the end."""
        if available < 1:
            raise InputError("exclude and given leave no row to ask.")
        budget = min(budget, available)
        total = _audit_rows(audit, budget)
        teaching = budget - total
        rounds = min(rounds, teaching)
        first = teaching if rounds == 1 else max(1, round(FIRST * teaching))
        rest = np.diff(np.round(np.linspace(0, teaching - first, rounds)).astype(np.int64))
        sizes = np.array([first, *rest.tolist()])
        audits = np.zeros(rounds, np.int64)
        count = min(total // FEWEST, rounds) or int(total > 0)
        places = np.round(np.linspace(0, rounds - 1, count + 1)[1:]).astype(np.int64) if rounds > 1 else [0]
        if count:
            audits[places] = np.diff(np.round(np.linspace(0, total, count + 1)).astype(np.int64))
        return cls(tuple(sizes.tolist()), tuple(audits.tolist()))

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return len(self.batches)

    @property
    def audit_count(self) -> int:
        """How many audits there are."""
        return sum(rows > 0 for rows in self.audits)


def _audit_rows(audit: float | int | None, budget: int) -> int:
    if audit is None:
        return 0
    if isinstance(audit, (int, np.integer)) and not isinstance(audit, bool):
        rows = whole("audit", audit, least=0)
        if 0 < rows < FEWEST or rows >= budget:
            refuse("audit", f"None, a part of the budget, or from {FEWEST} rows to fewer than the budget", rows)
        return rows
    rows = round(share("audit", audit, ends=True) * budget)
    return rows if FEWEST <= rows < budget else 0
