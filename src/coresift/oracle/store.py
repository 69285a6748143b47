"""Answers in memory: those of one run, and those that an oracle shares among its runs and threads."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.oracle.journal import Journal
from coresift.oracle.questions import Question
from coresift.types import Ints


class Answers:
    """The answers of one run; if the run has a state file, an answer is stored there before it counts.

    Args:
        question: What was asked.
        journal: The state file.

    Attributes:
        values: The answers by row.
        corrections: The replaced answers, in order: how many rows had an answer then, the row, and its old answer.

    Examples:
        >>> from coresift.oracle.questions import LOSS
        >>> answers = Answers(LOSS)
        >>> answers.keep([7, 3], [0.5, 2.0])
        >>> answers.missing(np.array([3, 4])), answers.get(np.array([3, 7]))
        (array([4]), array([2. , 0.5]))
    """

    def __init__(self, question: Question, journal: Journal | None = None) -> None:
        self.question, self.journal = question, journal
        self.values: dict[int, Any] = {} if journal is None else journal.values
        self.corrections: list[tuple[int, int, Any]] = [] if journal is None else journal.corrections
        self._lock = threading.RLock()

    def keep(self, ids: Sequence[int] | Ints, answers: Sequence[Any] | NDArray[Any], *, correct: bool = False) -> None:
        """Store answers; rows that have one keep it, unless `correct` is set."""
        with self._lock:
            pairs = zip(_list(ids), _list(answers), strict=True)
            new = {row: answer for row, answer in pairs if correct or row not in self.values}
            if new and self.journal is not None:
                self.journal.append(list(new), list(new.values()), correct=correct)
            elif new:
                count = len(self.values)
                self.corrections += [(count, row, self.values[row]) for row in new if row in self.values]
                self.values.update(new)

    def missing(self, ids: Ints) -> Ints:
        """Return the distinct rows that have no answer, in the order of `ids`."""
        return np.array([row for row in dict.fromkeys(ids.tolist()) if row not in self.values], np.int64)

    def get(self, ids: Ints) -> NDArray[Any]:
        """Return the answers of rows that all have one."""
        return self.question.array([self.values[row] for row in ids.tolist()])


class Cache:
    """The answers that an oracle has for one table, and the rows that are being asked.

    A thread claims rows before it asks for them; a thread that needs a row that another has claimed waits for it.

    Examples:
        >>> cache = Cache()
        >>> cache.claim([7, 3, 7])
        [7, 3]
        >>> cache.claim([3, 4])
        [4]
        >>> cache.put([7, 3], [0.5, 2.0])
        >>> cache.known([4, 3])
        {3: 2.0}
    """

    def __init__(self) -> None:
        self.users = 0
        self._values: dict[int, Any] = {}
        self._claimed: set[int] = set()
        self._changed = threading.Condition()

    def known(self, rows: Iterable[int] | None = None) -> dict[int, Any]:
        """Return the answers so far, for these rows or for all."""
        with self._changed:
            if rows is None:
                return dict(self._values)
            return {row: self._values[row] for row in rows if row in self._values}

    def claim(self, rows: Iterable[int]) -> list[int]:
        """Claim the rows that have no answer and that no other thread has claimed, and return them."""
        with self._changed:
            free = [row for row in dict.fromkeys(rows) if row not in self._values and row not in self._claimed]
            self._claimed.update(free)
            return free

    def put(self, rows: Sequence[int] | Ints, answers: Sequence[Any] | NDArray[Any]) -> None:
        """Add answers; a row that has an answer keeps it."""
        with self._changed:
            for row, answer in zip(_list(rows), _list(answers), strict=True):
                self._values.setdefault(row, answer)
                self._claimed.discard(row)
            self._changed.notify_all()

    def release(self, rows: Iterable[int]) -> None:
        """Release claimed rows, whether or not they have an answer."""
        with self._changed:
            self._claimed.difference_update(rows)
            self._changed.notify_all()

    def wait(self, rows: Sequence[int]) -> None:
        """Wait until one of these rows, which other threads have claimed, is answered or released."""
        with self._changed:
            self._changed.wait_for(lambda: any(row not in self._claimed for row in rows))


def _list(values: Sequence[Any] | NDArray[Any]) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)
