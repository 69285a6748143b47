"""Approximate leverage scores, from a sparse sketch of the matrix and random projections."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import numpy as np

from coresift.baselines.making import by_block
from coresift.engine import Fold, Workers
from coresift.leverage import FOLDED, orthonormal
from coresift.rows import Rows, refuse_bad_row
from coresift.streams import Stream, generator
from coresift.types import Floats, Ints, Singles

# How many lines of the sketch each row is added to.
SPREAD = 4


def sketched_scores(rows: Rows, lines: int, directions: int, seed: int, workers: Workers) -> Floats:
    """Return approximate leverage scores ‖aTG‖², where T makes the columns of the sketch orthonormal."""
    sketch = _sketch(rows, lines, seed, workers)
    _, transform = orthonormal(sketch, np.linalg.norm(sketch, axis=0))
    if directions < transform.shape[1]:
        transform = transform @ random_directions(transform.shape[1], directions, seed)

    def lengths(_: int, block: Singles) -> Floats:
        projected = block @ transform
        return np.asarray(np.einsum("ij,ij->i", projected, projected))

    return np.asarray(by_block(workers.map(rows, lengths, name="measuring leverage")))


def random_directions(dimension: int, count: int, seed: int) -> Floats:
    """Return a random G such that ‖xG‖² is ‖x‖² in expectation."""
    rng = generator(seed, Stream.BASELINES, 1)
    return np.asarray(rng.standard_normal((dimension, count)) / np.sqrt(count))


def places_and_signs(start: int, count: int, lines: int, seed: int) -> tuple[Ints, Floats]:
    """Return the sketch lines that each row of a block is added to, and its signs; the block starts at `start`."""
    rng = generator(seed, Stream.BASELINES, 2, start)
    places = rng.integers(lines, size=(count, SPREAD))
    signs = rng.choice(np.array([-1.0, 1.0]), size=(count, SPREAD))
    return places, signs / np.sqrt(SPREAD)


def _sketch(rows: Rows, lines: int, seed: int, workers: Workers) -> Floats:
    """Return the sketch SA. Every block draws its own columns of S, so S is never stored as a whole."""
    from scipy.sparse import csr_array

    def sketch_block(start: int, block: Singles) -> Floats:
        places, signs = places_and_signs(start, len(block), lines, seed)
        columns = np.repeat(np.arange(len(block)), SPREAD)
        gather = csr_array((signs.ravel(), (places.ravel(), columns)), shape=(lines, len(block)))
        return np.asarray(gather @ block.astype(np.float64))

    total = _add(workers.map(rows, sketch_block, fold=Fold(_add, FOLDED), name="sketching columns"))
    if not np.isfinite(total).all():
        refuse_bad_row(rows)
    return total


def _add(sketches: Iterable[Floats]) -> Floats:
    return reduce(np.add, sketches)
