"""Where the answers of one run are stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from coresift.checks import InputError, refuse
from coresift.oracle import Oracle
from coresift.oracle.journal import Journal
from coresift.oracle.questions import Question
from coresift.oracle.store import Answers


class Book:
    """The answers of a run, in a state file, an oracle's journal or memory; opened once the fingerprint is known."""

    def __init__(
        self,
        n: int,
        question: Question,
        fingerprint: Mapping[str, str] | Callable[[], Mapping[str, str]] | None,
        oracle: Oracle | None,
        state: str | Path | None,
        name: str | None,
        arguments: Mapping[str, Any] | None,
    ) -> None:
        if state is not None and not isinstance(state, (str, Path)):
            refuse("state", "the path of a file", repr(state))
        if state is not None and oracle is not None and oracle.journal is not None:
            raise InputError("state and the oracle's journal are two files for the same answers; give one of them.")
        self._n, self._question, self._oracle, self._arguments = n, question, oracle, arguments
        self._state = None if state is None else Path(state)
        self._name = name or (question.column if oracle is None else oracle.name)
        self._fingerprint = fingerprint
        self.fingerprint: dict[str, str] = {}
        self._answers: Answers | None = None
        self._released = False
        self._stack = ExitStack()
        if not callable(fingerprint):
            self.open()

    @property
    def count(self) -> int:
        """The number of answers."""
        return 0 if self._answers is None else len(self._answers.values)

    def read(self) -> Answers:
        """Return the answers to read them; a file that was released stays released."""
        return self.open() if self._answers is None else self._answers

    def open(self) -> Answers:
        """Open the answers, unless they are open, and return them to add to them."""
        if self._answers is None or self._released:
            self.fingerprint = dict((self._fingerprint() if callable(self._fingerprint) else self._fingerprint) or {})
            self._answers, self._released = self._open_answers(), False
        return self._answers

    def release(self) -> None:
        """Let other runs use the state file; the answers so far can still be read."""
        if self._answers is not None and self._answers.journal is not None:
            self._released = True
            self._stack.close()

    def close(self) -> None:
        """Close the state file."""
        self._answers, self._released = None, False
        self._stack.close()

    def _open_answers(self) -> Answers:
        if self._state is None:
            if self._oracle is None:
                return Answers(self._question)
            return self._stack.enter_context(self._oracle.answers(self._n, self.fingerprint, self._question))
        journal = Journal(
            self._state, self._name, self.fingerprint, self._n, question=self._question, arguments=self._arguments
        )
        self._stack.callback(journal.close)
        if self._oracle is not None:
            self._oracle.meet(journal)
        return Answers(self._question, journal)
