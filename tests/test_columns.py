"""What is done a block at a time, against the obvious whole-array twin; and arrays in temporary files."""

import gc
import os
import tempfile
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_portfolio import prediction_of
from threadpoolctl import threadpool_limits

import coresift as cs
from coresift import clustering, columns, components, scratch
from coresift.clustering import strata
from coresift.clustering.refine import cost_of, snap
from coresift.clustering.snapping import farthest
from coresift.columns import Column, add_up, counts, every, fill, kept, largest, product, running_sum, scattered, stored
from coresift.designs import Independent, Pivotal, Poisson, Systematic
from coresift.inclusion import CERTAIN, fixed_size_inclusion, parts, spread
from coresift.order import by_cluster, outward, serpentine, stops
from coresift.portfolio import candidates, mix, pilot_facts
from coresift.prediction import feature_columns, standardized
from coresift.rows import base
from coresift.signal_table import signal_table
from coresift.streams import Stream, generator
from coresift.types import Evidence, Frame, PilotPlan, PilotSample
from coresift.types.values import distinct_below, nonnegative

FEW = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 128 rows, the fewest that NumPy's own sums are cut into; all arrays are in files."""
    monkeypatch.setattr(columns, "BLOCK", 128)
    monkeypatch.setattr(scratch, "IN_MEMORY", 0)


def numbers(seed, n):
    rng = np.random.default_rng(seed)
    return rng.lognormal(0, 3, n) * rng.choice([-1, 1], n), rng


@FEW
@given(st.integers(0, 1000), st.integers(0, 3000))
def test_sums_have_the_bytes_of_numpy_s(small_blocks, seed, n):
    values, rng = numbers(seed, n)
    assert columns.total(values) == values.sum()
    np.testing.assert_array_equal(running_sum(np.abs(values)), np.cumsum(np.abs(values)))
    mask = rng.random(n) < 0.5
    assert product(values, mask) == pytest.approx(values @ mask, rel=1e-9, abs=1e-9 * np.abs(values).sum())
    table = rng.normal(size=(n, 3))
    np.testing.assert_allclose(add_up(n, lambda rows: table[rows].sum(axis=0)), table.sum(axis=0), atol=1e-9)


@FEW
@given(st.integers(0, 1000), st.integers(1, 1000))
def test_blocks_together_are_the_whole_array(small_blocks, seed, n):
    values, rng = numbers(seed, n)
    labels = rng.integers(7, size=n).astype(np.int32)
    np.testing.assert_array_equal(counts(labels, 9), np.bincount(labels, minlength=9))
    np.testing.assert_array_equal(stored(n, lambda rows: values[rows] * 2), values * 2)
    np.testing.assert_array_equal(fill(np.empty(n), lambda rows: values[rows]), values)
    np.testing.assert_array_equal(kept(values, lambda some: some > 0), values[values > 0])
    assert largest(values) == values.max()
    assert every(n, lambda rows: values[rows] < values.max()) is False
    assert every(n, lambda rows: values[rows] <= values.max()) is True
    assert nonnegative(values) == bool(np.all(values >= 0))
    ids = rng.permutation(n)[: n // 2]
    assert distinct_below(ids, n)
    assert not distinct_below(np.append(ids, n), n)
    assert not distinct_below(np.append(ids, ids), n) or not ids.size
    whole = values.copy()
    whole[ids] = 5.0
    some = scattered(n, ids, np.full(ids.size, 5.0), values)
    np.testing.assert_array_equal(some[:], whole)
    np.testing.assert_array_equal(some[ids[::-1]], whole[ids[::-1]])
    np.testing.assert_array_equal(scattered(n, ids, values[ids], np.nan)[ids], values[ids])
    assert np.isnan(scattered(n, ids[:0], values[:0], np.nan)[:]).all()


def whole_inclusion(sizes, count):
    inclusion, undecided = np.zeros(sizes.size), sizes > 0
    if count >= undecided.sum():
        return undecided.astype(np.float64)
    while True:
        factor = max(count - inclusion.sum(), 0.0) / sizes[undecided].sum()
        certain = undecided & (factor * sizes >= CERTAIN)
        if not certain.any() or count <= inclusion.sum():
            return np.where(undecided, factor * sizes, inclusion)
        inclusion[certain] = 1.0
        undecided &= ~certain


@FEW
@given(st.integers(0, 1000), st.integers(1, 900), st.integers(1, 400))
def test_inclusion_and_draws_do_not_depend_on_blocks(small_blocks, seed, n, count):
    values, rng = numbers(seed, n)
    sizes = np.where(rng.random(n) < 0.2, 0.0, np.abs(values))
    found = fixed_size_inclusion(sizes, count)
    np.testing.assert_allclose(found, whole_inclusion(sizes, count), rtol=1e-9)
    np.testing.assert_allclose(parts(sizes), sizes / sizes.sum() if sizes.any() else np.full(n, 1 / n))
    allowed = rng.random(n) < 0.7
    expected = np.zeros(n)
    if allowed.any():
        expected[allowed] = 0.4 * parts(sizes[allowed]) + 0.6 / allowed.sum()
    np.testing.assert_allclose(spread(sizes, allowed, 0.6), expected)
    drawn = [design.draw(found, np.random.default_rng(seed)) for design in DESIGNS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "BLOCK", 10**9)
        for design, (positions, times) in zip(DESIGNS, drawn, strict=True):
            again, times_again = design.draw(found, np.random.default_rng(seed))
            np.testing.assert_array_equal(positions, again)
            np.testing.assert_array_equal(times, times_again)
            assert np.all(found[positions] > 0)


DESIGNS = (Independent(), Systematic(), Pivotal(), Poisson())


@FEW
@given(st.integers(0, 1000), st.integers(1, 900), st.integers(1, 20))
def test_centers_costs_and_far_rows(small_blocks, seed, n, k):
    rng = np.random.default_rng(seed)
    labels, distances = rng.integers(k, size=n).astype(np.int32), rng.integers(50, size=n).astype(np.float32)
    expected = [-1] * k
    for row in range(n):
        best = expected[labels[row]]
        if best < 0 or distances[row] < distances[best]:
            expected[labels[row]] = row
    assert snap(labels, distances, k).tolist() == expected
    assert cost_of(distances, 1.5) == (distances.astype(np.float64) ** 1.5).sum()
    np.testing.assert_array_equal(farthest(distances, k), np.argsort(-distances, kind="stable")[:k])


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(1_500, 6)).astype(np.float32) + 3 * rng.normal(size=(9, 6))[rng.integers(9, size=1_500)]
    return rows, cs.cluster(rows, 12, seed=1), rng.exponential(size=1_500)


def test_orders_are_sorts_by_stop_and_distance(problem, small_blocks):
    _, clustering, _ = problem
    stop = stops(clustering)[clustering.labels]
    key = (clustering.powers / clustering.powers.max()).astype(np.float32)
    expected = np.lexsort((np.arange(clustering.n), np.where(stop % 2 == 1, 1 - key, key), stop))
    np.testing.assert_array_equal(serpentine(clustering, clustering.powers), expected)
    level = np.random.default_rng(0).random(clustering.k)
    expected = np.lexsort((np.arange(clustering.n), clustering.distances, level[clustering.labels]))
    np.testing.assert_array_equal(outward(clustering, level), expected)


def test_columns_are_standardized_and_predicted_in_blocks(problem, small_blocks):
    rows, clustering, values = problem
    table = np.column_stack([values, np.ones(len(values)), rows])
    expected = np.clip((table - table.mean(axis=0)) / np.maximum(table.std(axis=0), 1e-9), -4, 4)
    np.testing.assert_allclose(standardized(table), expected, atol=1e-9)
    features = feature_columns(clustering, rows[:, :3], values[:, None])
    powers = clustering.powers
    away = standardized(np.log(powers / powers.mean() + 0.05)[:, None])
    signals = standardized(np.column_stack([values, np.sqrt(values)]))
    expected = np.clip(np.column_stack([away, rows[:, :3], signals]), -4, 4).astype(np.float32)
    np.testing.assert_allclose(features[:], expected, atol=1e-6)
    ids = np.array([700, 3])
    np.testing.assert_array_equal(features[ids], features[:][ids])


def test_the_mixture_is_the_same_in_blocks(problem):
    rows, clustering, values = problem
    frame = Frame(clustering.n, np.zeros(0), np.arange(0, clustering.n, 9))
    mixtures, shares = [], []
    for block in (10**9, 128):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(columns, "BLOCK", block)
            plan = cs.pilots.Representatives().plan(clustering, frame, 300)
            ids = np.flatnonzero(np.random.default_rng(0).random(clustering.n) < plan.inclusion)
            evidence = Evidence(clustering, frame, PilotSample(ids, plan), values[ids])
            facts = pilot_facts(evidence, {"signal": values}, rows)
            mixtures.append(mix(facts))
            shares.append((plan.inclusion, plan.share, plan.order))
            densities = candidates(facts, mixtures[-1].predictions, prediction_of(facts))
            assert set(mixtures[-1].names) == set(densities)
    for whole, cut in zip(*shares, strict=True):
        np.testing.assert_allclose(whole, cut, rtol=1e-12)
    for name in ("theta", "sizes", "order", "predictions", "unseen"):
        np.testing.assert_allclose(getattr(mixtures[0], name), getattr(mixtures[1], name), rtol=1e-9, err_msg=name)


def test_signals_are_read_and_favored_in_the_same_way_in_blocks(problem):
    _, clustering, values = problem
    gaps = np.where(np.arange(clustering.n) % 10 == 3, np.nan, values)
    signals = {"gaps": gaps, "negative": -values, "class": np.where(values > 1, "a", "b")}
    frame = Frame(clustering.n, np.zeros(0), np.arange(0, clustering.n, 9))
    tables, plans = [], []
    for block in (10**9, 128):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(columns, "BLOCK", block)
            tables.append(signal_table(signals, clustering.n))
            plans.append(cs.pilots.Informed().plan(clustering, replace(frame, signals=tables[-1]), 300))
    assert tables[0] == tables[1]
    filled = np.where(np.isnan(gaps), np.nanmedian(gaps), gaps)
    np.testing.assert_array_equal(tables[1].columns[:, 0], filled)
    np.testing.assert_array_equal(tables[1].columns[:, 1], np.isnan(gaps))
    assert tables[1].sizes.tolist() == [True, False, False, False, False]
    np.testing.assert_allclose(plans[0].inclusion, plans[1].inclusion, rtol=1e-9)
    np.testing.assert_allclose(plans[0].share, plans[1].share, rtol=1e-9)
    np.testing.assert_array_equal(plans[0].order, plans[1].order)
    order, ends = by_cluster(clustering.labels, clustering.k + 1)
    np.testing.assert_array_equal(order, np.argsort(clustering.labels, kind="stable"))
    np.testing.assert_array_equal(ends, np.cumsum(np.bincount(clustering.labels, minlength=clustering.k + 1)))


@pytest.mark.parametrize("labels", [np.array(["b", "a", "c"]), np.array([7, -2, 0]), np.array([0.5, -0.0, 0.0])])
def test_classes_are_numbered_and_clustered_in_the_same_way_in_blocks(problem, labels):
    rows = problem[0]
    classes = labels[np.random.default_rng(0).integers(3, size=len(rows))]
    first = list(dict.fromkeys(classes.tolist()))
    whole, cut = {}, {}
    for block, results in ((10**9, whole), (128, cut)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(columns, "BLOCK", block)
            results["codes"] = strata.encode(classes, cs.open_rows(rows))
            patch.setattr(strata, "HELD", 64)
            results["clustering"] = cs.cluster(rows, 12, strata=classes, seed=3)
            results["record"] = Frame(len(rows), strata=results["codes"]).record()
    assert cut["codes"].tolist() == [first.index(label) for label in classes.tolist()]
    np.testing.assert_array_equal(whole["codes"], cut["codes"])
    assert whole["clustering"] == cut["clustering"]
    assert whole["record"] == cut["record"]
    np.testing.assert_array_equal(cut["clustering"].classes(), cut["codes"])


def test_rows_for_the_components_are_the_first_of_a_permutation(small_blocks):
    expected = generator(7, Stream.COMPONENTS).permutation(20_000)[:10_000]
    np.testing.assert_array_equal(components._sampled(20_000, 7), np.sort(expected))


def test_a_selection_has_the_same_bytes_in_files(problem, monkeypatch):
    rows, _, values = problem
    options = {"exclude": np.arange(5), "given": [10, 11], "signals": {"noise": values[::-1].copy()}}
    for more in ({}, options, {"design": Poisson()}, {"score": cs.scores.Distance(), "design": Pivotal()}):
        expected = cs.select(rows, lambda ids: values[ids], 200, seed=2, **more)
        with monkeypatch.context() as patch:
            patch.setattr(scratch, "IN_MEMORY", 0)
            assert cs.select(rows, lambda ids: values[ids], 200, seed=2, **more) == expected


def test_a_selection_in_many_blocks_has_the_same_rows(problem, small_blocks):
    rows, _, values = problem
    cut = cs.select(rows, lambda ids: values[ids], 200, seed=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "BLOCK", 10**9)
        whole = cs.select(rows, lambda ids: values[ids], 200, seed=2)
    np.testing.assert_array_equal(cut.ids, whole.ids)
    np.testing.assert_allclose(cut.weights, whole.weights, rtol=1e-9)


@pytest.mark.parametrize("signals", [False, True])
def test_bytes_do_not_depend_on_the_threads_of_linear_algebra(signals):
    """With more than 10,000 numbers, OpenBLAS adds up products in several threads, and so in another order."""
    rng = np.random.default_rng(0)
    rows, losses = rng.normal(size=(40_000, 4)).astype(np.float32), rng.exponential(size=40_000)
    options = {"signals": {"a": losses**2, "b": rng.exponential(size=40_000)}} if signals else {}
    clusters, selections = cs.cluster(rows, 20), []
    for count in (1, 2, 3):
        with threadpool_limits(count, user_api="blas"):
            picked = cs.select(rows, losses, 400, clusters=clusters, **options)
            selections.append((picked, cs.grow(picked, losses, 500, rows=rows, clusters=clusters, **options)))
    assert selections[0] == selections[1] == selections[2]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["few clusters", "many clusters", "without losses", "signals", "classes"])
def test_memory_does_not_grow_with_the_rows(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "BLOCK", 2_048)
    monkeypatch.setattr(scratch, "IN_MEMORY", 2**12)
    monkeypatch.setattr(base, "block_length", lambda d: 256)
    # Up to 50 times the sample, NumPy shuffles the numbers of all rows to draw one.
    monkeypatch.setattr(clustering, "SMALLEST_SAMPLE", 256)
    monkeypatch.setattr(clustering, "SAMPLE_PER_CENTER", 4)
    monkeypatch.setattr(strata, "HELD", 2**13)
    rng, peaks = np.random.default_rng(0), []
    few, many = (40_000, 100_000) if kind == "classes" else (70_000, 210_000)
    for n in (few, few, many):  # the first run loads libraries
        np.save(tmp_path / "rows.npy", rng.normal(size=(n, 3)).astype(np.float32))
        options = {
            "losses": None if kind == "without losses" else np.sqrt,
            "budget": 3_000 if kind == "many clusters" else 100,
            "signals": rng.exponential(size=n) if kind == "signals" else None,
            "strata": rng.integers(3, size=n) if kind == "classes" else None,
        }
        tracemalloc.start()
        try:
            cs.select(tmp_path / "rows.npy", engine=cs.engines.Local(1), **options)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[2] - peaks[1] < many - few  # one byte per row


def mapped():
    return sum("(deleted)" in line for line in Path("/proc/self/maps").read_text().splitlines())


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc to see what is mapped")
def test_a_file_has_no_name_and_goes_with_its_array(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "IN_MEMORY", 100)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gc.collect()
    before = mapped()
    array = scratch.empty((50, 2), np.float64)
    array[:] = 1.5
    assert array.sum() == 150
    assert mapped() == before + 1
    assert not list(tmp_path.iterdir())
    view = array[3:, 1]
    del array
    assert view.sum() == 47 * 1.5
    del view
    assert mapped() == before
    small = scratch.empty(12, np.float64)
    assert small.flags.owndata
    assert mapped() == before


def test_values_share_read_only_files_of_our_own_and_copy_all_others(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "IN_MEMORY", 0)
    ours = stored(4, lambda rows: 0.5)
    order = np.arange(4)
    assert PilotPlan(ours, ours, order, keep=True, origin="pilot").share is ours
    writable = scratch.copied(ours, np.float64)
    plan = PilotPlan(writable, ours, order, keep=True, origin="pilot")
    writable[0] = 1.0
    assert plan.inclusion[0] == 0.5
    np.save(tmp_path / "share.npy", np.full(4, 0.5))
    theirs = np.load(tmp_path / "share.npy", mmap_mode="r")
    kept_share = PilotPlan(ours, theirs, order, keep=True, origin="pilot").share
    np.load(tmp_path / "share.npy", mmap_mode="r+")[0] = 0.25
    assert theirs[0] == 0.25
    assert kept_share[0] == 0.5


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system cannot reserve room")
def test_a_full_disk_is_told_before_it_is_written_to(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr(scratch, "IN_MEMORY", 0)
    with pytest.raises(cs.CoresiftError, match=r"no room for one of 800 MB \(No space left on device\); set TMPDIR"):
        scratch.empty(10**8, np.float64)


def test_a_column_computes_what_is_wanted():
    asked = []

    def squares(rows):
        asked.append(rows)
        return np.arange(10.0)[rows] ** 2

    column = Column(10, squares)
    assert len(column) == 10
    assert column.then(np.sqrt).divided(2.0)[4:6].tolist() == [2.0, 2.5]
    assert asked == [slice(4, 6)]


@pytest.mark.parametrize(
    "score",
    [
        cs.scores.Sensitivity(holder=0.3),
        cs.scores.Sensitivity(holder=np.inf),
        cs.scores.Mixture(),
        cs.scores.Distance(power=2.0, holder=np.arange(12.0)),
        cs.scores.Learned(),
        cs.scores.LeverageMixture(),
    ],
    ids=repr,
)
def test_scores_are_the_same_in_blocks(problem, score):
    _, clustering, values = problem
    frame = Frame(clustering.n)
    plan = cs.pilots.Representatives().plan(clustering, frame, 300)
    ids = np.flatnonzero(plan.inclusion > np.random.default_rng(1).random(clustering.n))
    evidence = Evidence(clustering, frame, PilotSample(ids, plan), values[ids], values)
    whole = score.scores(evidence)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "BLOCK", 128)
        cut = score.scores(evidence)
    np.testing.assert_allclose(whole.sizes, cut.sizes, rtol=1e-12)
    np.testing.assert_array_equal(whole.order, cut.order)
