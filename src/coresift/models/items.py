"""The items to embed: texts of a table's column, or inputs of a torch module, in windows of many items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from coresift.checks import refuse
from coresift.models.corpus import Corpus
from coresift.types import Ints, digest


class Window(Protocol):
    """Consecutive items: the length of each, and a way to pick some of them."""

    sizes: Ints

    def pick(self, places: Ints) -> Sequence[Any]:
        """Return the items at these places of the window."""


class Source(Protocol):
    """Items to encode, window by window; `facts` identify them."""

    n: int
    what: str

    def facts(self) -> Mapping[str, str]:
        """Return facts that identify these items."""

    def windows(self, size: int) -> Iterator[Window]:
        """Yield all items in order, `size` at a time."""

    def names(self, ids: Ints) -> list[Any] | None:
        """Return the ids of these rows; None if there are none."""

    @property
    def id_name(self) -> str | None:
        """The name of the column of ids, if there is one."""


class Texts:
    """The texts of a column of a table."""

    what = "embedding texts"

    def __init__(self, corpus: Corpus, column: str) -> None:
        corpus.require_texts("text", column)
        self.n, self._corpus, self._column = corpus.n, corpus, column
        self._facts: dict[str, str] = {}

    def facts(self) -> Mapping[str, str]:
        """Return facts that identify these items."""
        if not self._facts:
            names = self._corpus.names(np.arange(self.n))
            ids = "row numbers" if names is None else digest(np.frombuffer(repr(names).encode(), np.uint8))
            self._facts = {"texts": self._corpus.digest(self._column), "ids": ids}
        return self._facts

    def windows(self, size: int) -> Iterator[Window]:
        """Yield all items in order, `size` at a time."""
        return map(_TextWindow, self._corpus.windows(self._column, size))

    def names(self, ids: Ints) -> list[Any] | None:
        """Return the ids of these rows; None if there are none."""
        return self._corpus.names(ids)

    @property
    def id_name(self) -> str | None:
        """The name of the column of ids, if there is one."""
        return self._corpus.id_name


class _TextWindow:
    def __init__(self, texts: list[str]) -> None:
        self._texts, self.sizes = texts, np.fromiter(map(len, texts), np.int64, len(texts))

    def pick(self, places: Ints) -> Sequence[str]:
        return [self._texts[place] for place in places]


class Items:
    """The inputs of a torch module: a tensor, an array, or a data set."""

    what = "embedding rows"
    id_name = None

    def __init__(self, dataset: Any) -> None:
        if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")) or isinstance(dataset, str | Path):
            refuse("dataset", "a tensor, an array or a data set with a length", type(dataset).__name__)
        self._dataset = torch.as_tensor(dataset) if isinstance(dataset, np.ndarray) else dataset
        self.n = len(dataset)
        if self.n == 0:
            refuse("dataset", "a data set with at least one item", "an empty one")

    def facts(self) -> Mapping[str, str]:
        """Return facts that identify these items."""
        sample = np.unique(np.linspace(0, self.n - 1, min(self.n, 64)).astype(np.int64))
        leaves = [leaf for place in sample for leaf in _leaves(self._dataset[int(place)])]
        return {"items": f"{self.n} {digest(*leaves)}"}

    def windows(self, size: int) -> Iterator[Window]:
        """Yield all items in order, `size` at a time."""
        for start in range(0, self.n, size):
            yield _ItemWindow(self._dataset, start, min(size, self.n - start))

    def names(self, ids: Ints) -> list[Any] | None:
        """Return the ids of these rows; None if there are none."""
        return None


class _ItemWindow:
    def __init__(self, dataset: Any, start: int, count: int) -> None:
        self._dataset, self._start, self.sizes = dataset, start, np.zeros(count, np.int64)

    def pick(self, places: Ints) -> Sequence[Any]:
        return [self._dataset[self._start + int(place)] for place in places]


def _leaves(item: Any) -> Iterator[NDArray[Any]]:
    if isinstance(item, Mapping):
        item = list(item.values())
    if isinstance(item, list | tuple):
        for part in item:
            yield from _leaves(part)
    elif isinstance(item, torch.Tensor):
        yield item.detach().cpu().numpy()
    else:
        yield np.frombuffer(repr(item).encode(), np.uint8)
