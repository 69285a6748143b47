"""The plan: what it says of time and memory is near what happens, and what does not fit is refused."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import coresift as cs
from coresift import planning
from coresift.clustering.search import choose_search
from coresift.engine import available_cores
from coresift.planning import AFTERWARDS, ONCE
from coresift.planning.calibration import Rates, calibrate, free_memory
from coresift.planning.effort import LIBRARIES, effort, memory_afterwards

RNG = np.random.default_rng(0)
ROWS = (RNG.normal(size=(40, 24))[RNG.integers(40, size=30_000)] * 3 + RNG.normal(size=(30_000, 24))).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [400, 4_000])
def test_what_is_planned_is_what_is_asked(budget):
    """How near the predicted time is, `benchmarks.plan` says: no test depends on a clock."""
    planned = cs.plan(ROWS, budget)
    picked = cs.select(ROWS, np.abs(ROWS[:, 0]), budget)
    assert (planned.losses_asked, planned.budget) == (picked.ledger.asked, len(picked))
    assert planned.seconds > ONCE + AFTERWARDS * len(ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [400, 4_000])
def test_memory_is_enough_and_not_much_more(budget):
    """Whatever numpy takes at a time, besides the libraries."""
    planned = cs.plan(ROWS, budget)
    tracemalloc.start()
    try:
        cs.select(ROWS, np.abs(ROWS[:, 0]), budget)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.15 * (planned.memory - LIBRARIES) < peak < planned.memory - LIBRARIES


def test_seconds_are_in_proportion_to_the_rates():
    rows = cs.open_rows(ROWS)
    for k in (40, 400):
        rates = calibrate(rows, k, many=k >= 256)
        timed = ("read", "measure", "compare", "search", "move", "seed", "axes")
        slower = replace(rates, **{name: 3 * getattr(rates, name) for name in timed})
        found, tripled = (effort(rows, k, one, 2) for one in (rates, slower))
        assert tripled.seconds == pytest.approx(3 * found.seconds)
        assert tripled.memory == found.memory


@pytest.mark.parametrize("many", [False, True])
def test_rates_are_those_of_steps_that_were_run(many):
    found = calibrate(cs.open_rows(ROWS), 300, many=many)
    assert min(found.read, found.measure, found.compare, found.search) > 0
    assert found.move >= found.compare
    assert (found.seed > 0) == (not many)
    assert (found.axes > 0) == many


def test_the_search_is_chosen_on_rows_that_made_no_center(monkeypatch):
    """Rows that made a mean are close to it, and a search among means looks easier for them than it is."""
    monkeypatch.setattr("coresift.planning.calibration.COMPARED", 20_000 * 24)
    seen = []

    def choose(rows, *_, **__):
        seen.append(rows.take(np.arange(rows.n)))
        return choose_search(rows, *_, **__)

    monkeypatch.setattr("coresift.planning.calibration.choose_search", choose)
    calibrate(cs.open_rows(ROWS), 300, many=True)
    np.testing.assert_array_equal(seen[0], ROWS[20_000:])


@pytest.mark.slow
def test_more_rows_take_longer_and_more_memory():
    few, many = (cs.plan(np.zeros((n, 8), np.float32), 1_000) for n in (10_000, 20_000_000))
    assert many.seconds > ONCE + AFTERWARDS * 20_000_000
    assert many.arithmetic > 10 * few.arithmetic
    assert many.memory > few.memory
    assert few.passes <= many.passes


@pytest.mark.parametrize("k", [40, 400])
def test_nodes_divide_the_time_of_blocks(k):
    rates = Rates(read=1.0, compare=1.0, move=1.0, search=1.0, measure=1.0, seed=0.0, near=16)
    rows = cs.open_rows(np.zeros((10, 128), np.float32))
    here, less, more = (effort(rows, k, rates, 2, 10**7, nodes=nodes) for nodes in (0, 2, 20))
    assert here.seconds == less.seconds
    one_machine = effort(rows, k, rates, 2, 10**7, nodes=2 * 10**9)  # all that blocks take is gone
    assert less.seconds - one_machine.seconds == pytest.approx(10 * (more.seconds - one_machine.seconds), rel=1e-6)
    assert more.memory == less.memory == here.memory


def test_threads_are_planned_for(monkeypatch):
    used = []
    monkeypatch.setattr(planning, "calibrate", lambda *_, threads, **__: used.append(threads) or Rates(1, 1, 1, 1, 1))
    one, three = (cs.plan(ROWS, 400, engine=cs.engines.Local(threads)) for threads in (1, 3))
    assert used == [1, 3]
    assert one.memory < three.memory


def test_a_clustering_that_is_there_costs_nothing_more():
    planned = cs.plan(ROWS, 400, clusters=cs.cluster(ROWS, 40), score=cs.scores.Learned())
    assert (planned.passes, planned.arithmetic) == (0, 0)
    assert planned.seconds == pytest.approx(ONCE + AFTERWARDS * len(ROWS))
    assert planned.memory == pytest.approx(
        LIBRARIES + memory_afterwards(len(ROWS), ROWS.shape[1], 0, available_cores())
    )


def test_memory_does_not_grow_with_very_many_rows():
    rates = Rates(read=1e-6, compare=1e-6, move=1e-6, search=1e-6, measure=1e-6, near=64)
    rows = cs.open_rows(np.zeros((10, 128), np.float32))
    for k in (100, 500):
        small, large, larger = (effort(rows, k, rates, 2, n).memory for n in (10**6, 10**7, 10**8))
        assert small == large + 16e6  # labels and distances are in files
        assert large == larger
    for components in (0, 16):
        small, large, larger = (memory_afterwards(n, 128, components, 2) for n in (10**6, 10**7, 10**8))
        assert small > large == larger
    most = max(memory_afterwards(n, 128, 16, 2) for n in range(10**5, 10**7, 10**5))
    assert most < 1e9


def test_classes_are_planned_too():
    planned = cs.plan(ROWS, 400, strata=np.arange(len(ROWS)) % 4)
    assert planned.seconds > 0
    assert planned.clusters == 20


def test_what_does_not_fit_is_refused_with_its_number(monkeypatch):
    planned = cs.plan(ROWS, 400)
    monkeypatch.setattr(planning, "free_memory", lambda: planned.memory / 2)
    sentence = rf"Selecting 400 of 30,000 rows takes about {planned.memory / 1e9:.1f} GB of memory, and .* GB are free"
    with pytest.raises(cs.InputError, match=sentence):
        cs.plan(ROWS, 400)
    monkeypatch.setattr(planning, "free_memory", lambda: None)
    assert cs.plan(ROWS, 400).memory == pytest.approx(planned.memory)


def test_files_that_do_not_fit_are_refused_with_their_number(monkeypatch):
    monkeypatch.setattr(planning, "room", lambda: 2e9)
    assert cs.plan(ROWS, 400).rows == len(ROWS)
    monkeypatch.setattr(planning, "file_bytes", lambda n, components: 3e9)
    sentence = "takes about 3.0 GB of temporary files, and only 2.0 GB are free; set TMPDIR to a folder"
    with pytest.raises(cs.InputError, match=sentence):
        cs.plan(ROWS, 400)


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="needs /proc to know how much memory there is")
def test_free_memory_is_a_part_of_all_memory():
    (total,) = (line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
    assert 0 < free_memory() < 1024 * int(total.split()[1])
