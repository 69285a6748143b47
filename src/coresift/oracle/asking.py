"""Ask an expensive source: in batches, concurrently, rate-limited, within a maximum cost, and with retries."""

from __future__ import annotations

import logging
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
from coresift.oracle.questions import Question, describe_error
from coresift.oracle.sources import CallError, Reader
from coresift.redaction import holds_secret
from coresift.types import Ints

LOGGER = logging.getLogger(__name__)
Keep = Callable[[Ints, NDArray[Any]], None]
_TICK = 0.05


class MaxCostError(AnswerError):
    """The next row would cost more than `max_cost` allows.

    A job that has a partial result catches the error at its `yield` and returns that result.

    Attributes:
        ids: The rows of the job's last request that have an answer.
        answers: Their answers.
    """

    ids: Ints = np.zeros(0, np.int64)
    answers: NDArray[Any] = np.zeros(0)


class _NoAnswerError(Exception):
    """A row has no answer after the last retry; the text is the first half of the error message."""

    final = False  # whether asking again would not help


class Meter:
    """Counts what an oracle has spent. Every row that is sent counts, because bad and late replies are billed too.

    Args:
        cost: The price per row, or None.
        max_cost: The most to spend, or None.

    Examples:
        >>> meter = Meter(0.1, 0.3)
        >>> meter.take(2, None), meter.take(2, None), round(meter.spent, 9)
        (2, 1, 0.3)
    """

    def __init__(self, cost: float | None, max_cost: float | None) -> None:
        self.cost, self.max_cost = cost, max_cost
        self.sent = 0  # rows sent by this process
        self._noted: dict[Path, int] = {}  # how many of them each state file has recorded
        self._before: dict[Path, int] = {}  # rows sent by earlier processes, from each state file
        self._lock = threading.Lock()
        # In binary floating point, three rows of 0.1 would cost more than 0.3.
        allowed = None if not cost or max_cost is None else Fraction(repr(max_cost)) // Fraction(repr(cost))
        self._allowed: int | None = None if allowed is None else int(allowed)

    @property
    def spent(self) -> float:
        """The cost of all rows that were sent, including those of earlier runs with the same state files."""
        return float(Fraction(repr(self.cost or 0.0)) * self._total)

    def meet(self, journal: Journal) -> None:
        """Count what earlier processes spent, according to a state file."""
        with self._lock:
            before = journal.sent - self._noted.get(journal.path, 0)
            self._before[journal.path] = max(before, self._before.get(journal.path, 0))

    def take(self, count: int, journal: Journal | None) -> int:
        """Return how many of `count` rows may be sent, and count them as spent."""
        with self._lock:
            if self._allowed is not None:
                count = min(count, self._allowed - self._total)
            if count <= 0:
                raise MaxCostError(
                    f"The next answer would cost more than max_cost={self.max_cost:g}; {self.spent:g} is spent. "
                    "To continue, repeat the call with a larger max_cost."
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
    """Limits the number of calls per minute. Calls are evenly spread, so there is no burst after a restart.

    Args:
        per_minute: The most calls per minute, or None for no limit.
    """

    def __init__(self, per_minute: float | None) -> None:
        self._gap = 0.0 if per_minute is None else 60.0 / per_minute
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self, stop: threading.Event) -> None:
        """Wait for the next turn, or until `stop` is set."""
        if not self._gap:
            return
        with self._lock:
            turn = max(time.monotonic(), self._next)
            self._next = turn + self._gap
        stop.wait(max(turn - time.monotonic(), 0.0))


class Asker:
    """Asks one source for one run: `fetch` passes every usable answer to `keep` as soon as it arrives.

    Args:
        reader: The source.
        question: What is asked.
        batch: The number of rows per call.
        retries: How often to retry a failed call.
        pause: The number of seconds to wait before each retry.
        timeout: The number of seconds that a call may take, or None.
        concurrency: The number of calls at a time.
        meter: Counts what is spent.
        pace: Limits the rate of calls.
        journal: The state file that records spending, or None.
        count_call: Called before each call.
        safe: Returns the sentence of an error message that says which answers are stored.
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
        """Ask for these rows, in batches, in their order; raise a failure only after all replies under way are kept."""
        batches = [ids[start : start + self._batch] for start in range(0, ids.size, self._batch)]
        stop = threading.Event()
        try:
            if min(self._concurrency, len(batches)) > 1:
                self._ask_in_threads(batches, keep, stop)
                return
            for batch in batches:
                self._ask(batch, keep, stop)
        except _NoAnswerError as failure:
            error = AnswerError(f"{failure} {self._safe()}")  # the count of stored answers is final only now
            cause = failure.__cause__
        else:
            return
        raise error from cause

    def _ask_in_threads(self, batches: list[Ints], keep: Keep, stop: threading.Event) -> None:
        """Let several threads work through the batches."""
        queue, queue_lock = iter(enumerate(batches)), threading.Lock()
        failures: dict[int, BaseException] = {}

        def work() -> None:
            while not stop.is_set():
                with queue_lock:
                    index, batch = next(queue, (-1, None))
                if batch is None:
                    return
                try:
                    self._ask(batch, keep, stop)
                except BaseException as error:
                    failures[index] = error
                    stop.set()

        threads = [threading.Thread(target=work, daemon=True) for _ in range(min(self._concurrency, len(batches)))]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():  # a join without a timeout can hold back an interrupt
                    thread.join(_TICK)
        finally:
            stop.set()
        if failures:
            raise failures[min(failures)]

    def _ask(self, batch: Ints, keep: Keep, stop: threading.Event) -> None:
        """Ask for a batch, and retry the rows that got no usable answer."""
        remaining, failures = batch, 0
        while remaining.size:
            if failures:
                stop.wait(self._pause)
            self._pace.wait(stop)
            if stop.is_set():  # another batch has failed and raises its error
                return
            sending = remaining[: self._meter.take(remaining.size, self._journal)]
            self._count_call()
            bad, failure = self._try(sending, keep)
            remaining = np.concatenate([bad, remaining[sending.size :]])
            failures += failure is not None
            if failure is not None and (failure.final or failures == self._tries):
                raise failure
            if failure is not None:
                LOGGER.warning("%s It is asked again (%d of %d).", failure, failures + 1, self._tries)

    def _try(self, sending: Ints, keep: Keep) -> tuple[Ints, _NoAnswerError | None]:
        """Call the source once; return the rows that got no usable answer, and the error about them."""
        try:
            values = self._reader(sending, self._timeout)
        except CallError as call:
            return sending, self._call_error(sending, call.__cause__)
        answers, good = self._question.read(values, sending)
        if good.any():
            keep(sending[good], answers[good])
        if good.all():
            return sending[:0], None
        bad = np.flatnonzero(~good)
        gaps = [place for place in bad if self._question.is_gap(answers[place])]
        first = (gaps or bad)[0]
        again = "" if self._tries == 1 or gaps else f", even when asked {_times(self._tries)}"
        refusal = self._question.refusal(None, sending[first], self._question.shown(answers[first]))
        error = _NoAnswerError(f"{refusal} (unusable in {bad.size} of {sending.size} rows{again}).")
        error.final = bool(gaps)
        return sending[bad], error

    def _call_error(self, sending: Ints, cause: BaseException | None) -> _NoAnswerError:
        times = _times(self._tries)
        error = _NoAnswerError(
            f"The callable for {self._question.plural} failed {times} on {_rows(sending)}: {describe_error(cause)}."
        )
        error.__cause__ = None if holds_secret(cause) else cause  # a traceback would show the secret
        return error


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _rows(batch: Ints) -> str:
    return f"row {batch[0]}" if batch.size == 1 else f"{batch.size} rows, the first of them row {batch[0]}"
