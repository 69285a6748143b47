"""What a job asks: rows, why, and in which round; and the count of it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from coresift.types import Ints, Ledger

R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Request:
    """Rows whose answers a job needs before it goes on.

    Attributes:
        ids: Row numbers; a row may come more than once, and also if an earlier request had it.
        reason: Why, in a word or two, for the ledger.
        round: The number of the round, from 1.

    Example:
        >>> Request([3, 7], "pilot").ids
        array([3, 7])
    """

    ids: Ints
    reason: str
    round: int = 1

    def __post_init__(self) -> None:
        ids = np.array(self.ids, np.int64)
        ids.setflags(write=False)
        object.__setattr__(self, "ids", ids)


# A job yields requests, gets the answers in the order of their ids, and returns its result. It depends on its
# arguments, its seed and the answers alone, so that it can be run again up to where it stopped.
Job: TypeAlias = Generator[Request, Any, R]


class Tally:
    """Counts the distinct rows that a job asks, by round and reason.

    A job that puts a ledger into its result writes `answers = yield tally.note(Request(…))`.

    Attributes:
        ledger: The count.
        last: The last request, or None.

    Example:
        >>> tally = Tally()
        >>> _ = tally.note(Request([3, 7, 3], "pilot")), tally.note(Request([7, 9], "check", 2))
        >>> tally.ledger
        Ledger(entries=((1, 'pilot', 2), (2, 'check', 1)))
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.last: Request | None = None
        self._asked: dict[int, None] = {}

    @property
    def rows(self) -> Ints:
        """The rows that were asked, in the order in which they first were."""
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
