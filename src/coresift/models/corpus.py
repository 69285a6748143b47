"""Tables of texts, read in order, in windows, or by row number."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from coresift.checks import InputError, refuse
from coresift.tables import Table, open_table
from coresift.tables.values import first_null, text_of
from coresift.types import Ints


class Corpus(Table):
    """A table of n rows with columns of texts.

    CSV cannot distinguish an empty text from a missing one, so a missing text in such a file is an empty one.

    >>> corpus = open_corpus(["to be", "or not"])
    >>> corpus.n, list(corpus.windows("text", 5))
    (2, [['to be', 'or not']])
    """

    def __init__(self, table: Table, id_column: str | None = None) -> None:
        super().__init__(table.parts, "The table", id_column)
        if self.n == 0:
            refuse("The table", "one of at least one row", "an empty one")
        self._blank = "" if table.parts[0].name.lower().endswith(".csv") else None

    def windows(self, column: str, size: int) -> Iterator[list[str]]:
        """Yield the texts of a column in order, `size` at a time; the last ones may be fewer."""
        held: list[str] = []
        start = 0
        for batch in self.batches([column]):
            held += self._texts(batch.column(0), column, start)
            start += batch.num_rows
            while len(held) >= size:
                yield held[:size]
                held = held[size:]
        if held:
            yield held

    def texts(self, column: str, ids: Ints) -> list[str]:
        """Return the texts of these rows, in this order."""
        return self._in_order(column, ids, lambda array: self._texts(array, column, None))

    def digest(self, column: str) -> str:
        """Return a fingerprint of all texts of a column."""
        state = hashlib.blake2b(digest_size=12)
        for texts in self.windows(column, 8192):
            for text in texts:
                coded = text.encode("utf-8", "surrogatepass")
                state.update(len(coded).to_bytes(8, "little") + coded)
        return state.hexdigest()

    def _texts(self, column: Any, name: str, start: int | None) -> list[str]:
        if self._blank is not None:
            column = column.fill_null(self._blank)
        place = first_null(column)
        if place < len(column):
            where = "one of the rows" if start is None else f"row {start + place}"
            raise InputError(f"The column {name} must have a text in every row; {where} has none.")
        texts: list[str] = text_of(column).to_pylist()
        return texts


def open_corpus(source: Any, *, id_column: str | None = None) -> Corpus:
    """Open a corpus: anything that `open_table` takes, or texts.

    A list, an array or a single column of texts is a table with the one column "text".
    """
    if isinstance(source, Corpus):
        return source
    if _is_column(source):
        source = {"text": _listed(source)}
    return Corpus(open_table(source, argument="The table", id_column=id_column), id_column)


def _is_column(source: Any) -> bool:
    """Return whether `source` is a list, an array, or one column of a frame, of an Arrow table or of a data set."""
    if isinstance(source, np.ndarray) or (isinstance(source, Sequence) and not isinstance(source, str)):
        return True
    single = not any(hasattr(source, name) for name in ("columns", "column_names"))
    return single and any(hasattr(source, name) for name in ("to_frame", "to_pylist"))


def _listed(column: Any) -> list[str]:
    """Return the texts of a column; refuse the first row without one."""
    items = column.to_pylist() if hasattr(column, "to_pylist") else list(column)
    for row, item in enumerate(items):
        if not isinstance(item, str):
            got = repr(item) if item is None or np.isscalar(item) else type(item).__name__
            raise InputError(f"The texts must have a text in every row; row {row} has {got}.")
    return [str(text) for text in items]
