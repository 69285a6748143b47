"""Centers as whole numbers of 8 bits: the same few on every processor, and those that plain loops find."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coresift.clustering import codes, compiled, plain
from coresift.clustering.codes import LARGEST, MOST_DIMENSIONS, Codes
from coresift.clustering.plain import KEPT, LANES, SLOTS

HAS_BYTES = [False, True] if compiled.BYTES else [False]
BOTH = [plain, *([compiled] if compiled.LIBRARY is not None else [])]


def numbers(n, d, seed):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def codes_of(centers, largest):
    return Codes.of(centers, 0.5 * (centers.astype(np.float64) ** 2).sum(axis=1), largest)


def every_way(monkeypatch, found, points, count):
    """Return the best few by each way to find them: with instructions for bytes or without, compiled or in numpy."""
    results = []
    for has_bytes in HAS_BYTES:
        for loops in BOTH:
            monkeypatch.setattr(codes, "BYTES", has_bytes)
            monkeypatch.setattr(codes, "add_scores", loops.add_scores)
            monkeypatch.setattr(codes, "pick_few", loops.pick_few)
            results.append(found.best(points, count))
    return results


@pytest.mark.parametrize(
    ("n", "k", "d"), [(1, 128, 1), (70, 128, 13), (5, 300, 64), (600, 1000, 3), (300, 1200, MOST_DIMENSIONS)]
)
def test_every_processor_finds_the_same(monkeypatch, n, k, d):
    points, centers = numbers(n, d, 0), numbers(k, d, 1)
    points[0] *= 100  # beyond the largest number
    points[-1, 0] = -0.0
    first, *others = every_way(monkeypatch, codes_of(centers, 3.0), points, 6)
    assert first.shape == (n, 6)
    assert first.dtype == np.int32
    for other in others:
        np.testing.assert_array_equal(other, first)


def plain_best(points, centers, largest, count):
    """Return the best few by plain loops over rows and centers, as `Codes` describes them."""
    factor, own = np.float32(LARGEST / largest), np.float32(LARGEST / np.abs(centers).max())
    rows = np.floor(np.clip(points * factor, -LARGEST, LARGEST) + np.float32(128.5)) - 128
    halves = 0.5 * (centers.astype(np.float64) ** 2).sum(axis=1)
    bias, whole = np.rint(-halves * (float(factor) * float(own))), np.rint(centers * own)
    tiles = -(-len(centers) // SLOTS)
    unit = 1 << (tiles - 1).bit_length()
    best = []
    for row in rows:
        slots = [[] for _ in range(SLOTS)]
        for center, (own_numbers, own_bias) in enumerate(zip(whole, bias, strict=True)):
            score = int(row @ own_numbers + own_bias)
            key = (score // unit * unit + unit - 1 - center // SLOTS, center)
            slots[center % SLOTS].append(key)
        kept = []
        for start in range(0, SLOTS, LANES):
            ordered = [sorted(slot, reverse=True) for slot in slots[start : start + LANES]]
            kept += [slot[place] for place in range(KEPT) for slot in ordered if place < len(slot)]
        kept.sort(key=lambda item: -item[0])  # stable: of equal keys, the first in the line
        best.append([center for _, center in kept[:count]])
    return np.array(best)


@given(seed=st.integers(0, 99), k=st.sampled_from([128, 192, 200, 500]), d=st.integers(1, 12))
def test_the_few_are_those_of_plain_loops(seed, k, d):
    points, centers = numbers(9, d, seed), numbers(k, d, seed + 100)
    if seed % 3 == 0:
        centers[k // 2 :] = centers[: k - k // 2]  # ties
    np.testing.assert_array_equal(codes_of(centers, 2.5).best(points, 4), plain_best(points, centers, 2.5, 4))


@pytest.mark.parametrize("loops", BOTH, ids=lambda module: module.__name__.rsplit(".", 1)[-1])
def test_keys_are_kept_across_calls(loops):
    rng = np.random.default_rng(3)
    products = rng.integers(-(10**6), 10**6, size=(7, 4 * SLOTS)).astype(np.float32)
    bias, low = rng.integers(-(10**5), 0, size=4 * SLOTS).astype(np.int32), 3
    whole, parts = (np.full((7, KEPT * SLOTS), np.iinfo(np.int32).min, np.int32) for _ in range(2))
    loops.add_scores(products, bias, 0, low, whole)
    for first in (0, 2):
        here = slice(first * SLOTS, (first + 2) * SLOTS)
        loops.add_scores(products[:, here], bias[here], first, low, parts)
    np.testing.assert_array_equal(whole, parts)


def test_products_of_the_largest_numbers_are_exact_in_single_precision():
    assert LARGEST**2 * MOST_DIMENSIONS < 2**24


def test_rows_that_are_not_finite_get_some_centers_without_a_warning():
    points = numbers(4, 5, 0)
    points[1, 2], points[2, 0], points[3] = np.nan, np.inf, 3e38
    found = codes_of(numbers(200, 5, 1), 1e-30).best(points, 4)
    assert found.min() >= 0
    assert found.max() < 200


def test_few_centers_leave_slots_empty_that_are_never_taken():
    centers = np.full((128, 3), 5.0, np.float32)  # far from the row, and still nearer than no center at all
    assert codes_of(centers, 1e-3).best(np.zeros((2, 3), np.float32), 4).max() < 128
