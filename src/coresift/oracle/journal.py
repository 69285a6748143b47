"""The state file of a run: its answers and the number of rows sent, in checksummed lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import AnswerError, CoresiftError, row_numbers, whole
from coresift.oracle.lines import Lines, read_header, show
from coresift.oracle.questions import LOSS, Question
from coresift.types import Ints

__all__ = ["Journal", "Lines", "read_header"]


class Journal(Lines):
    """The answers of a run, one line per reply, and how many rows were sent to a source that has a price.

    Args:
        path: The file.
        name: A name for the answers, such as the model that gives them.
        fingerprint: What the run depends on, by part.
        n: The number of rows.
        question: What is asked.
        arguments: The arguments with which the run can be started again.

    Attributes:
        values: The answers by row.
        sent: How many rows were sent to a source that has a price, whether or not an answer came back.
        corrections: The replaced answers, in order: how many rows had an answer then, the row, and its old answer.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "state.jsonl"
        >>> journal = Journal(path, "loss", {"rows": "a1"}, n=10)
        >>> journal.append([7, 3], [0.5, 2.0])
        >>> journal.close()
        >>> print(path.read_text(), end="")
        {"format": 2, "name": "loss", "fingerprint": {"rows": "a1"}, "sum": "22d60ec75fda1287"}
        {"ids": [7, 3], "answers": [0.5, 2.0], "sum": "0cb6175eef5ba061"}
        >>> journal = Journal(path, "loss", {"rows": "a1"}, n=10)
        >>> journal.values
        {7: 0.5, 3: 2.0}
        >>> journal.close()
    """

    def __init__(
        self,
        path: Path,
        name: str,
        fingerprint: Mapping[str, str],
        n: int,
        *,
        question: Question = LOSS,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self._n, self._question = n, question
        self.values: dict[int, Any] = {}
        self.corrections: list[tuple[int, int, Any]] = []
        self.sent = 0
        super().__init__(path, name, fingerprint, arguments=arguments)
        self.entries.clear()  # everything is in `values` and `sent`

    def append(
        self, ids: Sequence[int] | Ints, answers: Sequence[Any] | NDArray[Any], *, correct: bool = False
    ) -> None:
        """Store answers durably: all of them are on disk when this returns, and none of them if it fails.

        Args:
            ids: The rows.
            answers: One answer per row.
            correct: Whether they replace earlier answers.
        """
        with self._writing:
            self._append([int(row) for row in ids], _plain(answers), correct)

    def _append(self, rows: list[int], answers: list[Any], correct: bool) -> None:
        entry: dict[str, Any] = {"ids": rows, "answers": answers}
        before = {row: self.values[row] for row in rows if row in self.values}
        end, count, corrected = self._end, self.count, len(self.corrections)
        try:
            self._write({**entry, "correct": True} if correct else entry)
            self.values.update(zip(rows, answers, strict=True))
            self.count = len(self.values)
            self.corrections += [(count, row, answer) for row, answer in before.items()]
        except BaseException:  # also an interrupt after the file was written and before memory was updated
            if self._end != end:
                self._restore(end)
            for row in rows:
                self.values.pop(row, None)
            self.values.update(before)
            del self.corrections[corrected:]
            self.count = count
            raise

    def send(self, count: int) -> None:
        """Record that `count` rows are about to be sent to a source that has a price."""
        with self._writing:
            self._write({"sent": count})
            self.sent += count

    def _entry(self, entry: dict[str, Any], number: int) -> Any:
        try:
            if "sent" in entry:
                self.sent += whole("sent", entry["sent"], least=0)
                return None
            row_numbers("ids", entry["ids"], self._n)
            ids = np.array(entry["ids"], np.int64)
            answers = self._question.check(entry["answers"], ids).tolist()
            correct, count = entry.get("correct") is True, len(self.values)
        except (ValueError, TypeError, KeyError, OverflowError, AnswerError) as error:
            why = str(error) if isinstance(error, CoresiftError) else "it is not a batch of answers."
            self._refuse_line(number, why)
        for row, answer in zip(ids.tolist(), answers, strict=True):
            earlier = self.values.setdefault(row, answer)
            if not correct and not self._question.same(earlier, answer):
                self._refuse_line(number, f"row {row} has {show(answer)}, and an earlier line has {show(earlier)}.")
            if not self._question.same(earlier, answer):
                self.corrections.append((count, row, earlier))
            self.values[row] = answer
        self.count = len(self.values)
        return None


def _plain(answers: Sequence[Any] | NDArray[Any]) -> list[Any]:
    return answers.tolist() if isinstance(answers, np.ndarray) else list(answers)
