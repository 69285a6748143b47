"""Growing aims at the larger size: its law against a slow twin, the estimate's formula, and what it is good for."""

from dataclasses import replace

import numpy as np
import pytest

import coresift as cs
from coresift.aiming import FLOOR, Aim
from coresift.estimation.learned import LearnedDifference, coefficient_before
from coresift.inclusion import fixed_size_inclusion

DESIGN = cs.designs.Systematic()


def slow_chance(size, before, after):
    """π of one row, from the words of the module."""
    earlier, target = min(1.0, before * size), min(1.0, after * size)
    if target == 1:
        return 1.0
    missing = (target - earlier) / (1 - earlier) if earlier < 1 else -np.inf
    return max(missing, FLOOR * target)


@pytest.fixture(scope="module")
def sizes():
    rng = np.random.default_rng(0)
    everywhere = rng.pareto(1.2, size=2_000) + 0.05
    return everywhere / everywhere.sum(), rng.random(2_000) > 0.2


@pytest.mark.parametrize(("planned", "added"), [(100, 300), (300, 100), (600, 20), (5, 1_000)])
def test_the_law_is_that_of_the_slow_twin_and_sums_to_the_rows_added(sizes, planned, added):
    everywhere, left = sizes
    aim, inclusion = Aim.at(everywhere, everywhere[left], planned, added).drawn_by(DESIGN, everywhere[left], added)
    assert inclusion.sum() == pytest.approx(added)
    assert np.all((inclusion > 0) & (inclusion <= 1))
    np.testing.assert_allclose(aim.inclusion(everywhere[left]), inclusion)
    slow = [min(aim.correction * slow_chance(size, aim.before, aim.after), 1.0) for size in everywhere[left]]
    np.testing.assert_allclose(inclusion, slow)
    assert aim.correction == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(
        np.minimum(aim.before * everywhere, 1.0), fixed_size_inclusion(everywhere, planned), rtol=1e-9
    )
    assert np.all(np.diff(inclusion[np.argsort(everywhere[left])]) >= -1e-12)


def test_a_row_reaches_the_target_with_what_it_had_before(sizes):
    """p + (1 − p)·π = u for rows that are not at the floor: the target of a selection of both sizes together."""
    everywhere, left = sizes
    aim = Aim.at(everywhere, everywhere[left], 200, 600)
    earlier, target = (np.minimum(factor * everywhere[left], 1.0) for factor in (aim.before, aim.after))
    chance = aim.inclusion(everywhere[left])
    raised = chance > FLOOR * target * (1 + 1e-9)
    assert raised.mean() > 0.9
    np.testing.assert_allclose((earlier + (1 - earlier) * chance)[raised], target[raised])


def test_equal_sizes_and_rows_without_a_chance():
    everywhere = np.array([0.25, 0.25, 0.25, 0.25, 0.0])
    _, inclusion = Aim.at(everywhere, everywhere[1:], 1, 2).drawn_by(DESIGN, everywhere[1:], 2)
    np.testing.assert_allclose(inclusion, [2 / 3, 2 / 3, 2 / 3, 0.0])
    aim, inclusion = Aim.at(everywhere, everywhere[1:], 4, 3).drawn_by(DESIGN, everywhere[1:], 3)
    np.testing.assert_allclose(inclusion, [1.0, 1.0, 1.0, 0.0])
    np.testing.assert_array_equal(aim.kept(everywhere[:1], fixed=0.5), [0.0])


@pytest.fixture(scope="module")
def concentrated():
    """A few rows have most of the total, as large cities have, and the logarithm of their size is known."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(4_000, 4)).astype(np.float32)
    size = 1 + rng.pareto(1.2, size=4_000)
    rows[:, 0] = 1.5 * np.log(size)
    return rows, size * rng.gamma(3.0, size=4_000)


def grown_from(rows, losses, seed, clustering, budgets=(100, 200, 400)):
    picked = cs.select(rows, losses, budgets[0], seed, clusters=clustering)
    for budget in budgets[1:]:
        picked = cs.grow(picked, losses, budget, rows=rows, clusters=clustering)
    return picked


def slow_total(picked, values):
    """The estimate from its law: each phase's predictions and weighted residuals, with learned shares of the rest."""
    phases, growth = len(picked.phases), picked.growth
    total = float(picked.weights @ values)
    for number in range(2, phases + 1):
        b, member = coefficient_before(picked, values, number), picked.phase == number
        own = picked.carried(number)[member] / picked.inclusion[member]
        total += b * (growth[number - 2] * picked.predicted[number - 2] - own @ picked.predictions[member])
    b = coefficient_before(picked, values, phases)
    kept = 1 - growth[-1]
    for row in range(len(picked)):
        fixed = [picked.carried(number)[row] for number in range(1, phases + 1)]
        first = fixed[0] + fixed[1]
        learned = [first * picked.learned_share[row], first * (1 - picked.learned_share[row]), *fixed[2:]]
        learned = [share * picked.learned_kept[row] / kept for share in learned[:-1]] + [1 - picked.learned_kept[row]]
        assert sum(learned) == pytest.approx(1)
        for number, (now, then) in enumerate(zip(learned, fixed, strict=True), start=1):
            if picked.phase[row] <= number:
                stands_for = 1 / picked.inclusion[row] if picked.phase[row] == number else 1.0
                total += (now - then) * stands_for * (values[row] - b * picked.unseen[row])
    return total


@pytest.mark.slow
def test_a_grown_estimate_is_its_formula(concentrated):
    rows, losses = concentrated
    picked = grown_from(rows, losses, 0, cs.cluster(rows, 10, seed=0))
    values = losses[picked.ids]
    adjusted = LearnedDifference().adjust(picked, values)
    assert adjusted.total(picked) == pytest.approx(slow_total(picked, values))
    # A row that the last phase drew for certain leaves nothing to earlier phases but their part of its prediction.
    certain = (picked.phase == 4) & (picked.inclusion == 1)
    assert certain.any()
    np.testing.assert_array_equal(picked.learned_kept[certain], 0.0)
    predicted = coefficient_before(picked, values, 4) * picked.unseen[certain]
    np.testing.assert_allclose(adjusted.by_phase[1, certain], predicted)
    fixed = replace(picked, learned_kept=np.zeros(0))
    assert LearnedDifference().adjust(fixed, values).total(fixed) != pytest.approx(adjusted.total(picked))
    with pytest.raises(cs.InputError, match="learned parts of earlier phases must be numbers from 0 to 1"):
        replace(picked, learned_kept=np.full(len(picked), 2.0))


@pytest.mark.slow
def test_learned_parts_are_made_without_the_row_s_own_answer(concentrated):
    """If one row's answer changes, its own part changes far less than it would if the answer were used."""
    rows, losses = concentrated
    clustering = cs.cluster(rows, 10, seed=0)
    first = cs.select(rows, losses, 200, 1, clusters=clustering)
    row = first.ids[first.phase == 2][7]
    other = losses.copy()
    other[row] *= 20
    here, there = (
        cs.grow(replace(first, losses=answers[first.ids]), answers, 400, rows=rows, clusters=clustering)
        for answers in (losses, other)
    )
    neighbors = np.isin(here.ids, first.ids[first.clusters == clustering.labels[row]]) & (here.ids != row)
    own = here.ids == row
    before, after = here.learned_kept, there.learned_kept[np.searchsorted(there.ids, here.ids[neighbors | own])]
    change = np.abs(after / before[neighbors | own] - 1)
    assert change[here.ids[neighbors | own] == row][0] < change[here.ids[neighbors | own] != row].mean()


@pytest.mark.slow
def test_the_bias_is_small_and_intervals_are_as_narrow_as_new_ones(concentrated):
    """150 seeds: the mean error is judged at four of its standard errors (false alarms: 1 in 15,000) plus a tenth.

    The ratio of widths is about .98, and was 1.23 before growing aimed at the larger size; by chance it varies by some
    2 %. Fewer than 129 of 150 covered has a probability of 1 in 100,000 at 95 %.
    """
    rows, losses = concentrated
    clustering, fresh_clusters, errors, widths, covered = cs.cluster(rows, 10), cs.cluster(rows, 40), [], [], 0
    for seed in range(150):
        picked = grown_from(rows, losses, seed, clustering)
        fresh = cs.select(rows, losses, 400, seed, clusters=fresh_clusters)
        ours, new = (cs.estimate(one, losses[one.ids]).total for one in (picked, fresh))
        errors.append(ours.value - losses.sum())
        widths.append((ours.high - ours.low, new.high - new.low))
        covered += ours.low <= losses.sum() <= ours.high
    assert abs(np.mean(errors)) < (4 / np.sqrt(150) + 0.1) * np.std(errors)
    ours, new = np.mean(widths, axis=0)
    assert ours < 1.1 * new
    assert covered >= 129
