"""Where losses come from: a callable, an array, or a file of answers; each opens into a function of row numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coresift.answers import AnswerFile
from coresift.checks import loss_vector, refuse
from coresift.types import Floats, Ints

Names: TypeAlias = Callable[[Ints], Sequence[Any] | None]
Reader: TypeAlias = Callable[[Ints], Any]

ALLOWED = "a callable of row numbers, an array of losses, or a .parquet, .csv or .jsonl file of losses"


class CallError(Exception):
    """The user's callable raised; the cause is what it raised."""


class Opening(Protocol):
    """What a source can do: check that it fits n rows, and return the function that answers.

    `batched`: it is dear, so it is asked for a few rows at a time and each reply is kept.
    """

    batched: ClassVar[bool]

    def reader(self, n: int, names: Names | None) -> Reader:
        """Return a function of row numbers that gives one loss each."""


def source_of(source: Any) -> Opening:
    """Return the source that this is, or say what would be one."""
    if callable(source):
        return Called(source)
    if isinstance(source, (str, Path)):
        return Filed(Path(source))
    try:
        array = np.asarray(source)
    except Exception:  # lists of unequal length, or an object that refuses to become an array
        refuse("losses", ALLOWED, type(source).__name__)
    if array.ndim != 1:
        refuse("losses", ALLOWED, f"{type(source).__name__} with shape {array.shape}" if array.ndim else repr(source))
    return Listed(array)


@dataclass(frozen=True)
class Called:
    """A callable of row numbers."""

    function: Callable[[Ints], Any]
    batched: ClassVar[bool] = True

    def reader(self, n: int, names: Names | None) -> Reader:
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

    def reader(self, n: int, names: Names | None) -> Reader:
        """Return a look-up in the array, once its length is right."""
        if self.array.size != n:
            refuse("losses", f"one number for each of {n} rows", f"{self.array.size} numbers")
        return self.array.take

    def __str__(self) -> str:
        return f"array of {self.array.size} losses"


@dataclass(frozen=True)
class Filed:
    """A Parquet, CSV or JSONL file with a loss for each of some rows."""

    path: Path
    batched: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.path.is_file():
            refuse("losses", ALLOWED, f"{str(self.path)!r}, which is not a file")
        AnswerFile(self.path).require("loss")

    def reader(self, n: int, names: Names | None) -> Reader:
        """Read the file, and return a look-up by row number or by the table's own ids."""
        answers = AnswerFile(self.path)
        look_up = answers.numbers("loss")

        def losses(rows: Ints) -> Floats:
            named = names(rows) if names and answers.key == "id" else None
            return loss_vector(look_up(rows, named), rows, source=f"losses in {self.path}", names=named)

        return losses

    def __str__(self) -> str:
        return f"file {str(self.path)!r}"
