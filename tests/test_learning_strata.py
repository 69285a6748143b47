"""Random rows make up for the choice of the others: quotas, draws, strata, and runs that use them."""

import numpy as np
import pytest

import coresift as cs
from coresift.engine import Local
from coresift.learning.steps import Task
from coresift.learning.strata import LABELS_PER_CLUSTER, MOST_CLUSTERS, PARTS, Strata
from coresift.progress import Progress
from coresift.rows import open_rows

CLASSES = ["a", "b", "c"]


def strata_of(x, budget=800, seed=0, threads=1):
    """Return the strata of rows."""
    with Local(threads=threads).open(Progress()) as workers:
        return Strata.of(open_rows(x), budget, np.random.default_rng(seed), workers, Progress())


def some_strata(seed, clusters=4, n=2000):
    """Return strata of different sizes, one of them empty, and the rows that are free: few in some strata."""
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.ones(PARTS * clusters))
    chances[3] = 0
    strata = Strata(rng.choice(chances.size, n, p=chances / chances.sum()), clusters)
    taken = rng.random(n) < rng.choice([0.01, 0.1, 0.6], chances.size)[strata.numbers]
    return strata, np.flatnonzero(~taken), rng


def missing_one_by_one(sizes, taken, clusters, count):
    """Return the quotas of `Strata.missing`, with loops."""
    rate = (sum(taken) + count) / sum(sizes)
    lacking = [size * rate - have for size, have in zip(sizes, taken, strict=True)]
    wanted = [0.0] * len(sizes)
    for part in range(PARTS):
        members = range(part * clusters, (part + 1) * clusters)
        in_all = sum(lacking[member] for member in members)
        positive = sum(max(lacking[member], 0) for member in members)
        for member in members:
            if in_all > 0 and lacking[member] > 0:
                wanted[member] = lacking[member] * in_all / positive
    return [count * value / sum(wanted) for value in wanted]


def uneven(n=3000, d=30, seed=0):
    """Rows of which a third are close together, so that coverage takes few of them; labels say nothing about rows."""
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(n, d)) * rng.choice([0.2, 1], (n, 1), p=[0.35, 0.65])).astype(np.float32)
    return x, rng.choice(CLASSES, n).astype(object)


def all_asked(x, y, budget=800, **options):
    """Return the course of a run that was answered to its end."""
    defaults = {
        "rounds": 5,
        "head": None,
        "probabilities": None,
        "numeric": False,
        "classes": None,
        "audit": "auto",
        "given": {},
        "exclude": None,
        "seed": 0,
        "engine": Local(threads=1),
        "progress": False,
    }
    course = Task.of(x, budget, **{**defaults, **options}).begin()
    run = course.steps()
    request = next(run)
    try:
        while True:
            request = run.send(y[request.ids])
    except StopIteration:
        return course


@pytest.mark.parametrize("seed", range(8))
def test_quotas_are_those_counted_one_by_one(seed):
    strata, free, _ = some_strata(seed)
    sizes = np.bincount(strata.numbers, minlength=PARTS * strata.clusters)
    left = np.bincount(strata.numbers[free], minlength=sizes.size)
    for count in (1, 17, 300, free.size):
        quotas = strata.missing(sizes, sizes - left, count)
        expected = missing_one_by_one(sizes.tolist(), (sizes - left).tolist(), strata.clusters, count)
        np.testing.assert_allclose(quotas, expected, atol=1e-9)
        assert quotas.sum() == pytest.approx(count)
        assert (quotas <= left + 1e-9).all()
        assert quotas[3] == 0


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_draw_has_distinct_free_rows_and_the_quotas_up_to_one(seed, share):
    strata, free, rng = some_strata(seed)
    counted = np.ones(strata.numbers.size, np.bool_)
    sizes = np.bincount(strata.numbers, minlength=PARTS * strata.clusters)
    left = np.bincount(strata.numbers[free], minlength=sizes.size)
    for count in (1, 17, 300, free.size):
        drawn = strata.draw(count, counted, free, share, rng)
        assert drawn.size == count == len(set(drawn.tolist()))
        assert np.isin(drawn, free).all()
        expected = share * strata.missing(sizes, sizes - left, count) + (1 - share) * count * left / free.size
        differences = np.bincount(strata.numbers[drawn], minlength=sizes.size) - expected
        assert np.abs(differences).max() < 1 + 1e-9


def test_every_free_row_of_a_stratum_has_the_same_chance():
    # 4,000 draws; a chance of about .15 is off by 5 standard errors in one of 1,300 rows with a chance below .001.
    strata, free, rng = some_strata(3)
    counted = np.ones(strata.numbers.size, np.bool_)
    sizes = np.bincount(strata.numbers, minlength=PARTS * strata.clusters)
    left = np.bincount(strata.numbers[free], minlength=sizes.size)
    times, draws = np.zeros(strata.numbers.size), 4000
    for _ in range(draws):
        times[strata.draw(200, counted, free, 1.0, rng)] += 1
    chances = (strata.missing(sizes, sizes - left, 200) / np.maximum(left, 1))[strata.numbers[free]]
    errors = np.sqrt(chances * (1 - chances) / draws)
    assert (np.abs(times[free] / draws - chances) <= 5 * errors + 1e-12).all()


def test_all_rows_together_become_a_proportional_sample():
    rng = np.random.default_rng(0)
    strata = Strata(rng.integers(PARTS * 4, size=20_000), 4)
    counted = np.ones(20_000, np.bool_)
    first = rng.permutation(np.flatnonzero(strata.numbers < 6))[:200]  # all in six of twenty strata
    free = np.setdiff1d(np.arange(20_000), first)
    drawn = strata.draw(1800, counted, free, 1.0, rng)
    sizes, taken = np.bincount(strata.numbers), np.bincount(strata.numbers[np.concatenate([first, drawn])])
    assert np.abs(taken - sizes / 10).max() < 1 + 1e-9


def test_parts_have_the_same_size_and_clusters_follow_the_budget():
    x, _ = uneven()
    for budget in (60, 700, 100_000):
        strata = strata_of(x, budget)
        assert strata.clusters == min(max(budget // LABELS_PER_CLUSTER, 1), MOST_CLUSTERS)
        np.testing.assert_array_equal(np.bincount(strata.numbers // strata.clusters), [len(x) // PARTS] * PARTS)
    norms = np.linalg.norm((x - x.mean(axis=0)) / x.std(axis=0), axis=1)
    means = [norms[strata_of(x, 60).numbers == part].mean() for part in range(PARTS)]
    assert means == sorted(means)


def test_strata_depend_on_neither_the_units_of_columns_nor_the_threads():
    x, _ = uneven()
    units = (2.0 ** np.arange(-15, 15)).astype(np.float32)
    expected = strata_of(x).numbers
    np.testing.assert_array_equal(strata_of(x * units).numbers, expected)
    np.testing.assert_array_equal(strata_of(x, threads=3).numbers, expected)
    assert (strata_of(x, seed=1).numbers != expected).any()


def test_strata_of_equal_rows_and_of_constant_columns():
    same = strata_of(np.ones((500, 3), np.float32))
    assert same.clusters == len(set(same.numbers.tolist())) == 1
    few = np.zeros((500, 3), np.float32)
    few[::2, 1] = 1
    strata = strata_of(few)
    assert strata.clusters == 2
    drawn = strata.draw(100, np.ones(500, np.bool_), np.arange(500), 1.0, np.random.default_rng(0))
    assert np.bincount(drawn % 2).tolist() == [50, 50]


def test_labeled_rows_are_like_all_rows_where_rows_say_nothing():
    # A simple random sample exceeds the bounds of the chi-squared statistic (4 degrees of freedom) with a probability
    # of .02 and .000003.
    x, y = uneven()
    fifths = np.argsort(np.argsort(np.linalg.norm(x, axis=1))) * PARTS // len(x)

    def unevenness(ids):
        expected = ids.size / PARTS
        return (np.square(np.bincount(fifths[ids], minlength=PARTS) - expected) / expected).sum()

    for seed in range(3):
        journal = all_asked(x, y, seed=seed).journal
        asked = journal.asked()
        assert unevenness(asked[journal.reasons(asked) == "coverage"]) > 30
        assert unevenness(asked) < 12


def test_given_labels_are_made_up_for_and_excluded_rows_do_not_count():
    x, y = uneven()
    numbers = strata_of(x, 800, seed=[0, 14]).numbers  # the strata of a run with seed 0
    given = np.flatnonzero(numbers % 8 < 2)[:300]
    excluded = np.setdiff1d(np.flatnonzero(numbers % 8 == 7), given)[:200]
    course = all_asked(x, y, given=dict(zip(given.tolist(), y[given], strict=True)), exclude=excluded)
    np.testing.assert_array_equal(course._strata.numbers, numbers)
    asked = course.journal.asked()
    assert not np.isin(asked, excluded).any()
    labeled, counted = np.concatenate([given, asked]), np.setdiff1d(np.arange(len(x)), excluded)
    shares = np.bincount(numbers[labeled] % 8, minlength=8) / np.bincount(numbers[counted] % 8, minlength=8)
    assert (np.abs(shares / (labeled.size / counted.size) - 1) < 0.15).sum() >= 6


def test_rows_that_nobody_can_label_are_not_made_up_for():
    x, y = uneven()
    unclear = x[:, 0] > np.quantile(x[:, 0], 0.8)
    journal = all_asked(x, np.where(unclear, None, y)).journal
    asked = journal.asked()
    drawn = asked[journal.reasons(asked) == "random"]
    assert drawn.size > 200
    assert unclear[drawn].mean() < 0.3


def test_no_strata_are_formed_where_no_row_is_random():
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=1500)
    x = (4 * rng.normal(size=(3, 6))[codes] + rng.normal(size=(1500, 6))).astype(np.float32)
    course = all_asked(x, np.array(CLASSES)[codes].astype(object))
    assert set(course.random_shares.values()) == {0.0}
    assert "_strata" not in vars(course)


@pytest.mark.parametrize("kind", ["callable", "arrays"])
def test_a_run_with_own_probabilities_that_is_opened_again_comes_to_the_same_batches(tmp_path, kind):
    x, y = uneven()
    arrays = [np.random.default_rng(number).dirichlet(np.ones(3), len(x)) for number in range(4)]
    probabilities = arrays if kind == "arrays" else lambda number, ids, labels: arrays[number - 2]
    options = {"rounds": 5, "classes": CLASSES, "probabilities": probabilities, "seed": 2}
    expected = all_asked(x, y, **options).journal
    path, batches = tmp_path / "run.state", []
    while sum(batch.size for batch in batches) < 800:
        with cs.active_learning(x, 800, state=path, progress=False, **options) as run:
            batches.append(ids := run.ask())
            run.tell(ids[::3], y[ids[::3]])
        with cs.active_learning(x, 800, state=path, progress=False, **options) as run:
            rest = np.setdiff1d(ids, ids[::3])
            np.testing.assert_array_equal(np.sort(run.ask()), rest)
            run.tell(rest, y[rest])
    assert "random" in expected.reasons(expected.asked())
    np.testing.assert_array_equal(np.sort(np.concatenate(batches)), np.sort(expected.asked()))
