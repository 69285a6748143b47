"""The diagnosis: its figures equal slow twins, its prediction agrees with real draws, its verdict is right."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import coresift as cs
from coresift.diagnosis import CANNOT_TELL, PERCENTILES, UNIFORM, USE, WITH_PROXY, _prepare, judge
from coresift.diagnosis.facts import compare_gaps, explained_share, holder_line, violations
from coresift.diagnosis.gain import join_lone
from coresift.progress import choose
from coresift.types import Interval
from coresift.variance import spread_terms

N, GROUPS, BUDGET = 3_000, 20, 200


def grouped(seed):
    """Rows in well-separated groups, and the group of each."""
    rng = np.random.default_rng(seed)
    group = rng.integers(GROUPS, size=N)
    return (9 * rng.normal(size=(GROUPS, 4))[group] + rng.normal(size=(N, 4))).astype(np.float32), group, rng


# Figures and their twins


def slow_percentile(values, percent):
    values = sorted(values)
    place = percent / 100 * (len(values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def slow_share(losses, labels):
    """1 − (pooled variance in clusters with two or more) / variance, from the definitions."""
    within, degrees = 0.0, 0
    for label in set(labels):
        mine = [loss for loss, other in zip(losses, labels, strict=True) if other == label]
        within += sum((loss - sum(mine) / len(mine)) ** 2 for loss in mine)
        degrees += len(mine) - 1
    mean = sum(losses) / len(losses)
    return 1 - (within / degrees) / (sum((loss - mean) ** 2 for loss in losses) / (len(losses) - 1))


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.floats(0, 100), st.sampled_from([0.0, 0.5, 1.0, 3.0])), min_size=1, max_size=30),
    st.sampled_from([0.5, 1.0, 2.0, 3.0]),
)
def test_holder_percentiles_are_those_of_the_ratios_off_the_centers(pairs, z):
    line = holder_line(np.array([gap for gap, _ in pairs]), np.array([away for _, away in pairs]), z)
    ratios = [gap / away**z for gap, away in pairs if away > 0]
    assert line.z == z
    if not ratios:
        assert np.isnan([*line.percentiles, line.price]).all()
        return
    expected = [slow_percentile(ratios, percent) for percent in PERCENTILES]
    np.testing.assert_allclose(line.percentiles, expected, rtol=1e-9, atol=1e-12)
    mean = sum(away**z for _, away in pairs if away > 0) / len(ratios)
    assert line.price == pytest.approx(expected[3] * mean)


@pytest.mark.slow
def test_the_best_z_is_that_of_the_loss():
    rows, _, rng = grouped(1)
    clustering = cs.cluster(rows, GROUPS, seed=0)
    level = rng.exponential(size=clustering.k)[clustering.labels]
    for z in (1.0, 2.0, 3.0):
        losses = level + clustering.distances.astype(float) ** z
        found = cs.diagnose(rows, losses, BUDGET, clusters=clustering, powers=(1.0, 2.0, 3.0))
        assert found.best_z == z
        line = found.holder[int(z) - 1]
        np.testing.assert_allclose(line.percentiles, 1.0, rtol=1e-4)


def test_violations_are_counted_off_the_centers():
    gaps, away = np.array([1.0, 5.0, 0.1, 7.0]), np.array([1.0, 2.0, 1.0, 0.0])
    found = violations(gaps, away, z=2.0, holder=1.0)
    assert found.value == pytest.approx(1 / 3)  # 5 > 1·4; 1 = 1·1 is no violation; the last is on its center
    # Wilson's interval has the shares p at which the found one is exactly 1.96 standard errors away.
    for end in (found.low, found.high):
        assert abs(found.value - end) == pytest.approx(1.959964 * math.sqrt(end * (1 - end) / 3))
    assert np.isnan(violations(gaps, np.zeros(4), z=2.0, holder=1.0).value)


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(0, 9), st.integers(0, 3)), min_size=2, max_size=20))
def test_gaps_are_compared_with_every_other_probe_when_they_are_few(probes):
    losses, centers = np.array([loss for loss, _ in probes]), np.array([float(other) for _, other in probes])
    found = compare_gaps(losses, centers, np.random.default_rng(0))
    random, nearer = [], []
    for i, j in itertools.permutations(range(len(probes)), 2):
        near, far = abs(losses[i] - centers[i]), abs(losses[i] - losses[j])
        random.append(far)
        nearer.append(1.0 if near < far else 0.5 if near == far else 0.0)
    to_center = [abs(losses[i] - centers[i]) for i in range(len(probes))]
    for values, percentiles in ((to_center, found.center), (random, found.random)):
        np.testing.assert_allclose(percentiles, [slow_percentile(values, percent) for percent in PERCENTILES])
    assert found.nearer == pytest.approx(sum(nearer) / len(nearer))


@pytest.mark.parametrize("seed", range(5))
def test_the_explained_share_and_its_jackknife_equal_their_twins(seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(9, size=40)
    losses = rng.exponential(size=9)[labels] + rng.exponential(size=40)
    found = explained_share(losses, labels)
    share = slow_share(losses.tolist(), labels.tolist())
    without = [
        slow_share(losses[labels != label].tolist(), labels[labels != label].tolist()) for label in set(labels.tolist())
    ]
    error = math.sqrt((len(without) - 1) / len(without) * sum((s - sum(without) / len(without)) ** 2 for s in without))
    assert found.value == pytest.approx(share)
    assert found.standard_error == pytest.approx(error)
    assert found.low == pytest.approx(share - 1.959964 * error)
    assert found.high == pytest.approx(min(share + 1.959964 * error, 1.0))


def test_noise_has_no_explained_share_on_average_and_its_interval_says_so():
    rng = np.random.default_rng(0)
    found = [explained_share(rng.exponential(size=200), rng.integers(50, size=200)) for _ in range(300)]
    values = np.array([one.value for one in found])
    # Four standard errors of a mean of 300: a false alarm in one of 16,000 seeds.
    assert abs(values.mean()) < 4 * values.std() / math.sqrt(300)
    assert np.mean([one.low <= 0 <= one.high for one in found]) > 0.85


def test_nothing_is_said_of_a_share_that_cannot_be_known():
    alone = explained_share(np.array([1.0, 2.0, 5.0]), np.array([0, 1, 2]))
    assert np.isnan(alone.value)
    assert (alone.low, alone.high) == (-np.inf, 1.0)
    assert np.isnan(explained_share(np.ones(4), np.array([0, 0, 1, 1])).value)


# The prediction


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(0.1, 3), st.integers(0, 3)), min_size=2, max_size=14).filter(
        lambda rows: min(Counter(stratum for *_, stratum in rows).values()) > 1
    )
)
def test_spread_terms_equal_a_loop_over_pairs(rows):
    values, weights, strata = (np.array(column) for column in zip(*rows, strict=True))
    expected = 0.0
    for stratum in set(strata.tolist()):
        member = [i for i in range(len(rows)) if strata[i] == stratum]
        pairs = list(itertools.permutations(member, 2))
        both = sum(weights[i] * weights[j] for i, j in pairs)
        square = sum(weights[i] * weights[j] * values[i] * values[j] for i, j in pairs) / both
        expected += sum(weights[i] * values[i] ** 2 for i in member) - sum(weights[member]) * square
    assert spread_terms(values, weights, strata).sum() == pytest.approx(expected, abs=1e-9)


def test_spread_terms_of_equal_weights_are_the_sample_variance():
    values = np.random.default_rng(0).normal(size=9)
    assert spread_terms(values, np.ones(9), np.zeros(9, int)).sum() == pytest.approx(9 * values.var(ddof=1))


@pytest.mark.slow
@given(st.lists(st.integers(0, 6), min_size=2, max_size=30, unique=False).map(sorted))
def test_no_stratum_has_one_row_and_whole_clusters_stay_together(labels):
    strata = join_lone(np.array(labels))
    assert strata[0] == 0
    assert set(np.diff(strata)) <= {0, 1}
    assert np.bincount(strata).min() >= 2
    for label in set(labels):
        assert len(set(strata[np.array(labels) == label])) == 1
    # A stratum of more than one cluster has at most one that could stand alone.
    for stratum in set(strata.tolist()):
        sizes = Counter(label for label, other in zip(labels, strata, strict=True) if other == stratum)
        assert len(sizes) <= 3
        assert sum(size > 1 for size in sizes.values()) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["groups", "noise"])
def test_the_predicted_error_is_that_of_real_selections(kind):
    rows, group, rng = grouped(3)
    noise = rng.exponential(size=N)
    losses = noise + (3 * rng.exponential(size=GROUPS)[group] if kind == "groups" else 0)
    uniform = N * math.sqrt((1 - BUDGET / N) * losses.var(ddof=1) / BUDGET)
    squares, predictions = [], []
    for seed in range(15):  # one clustering is one order, which can be a lucky one for its systematic draws
        clustering = cs.cluster(rows, GROUPS, seed=seed)
        predictions.append(cs.diagnose(rows, losses, BUDGET, seed, clusters=clustering).ratio.value)
        for turn in range(20):
            picked = cs.select(rows, losses, BUDGET, 100 * seed + turn, clusters=clustering)
            squares.append((picked.weights @ losses[picked.ids] - losses.sum()) ** 2)
    measured = math.sqrt(np.mean(squares)) / uniform
    # 300 draws know the error to 4 %, and 15 predictions theirs to about 2 %: three deviations are some 13 %.
    assert np.mean(predictions) == pytest.approx(measured, rel=0.13)


# Verdicts


@pytest.mark.slow
def test_groups_with_losses_of_their_own_are_worth_it():
    for seed in range(10):
        rows, group, rng = grouped(seed)
        found = cs.diagnose(rows, rng.exponential(size=GROUPS)[group] + 0.1 * rng.random(N), BUDGET, seed)
        assert found.verdict == USE
        assert found.gain.value > 0.3
        assert found.explained.low > 0.5
        assert found.gaps.nearer > 0.7


@pytest.mark.slow
def test_losses_unrelated_to_the_rows_are_sampled_uniformly():
    verdicts = []
    for seed in range(20):
        rows, _, rng = grouped(seed)
        found = cs.diagnose(rows, rng.exponential(size=N), BUDGET, seed)
        verdicts.append(found.verdict)
        assert abs(found.gaps.nearer - 0.5) < 0.15
    assert verdicts.count(UNIFORM) >= 18


@pytest.mark.slow
def test_a_loss_in_half_a_percent_of_the_rows_is_never_sampled_uniformly():
    verdicts = []
    for seed in range(12):
        rows, _, rng = grouped(seed)
        losses = 0.01 * rng.random(N)
        # A group of its own, far from the others: uniform probes meet one or two rows of it, the pilot at least one.
        rare = rng.choice(N, N // 200, replace=False)
        rows[rare], losses[rare] = 100 + rng.normal(size=(rare.size, 4)), 10.0
        found = cs.diagnose(rows, losses, 500, seed)
        assert np.count_nonzero(np.append(found.losses, found.center_losses) > 1) > 0
        verdicts.append(found.verdict)
    assert set(verdicts) <= {USE, CANNOT_TELL}


@pytest.mark.slow
def test_a_gain_that_outlying_rows_bring_is_seen():
    """One row in a hundred lies far off and has a loss a hundred times as large: select has a third of the error."""
    verdicts, ratios = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(N, 4)).astype(np.float32)
        rows[:30] *= 6
        losses = rng.exponential(size=N) * np.where(np.arange(N) < 30, 100.0, 1.0)
        found = cs.diagnose(rows, losses, 300, seed)
        verdicts.append(found.verdict)
        ratios.append(found.ratio.value)
    assert verdicts.count(UNIFORM) == 0
    assert np.median(ratios) < 0.8


@pytest.mark.slow
def test_a_proxy_that_knows_the_loss_is_advised_and_one_that_does_not_is_not():
    rows, _, rng = grouped(5)
    losses = rng.exponential(size=N)
    good = cs.diagnose(rows, losses, BUDGET, proxy=losses * rng.uniform(0.8, 1.2, size=N))
    assert good.verdict == WITH_PROXY
    assert good.proxy_ratio.value < 0.5
    assert "proxy" not in good.reason
    bad = cs.diagnose(rows, losses, BUDGET, proxy=rng.exponential(size=N))
    assert bad.verdict == UNIFORM
    assert bad.proxy_ratio.value > 0.95
    assert cs.diagnose(rows, losses, BUDGET).proxy_ratio is None


def test_judging_by_hand():
    def near(value):
        return Interval(value, value - 0.1, value + 0.1, 0.05)

    plain, even = np.random.default_rng(0).random(200), np.ones(200)
    assert judge(plain, even, near(0.8), None)[0] == USE
    assert judge(plain, even, near(0.97), None)[0] == USE
    assert judge(plain, even, near(0.98), None)[0] == UNIFORM
    assert judge(plain, even, near(0.98), near(0.7))[0] == WITH_PROXY
    assert judge(plain, even, near(0.6), near(0.7))[0] == USE
    assert judge(np.zeros(200), even, near(1.0), None)[0] == CANNOT_TELL
    one = np.where(np.arange(200) == 7, 500.0, plain)
    assert judge(one, even, near(0.1), None) == judge(one, even, near(1.1), None)
    assert judge(one, even, near(0.1), None)[0] == CANNOT_TELL
    # Two rows with the most of the variance, but not of the loss: enough to doubt a gain, not to suspect one.
    two = np.where(np.arange(200) < 2, 30.0, plain)
    assert judge(two, even, near(0.5), None)[0] == CANNOT_TELL
    assert judge(two, even, near(1.1), None)[0] == UNIFORM
    # A probe that stands for many rows counts as many.
    heavy = np.where(np.arange(200) == 7, 200.0, 1.0)
    assert judge(np.ones(200), heavy, near(0.8), None)[0] == CANNOT_TELL


def test_equal_losses_are_as_good_uniformly():
    rows, _, _ = grouped(0)
    found = cs.diagnose(rows, np.full(N, 2.0), BUDGET)
    assert found.verdict == UNIFORM
    assert found.ratio.value == 1.0
    assert cs.diagnose(rows, np.zeros(N), BUDGET).verdict == CANNOT_TELL


# What is asked


def test_exactly_the_centers_and_the_probes_are_asked_and_counted():
    rows, _, _ = grouped(0)
    asked = []

    def losses(ids):
        asked.extend(ids.tolist())
        return rows[ids, 0] ** 2

    found = cs.diagnose(rows, losses, BUDGET, seed=3, probes=50)
    assert found.ledger.entries == ((1, "centers", 20), (1, "probes", 50))
    assert sorted(asked) == sorted([*found.centers, *found.probes])
    assert len(set(asked)) == 70
    run = cs.start(cs.diagnose, rows, BUDGET, 3, probes=50)
    while (pending := run.ask()).size:
        run.tell(pending, rows[pending, 0] ** 2)
    np.testing.assert_array_equal(run.asked, asked)
    assert run.result == found
    assert cs.diagnose(rows, losses, BUDGET).ledger.asked == 220


@pytest.mark.slow
def test_every_row_is_probed_when_there_are_few_and_as_often_as_its_chance_says_when_there_are_many():
    rows = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.warns(cs.CoresiftWarning, match="every loss is asked"):
        few = cs.diagnose(rows, rows[:, 0] ** 2, 30)
    assert few.ledger.asked == 60
    clustering = cs.cluster(rows, 3, seed=0)
    counts, chances, even = np.zeros(60), np.zeros(60), np.zeros(60)
    for seed in range(600):
        draft, probes = _prepare(rows, 30, seed, 20, None, choose(False), {"clusters": clustering})
        counts[probes.ids] += 1
        even[probes.ids[probes.even]] += 1
        chances += probes.chance
        assert probes.new.size == 20
        assert np.isin(probes.ids[~probes.even], draft.pilot.ids).all()
    others = np.setdiff1d(np.arange(60), clustering.centers)
    # Each count is binomial(600, about a third), deviation 11.7: five of them, of 57 rows, in one of 30,000 seeds.
    assert np.abs(counts - chances).max() < 5 * 11.7
    assert even[clustering.centers].max() == 0
    assert even[others].min() > 0
    assert (counts - even).sum() == 600 * 6  # the whole pilot, a fifth of the budget


@pytest.mark.slow
def test_a_selection_goes_on_with_the_same_journal(tmp_path):
    rows, _, _ = grouped(0)

    def oracle():
        return cs.Oracle(lambda ids: rows[ids, 0] ** 2, journal=tmp_path / "run.journal", name="first squared")

    first = oracle()
    found = cs.diagnose(rows, first, BUDGET, seed=1)
    assert first.answered == 220
    again = oracle()
    assert cs.diagnose(rows, again, BUDGET, seed=1) == found
    assert again.answered == 0
    later = oracle()
    picked = cs.select(rows, later, BUDGET, seed=1)
    known = np.concatenate([found.centers, found.probes])
    asked = picked.ids[np.isfinite(picked.losses)]
    assert later.answered == np.setdiff1d(asked, known).size < picked.ledger.asked
    assert picked == cs.select(rows, rows[:, 0] ** 2, BUDGET, seed=1)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_diagnosis_whatever_the_threads():
    rows, _, rng = grouped(0)
    losses = rng.random(N)
    found = [
        cs.diagnose(rows, losses, BUDGET, 2, engine=cs.engines.Local(threads=threads), holder=0.1) for threads in (1, 2)
    ]
    assert found[0] == found[1]
    assert found[0] != cs.diagnose(rows, losses, BUDGET, 3, holder=0.1)
    assert not found[0].probes.flags.writeable
    assert found[0].verdict in repr(found[0])


def test_the_budget_follows_the_clusters_if_it_is_not_said():
    rows, _, rng = grouped(0)
    losses = rng.random(N)
    clustering = cs.cluster(rows, 15, seed=0)
    assert cs.diagnose(rows, losses, clusters=clustering).budget == 150
    assert cs.diagnose(rows, losses, clusters=15).budget == 150


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"budget": None}, "budget must say how many rows to select; got none."),
        ({"budget": N}, f"budget must be below the number of rows, {N}; got {N}."),
        ({"losses": None}, "diagnose needs losses."),
        ({"probes": 19}, "probes must be a whole number of at least 20; got 19."),
        ({"powers": ()}, "powers must be one or more finite numbers above 0; got ()."),
        ({"powers": 2}, "powers must be one or more finite numbers above 0; got 2."),
        ({"powers": (1, -1)}, "powers must be a finite number above 0; got -1."),
        ({"holder": -0.1}, "holder must be a finite number of at least 0; got -0.1."),
        ({"proxy": np.ones(7)}, f"proxy must be one number for each of {N} rows; got 7."),
        ({"clusters": 0}, "clusters must be a whole number of at least 1; got 0."),
        ({"clusters": N - 5}, f"There must be at least 20 rows besides the {N - 5} centers to probe; there are 5."),
    ],
)
def test_bad_input_is_one_sentence(options, sentence):
    rows, _, _ = grouped(0)
    arguments = {"losses": np.ones(N), "budget": BUDGET, **options}
    with pytest.raises(cs.InputError) as error:
        cs.diagnose(rows, **arguments)
    assert str(error.value) == sentence


def test_bad_losses_are_named():
    rows, _, _ = grouped(0)
    with pytest.raises(cs.checks.AnswerError, match="losses must be finite and at least 0"):
        cs.diagnose(rows, np.full(N, -1.0), BUDGET)
