"""Where losses come from: a callable, an array, or a file of answers; each opens into a function of row numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coresift.answers import AnswerFile
from coresift.checks import loss_vector, refuse, unusable
from coresift.types import Floats, Ints

Names: TypeAlias = Callable[[Ints], Sequence[Any] | None]
Reader: TypeAlias = Callable[[Ints], Any]


@dataclass(frozen=True)
class Question:
    """What is asked about a row: the argument and the name that sentences use, its column in files, its sign."""

    argument: str
    plural: str
    column: str
    signed: bool

    @property
    def allowed(self) -> str:
        """What can answer it."""
        return (
            f"a callable of row numbers, an array of {self.plural}, or a .parquet, .csv or .jsonl file of {self.plural}"
        )


LOSS = Question(argument="losses", plural="losses", column="loss", signed=False)
LABEL = Question(argument="b", plural="labels", column="label", signed=True)


class CallError(Exception):
    """The user's callable raised; the cause is what it raised."""


class Opening(Protocol):
    """What a source can do: check that it fits n rows, and return the function that answers.

    `batched`: it is dear, so it is asked for a few rows at a time and each reply is kept.
    """

    batched: ClassVar[bool]

    def check(self, question: Question) -> None:
        """Refuse a question that it cannot answer, as far as that can be told at once."""

    def reader(self, n: int, names: Names | None, question: Question) -> Reader:
        """Return a function of row numbers that gives one answer each."""


def source_of(source: Any, question: Question = LOSS) -> Opening:
    """Return the source that this is, or say what would be one."""
    if callable(source):
        return Called(source)
    if isinstance(source, (str, Path)):
        if not Path(source).is_file():
            refuse(question.argument, question.allowed, f"{str(source)!r}, which is not a file")
        return Filed(Path(source))
    if unusable(source):
        refuse(question.argument, question.allowed, unusable(source))
    try:
        array = np.asarray(source)
    except Exception:  # lists of unequal length, or an object that refuses to become an array
        refuse(question.argument, question.allowed, type(source).__name__)
    if array.ndim != 1:
        came = f"{type(source).__name__} with shape {array.shape}" if array.ndim else repr(source)
        refuse(question.argument, question.allowed, came)
    return Listed(array)


@dataclass(frozen=True)
class Called:
    """A callable of row numbers."""

    function: Callable[[Ints], Any]
    batched: ClassVar[bool] = True

    def check(self, question: Question) -> None:
        """Wait and see."""

    def reader(self, n: int, names: Names | None, question: Question) -> Reader:
        """Return the callable, with what it raises marked as its own."""

        def call(ids: Ints) -> Any:
            try:
                return self.function(ids.copy())  # its own copy: a callable may sort or change what it is given
            except Exception as error:
                raise CallError from error

        return call

    def __str__(self) -> str:
        return f"callable {getattr(self.function, '__name__', type(self.function).__name__)}"


@dataclass(frozen=True, eq=False)
class Listed:
    """An array with an entry for every row."""

    array: NDArray[Any]
    batched: ClassVar[bool] = False

    def check(self, question: Question) -> None:
        """Wait for the number of rows."""

    def reader(self, n: int, names: Names | None, question: Question) -> Reader:
        """Return a look-up in the array, once its length is right."""
        if self.array.size != n:
            refuse(question.argument, f"one number for each of {n} rows", f"{self.array.size} numbers")
        return self.array.take

    def __str__(self) -> str:
        return f"array of {self.array.size} numbers"


@dataclass(frozen=True)
class Filed:
    """A Parquet, CSV or JSONL file with an answer for each of some rows."""

    path: Path
    batched: ClassVar[bool] = False

    def __post_init__(self) -> None:
        AnswerFile(self.path)

    def check(self, question: Question) -> None:
        """Refuse a file without the column that is asked."""
        AnswerFile(self.path).require(question.column)

    def reader(self, n: int, names: Names | None, question: Question) -> Reader:
        """Read the file, and return a look-up by row number or by the table's own ids."""
        answers = AnswerFile(self.path)
        look_up = answers.numbers(question.column)
        source = f"{question.plural} in {self.path}"

        def look(rows: Ints) -> Floats:
            named = names(rows) if names and answers.key == "id" else None
            return loss_vector(look_up(rows, named), rows, source=source, names=named, signed=question.signed)

        return look

    def __str__(self) -> str:
        return f"file {str(self.path)!r}"
