"""The law of weights: enumeration of every outcome of three phases, and what must hold for any number of them."""

import itertools

import numpy as np
import pytest
from enumeration import distribution
from hypothesis import given
from hypothesis import strategies as st

from coresift.checks import InputError
from coresift.designs import Pivotal, Poisson, Systematic
from coresift.phases import (
    EARLIER,
    grow_shares,
    phase_values,
    phase_weights,
    poisson_variance,
    split_last_share,
    sum_of_phases,
)

LOSSES = np.array([0.5, 1.0, 0.2, 3.0, 2.0, 7.0])


def sizes_for(phase, seen):
    """Sizes that depend on every answer so far, as a learned score's do."""
    base = np.array([[1.0, 2, 1, 1, 3, 2], [2, 1, 1, 3, 1, 1], [1, 1, 2, 1, 1, 3]][phase])
    return base * (1 + LOSSES[list(seen)].sum() * np.arange(1, 7) / 10) if seen else base


def outcomes(design, counts, phase=0, seen=(), chance=1.0, history=()):
    """Yield (probability, history) of every outcome; a history has one (ids, inclusion of all rows) per phase."""
    if phase == len(counts):
        yield chance, history
        return
    left = np.setdiff1d(np.arange(LOSSES.size), seen).astype(int)
    inclusion = design.inclusion(sizes_for(phase, seen)[left], counts[phase])
    for sample, probability in distribution(design, inclusion).items():
        if probability > 0:
            ids = left[np.array(sorted(position for position, _ in sample), int)]
            full = np.zeros(LOSSES.size)
            full[left] = inclusion
            drawn, steps = (*seen, *ids.tolist()), (*history, (ids, full))
            yield from outcomes(design, counts, phase + 1, drawn, chance * probability, steps)


def weights_of(history, shares):
    ids = np.concatenate([step[0] for step in history])
    phase = np.concatenate([np.full(step[0].size, number + 1) for number, step in enumerate(history)])
    inclusion = np.concatenate([step[1][step[0]] for step in history])
    return ids, phase, inclusion, phase_weights(phase, inclusion, shares[ids])


SHARES = np.array([[0.2, 0.3, 0.5], [0.5, 0.5, 0], [0, 0, 1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.05, 0.2, 0.75]])


@pytest.mark.slow
@pytest.mark.parametrize("design", [Systematic(), Pivotal(), Poisson()], ids=lambda design: type(design).__name__)
def test_every_row_weighs_1_on_average_over_three_phases(design):
    total, mass = np.zeros(LOSSES.size), 0.0
    for chance, history in outcomes(design, (1, 2, 1)):
        ids, _, _, weights = weights_of(history, SHARES)
        total[ids] += chance * weights
        mass += chance
    assert mass == pytest.approx(1)
    np.testing.assert_allclose(total, 1, atol=1e-7)


@pytest.mark.parametrize("split", [grow_shares, split_last_share])
def test_a_grown_selection_is_unbiased(split):
    two = np.array([[0.3, 0.7], [0.5, 0.5], [0, 1], [0.1, 0.9], [0.3, 0.7], [1, 0]])
    shares = split(two, 3, 1)
    total = np.zeros(LOSSES.size)
    for chance, history in outcomes(Systematic(), (1, 2, 1)):
        ids, _, _, weights = weights_of(history, shares)
        total[ids] += chance * weights
    np.testing.assert_allclose(total, 1, atol=1e-7)


@pytest.mark.slow
def test_the_variance_is_the_sum_over_phases_and_is_estimated_without_bias():
    """Poisson draws: enumerate the true variance of the total, that of each phase, and the mean of the estimate."""
    truth = LOSSES.sum()
    variance = estimated = 0.0
    of_phase = np.zeros(3)
    for chance, history in outcomes(Poisson(), (1, 2, 1)):
        ids, phase, inclusion, weights = weights_of(history, SHARES)
        variance += chance * (weights @ LOSSES[ids] - truth) ** 2
        estimated += chance * poisson_variance(LOSSES[ids], phase, inclusion, SHARES[ids])
        for k in (1, 2, 3):
            member, expanded = phase_values(LOSSES[ids], phase, inclusion, SHARES[ids], k)
            before = ids[phase < k]
            error = expanded.sum() + SHARES[before, k - 1] @ LOSSES[before] - SHARES[:, k - 1] @ LOSSES
            of_phase[k - 1] += chance * error**2
            assert member.size == (phase == k).sum()
    assert variance == pytest.approx(sum_of_phases(of_phase.tolist()))
    assert estimated == pytest.approx(variance)


@given(st.integers(1, 5), st.data())
def test_weights_agree_with_the_sum_written_out(phases, data):
    shares = np.array(data.draw(st.lists(st.floats(0.1, 1), min_size=phases, max_size=phases)))
    shares = shares / shares.sum()
    for j in range(phases + 1):
        slow = 1.0 if j == 0 else shares[j - 1] / 0.3 + sum(shares[k] for k in range(j, phases))
        assert phase_weights([j], [0.3], [shares])[0] == pytest.approx(slow)


def test_two_phases_are_the_law_of_a_pilot_and_a_draw():
    share = 0.3
    weights = phase_weights([1, 2, 2], [0.2, 0.4, 0.4], [[share, 1 - share]] * 3, [1, 1, 2])
    assert weights.tolist() == pytest.approx([1 - share + share / 0.2, 0.7 / 0.4, 2 * 0.7 / 0.4])


@given(st.integers(1, 10_000), st.integers(1, 10_000), st.integers(1, 10_000))
def test_growing_keeps_the_proportions_of_the_first_phases(planned, first, second):
    twice = grow_shares(grow_shares([[0.2, 0.8]], planned, first), planned + first, second)
    np.testing.assert_allclose(twice[:, 1], 4 * twice[:, 0])
    np.testing.assert_allclose(twice.sum(axis=1), 1)
    # A row of an earlier phase never counts more than a row of a later one.
    per_row = np.array([twice[0, :2].sum(), *twice[0, 2:]]) / (planned, first, second)
    assert np.all(np.diff(per_row) > -1e-12)


def test_sizes_decide_how_much_a_phase_counts():
    """With equal probabilities the best shares are those of the rows: 100, 400 and 1,500 of 2,000."""
    kept = EARLIER * 500 / (EARLIER * 500 + 1_500)
    np.testing.assert_allclose(grow_shares([[0.2, 0.8]], 500, 1_500), [[0.2 * kept, 0.8 * kept, 1 - kept]])

    def variance(shares, before=1.0):
        """The variance if rows of the first two phases have `before` times the variance of the others."""
        return sum(a**2 / n * v for a, n, v in zip(shares[0], (100, 400, 1_500), (before, before, 1), strict=True))

    by_size, grown = [[0.05, 0.2, 0.75]], grow_shares([[0.2, 0.8]], 500, 1_500)
    assert variance(by_size) == pytest.approx(1 / 2_000)
    assert variance(grown) < 1.03 * variance(by_size)
    assert variance(grown, before=4.0) < 0.85 * variance(by_size, before=4.0)
    assert variance(split_last_share([[0.2, 0.8]], 400, 1_500)) > 1.4 * variance(grown)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([3], [0.5], [[0.5, 0.5]]), "phase must be from 0 to 2"),
        (([1], [0.0], [[1.0]]), "inclusion must be probabilities above 0"),
        (([1], [0.5], [[0.5, 0.4]]), "shares must be numbers of at least 0 that sum to 1"),
        (([1, 1], [0.5], [[1.0]]), "one entry per selected row"),
        (([1], [0.5], [1.0]), "one line per row and one column per phase"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(InputError, match=message):
        phase_weights(*arguments)


def test_all_phases_are_enumerated():
    """The enumeration itself: as many outcomes as three Poisson phases have, each row in at most one."""
    histories = [history for _, history in outcomes(Poisson(), (1, 2, 1))]
    assert len(histories) > 4**5
    for first, second in itertools.pairwise(histories[0]):
        assert not set(first[0]) & set(second[0])
