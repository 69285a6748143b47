"""Asking an expensive source: in batches, several at a time, at a pace, within a price, and again if it fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import AnswerError
from coresift.oracle.journal import Journal
from coresift.oracle.questions import Question, told
from coresift.oracle.sources import CallError, Reader
from coresift.redaction import holds_secret
from coresift.types import Ints

Keep = Callable[[Ints, NDArray[Any]], None]
_TICK = 0.05


class MaxCostError(AnswerError):
    """The next row would cost more than `max_cost` allows.

    A job that can give a result so far catches it at its `yield` and returns that result.

    Attributes:
        ids: Those rows of the job's last request that have an answer.
        answers: Their answers.
    """

    ids: Ints = np.zeros(0, np.int64)
    answers: NDArray[Any] = np.zeros(0)


class _NoAnswerError(Exception):
    """A row that has no answer after the last try; its text is the first half of the sentence."""


class Meter:
    """What an oracle has spent: every row that is sent counts, since a bad reply or a late one is billed as well.

    Args:
        cost: The price per row, or None.
        max_cost: The most that may be spent, or None.

    Examples:
        >>> meter = Meter(0.1, 0.3)
        >>> meter.take(2, None), meter.take(2, None), round(meter.spent, 9)
        (2, 1, 0.3)
    """

    def __init__(self, cost: float | None, max_cost: float | None) -> None:
        self.cost, self.max_cost = cost, max_cost
        self.sent = 0  # by this process
        self._noted: dict[Path, int] = {}  # of those, by state file
        self._before: dict[Path, int] = {}  # by earlier processes, as each state file says
        self._lock = threading.Lock()
        # As decimal numbers, so that three rows of 0.1 cost no more than 0.3.
        allowed = None if not cost or max_cost is None else Fraction(repr(max_cost)) // Fraction(repr(cost))
        self._allowed: int | None = None if allowed is None else int(allowed)

    @property
    def spent(self) -> float:
        """The price of all rows that were sent, also in earlier runs of the same state files."""
        return float(Fraction(repr(self.cost or 0.0)) * self._total)

    def meet(self, journal: Journal) -> None:
        """Count what earlier processes have spent on a state file."""
        with self._lock:
            before = journal.sent - self._noted.get(journal.path, 0)
            self._before[journal.path] = max(before, self._before.get(journal.path, 0))

    def take(self, count: int, journal: Journal | None) -> int:
        """Return how many of so many rows may be sent, and count them as spent before they are."""
        with self._lock:
            if self._allowed is not None:
                count = min(count, self._allowed - self._total)
            if count <= 0:
                raise MaxCostError(
                    f"The next answer would cost more than max_cost={self.max_cost:g}; {self.spent:g} is spent. "
                    "The same call continues with a larger max_cost."
                )
            if self.cost and journal is not None:
                journal.send(count)
                self._noted[journal.path] = self._noted.get(journal.path, 0) + count
            self.sent += count
            return count

    @property
    def _total(self) -> int:
        return self.sent + sum(self._before.values())


class Pace:
    """At most so many calls per minute, evenly spread, so that a run that is begun again does not burst.

    Args:
        per_minute: How many, or None for any number.
    """

    def __init__(self, per_minute: float | None) -> None:
        self._gap = 0.0 if per_minute is None else 60.0 / per_minute
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self, stop: threading.Event) -> None:
        """Wait for the next turn, or until someone says stop."""
        if not self._gap:
            return
        with self._lock:
            turn = max(time.monotonic(), self._next)
            self._next = turn + self._gap
        stop.wait(max(turn - time.monotonic(), 0.0))


class Asker:
    """Asks one source for one run: `fetch` hands every good answer to `keep` as soon as it is there.

    Args:
        reader: The source.
        question: What is asked.
        batch: How many rows a call is for.
        retries: How often what failed is tried again.
        pause: How many seconds to wait before that.
        timeout: How many seconds a call may take, or None.
        concurrency: How many calls may be under way.
        meter: Counts what is spent.
        pace: Spreads the calls.
        journal: Where spending is noted, if there is a state file.
        count_call: Called before each call.
        safe: Says what is safe, for sentences.
    """

    def __init__(
        self,
        reader: Reader,
        question: Question,
        *,
        batch: int,
        retries: int,
        pause: float,
        timeout: float | None,
        concurrency: int,
        meter: Meter,
        pace: Pace,
        journal: Journal | None,
        count_call: Callable[[], None],
        safe: Callable[[], str],
    ) -> None:
        self._reader, self._question = reader, question
        self._batch, self._tries, self._pause, self._timeout = batch, 1 + retries, pause, timeout
        self._concurrency, self._meter, self._pace, self._journal = concurrency, meter, pace, journal
        self._count_call, self._safe = count_call, safe

    def fetch(self, ids: Ints, keep: Keep) -> None:
        """Ask for these rows, in batches of their order; a failure comes after what is under way was kept."""
        batches = [ids[start : start + self._batch] for start in range(0, ids.size, self._batch)]
        stop = threading.Event()
        try:
            if min(self._concurrency, len(batches)) > 1:
                self._together(batches, keep, stop)
                return
            for batch in batches:
                self._ask(batch, keep, stop)
        except _NoAnswerError as failure:
            error = AnswerError(f"{failure} {self._safe()}")  # only now, when everything that came is kept
            cause = failure.__cause__
        else:
            return
        raise error from cause

    def _together(self, batches: list[Ints], keep: Keep, stop: threading.Event) -> None:
        """Let several threads take one batch after the other."""
        turns, turn = iter(enumerate(batches)), threading.Lock()
        failures: dict[int, BaseException] = {}

        def work() -> None:
            while not stop.is_set():
                with turn:
                    place, batch = next(turns, (-1, None))
                if batch is None:
                    return
                try:
                    self._ask(batch, keep, stop)
                except BaseException as error:
                    failures[place] = error
                    stop.set()

        threads = [threading.Thread(target=work, daemon=True) for _ in range(min(self._concurrency, len(batches)))]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():  # in ticks, so that an interrupt gets through
                    thread.join(_TICK)
        finally:
            stop.set()
        if failures:
            raise failures[min(failures)]

    def _ask(self, batch: Ints, keep: Keep, stop: threading.Event) -> None:
        """Ask for a batch, and again for those of its rows that got no answer."""
        left, failures = batch, 0
        while left.size:
            if failures:
                stop.wait(self._pause)
            self._pace.wait(stop)
            if stop.is_set():  # another batch has failed and raises its error
                return
            sending = left[: self._meter.take(left.size, self._journal)]
            self._count_call()
            bad, failure = self._try(sending, keep)
            left = np.concatenate([bad, left[sending.size :]])
            failures += failure is not None
            if failure is not None and failures == self._tries:
                raise failure

    def _try(self, sending: Ints, keep: Keep) -> tuple[Ints, _NoAnswerError | None]:
        """Call the source once; return the rows that got no answer, and the sentence on them."""
        try:
            values = self._reader(sending, self._timeout)
        except CallError as call:
            return sending, self._raised(sending, call.__cause__)
        answers, good = self._question.read(values, sending)
        if good.any():
            keep(sending[good], answers[good])
        if good.all():
            return sending[:0], None
        bad = np.flatnonzero(~good)
        again = "" if self._tries == 1 else f", also when asked {_times(self._tries)}"
        answer = self._question.shown(answers[bad[0]])
        refusal = self._question.refusal(None, sending[bad[0]], answer)
        count = f"({bad.size} of {sending.size} rows are like that{again})"
        return sending[bad], _NoAnswerError(f"{refusal} {count}.")

    def _raised(self, sending: Ints, cause: BaseException | None) -> _NoAnswerError:
        tries = _times(self._tries)
        error = _NoAnswerError(
            f"The callable for {self._question.plural} failed {tries} on {_rows(sending)}: {told(cause)}."
        )
        error.__cause__ = None if holds_secret(cause) else cause  # a traceback would show it
        return error


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _rows(batch: Ints) -> str:
    return f"row {batch[0]}" if batch.size == 1 else f"{batch.size} rows, the first of them row {batch[0]}"
