"""Array aliases, and immutable values that compare by content."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coresift.columns import every, spans
from coresift.scratch import copied, empty, owns

Floats: TypeAlias = NDArray[np.float64]
Singles: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


class Value:
    """Equality by content, for dataclasses that hold arrays."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        names = [f.name for f in fields(self) if f.compare]  # type: ignore[arg-type]
        return all(_same(getattr(self, name), getattr(other, name)) for name in names)


def freeze(value: Any, **dtypes: Any) -> None:
    """Replace fields of a frozen dataclass by read-only copies with these types; the caller's arrays stay writable.

    An array that is already read-only and has the right type is not copied.
    """
    for name, dtype in dtypes.items():
        old = getattr(value, name)
        if isinstance(old, np.ndarray) and old.dtype == dtype and owns(old) and not old.flags.writeable:
            continue
        array = copied(old, dtype)
        array.setflags(write=False)
        object.__setattr__(value, name, array)


def digest(*arrays: NDArray[Any]) -> str:
    """Return a digest of arrays: shape, type and bytes."""
    state = hashlib.blake2b(digest_size=12)
    for array in arrays:
        state.update(f"{array.shape}{array.dtype.str}".encode())
        state.update(np.ascontiguousarray(array).data)
    return state.hexdigest()


def numbered(texts: Sequence[str]) -> tuple[list[str], Ints]:
    """Return the distinct texts in order, and for each text which of them it is.

    A NumPy array of strings would give each text the room of the longest, and strip null characters at its end.

    >>> names, places = numbered(["b", "a", "a\\x00", "b"])
    >>> names, places.tolist()
    (['a', 'a\\x00', 'b'], [2, 0, 1, 2])
    """
    names = sorted(set(texts))
    place = {name: number for number, name in enumerate(names)}
    return names, np.fromiter((place[text] for text in texts), np.int64, len(texts))


def as_array(values: Any) -> NDArray[Any]:
    """Return values as an array; a list of strings becomes one of objects, which take no more room than they need.

    >>> as_array(["a", "bc"]).dtype, as_array([1, 2]).dtype
    (dtype('O'), dtype('int64'))
    """
    if not isinstance(values, list | tuple) or not values or not all(isinstance(value, str) for value in values):
        return np.asarray(values)
    texts = np.empty(len(values), object)
    texts[:] = values
    return texts


def nonnegative(values: NDArray[np.floating[Any]]) -> bool:
    """Return whether all values are finite and at least 0."""
    return every(len(values), lambda rows: np.isfinite(values[rows]) & (values[rows] >= 0))


def distinct_below(ids: Ints, count: int) -> bool:
    """Return whether the ids are distinct and from 0 to count − 1."""
    if not every(ids.size, lambda rows: (ids[rows] >= 0) & (ids[rows] < count)):
        return False
    seen = empty(count, np.bool_)
    seen[:] = False
    for rows in spans(ids.size):
        seen[ids[rows]] = True
    return int(np.count_nonzero(seen)) == ids.size


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray) != isinstance(right, np.ndarray):
        return False
    if isinstance(left, np.ndarray):
        floating = np.issubdtype(left.dtype, np.floating)
        return left.dtype == right.dtype and np.array_equal(left, right, equal_nan=floating)
    return bool(left == right)
