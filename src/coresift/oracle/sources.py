"""Where losses come from: a callable, an array, or a file of answers; each opens into a function of row numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coresift.checks import InputError, loss_vector, refuse
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
        if not self.path.is_file() or self.path.suffix.lower() not in _TABLES:
            why = "is no file of these kinds" if self.path.is_file() else "is not a file"
            refuse("losses", ALLOWED, f"{str(self.path)!r}, which {why}")

    def reader(self, n: int, names: Names | None) -> Reader:
        """Read the file, and return a look-up by row number or by the table's own ids."""
        import pyarrow as pa

        try:
            key, ids, losses = _read(self.path)
        except InputError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(f"The file of losses {self.path} cannot be read: {_first_line(error)}.") from error
        own = names if key == "id" else None

        def look_up(rows: Ints) -> Floats:
            named = None if own is None else own(rows)
            return _join(rows if named is None else named, rows, ids, losses, f"losses in {self.path}")

        return look_up

    def __str__(self) -> str:
        return f"file {str(self.path)!r}"


def _read(path: Path) -> tuple[str, Any, Floats]:
    """Return which column has the ids, the distinct ids as text, and the loss of each."""
    import pyarrow as pa
    import pyarrow.compute as pc

    key, table = _TABLES[path.suffix.lower()](path)
    table = table.filter(pc.is_valid(table[key]))
    losses: Floats = table["loss"].cast(pa.float64()).to_numpy()
    ids = _as_text(table[key].combine_chunks()).dictionary_encode()
    codes = ids.indices.to_numpy(zero_copy_only=False)
    _, first = np.unique(codes, return_index=True)
    kept = losses[first]
    again = np.flatnonzero((losses != kept[codes]) & ~(np.isnan(losses) & np.isnan(kept[codes])))
    if again.size:
        code, other = codes[again[0]], losses[again[0]]
        raise InputError(
            f"The file of losses {path} must have one loss for each {key}; "
            f"{key} {ids.dictionary[code]} has {kept[code]} and {other}."
        )
    return key, ids.dictionary, kept


def _join(asked: Any, rows: Ints, ids: Any, losses: Floats, source: str) -> Floats:
    import pyarrow as pa
    import pyarrow.compute as pc

    places = pc.index_in(_as_text(pa.array(asked)), value_set=ids, skip_nulls=True)
    missing = np.flatnonzero(places.is_null().to_numpy(zero_copy_only=False))
    if missing.size:
        example = f"its ids are such as {ids[0]}" if len(ids) else "it has no ids at all"
        raise InputError(
            f"{source} must have every row that is asked; {missing.size} of {rows.size} are missing, "
            f"the first of them {asked[missing[0]]} ({example})."
        )
    return loss_vector(losses[places.to_numpy()], rows, source=source, names=asked)


def _as_text(values: Any) -> Any:
    """Return ids as text: the number 7, the float 7.0 of a column that had gaps, and the text "7" are one id."""
    import pyarrow as pa

    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_floating(values.type):
        with suppress(pa.ArrowInvalid):  # fractions stay what they are
            values = values.cast(pa.int64())
    return values.cast(pa.large_string())


def _from_parquet(path: Path) -> tuple[str, Any]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        key = _key_column(path, file.schema_arrow.names)
        return key, file.read(columns=[key, "loss"])


def _from_csv(path: Path) -> tuple[str, Any]:
    import pyarrow as pa
    from pyarrow import csv

    with csv.open_csv(path) as file:
        key = _key_column(path, file.schema.names)
    # Ids are read as text: a guess would turn the id 007 into the number 7.
    types = {key: pa.string(), "loss": pa.float64()}
    return key, csv.read_csv(path, convert_options=csv.ConvertOptions(include_columns=list(types), column_types=types))


def _from_jsonl(path: Path) -> tuple[str, Any]:
    import json as plain_json

    import pyarrow as pa
    from pyarrow import json

    with path.open("rb") as file:
        first = plain_json.loads(next((line for line in file if line.strip()), b"{}"))
    if not isinstance(first, dict):
        raise InputError(
            f"The file of losses {path} must have one JSON object a line; its first line is something else."
        )
    key = _key_column(path, list(first))
    types = {key: pa.array([first[key]]).type, "loss": pa.float64()}
    options = json.ParseOptions(explicit_schema=pa.schema(types), unexpected_field_behavior="ignore")
    return key, json.read_json(path, parse_options=options)


def _key_column(path: Path, columns: list[str]) -> str:
    key = "row" if "row" in columns else "id"
    if key not in columns or "loss" not in columns:
        there = ", ".join(columns) or "none"
        raise InputError(f"The file of losses {path} must have the columns id (or row) and loss; it has {there}.")
    return key


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


_TABLES: dict[str, Callable[[Path], tuple[str, Any]]] = {
    ".parquet": _from_parquet,
    ".csv": _from_csv,
    ".jsonl": _from_jsonl,
}
