"""Array aliases, and immutable values that compare by content."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

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
        if isinstance(old, np.ndarray) and old.dtype == dtype and old.flags.owndata and not old.flags.writeable:
            continue
        array = np.array(old, dtype=dtype)
        array.setflags(write=False)
        object.__setattr__(value, name, array)


def digest(*arrays: NDArray[Any]) -> str:
    """Return a digest of arrays: shape, type and bytes."""
    state = hashlib.blake2b(digest_size=12)
    for array in arrays:
        state.update(f"{array.shape}{array.dtype.str}".encode())
        state.update(np.ascontiguousarray(array).data)
    return state.hexdigest()


def nonnegative(values: NDArray[np.floating[Any]]) -> bool:
    """Return whether all values are finite and at least 0."""
    return bool(np.all(np.isfinite(values) & (values >= 0)))


def distinct_below(ids: Ints, count: int) -> bool:
    """Return whether the ids are distinct and from 0 to count − 1."""
    if np.any((ids < 0) | (ids >= count)):
        return False
    seen = np.zeros(count, np.bool_)
    seen[ids] = True
    return int(np.count_nonzero(seen)) == ids.size


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray) != isinstance(right, np.ndarray):
        return False
    if isinstance(left, np.ndarray):
        floating = np.issubdtype(left.dtype, np.floating)
        return left.dtype == right.dtype and np.array_equal(left, right, equal_nan=floating)
    return bool(left == right)
