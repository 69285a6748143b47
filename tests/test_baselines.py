"""Every baseline keeps the promises of a selection, and equals a slow, obvious twin."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from enumeration import samples
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from reference import distance

import coresift as cs
from coresift.baselines import METHODS, duplicates, geometric
from coresift.baselines.lewis import lewis_weights
from coresift.baselines.making import begin
from coresift.baselines.sketching import places_and_signs, random_directions, sketched_scores
from coresift.engine import SerialWorkers
from coresift.leverage import leverage_scores
from coresift.rows import base

N = 400
WEIGHTED = {
    "uniform",
    "deduplicated",
    "cluster-stratified",
    "length-matched",
    "leverage",
    "leverage-sketched",
    "ridge-leverage",
    "lewis",
}
ASKING = {"margin", "least-confidence", "entropy", "badge"}
RANDOM = WEIGHTED | {"badge", "k-center", "diversity"}
every = pytest.mark.parametrize("name", METHODS)
asking = pytest.mark.parametrize("name", sorted(ASKING))


def options_for(name, n):
    rng = np.random.default_rng(5)
    if name in ASKING:
        return {"probabilities": rng.dirichlet(np.ones(4), size=n)}
    return {"lengths": rng.integers(3, 90, size=n)} if name == "length-matched" else {}


def run(name, rows, budget, **options):
    n = len(rows) if isinstance(rows, np.ndarray) else cs.open_rows(rows).n
    return METHODS[name](rows, budget, **options_for(name, n) | options)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(8)
    return (rng.normal(size=(8, 4)) * 3)[rng.integers(8, size=N)] + rng.normal(size=(N, 4))


# ------------------------------------------------------------------ the contract


@every
def test_the_signature_is_the_same(name):
    parameters = inspect.signature(METHODS[name]).parameters
    assert list(parameters)[:5] == ["rows", "budget", "seed", "given", "exclude"]
    assert list(parameters)[-2:] == ["engine", "progress"]
    assert all(one.kind is inspect.Parameter.KEYWORD_ONLY for one in list(parameters.values())[2:])
    assert parameters["seed"].default == 0
    assert name.replace("-", "_") == METHODS[name].__name__
    assert getattr(cs.baselines, METHODS[name].__name__) is METHODS[name]
    text = inspect.getdoc(METHODS[name])
    assert "Cost" in text
    assert "emory" in text
    assert ">>>" in text


@every
def test_size_distinctness_weights_and_ledger(name, rows):
    picked = run(name, rows, 60, seed=1)
    assert len(picked) == len(set(picked.ids.tolist())) == 60
    assert isinstance(picked, cs.WeightedSelection) == (name in WEIGHTED)
    assert picked.provenance.job == name
    assert picked.ledger.asked == (N if name in ASKING else 0)
    assert sorted(picked.order.tolist()) == list(range(60))
    assert (picked.n, picked.population, picked.seed) == (N, N, 1)
    if not isinstance(picked, cs.WeightedSelection):
        with pytest.raises(cs.InputError, match="no weights"):
            cs.estimate(picked, np.ones(60))
    else:
        assert np.all(picked.multiplicity == 1)
        np.testing.assert_allclose(picked.weights, 1 / picked.inclusion)
        total = cs.estimate(picked, np.ones(60)).total
        assert total.value == pytest.approx(N, rel=0.35)
        assert abs(total.value - N) < 4 * total.standard_error + 1e-9 * N


@pytest.mark.slow
@every
def test_the_seed_decides_and_nothing_else(name, rows):
    first, again, other = (run(name, rows, 60, seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert (first.ids.tolist() != other.ids.tolist()) == (name in RANDOM)


@every
def test_given_rows_come_out_and_excluded_ones_do_not(name, rows):
    given, excluded = [3, 250, 7], [5, 251, 399, 0]
    picked = run(name, rows, 60, seed=5, given=given, exclude=excluded)
    place = np.searchsorted(picked.ids, np.sort(given))
    np.testing.assert_array_equal(picked.ids[place], np.sort(given))
    assert np.all(picked.origin[place] == 0)
    assert np.all(picked.origin[np.setdiff1d(np.arange(60), place)] == 3)
    assert not set(excluded) & set(picked.ids.tolist())
    assert (len(picked), picked.population) == (60, N - 4)
    if isinstance(picked, cs.WeightedSelection):
        assert np.all(picked.weights[place] == 1)


# Their clusters and lengths are those of all rows.
SEE_ALL = {"cluster-stratified", "length-matched"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(METHODS.keys() - SEE_ALL))
def test_excluded_rows_might_as_well_not_be_there(name, rows):
    """Only methods that draw by chance, or cluster with the seed, may see other random numbers."""
    options = options_for(name, N)
    less = {key: value[50:] for key, value in options.items()}
    wild = np.concatenate([1e3 * rows[:50], rows[50:]])
    picked = METHODS[name](wild, 40, exclude=np.arange(50), **options)
    other = METHODS[name](np.ascontiguousarray(rows[50:]), 40, **less)
    if name == "leverage-sketched":  # its random numbers are those of places in the block of rows that are left
        np.testing.assert_allclose(picked.inclusion.sum(), other.inclusion.sum())
    np.testing.assert_array_equal(np.isin(picked.ids - 50, other.ids), True)


@every
def test_a_loaded_file_is_equal(name, rows, tmp_path):
    picked = run(name, rows, 30, given=[2])
    for suffix in ("parquet", "csv", "jsonl"):
        assert cs.load(cs.save(picked, tmp_path / f"picked.{suffix}")) == picked


@every
def test_the_tables_own_ids_come_along(name, rows):
    table = pa.table({"id": [f"row {i}" for i in range(N)], "embedding": rows.tolist()})
    picked = run(name, table, 20)
    assert list(picked.names) == [f"row {i}" for i in picked.ids]


@every
def test_all_rows_come_out_when_the_budget_allows(name, rows):
    few = rows[:25]
    exactly = run(name, few, 25)
    with pytest.warns(cs.CoresiftWarning, match="only 25 rows to choose from: all of them are selected"):
        more = run(name, few, 40)
    for picked in (exactly, more):
        assert picked.ids.tolist() == list(range(25))
        if name != "deduplicated" and isinstance(picked, cs.WeightedSelection):
            np.testing.assert_allclose(picked.weights, 1)
    picked = run(name, few, 25, given=np.arange(25))
    assert picked.ids.tolist() == list(range(25))
    assert isinstance(picked, cs.WeightedSelection) == (name in WEIGHTED)


@every
def test_equal_rows_are_no_problem(name):
    """Whoever finds that all rows are alike still fills the budget, except the one that removes duplicates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.CoresiftWarning)
        for values in (np.ones((50, 3)), np.zeros((50, 3))):
            picked = run(name, values, 10)
            assert len(picked) == (1 if name == "deduplicated" else 10)
            assert not isinstance(picked, cs.WeightedSelection) or np.all(np.isfinite(picked.weights))


@pytest.mark.slow
@every
def test_threads_and_files_do_not_matter(name, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "block_length", lambda d: 512)
    rng = np.random.default_rng(2)
    rows = (rng.normal(size=(9, 32))[rng.integers(9, size=3_000)] + rng.normal(size=(3_000, 32))).astype(np.float16)
    assert len(list(cs.open_rows(rows).blocks())) > 2
    options = {"budget": 30, **({"reference": 300} if name == "kernel-herding" else {})}
    np.save(tmp_path / "rows.npy", rows)
    contents = []
    for threads, source in ((1, rows), (2, rows.astype(np.float32)), (5, tmp_path / "rows.npy")):
        picked = run(name, source, engine=cs.engines.Local(threads), **options)
        contents.append(cs.save(picked, tmp_path / "picked.parquet").read_bytes())
    assert contents[0] == contents[1] == contents[2]


@every
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"budget": 0}, "budget must be a whole number of at least 1; got 0."),
        ({"budget": 2.5}, "budget must be a whole number of at least 1; got 2.5."),
        ({"budget": 2, "given": [1, 2]}, "budget must be more than the 2 given rows"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"given": [N]}, "given must be row numbers from 0 to 399; got 400."),
        ({"given": [1], "exclude": [1]}, "Row 1 is both given and excluded"),
        ({"exclude": np.arange(N)}, "exclude leaves no row to select."),
        ({"rows": "nowhere.npy"}, "There is no file nowhere.npy."),
    ],
    ids=lambda value: str(value)[:24],
)
def test_bad_arguments_get_one_sentence(name, rows, options, sentence):
    arguments = {"rows": rows, "budget": 10, **options_for(name, N), **options}
    with pytest.raises(cs.InputError) as caught:
        METHODS[name](**arguments)
    assert sentence in str(caught.value)


@every
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_rows_that_cannot_be_used_are_named_by_those_who_read_them(name, value):
    rows = np.random.default_rng(0).normal(size=(60, 3))
    rows[17, 1] = value
    reads = name not in {"uniform", "length-matched", "margin", "least-confidence", "entropy"}
    exact = name in {"leverage", "leverage-sketched", "ridge-leverage", "lewis", "deduplicated"}
    if not reads or (value == 1e30 and exact):  # in double precision 1e30 is a number like any other
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cs.CoresiftWarning)
            if reads and name == "deduplicated":
                assert len(run(name, rows, 5, near=0.0)) == 5
            else:
                assert len(run(name, rows, 5)) == 5
        return
    with pytest.raises(cs.InputError, match="row 17"):
        run(name, rows, 5)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("length-matched", {"lengths": None}, "lengths must be a length or a text for each of 400 rows; got none."),
        ("length-matched", {"lengths": [1, 2]}, "lengths must be 400 numbers, one per row; got shape (2,)."),
        ("length-matched", {"lengths": -np.ones(N)}, "lengths must be numbers of at least 0; got -1.0."),
        ("length-matched", {"like": []}, "like must be a Selection or row numbers, at least one; got none."),
        ("deduplicated", {"near": -1}, "near must be a finite number of at least 0; got -1."),
        ("cluster-stratified", {"clusters": 0}, "clusters must be a whole number of at least 1; got 0."),
        ("k-center", {"normalize": "yes"}, "normalize must be True or False; got 'yes'."),
        ("kernel-herding", {"bandwidth": 0}, "bandwidth must be a finite number above 0; got 0."),
        ("kernel-herding", {"reference": 0}, "reference must be a whole number of at least 1; got 0."),
        ("ridge-leverage", {"ridge": -2}, "ridge must be a finite number above 0; got -2."),
        ("leverage", {"design": cs.designs.Poisson}, "design must be one of coresift's designs"),
        ("leverage-sketched", {"sketch": 1}, "sketch must be a whole number of at least 2; got 1."),
        ("lewis", {"tolerance": 0}, "tolerance must be a finite number above 0; got 0."),
    ],
    ids=lambda value: str(value)[:24],
)
def test_bad_options_get_one_sentence(name, rows, options, sentence):
    with pytest.raises(cs.InputError) as caught:
        run(name, rows, 10, **options)
    assert sentence in str(caught.value)


@asking
@pytest.mark.parametrize(
    ("probabilities", "sentence"),
    [
        (None, "probabilities must be an array with a line per row and a column per class"),
        (np.ones((3, 2)) / 2, "must be 400 lines, one per row, with a column per class; got shape (3, 2)."),
        (np.ones((N, 1)), "with at least two classes"),
        (np.ones((N, 2)), "probabilities must be at least 0 and sum to 1 for each row; row 0 has [1. 1.]."),
        (np.full((N, 2), np.nan), "row 0 has [nan nan]."),
        (lambda ids: ["a"], "probabilities must be numbers, a line per row; got list."),
        (lambda ids: np.ones((len(ids), 2 + ids[0] % 2)) / (2 + ids[0] % 2), "the same classes for all rows"),
        (lambda ids: 1 / 0, "The callable for probabilities failed on 101 rows, the first of them row 0"),
    ],
    ids=range(8),
)
def test_bad_probabilities_get_one_sentence(name, rows, probabilities, sentence):
    with pytest.raises(cs.CoresiftError) as caught:
        run(name, rows, 10, probabilities=probabilities, batch=101)
    assert sentence in str(caught.value)


@asking
def test_a_callable_is_asked_once_about_every_row_that_may_matter(name, rows):
    table, asked = options_for(name, N)["probabilities"], []

    def answer(ids):
        asked.append(ids.copy())
        ids[:] = 0  # its own copy
        return table[asked[-1]]

    picked = run(name, rows, 20, probabilities=answer, batch=64, given=[9], exclude=[4])
    together = np.concatenate(asked)
    assert max(map(len, asked)) == 64
    assert together.tolist() == [i for i in range(N) if i != 4 and (name == "badge" or i != 9)]
    assert picked.ledger.asked == together.size
    assert picked == run(name, rows, 20, given=[9], exclude=[4])


# ------------------------------------------------------------------ unbiased weights


class Script:
    def __init__(self, numbers):
        self.numbers = numbers

    def random(self, size):
        return self.numbers.random(size)


@pytest.mark.slow
@pytest.mark.parametrize(
    "design", [cs.designs.Systematic(), cs.designs.Pivotal(), cs.designs.Independent(), cs.designs.Poisson()], ids=repr
)
@pytest.mark.parametrize("frame", [{}, {"given": [2]}, {"exclude": [0, 5]}, {"given": [1], "exclude": [4]}], ids=repr)
def test_every_outcome_of_a_draw_together_has_weight_one_a_row(design, frame):
    task = begin("any", np.zeros((7, 1)), 4, 0, frame.get("given"), frame.get("exclude"), None, False)
    order = np.random.default_rng(1).permutation(task.open)
    for sizes in (np.ones(7), np.array([5.0, 1, 1, 2, 0.1, 0.5, 1]), np.array([1.0, 0, 0, 0, 0, 0, 0])):
        if not (sizes[order] > 0).all() and design != cs.designs.Systematic():
            continue
        expected = np.zeros(7)
        for numbers, probability in samples(design, task._inclusion(sizes[order], design)):
            picked = replace(task, rng=Script(numbers)).draw(order, sizes[order], design=design)
            expected[picked.ids] += probability * picked.weights
        counted = np.isin(np.arange(7), task.counted)
        np.testing.assert_allclose(expected, counted, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WEIGHTED))
def test_the_mean_weight_of_every_row_is_one(name):
    """Over 300 seeds, by simulation; all 96 comparisons together fail by chance once in ten thousand runs."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(12, 2)).round(1)
    rows[[3, 4, 7]] = rows[2]
    options = {"deduplicated": {"near": 0.0}, "cluster-stratified": {"clusters": cs.cluster(rows, 2)}}.get(name, {})
    seeds = 300
    weights = np.zeros((seeds, 12))
    for seed in range(seeds):
        picked = run(name, rows, 5, seed=seed, given=[6], exclude=[9], engine=cs.engines.Local(1), **options)
        weights[seed, picked.ids] = picked.weights
    truth = np.ones(12)
    truth[9] = 0
    spread = weights.std(axis=0, ddof=1) / np.sqrt(seeds)
    assert np.all(np.abs(weights.mean(axis=0) - truth) <= 5.0 * spread + 1e-12)


def test_rows_without_leverage_never_come_out_and_are_warned_about():
    rows = np.concatenate([np.zeros((5, 2)), np.eye(2), np.eye(2), np.eye(2)])
    with pytest.warns(cs.CoresiftWarning, match="5 of 11 rows have probability 0 under leverage"):
        assert cs.baselines.leverage(rows, 4).ids.min() >= 5
    picked = cs.baselines.leverage(rows, 8)
    assert set(range(5, 11)) <= set(picked.ids.tolist())
    assert sorted(picked.weights.tolist()) == [1.0] * 6 + [2.5] * 2


# ------------------------------------------------------------------ random rows


def plain_groups(rows, radius):
    """One row after the other joins the first leader within the radius, or leads."""
    leaders, groups = [], []
    for i, row in enumerate(rows):
        close = [j for j in leaders if distance(row, rows[j]) <= radius]
        groups.append(close[0] if close else i)
        leaders += [] if close else [i]
    return groups


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [3, 1024])
def test_near_duplicates_are_those_of_plain_loops(monkeypatch, chunk):
    monkeypatch.setattr(duplicates, "CHUNK", chunk)
    monkeypatch.setattr(duplicates, "TILE", max(2, chunk - 1))
    rows = np.random.default_rng(3).normal(size=(150, 2)).astype(np.float32) + 50
    rows[100:120] = rows[:20]
    rows[3] = rows[4] = 0.0
    rows[4] *= -1
    for near in (0.0, 0.05, 0.3):
        first = [i for i in range(150) if not any(np.array_equal(rows[i], rows[j]) for j in range(i))]
        distinct = rows[first].astype(float)
        spread = np.sqrt(((distinct - distinct.mean(0)) ** 2).sum(1).mean())
        expected = plain_groups(rows, near * spread)
        task = begin("any", rows, 10, 0, None, None, None, False)
        found = duplicates.group_duplicates(task, task.rows, near)
        assert np.array(sorted(set(expected)))[found].tolist() == expected


def test_deduplicated_rows_stand_for_their_groups():
    rows = np.repeat(np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 4 + 1, axis=0)
    group = np.repeat(np.arange(40), np.arange(40) % 4 + 1)
    picked = cs.baselines.deduplicated(rows, 20, seed=2)
    assert len(set(group[picked.ids].tolist())) == 20
    np.testing.assert_allclose(picked.weights, 40 / 20 * np.bincount(group)[group[picked.ids]])
    with pytest.warns(cs.CoresiftWarning, match="only 40 are left without duplicates"):
        picked = cs.baselines.deduplicated(rows, 60)
    np.testing.assert_allclose(picked.weights, np.bincount(group)[group[picked.ids]])


def test_strata_get_their_part_of_the_budget(rows):
    clustering = cs.cluster(rows, 7, seed=1)
    picked = cs.baselines.cluster_stratified(rows, 60, clusters=clustering)
    counts = np.bincount(clustering.labels[picked.ids], minlength=7)
    assert np.all(np.abs(counts - 60 * clustering.sizes / N) < 1)
    np.testing.assert_allclose(picked.weights, (clustering.sizes / counts)[clustering.labels[picked.ids]])
    np.testing.assert_array_equal(picked.clusters, clustering.labels[picked.ids])
    with pytest.raises(cs.InputError, match="other rows"):
        cs.baselines.cluster_stratified(rows[1:], 60, clusters=clustering)


def test_lengths_are_spread_like_those_of_all_rows_or_of_others(rows):
    lengths = np.random.default_rng(1).lognormal(3, 1, size=N)
    picked = cs.baselines.length_matched(rows, 40, lengths=lengths)
    rank = np.argsort(np.argsort(lengths))
    assert sorted(rank[picked.ids] // 10) == list(range(40))
    longest = np.argsort(lengths)[-100:]
    alike = cs.baselines.length_matched(rows, 40, lengths=lengths, like=longest)
    assert not isinstance(alike, cs.WeightedSelection)
    tenth = rank // 40
    wanted = np.bincount(tenth[longest], minlength=10) * 0.4
    assert np.all(np.abs(np.bincount(tenth[alike.ids], minlength=10) - wanted) <= 1)
    again = cs.baselines.length_matched(rows, 40, lengths=lengths, like=alike)
    np.testing.assert_array_equal(np.bincount(tenth[again.ids]), np.bincount(tenth[alike.ids]))
    with pytest.warns(cs.CoresiftWarning, match="80 others are of any length"):
        assert len(cs.baselines.length_matched(rows, 120, lengths=lengths, like=longest[-5:])) == 120


# ------------------------------------------------------------------ rows that cover the space


def plain_k_center(rows, budget, chosen):
    chosen = list(chosen)
    while len(chosen) < budget:
        away = [min(distance(row, rows[j]) for j in chosen) for row in rows]
        chosen.append(away.index(max(away)))
    return chosen


@pytest.mark.slow
@pytest.mark.parametrize("at_hand", [1, 5, 1024])
@pytest.mark.parametrize("given", [[], [3, 60, 100]])
def test_k_center_is_that_of_plain_loops(monkeypatch, at_hand, given):
    monkeypatch.setattr(geometric, "AT_HAND", at_hand)
    rows = np.random.default_rng(6).normal(size=(130, 3)).astype(np.float32) + 100
    first = given or [int(np.random.default_rng([2, 8]).integers(130))]
    expected = plain_k_center(rows, 25, first)
    picked = cs.baselines.k_center(rows, 25, seed=2, given=given or None)
    drawn = picked.origin == 3
    assert picked.ids[drawn][np.argsort(picked.order[drawn])].tolist() == expected[len(given) :]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@for_all(st.data())
def test_k_center_on_a_grid_covers_as_well_as_plain_loops(data):
    """With many ties the choices may differ, and the radius is within twice the other's."""
    n = data.draw(st.integers(2, 30))
    rows = np.array(data.draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=n, max_size=n)), float)
    budget = data.draw(st.integers(2, n))
    picked = cs.baselines.k_center(rows, budget, given=[0])
    expected = plain_k_center(rows, budget, [0])

    def radius(ids):
        return max(min(distance(row, rows[j]) for j in ids) for row in rows)

    assert len(picked) == budget
    assert radius(picked.ids) <= 2 * radius(expected) + 1e-6


@pytest.mark.slow
def test_diversity_takes_the_row_nearest_to_each_center(rows):
    picked = cs.baselines.diversity(rows, 30, seed=3)
    centers = cs.cluster(rows, 30, seed=3).free_centers
    away = np.array([[distance(row, center) for center in centers] for row in rows])
    labels = away.argmin(axis=1)
    expected = [min(np.flatnonzero(labels == j), key=lambda i, j=j: away[i, j]) for j in range(30)]
    assert picked.ids.tolist() == sorted(expected)


def plain_herding(rows, budget, width, chosen, reference):
    chosen = list(chosen)

    def kernel(a, b):
        return np.exp(-(distance(a, b) ** 2) / (2 * width**2))

    mean = [np.mean([kernel(row, rows[j]) for j in reference]) for row in rows]
    while len(chosen) < budget:
        score = [mean[i] - sum(kernel(rows[i], rows[j]) for j in chosen) / (len(chosen) + 1) for i in range(len(rows))]
        chosen.append(max((i for i in range(len(rows)) if i not in chosen), key=lambda i: score[i]))
    return chosen


@pytest.mark.slow
@pytest.mark.parametrize("given", [[], [3, 60]])
def test_kernel_herding_is_that_of_plain_loops(given):
    rows = np.random.default_rng(10).normal(size=(90, 3)).astype(np.float32) - 30
    gaps = [distance(rows[i], rows[j]) for i in range(90) for j in range(i)]
    for width, reference in ((0.7, 90), (None, 90), (0.7, 30)):
        rng = np.random.default_rng([1, 8])
        rng.permutation(90)
        many = rng.permutation(90)[:reference]
        picked = cs.baselines.kernel_herding(
            rows, 20, seed=1, given=given or None, bandwidth=width, reference=reference
        )
        drawn = picked.origin == 3
        expected = plain_herding(rows, 20, width or np.median(gaps), given, many)[len(given) :]
        assert picked.ids[drawn][np.argsort(picked.order[drawn])].tolist() == expected


# ------------------------------------------------------------------ rows of which a model is not sure


@pytest.mark.parametrize("name", ["margin", "least-confidence", "entropy"])
def test_uncertainty_is_that_of_plain_loops(name):
    table = np.random.default_rng(3).dirichlet([0.3, 0.3, 0.3], size=80)
    table[5] = [1.0, 0.0, 0.0]

    def unsure(p):
        first, second = sorted(p, reverse=True)[:2]
        if name == "entropy":
            return -sum(x * np.log(x) for x in p if x > 0)
        return second - first if name == "margin" else 1 - first

    expected = sorted(range(80), key=lambda i: -unsure(table[i]))[:12]
    picked = METHODS[name](np.zeros((80, 1)), 12, probabilities=table)
    assert picked.ids[np.argsort(picked.order)].tolist() == expected


def test_equally_unsure_rows_come_in_random_order():
    table = np.full((50, 2), 0.5)
    table[:25] = [1.0, 0.0]
    picks = [set(cs.baselines.margin(np.zeros((50, 1)), 10, seed=seed, probabilities=table).ids) for seed in range(5)]
    assert all(min(pick) >= 25 for pick in picks)
    assert len(set().union(*picks)) > 10


@pytest.mark.parametrize("given", [[], [3, 60]])
def test_badge_is_that_of_plain_loops(given):
    rng = np.random.default_rng(12)
    rows, table = rng.normal(size=(70, 4)).astype(np.float32), rng.dirichlet(np.ones(3), size=70)
    gradients = []
    for row, p in zip(rows, table, strict=True):
        wrong = [p[c] - (c == int(np.argmax(p))) for c in range(3)]
        gradients.append([w * float(x) for w in wrong for x in row])
    numbers, chosen = np.random.default_rng([7, 8]), list(given)
    if not chosen:
        chosen.append(max(range(70), key=lambda i: distance(gradients[i], np.zeros(12))))
    while len(chosen) < 25:
        away = [
            0 if i in chosen else min(distance(g, gradients[j]) ** 2 for j in chosen) for i, g in enumerate(gradients)
        ]
        allowed = [i for i in range(70) if i not in given]
        spot, reached = numbers.random() * sum(away), 0.0
        for i in allowed:
            reached += away[i]
            if reached > spot:
                chosen.append(i)
                break
    picked = cs.baselines.badge(rows, 25, seed=7, given=given or None, probabilities=table)
    drawn = picked.origin == 3
    assert picked.ids[drawn][np.argsort(picked.order[drawn])].tolist() == chosen[len(given) :]


# ------------------------------------------------------------------ rows that matter for regression


def plain_inclusion(sizes, count):
    """Certain rows are taken off one after the other until c·size is below 1 for all others."""
    certain = []
    while True:
        rest = [i for i in range(len(sizes)) if i not in certain]
        factor = (count - len(certain)) / sum(sizes[i] for i in rest)
        largest = max(rest, key=lambda i: sizes[i])
        if factor * sizes[largest] < 1:
            return np.array([1.0 if i in certain else factor * sizes[i] for i in range(len(sizes))])
        certain.append(largest)


@pytest.fixture(scope="module")
def matrix():
    rng = np.random.default_rng(20)
    made = rng.standard_t(2, size=(120, 5)).astype(np.float32) * [1, 10, 1e3, 1e-3, 1]
    made[:, 4] = made[:, 0]  # a copy adds no direction
    return made.astype(np.float32)


def test_leverage_is_that_of_scipys_qr(matrix):
    from scipy.linalg import qr

    basis = qr(matrix[:, :4].astype(float), mode="economic")[0]
    expected = plain_inclusion((basis**2).sum(axis=1), 30)
    picked = cs.baselines.leverage(matrix, 30)
    np.testing.assert_allclose(picked.inclusion, expected[picked.ids], rtol=1e-6)


def test_ridge_leverage_is_that_of_plain_algebra(matrix):
    wide = matrix.astype(float)
    for ridge in (None, 40.0):
        used = ridge or (wide**2).sum() / 30
        inverse = np.linalg.inv(wide.T @ wide + used * np.eye(5))
        scores = [float(row @ inverse @ row) for row in wide]
        assert ridge or sum(scores) <= 30
        picked = cs.baselines.ridge_leverage(matrix, 30, ridge=ridge)
        np.testing.assert_allclose(picked.inclusion, plain_inclusion(scores, 30)[picked.ids], rtol=1e-4)


def test_lewis_weights_are_the_fixed_point(matrix):
    wide = matrix[:, :4].astype(float) / np.linalg.norm(matrix[:, :4], axis=0)
    weights = np.ones(120)
    for _ in range(60):
        inverse = np.linalg.inv(sum(np.outer(row, row) / w for row, w in zip(wide, weights, strict=True)))
        weights = np.array([np.sqrt(row @ inverse @ row) for row in wide])
    found = lewis_weights(cs.open_rows(matrix), 1e-9, SerialWorkers())
    np.testing.assert_allclose(found, weights, rtol=1e-5)
    assert found.sum() == pytest.approx(4)
    picked = cs.baselines.lewis(matrix, 30)
    np.testing.assert_allclose(picked.inclusion, plain_inclusion(weights, 30)[picked.ids], rtol=5e-3)


def test_sketched_leverage_is_that_of_the_whole_sketch():
    rows = np.random.default_rng(2).normal(size=(90, 6)).astype(np.float32)
    places, signs = places_and_signs(0, 90, 24, 3)
    sketch = np.zeros((24, 90))
    for i in range(90):
        for line, sign in zip(places[i], signs[i], strict=True):
            sketch[line, i] += sign
    made = sketch @ rows.astype(float)
    inverse = np.linalg.inv(made.T @ made)
    found = sketched_scores(cs.open_rows(rows), 24, 100, 3, SerialWorkers())
    np.testing.assert_allclose(found, [row @ inverse @ row for row in rows.astype(float)], rtol=1e-6)


def test_random_directions_keep_lengths_on_average():
    """A mean of 4,000 lengths with relative spread √(2/16) each is off by 3 % once in a hundred thousand runs."""
    x = np.arange(1.0, 6.0)
    lengths = [((x @ random_directions(5, 16, seed)) ** 2).sum() for seed in range(4_000)]
    assert np.mean(lengths) == pytest.approx((x**2).sum(), rel=0.03)


@pytest.mark.slow
def test_sketched_scores_are_mostly_within_a_factor_of_two():
    rng = np.random.default_rng(2)
    rows = (rng.normal(size=(20_000, 80)) * rng.lognormal(0, 1, size=(20_000, 1))).astype(np.float32)
    exact = leverage_scores(rows)
    ratio = sketched_scores(cs.open_rows(rows), 8 * 80, 64, 0, SerialWorkers()) / exact
    assert np.mean((ratio > 0.5) & (ratio < 2)) > 0.95
    assert ratio.min() > 0.25
    assert ratio.max() < 4


def test_other_designs_may_draw(matrix):
    picked = cs.baselines.leverage(matrix, 30, design=cs.designs.Independent())
    assert picked.multiplicity.sum() == 30
    assert picked.phases == (None, cs.designs.Independent())
    np.testing.assert_allclose(picked.weights, picked.multiplicity / picked.inclusion)
