"""What a job is, and a count of the rows it asks."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

import numpy as np

from coresift.types import Ints, Ledger, Request

R = TypeVar("R")


# A job yields requests, gets the answers in the order of their ids, and returns its result. It must depend on its
# arguments, its seed and the answers alone; otherwise it could not be replayed up to where it stopped.
Job: TypeAlias = Generator[Request, Any, R]


class Tally:
    """Counts the distinct rows that a job asks, by round and reason.

    Attributes:
        ledger: The count.
        last: The last request, or None.

    Examples:
        >>> tally = Tally()
        >>> _ = tally.note(Request(np.array([3, 7, 3]), "pilot")), tally.note(Request(np.array([7, 9]), "check", 2))
        >>> tally.ledger
        Ledger(entries=((1, 'pilot', 2), (2, 'check', 1)))
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.last: Request | None = None
        self._asked: dict[int, None] = {}

    @property
    def rows(self) -> Ints:
        """The rows that were asked, in the order in which they were first asked."""
        return np.array(list(self._asked), np.int64)

    def new(self, ids: Ints) -> Ints:
        """Return the distinct rows that were not asked before, in their order."""
        return np.array([row for row in dict.fromkeys(ids.tolist()) if row not in self._asked], np.int64)

    def note(self, request: Request) -> Request:
        """Count a request, and return it."""
        new, self.last = self.new(request.ids), request
        if new.size:
            self._asked.update(dict.fromkeys(new.tolist()))
            self.ledger = Ledger((*self.ledger.entries, (request.round, request.reason, new.size)))
        return request
