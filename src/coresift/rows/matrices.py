"""Rows in other matrices in memory: lists of lists, torch tensors, scipy sparse matrices."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.checks import refuse
from coresift.rows.base import Block, Rows, to_single
from coresift.types import Ints, Singles


class SparseRows(Rows):
    """Rows of a sparse matrix, which is made dense one block at a time."""

    def __init__(self, matrix: Any) -> None:
        if matrix.ndim != 2:
            refuse("rows", "a 2-D array, one item per row", f"a sparse array with {matrix.ndim} dimension(s)")
        if matrix.dtype.kind not in "fiub":
            refuse("rows", "real numbers", f"a sparse matrix of {matrix.dtype}")
        super().__init__(*matrix.shape)
        self._matrix = matrix.tocsr()

    def blocks(self) -> Iterator[Block]:
        """Yield blocks that are made dense only when their function runs."""
        for start in range(0, self.n, self.block_rows):
            yield start, partial(self._dense, slice(start, start + self.block_rows))

    def _read(self, start: int, stop: int) -> Iterator[Singles]:
        for first in range(start, stop, self.block_rows):
            yield self._dense(slice(first, min(first + self.block_rows, stop)))

    def _pick(self, ids: Ints) -> Iterator[Singles]:
        for start in range(0, ids.size, self.block_rows):
            yield self._dense(ids[start : start + self.block_rows])

    def _dense(self, rows: slice | Ints) -> Singles:
        return to_single(self._matrix[rows].toarray())


def is_sparse(source: Any) -> bool:
    """Return whether `source` is a scipy sparse matrix or array."""
    # Such an object can exist only if its library is already imported, so there is no need to import it here.
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(source))


def as_array(source: Any) -> NDArray[Any] | None:
    """Return a tensor, a list of lists or an array as an array; None for anything else."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(source, getattr(torch, "Tensor", ())):
        return _from_tensor(source, torch)
    if isinstance(source, list | tuple):
        return _from_lists(source)
    if isinstance(source, np.ndarray):
        return source
    return np.asarray(source) if hasattr(source, "__array__") else None


def _from_tensor(tensor: Any, torch: Any) -> NDArray[Any]:
    if tensor.layout != torch.strided:
        refuse("rows", "a dense tensor, or a sparse matrix of scipy", f"a tensor of layout {tensor.layout}")
    plain = tensor.detach().cpu().resolve_conj().resolve_neg()
    if plain.dtype == torch.bfloat16:  # numpy has no bfloat16; float32 represents all of its values
        plain = plain.float()
    try:
        array: NDArray[Any] = plain.numpy()
    except (TypeError, RuntimeError):
        refuse("rows", "real numbers", f"a tensor of {tensor.dtype}")
    return array


def _from_lists(lists: list[Any] | tuple[Any, ...]) -> NDArray[Any]:
    try:
        return np.asarray(lists)
    except (ValueError, TypeError, OverflowError):
        refuse("rows", "lists of numbers, all of the same length", f"a list of {len(lists)} items that are not")
