"""Centers as whole numbers of 8 bits: the same few on every processor, and those that plain loops find."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coresift.clustering import codes, compiled, plain
from coresift.clustering.codes import LARGEST, MOST_DIMENSIONS, Codes, Products
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
    """Return the best few by plain loops over rows and centers, as `Codes` and `Slots` describe them."""
    factor, of_centers = np.float32(LARGEST / largest), np.float32(LARGEST / np.abs(centers).max())
    rows = np.floor(np.clip(points * factor, -LARGEST, LARGEST) + np.float32(128.5)) - 128
    halves = 0.5 * (centers.astype(np.float64) ** 2).sum(axis=1)
    whole, bias = np.rint(centers * of_centers), -halves * (float(factor) * float(of_centers))
    most = LARGEST * int(np.abs(whole).sum(axis=1).max())
    bias = np.rint(np.maximum(bias - bias.max(), -2 * most))
    shift, tiles = 30 - (3 * most).bit_length(), -(-len(centers) // SLOTS)
    unit = 1 << (tiles - 1).bit_length()
    best = []
    for row in rows:
        slots = [[] for _ in range(SLOTS)]
        for center, (own, own_bias) in enumerate(zip(whole, bias, strict=True)):
            score = int(row @ own + own_bias) << shift
            slots[center % SLOTS].append((score // unit * unit + unit - 1 - center // SLOTS, center))
        kept = []
        for start in range(0, SLOTS, LANES):
            ordered = [sorted(slot, reverse=True) for slot in slots[start : start + LANES]]
            kept += [slot[place] for place in range(KEPT) for slot in ordered if place < len(slot)]
        kept.sort(key=lambda item: -item[0])  # stable: of equal keys, the first in the line
        found = [center for _, center in kept[:count]]
        best.append(found + found[:1] * (count - len(found)))
    return np.array(best)


@given(seed=st.integers(0, 99), k=st.sampled_from([1, 2, 5, 128, 192, 200, 500]), d=st.integers(1, 12))
def test_the_few_are_those_of_plain_loops(seed, k, d):
    points, centers = numbers(9, d, seed), numbers(k, d, seed + 100)
    if seed % 3 == 0:
        centers[k // 2 :] = centers[: k - k // 2]  # ties
    np.testing.assert_array_equal(codes_of(centers, 2.5).best(points, 4), plain_best(points, centers, 2.5, 4))


@pytest.mark.parametrize("loops", BOTH, ids=lambda module: module.__name__.rsplit(".", 1)[-1])
def test_keys_are_kept_across_calls(loops):
    rng = np.random.default_rng(3)
    products = rng.integers(-(10**6), 10**6, size=(7, 4 * SLOTS)).astype(np.float32)
    bias, shift, low = rng.integers(-(10**5), 0, size=4 * SLOTS).astype(np.int32), 8, 3
    whole, parts = (np.full((7, KEPT * SLOTS), np.iinfo(np.int32).min, np.int32) for _ in range(2))
    loops.add_scores(products, bias, 0, shift, low, whole)
    for first in (0, 2):
        here = slice(first * SLOTS, (first + 2) * SLOTS)
        loops.add_scores(products[:, here], bias[here], first, shift, low, parts)
    np.testing.assert_array_equal(whole, parts)


@pytest.mark.parametrize("d", [1, MOST_DIMENSIONS, 3000, 70_000])
def test_dot_products_of_codes_are_exact_in_single_precision(d):
    found = codes_of(np.full((3, d), -2.0, np.float32), 1.0)
    assert found.largest**2 * d < 2**24
    rows = found._round(np.full((1, d), 5.0, np.float32))
    assert found.best(np.full((1, d), 5.0, np.float32), 2).max() < 3
    assert rows[0, 0] == 128 + found.largest


@pytest.mark.parametrize("k", [1, 2, 5])
def test_with_few_centers_the_best_one_fills_the_list(k):
    centers = np.full((k, 3), 5.0, np.float32)  # far from the row, and still nearer than no center at all
    for finder in (codes_of(centers, 1e-6), Products.of(centers, np.full(k, 37.5), 0.0)):
        found = finder.best(np.zeros((2, 3), np.float32), 6)
        assert found.shape == (2, 6)
        assert found.min() >= 0
        assert found.max() < k


def excess(finder, points, centers, count):
    """Return by which share the best of the centers that are found is farther away than the nearest one."""
    gaps = np.array([((centers - point) ** 2).sum(axis=1) for point in points.astype(np.float64)])
    found = np.take_along_axis(gaps, finder.best(points, count).astype(np.int64), axis=1)
    return found.min(axis=1).sum() / gaps.min(axis=1).sum() - 1


def test_the_number_of_a_tile_takes_no_bits_that_tell_centers_apart():
    """Scores of few bits lost a tenth of them to 300 tiles; then the best of six was a fifth farther away."""
    rng = np.random.default_rng(5)
    scales = (1 + np.arange(32, dtype=np.float32)) ** -0.7
    centers, points = (rng.standard_normal((n, 32), np.float32) * scales for n in (30_000, 40))
    assert excess(codes_of(centers, 4.0), points, centers, 6) < 1e-3


def test_products_find_centers_that_eight_bits_cannot_tell_apart():
    centers = np.linspace(0, 1, 3000, dtype=np.float32)[:, None]
    points = np.random.default_rng(6).random((50, 1), np.float32)
    halves = 0.5 * centers[:, 0].astype(np.float64) ** 2
    assert excess(codes_of(centers, 1.0), points, centers, 6) > 10
    assert excess(Products.of(centers, halves, 1.0), points, centers, 6) < 1e-3


def test_rows_that_are_not_finite_get_some_centers_without_a_warning():
    points = numbers(4, 5, 0)
    points[1, 2], points[2, 0], points[3] = np.nan, np.inf, 3e38
    found = codes_of(numbers(200, 5, 1), 1e-30).best(points, 4)
    assert found.min() >= 0
    assert found.max() < 200
