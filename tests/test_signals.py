"""Nearness to a target: against its slow twin."""

import numpy as np
import pytest

import coresift as cs
from coresift.engine import Local
from coresift.signals import near


def slow_near(rows, targets, floor):
    units = [matrix / np.linalg.norm(matrix, axis=1, keepdims=True) for matrix in (rows, targets)]
    best = np.zeros(len(rows))
    for target in units[1]:
        for rank, row in enumerate(sorted(range(len(rows)), key=lambda i, t=target: -(units[0][i] @ t)), start=1):
            best[row] = max(best[row], 1 / rank if rank <= 1000 else 0)
    return floor + (1 - floor) * best / best.mean()


@pytest.mark.parametrize("n", [50, 1500])
def test_it_is_its_slow_twin(n):
    rng = np.random.default_rng(0)
    rows, targets = rng.normal(size=(n, 4)), rng.normal(size=(6, 4))
    np.testing.assert_allclose(near(rows, targets, floor=0.2), slow_near(rows, targets, 0.2), rtol=1e-6)


def test_blocks_and_threads_do_not_matter(monkeypatch):
    rng = np.random.default_rng(0)
    rows, targets = rng.normal(size=(3000, 4)), rng.normal(size=(6, 4))
    whole = near(rows, targets)
    monkeypatch.setattr("coresift.rows.base.block_length", lambda d: 256)
    np.testing.assert_array_equal(near(rows, targets, engine=Local(threads=3)), whole)


def test_every_target_row_has_a_row_at_the_top_and_no_row_has_nothing():
    rng = np.random.default_rng(0)
    rows, targets = rng.normal(size=(2000, 8)), rng.normal(size=(20, 8))
    found = near(rows, targets, floor=0.1)
    assert found.mean() == pytest.approx(1)
    assert found.min() >= 0.1
    closest = {int(np.argmax(rows @ t / np.linalg.norm(rows, axis=1))) for t in targets}
    assert set(np.flatnonzero(found == found.max())) == closest


def test_other_columns_are_refused():
    with pytest.raises(cs.InputError, match="target_rows must be rows of 3 numbers, like the rows; got rows of 2"):
        near(np.ones((4, 3)), np.ones((1, 2)))


@pytest.mark.parametrize("numbers", [[3, 5], np.array([3, 5]), (3, 5)])
def test_row_numbers_are_not_examples(numbers):
    with pytest.raises(cs.InputError, match=r"^target_rows must be the embeddings of examples.* got row numbers; use"):
        near(np.ones((4, 3)), numbers)


@pytest.mark.parametrize("targets", [np.ones(3), np.zeros((0, 3)), [["a"]]])
def test_bad_examples_are_not_blamed_on_the_rows(targets):
    with pytest.raises(cs.InputError, match=r"^target_rows must be"):
        near(np.ones((4, 3)), targets)
