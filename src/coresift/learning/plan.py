"""How a budget is divided among rounds and audits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from coresift.audits import FEWEST
from coresift.checks import InputError, refuse, share, whole
from coresift.notebook import counted
from coresift.types import Floats

# How many labels go to audits: a share of the budget, a number of rows, None for no audit, or the default.
AuditSize: TypeAlias = float | int | Literal["auto"] | None
AUDIT: Literal["auto"] = "auto"
DEFAULT_SHARE = 0.1


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

    `left_out` says whether there is no audit because the default share of the budget is too small for one.

    >>> print(Plan.of(300, 3, 50, 10_000))
    you are asked 4 times, for 50, 100, 100 and 50 (audit) rows
    """

    batches: tuple[int, ...]
    audits: tuple[int, ...]
    left_out: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, budget: int, rounds: int, audit: AuditSize, available: int, first: float = SCHEDULE.first) -> Plan:
        """Divide the budget: every audit has at least 50 rows, and the last one is in the last round."""
        if available < 1:
            raise InputError("exclude and given leave no row to ask about.")
        budget = min(budget, available)
        audit_rows = rows_to_audit(audit, budget)
        training_rows = budget - audit_rows
        rounds = min(rounds, training_rows)
        start = training_rows if rounds == 1 else max(1, round(first * training_rows))
        later_batches = np.diff(np.round(np.linspace(0, training_rows - start, rounds)).astype(np.int64))
        sizes = np.array([start, *later_batches.tolist()])
        audits = np.zeros(rounds, np.int64)
        count = min(audit_rows // FEWEST, rounds) or int(audit_rows > 0)
        if count:
            # Steps of at least one round, so that no two audits fall into the same one.
            steps = np.linspace(0, rounds - 1, count + 1)[1:] if count < rounds else np.arange(rounds)
            audit_rounds = np.round(steps).astype(np.int64)
            audits[audit_rounds] = np.diff(np.round(np.linspace(0, audit_rows, count + 1)).astype(np.int64))
        return cls(tuple(sizes.tolist()), tuple(audits.tolist()), audit == AUDIT and not audit_rows)

    def __str__(self) -> str:
        sizes = []
        for batch, audit in zip(self.batches, self.audits, strict=True):
            sizes += ([f"{batch:,}"] if batch else []) + ([f"{audit:,} (audit)"] if audit else [])
        times = "once" if len(sizes) == 1 else f"{len(sizes)} times"
        listed = " and ".join([", ".join(sizes[:-1]), sizes[-1]] if len(sizes) > 1 else sizes)
        asked = f"you are asked {times}, for {listed} {'row' if sizes == ['1'] else 'rows'}"
        return asked if self.audit_count else f"{asked}; {self._without_audit()}"

    def _without_audit(self) -> str:
        if not self.left_out:
            return "no audit"
        how = f"; for one, start with audit={FEWEST}" if sum(self.batches) > FEWEST else ""
        return f"no audit, since a tenth of the budget is fewer than {FEWEST} rows{how}"

    def next_audit(self, round: int) -> str:
        """Say when the first audit comes that is not before this round.

        >>> Plan.of(300, 3, 50, 10_000).next_audit(1)
        'after the batch of round 3, with 50 rows'
        """
        place, rows = next((place, rows) for place, rows in enumerate(self.audits, start=1) if rows and place >= round)
        return f"after the batch of round {place}, with {rows:,} rows"

    @property
    def budget(self) -> int:
        """How many rows are asked in total, audits included."""
        return sum(self.batches) + sum(self.audits)

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return len(self.batches)

    @property
    def audit_count(self) -> int:
        """How many audits there are."""
        return sum(rows > 0 for rows in self.audits)


def rows_to_audit(audit: AuditSize, budget: int) -> int:
    """Return how many rows go to audits; refuse a number that was given and is too small or too large.

    >>> rows_to_audit(0.25, 400), rows_to_audit("auto", 400), rows_to_audit("auto", 600)
    (100, 0, 60)
    """
    if audit is None:
        return 0
    if isinstance(audit, str):
        if audit != AUDIT:
            refuse("audit", f"a share of the budget, a number of rows, {AUDIT!r} or None", repr(audit))
        rows = round(DEFAULT_SHARE * budget)
        return rows if rows >= FEWEST else 0
    is_count = isinstance(audit, (int, np.integer)) and not isinstance(audit, bool)
    rows = whole("audit", audit, least=0) if is_count else round(share("audit", audit, ends=True) * budget)
    if audit and not FEWEST <= rows < budget:
        got = rows if is_count else f"{audit:g}, which is {counted(rows, 'row')}"
        refuse("audit", f"from {FEWEST} rows to fewer than the budget of {budget:,}, or 0 for no audit", got)
    return rows
