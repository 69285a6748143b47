"""The plan: what it says of time and memory is near what happens, and what does not fit is refused."""

from __future__ import annotations

import numpy as np
import pytest

import coresift as cs
from coresift import planning
from coresift.planning.calibration import calibrate, free_memory

RNG = np.random.default_rng(0)
ROWS = (RNG.normal(size=(40, 24))[RNG.integers(40, size=30_000)] * 3 + RNG.normal(size=(30_000, 24))).astype(np.float32)


@pytest.mark.parametrize("budget", [400, 4_000])
def test_what_is_planned_is_what_is_asked(budget):
    """How near the predicted time and memory are, `benchmarks.plan` says: no test depends on a clock."""
    planned = cs.plan(ROWS, budget)
    picked = cs.select(ROWS, np.abs(ROWS[:, 0]), budget)
    assert (planned.losses_asked, planned.budget) == (picked.ledger.asked, len(picked))
    assert 0 < planned.seconds < 1_000
    assert 40e6 < planned.memory < 500e6


@pytest.mark.parametrize("many", [False, True])
def test_rates_are_those_of_steps_that_were_run(many):
    found = calibrate(cs.open_rows(ROWS), 300, many=many)
    assert min(found.read, found.measure, found.compare, found.search) > 0
    assert found.move >= found.compare
    assert (found.seed > 0) == (not many)
    assert (found.axes > 0) == many
    assert not found.copied  # the array is there already


def test_blocks_that_are_converted_take_memory(tmp_path):
    for kind, copied in (("float16", True), ("float32", False)):
        np.save(tmp_path / f"{kind}.npy", ROWS.astype(kind))
        assert calibrate(cs.open_rows(tmp_path / f"{kind}.npy"), 10, many=False).copied == copied
    assert calibrate(cs.open_rows(ROWS).normalized(), 10, many=False).copied


def test_more_rows_take_longer_and_more_memory():
    few, many = (cs.plan(np.zeros((n, 8), np.float32), 1_000) for n in (10_000, 20_000_000))
    assert many.seconds > 10 * few.seconds
    assert many.memory > 10 * few.memory
    assert few.passes <= many.passes


def test_a_clustering_that_is_there_costs_nothing_more():
    clustering = cs.cluster(ROWS, 40)
    assert cs.plan(ROWS, 400, clusters=clustering).seconds < cs.plan(ROWS, 400).seconds
    assert cs.plan(ROWS, 400, clusters=clustering).passes == 0


def test_classes_are_planned_too():
    planned = cs.plan(ROWS, 400, strata=np.arange(len(ROWS)) % 4)
    assert planned.seconds > 0
    assert planned.clusters == 20


def test_what_does_not_fit_is_refused_with_its_number(monkeypatch):
    planned = cs.plan(ROWS, 400)
    monkeypatch.setattr(planning, "free_memory", lambda: planned.memory / 2)
    sentence = rf"To select 400 of 30,000 rows takes about {planned.memory / 1e9:.1f} GB of memory, and .* GB are free"
    with pytest.raises(cs.InputError, match=sentence):
        cs.plan(ROWS, 400)
    monkeypatch.setattr(planning, "free_memory", lambda: None)
    assert cs.plan(ROWS, 400).memory == pytest.approx(planned.memory)


def test_free_memory_is_a_number_or_unknown():
    free = free_memory()
    assert free is None or 1e6 < free < 1e15
