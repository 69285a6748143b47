"""How a budget is shared out over rounds and audits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coresift.audits import FEWEST
from coresift.checks import InputError, refuse, share, whole
from coresift.types import Floats


@dataclass(frozen=True)
class Schedule:
    """How rounds differ: what `benchmarks/active_learning_tuning.py` decided.

    Attributes:
        first: Which part of the labels that teach comes first, by coverage alone.
        widest: The bandwidth's factor in the first round; see `facility.choose_rows`.
        narrowest: The factor in the last round; between them it falls by the same amount per round.
        power: To which power one minus the margin is importance.
        floor: Every row keeps this much importance, however sure the model is.
    """

    first: float = 0.2
    widest: float = 0.7
    narrowest: float = 0.7
    power: float = 1.0
    floor: float = 0.01

    def factor(self, number: int, rounds: int) -> float:
        """Return the bandwidth's factor in a round."""
        past = (number - 1) / max(rounds - 1, 1)
        return self.widest + past * (self.narrowest - self.widest)

    def importance(self, unsure: Floats) -> Floats:
        """Return a row's importance, given how unsure the model is of it."""
        return self.floor + (1 - self.floor) * unsure**self.power


SCHEDULE = Schedule()


@dataclass(frozen=True)
class Plan:
    """How many rows teach and how many audit, in each round."""

    batches: tuple[int, ...]
    audits: tuple[int, ...]

    @classmethod
    def of(
        cls, budget: int, rounds: int, audit: float | int | None, available: int, first: float = SCHEDULE.first
    ) -> Plan:
        """Share out the budget: audits of 50 rows at least, the last one at the end."""
        if available < 1:
            raise InputError("exclude and given leave no row to ask.")
        budget = min(budget, available)
        total = _audit_rows(audit, budget)
        teaching = budget - total
        rounds = min(rounds, teaching)
        start = teaching if rounds == 1 else max(1, round(first * teaching))
        rest = np.diff(np.round(np.linspace(0, teaching - start, rounds)).astype(np.int64))
        sizes = np.array([start, *rest.tolist()])
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
