"""Work on values with one entry per row a block at a time, so that no step needs memory in proportion to the rows.

Up to one block, every function does what the obvious NumPy expression does, with the same bytes. With more rows, a sum
still adds in NumPy's own order, so it has the same bytes, too; products are added up block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from coresift.scratch import empty

T = TypeVar("T", bound=np.generic)
Sum = TypeVar("Sum", bound=Any)

# How many rows a block has.
BLOCK = 2**18


class Values(Protocol):
    """One entry per row, found by a slice or an array of row numbers: an array, or a `Column`."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any, /) -> Any: ...


@dataclass(frozen=True)
class Column(Generic[T]):
    """One entry per row, computed when it is needed and never stored.

    Examples:
        >>> squares = Column(5, lambda rows: np.arange(5)[rows] ** 2)
        >>> squares[1:3], squares[[4, 0]]
        (array([1, 4]), array([16,  0]))
        >>> squares.then(np.add, squares)[1:3], squares.divided(2)[1:3]
        (array([2, 8]), array([0.5, 2. ]))
    """

    n: int
    function: Callable[[Any], NDArray[T]]

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, rows: Any) -> NDArray[T]:
        return self.function(rows)

    def then(self, function: Callable[..., NDArray[Any]], *others: Values) -> Column[Any]:
        """Return the function of this column, and of others."""
        return Column(self.n, lambda rows: function(self[rows], *(other[rows] for other in others)))

    def divided(self, divisor: float) -> Column[Any]:
        """Return the column divided by a number."""
        return self.then(lambda values: values / divisor)


def spans(n: int) -> Iterator[slice]:
    """Yield the blocks of n rows.

    >>> list(spans(5))
    [slice(0, 5, None)]
    """
    return (slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK))


def add_up(n: int, part: Callable[[slice], Sum]) -> Sum:
    """Return the sum of what `part` returns for blocks of n rows, added in the order of NumPy's pairwise summation.

    >>> values = np.arange(5.0)
    >>> add_up(5, lambda rows: values[rows].sum()).item()
    10.0
    """
    return _add_up(part, 0, n)


def _add_up(part: Callable[[slice], Sum], start: int, stop: int) -> Sum:
    if stop - start <= BLOCK:
        return part(slice(start, stop))
    half = (stop - start) // 2
    middle = start + half - half % 8  # where NumPy cuts, too
    both: Sum = _add_up(part, start, middle) + _add_up(part, middle, stop)
    return both


def total(values: Values) -> Any:
    """Return the sum of all entries.

    >>> total(np.array([1.0, 2.0])).item()
    3.0
    """
    return add_up(len(values), lambda rows: values[rows].sum())


def product(left: Values, right: Values) -> Any:
    """Return the inner product.

    >>> product(np.array([1.0, 2.0]), np.array([True, False])).item()
    1.0
    """
    return add_up(len(left), lambda rows: left[rows] @ right[rows])


def counts(labels: Values, count: int) -> NDArray[np.int64]:
    """Return how many entries there are of each label below `count`.

    >>> counts(np.array([0, 2, 2], np.int32), 4)
    array([1, 0, 2, 0])
    """
    return add_up(len(labels), lambda rows: np.bincount(labels[rows], minlength=count))


def largest(values: Values) -> float:
    """Return the largest entry.

    >>> largest(np.array([1.0, 2.0]))
    2.0
    """
    return max(float(values[rows].max()) for rows in spans(len(values)))


def every(n: int, test: Callable[[slice], Any]) -> bool:
    """Return whether the test is true for all entries of all blocks.

    >>> values = np.arange(3)
    >>> every(3, lambda rows: values[rows] < 2)
    False
    """
    return all(bool(np.all(test(rows))) for rows in spans(n))


def fill(array: NDArray[T], function: Callable[[slice], Any]) -> NDArray[T]:
    """Set the entries of an array, a block at a time, and return it.

    >>> fill(np.empty(3), lambda rows: np.arange(3)[rows] / 2)
    array([0. , 0.5, 1. ])
    """
    for rows in spans(len(array)):
        array[rows] = function(rows)
    return array


def stored(n: int, function: Callable[[slice], Any], dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return an array of n computed entries that cannot be changed.

    >>> stored(3, lambda rows: np.arange(3)[rows] / 2)
    array([0. , 0.5, 1. ])
    """
    array = fill(empty(n, dtype), function)
    array.setflags(write=False)
    return array


def kept(values: NDArray[T], test: Callable[[NDArray[T]], NDArray[np.bool_]]) -> NDArray[T]:
    """Return the entries that pass the test, in their order.

    >>> kept(np.array([3, 1, 2]), lambda some: some > 1)
    array([3, 2])
    """
    n = len(values)
    passed = empty(int(add_up(n, lambda rows: np.count_nonzero(test(values[rows])))), values.dtype)
    done = 0
    for rows in spans(n):
        block = values[rows]
        block = block[test(block)]
        passed[done : done + len(block)] = block
        done += len(block)
    return passed


def running_sum(values: Values) -> NDArray[np.float64]:
    """Return the sum of all entries up to each one, added one by one as in `np.cumsum`.

    >>> running_sum(np.array([1.0, 2.0]))
    array([1., 3.])
    """
    sums = empty(len(values), np.float64)
    before = 0.0
    for rows in spans(len(values)):
        block = np.array(values[rows], np.float64)
        if rows.start:
            block[:1] += before
        np.cumsum(block, out=sums[rows])
        before = sums[rows.stop - 1]
    return sums


def scattered(n: int, ids: NDArray[np.int64], values: NDArray[np.float64], others: Values | float) -> Column[Any]:
    """Return a column with these values in the rows `ids`, and those of `others` in all other rows.

    >>> scattered(9, np.array([7, 2]), np.array([0.7, 0.2]), np.nan)[np.array([2, 3])]
    array([0.2, nan])
    """
    order = np.argsort(ids, kind="stable")
    known, at_known = ids[order], values[order]

    def entries(rows: Any) -> NDArray[np.float64]:
        wanted = np.arange(*rows.indices(n)) if isinstance(rows, slice) else np.asarray(rows)
        entry = np.full(wanted.size, others) if isinstance(others, float) else np.array(others[rows], np.float64)
        if known.size:
            place = np.minimum(np.searchsorted(known, wanted), known.size - 1)
            found = known[place] == wanted
            entry[found] = at_known[place[found]]
        return entry

    return Column(n, entries)
