"""How a budget is divided among rounds and audits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coresift.audits import FEWEST
from coresift.checks import InputError, refuse, share, whole
from coresift.types import Floats


@dataclass(frozen=True)
class Schedule:
    """How rounds differ; the defaults come from `benchmarks/active_learning_tuning.py`.

    Attributes:
        first: The share of the training labels that the first batch gets, chosen by coverage alone.
        widest: The bandwidth factor in the first round; see `facility.choose_rows`.
        narrowest: The bandwidth factor in the last round; it falls linearly in between.
        power: Importance is one minus the margin, raised to this power.
        floor: The least importance of a row, however sure the model is.
    """

    first: float = 0.2
    widest: float = 0.7
    narrowest: float = 0.7
    power: float = 1.0
    floor: float = 0.01

    def factor(self, number: int, rounds: int) -> float:
        """Return the bandwidth factor of a round."""
        progress = (number - 1) / max(rounds - 1, 1)
        return self.widest + progress * (self.narrowest - self.widest)

    def importance(self, uncertainty: Floats) -> Floats:
        """Return each row's importance, given the model's uncertainty about it."""
        return self.floor + (1 - self.floor) * uncertainty**self.power


SCHEDULE = Schedule()


@dataclass(frozen=True)
class Plan:
    """How many training rows and how many audit rows each round has; an audit follows the batch of its round.

    >>> print(Plan.of(300, 3, 50, 10_000))
    batches of 50, 100, 100 rows; audits of 0, 0, 50
    """

    batches: tuple[int, ...]
    audits: tuple[int, ...]

    @classmethod
    def of(
        cls, budget: int, rounds: int, audit: float | int | None, available: int, first: float = SCHEDULE.first
    ) -> Plan:
        """Divide the budget: every audit has at least 50 rows, and the last one is in the last round."""
        if available < 1:
            raise InputError("exclude and given leave no row to ask about.")
        budget = min(budget, available)
        audit_rows = _audit_rows(audit, budget)
        training_rows = budget - audit_rows
        rounds = min(rounds, training_rows)
        start = training_rows if rounds == 1 else max(1, round(first * training_rows))
        later_batches = np.diff(np.round(np.linspace(0, training_rows - start, rounds)).astype(np.int64))
        sizes = np.array([start, *later_batches.tolist()])
        audits = np.zeros(rounds, np.int64)
        count = min(audit_rows // FEWEST, rounds) or int(audit_rows > 0)
        audit_rounds = np.round(np.linspace(0, rounds - 1, count + 1)[1:]).astype(np.int64) if rounds > 1 else [0]
        if count:
            audits[audit_rounds] = np.diff(np.round(np.linspace(0, audit_rows, count + 1)).astype(np.int64))
        return cls(tuple(sizes.tolist()), tuple(audits.tolist()))

    def __str__(self) -> str:
        batches = f"batches of {', '.join(map(str, self.batches))} rows"
        audits = f"audits of {', '.join(map(str, self.audits))}" if self.audit_count else "no audit"
        return f"{batches}; {audits}"

    def next_audit(self, round: int) -> str:
        """Say when the first audit comes that is not before this round.

        >>> Plan.of(300, 3, 50, 10_000).next_audit(1)
        'after the batch of round 3, with 50 rows'
        """
        coming = [place for place, rows in enumerate(self.audits, start=1) if rows and place >= round]
        if not coming:
            return "none is planned"
        return f"after the batch of round {coming[0]}, with {self.audits[coming[0] - 1]:,} rows"

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
            refuse("audit", f"None, a share of the budget, or from {FEWEST} rows to fewer than the budget", rows)
        return rows
    rows = round(share("audit", audit, ends=True) * budget)
    return rows if FEWEST <= rows < budget else 0
